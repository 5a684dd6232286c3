package chaos

import (
	"context"
	"slices"
	"time"
)

// trouble is something that befalls the system itself, at an instant of its own.
type trouble struct {
	at   time.Duration // since the world began
	kind string
	last time.Duration // how long an outage lasts
}

// The kinds of troubles. A service whose database comes back is restarted, as an orchestrator does that has seen it unready:
// which of its old connections would be met first is nothing that a seed could repeat. Connections that break under a
// living service are the matter of `chaos --processes` and of the crash matrix.
const (
	restartsMessaging  = "messaging restarted"
	restartsOnboarding = "onboarding restarted"
	restartsGateway    = "gateway restarted"
	restartsQStash     = "qstash restarted"
	losesOnboardingDB  = "onboarding's postgres away"
	losesMessagingDB   = "messaging's postgres away"
	findsOnboardingDB  = "onboarding's postgres back"
	findsMessagingDB   = "messaging's postgres back"
)

var troubleKinds = []string{
	restartsMessaging, restartsOnboarding, restartsGateway, restartsQStash, losesOnboardingDB, losesMessagingDB,
}

// drawTroubles are those of one world, over the time in which most of its conversations happen.
func drawTroubles(d dice) []trouble {
	r := d.roll("troubles")
	var all []trouble
	for range 3 + r.IntN(5) {
		all = append(all, trouble{
			// Troubles have instants of their own, the last of every grid.
			at:   between(r, time.Second, 2*time.Minute) + grid - time.Microsecond,
			kind: pick(r, troubleKinds), last: between(r, grid, 45*time.Second),
		})
	}
	return sorted(all)
}

func sorted(all []trouble) []trouble {
	slices.SortStableFunc(all, func(a, b trouble) int { return int(a.at - b.at) })
	return all
}

// befall has a trouble happen now, and returns what follows from it. It is called while nothing moves; what moves next finds
// the world as it is then.
func (w *world) befall(ctx context.Context, t trouble) (later []trouble, err error) {
	w.strikes[t.kind]++
	switch t.kind {
	case restartsMessaging:
		return nil, w.restart(ctx, w.messaging)
	case restartsOnboarding:
		return nil, w.restart(ctx, w.onboarding)
	case restartsGateway:
		// Before it, or the gateway would wait for them; and after it, for a connection that was being put aside at that moment.
		w.hangUp()
		if err := w.gateway.stop(); err != nil {
			return nil, err
		}
		w.hangUp()
		return nil, w.gateway.start(ctx)
	case restartsQStash:
		w.vendors.QStash.Restart()
		return nil, nil
	case losesOnboardingDB:
		return []trouble{{at: t.at + t.last, kind: findsOnboardingDB}}, w.data.shut(ctx, "onboarding")
	case losesMessagingDB:
		return []trouble{{at: t.at + t.last, kind: findsMessagingDB}}, w.data.shut(ctx, "messaging")
	case findsOnboardingDB:
		return nil, w.find(ctx, w.onboarding)
	default:
		return nil, w.find(ctx, w.messaging)
	}
}

// hangUp closes the connections to the gateway that nobody uses.
func (w *world) hangUp() {
	w.vendors.HangUp()
	w.http.CloseIdleConnections()
}

// restart stops a service and starts it again, unless its database is away: then it would only refuse to start until that is
// back, when it is restarted anyway.
func (w *world) restart(ctx context.Context, s *running) error {
	if w.data.away(s.name) {
		return nil
	}
	if err := s.stop(); err != nil {
		return err
	}
	return s.start(ctx)
}

// find gives a service its database back.
func (w *world) find(ctx context.Context, s *running) error {
	if err := w.data.open(ctx, s.name); err != nil {
		return err
	}
	return w.restart(ctx, s)
}
