package chaos

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Report sums a run of a population up. In JSON it is one object: what its kind of run adds stands next to the rest.
type Report struct {
	Kept   bool   `json:"kept"` // every promise
	Seed   uint64 `json:"seed"`
	People int    `json:"people"`

	Verdict

	SpacingAll Spread `json:"spacing_all"`      // by how much gaps were longer than the flow says, faults included
	Folder     string `json:"folder,omitempty"` // with the output of every process

	*Simulated
	*Killed
}

// Simulated is the part of a report that a simulation adds.
type Simulated struct {
	Worlds      int            `json:"worlds"`
	Interrupted bool           `json:"interrupted"` // before all worlds were played; the figures are of those that were
	TookMS      int64          `json:"took_ms"`
	VirtualMS   int64          `json:"virtual_ms"` // by the clocks of all worlds together
	Faults      map[string]int `json:"faults"`     // what went wrong, by kind
	Failed      []World        `json:"failed"`     // worlds that broke a promise, or could not be played
}

// Killed is the part of a report that a run of processes adds.
type Killed struct {
	DurationMS int64 `json:"duration_ms"` // of the kills and silences
	SettleMS   int64 `json:"settle_ms"`   // from the end of the last conversation until no process worked on anything
	TotalMS    int64 `json:"total_ms"`

	SpacingUndisturbed Spread `json:"spacing_undisturbed"` // of gaps in which no process was down and no vendor did anything wrong

	Kills map[string]int `json:"kills"` // by process
	// Processes that ended although the run did not kill them, such as one that found no Postgres when it started.
	EndedByThemselves map[string]int `json:"ended_by_themselves"`
	// From a kill until every process that it affected was ready again, and to the first text that Twilio took after it,
	// which includes waiting for one to be due. Kills while a wire was silent are not counted here.
	RecoveryToReady Spread         `json:"recovery_to_ready"`
	RecoveryToText  Spread         `json:"recovery_to_text"`
	NotRecovered    int            `json:"not_recovered"` // kills after which readiness did not come back, and silences likewise
	Silences        []silence      `json:"silences"`      // oldest first
	VendorFaults    map[string]int `json:"vendor_faults"`

	Postgres string            `json:"postgres"` // its version
	Knobs    map[string]string `json:"knobs"`    // of the environment, as they were shortened
}

// World is the outcome of one world.
type World struct {
	Seed    uint64         `json:"seed"`
	People  int            `json:"people"`
	Gear    Gear           `json:"gear,omitempty"`
	Days    int            `json:"days,omitempty"` // for which people were followed by engagement
	Digest  string         `json:"digest"`         // the same whenever this seed is played with as many people
	Swept   int            `json:"swept_jobs"`     // that retention has deleted
	Lasted  time.Duration  `json:"-"`
	Took    time.Duration  `json:"-"`
	Verdict Verdict        `json:"verdict"`
	Faults  map[string]int `json:"faults"`
	Err     error          `json:"-"` // that kept it from being played to its end
	Problem string         `json:"problem,omitempty"`
}

func (r *Report) add(w World) {
	r.Worlds++
	r.People += w.People
	r.VirtualMS += w.Lasted.Milliseconds()
	r.Verdict.Add(w.Verdict)
	r.Faults = sum(r.Faults, w.Faults)
	if w.Err != nil || !w.Verdict.Kept() {
		if w.Err != nil {
			w.Problem = w.Err.Error()
		}
		r.Failed = append(r.Failed, w)
	}
}

// Again is the command that plays a world again.
func (w World) Again() string {
	again := fmt.Sprintf("go run ./test/rig chaos --seed %d --sessions %d --per-world %d", w.Seed, w.People, w.People)
	switch {
	case w.Days > 0:
		again += fmt.Sprintf(" --engagement --days %d", w.Days)
	case w.Gear == Fast:
		again += " --gear fast"
	}
	return again
}

// Print writes the report for people.
func (r *Report) Print(to io.Writer) error {
	var s page
	s.WriteString("\n")
	s.linef("sessions", "%d of %d people, seed %d; %s", r.Sessions, r.People, r.Seed, counts(r.Ended))
	s.linef("texts", "%d", r.Texts)
	for _, p := range r.promises() {
		s.linef(p.name, "%d%s", *p.count, map[bool]string{false: "   BROKEN"}[*p.count == 0])
	}
	s.linef("parked", "%s", counts(r.Parked))
	r.Engaged.describe(&s)
	if r.Killed != nil {
		r.Killed.describe(&s)
	}
	s.linef("spacing error, all gaps", "%s", r.SpacingAll)
	if r.Simulated != nil {
		r.Simulated.describe(&s)
	}
	return s.end(to, r)
}

func (r *Simulated) describe(s *page) {
	theirs, ours := time.Duration(r.VirtualMS)*time.Millisecond, time.Duration(r.TookMS)*time.Millisecond
	s.linef("time", "%s of theirs in %s, %d worlds", theirs.Round(time.Minute), ours.Round(time.Second), r.Worlds)
	for _, name := range slices.Sorted(maps.Keys(r.Faults)) {
		s.linef("  "+name, "%d", r.Faults[name])
	}
	for _, w := range r.Failed {
		s.linef("again", "%s %s", w.Again(), w.Problem)
	}
	if r.Interrupted {
		s.linef("interrupted", "these are the worlds that were played until then")
	}
}

func (r *Killed) describe(s *page) {
	s.linef("spacing error, undisturbed", "%s", r.SpacingUndisturbed)
	s.linef("kills", "%s; ended by themselves: %s", counts(r.Kills), counts(r.EndedByThemselves))
	s.linef("recovery, kill to ready", "%s", r.RecoveryToReady)
	s.linef("recovery, kill to next text", "%s (waiting for one to be due included)", r.RecoveryToText)
	s.linef("silences", "%d", len(r.Silences))
	spreadsOf(r.Silences, func(one silence) string { return "  " + one.Wire }, s.linef)
	spreadsOf(r.Silences, func(one silence) string { return "  " + string(one.Manner) }, s.linef)
	s.linef("vendor faults", "%s", counts(r.VendorFaults))
	s.linef("time", "%.1f s of faults, %.1f s in all, the last %.1f s to settle",
		seconds(r.DurationMS), seconds(r.TotalMS), seconds(r.SettleMS))
	r.describeKnobs(s)
}

func (r *Killed) describeKnobs(s *page) {
	var knobs []string
	for _, name := range slices.Sorted(maps.Keys(r.Knobs)) {
		knobs = append(knobs, name+"="+r.Knobs[name])
	}
	s.linef("environment", "Postgres %s; %s", r.Postgres, strings.Join(knobs, " "))
}

// page is a report for people, line by line.
type page struct{ strings.Builder }

func (s *page) linef(name, format string, args ...any) {
	fmt.Fprintf(s, "  %-34s %s\n", name, fmt.Sprintf(format, args...))
}

// end adds what was broken, and where the output of every process is, if it was kept.
func (s *page) end(to io.Writer, r *Report) error {
	for _, broken := range r.Broken {
		s.linef("BROKEN", "%s", broken)
	}
	if r.Folder != "" {
		s.linef("output", "of every process: %s", r.Folder)
	}
	_, err := io.WriteString(to, s.String())
	return err
}

// Spread is the distribution of durations.
type Spread struct {
	Count int     `json:"count"`
	P50MS float64 `json:"p50_ms"`
	P99MS float64 `json:"p99_ms"`
	MaxMS float64 `json:"max_ms"`
}

func spreadOf(all []time.Duration) Spread {
	if len(all) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(all))
	at := func(percent int) float64 { // the smallest that at least so many per cent do not exceed
		rank := max(1, (len(sorted)*percent+99)/100)
		return float64(sorted[rank-1].Microseconds()) / 1000
	}
	return Spread{Count: len(sorted), P50MS: at(50), P99MS: at(99), MaxMS: at(100)}
}

// String is the spread for people.
func (s Spread) String() string {
	if s.Count == 0 {
		return "nothing to measure"
	}
	return fmt.Sprintf("p50 %.0f ms, p99 %.0f ms, max %.0f ms of %d", s.P50MS, s.P99MS, s.MaxMS, s.Count)
}

func (s Spread) seconds() string {
	if s.Count == 0 {
		return "none"
	}
	return fmt.Sprintf("p50 %.1f s, max %.1f s", s.P50MS/1000, s.MaxMS/1000)
}

func seconds(ms int64) float64 { return float64(ms) / 1000 }

func counts(m map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if m[name] > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", name, m[name]))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}
