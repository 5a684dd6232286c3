package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/clock"
	"paceline.internal/emulators/twilio"
	"paceline.internal/platform/config"
	"paceline.internal/platform/telemetry"
)

// emulatorsCommand runs the two vendors alone, for services that run elsewhere.
type emulatorsCommand struct {
	QStash   string `name:"qstash" default:"127.0.0.1:8081" help:"Where QStash listens; off for none, with ALARMS=postgres."`
	Twilio   string `default:"127.0.0.1:8082" help:"Where Twilio listens; a phone is a POST to /phone."`
	Show     bool   `help:"Print what the emulated phones send and get."`
	LogLevel string `enum:"debug,info,warn,error" default:"info" help:"Least severe line that is shown: ${enum}."`
	Health   bool   `help:"Only ask the emulators that listen there whether they serve; for a container's health check."`
}

// Help is the long text of --help.
func (e *emulatorsCommand) Help() string {
	return `PUBLIC_BASE_URL is the origin of the gateway, as its own environment has it: messages that the phones send are posted there, and
signatures are computed from it. The accounts are those of "paceline up", and the variables that give them to the services are printed; the
emulators forget everything when they stop.

Their credentials are public. Put them where only the services and you can reach them.`
}

const (
	// emulatorsStop bounds the wait for callbacks in flight: as long as Twilio waits for one.
	emulatorsStop = 15 * time.Second
	// emulatorsTimeout bounds the question of a health check.
	emulatorsTimeout = 4 * time.Second
	// inboundPath has the connection overrides that docs/configuration.md has an operator set at Twilio.
	inboundPath = "/api/webhooks/twilio/inbound#rt=4000&rc=3&rp=all"
)

// Run serves until SIGTERM or Ctrl-C.
func (e *emulatorsCommand) Run(ctx context.Context, t terminal) (err error) {
	off := e.QStash == "off"
	if e.Health {
		problems := []error{serves(ctx, "Twilio", e.Twilio)}
		if !off {
			problems = append(problems, serves(ctx, "QStash", e.QStash))
		}
		return errors.Join(problems...)
	}
	origin, err := config.ParseOrigin(t.environ["PUBLIC_BASE_URL"])
	if err != nil {
		return fmt.Errorf("PUBLIC_BASE_URL %w", err)
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(e.LogLevel)); err != nil {
		return err
	}
	vendors := stack.VendorConfig{
		Clock: clock.System(), OnTwilio: e.phones(t), WithoutQStash: off,
		Log: telemetry.NewLogger(os.Stderr, telemetry.Config{LogLevel: level}, "emulators"),
	}
	var network net.ListenConfig
	if !off {
		if vendors.QStashListener, err = network.Listen(ctx, "tcp", e.QStash); err != nil {
			return fmt.Errorf("--qstash: %w", err)
		}
	}
	if vendors.TwilioListener, err = network.Listen(ctx, "tcp", e.Twilio); err != nil {
		err = fmt.Errorf("--twilio: %w", err)
		if !off {
			err = errors.Join(err, vendors.QStashListener.Close())
		}
		return err
	}
	running, err := stack.StartVendors(ctx, vendors)
	if err != nil {
		return err
	}
	defer func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), emulatorsStop)
		defer cancel()
		err = errors.Join(err, running.Stop(bounded))
	}()
	running.Twilio.SetInboundURL(origin.String() + inboundPath)
	qstash := ""
	if !off {
		qstash = "QStash at " + running.QStashURL + ", "
	}
	if _, err := fmt.Fprintf(
		t.out, "%sTwilio at %s; callbacks to %s\nFor the services:\n%s", qstash, running.TwilioURL, origin, exports(running.Environ()),
	); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// phones prints what the emulated phones send and get, with --show.
func (e *emulatorsCommand) phones(t terminal) func(twilio.Event) {
	return (&upCommand{Quiet: !e.Show}).phone(t)
}

// serves sends any request to a port of this machine: an emulator that answers "no such page" is well.
func serves(ctx context.Context, name, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, emulatorsTimeout)
	defer cancel()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort("localhost", port)+"/", http.NoBody)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return fmt.Errorf("%s does not answer: %w", name, err)
	}
	return response.Body.Close()
}
