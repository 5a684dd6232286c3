package chaos

import (
	"context"
	"maps"
	"net"
	"slices"
	"time"

	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/wire"
)

// silence is one wire that was silent for a while, and how the others got over it.
type silence struct {
	Wire   string      `json:"wire"`
	Manner wire.Manner `json:"manner"`
	// OnlyStanding says that connections that were made meanwhile worked.
	OnlyStanding bool `json:"only_standing"`
	// Cut says that the silent connections were cut in the end, and that what was held back on them never came.
	Cut     bool  `json:"cut"`
	LastsMS int64 `json:"lasts_ms"`
	// From the end until every process was ready and all that had been due by then was done; absent: it never was.
	ToRecoveredMS *int64 `json:"to_recovered_ms"`

	at, over, recovered time.Time
}

// wireVendors leads the vendors' calls to the gateway over wires, in a run with silence.
func (s *site) wireVendors(ctx context.Context, cfg *stack.VendorConfig) error {
	if s.cfg.SilenceEvery == 0 {
		return nil
	}
	for name, dial := range map[string]*stack.Dial{qstashToGateway: &cfg.DialQStash, twilioToGateway: &cfg.DialTwilio} {
		w, err := wire.Open(ctx, "tcp", s.addresses.Gateway)
		if err != nil {
			return err
		}
		s.wires[name] = w
		*dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, w.Addr)
		}
	}
	return nil
}

// wireServices returns what the environment of each service has otherwise than the others', so that its calls go over wires.
func (s *site) wireServices(ctx context.Context) (map[string]map[string]string, error) {
	environ := map[string]map[string]string{stack.Gateway: {}, stack.Onboarding: {}, stack.Messaging: {}}
	if s.cfg.SilenceEvery == 0 {
		return environ, nil
	}
	for _, w := range wirings {
		opened, value, err := w.open(ctx, s.environ)
		if err != nil {
			return nil, err
		}
		s.wires[w.name], environ[w.service][w.variable] = opened, value
	}
	return environ, nil
}

// silenceBound limits the time that all processes have to get over a silence.
const silenceBound = 2 * time.Minute

// fallSilent makes one wire after the other silent until the time is over. Every wire has been silent in every manner before one is
// again in the same. The next one begins when this one has been got over, or where kills keep that from happening, as long after its
// end as it lasted.
func (s *site) fallSilent(ctx context.Context, duration time.Duration) {
	until := s.now().Add(duration)
	var deck []silence
	for n := 0; ; n++ {
		if len(deck) == 0 {
			deck = s.shuffled(n)
		}
		r := s.dice.roll("silence", n)
		rest := between(r, s.cfg.SilenceEvery/2, s.cfg.SilenceEvery*3/2)
		lasts := between(r, s.cfg.SilenceFor*2/3, s.cfg.SilenceFor*4/3)
		next := deck[0]
		next.OnlyStanding, next.Cut = oneIn(r, 3), oneIn(r, 2)
		if !pause(ctx, min(rest, until.Sub(s.now()))) || s.now().Add(lasts).After(until) {
			return
		}
		deck = deck[1:]
		s.keepSilent(ctx, &next, lasts)
	}
}

// shuffled is every wire in every manner, in its own order.
func (s *site) shuffled(n int) []silence {
	var all []silence
	for _, name := range slices.Sorted(maps.Keys(s.wires)) {
		for _, m := range wire.Manners {
			all = append(all, silence{Wire: name, Manner: m})
		}
	}
	r := s.dice.roll("silences", n)
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// keepSilent makes one wire silent, and has a goroutine watch how the processes get over it.
func (s *site) keepSilent(ctx context.Context, one *silence, lasts time.Duration) {
	s.silences = append(s.silences, one)
	w := s.wires[one.Wire]
	one.at = s.now()
	w.Freeze(one.Manner, one.OnlyStanding)
	s.log.InfoContext(ctx, "chaos.silent", "wire", one.Wire, "manner", string(one.Manner), "only_standing", one.OnlyStanding)
	pause(ctx, lasts)
	one.over = s.now()
	if one.Cut {
		w.Cut()
	} else {
		w.Thaw()
	}
	one.LastsMS = one.over.Sub(one.at).Milliseconds()
	s.log.InfoContext(ctx, "chaos.speaks", "wire", one.Wire, "cut", one.Cut)
	waiting, gotOverIt := context.WithTimeout(ctx, lasts)
	s.watchers.Go(func() {
		defer gotOverIt()
		s.watchSilence(ctx, one)
	})
	<-waiting.Done()
}

// watchSilence waits until every process has got over a silence.
func (s *site) watchSilence(ctx context.Context, one *silence) {
	ctx, cancel := context.WithTimeout(ctx, silenceBound)
	defer cancel()
	for !s.caughtUp(ctx, one.over) {
		if !pause(ctx, lookAgain) {
			return
		}
	}
	one.recovered = s.now()
	one.ToRecoveredMS = new(one.recovered.Sub(one.over).Milliseconds())
	s.log.InfoContext(ctx, "chaos.got_over_it", "wire", one.Wire, "after_ms", *one.ToRecoveredMS)
}

const sqlOnboardingLate = `
select (select count(*) from webhook_jobs where status in ('pending', 'processing') and created_at <= $1)
     + (select count(*) from step_alarms where published_at is null and created_at <= $1)
     + (select count(*) from conversation_sessions s where s.status = 'active' and exists (
          select from step_alarms a where a.session_id = s.id and a.step_id = s.next_step_id and a.due_at <= $1))`

const sqlMessagingLate = `select count(*) from sms_messages where status in ('sending', 'unknown') and created_at <= $1`

// caughtUp reports whether every process is ready and whatever was due by then is done.
func (s *site) caughtUp(ctx context.Context, then time.Time) bool {
	for _, k := range s.services {
		if !s.isReady(ctx, k) {
			return false
		}
	}
	var onboarding, messaging int
	return s.onboardingDB.QueryRow(ctx, sqlOnboardingLate, then).Scan(&onboarding) == nil &&
		s.messagingDB.QueryRow(ctx, sqlMessagingLate, then).Scan(&messaging) == nil && onboarding+messaging == 0
}

// measureSilences adds to the report how the processes got over each silence.
func (s *site) measureSilences(r *Report) {
	for _, one := range s.silences {
		if one.ToRecoveredMS == nil {
			r.breakf(&r.NotRecovered, "%s was silent (%s) at %s and was not got over %s after its end", one.Wire, one.Manner,
				one.at.Format(time.RFC3339Nano), silenceBound)
		}
		r.Silences = append(r.Silences, *one)
	}
}

// quietWithin reports whether a wire was silent between two instants, or had not been got over.
func (s *site) quietWithin(from, to time.Time) bool {
	return slices.ContainsFunc(s.silences, func(one *silence) bool {
		return one.at.Before(to) && (one.recovered.IsZero() || one.recovered.After(from))
	})
}
