package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/deploy/stack"
	"paceline.internal/platform/rpc"
)

// Growth measures what a step costs beside so many conversations that were, and how long the lists of /v1 take. A run that loses or doubles
// a step fails and has no figures.
type Growth struct {
	Sessions []int // that have been, each of them measured
	Steps    int
	Rounds   int
	Callers  int

	Program []string
	Environ map[string]string
	Now     func() time.Time
	Tell    func(line string)
}

// GrowthReport is the result of a run of Growth.
type GrowthReport struct {
	Sizes    []GrowthFigure `json:"sizes"`
	Steps    int            `json:"steps"`
	Rounds   int            `json:"rounds"`
	Callers  int            `json:"callers"`
	Postgres string         `json:"postgres"`
	Durable  bool           `json:"durable"`

	CPUs        int     `json:"cpus"`
	LoadBefore  float64 `json:"load_before"`
	FsyncMicros float64 `json:"fsync_us"`
}

// GrowthFigure is one size. Ratios are medians of the rounds' ratios to the first size.
type GrowthFigure struct {
	Sessions  int        `json:"sessions"`
	DiskMB    float64    `json:"disk_mb"` // of both databases
	Rate      float64    `json:"rate"`
	CPUMicros float64    `json:"cpu_us"` // of services and Postgres, for a step
	CPURatio  float64    `json:"cpu_ratio"`
	RateRatio float64    `json:"rate_ratio"`
	Runs      []StepsRun `json:"runs"`
	// Lists are how long each took, in milliseconds: the slowest of the rounds.
	Lists []ListFigure `json:"lists"`
}

// ListFigure is one list.
type ListFigure struct {
	Path    string  `json:"path"`
	WorstMS float64 `json:"worst_ms"`
}

// lists are the filters of /v1 that choose few of very many.
func lists() []string {
	return []string{
		"/v1/messages", "/v1/messages?status=rejected", "/v1/messages?status=queued", "/v1/messages?status=parked",
		"/v1/messages?status=delivered",
		"/v1/profiles", "/v1/profiles?name=a", "/v1/profiles?name=z", "/v1/profiles?state=none", "/v1/profiles?state=held",
		"/v1/profiles?state=active", "/v1/profiles?state=parked", "/v1/profiles?state=stopped", "/v1/sessions?status=closed",
		"/v1/sessions", "/v1/sessions?stuck=true", "/v1/sessions?state_token=onboarding:awaiting_explanation_response",
		"/v1/webhook-jobs", "/v1/webhook-jobs?status=failed", "/v1/webhook-jobs?event_type=kapso.survey.response",
		"/v1/webhook-jobs?status=completed&event_type=kapso.survey.response",
	}
}

// Run measures.
func (g Growth) Run(ctx context.Context) (_ GrowthReport, err error) {
	if len(g.Sessions) == 0 || slices.Min(g.Sessions) < 0 || g.Steps < 4 || g.Rounds < 1 || g.Callers < 1 {
		return GrowthReport{}, errors.New("--sessions must be 0 or more, --steps 4 or more, --rounds and --callers 1 or more")
	}
	server, err := openServer(ctx)
	defer func() { err = errors.Join(err, server.close()) }()
	if err != nil {
		return GrowthReport{}, err
	}
	stubs, err := startStubs(ctx, time.Millisecond)
	if err != nil {
		return GrowthReport{}, err
	}
	defer func() { err = errors.Join(err, stubs.close()) }()
	report := GrowthReport{
		Steps: g.Steps, Rounds: g.Rounds, Callers: g.Callers, Postgres: server.version, Durable: server.durable, CPUs: runtime.NumCPU(),
		FsyncMicros: server.fsyncMicros(g.Now), LoadBefore: load(), Sizes: make([]GrowthFigure, len(g.Sessions)),
	}
	s := Steps{Steps: g.Steps, Callers: []int{g.Callers}, Program: g.Program, Environ: g.Environ, Now: g.Now, Tell: g.Tell}
	b := &build{name: "this", program: g.Program}
	for i, n := range g.Sessions {
		g.Tell(fmt.Sprintf("making %d conversations", n))
		report.Sizes[i].Sessions = n
		for _, service := range databasesOf() {
			name := template(i, service)
			if err := s.makeTemplate(ctx, server, b, service, name); err != nil {
				return GrowthReport{}, err
			}
			if err := seedBeside(ctx, server.urlOf(name, "postgres"), sqlHistory[service], n); err != nil {
				return GrowthReport{}, fmt.Errorf("%s: %w", service, err)
			}
			var mb float64
			if err := queryRow(ctx, server.urlOf(name, "postgres"), `select pg_database_size(current_database()) / 1e6::float8`, &mb); err != nil {
				return GrowthReport{}, err
			}
			report.Sizes[i].DiskMB += mb
		}
	}
	for round := range g.Rounds {
		for turn := range g.Sessions {
			i := (round + turn) % len(g.Sessions)
			if err := g.round(ctx, server, stubs, s, b, i, &report.Sizes[i]); err != nil {
				return GrowthReport{}, fmt.Errorf("beside %d conversations: %w", g.Sessions[i], err)
			}
			runs := report.Sizes[i].Runs
			g.Tell(fmt.Sprintf("  round %d  %8d conversations  %s", round+1, g.Sessions[i], runs[len(runs)-1]))
		}
	}
	report.conclude()
	return report, nil
}

// round measures one size once.
func (g Growth) round(ctx context.Context, server *server, stubs *stubs, s Steps, b *build, i int, figure *GrowthFigure) error {
	return server.cloned(ctx, i, func(urls map[string]string) error {
		place, err := s.open(ctx, server, stubs, b, urls, g.Callers)
		if err != nil {
			return err
		}
		defer place.close()
		for n, path := range lists() {
			took, err := place.list(ctx, path, g.Now)
			if err != nil {
				return err
			}
			if len(figure.Lists) <= n {
				figure.Lists = append(figure.Lists, ListFigure{Path: path})
			}
			figure.Lists[n].WorstMS = max(figure.Lists[n].WorstMS, took)
		}
		run, err := s.drive(ctx, server, place, stubs, urls, g.Callers, func() error { return nil })
		figure.Runs = append(figure.Runs, run)
		return err
	})
}

// list asks for a list as an operator does, a few times so that connections and plans are warm, and returns how many milliseconds the
// slowest but the first took.
func (p *place) list(ctx context.Context, path string, now func() time.Time) (worst float64, err error) {
	token, err := stack.Secrets{APIJWT: apiKey}.APIToken("bench", stack.OrgID, rpc.RoleOperator, now(), time.Minute)
	if err != nil {
		return 0, err
	}
	for try := range 4 {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.origin+path, http.NoBody)
		if err != nil {
			return 0, err
		}
		request.Header.Set("Authorization", "Bearer "+token)
		began := now()
		response, err := p.client.Do(request)
		if err != nil {
			return 0, err
		}
		_, err = io.Copy(io.Discard, response.Body)
		if err := errors.Join(err, response.Body.Close()); err != nil {
			return 0, err
		}
		if response.StatusCode != http.StatusOK {
			return 0, fmt.Errorf("%s: %s", path, response.Status)
		}
		if try > 0 {
			worst = max(worst, float64(now().Sub(began).Microseconds())/1000)
		}
	}
	return worst, nil
}

// What $2 conversations of the organisation $1 leave behind: people who have been through their burst, with what was said to them. A few
// messages in ten thousand were rejected, and one job in a hundred thousand is a survey.
var sqlHistory = map[string][]string{
	stack.Onboarding: {
		`insert into profiles (id, org_id, phone, first_name, locale, time_zone, created_at, updated_at)
		select gen_random_uuid(), $1::uuid, '+1520' || (1000000 + n), 'Ana', 'en', 'America/New_York', at, at
		from generate_series(1, $2::integer) n, now() at`,
		`insert into conversation_sessions (id, org_id, profile_id, mode, state_token, status, copy_version, created_at, updated_at)
		select gen_random_uuid(), $1::uuid, id, 'interviewing', 'interview:activity_01', 'active', '2026-11', at, at
		from profiles, now() at where phone like '+1520%' and $2::integer > 0`,
		`insert into step_alarms (id, due_at, org_id, lease_until, session_id, published_at, profile_id, created_at, step_id,
			expected_state_token, generation, qstash_message_id)
		select gen_random_uuid(), at, org_id, at, id, at, profile_id, at, 'onboarding_message_' || k, 'onboarding:awaiting_burst', 1, 'msg_old'
		from conversation_sessions, generate_series(1, 4) k, now() at where org_id = $1::uuid and mode = 'interviewing' and $2::integer > 0`,
		`insert into session_transitions (session_id, at, kind, from_state_token, to_state_token, trigger, step_id)
		select id, now(), 'sent', 'onboarding:awaiting_burst', 'onboarding:awaiting_burst', 'step', 'onboarding_message_' || k
		from conversation_sessions, generate_series(1, 4) k where org_id = $1::uuid and mode = 'interviewing' and $2::integer > 0`,
		`insert into webhook_jobs (id, org_id, idempotency_key, source, event_type, subject, payload, status, processed_at, created_at,
			updated_at)
		select gen_random_uuid(), $1::uuid, 'SM' || n, 'twilio', case when n % 100000 = 7 then 'kapso.survey.response' else 'message' end,
			'+1520' || (1000000 + n), '{"body": "yes please, tell me more about it"}', 'completed', at as processed, at as created, at as updated
		from generate_series(1, $2::integer) n, now() at`,
	},
	stack.Messaging: {
		`insert into consents (org_id, phone, state, updated_at)
		select $1::uuid, '+1520' || (1000000 + n), 'opted_in', now() from generate_series(1, $2::integer) n`,
		`insert into sms_messages (id, org_id, direction, from_number, to_number, body, body_hash, idempotency_key, status, twilio_sid,
			error_code, segments, correlation_id, attempt_token, attempted_at, lease_until, attempts, accepted_at, created_at, updated_at)
		select gen_random_uuid(), $1::uuid, 'outbound', '+14155550100', '+1520' || (1000000 + n), repeat('what was said ', 9), sha256('x'),
			'old:' || n || ':' || k, case when rare then 'rejected' else 'delivered' end, case when not rare then 'SM' || md5(n || ':' || k) end,
			case when rare then 21614 end, 1, '', gen_random_uuid(), at as attempted, at as leased, 1,
			case when not rare then at end, at as created, at as updated
		from generate_series(1, $2::integer) n, generate_series(1, 6) k, now() at, lateral (select n % 10000 = 7 and k = 1 as rare) r`,
	},
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

func (r *GrowthReport) conclude() {
	first := r.Sizes[0].Runs
	for i := range r.Sizes {
		f := &r.Sizes[i]
		f.Rate, f.CPUMicros = median(of(f.Runs, rateOf)), median(of(f.Runs, cpuOf))
		f.CPURatio, f.RateRatio = within(of(f.Runs, cpuOf), of(first, cpuOf)), within(of(f.Runs, rateOf), of(first, rateOf))
	}
}

// Print writes the report for people.
func (r *GrowthReport) Print(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprint(table, "\nconversations\tMB\tsteps/s\tCPU us\tCPU to the first\tsteps/s to the first\t\n") // Flush has the error
	for _, f := range r.Sizes {
		_, _ = fmt.Fprintf(table, "%d\t%.0f\t%.0f\t%.0f\t%.2f\t%.2f\t\n", f.Sessions, f.DiskMB, f.Rate, f.CPUMicros, f.CPURatio, f.RateRatio)
	}
	_, _ = fmt.Fprint(table, "\nms at the most\t")
	for _, f := range r.Sizes {
		_, _ = fmt.Fprintf(table, "%d\t", f.Sessions)
	}
	for n, path := range lists() {
		_, _ = fmt.Fprintf(table, "\n%s\t", path)
		for _, f := range r.Sizes {
			_, _ = fmt.Fprintf(table, "%.1f\t", f.Lists[n].WorstMS)
		}
	}
	_, _ = fmt.Fprintln(table)
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\nEvery step was done exactly once. %d steps, %d rounds, %d callbacks at once.\n"+
		"Postgres %s, durable: %t, an fsync takes %.0f us; %d CPUs, load %.1f before.\n",
		r.Steps, r.Rounds, r.Callers, r.Postgres, r.Durable, r.FsyncMicros, r.CPUs, r.LoadBefore)
	return err
}
