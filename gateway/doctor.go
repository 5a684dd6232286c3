package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"paceline.internal/platform/rpc"
	"paceline.internal/platform/telemetry"
)

// errUnhealthy is returned by Doctor when at least one of its lines says FAIL.
var errUnhealthy = errors.New("the gateway would not work like this; see the lines that say FAIL")

// Doctor checks what a gateway with this configuration depends on and writes one line for each, with how to mend it. The
// configuration itself has been checked by LoadConfig.
func Doctor(ctx context.Context, cfg Config, out io.Writer) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	tel, err := telemetry.New(ctx, telemetry.Options{Service: "gateway-doctor", Output: io.Discard, Registry: telemetry.NewRegistry()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tel.Shutdown(ctx)) }()
	healthy := true
	report := func(what string, problem error, mend string) {
		line := fmt.Sprintf("ok    %s\n", what)
		if problem != nil {
			healthy = false
			line = fmt.Sprintf("FAIL  %s: %v\n      %s\n", what, problem, mend)
		}
		_, _ = io.WriteString(out, line)
	}

	report("every variable is set and well-formed", nil, "")
	report("PUBLIC_BASE_URL "+cfg.PublicBaseURL.String(), reachable(cfg.PublicBaseURL.String()),
		"QStash and Twilio must reach it from the internet; use https and a public name, or emulators on this machine")
	_, problem := rpc.LoadTLS(cfg.TLS)
	report("mTLS files", problem, "give all three GRPC_TLS_* files of this process, or none")
	if problem == nil {
		doctorUpstreams(ctx, cfg, tel, report)
	}
	if cfg.JWKSURL != "" {
		report("the keys at API_JWKS_URL", hasKeys(ctx, cfg.JWKSURL), "open the URL from this machine; it must answer with a JSON Web Key Set")
	}
	if !healthy {
		return errUnhealthy
	}
	return nil
}

// doctorUpstreams asks both services for their health, and thereby whether the network and mTLS let us.
func doctorUpstreams(ctx context.Context, cfg Config, tel *telemetry.Telemetry, report func(string, error, string)) {
	tokens, err := rpc.NewTokens(cfg.ServiceAuthSecret, time.Now) //nolint:forbidigo // a health check needs no token, and no clock of ours
	if err != nil {
		report("SERVICE_AUTH_SECRET", err, "make one with: openssl rand -hex 32")
		return
	}
	onboarding, messaging, err := dial(cfg, tokens, tel)
	if err != nil {
		report("connections to the services", err, "check ONBOARDING_ADDR, MESSAGING_ADDR and the GRPC_TLS_* files")
		return
	}
	for _, u := range []struct {
		upstream

		addr, variable string
	}{
		{upstream{"onboarding", onboarding}, cfg.OnboardingAddr.String(), "ONBOARDING_ADDR"},
		{upstream{"messaging", messaging}, cfg.MessagingAddr.String(), "MESSAGING_ADDR"},
	} {
		once, cancel := context.WithTimeout(ctx, 3*time.Second)
		report(u.name+" at "+u.addr, errors.Join(u.serving(once), nil), "start the "+u.name+" service, or set "+u.variable+" to where it is")
		cancel()
		if err := u.Close(); err != nil {
			report("closing the connection to "+u.name, err, "")
		}
	}
}

// reachable says what is plainly wrong with a public origin; that it really leads here only a callback can show.
func reachable(origin string) error {
	u, err := url.Parse(origin)
	if err != nil {
		return err
	}
	switch host := u.Hostname(); {
	case strings.Contains(host, "_"):
		return errors.New("Twilio refuses a host with an underscore (21609)") //nolint:staticcheck // a name
	case u.Scheme == "http" && host != "localhost" && !strings.HasPrefix(host, "127.") && host != "::1":
		return errors.New("plain http sends signatures and phone numbers over the internet in the open")
	}
	return nil
}

// hasKeys fetches the key set once.
func hasKeys(ctx context.Context, url string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	keys, err := newJWKS(ctx, slog.New(slog.DiscardHandler), url)
	if err != nil {
		return err
	}
	found, err := keys.keys.Storage().KeyReadAll(ctx)
	if err == nil && len(found) == 0 {
		err = errors.New("no key was found")
	}
	return err
}
