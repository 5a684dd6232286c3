package chaos

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/clock"
	"paceline.internal/emulators/wire"
	"paceline.internal/gateway"
	"paceline.internal/platform/process"
	"paceline.internal/services/messaging"
	"paceline.internal/services/onboarding"
)

// world is one whole system with its people, on its own clock. Nothing in it waits for real time, except for a send that
// hangs, so hours of it pass in seconds.
type world struct {
	*population

	shift     shift
	openUntil time.Time // no leap is tried before
	clock     *clock.Settable
	pulse     *pulse

	messaging, onboarding, gateway *running
	second                         *running // replica of onboarding; nil without one
	silence                        worldSilence
	data                           *worldData

	strikes map[string]int // disruptions by kind
	scratch string         // a folder for its files
}

// began is the time at which every world begins.
var began = time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)

// How the services of a world are set up. Waits that are measured on the machine's clock are short: no process is slow here.
var worldEnviron = map[string]string{
	"INBOUND_SWEEP_INTERVAL": "0",  // a world's people say again what the gateway did not take, and would be heard twice
	"TWILIO_TIMEOUT":         "3s", // long enough that nothing but a send that hangs ever reaches it
}

// loops of each service that rest on the world's clock: the jobs, outreach, the runs, the retention of jobs and outreach, the relay,
// the sweeper, the alarms of the database with their retention, the organisations, their settings, the counts of flows, and what tells
// holds, of goals the relay, the sweeper, the devices and the offers, and of events the sequencer, the readers, the deliveries and
// their retention; the reconciler, the counter, the responder, the outbound queue and its retention.
const (
	onboardingLoops = 22
	messagingLoops  = 5
)

// newWorld builds everything up to the first instant.
func newWorld(ctx context.Context, shift shift, seed uint64, people int, data *worldData) (_ *world, err error) {
	w := &world{shift: shift, clock: clock.NewSettable(began), data: data, strikes: map[string]int{}}
	w.population = newPopulation(context.WithoutCancel(ctx), dice(seed), w.clock, shift.tempo)
	defer func() {
		if err != nil {
			err = errors.Join(err, w.end(context.WithoutCancel(ctx)))
		}
	}()
	w.pulse = newPulse(w.clock)
	if w.scratch, err = os.MkdirTemp("", "paceline-world-"); err != nil {
		return w, err
	}
	if w.flowFile, w.flow, err = writeFlow(w.scratch, drawn(w.dice)); err != nil {
		return w, err
	}
	vendors := stack.VendorConfig{Clock: w.clock, Log: slog.New(slog.DiscardHandler), OnTwilio: w.observe}
	if err := w.openVendors(ctx, vendors, shift.odds); err != nil {
		return w, err
	}
	if err := w.serve(ctx, engineOf(seed)); err != nil {
		return w, err
	}
	if err := w.openPools(ctx, data.onboarding, data.messaging); err != nil {
		return w, err
	}
	return w, w.gather(people)
}

// engineOf returns who rings the alarms of a world: QStash in half of them, the database, or both.
func engineOf(seed uint64) string {
	return []string{"qstash", "qstash", "qstash,postgres", "postgres"}[seed%4]
}

// serve reserves the ports, configures the services and starts them. engine rings the alarms.
func (w *world) serve(ctx context.Context, engine string) (err error) {
	if w.messaging, err = reserve(stack.Messaging, messagingLoops); err != nil {
		return err
	}
	if w.onboarding, err = reserve(stack.Onboarding, onboardingLoops); err != nil {
		return err
	}
	if w.gateway, err = reserve(stack.Gateway, 0); err != nil {
		return err
	}
	if w.shift.second {
		if w.second, err = reserve(secondOnboarding, onboardingLoops); err != nil {
			return err
		}
	}
	environ, err := w.connect(stack.Addresses{
		Gateway: w.gateway.addr, GatewayOps: w.gateway.opsAddr, Onboarding: w.onboarding.addr, OnboardingOps: w.onboarding.opsAddr,
		Messaging: w.messaging.addr, MessagingOps: w.messaging.opsAddr,
	}, w.data.onboarding, w.data.messaging)
	if err != nil {
		return err
	}
	environ = merged(environ, worldEnviron)
	environ["ALARMS"] = engine
	if w.tempo.days > 0 {
		environ["ALARM_RELAY_INTERVAL"] = "4s" // half of all instants would be the relay's, which few have alarms for
		environ["JOBS_RETENTION"] = "8760h"    // the rows of outreach are evidence
	}
	wired := map[string]map[string]string{} // by service: what is different for it
	if wiring, ok := drawWire(w.dice); ok {
		var value string
		if w.silence.wire, value, err = wiring.open(ctx, environ); err != nil {
			return err
		}
		if w.silence.wiring = wiring; strings.HasSuffix(wiring.variable, "_DATABASE_URL") {
			w.silence.wire.Passes(wire.AsksPostgresNothing)
		}
		wired[wiring.service] = map[string]string{wiring.variable: value}
	}
	messagingCfg, err1 := messaging.LoadConfig(merged(environ, wired[stack.Messaging]))
	onboardingCfg, err2 := onboarding.LoadConfig(merged(environ, wired[stack.Onboarding]))
	gatewayCfg, err3 := gateway.LoadConfig(merged(environ, wired[stack.Gateway]))
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	w.messaging.run = func(ctx context.Context, d process.Deps) error { return messaging.Run(ctx, messagingCfg, d) }
	w.onboarding.run = func(ctx context.Context, d process.Deps) error { return onboarding.Run(ctx, onboardingCfg, d) }
	if w.second != nil {
		w.second.run = w.onboarding.run
	}
	w.gateway.run = func(ctx context.Context, d process.Deps) error { return gateway.Run(ctx, gatewayCfg, d) }
	for _, s := range w.services() {
		s.deps = process.Deps{Log: slog.New(slog.DiscardHandler), Now: w.clock.Now, Rest: w.pulse.rest, PassBound: passBound}
		if err := s.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) services() []*running {
	return slices.DeleteFunc([]*running{w.messaging, w.onboarding, w.second, w.gateway}, func(s *running) bool { return s == nil })
}

// end stops everything.
func (w *world) end(ctx context.Context) error {
	w.population.end()
	w.silence.end()
	var problems []error
	if w.vendors != nil {
		w.vendors.HangUp()
	}
	for _, s := range slices.Backward(w.services()) {
		problems = append(problems, s.close())
	}
	if w.silence.wire != nil {
		problems = append(problems, w.silence.wire.Close())
	}
	if w.vendors != nil {
		problems = append(problems, w.vendors.Stop(ctx))
	}
	w.closePools()
	if w.scratch != "" {
		problems = append(problems, os.RemoveAll(w.scratch))
	}
	return errors.Join(problems...)
}

// turningPoints are instants at which a person in a world of months begins, changes or ends something; none in one that lasts minutes.
func (w *world) turningPoints() []time.Duration {
	var all []time.Duration
	for at := w.tempo.days.Truncate(day); at > 0; at -= day / 2 { // the runs
		if oneIn(w.dice.roll("turning point", at), 4) {
			all = append(all, at-6*time.Hour-30*time.Second)
		}
	}
	for _, p := range w.cast {
		if !w.shift.leaps {
			return nil
		}
		if p.life != nil {
			for n, one := range p.life.doings {
				if oneIn(w.dice.roll("turning point", p.i, n), 40) {
					all = append(all, one.at)
				}
			}
			continue
		}
		for _, after := range []time.Duration{0, p.replies[asksFirst].after, p.stop, p.hold, p.hold + p.release, p.reset} {
			if r := w.dice.roll("turning point", p.i, after); after > 0 && oneIn(r, 3) {
				all = append(all, p.start+after)
			}
		}
	}
	return all
}

// digest is the same for every run of the same seed: what each person heard, when, and how their sessions ended. Left out are
// those few to whom two things happened at the same instant: which of the two comes first is a real race, in every run anew.
func (w *world) digest(v Verdict) string {
	hash := sha256.New()
	for _, p := range w.cast {
		if !p.races() {
			_, _ = fmt.Fprintln(hash, p.i, p.story(), v.ends[p.profile]) // a hash never fails to write
		}
	}
	return hex.EncodeToString(hash.Sum(nil)[:8])
}
