package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Report is the result of a run.
type Report struct {
	// RatioToRiver is how many times as many jobs a second as river's ours does end to end on an empty table: the median of the
	// rounds' ratios, as all ratios here are.
	RatioToRiver float64   `json:"ratio_to_river"`
	Goal         float64   `json:"goal"`     // for that ratio, in every scenario
	GoalMet      bool      `json:"goal_met"` // in every scenario that was run
	Scenarios    []Outcome `json:"scenarios"`

	Jobs     int    `json:"jobs"`
	Rounds   int    `json:"rounds"`
	Finished int    `json:"finished_rows"`
	River    string `json:"river"`
	Postgres string `json:"postgres"`
	Durable  bool   `json:"durable"` // fsync, full_page_writes and synchronous_commit are on

	CPUs        int     `json:"cpus"`
	LoadBefore  float64 `json:"load_before"` // of the machine, over a minute; -1 is unknown
	LoadAfter   float64 `json:"load_after"`
	FsyncMicros float64 `json:"fsync_us"`
}

// Outcome is one scenario.
type Outcome struct {
	Name         string   `json:"name"`
	Title        string   `json:"title"`
	RatioToRiver float64  `json:"ratio_to_river"` // end to end
	Figures      []Figure `json:"figures"`
}

// Figure is one measure of one contender.
type Figure struct {
	Measure   string `json:"measure"`
	Contender string `json:"contender"`
	Unit      string `json:"unit"`
	Jobs      int    `json:"jobs"`

	Median   float64   `json:"median"` // jobs a second, or milliseconds
	Runs     []float64 `json:"runs"`   // in the order of the rounds
	P99MS    float64   `json:"p99_ms,omitempty"`
	MemoryMB float64   `json:"memory_mb"` // at its peak
	StartMB  float64   `json:"start_mb"`  // before it did anything
	// RatioToRiver is this one's figure over river's, in jobs a second or in milliseconds. Zero where river did not take part.
	RatioToRiver float64 `json:"ratio_to_river,omitempty"`
	P99Ratio     float64 `json:"p99_ratio_to_river,omitempty"`
	MemoryRatio  float64 `json:"memory_ratio_to_river,omitempty"`
}

type runKey struct{ measure, contender string }

// summary makes figures of the runs of a scenario.
func summary(scene scenario, all []measure, runs map[runKey][]Result) Outcome {
	out := Outcome{Name: scene.name, Title: scene.title}
	for _, m := range all {
		rivers := runs[runKey{m.name, river}]
		for _, e := range contenders() {
			results := runs[runKey{m.name, e.name}]
			if len(results) == 0 {
				continue
			}
			f := figure(m, e, results, rivers)
			if m.name == endToEnd && e.name == ours {
				out.RatioToRiver = f.RatioToRiver
			}
			out.Figures = append(out.Figures, f)
		}
	}
	return out
}

func figure(m measure, e entry, results, rivers []Result) Figure {
	value := func(r Result) float64 {
		if m.less {
			return r.P50MS
		}
		return r.Rate
	}
	p99 := func(r Result) float64 { return r.P99MS }
	memory := func(r Result) float64 { return r.MemoryMB }
	return Figure{
		Measure: m.name, Contender: e.name, Unit: m.unit, Jobs: results[0].Jobs,
		Runs: each(results, value), Median: median(each(results, value)), P99MS: median(each(results, p99)),
		MemoryMB: slices.Max(each(results, memory)), StartMB: median(each(results, func(r Result) float64 { return r.StartMB })),
		RatioToRiver: ratio(results, rivers, value), P99Ratio: ratio(results, rivers, p99), MemoryRatio: ratio(results, rivers, memory),
	}
}

func each(results []Result, value func(Result) float64) []float64 {
	values := make([]float64, len(results))
	for i, r := range results {
		values[i] = value(r)
	}
	return values
}

// ratio pairs the rounds, and is the median of their ratios.
func ratio(results, others []Result, value func(Result) float64) float64 {
	var ratios []float64
	for i := range min(len(results), len(others)) {
		if other := value(others[i]); other > 0 {
			ratios = append(ratios, value(results[i])/other)
		}
	}
	return median(ratios)
}

// conclude fills in what follows from all scenarios.
func (r *Report) conclude() {
	r.GoalMet = len(r.Scenarios) > 0
	for _, s := range r.Scenarios {
		if s.Name == "fresh" {
			r.RatioToRiver = s.RatioToRiver
		}
		r.GoalMet = r.GoalMet && s.RatioToRiver >= r.Goal
	}
}

// quantile is the smallest value that so large a share of all does not exceed.
func quantile(values []float64, share float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}

// Print writes the report for people.
func (r *Report) Print(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, s := range r.Scenarios {
		if _, err := fmt.Fprintf(table, "\n%s: %s\t\n", s.Name, s.Title); err != nil {
			return err
		}
		if err := s.print(table); err != nil {
			return err
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	verdict := "reached"
	if !r.GoalMet {
		verdict = "missed"
	}
	var ratios []string
	for _, s := range r.Scenarios {
		ratios = append(ratios, fmt.Sprintf("%s %.2f", s.Name, s.RatioToRiver))
	}
	_, err := fmt.Fprintf(out, "\nEvery job was done exactly once. Stored and done, ours over river: %s (the goal of %.0f in each is %s).\n"+
		"Postgres %s, durable: %t, an fsync takes %.0f us; river %s; %d CPUs, load %.1f before and %.1f after.\n",
		strings.Join(ratios, ", "), r.Goal, verdict, r.Postgres, r.Durable, r.FsyncMicros, r.River, r.CPUs, r.LoadBefore, r.LoadAfter)
	return err
}

func (o Outcome) print(table io.Writer) error {
	if _, err := fmt.Fprintf(table, "\t%s\tto river\tp99\tmemory\t\n", "median [least..most]"); err != nil {
		return err
	}
	for _, f := range o.Figures {
		tail := "\t"
		if f.P99MS > 0 {
			tail = fmt.Sprintf("%.2f ms\t", f.P99MS)
		}
		ratio := "\t"
		if f.RatioToRiver > 0 {
			ratio = fmt.Sprintf("%.2f\t", f.RatioToRiver)
		}
		if _, err := fmt.Fprintf(table, "%s, %s\t%s %s\t%s%s%.0f MB\t\n", titleOf(f.Measure), f.Contender, spread(f), f.Unit, ratio, tail,
			f.MemoryMB); err != nil {
			return err
		}
	}
	return nil
}

func titleOf(name string) string {
	for _, m := range measures() {
		if m.name == name {
			return m.title
		}
	}
	return name
}

func spread(f Figure) string {
	digits := "%.0f [%.0f..%.0f]"
	if f.Median < 100 {
		digits = "%.2f [%.2f..%.2f]"
	}
	return fmt.Sprintf(digits, f.Median, slices.Min(f.Runs), slices.Max(f.Runs))
}
