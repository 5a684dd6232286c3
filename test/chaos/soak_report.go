package chaos

import (
	"io"
	"maps"
)

// SoakReport is the outcome of a soak: the report of its processes, and the figures that Kapso took.
type SoakReport struct {
	Report

	Rate    int  `json:"rate"` // asked for
	Events  int  `json:"events"`
	Settled bool `json:"settled"` // nothing was left to do before the time was over
	// Posted a second time without need, and repeated because of their answer.
	Duplicates int64   `json:"duplicates"`
	Retries    int64   `json:"retries"`
	RatePosted float64 `json:"rate_posted"` // events a second that were posted for the first time
	Late       int64   `json:"late"`        // posts for which the sender itself was too slow

	// From an event's instant until it was accepted: at the first try, and with all repeats.
	IntakeFirstTry Spread         `json:"intake_first_try"`
	IntakeAll      Spread         `json:"intake_all"`
	Repeated       map[string]int `json:"repeated"` // by the answer that was repeated
	Refused        map[string]int `json:"refused"`  // by an answer that no repeat helps

	Outages []SoakOutage `json:"outages"`

	CPUs       int     `json:"cpus"`
	LoadBefore float64 `json:"load_before"` // of the machine; -1 is unknown
}

// SoakOutage is one kill.
type SoakOutage struct {
	Victim  string `json:"victim"`
	ReadyMS int64  `json:"ready_ms"` // from the kill until every process that it affected is ready again; -1 is never
}

// of adds what is known of a soak in addition to its processes.
func (r *SoakReport) of(s *site) {
	k := s.kapso
	k.mu.Lock()
	defer k.mu.Unlock()
	r.Events, r.Duplicates, r.Retries, r.Late, r.Settled = k.events, k.duplicates.Load(), k.retries.Load(), k.late.Load(), s.settled
	r.IntakeFirstTry, r.IntakeAll = spreadOf(k.firsts), spreadOf(k.all)
	r.Repeated, r.Refused = maps.Clone(k.repeats), maps.Clone(k.refusals)
	posting := k.sent.Sub(k.began)
	r.RatePosted = float64(k.events) / posting.Seconds()
	r.SettleMS = r.TotalMS - posting.Milliseconds() // since the last event, and not since it was accepted
	for _, one := range s.outages.list() {
		out := SoakOutage{Victim: one.victim, ReadyMS: -1}
		if !one.ready.IsZero() {
			out.ReadyMS = one.ready.Sub(one.at).Milliseconds()
		}
		r.Outages = append(r.Outages, out)
	}
}

// Print writes the report for people.
func (r *SoakReport) Print(out io.Writer) error {
	var s page
	s.WriteString("\n")
	s.linef("events", "%d at %.0f a second; %d posted twice, %d repeats, %d posted late",
		r.Events, r.RatePosted, r.Duplicates, r.Retries, r.Late)
	s.linef("accepted", "%d, rows %d; lost %d, doubled %d, not done exactly once %d, never accepted %d",
		r.Accepted, r.Rows, r.Lost, r.Doubled, r.NotDoneOnce, r.NeverAccepted)
	s.linef("intake, first try", "%s", r.IntakeFirstTry)
	s.linef("intake, with repeats", "%s", r.IntakeAll)
	s.linef("backlog", "%.1f s after the last event nothing was left to do", seconds(r.SettleMS))
	for _, one := range r.Outages {
		s.linef("killed "+one.Victim, "ready after %.2f s", seconds(one.ReadyMS))
	}
	s.linef("repeated after", "%s", counts(r.Repeated))
	s.linef("refused with", "%s", counts(r.Refused))
	s.linef("machine", "Postgres %s, %d CPUs, load %.1f when it began", r.Postgres, r.CPUs, r.LoadBefore)
	return s.end(out, &r.Report)
}
