package chaos

import (
	"fmt"
	"io"
	"maps"
	"os"
	"strconv"
	"strings"
	"time"
)

// SoakReport is what a soak came to.
type SoakReport struct {
	Kept   bool     `json:"kept"` // nothing lost, nothing doubled, everything done
	Broken []string `json:"broken,omitempty"`

	Seed       uint64 `json:"seed"`
	Rate       int    `json:"rate"` // asked for
	DurationMS int64  `json:"duration_ms"`
	SettleMS   int64  `json:"settle_ms"` // from the last event until nothing was left to do

	Events        int `json:"events"`
	Accepted      int `json:"accepted"`       // events that were answered with a 2xx
	NeverAccepted int `json:"never_accepted"` // events that nobody took, however often they were repeated
	Rows          int `json:"rows"`
	Lost          int `json:"lost"`          // accepted, and no row
	Doubled       int `json:"doubled"`       // two rows, or called new twice
	NotDoneOnce   int `json:"not_done_once"` // rows that were not completed, or more than once
	// Posted a second time without need, and repeated because of their answer.
	Duplicates int64 `json:"duplicates"`
	Retries    int64 `json:"retries"`
	// RatePosted is how many events a second were posted for the first time, RateAccepted were accepted while they were.
	RatePosted   float64 `json:"rate_posted"`
	RateAccepted float64 `json:"rate_accepted"`
	Late         int64   `json:"late"` // posts for which the sender itself was too slow
	Settled      bool    `json:"settled"`

	// From an event's instant until it was accepted: at the first try, and with all repeats.
	IntakeFirstTry Spread         `json:"intake_first_try"`
	IntakeAll      Spread         `json:"intake_all"`
	Repeated       map[string]int `json:"repeated"` // by the answer that was repeated
	Refused        map[string]int `json:"refused"`  // by an answer that no repeat helps

	Backlog    []BacklogSample `json:"backlog"`
	BacklogMax int             `json:"backlog_max"`
	Outages    []SoakOutage    `json:"outages"`

	Postgres   string  `json:"postgres"`
	CPUs       int     `json:"cpus"`
	LoadBefore float64 `json:"load_before"` // of the machine; -1 is unknown
	Folder     string  `json:"folder,omitempty"`
}

// SoakOutage is one kill and how it was recovered from, all since the kill. Minus one is never.
type SoakOutage struct {
	Victim     string `json:"victim"`
	ReadyMS    int64  `json:"ready_ms"`    // everybody affected says again that they are ready
	AcceptedMS int64  `json:"accepted_ms"` // the first event that was accepted after the longest silence
	DrainedMS  int64  `json:"drained_ms"`  // less than a second's events wait
}

// maxBroken is how many broken promises are named; they are all counted.
const maxBroken = 20

func (r *SoakReport) breakf(format string, args ...any) {
	if len(r.Broken) < maxBroken {
		r.Broken = append(r.Broken, fmt.Sprintf(format, args...))
	}
}

func (r *SoakReport) ofSender(s *sender) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Events, r.Duplicates, r.Retries, r.Late = s.events, s.duplicates.Load(), s.retries.Load(), s.late.Load()
	r.IntakeFirstTry, r.IntakeAll = spreadOf(s.firsts), spreadOf(s.all)
	r.Repeated, r.Refused = maps.Clone(s.repeats), maps.Clone(s.refusals)
	for answer, times := range s.refusals {
		r.breakf("%d times the answer was: %s", times, answer)
	}
}

func (r *SoakReport) ofOutages(all []outage, s *sender, b *backlog) {
	for _, sample := range b.seen {
		r.BacklogMax = max(r.BacklogMax, sample.Waiting)
	}
	for _, one := range all {
		out := SoakOutage{Victim: one.victim, ReadyMS: -1, AcceptedMS: -1, DrainedMS: -1}
		if !one.ready.IsZero() {
			out.ReadyMS = one.ready.Sub(one.at).Milliseconds()
		}
		out.AcceptedMS = s.firstAfter(one.at)
		killed := one.at.Sub(b.began).Milliseconds()
		for _, sample := range b.seen {
			if sample.AtMS > killed+max(out.ReadyMS, 0) && sample.Waiting < r.Rate {
				out.DrainedMS = sample.AtMS - killed
				break
			}
		}
		r.Outages = append(r.Outages, out)
	}
}

// firstAfter finds the end of the longest silence that began within a second of a kill: answers that were on their way still come.
func (s *sender) firstAfter(kill time.Time) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
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

func (r *SoakReport) conclude() {
	if !r.Settled {
		r.breakf("jobs were still open when the time was over")
	}
	for _, one := range r.Outages {
		if one.ReadyMS < 0 {
			r.breakf("%s did not recover", one.Victim)
		}
	}
	r.Kept = len(r.Broken) == 0
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
	for _, broken := range r.Broken {
		s.linef("BROKEN", "%s", broken)
	}
	if r.Folder != "" {
		s.linef("output", "of every process: %s", r.Folder)
	}
	return s.write(out)
}

// loadBefore is the load of the machine, over a minute.
func loadBefore() float64 {
	content, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return -1
	}
	first, _, _ := strings.Cut(string(content), " ")
	load, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return -1
	}
	return load
}
