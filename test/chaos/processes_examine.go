package chaos

import (
	"context"
	"slices"
	"time"

	"paceline.internal/test/stack"
)

// examineBound is how long the examination may take.
const examineBound = 5 * time.Minute

// examine judges the run and gathers its figures.
func (s *site) examine(ctx context.Context, total, settled time.Duration) (Report, error) {
	ctx, cancel := context.WithTimeout(ctx, examineBound)
	defer cancel()
	r := Report{Seed: s.cfg.Seed, People: s.cfg.Sessions, Killed: &Killed{
		DurationMS: s.cfg.Duration.Milliseconds(), SettleMS: settled.Milliseconds(), TotalMS: total.Milliseconds(),
		Kills: map[string]int{stack.Onboarding: 0, stack.Messaging: 0, stack.Gateway: 0, postgresVictim: 0}, EndedByThemselves: map[string]int{},
		VendorFaults: s.faults.counts(), Postgres: s.postgres.version, Knobs: map[string]string{},
	}}
	for name := range Knobs() {
		r.Knobs[name] = s.environ[name]
	}
	evidence := s.evidence()
	s.end() // or what the sender knows would still change
	s.leave()
	if err := s.still(ctx); err != nil {
		return r, err
	}
	var err error
	if r.Verdict, err = Examine(ctx, evidence); err != nil {
		return r, err
	}
	s.measureSpacing(&r)
	s.measureSilences(&r)
	s.measureRecovery(&r)
	if s.cfg.soak != nil && !s.settled {
		r.breakf(new(int), "jobs were still open when the time was over")
	}
	r.Kept = r.Verdict.Kept()
	return r, nil
}

// measureSpacing tells the gaps apart that something disturbed: somebody was down, a wire was silent, the person was held back, or a vendor
// did something wrong about it, at any time from its beginning to its end.
func (s *site) measureSpacing(r *Report) {
	outages := s.outages.list()
	undisturbed := slices.DeleteFunc(slices.Clone(r.gaps), func(g gap) bool {
		p := s.ofSession(g.session)
		return p != nil && p.hold > 0 || struckWithin(outages, g.from.at, g.to.at) || s.quietWithin(g.from.at, g.to.at) ||
			s.faults.disturbed(g.session, g.to.step, g.to.row) || s.faults.disturbed(g.session, g.from.step, g.from.row)
	})
	r.SpacingUndisturbed, r.SpacingAll = spreadOf(overs(undisturbed)), spreadOf(overs(r.gaps))
}

// struckWithin reports whether anybody was down between two instants.
func struckWithin(outages []outage, from, to time.Time) bool {
	return slices.ContainsFunc(outages, func(o outage) bool {
		return (o.ready.IsZero() || !o.ready.Before(from)) && o.at.Before(to)
	})
}

func (s *site) measureRecovery(r *Report) {
	var ready, text []time.Duration
	for _, o := range s.outages.list() {
		r.Kills[o.victim]++
		switch {
		case o.ready.IsZero():
			r.breakf(&r.NotRecovered, "%s was killed at %s and was not ready again", o.victim, o.at.Format(time.RFC3339Nano))
		case s.quietWithin(o.at, o.ready): // it waited for a wire
		default:
			ready = append(ready, o.ready.Sub(o.at))
			if !o.text.IsZero() {
				text = append(text, o.text.Sub(o.at))
			}
		}
	}
	for name, k := range s.services {
		r.EndedByThemselves[name] = k.endedByItself()
	}
	r.RecoveryToReady, r.RecoveryToText = spreadOf(ready), spreadOf(text)
}
