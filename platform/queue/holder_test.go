package queue_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/process"
	"paceline.internal/platform/queue"
)

// holding is a Holder whose handlers write down, in the transaction, what they did.
type holding struct {
	*bundle

	attempt func(ctx context.Context, tx pgx.Tx, j queue.Job) error // beside that; may be nil
	alter   func(*queue.HolderConfig)
}

func hold(t *testing.T) *holding {
	t.Helper()
	h := &holding{bundle: setup(t)}
	_, err := h.pool.Exec(t.Context(), `create table effects (n serial primary key, id uuid not null)`)
	require.NoError(t, err)
	return h
}

func (h *holding) holder() *queue.Holder {
	cfg := queue.HolderConfig{
		Name: "jobs", Queue: h.queue, Log: slog.New(slog.DiscardHandler), Now: h.clock.Now, Wake: h.wake,
		Transient: func(err error) bool { return errors.Is(err, errOutage) },
		Handlers: map[string]queue.HeldHandler{"work": func(ctx context.Context, tx pgx.Tx, j queue.Job) error {
			if _, err := tx.Exec(ctx, `insert into effects (id) values ($1)`, j.ID); err != nil {
				return err
			}
			if h.attempt == nil {
				return nil
			}
			return h.attempt(ctx, tx, j)
		}},
	}
	if h.alter != nil {
		h.alter(&cfg)
	}
	return queue.NewHolder(cfg)
}

func (h *holding) drained() int {
	h.t.Helper()
	n, err := h.holder().Drain(h.t.Context())
	require.NoError(h.t, err)
	return n
}

// effects are the ids of the jobs whose effects are there, in the order in which they came.
func (h *holding) effects() []string {
	h.t.Helper()
	rows, err := h.pool.Query(h.t.Context(), `select id::text from effects order by n`)
	require.NoError(h.t, err)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(h.t, err)
	return ids
}

// spoil has one job do something wrong.
func (h *holding) spoil(id string, do func(ctx context.Context, tx pgx.Tx) error) {
	h.attempt = func(ctx context.Context, tx pgx.Tx, j queue.Job) error {
		if j.ID == id {
			return do(ctx, tx)
		}
		return nil
	}
}

func TestHolder(t *testing.T) {
	t.Parallel()

	t.Run("DoesWhatIsDueAndEndsItWithItsEffects", func(t *testing.T) {
		t.Parallel()
		h := hold(t)
		first, second := h.enqueue(""), h.enqueue("a")
		future := h.enqueueAt("", h.clock.Now().Add(time.Second))
		require.Equal(t, 2, h.drained())
		require.Equal(t, []string{first, second}, h.effects())
		done := h.row(first)
		require.Equal(t, queue.StatusCompleted, done.Status)
		require.True(t, h.clock.Now().Equal(*done.ProcessedAt))
		require.Nil(t, done.DueAt)
		require.Zero(t, h.drained())
		h.clock.Advance(time.Second)
		require.Equal(t, 1, h.drained())
		require.Equal(t, []string{first, second, future}, h.effects())
	})

	for name, tt := range map[string]struct {
		wrong   func(ctx context.Context, tx pgx.Tx) error
		status  string
		tries   int
		after   time.Duration
		message string
	}{
		"Fails":           {wrong: func(context.Context, pgx.Tx) error { return errWork }, tries: 1, after: 30 * time.Second, message: errWork.Error()},
		"Panics":          {wrong: func(context.Context, pgx.Tx) error { panic("oh") }, tries: 1, after: 30 * time.Second, message: "panic"},
		"CanNeverBeDone":  {wrong: func(context.Context, pgx.Tx) error { return &queue.Permanent{Cause: errWork} }, status: queue.StatusFailed, tries: 1, message: errWork.Error()},
		"Snoozes":         {wrong: func(context.Context, pgx.Tx) error { return &queue.Snooze{After: time.Minute, Cause: errWork} }, after: time.Minute, message: errWork.Error()},
		"MeetsAnOutage":   {wrong: func(context.Context, pgx.Tx) error { return errOutage }, after: time.Second, message: errOutage.Error()},
		"HangsPastItsEnd": {wrong: func(ctx context.Context, _ pgx.Tx) error { <-ctx.Done(); return ctx.Err() }, tries: 1, after: 30 * time.Second, message: "deadline"},
		"IgnoresAnError": {wrong: func(ctx context.Context, tx pgx.Tx) error {
			_, _ = tx.Exec(ctx, "select 1/0")
			return nil
		}, tries: 1, after: 30 * time.Second, message: "ignored an error"},
		"RollsBack": {wrong: func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) }, tries: 1, after: 30 * time.Second, message: "ended the transaction"},
		"BreaksWhatIsCheckedAtTheCommit": {wrong: func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `insert into late (id) values (1)`)
			return err
		}, tries: 1, after: 30 * time.Second, message: "late_id_fkey"},
	} {
		t.Run("OneThat"+name+"LeavesTheOthersDoneOnce", func(t *testing.T) {
			t.Parallel()
			h := hold(t)
			_, err := h.pool.Exec(t.Context(), `create table late (id integer references effects deferrable initially deferred)`)
			require.NoError(t, err)
			_, err = h.pool.Exec(t.Context(), `alter sequence effects_n_seq restart with 100`)
			require.NoError(t, err)
			h.alter = func(c *queue.HolderConfig) { c.Timeout = time.Second }
			before, bad, after := h.enqueue(""), h.enqueue(""), h.enqueue("")
			h.spoil(bad, tt.wrong)
			require.Equal(t, 2, h.drained())
			require.Equal(t, []string{before, after}, h.effects())
			for _, id := range []string{before, after} {
				require.Equal(t, queue.StatusCompleted, h.row(id).Status)
			}
			r := h.row(bad)
			if tt.status == "" {
				tt.status = queue.StatusPending
				require.Equal(t, tt.after, r.DueAt.Sub(h.clock.Now()))
			}
			require.Equal(t, []any{tt.status, tt.tries}, []any{r.Status, r.Attempts})
			require.Contains(t, r.ErrorMessage, tt.message)
			require.Zero(t, h.drained())
		})
	}

	t.Run("OneThatFailsTooOftenIsGivenUp", func(t *testing.T) {
		t.Parallel()
		h := hold(t)
		id := h.enqueue("")
		h.spoil(id, func(context.Context, pgx.Tx) error { return errWork })
		for range 3 {
			require.Zero(t, h.drained())
			h.clock.Advance(10 * time.Minute)
		}
		r := h.row(id)
		require.Equal(t, []any{queue.StatusFailed, 3}, []any{r.Status, r.Attempts})
		require.Empty(t, h.effects())
	})

	t.Run("AFailureIsNotRecordedWhenSomebodyElseHasDoneTheJobSince", func(t *testing.T) {
		t.Parallel()
		h := hold(t)
		id := h.enqueue("")
		fail := errWork
		h.attempt = func(context.Context, pgx.Tx, queue.Job) error { return fail }
		h.alter = func(c *queue.HolderConfig) {
			c.Transient = func(error) bool { // asked when the attempt is rolled back and not yet recorded
				fail, h.alter = nil, nil
				require.Equal(t, 1, h.drained())
				return false
			}
		}
		require.Zero(t, h.drained())
		r := h.row(id)
		require.Equal(t, []any{queue.StatusCompleted, 0}, []any{r.Status, r.Attempts})
		require.Equal(t, []string{id}, h.effects())
	})

	t.Run("AnUnknownTypeFailsAtOnce", func(t *testing.T) {
		t.Parallel()
		h := hold(t)
		n := h.job("")
		n.EventType = "play"
		id := h.add(n)[0]
		require.Zero(t, h.drained())
		r := h.row(id)
		require.Equal(t, queue.StatusFailed, r.Status)
		require.Equal(t, `no handler for event type "play"`, r.ErrorMessage)
	})

	t.Run("S2_15_JobsOfOneSubjectKeepTheirOrder", func(t *testing.T) {
		t.Parallel()
		h := hold(t)
		first, second, third := h.enqueue("a"), h.enqueue("a"), h.enqueue("a")
		require.Equal(t, 3, h.drained())
		require.Equal(t, []string{first, second, third}, h.effects())
	})

	t.Run("EveryOrganisationHasItsShareOfABatch", func(t *testing.T) {
		t.Parallel()
		h := hold(t)
		h.alter = func(c *queue.HolderConfig) { c.Batch, c.Lanes = 2, 1 }
		for range 4 {
			h.enqueue("")
		}
		small := h.job("")
		small.OrgID = uuid.NewString()
		h.add(small)
		require.Equal(t, 5, h.drained())
		require.Contains(t, h.effects()[:2], small.ID)
	})

	t.Run("AFullBatchCallsAnotherLane", func(t *testing.T) {
		t.Parallel()
		h := hold(t)
		h.alter = func(c *queue.HolderConfig) { c.Batch = 1 }
		for range 4 {
			h.enqueue("")
		}
		// The second and the third job each wait until the other one has begun.
		meet, began := make(chan struct{}), 0
		var mu sync.Mutex
		h.attempt = func(ctx context.Context, _ pgx.Tx, _ queue.Job) error {
			mu.Lock()
			began++
			n := began
			mu.Unlock()
			switch n {
			case 2:
				select {
				case <-meet:
				case <-ctx.Done():
					return ctx.Err()
				}
			case 3:
				close(meet)
			}
			return nil
		}
		require.Equal(t, 4, h.drained())
	})

	t.Run("WhatSomebodyElseHoldsIsLeftToThem", func(t *testing.T) {
		t.Parallel()
		h := hold(t)
		theirs, ours := h.enqueue(""), h.enqueue("")
		tx, err := h.pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), `select 1 from jobs where id = $1 for update`, theirs)
		require.NoError(t, err)
		require.Equal(t, 1, h.drained())
		require.Equal(t, []string{ours}, h.effects())
		require.NoError(t, tx.Rollback(t.Context()))
		require.Equal(t, 1, h.drained())
		require.Equal(t, []string{ours, theirs}, h.effects())
	})

	t.Run("ABatchWhoseConnectionBreaksIsDoneLaterAndOnce", func(t *testing.T) {
		t.Parallel()
		h := hold(t)
		h.alter = func(c *queue.HolderConfig) {
			c.Transient = func(error) bool { return true }
		}
		first, second := h.enqueue(""), h.enqueue("")
		h.spoil(second, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `select pg_terminate_backend(pg_backend_pid())`)
			return err
		})
		require.Equal(t, 1, h.drained())
		require.Equal(t, []string{first}, h.effects())
		h.attempt = nil
		h.clock.Advance(time.Second)
		require.Equal(t, 1, h.drained())
		require.Equal(t, []string{first, second}, h.effects())
		require.Zero(t, h.row(second).Attempts)
	})

	t.Run("WhatARunnerLeftClaimedIsTakenBackWhenItsLeaseIsOver", func(t *testing.T) {
		t.Parallel()
		h := hold(t)
		id := h.enqueue("")
		require.Len(t, h.claim(1).Jobs, 1)
		require.Zero(t, h.drained())
		h.clock.Advance(lease)
		require.Equal(t, 1, h.drained())
		require.Equal(t, []string{id}, h.effects())
	})

	t.Run("HoldersAtTheSameQueueDoEachJobOnce", func(t *testing.T) {
		t.Parallel()
		h := hold(t)
		h.alter = func(c *queue.HolderConfig) { c.Batch = 7 }
		const jobs = 200
		for i := range jobs {
			h.enqueue([]string{"", "a", "b"}[i%3])
		}
		h.attempt = func(_ context.Context, _ pgx.Tx, j queue.Job) error {
			if j.ID[len(j.ID)-1] == 'a' && j.Attempts == 0 { // some of them fail first
				return errWork
			}
			return nil
		}
		for range 3 {
			var all sync.WaitGroup
			for range 3 {
				all.Go(func() {
					if _, err := h.holder().Drain(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			h.clock.Advance(time.Minute)
		}
		for h.drained() > 0 { // those of a subject that waited for one that failed
			h.clock.Advance(time.Minute)
		}
		done := h.effects()
		require.Len(t, done, jobs)
		seen := map[string]bool{}
		for _, id := range done {
			seen[id] = true
		}
		require.Len(t, seen, jobs)
	})

	t.Run("WhenItIsStoppedItEndsWhatItHolds", func(t *testing.T) {
		t.Parallel()
		h := hold(t)
		first, second, third := h.enqueue(""), h.enqueue(""), h.enqueue("")
		ctx, stop := context.WithCancel(t.Context())
		h.attempt = func(context.Context, pgx.Tx, queue.Job) error {
			stop()
			return nil
		}
		h.alter = func(c *queue.HolderConfig) { c.Batch, c.Lanes = 2, 1 }
		require.NoError(t, h.holder().Loop(process.RestOnMachineClock).Run(ctx))
		require.Equal(t, []string{first, second}, h.effects())
		require.Equal(t, queue.StatusPending, h.row(third).Status)
		require.Zero(t, h.row(third).Attempts)
	})

	t.Run("IsWokenByANewJob", func(t *testing.T) {
		t.Parallel()
		h := hold(t)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		h.alter = func(c *queue.HolderConfig) { c.Poll = time.Hour }
		rested := make(chan struct{})
		var once sync.Once
		loop := h.holder().Loop(onceStarted(func(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
			once.Do(func() { close(rested) })
			return process.RestOnMachineClock(ctx, d, wake)
		}))
		h.attempt = func(context.Context, pgx.Tx, queue.Job) error { stop(); return nil }
		ended := make(chan error, 1)
		go func() { ended <- loop.Run(ctx) }()
		<-rested
		id := h.enqueue("")
		queue.Wake(h.wake)
		require.NoError(t, <-ended)
		require.Equal(t, []string{id}, h.effects())
	})
}
