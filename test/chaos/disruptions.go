package chaos

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/wire"
)

// disruption is something that befalls the system itself, at its own instant.
type disruption struct {
	at     time.Duration // since the world began
	whose  string
	kind   string
	last   time.Duration // how long an outage lasts
	manner wire.Manner   // of a silence
}

// name returns what it is called in a report.
func (d disruption) name() string { return d.whose + d.kind }

// The kinds of disruptions. A service is restarted when its database comes back, as by an orchestrator that has seen it unready:
// which of its old connections would be met first is nothing that a seed could repeat. Connections that break under a
// living service are the matter of `chaos --processes` and of the crash matrix.
const (
	restarts = " restarted"
	losesDB  = "'s postgres away"
	findsDB  = "'s postgres back"
)

// fallsSilent has the world's wire fall silent. What is under way on it waits for its own deadlines, and those are on the machine's
// clock. So that a world stays quick, and the same in every run:
//   - few worlds have a wire, each only one, and it is silent once;
//   - the silence strikes one instant: the first at which a process waits for the wire, and everything else of that instant has come to
//     it (sameInstant). The world's clock stands still meanwhile;
//   - then new connections work again. One that was struck never speaks again: a caller that waits on it has only its own
//     bound, and without one the world does not come to rest (patience), which is a failure. gRPC has one connection for all calls
//     and deadlines up to 25 s: its is cut after heldFor, when those of texts and of the loops have passed.
//
// What crosses at one instant is the same in every run, so what is struck is as well. Silence that lasts is the matter of
// chaos --processes; that of QStash's own calls is played on the world's clock, by its emulator.
const fallsSilent = "silent"

const (
	sameInstant = time.Second
	heldFor     = 5 * time.Second
	// passBound bounds the silence of a loop's pass in a world: longer than the calls that loops wait for.
	passBound = 6 * time.Second
)

var disruptionKinds = []disruption{
	{whose: stack.Messaging, kind: restarts},
	{whose: stack.Onboarding, kind: restarts},
	{whose: stack.Gateway, kind: restarts},
	{whose: qstashVendor, kind: restarts},
	{whose: stack.Onboarding, kind: losesDB},
	{whose: stack.Messaging, kind: losesDB},
}

const (
	qstashVendor     = "qstash"
	secondOnboarding = "second onboarding"
)

// drawWire draws the wire of a world that falls silent; few have one.
func drawWire(d dice) (wiring, bool) {
	r := d.roll("wire")
	return pick(r, wirings), oneIn(r, 4)
}

// drawDisruptions draws the disruptions of one world: over the time in which most of its conversations happen, or in the minute after each
// of these instants.
func drawDisruptions(d dice, after []time.Duration) []disruption {
	r := d.roll("troubles")
	var all []disruption
	for range 3 + r.IntN(5) + len(after) {
		at := between(r, time.Second, 2*time.Minute) + grid - time.Microsecond // their own instants, the last of every grid
		one := pick(r, disruptionKinds)
		one.at, one.last = at, between(r, grid, 45*time.Second)
		all = append(all, one)
	}
	for i, at := range after {
		all[i].at = at.Truncate(grid) + all[i].at/2 - all[i].at/2%grid + grid - time.Microsecond
	}
	if w, wired := drawWire(d); wired {
		r := d.roll("silence")
		t := disruption{at: between(r, time.Second, time.Minute) + grid - time.Microsecond, kind: fallsSilent, manner: pick(r, wire.Manners)}
		if strings.HasSuffix(w.variable, "_DATABASE_URL") && oneIn(r, 2) { // at a whole half minute every loop wakes: it strikes one of them
			t.at = time.Duration(1+r.IntN(2))*30*time.Second + phase(pick(r, []time.Duration{0, time.Second, 5 * time.Second, 15 * time.Second})) +
				time.Microsecond
		}
		if len(after) > 0 {
			t.at += pick(r, after).Truncate(time.Minute)
		}
		all = append(all, t)
	}
	return sorted(all)
}

func sorted(all []disruption) []disruption {
	slices.SortStableFunc(all, func(a, b disruption) int { return int(a.at - b.at) })
	return all
}

// disrupt has a disruption happen now, and returns what follows from it. It is called while nothing moves; what moves next finds
// the world as it is then.
func (w *world) disrupt(ctx context.Context, t disruption) (later []disruption, err error) {
	w.silence.end() // that nothing has met so far; a service would not start over a silent wire
	if t.kind == fallsSilent {
		w.silence.begin(t.manner)
		return nil, nil
	}
	if w.second != nil && t.whose == stack.Onboarding && t.kind == restarts && oneIn(w.dice.roll("replica", t.at), 2) {
		t.whose = secondOnboarding
	}
	w.strikes[t.name()]++
	switch {
	case t.kind == losesDB:
		return []disruption{{at: t.at + t.last, whose: t.whose, kind: findsDB}}, w.data.allow(ctx, t.whose, false)
	case t.kind == findsDB:
		if err := w.data.allow(ctx, t.whose, true); err != nil {
			return nil, err
		}
		if t.whose == stack.Onboarding && w.second != nil {
			err = w.restart(ctx, secondOnboarding)
		}
		return nil, errors.Join(err, w.restart(ctx, t.whose))
	case t.whose == qstashVendor:
		w.vendors.QStash.Restart()
		return nil, nil
	default:
		return nil, w.restart(ctx, t.whose)
	}
}

// restart stops a service and starts it again, unless its database is away: then it would only refuse to start until that is
// back, when it is restarted anyway.
func (w *world) restart(ctx context.Context, name string) error {
	s := w.services()[slices.IndexFunc(w.services(), func(s *running) bool { return s.name == name })]
	if w.data.closed[name] || s == w.second && w.data.closed[stack.Onboarding] {
		return nil
	}
	// Before the gateway stops, or it would wait for them; and after it, for a connection that was being put aside at that moment.
	w.hangUp(s)
	if err := s.stop(); err != nil {
		return err
	}
	w.hangUp(s)
	return s.start(ctx)
}

// hangUp closes the idle connections to the gateway.
func (w *world) hangUp(s *running) {
	if s == w.gateway {
		w.vendors.HangUp()
		w.api.HTTP.CloseIdleConnections()
	}
}

// worldSilence is the silence of a world's wire.
type worldSilence struct {
	wiring

	wire *wire.Wire // nil in a world without one
	on   bool
	met  bool // something waited for the wire while it was silent
}

func (s *worldSilence) begin(m wire.Manner) {
	s.on = true
	s.wire.Freeze(m, false)
}

// end ends a silence that nothing has met, and what is left of one that was: nothing moves, so no call waits for a dead connection any
// more, but a pool that is closed would wait fifteen seconds until pgx has let go of it.
func (s *worldSilence) end() {
	switch {
	case s.on:
		s.on = false
		s.wire.Thaw()
	case s.met:
		s.wire.Cut()
	}
}

// settle has everything come to rest. It ends a silence that keeps something from it.
func (s *worldSilence) settle(ctx context.Context, settle func(context.Context) error) error {
	if !s.on {
		return settle(ctx)
	}
	watched, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { s.watch(watched) })
	err := settle(ctx)
	stop()
	watch.Wait()
	return err
}

func (s *worldSilence) watch(settling context.Context) {
	const step = 10 * time.Millisecond
	for struck := time.Duration(0); struck < sameInstant; struck += step {
		if !pause(settling, step) {
			return
		}
		if !s.wire.Struck() {
			struck = 0
		}
	}
	s.on, s.met = false, true
	if !strings.HasSuffix(s.variable, "_ADDR") {
		s.wire.Abandon()
		return
	}
	pause(settling, heldFor-sameInstant)
	s.wire.CutHeld()
}
