package chaos

import (
	"io"
	"maps"
	"time"
)

// SoakReport says what a soak came to: the report of its processes, and what Kapso saw.
type SoakReport struct {
	Report

	Rate    int  `json:"rate"` // asked for
	Events  int  `json:"events"`
	Settled bool `json:"settled"` // nothing was left to do before the time was over
	// Posted a second time without need, and repeated because of their answer.
	Duplicates int64 `json:"duplicates"`
	Retries    int64 `json:"retries"`
	// RatePosted says how many events a second were posted for the first time, RateAccepted were accepted while they were.
	RatePosted   float64 `json:"rate_posted"`
	RateAccepted float64 `json:"rate_accepted"`
	Late         int64   `json:"late"` // posts for which the sender itself was too slow

	// From an event's instant until it was accepted: at the first try, and with all repeats.
	IntakeFirstTry Spread         `json:"intake_first_try"`
	IntakeAll      Spread         `json:"intake_all"`
	Repeated       map[string]int `json:"repeated"` // by the answer that was repeated
	Refused        map[string]int `json:"refused"`  // by an answer that no repeat helps

	Backlog    []BacklogSample `json:"backlog"`
	BacklogMax int             `json:"backlog_max"`
	Outages    []SoakOutage    `json:"outages"`

	CPUs       int     `json:"cpus"`
	LoadBefore float64 `json:"load_before"` // of the machine; -1 is unknown
}

// SoakOutage is one kill and how it was recovered from, all since the kill. Minus one is never.
type SoakOutage struct {
	Victim     string `json:"victim"`
	ReadyMS    int64  `json:"ready_ms"`    // every process that the kill affected is ready again
	AcceptedMS int64  `json:"accepted_ms"` // the first event that was accepted after the longest silence
	DrainedMS  int64  `json:"drained_ms"`  // less than a second's events wait
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
	r.RatePosted, r.RateAccepted = float64(k.events)/posting.Seconds(), float64(k.meanwhile)/posting.Seconds()
	r.SettleMS = r.TotalMS - posting.Milliseconds() // since the last event, and not since it was accepted
	r.Backlog = s.backlog
	for _, sample := range s.backlog {
		r.BacklogMax = max(r.BacklogMax, sample.Waiting)
	}
	for _, one := range s.outages.list() {
		out := SoakOutage{Victim: one.victim, ReadyMS: -1, AcceptedMS: k.firstAfter(one.at), DrainedMS: -1}
		if !one.ready.IsZero() {
			out.ReadyMS = one.ready.Sub(one.at).Milliseconds()
		}
		killed := one.at.Sub(k.began).Milliseconds()
		for _, sample := range s.backlog {
			if sample.AtMS > killed+max(out.ReadyMS, 0) && sample.Waiting < r.Rate {
				out.DrainedMS = sample.AtMS - killed
				break
			}
		}
		r.Outages = append(r.Outages, out)
	}
}

// firstAfter finds the end of the longest silence that began within a second of a kill: answers that were on their way still come. Minus
// one is never.
func (s *sender) firstAfter(kill time.Time) int64 {
	longest, end := time.Duration(-1), int64(-1)
	for i := 1; i < len(s.oks); i++ {
		from, to := s.oks[i-1], s.oks[i]
		if to.Before(kill) || from.After(kill.Add(time.Second)) {
			continue
		}
		if gap := to.Sub(from); gap > longest {
			longest, end = gap, to.Sub(kill).Milliseconds()
		}
	}
	return end
}

// Print writes the report for people.
func (r *SoakReport) Print(out io.Writer) error {
	var s page
	s.WriteString("\n")
	s.linef("events", "%d at %.0f a second, accepted meanwhile %.0f a second; %d posted twice, %d repeats, %d posted late",
		r.Events, r.RatePosted, r.RateAccepted, r.Duplicates, r.Retries, r.Late)
	s.linef("accepted", "%d, rows %d; lost %d, doubled %d, not done exactly once %d, never accepted %d",
		r.Accepted, r.Rows, r.Lost, r.Doubled, r.NotDoneOnce, r.NeverAccepted)
	s.linef("intake, first try", "%s", r.IntakeFirstTry)
	s.linef("intake, with repeats", "%s", r.IntakeAll)
	s.linef("backlog", "%d at the most; %.1f s after the last event nothing was left to do", r.BacklogMax, seconds(r.SettleMS))
	for _, one := range r.Outages {
		s.linef("killed "+one.Victim, "ready after %.2f s, accepting after %.2f s, backlog gone after %.2f s", seconds(one.ReadyMS),
			seconds(one.AcceptedMS), seconds(one.DrainedMS))
	}
	s.linef("repeated after", "%s", counts(r.Repeated))
	s.linef("refused with", "%s", counts(r.Refused))
	s.linef("machine", "Postgres %s, %d CPUs, load %.1f when it began", r.Postgres, r.CPUs, r.LoadBefore)
	return s.end(out, &r.Report)
}
