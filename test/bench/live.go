package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/deploy/stack"
	"paceline.internal/platform/process"
)

// Memory measures how much the three services have in memory while very many conversations are in their burst and some of their steps are
// due each second. A run that loses or doubles a step fails and has no figures.
type Memory struct {
	Sessions int           // in their burst, waiting
	Rate     int           // steps a second, of sessions besides
	For      time.Duration // how long

	Program []string
	Environ map[string]string
	Now     func() time.Time
	Tell    func(line string)
}

// memoryGoalMB is what the three services together may have.
const memoryGoalMB = 300

// memoryCallers is how many callbacks may be in flight: more than the rate needs.
const memoryCallers = 256

// MemoryReport is the result of a run of Memory.
type MemoryReport struct {
	Services []MemoryFigure `json:"services"`
	PeakMB   float64        `json:"peak_mb"` // of the three together
	GoalMB   float64        `json:"goal_mb"`
	GoalMet  bool           `json:"goal_met"`

	Sessions int     `json:"sessions"`
	Steps    int     `json:"steps"`
	Rate     float64 `json:"rate"` // that was reached
	Postgres string  `json:"postgres"`
	Durable  bool    `json:"durable"`

	CPUs        int     `json:"cpus"`
	LoadBefore  float64 `json:"load_before"`
	FsyncMicros float64 `json:"fsync_us"`
}

// MemoryFigure is one service, in megabytes that are resident: once it was ready, at the most, and in the end. They include its program.
type MemoryFigure struct {
	Service string  `json:"service"`
	ReadyMB float64 `json:"ready_mb"`
	PeakMB  float64 `json:"peak_mb"`
	EndMB   float64 `json:"end_mb"`
}

// Run measures.
func (m Memory) Run(ctx context.Context) (_ MemoryReport, err error) {
	steps := int(m.For.Seconds() * float64(m.Rate))
	if m.Sessions < 0 || m.Rate < 1 || steps < 4 {
		return MemoryReport{}, errors.New("--sessions must be 0 or more, --rate 1 or more, and --for as long as four steps take")
	}
	if memoryOf("self", "VmRSS") == 0 {
		return MemoryReport{}, errors.New("what a process has in memory is read from Linux's /proc, which is not here")
	}
	server, err := openServer(ctx)
	defer func() { err = errors.Join(err, server.close()) }()
	if err != nil {
		return MemoryReport{}, err
	}
	stubs, err := startStubs(ctx, time.Millisecond)
	if err != nil {
		return MemoryReport{}, err
	}
	defer func() { err = errors.Join(err, stubs.close()) }()
	s := Steps{Steps: steps, Callers: []int{1}, Program: m.Program, Environ: m.Environ, Now: m.Now, Tell: m.Tell}
	b := &build{name: "this", program: m.Program}
	m.Tell(fmt.Sprintf("making %d conversations", m.Sessions))
	for _, service := range databasesOf() {
		name := template(0, service)
		if err := s.makeTemplate(ctx, server, b, service, name); err != nil {
			return MemoryReport{}, err
		}
		if err := seedBeside(ctx, server.urlOf(name, "postgres"), sqlLive[service], m.Sessions); err != nil {
			return MemoryReport{}, fmt.Errorf("%s: %w", service, err)
		}
	}
	report := MemoryReport{
		GoalMB: memoryGoalMB, Sessions: m.Sessions, Steps: steps, Postgres: server.version, Durable: server.durable, CPUs: runtime.NumCPU(),
		FsyncMicros: server.fsyncMicros(m.Now), LoadBefore: load(),
	}
	m.Tell(fmt.Sprintf("%d steps a second for %s, load %.1f on %d CPUs", m.Rate, m.For, report.LoadBefore, report.CPUs))
	err = server.cloned(ctx, 0, func(urls map[string]string) error {
		place, err := s.open(ctx, server, stubs, b, urls, memoryCallers)
		if err != nil {
			return err
		}
		defer place.close()
		return m.measure(ctx, place, stubs, s, urls, &report)
	})
	return report, err
}

// measure has the steps done at their rate, and reads the services' memory before and after.
func (m Memory) measure(ctx context.Context, place *place, stubs *stubs, s Steps, urls map[string]string, report *MemoryReport) error {
	services := []string{stack.Gateway, stack.Onboarding, stack.Messaging}
	for _, service := range services {
		report.Services = append(report.Services, MemoryFigure{Service: service, ReadyMB: memoryOf(place.pids[service], "VmRSS")})
	}
	all, err := dueSteps{}.requests(ctx, place, urls, report.Steps, m.Now())
	if err != nil {
		return err
	}
	began := m.Now()
	for i, do := range all {
		due := began.Add(time.Duration(i) * time.Second / time.Duration(m.Rate))
		all[i] = func(ctx context.Context) error {
			process.RestOnMachineClock(ctx, due.Sub(m.Now()), nil) // a cancelled one fails at once
			return do(ctx)
		}
	}
	if _, err := s.call(ctx, all, memoryCallers); err != nil {
		return fmt.Errorf("%w; %s", err, place.complaints())
	}
	report.Rate = float64(report.Steps) / m.Now().Sub(began).Seconds()
	for i, service := range services {
		if _, err := place.ask(ctx, service, "/metrics"); err != nil { // what a scrape takes is part of it
			return err
		}
		figure := &report.Services[i]
		figure.PeakMB, figure.EndMB = memoryOf(place.pids[service], "VmHWM"), memoryOf(place.pids[service], "VmRSS")
		report.PeakMB += figure.PeakMB
	}
	report.GoalMet = report.PeakMB <= memoryGoalMB
	return examineSteps(ctx, urls, stubs, report.Steps)
}

// What lets $2 conversations of the organisation $1 be in their burst, whose next step is due in an hour.
var sqlLive = map[string][]string{
	stack.Onboarding: {
		`insert into profiles (id, org_id, phone, first_name, locale, time_zone, created_at, updated_at)
		select gen_random_uuid(), $1::uuid, '+1530' || (1000000 + n), 'Ana', 'en', 'America/New_York', at, at
		from generate_series(1, $2::integer) n, now() at`,
		`insert into conversation_sessions (id, org_id, profile_id, mode, state_token, next_step_id, status, copy_version, created_at, updated_at)
		select gen_random_uuid(), $1::uuid, id, 'onboarding', 'onboarding:awaiting_burst', 'onboarding_message_2', 'active', '2026-11', at, at
		from profiles, now() at where phone like '+1530%' and $2::integer > 0`,
		`insert into step_alarms (id, due_at, org_id, lease_until, session_id, published_at, profile_id, created_at, step_id,
			expected_state_token, generation, qstash_message_id)
		select gen_random_uuid(), at + interval '1 hour', org_id, at, id, at, profile_id, at, next_step_id, state_token, 1, 'msg_live'
		from conversation_sessions, now() at
		where org_id = $1::uuid and next_step_id is not null and id not in (` + sqlSeeded + `) and $2::integer > 0`,
	},
	stack.Messaging: {
		`insert into consents (org_id, phone, state, updated_at)
		select $1::uuid, '+1530' || (1000000 + n), 'opted_in', now() from generate_series(1, $2::integer) n`,
	},
}

// Print writes the report for people.
func (r *MemoryReport) Print(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprint(table, "\nservice\tMB ready\tMB at the most\tMB in the end\t\n") // Flush has the error
	for _, f := range r.Services {
		_, _ = fmt.Fprintf(table, "%s\t%.0f\t%.0f\t%.0f\t\n", f.Service, f.ReadyMB, f.PeakMB, f.EndMB)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\nAt the most %.0f MB together; the goal is %.0f MB, met: %t.\n"+
		"Every step was done exactly once. %d conversations in their burst, %d steps, %.0f a second.\n"+
		"Postgres %s, durable: %t, an fsync takes %.0f us; %d CPUs, load %.1f before.\n",
		r.PeakMB, r.GoalMB, r.GoalMet, r.Sessions, r.Steps, r.Rate, r.Postgres, r.Durable, r.FsyncMicros, r.CPUs, r.LoadBefore)
	return err
}

// seedBeside makes n conversations in the database of a service, beside the steps that are due there.
func seedBeside(ctx context.Context, database string, statements []string, n int) (err error) {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql, stack.OrgID, n); err != nil {
			return fmt.Errorf("seed: %w", err)
		}
	}
	_, err = conn.Exec(ctx, "vacuum analyze")
	return err
}
