package bench

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// StepsReport is the result of a run of Steps.
type StepsReport struct {
	Builds []StepsFigure `json:"builds"`
	// Pgbench is, for each round, what pgbench did with the product's own statements, one step after the other on each connection; none where
	// there is no pgbench.
	Pgbench []PgbenchRun `json:"pgbench"`

	Work     string  `json:"work"`
	Backlog  int     `json:"backlog,omitempty"`
	Steps    int     `json:"steps"`
	Rounds   int     `json:"rounds"`
	TwilioMS float64 `json:"twilio_ms"`
	Postgres string  `json:"postgres"`
	Durable  bool    `json:"durable"`

	CPUs        int     `json:"cpus"`
	LoadBefore  float64 `json:"load_before"` // of the machine, over a minute; -1 is unknown
	LoadAfter   float64 `json:"load_after"`
	FsyncMicros float64 `json:"fsync_us"`
}

// StepsFigure is one build.
type StepsFigure struct {
	Build      string          `json:"build"`
	Callers    []CallersFigure `json:"callers"`
	Onboarding StepCost        `json:"onboarding"` // of a step alone
	Messaging  StepCost        `json:"messaging"`
	Statements []StepStatement `json:"statements"`
}

// CallersFigure is a build with so many callbacks in flight. Figures are medians of the rounds, and ratios medians of the rounds' ratios.
type CallersFigure struct {
	Callers int     `json:"callers"`
	Rate    float64 `json:"rate"` // done, a second
	// Answered is how many requests a second were answered, which of webhooks is sooner than done.
	Answered float64 `json:"answered"`
	P50MS    float64 `json:"p50_ms"`
	P99MS    float64 `json:"p99_ms"`
	// OfPgbench and CPUOfPgbench are the share of pgbench's rate, and of its processor time for a step.
	OfPgbench    float64 `json:"of_pgbench,omitempty"`
	CPUOfPgbench float64 `json:"cpu_of_pgbench,omitempty"`
	// Ratio and CPURatio are the same of the first build to this one.
	Ratio    float64    `json:"ratio,omitempty"`
	CPURatio float64    `json:"cpu_ratio,omitempty"`
	Use      StepUse    `json:"use"`
	Runs     []StepsRun `json:"runs"`
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
	StepUse

	Rate float64 `json:"rate"` // done, a second
	// Answered is how many requests a second were answered, which of webhooks is sooner than done.
	Answered float64 `json:"answered"`
	P50MS    float64 `json:"p50_ms"`
	P99MS    float64 `json:"p99_ms"`
}

// String is for people.
func (r StepsRun) String() string {
	return fmt.Sprintf("%7.0f done/s, p50 %.1f ms, p99 %.1f ms, %.0f us of a processor, %.2f commits, %.2f syncs", r.Rate, r.P50MS, r.P99MS,
		r.total(), r.Commits, r.WALSyncs)
}

func (f *StepsFigure) costs() string {
	return fmt.Sprintf("statements a step: onboarding %.1f in %.1f round trips, messaging %.1f in %.1f",
		f.Onboarding.Statements, f.Onboarding.RoundTrips, f.Messaging.Statements, f.Messaging.RoundTrips)
}

// of are the values of all runs.
func of[R any](runs []R, value func(R) float64) []float64 {
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
func cpuOf(r StepsRun) float64  { return r.total() }

// conclude makes figures of the runs.
func (r *StepsReport) conclude(builds []*build, callers []int) {
	rates := of(r.Pgbench, func(p PgbenchRun) float64 { return p.Rate })
	cpus := of(r.Pgbench, func(p PgbenchRun) float64 { return p.CPUMicros })
	for _, b := range builds {
		f := b.figure
		for _, n := range callers {
			runs := b.runs[n]
			figure := CallersFigure{
				Callers: n, Rate: median(of(runs, rateOf)), P50MS: median(of(runs, func(r StepsRun) float64 { return r.P50MS })),
				P99MS:    median(of(runs, func(r StepsRun) float64 { return r.P99MS })),
				Answered: median(of(runs, func(r StepsRun) float64 { return r.Answered })), Use: medianUse(runs), Runs: runs,
			}
			if len(r.Pgbench) > 0 {
				figure.OfPgbench, figure.CPUOfPgbench = within(of(runs, rateOf), rates), within(of(runs, cpuOf), cpus)
			}
			first := builds[0].runs[n]
			figure.Ratio, figure.CPURatio = within(of(first, rateOf), of(runs, rateOf)), within(of(first, cpuOf), of(runs, cpuOf))
			f.Callers = append(f.Callers, figure)
		}
		r.Builds = append(r.Builds, f)
	}
}

func medianUse(runs []StepsRun) StepUse {
	each := func(counts func(StepsRun) map[string]float64) map[string]float64 {
		medians := map[string]float64{}
		for _, run := range runs {
			for name := range counts(run) {
				medians[name] = median(of(runs, func(r StepsRun) float64 { return counts(r)[name] }))
			}
		}
		return medians
	}
	return StepUse{
		CPUMicros:   each(func(r StepsRun) map[string]float64 { return r.CPUMicros }),
		Updates:     each(func(r StepsRun) map[string]float64 { return r.Updates }),
		HotUpdates:  each(func(r StepsRun) map[string]float64 { return r.HotUpdates }),
		Allocations: median(of(runs, func(r StepsRun) float64 { return r.Allocations })),
		Commits:     median(of(runs, func(r StepsRun) float64 { return r.Commits })),
		WALSyncs:    median(of(runs, func(r StepsRun) float64 { return r.WALSyncs })),
		WALBytes:    median(of(runs, func(r StepsRun) float64 { return r.WALBytes })),
	}
}

// Print writes the report for people.
func (r *StepsReport) Print(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprint(table, "\nbuild\tat once\tdone/s\tanswered/s\tp50 ms\tp99 ms\tof pgbench\t"+
		"CPU us: gateway\tonboarding\tmessaging\tPostgres\tof pgbench's\t"+
		"commits\tsyncs\tWAL kB\tallocations\t\n") // Flush has the error
	for _, f := range r.Builds {
		for _, c := range f.Callers {
			u := c.Use
			_, _ = fmt.Fprintf(table, "%s\t%d\t%.0f\t%.0f\t%.1f\t%.1f\t%.2f\t%.0f\t%.0f\t%.0f\t%.0f\t%.2f\t%.2f\t%.2f\t%.1f\t%.0f\t\n",
				f.Build, c.Callers, c.Rate, c.Answered, c.P50MS, c.P99MS, c.OfPgbench, u.CPUMicros["gateway"],
				u.CPUMicros["onboarding"], u.CPUMicros["messaging"], u.CPUMicros["postgres"],
				c.CPUOfPgbench, u.Commits, u.WALSyncs, u.WALBytes/1e3, u.Allocations)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for i, f := range r.Builds {
		if _, err := fmt.Fprintf(out, "\n%s, for each of the %s, one after the other: %s\n", f.Build, r.Work, f.costs()); err != nil {
			return err
		}
		for _, s := range f.Statements {
			if _, err := fmt.Fprintf(out, "  %4.2f  %-10s  %.140s\n", s.PerStep, s.Service, s.SQL); err != nil {
				return err
			}
		}
		for _, c := range f.Callers {
			if _, err := fmt.Fprintf(out, "hot updates, %d at once: %s\n", c.Callers, c.Use.hot()); err != nil {
				return err
			}
			if i == 0 {
				continue
			}
			if _, err := fmt.Fprintf(out, "%s / %s, %d at once: %.2f of the steps a second, %.2f of the processor's time for a step\n",
				r.Builds[0].Build, f.Build, c.Callers, c.Ratio, c.CPURatio); err != nil {
				return err
			}
		}
	}
	_, err := fmt.Fprintf(out, "\nEach was done exactly once. %d %s, %d rounds, Twilio takes %.0f ms; pgbench %.0f steps/s, "+
		"%.0f us of a processor.\n"+
		"Postgres %s, durable: %t, an fsync takes %.0f us; %d CPUs, load %.1f before and %.1f after.\n",
		r.Steps, r.Work, r.Rounds, r.TwilioMS, median(of(r.Pgbench, func(p PgbenchRun) float64 { return p.Rate })),
		median(of(r.Pgbench, func(p PgbenchRun) float64 { return p.CPUMicros })),
		r.Postgres, r.Durable, r.FsyncMicros, r.CPUs, r.LoadBefore, r.LoadAfter)
	return err
}
