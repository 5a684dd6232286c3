package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"paceline.internal/deploy/stack"
	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding"
	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/engagement/rules"
	store "paceline.internal/services/onboarding/postgres"
)

// Engagement measures a daily run over people who are all due: each gets a transition, its audit row, its event and a goodbye in the
// queue. Beside it, some of them are moved one at a time, as the source system does.
type Engagement struct {
	People []int // of each measurement
	Sample int   // how many of them are moved one at a time before

	Now  func() time.Time
	Tell func(line string)
}

// EngagementReport is the result.
type EngagementReport struct {
	Sizes    []EngagementFigure `json:"sizes"`
	Postgres string             `json:"postgres"`
	Durable  bool               `json:"durable"`
	CPUs     int                `json:"cpus"`
	Before   float64            `json:"load_before"` // of the machine, over a minute; -1 is unknown
	After    float64            `json:"load_after"`
}

// EngagementFigure is one measurement.
type EngagementFigure struct {
	People  int     `json:"people"`
	Seconds float64 `json:"seconds"` // of the run
	// Micros is what the run takes for a person, and OneAtATime what moving them alone takes, which the sample says.
	Micros     float64 `json:"us_per_person"`
	OneAtATime float64 `json:"us_one_at_a_time"`
	Ratio      float64 `json:"ratio"` // how many times as fast the run is
}

// Run measures. An error is a person who was not moved exactly once.
func (e Engagement) Run(ctx context.Context) (_ EngagementReport, err error) {
	if len(e.People) == 0 || e.Sample < 1 {
		return EngagementReport{}, errors.New("--people and --sample must be 1 or more")
	}
	server, err := openServer(ctx)
	defer func() { err = errors.Join(err, server.close()) }()
	if err != nil {
		return EngagementReport{}, err
	}
	if err := server.private.EnsureService(ctx, "onboarding"); err != nil {
		return EngagementReport{}, err
	}
	url := server.private.URL("onboarding", "onboarding")
	if err := onboarding.Migrations().Up(ctx, url); err != nil {
		return EngagementReport{}, err
	}
	pool, err := postgres.Open(ctx, postgres.Config{URL: url, MaxConns: 4})
	if err != nil {
		return EngagementReport{}, err
	}
	defer pool.Close()
	report := EngagementReport{Postgres: server.version, Durable: server.durable, CPUs: runtime.NumCPU(), Before: load()}
	for _, n := range e.People {
		if n <= e.Sample {
			return EngagementReport{}, errors.New("--people must be more than --sample")
		}
		figure, err := e.measure(ctx, pool, n)
		if err != nil {
			return EngagementReport{}, fmt.Errorf("%d people: %w", n, err)
		}
		e.Tell(fmt.Sprintf("  %9d people  %8.2f s  %6.0f us a person, one at a time %6.0f us",
			n, figure.Seconds, figure.Micros, figure.OneAtATime))
		report.Sizes = append(report.Sizes, figure)
	}
	report.After = load()
	return report, nil
}

// engagementNow is after the run of its day.
var engagementNow = time.Date(2026, time.November, 23, 7, 0, 0, 0, time.UTC)

// sqlIdle makes people who have been silent for 15 days and a bit, each a microsecond longer than the one before.
var sqlIdle = []string{
	`truncate profiles, engagement_runs, event_outbox cascade`,
	`insert into profiles (id, org_id, phone, first_name, locale, time_zone, created_at, updated_at)
select md5('person ' || n)::uuid, $2::uuid, '+1555' || lpad(n::text, 8, '0'), 'Ana', 'en', 'UTC', $3::timestamptz, $3
from generate_series(1, $1::integer) n`,
	`insert into user_engagement_states (id, org_id, profile_id, state, last_activity_at, created_at, updated_at)
select md5('state ' || n)::uuid, $2::uuid, md5('person ' || n)::uuid, 'active', $3::timestamptz - n * interval '1 microsecond', $3, $3
from generate_series(1, $1::integer) n`,
	`analyze`,
}

// sqlMovedOnce is how many people were moved exactly once, with all that belongs to it.
const sqlMovedOnce = `
select count(*) from user_engagement_states u
where u.state = 'goodbye_sent' and u.goodbye_sent_at is not null
  and 1 = (select count(*) from engagement_state_transitions t where t.profile_id = u.profile_id)
  and 1 = (select count(*) from engagement_outreach o where o.org_id = u.org_id and o.profile_id = u.profile_id)`

func (e Engagement) measure(ctx context.Context, pool *pgxpool.Pool, n int) (f EngagementFigure, err error) {
	ctx = postgres.AcrossOrganisations(ctx)
	for i, sql := range sqlIdle {
		args := []any{n, stack.OrgID, engagementNow.AddDate(0, 0, -16)}
		if i == 0 || i == len(sqlIdle)-1 {
			args = nil
		}
		if _, err := pool.Exec(ctx, sql, args...); err != nil {
			return f, fmt.Errorf("make people: %w", err)
		}
	}
	rows := store.NewStore(pool).Engagement()
	began := e.Now()
	if err := e.oneAtATime(ctx, rows, pool); err != nil {
		return f, err
	}
	f.OneAtATime = micros(e.Now().Sub(began), e.Sample)
	if _, err := pool.Exec(ctx, `analyze`); err != nil { // connections keep the plans of empty tables until then
		return f, err
	}
	people := engagement.New(engagement.Config{
		Store: rows, Carrier: sender{}, Rules: rules.DefaultConfig(), Texts: catalog.DefaultEngagement(),
		Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return engagementNow },
	})
	began = e.Now()
	if _, err := people.WorkRuns(ctx, stack.OrgID, time.Hour); err != nil {
		return f, err
	}
	took := e.Now().Sub(began)
	var moved, told int
	if err := pool.QueryRow(ctx, sqlMovedOnce).Scan(&moved); err != nil {
		return f, err
	}
	if err := pool.QueryRow(ctx, `select count(*) from event_outbox where type <> 'engagement.run_finished'`).Scan(&told); err != nil {
		return f, err
	}
	if moved != n || told != n {
		return f, fmt.Errorf("%d of %d were moved exactly once, and %d events tell of it", moved, n, told)
	}
	f.People, f.Seconds, f.Micros = n, took.Seconds(), micros(took, n-e.Sample)
	f.Ratio = f.OneAtATime / f.Micros
	return f, nil
}

func micros(d time.Duration, n int) float64 { return float64(d.Microseconds()) / float64(n) }

// oneAtATime moves the sample: each person is read, decided and written alone.
func (e Engagement) oneAtATime(ctx context.Context, rows *store.Engagement, pool *pgxpool.Pool) error {
	var ids []string
	if err := pool.QueryRow(ctx, `select array(select profile_id::text from user_engagement_states order by profile_id limit $1)`, e.Sample).
		Scan(&ids); err != nil {
		return err
	}
	limits := rules.DefaultConfig().Limits
	for _, id := range ids {
		v, err := rows.PersonByID(ctx, stack.OrgID, id, "")
		if err != nil {
			return err
		}
		m, err := limits.Decide(v.Person, v.Situation, rules.Event{Trigger: rules.Inactivity14d, At: engagementNow, Now: engagementNow})
		if err != nil {
			return err
		}
		o := rules.Outreach{Type: rules.Goodbye, At: engagementNow}
		if err := rows.Apply(ctx, engagement.Change{
			View: v, Cause: "run:" + uuid.NewString(), Moves: []rules.Move{m}, At: engagementNow,
			Outreach: []engagement.Outreach{{
				Type: o.Type, Key: o.Key(id), MessageKey: catalog.Goodbye, LocalDay: rules.LocalDay(o.At, o.Zone), DueAt: engagementNow,
				ExpiresAt: o.Expires(),
			}},
			Events: []engagement.Event{{Type: engagement.EventStateChanged, Time: engagementNow, Data: map[string]any{"to": "goodbye_sent"}}},
		}); err != nil {
			return err
		}
	}
	return nil
}

// sender is messaging as far as a run asks it: whether there is a number to write from.
type sender struct{}

var errNothingIsSent = errors.New("a run sends nothing")

func (sender) Sender(context.Context, string) (string, error) { return "", nil }

func (sender) Send(context.Context, conversation.Message) (conversation.Sent, error) {
	return conversation.Sent{}, errNothingIsSent
}

func (sender) SetReminders(context.Context, string, string, engagement.RemindersSaid) (engagement.RemindersSaid, error) {
	return engagement.RemindersSaid{}, errNothingIsSent
}

func (sender) Fate(context.Context, string, string) (engagement.Fate, error) {
	return engagement.Fate{}, errNothingIsSent
}

// Print writes the report for people.
func (r *EngagementReport) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, "people\trun\ta person\tone at a time\ttimes as fast\t")
	for _, f := range r.Sizes {
		_, _ = fmt.Fprintf(w, "%d\t%.2f s\t%.0f us\t%.0f us\t%.1f\t\n", f.People, f.Seconds, f.Micros, f.OneAtATime, f.Ratio)
	}
	_, _ = fmt.Fprintf(w, "\n")
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "Postgres %s, durable: %t, %d CPUs, load %.1f before and %.1f after.\n",
		r.Postgres, r.Durable, r.CPUs, r.Before, r.After)
	return err
}
