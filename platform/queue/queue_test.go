package queue_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/queue"
	"paceline.internal/platform/retention"
)

func TestEnqueue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := b.job("a")
	first.Key, first.Payload = "k", json.RawMessage(`{"a": 1, "b": 2}`)
	stored, err := b.queue.Enqueue(t.Context(), b.pool, first)
	require.NoError(t, err)
	require.Equal(t, queue.Enqueued{ID: first.ID, CreatedAt: first.At}, stored)

	t.Run("S2_01_03_IsPendingWithThreeAttemptsUnlessItSaysOtherwise", func(t *testing.T) {
		t.Parallel()
		r := b.row(first.ID)
		require.Equal(t, []any{queue.StatusPending, 0, 3}, []any{r.Status, r.Attempts, r.MaxAttempts})
		require.True(t, first.DueAt.Equal(*r.DueAt))
		require.JSONEq(t, string(first.Payload), string(r.Payload))
		other := b.job("")
		other.MaxAttempts = 7
		require.Equal(t, 7, b.row(b.add(other)[0]).MaxAttempts)
	})
	t.Run("S2_02_SameKeyAndPayloadIsADuplicate", func(t *testing.T) {
		t.Parallel()
		again := first
		again.ID, again.Payload = uuid.NewString(), json.RawMessage(`{"b":2,"a":1}`)
		again.At = first.At.Add(time.Hour)
		found, err := b.queue.Enqueue(t.Context(), b.pool, again)
		require.NoError(t, err)
		require.True(t, found.Duplicate)
		require.Equal(t, first.ID, found.ID)
		require.WithinDuration(t, first.At, found.CreatedAt, 0, "it came when it came first")
	})
	t.Run("S2_02_34_SameKeyWithAnotherPayloadIsRefused", func(t *testing.T) {
		t.Parallel()
		other := first
		other.ID, other.Payload = uuid.NewString(), json.RawMessage(`{}`)
		found, err := b.queue.Enqueue(t.Context(), b.pool, other)
		require.ErrorIs(t, err, queue.ErrPayloadMismatch)
		require.EqualError(t, queue.ErrPayloadMismatch, "this key was used with another payload", "no package is named to a caller")
		require.Equal(t, first.ID, found.ID)
	})
	t.Run("S2_34_SameKeyInAnotherOrganisationIsAnotherJob", func(t *testing.T) {
		t.Parallel()
		other := first
		other.ID, other.OrgID = uuid.NewString(), uuid.NewString()
		stored, err := b.queue.Enqueue(t.Context(), b.pool, other)
		require.NoError(t, err)
		require.False(t, stored.Duplicate)
	})
	t.Run("ManyAtOnceSayOfEachWhatBecameOfIt", func(t *testing.T) {
		t.Parallel()
		fresh, twice, mismatch, known := b.job(""), b.job(""), first, first
		again := twice
		again.ID, mismatch.ID, known.ID = uuid.NewString(), uuid.NewString(), uuid.NewString()
		mismatch.Payload = json.RawMessage(`{"c":3}`)
		stored, err := b.queue.EnqueueMany(t.Context(), b.pool, []queue.New{fresh, twice, again, mismatch, known})
		require.NoError(t, err)
		ids := []string{}
		for _, s := range stored {
			ids = append(ids, s.ID)
		}
		require.Equal(t, []string{fresh.ID, twice.ID, twice.ID, first.ID, first.ID}, ids)
		require.Equal(t, []bool{false, false, true, true, true},
			[]bool{stored[0].Duplicate, stored[1].Duplicate, stored[2].Duplicate, stored[3].Duplicate, stored[4].Duplicate})
		require.ErrorIs(t, stored[3].Err(), queue.ErrPayloadMismatch)
		require.NoError(t, stored[4].Err())
	})
	t.Run("WhatPostgresDoesNotStoreIsRefusedAsSuch", func(t *testing.T) {
		t.Parallel()
		for _, payload := range []string{`{"a":"\u0000"}`, `{"a":"\ud800"}`, `{`} {
			bad := b.job("")
			bad.Payload = json.RawMessage(payload)
			_, err := b.queue.Enqueue(t.Context(), b.pool, bad)
			require.ErrorIs(t, err, queue.ErrPayload)
		}
	})
	t.Run("GoesWithTheTransactionOfTheCaller", func(t *testing.T) {
		t.Parallel()
		tx, err := b.pool.Begin(t.Context())
		require.NoError(t, err)
		n := b.job("")
		_, err = b.queue.Enqueue(t.Context(), tx, n)
		require.NoError(t, err)
		require.NoError(t, tx.Rollback(t.Context()))
		_, err = b.queue.Get(t.Context(), b.orgID, n.ID)
		require.ErrorIs(t, err, queue.ErrNoJob)
	})
}

func TestClaimOrder(t *testing.T) {
	t.Parallel()

	t.Run("S2_05_18_DueOnesInTheOrderOfTheirTimeAndNoFutureOnes", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		require.Empty(t, b.claim(9).Jobs)
		now := b.clock.Now()
		third, first := b.enqueueAt("", now), b.enqueueAt("", now.Add(-2*time.Minute))
		second := b.enqueueAt("", now.Add(-time.Minute))
		b.enqueueAt("", now.Add(time.Microsecond))
		require.Equal(t, []string{first, second}, ids(b.claim(2).Jobs))
		require.Equal(t, []string{third}, ids(b.claim(9).Jobs))
	})

	t.Run("DeepBacklogOfOneOrganisationDelaysNoOther", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		var deep []queue.New
		for range 200 {
			n := b.job("")
			n.DueAt = b.clock.Now().Add(-time.Hour)
			deep = append(deep, n)
		}
		b.add(deep...)
		fresh := b.job("")
		fresh.OrgID = uuid.NewString()
		b.add(fresh)
		claimed := b.claim(10)
		require.Contains(t, ids(claimed.Jobs), fresh.ID)
		require.Len(t, claimed.Jobs, 6, "half of the batch, and the one of the other half that there is")
	})

	t.Run("EveryOrganisationHasItsTurnHoweverSmallTheBatch", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		orgs := map[string]int{}
		for range 5 {
			org := uuid.NewString()
			for range 3 {
				n := b.job("")
				n.OrgID = org
				b.add(n)
			}
		}
		last := ""
		for turn := range 15 {
			now := b.clock.Now()
			c, err := b.queue.Claim(t.Context(), queue.Claim{Limit: 1, Now: now, Until: now.Add(lease), After: last})
			require.NoError(t, err)
			require.Len(t, c.Jobs, 1)
			last = c.Last
			orgs[c.Jobs[0].OrgID]++
			for _, n := range orgs {
				require.LessOrEqual(t, n, turn/5+1)
			}
		}
	})

	t.Run("MoreOrganisationsThanOneClaimLooksAtAreAllServed", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		var many []queue.New
		for i := range 300 {
			n := b.job("")
			n.OrgID = fmt.Sprintf("00000000-0000-7000-8000-%012d", i)
			if i < 290 {
				n.DueAt = b.clock.Now().Add(time.Hour) // nothing to do for most of them
			}
			many = append(many, n)
		}
		b.add(many...)
		require.Len(t, b.drain(), 10)
	})

	t.Run("PriorityComesFirstWithinAnOrganisation", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		errands := queue.NewQueue(b.pool, queue.Table{Name: "errands", Priorities: 3, Extra: []string{"source"}})
		now := b.clock.Now()
		for _, p := range []int{2, 1, 0, 2, 0} {
			n := b.job("")
			n.Priority, n.Extra, n.EventType = p, []string{"test"}, fmt.Sprint(p)
			_, err := errands.Enqueue(t.Context(), b.pool, n)
			require.NoError(t, err)
		}
		var order []string
		for range 5 {
			c, err := errands.Claim(t.Context(), queue.Claim{Limit: 1, Now: now, Until: now.Add(lease)})
			require.NoError(t, err)
			order = append(order, c.Jobs[0].EventType)
		}
		require.Equal(t, []string{"0", "0", "1", "2", "2"}, order)
		s, err := errands.Gauges(t.Context(), now)
		require.NoError(t, err)
		require.Equal(t, queue.Gauges{Running: 5}, s)
	})
}

func ids(jobs []queue.Job) []string {
	var out []string
	for _, j := range jobs {
		out = append(out, j.ID)
	}
	return out
}

func TestCompetition(t *testing.T) {
	t.Parallel()

	t.Run("S2_06_14_15_EachJobGoesToOneRunnerOnly", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		var all []queue.New
		for i := range 400 {
			n := b.job("")
			if i%2 == 0 {
				n.Subject = fmt.Sprint(i % 20)
			}
			all = append(all, n)
		}
		b.add(all...)
		var mu sync.Mutex
		subjects, busy := map[string][]string{}, map[string]bool{}
		b.handle = func(_ context.Context, j queue.Job) error {
			if j.Subject == "" {
				return nil
			}
			mu.Lock()
			overlap := busy[j.Subject]
			busy[j.Subject] = true
			subjects[j.Subject] = append(subjects[j.Subject], j.ID)
			mu.Unlock()
			if overlap {
				return &queue.Permanent{Cause: errWork}
			}
			mu.Lock()
			busy[j.Subject] = false
			mu.Unlock()
			return nil
		}
		var runners sync.WaitGroup
		for i := range 4 {
			runners.Go(func() {
				cfg := b.config()
				cfg.Workers, cfg.Fetchers, cfg.Batch = 20+i, 1+i%2, 10
				_, err := queue.NewRunner(cfg).Drain(t.Context())
				require.NoError(t, err)
			})
		}
		runners.Wait()
		b.mu.Lock()
		ran := slices.Clone(b.ran)
		b.mu.Unlock()
		b.drain() // what was blocked when the last runner looked
		var completed int
		require.NoError(t, b.pool.QueryRow(t.Context(), `select count(*) from jobs where status = 'completed' and attempts = 0`).Scan(&completed))
		require.Equal(t, 400, completed)
		slices.Sort(ran)
		require.Len(t, slices.Compact(ran), len(ran), "no job ran twice")
		for subject, order := range subjects {
			require.True(t, slices.IsSorted(order), "the jobs of %s kept their order", subject)
		}
	})
}

func TestOperators(t *testing.T) {
	t.Parallel()

	t.Run("S2_19_OtherOrganisationSeesNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		id, other := b.enqueue(""), uuid.NewString()
		_, err := b.queue.Get(t.Context(), other, id)
		require.ErrorIs(t, err, queue.ErrNoJob)
		_, err = b.queue.Cancel(t.Context(), b.pool, other, id, b.clock.Now())
		require.ErrorIs(t, err, queue.ErrNoJob)
		_, err = b.queue.Retry(t.Context(), b.pool, other, id, b.clock.Now())
		require.ErrorIs(t, err, queue.ErrNoJob)
		found, err := b.queue.List(t.Context(), queue.Filter{OrgID: other, Limit: 9})
		require.NoError(t, err)
		require.Empty(t, found)
		require.Equal(t, queue.StatusPending, b.row(id).Status)
	})

	t.Run("S2_19_OtherOrganisationRetriesAndDismissesNothingThatFailed", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		id, other := b.enqueue(""), uuid.NewString()
		b.fails(&queue.Permanent{Cause: errWork})
		b.drain()
		failed := b.row(id)
		require.Equal(t, queue.StatusFailed, failed.Status)
		later := b.clock.Now().Add(time.Hour)
		_, err := b.queue.Retry(t.Context(), b.pool, other, id, later)
		require.ErrorIs(t, err, queue.ErrNoJob)
		_, err = b.queue.Dismiss(t.Context(), b.pool, other, id, later)
		require.ErrorIs(t, err, queue.ErrNoJob)
		require.Equal(t, failed, b.row(id))
		for _, status := range []string{"", queue.StatusFailed} {
			found, err := b.queue.List(t.Context(), queue.Filter{OrgID: other, Status: status, Limit: 9})
			require.NoError(t, err)
			require.Empty(t, found)
		}
	})

	t.Run("S2_38_FailedJobIsListedAndRetriedWithAllItsAttempts", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		done := b.enqueue("")
		b.drain()
		id := b.enqueue("")
		b.fails(&queue.Permanent{Cause: errWork})
		b.drain()
		found, err := b.queue.List(t.Context(), queue.Filter{OrgID: b.orgID, Status: queue.StatusFailed, EventType: "work", Limit: 9})
		require.NoError(t, err)
		require.Len(t, found, 1)
		require.Equal(t, []any{id, 1, errWork.Error()}, []any{found[0].ID, found[0].Attempts, found[0].ErrorMessage})
		r, err := b.queue.Retry(t.Context(), b.pool, b.orgID, id, b.clock.Now())
		require.NoError(t, err)
		require.Equal(t, []any{queue.StatusPending, 0, ""}, []any{r.Status, r.Attempts, r.ErrorMessage}, "what waits behind its subject is told by that")
		b.fails(nil)
		require.Equal(t, []string{id}, b.drain())
		require.Equal(t, queue.StatusCompleted, b.row(id).Status)
		_, err = b.queue.Retry(t.Context(), b.pool, b.orgID, done, b.clock.Now())
		require.Equal(t, &queue.StatusError{Status: queue.StatusCompleted, Want: queue.StatusFailed}, err)
		require.EqualError(t, err, "the job is completed; only one that is failed can be changed so", "a caller is told so")
	})

	t.Run("PendingJobIsCancelledAndOneThatIsBeingDoneIsNot", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		id := b.enqueue("")
		r, err := b.queue.Cancel(t.Context(), b.pool, b.orgID, id, b.clock.Now())
		require.NoError(t, err)
		require.Equal(t, queue.StatusCancelled, r.Status)
		require.Empty(t, b.drain())
		running := b.enqueue("")
		require.Len(t, b.claimOne(running), 1)
		_, err = b.queue.Cancel(t.Context(), b.pool, b.orgID, running, b.clock.Now())
		require.Equal(t, &queue.StatusError{Status: queue.StatusProcessing, Want: queue.StatusPending}, err)
	})

	t.Run("S2_27_GaugesCountWhatRunsWaitsAndFailed", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		now := b.clock.Now()
		b.fails(&queue.Permanent{Cause: errWork})
		b.enqueue("")
		b.drain()
		require.Len(t, b.claimOne(b.enqueue("")), 1)
		b.enqueueAt("", now.Add(-time.Minute))
		b.enqueueAt("", now.Add(-time.Hour))
		b.enqueueAt("", now.Add(time.Hour))
		s, err := b.queue.Gauges(t.Context(), now)
		require.NoError(t, err)
		require.Equal(t, queue.Gauges{Running: 1, Backlog: 2, Scheduled: 1, Failed: 1, OldestDueSeconds: 3600}, s)
	})

	t.Run("S2_27_HealthSaysWhetherTheLoopRunsAndHowTheQueueIsDoing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.enqueueAt("", b.clock.Now().Add(time.Hour))
		runner := b.runner()
		health := func() queue.Health {
			h, err := runner.Health(t.Context(), b.queue, b.clock.Now().Add(2*time.Hour))
			require.NoError(t, err)
			return h
		}
		stopped := queue.Health{Processor: "stopped", Gauges: queue.Gauges{Backlog: 1, OldestDueSeconds: 3600}}
		require.Equal(t, stopped, health())
		var resting queue.Health
		require.NoError(t, runner.Loop(onceStarted(func(context.Context, time.Duration, <-chan struct{}) bool {
			resting = health()
			return false
		})).Run(t.Context()))
		require.Equal(t, queue.Health{Processor: "running", Gauges: queue.Gauges{Backlog: 1, OldestDueSeconds: 3600}}, resting)
		require.Equal(t, stopped, health())
	})
}

func TestRetention(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var old []string
	for i := range 7 {
		n := b.job("")
		n.Key = fmt.Sprint("old-", i)
		old = append(old, b.add(n)...)
	}
	b.drain()
	b.clock.Advance(31 * 24 * time.Hour)
	recent := b.enqueue("")
	b.drain()
	open := b.enqueueAt("", b.clock.Now().Add(time.Hour))
	sweep := &queue.Retention{
		Queue: b.queue, Keep: "j.idempotency_key in ('old-0', 'old-3')", For: 30 * 24 * time.Hour, Batch: 2, Log: slog.New(slog.DiscardHandler), Now: b.clock.Now,
	}
	n, err := sweep.Sweep(t.Context())
	require.NoError(t, err)
	require.Equal(t, 5, n)
	rows, err := b.pool.Query(t.Context(), `select id::text from jobs`)
	require.NoError(t, err)
	left, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.ElementsMatch(t, []string{old[0], old[3], recent, open}, left)
}

func TestRetentionOfAnOrganisation(t *testing.T) {
	t.Parallel()
	b := setup(t)
	usual, longer, shorter := uuid.NewString(), uuid.NewString(), uuid.NewString()
	add := func(key string) {
		for _, org := range []string{usual, longer, shorter} {
			for i := range 3 {
				n := b.job("")
				n.OrgID, n.Key = org, fmt.Sprint(key, i)
				b.add(n)
			}
		}
		b.drain()
	}
	add("old-")
	b.clock.Advance(20 * 24 * time.Hour)
	add("aged-")
	b.clock.Advance(11 * 24 * time.Hour)
	add("recent-")
	sweep := &queue.Retention{
		Queue: b.queue, Keep: "j.idempotency_key like '%-0'", For: 30 * 24 * time.Hour, Setting: retention.Jobs,
		Own: func(context.Context) (retention.Own, error) {
			return retention.Own{longer: {retention.Jobs: 40 * 24 * time.Hour}, shorter: {retention.Jobs: 10 * 24 * time.Hour, "other": time.Hour}}, nil
		},
		Batch: 2, Log: slog.New(slog.DiscardHandler), Now: b.clock.Now,
	}
	n, err := sweep.Sweep(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2+0+4, n, "one of each three is kept")
	for org, want := range map[string]int{usual: 7, longer: 9, shorter: 5} {
		var left int
		require.NoError(t, b.pool.QueryRow(t.Context(), `select count(*) from jobs where org_id = $1`, org).Scan(&left))
		require.Equal(t, want, left)
	}
}

// counting counts the batches of a pass.
type counting struct {
	*pgxpool.Pool

	batches int
}

func (c *counting) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	c.batches++
	return c.Pool.QueryRow(ctx, sql, args...)
}

func TestRetentionReadsNothingThatALongKeeperKeeps(t *testing.T) {
	t.Parallel()
	b := setup(t)
	longer := uuid.NewString()
	for i := range 40 {
		n := b.job("")
		n.OrgID, n.Key = longer, fmt.Sprint("kept-", i)
		b.add(n)
	}
	old := b.enqueue("")
	b.drain()
	b.clock.Advance(31 * 24 * time.Hour)
	counted := &counting{Pool: b.pool}
	sweep := &queue.Retention{
		Queue: queue.NewQueue(counted, queue.Table{Name: "jobs"}), For: 30 * 24 * time.Hour, Setting: retention.Jobs,
		Own: func(context.Context) (retention.Own, error) {
			return retention.Own{longer: {retention.Jobs: 3660 * 24 * time.Hour}}, nil
		},
		Batch: 4, Log: slog.New(slog.DiscardHandler), Now: b.clock.Now,
	}
	n, err := sweep.Sweep(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.ErrorIs(t, b.pool.QueryRow(t.Context(), `select id::text from jobs where id = $1`, old).Scan(&old), pgx.ErrNoRows)
	require.Equal(t, 2, counted.batches, "one of each organisation")
}

func TestRetentionPassesOverWhatIsLocked(t *testing.T) {
	t.Parallel()
	t.Run("R_02_RetentionLeavesALockedJobToTheNextPass", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		ids := []string{b.enqueue(""), b.enqueue(""), b.enqueue("")}
		b.drain()
		b.clock.Advance(time.Hour)
		holder, err := b.pool.Begin(t.Context())
		require.NoError(t, err)
		defer func() { _ = holder.Rollback(context.WithoutCancel(t.Context())) }()
		_, err = holder.Exec(t.Context(), `select from jobs where id = $1 for key share`, ids[1])
		require.NoError(t, err)
		sweep := &queue.Retention{Queue: b.queue, For: time.Minute, Batch: 2, Log: slog.New(slog.DiscardHandler), Now: b.clock.Now}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()

		n, err := sweep.Sweep(ctx)
		require.NoError(t, err)
		require.Equal(t, 2, n)
		require.NoError(t, holder.Rollback(t.Context()))
		n, err = sweep.Sweep(ctx)
		require.NoError(t, err)
		require.Equal(t, 1, n)
	})
}
