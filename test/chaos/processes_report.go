package chaos

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"paceline.internal/test/stack"
)

// ProcessReport is what a run of processes came to.
type ProcessReport struct {
	Kept       bool   `json:"kept"` // every promise
	Seed       uint64 `json:"seed"`
	DurationMS int64  `json:"duration_ms"` // of the kills and silences
	SettleMS   int64  `json:"settle_ms"`   // from the end of everybody's conversation until nobody worked on anything
	TotalMS    int64  `json:"total_ms"`
	People     int    `json:"people"`

	Verdict

	// By how much gaps were longer than the flow says: those in which nobody was down and no vendor did anything wrong, and all.
	SpacingUndisturbed Spread `json:"spacing_undisturbed"`
	SpacingAll         Spread `json:"spacing_all"`

	Kills map[string]int `json:"kills"` // by process
	// Processes that ended although nobody killed them, such as one that found no Postgres when it started.
	EndedByThemselves map[string]int `json:"ended_by_themselves"`
	// From a kill until everybody affected said again that they are ready, and to the first text that Twilio took after it,
	// which includes waiting for one to be due. Kills while a wire was silent are not counted here.
	RecoveryToReady Spread         `json:"recovery_to_ready"`
	RecoveryToText  Spread         `json:"recovery_to_text"`
	NotRecovered    int            `json:"not_recovered"` // kills after which readiness did not come back, and silences likewise
	Silences        []silence      `json:"silences"`      // oldest first
	VendorFaults    map[string]int `json:"vendor_faults"`

	Postgres string            `json:"postgres"` // its version
	Knobs    map[string]string `json:"knobs"`    // of the environment, as they were shortened
	Folder   string            `json:"folder,omitempty"`
}

// Spread is how durations are spread.
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

// examineBound is how long the examination may take.
const examineBound = time.Minute

// examine judges the run and gathers its figures.
func (s *site) examine(ctx context.Context, total, settled time.Duration) (ProcessReport, error) {
	ctx, cancel := context.WithTimeout(ctx, examineBound)
	defer cancel()
	r := ProcessReport{
		Seed: s.cfg.Seed, DurationMS: s.cfg.Duration.Milliseconds(), SettleMS: settled.Milliseconds(),
		TotalMS: total.Milliseconds(), People: s.cfg.Sessions,
		Kills: map[string]int{stack.Onboarding: 0, stack.Messaging: 0, stack.Gateway: 0, postgresVictim: 0}, EndedByThemselves: map[string]int{},
		VendorFaults: s.faults.counts(), Postgres: s.postgres.version, Knobs: map[string]string{},
	}
	for name := range Knobs() {
		r.Knobs[name] = s.environ[name]
	}
	evidence := s.crowd.evidence()
	evidence.Onboarding, evidence.Messaging = s.onboarding, s.messaging
	var err error
	if r.Verdict, err = Examine(ctx, evidence); err != nil {
		return r, err
	}
	s.measureSpacing(&r)
	s.measureSilences(&r)
	s.measureRecovery(&r)
	r.Kept = r.Verdict.Kept()
	return r, nil
}

// measureSpacing tells the gaps apart that something disturbed: somebody was down, a wire was silent, the person was held back, or a vendor
// did something wrong about it, at any time from its beginning to its end.
func (s *site) measureSpacing(r *ProcessReport) {
	outages := s.outages.list()
	undisturbed := slices.DeleteFunc(slices.Clone(r.gaps), func(g gap) bool {
		p := s.crowd.ofSession(g.session)
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

func (s *site) measureRecovery(r *ProcessReport) {
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

// Print writes the report for people.
func (r *ProcessReport) Print(out io.Writer) error {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-28s %s\n", name, fmt.Sprintf(format, args...))
	}
	b.WriteString("\n")
	line("sessions", "%d of %d people; %s", r.Sessions, r.People, counts(r.Ended))
	line("texts", "%d", r.Texts)
	line("duplicates", "%d", r.Duplicates)
	line("losses", "%d", r.Losses)
	line("order errors", "%d", r.OutOfOrder)
	line("too early", "%d", r.TooEarly)
	line("accepted after STOP", "%d", r.AfterStop)
	line("consent undone", "%d", r.ConsentErrors)
	line("stranded", "%d, and %d people who still waited", r.Stranded, r.Unfinished)
	line("parked", "%s", counts(r.Parked))
	line("left behind", "%d unsettled sends, %d rows, %d texts that no row knows", r.Unsettled, r.OrphanRows, r.OrphanTexts)
	line("spacing error, undisturbed", "%s", r.SpacingUndisturbed)
	line("spacing error, all gaps", "%s", r.SpacingAll)
	line("kills", "%s; ended by themselves: %s", counts(r.Kills), counts(r.EndedByThemselves))
	line("recovery, kill to ready", "%s", r.RecoveryToReady)
	line("recovery, kill to next text", "%s (waiting for one to be due included)", r.RecoveryToText)
	line("silences", "%d", len(r.Silences))
	spreadsOf(r.Silences, func(one silence) string { return "  " + one.Wire }, line)
	spreadsOf(r.Silences, func(one silence) string { return "  " + string(one.Manner) }, line)
	line("vendor faults", "%s", counts(r.VendorFaults))
	line("time", "%.1f s of faults, %.1f s in all, the last %.1f s to settle", seconds(r.DurationMS), seconds(r.TotalMS), seconds(r.SettleMS))
	line("environment", "%s", knobs(r.Knobs))
	for _, broken := range r.Broken {
		fmt.Fprintf(&b, "  BROKEN  %s\n", broken)
	}
	if r.Folder != "" {
		fmt.Fprintf(&b, "\n  The output of every process is in %s\n", r.Folder)
	}
	_, err := io.WriteString(out, b.String())
	return err
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

func knobs(m map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, name+"="+m[name])
	}
	return strings.Join(parts, " ")
}
