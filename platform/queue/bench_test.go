package queue_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/platform/queue"
)

// fill stores n due jobs of the organisations in turn, each with its own subject if they are to have one.
func fill(b testing.TB, pool *pgxpool.Pool, jobs *queue.Queue, orgs []string, n int, subjects bool, at time.Time) {
	b.Helper()
	payload := json.RawMessage(`{"text":"` + strings.Repeat("x", 230) + `"}`)
	for done := 0; done < n; {
		batch := make([]queue.New, min(1000, n-done))
		for i := range batch {
			id := uuid.Must(uuid.NewV7()).String()
			batch[i] = queue.New{ID: id, OrgID: orgs[i%len(orgs)], Key: id, EventType: "work", Payload: payload, At: at, DueAt: at}
			if subjects {
				batch[i].Subject = id
			}
		}
		_, err := jobs.EnqueueMany(b.Context(), pool, batch)
		require.NoError(b, err)
		done += len(batch)
	}
}

// finished stores n completed jobs of an organisation.
func finished(b testing.TB, pool *pgxpool.Pool, orgID string, n int, now time.Time) {
	b.Helper()
	_, err := pool.Exec(b.Context(), `insert into jobs (id, org_id, idempotency_key, event_type, subject, payload, status, processed_at, created_at, updated_at)
		select gen_random_uuid(), $1, n::text, 'work', '', '{}', 'completed', $2, $2, $2 from generate_series(1, $3::integer) n`, orgID, now, n)
	require.NoError(b, err)
}

func BenchmarkDrain(b *testing.B) {
	for _, tt := range []struct {
		name               string
		finished           int
		orgs               int
		held, subjects     bool
		fetchers, capacity int
	}{
		{name: "OneFetcher", orgs: 1, fetchers: 1, capacity: 1000},
		{name: "TwoFetchers", orgs: 1, fetchers: 2, capacity: 1500},
		{name: "TwoFetchersTenOrganisations", orgs: 10, fetchers: 2, capacity: 1500},
		{name: "AMillionFinished", orgs: 1, fetchers: 2, capacity: 1500, finished: 1_000_000},
		{name: "OldSnapshotHeld", orgs: 1, fetchers: 2, capacity: 1500, held: true},
		{name: "EachWithASubject", orgs: 1, fetchers: 2, capacity: 1500, subjects: true},
	} {
		b.Run(tt.name, func(b *testing.B) {
			pool := pgtest.New(b, schema())
			jobs := queue.NewQueue(pool, queue.Table{Name: "jobs"})
			orgs := make([]string, tt.orgs)
			for i := range orgs {
				orgs[i] = uuid.NewString()
			}
			now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
			if tt.finished > 0 {
				finished(b, pool, orgs[0], tt.finished, now)
			}
			if tt.held {
				tx, err := pool.Begin(b.Context())
				require.NoError(b, err)
				_, err = tx.Exec(b.Context(), `set transaction isolation level repeatable read`)
				require.NoError(b, err)
				_, err = tx.Exec(b.Context(), `select count(*) from jobs`)
				require.NoError(b, err)
				defer func() { _ = tx.Rollback(context.Background()) }()
			}
			fill(b, pool, jobs, orgs, b.N, tt.subjects, now)
			var ran atomic.Int64
			runner := queue.NewRunner(queue.Config{
				Name: "jobs", Store: jobs, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now },
				Workers: tt.capacity, Batch: 500, Fetchers: tt.fetchers,
				Handlers: map[string]queue.Handler{"work": func(context.Context, queue.Job) error { ran.Add(1); return nil }},
			})
			b.ResetTimer()
			n, err := runner.Drain(b.Context())
			b.StopTimer()
			require.NoError(b, err)
			require.Equal(b, b.N, n)
			require.Equal(b, int64(b.N), ran.Load())
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "jobs/s")
			var left int
			require.NoError(b, pool.QueryRow(b.Context(), `select count(*) from jobs where status <> 'completed'`).Scan(&left))
			require.Zero(b, left, fmt.Sprint(tt.name))
		})
	}
}

// BenchmarkStatus (S2_13) asks how a queue is doing, and what failed, among a million finished jobs.
func BenchmarkStatus(b *testing.B) {
	pool := pgtest.New(b, schema())
	jobs := queue.NewQueue(pool, queue.Table{Name: "jobs"})
	org, now := uuid.NewString(), time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	finished(b, pool, org, 1_000_000, now)
	fill(b, pool, jobs, []string{org, uuid.NewString()}, 3000, false, now)
	_, err := pool.Exec(b.Context(), `update jobs set status = 'failed', processed_at = $1, next_retry_at = null
		where id in (select id from jobs where status = 'pending' limit 1000)`, now)
	require.NoError(b, err)
	_, err = pool.Exec(b.Context(), `analyze jobs`)
	require.NoError(b, err)
	b.Run("Gauges", func(b *testing.B) {
		for b.Loop() {
			s, err := jobs.Gauges(b.Context(), now)
			require.NoError(b, err)
			require.Equal(b, 1000, s.Failed)
		}
	})
	for _, status := range []string{"", queue.StatusPending, queue.StatusProcessing, queue.StatusFailed, queue.StatusCompleted} {
		b.Run("List/"+cmp.Or(status, "all"), func(b *testing.B) {
			for b.Loop() {
				_, err := jobs.List(b.Context(), queue.Filter{OrgID: org, Status: status, Limit: 50})
				require.NoError(b, err)
			}
		})
	}
}
