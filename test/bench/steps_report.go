package bench

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// StepsReport is the result of a run of Steps.
type StepsReport struct {
	// Ratio is how many times as many steps a second as Against this build does: the median of the rounds' ratios. Zero alone.
	Ratio float64 `json:"ratio,omitempty"`
	// CPURatio is the same of the processor's time that the three services use for a step, which depends less on other load of the machine.
	CPURatio float64       `json:"cpu_ratio,omitempty"`
	Builds   []StepsFigure `json:"builds"`
	// Pgbench is, for each round, how many steps a second pgbench does that ask the least of the database that a step can.
	Pgbench []float64 `json:"pgbench"`

	Steps    int    `json:"steps"`
	Rounds   int    `json:"rounds"`
	Callers  int    `json:"callers"`
	Postgres string `json:"postgres"`
	Durable  bool   `json:"durable"`

	CPUs        int     `json:"cpus"`
	LoadBefore  float64 `json:"load_before"` // of the machine, over a minute; -1 is unknown
	LoadAfter   float64 `json:"load_after"`
	FsyncMicros float64 `json:"fsync_us"`
}

// StepsFigure is one build.
type StepsFigure struct {
	Build string  `json:"build"`
	Rate  float64 `json:"rate"` // steps a second, as all figures here the median of the rounds
	P50MS float64 `json:"p50_ms"`
	P99MS float64 `json:"p99_ms"`
	// CPUMicros is what the three services use of a processor for a step.
	CPUMicros float64 `json:"cpu_us"`
	// Replayed is how many steps a second the databases alone do with the same statements, and OfReplayed the build's share of that.
	Replayed   float64 `json:"replayed"`
	OfReplayed float64 `json:"of_replayed"`
	OfPgbench  float64 `json:"of_pgbench,omitempty"`

	Onboarding StepCost        `json:"onboarding"`
	Messaging  StepCost        `json:"messaging"`
	Statements []StepStatement `json:"statements"`
	Runs       []StepsRun      `json:"runs"`
}

// StepCost is what a step asks of a service's database.
type StepCost struct {
	Statements   float64 `json:"statements"` // begin and commit included
	RoundTrips   float64 `json:"round_trips"`
	Transactions float64 `json:"transactions"`
}

// StepStatement is a statement and how often a step makes it.
type StepStatement struct {
	Service string  `json:"service"`
	PerStep float64 `json:"per_step"`
	SQL     string  `json:"sql"`
}

// StepsRun is one measurement.
type StepsRun struct {
	Rate      float64 `json:"rate"`
	P50MS     float64 `json:"p50_ms"`
	P99MS     float64 `json:"p99_ms"`
	CPUMicros float64 `json:"cpu_us"`
	Replayed  Replay  `json:"replayed"`
}

// String is for people.
func (r StepsRun) String() string {
	return fmt.Sprintf("%7.0f steps/s, p50 %.1f ms, p99 %.1f ms, %.0f us of a processor; its statements alone %.0f steps/s, %.0f %% alike",
		r.Rate, r.P50MS, r.P99MS, r.CPUMicros, r.Replayed.Rate, 100*r.Replayed.Alike)
}

func (f *StepsFigure) costs() string {
	return fmt.Sprintf("statements a step: onboarding %.1f in %.1f round trips, messaging %.1f in %.1f",
		f.Onboarding.Statements, f.Onboarding.RoundTrips, f.Messaging.Statements, f.Messaging.RoundTrips)
}

// of are the values of all runs.
func of(runs []StepsRun, value func(StepsRun) float64) []float64 {
	values := make([]float64, len(runs))
	for i, r := range runs {
		values[i] = value(r)
	}
	return values
}

// within is the median of the rounds' ratios.
func within(of, to []float64) float64 {
	var ratios []float64
	for i := range min(len(of), len(to)) {
		if to[i] > 0 {
			ratios = append(ratios, of[i]/to[i])
		}
	}
	return median(ratios)
}

func rateOf(r StepsRun) float64 { return r.Rate }
func cpuOf(r StepsRun) float64  { return r.CPUMicros }

// conclude makes figures of the runs.
func (r *StepsReport) conclude(builds []*build) {
	for _, b := range builds {
		f, runs := b.figure, b.figure.Runs
		replayed := of(runs, func(r StepsRun) float64 { return r.Replayed.Rate })
		f.Rate, f.Replayed = median(of(runs, rateOf)), median(replayed)
		f.P50MS = median(of(runs, func(r StepsRun) float64 { return r.P50MS }))
		f.P99MS = median(of(runs, func(r StepsRun) float64 { return r.P99MS }))
		f.CPUMicros = median(of(runs, cpuOf))
		f.OfReplayed, f.OfPgbench = within(of(runs, rateOf), replayed), within(of(runs, rateOf), r.Pgbench)
		r.Builds = append(r.Builds, f)
	}
	if len(r.Builds) > 1 {
		r.Ratio = within(of(r.Builds[0].Runs, rateOf), of(r.Builds[1].Runs, rateOf))
		r.CPURatio = within(of(r.Builds[0].Runs, cpuOf), of(r.Builds[1].Runs, cpuOf))
	}
}

// Print writes the report for people.
func (r *StepsReport) Print(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprint(table, "\nbuild\tsteps/s\tp50 ms\tp99 ms\tCPU us\tits statements alone\tof that\tof pgbench\t"+ // Flush has the error
		"onboarding statements/round trips\tmessaging\t\n")
	for _, f := range r.Builds {
		_, _ = fmt.Fprintf(table, "%s\t%.0f\t%.1f\t%.1f\t%.0f\t%.0f\t%.2f\t%.2f\t%.1f / %.1f\t%.1f / %.1f\t\n", f.Build, f.Rate, f.P50MS, f.P99MS,
			f.CPUMicros, f.Replayed, f.OfReplayed, f.OfPgbench, f.Onboarding.Statements, f.Onboarding.RoundTrips,
			f.Messaging.Statements, f.Messaging.RoundTrips)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, f := range r.Builds {
		if _, err := fmt.Fprintf(out, "\n%s, for each step:\n", f.Build); err != nil {
			return err
		}
		for _, s := range f.Statements {
			if _, err := fmt.Fprintf(out, "  %4.2f  %-10s  %.140s\n", s.PerStep, s.Service, s.SQL); err != nil {
				return err
			}
		}
	}
	ratio := ""
	if len(r.Builds) > 1 {
		ratio = fmt.Sprintf("\n%s / %s: %.2f of the steps a second, %.2f of the processor's time for a step\n",
			r.Builds[0].Build, r.Builds[1].Build, r.Ratio, r.CPURatio)
	}
	_, err := fmt.Fprintf(out, "%s\nEvery step was done exactly once. %d steps, %d rounds, %d callbacks at once; pgbench %.0f steps/s.\n"+
		"Postgres %s, durable: %t, an fsync takes %.0f us; %d CPUs, load %.1f before and %.1f after.\n",
		ratio, r.Steps, r.Rounds, r.Callers, median(r.Pgbench), r.Postgres, r.Durable, r.FsyncMicros, r.CPUs, r.LoadBefore, r.LoadAfter)
	return err
}
