package chaos

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// Report sums a simulation up.
type Report struct {
	Kept        bool   `json:"kept"` // every promise
	Seed        uint64 `json:"seed"`
	Worlds      int    `json:"worlds"`
	People      int    `json:"people"`
	Interrupted bool   `json:"interrupted"` // before all worlds were played; the figures are of those that were
	TookMS      int64  `json:"took_ms"`
	VirtualMS   int64  `json:"virtual_ms"` // by the clocks of all worlds together

	Verdict

	SpacingAll Spread         `json:"spacing_all"` // by how much gaps were longer than the flow says, faults included
	Faults     map[string]int `json:"faults"`      // what went wrong, by kind
	Failed     []World        `json:"failed"`      // worlds that broke a promise, or could not be played
}

// World is what came of one world.
type World struct {
	Seed    uint64         `json:"seed"`
	People  int            `json:"people"`
	Gear    Gear           `json:"gear,omitempty"`
	Digest  string         `json:"digest"`     // the same whenever this seed is played with as many people
	Swept   int            `json:"swept_jobs"` // that retention has deleted
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
	again := fmt.Sprintf("go run ./deploy/paceline chaos --seed %d --sessions %d --per-world %d", w.Seed, w.People, w.People)
	if w.Gear == Fast {
		again += " --gear fast"
	}
	return again
}

// Print writes the report for people.
func (r *Report) Print(to io.Writer) error {
	var problems []error
	line := func(format string, args ...any) {
		_, err := fmt.Fprintf(to, format+"\n", args...)
		problems = append(problems, err)
	}
	line("")
	theirs, ours := time.Duration(r.VirtualMS)*time.Millisecond, time.Duration(r.TookMS)*time.Millisecond
	line("%d sessions of %d people, %d texts; %s of their time in %s (seed %d, %d worlds)", r.Sessions, r.People, r.Texts,
		theirs.Round(time.Minute), ours.Round(time.Second), r.Seed, r.Worlds)
	for _, promise := range r.Promises() {
		line("  %-7s %-42s %d", map[bool]string{true: "kept", false: "BROKEN"}[promise.Broken == 0], promise.Name, promise.Broken)
	}
	line("  spacing longer than the flow says: p50 %.0f ms, p99 %.0f ms, max %.0f ms of %d gaps", r.SpacingAll.P50MS, r.SpacingAll.P99MS,
		r.SpacingAll.MaxMS, r.SpacingAll.Count)
	for title, counts := range map[string]map[string]int{"ended": r.Ended, "parked": r.Parked, "faults": r.Faults} {
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			line("  %-7s %-42s %d", title, name, counts[name])
		}
	}
	for _, w := range r.Failed {
		line("world %d: %s %v\n  again: %s", w.Seed, w.Problem, w.Verdict.Broken, w.Again())
	}
	if r.Interrupted {
		line("interrupted: these are the worlds that were played until then")
	}
	return errors.Join(problems...)
}

// Promise is one line of a verdict.
type Promise struct {
	Name   string
	Broken int
}

// Promises are the lines of a verdict in the order in which they matter.
func (v *Verdict) Promises() []Promise {
	return []Promise{
		{"no text twice (duplicates)", v.Duplicates},
		{"none lost (losses)", v.Losses},
		{"in order (order errors)", v.OutOfOrder},
		{"never too early", v.TooEarly},
		{"none asked of Twilio after STOP", v.AfterStop},
		{"every session goes on or ends (stranded)", v.Stranded},
		{"every parked session says why", v.Silent},
		{"every send is settled", v.Unsettled},
		{"no job or alarm is left lying", v.OrphanRows},
		{"every text at Twilio is known to us", v.OrphanTexts},
		{"the last STOP or START holds", v.ConsentErrors},
		{"everybody came to an end", v.Unfinished},
	}
}
