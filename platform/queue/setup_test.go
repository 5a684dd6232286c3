package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/clock"
	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/platform/process"
	"paceline.internal/platform/queue"
)

var (
	errWork   = errors.New("it did not work")
	errOutage = errors.New("the database is failing over")
)

func TestMain(m *testing.M) { pgtest.Run(m) }

// columns declares the columns that Table asks for.
const columns = `
    id              uuid        primary key,
    org_id          uuid        not null,
    idempotency_key text        not null,
    event_type      text        not null,
    subject         text        not null,
    payload         jsonb       not null,
    status          text        not null check (status in ('pending', 'processing', 'completed', 'failed', 'cancelled')),
    attempts        integer     not null default 0,
    max_attempts    integer     not null default 3,
    next_retry_at   timestamptz,
    lease_token     uuid,
    lease_until     timestamptz,
    lost_leases     integer     not null default 0,
    processed_at    timestamptz,
    error_message   text        not null default '',
    created_at      timestamptz not null,
    updated_at      timestamptz not null,
    actor           jsonb,
    unique (org_id, idempotency_key),
    check ((status = 'pending') = (next_retry_at is not null)),
    check ((status = 'processing') = (lease_token is not null)),
    check ((status = 'processing') = (lease_until is not null)),
    check ((status in ('completed', 'failed', 'cancelled')) = (processed_at is not null))`

func schema() postgres.Migrations {
	return postgres.Migrations{FS: fstest.MapFS{"0001_jobs.sql": {Data: []byte(`-- +goose Up
create table jobs (` + columns + `);
create index jobs_due on jobs (org_id, next_retry_at, id) where status = 'pending';
create index jobs_leased on jobs (lease_until) where status = 'processing';
create index jobs_open_by_subject on jobs (org_id, subject, id) where status in ('pending', 'processing') and subject <> '';
create index jobs_at_work_by_subject on jobs (subject, org_id, id) where status = 'processing' and subject <> '';
create index jobs_failed on jobs (org_id, id) where status = 'failed';
create index jobs_by_org on jobs (org_id, id);
create index jobs_ended on jobs (processed_at, id) where processed_at is not null;

create table errands (` + columns + `, priority smallint not null, source text not null);
create index errands_due on errands (org_id, priority, next_retry_at, id) where status = 'pending';
create index errands_leased on errands (lease_until) where status = 'processing';
-- +goose Down
drop table errands;
drop table jobs;
`)}}}
}

const lease = 40 * time.Second

// bundle is a queue on a real database and a clock that stands still.
type bundle struct {
	t     *testing.T
	wake  chan struct{}
	pool  *pgxpool.Pool
	queue *queue.Queue
	clock *clock.Settable
	orgID string

	mu     sync.Mutex
	ran    []string // the ids of the jobs that were handled
	given  []string // of those that were given up
	handle queue.Handler
	giveUp error
	change func(*queue.Config)
}

func setup(t *testing.T) *bundle {
	t.Helper()
	pool := pgtest.New(t, schema())
	return &bundle{
		t: t, wake: make(chan struct{}, 1), pool: pool, queue: queue.NewQueue(pool, queue.Table{Name: "jobs"}), orgID: uuid.NewString(),
		clock: clock.NewSettable(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)),
	}
}

func (b *bundle) config() queue.Config {
	cfg := queue.Config{
		Name: "jobs", Store: b.queue, Log: slog.New(slog.DiscardHandler), Now: b.clock.Now, Wake: b.wake, Lease: lease,
		Transient: func(err error) bool { return errors.Is(err, errOutage) },
		Handlers: map[string]queue.Handler{"work": func(ctx context.Context, j queue.Job) error {
			b.mu.Lock()
			b.ran = append(b.ran, j.ID)
			handle := b.handle
			b.mu.Unlock()
			if handle == nil {
				return nil
			}
			return handle(ctx, j)
		}},
		GiveUp: func(_ context.Context, j queue.Job, _ error) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.given = append(b.given, j.ID)
			return b.giveUp
		},
	}
	if b.change != nil {
		b.change(&cfg)
	}
	return cfg
}

// onceStarted lets a loop begin, and then rests as told.
func onceStarted(rest process.Rest) process.Rest {
	started := false
	return func(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
		if !started {
			started = true
			return true
		}
		return rest(ctx, d, wake)
	}
}

func (b *bundle) runner() *queue.Runner { return queue.NewRunner(b.config()) }

// job is a new one, due now.
func (b *bundle) job(subject string) queue.New {
	id := uuid.Must(uuid.NewV7()).String()
	return queue.New{
		ID: id, OrgID: b.orgID, Key: id, EventType: "work", Subject: subject, Payload: json.RawMessage(`{}`),
		At: b.clock.Now(), DueAt: b.clock.Now(),
	}
}

func (b *bundle) add(jobs ...queue.New) []string {
	b.t.Helper()
	stored, err := b.queue.EnqueueMany(b.t.Context(), b.pool, jobs)
	require.NoError(b.t, err)
	ids := make([]string, len(stored))
	for i, s := range stored {
		require.NoError(b.t, s.Err())
		require.False(b.t, s.Duplicate)
		ids[i] = s.ID
	}
	return ids
}

func (b *bundle) enqueue(subject string) string {
	b.t.Helper()
	return b.add(b.job(subject))[0]
}

func (b *bundle) enqueueAt(subject string, due time.Time) string {
	b.t.Helper()
	n := b.job(subject)
	n.DueAt = due
	return b.add(n)[0]
}

// drain runs everything that is due, and says what was handled.
func (b *bundle) drain() []string {
	b.t.Helper()
	b.mu.Lock()
	b.ran = nil
	b.mu.Unlock()
	_, err := b.runner().Drain(b.t.Context())
	require.NoError(b.t, err)
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ran
}

func (b *bundle) row(id string) queue.Row {
	b.t.Helper()
	r, err := b.queue.Get(b.t.Context(), b.orgID, id)
	require.NoError(b.t, err)
	return r
}

// claim claims what is due, as a process does that then dies.
func (b *bundle) claim(limit int) queue.Claimed {
	b.t.Helper()
	now := b.clock.Now()
	c, err := b.queue.Claim(b.t.Context(), queue.Claim{Limit: limit, Now: now, Until: now.Add(lease)})
	require.NoError(b.t, err)
	return c
}

func (b *bundle) claimOne(id string) []queue.Job {
	b.t.Helper()
	now := b.clock.Now()
	c, err := b.queue.Claim(b.t.Context(), queue.Claim{ID: id, Limit: 1, Now: now, Until: now.Add(lease)})
	require.NoError(b.t, err)
	return c.Jobs
}

// fails has every job fail from now on.
func (b *bundle) fails(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.handle = func(context.Context, queue.Job) error { return err }
}
