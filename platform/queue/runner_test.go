package queue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/process"
	"paceline.internal/platform/queue"
)

func TestRunner(t *testing.T) {
	t.Parallel()

	t.Run("S2_07_DoesADueJobOnceAndRecordsIt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		id, future := b.enqueue("a"), b.enqueueAt("b", b.clock.Now().Add(time.Second))
		require.Equal(t, []string{id}, b.drain())
		done := b.row(id)
		require.Equal(t, queue.StatusCompleted, done.Status)
		require.True(t, b.clock.Now().Equal(*done.ProcessedAt))
		require.Empty(t, b.drain())
		b.clock.Advance(time.Second)
		require.Equal(t, []string{future}, b.drain())
	})

	t.Run("S2_07_08_09_10_11_TriesAgainAfter30SecondsThen2MinutesAndThenGivesUp", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		id := b.enqueue("a")
		b.fails(errWork)
		for attempt, pause := range []time.Duration{30 * time.Second, 2 * time.Minute} {
			require.Len(t, b.drain(), 1)
			r := b.row(id)
			require.Equal(t, []any{queue.StatusPending, attempt + 1, errWork.Error()}, []any{r.Status, r.Attempts, r.ErrorMessage})
			require.Equal(t, pause, r.DueAt.Sub(b.clock.Now()))
			b.clock.Advance(pause - time.Second)
			require.Empty(t, b.drain())
			b.clock.Advance(time.Second)
		}
		require.Len(t, b.drain(), 1)
		r := b.row(id)
		require.Equal(t, []any{queue.StatusFailed, 3, errWork.Error()}, []any{r.Status, r.Attempts, r.ErrorMessage})
		require.Equal(t, []string{id}, b.given)
		b.clock.Advance(time.Hour)
		require.Empty(t, b.drain())
	})

	t.Run("SnoozeUsesUpNoAttempt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		id := b.enqueue("a")
		b.fails(fmt.Errorf("wrapped: %w", &queue.Snooze{After: 7 * time.Second, Cause: errWork}))
		for range 5 {
			require.Len(t, b.drain(), 1)
			require.Equal(t, 7*time.Second, b.row(id).DueAt.Sub(b.clock.Now()))
			b.clock.Advance(7 * time.Second)
		}
		require.Zero(t, b.row(id).Attempts)
	})

	t.Run("S2_36_PermanentFailureIsFinalAtOnce", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		id := b.enqueue("a")
		b.fails(&queue.Permanent{Cause: errWork})
		b.drain()
		require.Equal(t, queue.StatusFailed, b.row(id).Status)
		require.Equal(t, []string{id}, b.given)
	})

	t.Run("S2_24_UnknownEventTypeFailsWithItsName", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		id := b.enqueue("a")
		_, err := b.pool.Exec(t.Context(), `update jobs set event_type = 'other'`)
		require.NoError(t, err)
		b.drain()
		require.Contains(t, b.row(id).ErrorMessage, `"other"`)
		require.Equal(t, queue.StatusFailed, b.row(id).Status)
	})
}

func TestFailures(t *testing.T) {
	t.Parallel()

	t.Run("PanicIsAFailedAttempt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		id := b.enqueue("a")
		b.handle = func(context.Context, queue.Job) error { panic("boom") }
		b.drain()
		require.Contains(t, b.row(id).ErrorMessage, "boom")
		require.Equal(t, 1, b.row(id).Attempts)
	})

	t.Run("JobThatCannotBeGivenUpIsKept", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		id := b.enqueue("a")
		b.giveUp = errors.New("the database is away")
		b.fails(&queue.Permanent{Cause: errWork})
		b.drain()
		require.Equal(t, queue.StatusPending, b.row(id).Status)
		b.giveUp = nil
		b.clock.Advance(8 * time.Minute)
		b.drain()
		require.Equal(t, queue.StatusFailed, b.row(id).Status)
	})

	t.Run("S2_37_GivingUpHasTimeAfterAHandlerThatUsedAllOfItsOwn", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		id := b.enqueue("a")
		given := make(chan error, 1)
		runner := queue.NewRunner(queue.Config{
			Name: "jobs", Store: b.queue, Log: slog.New(slog.DiscardHandler), Now: b.clock.Now, Timeout: 50 * time.Millisecond,
			Handlers: map[string]queue.Handler{"work": func(ctx context.Context, _ queue.Job) error {
				<-ctx.Done()
				return &queue.Permanent{Cause: ctx.Err()}
			}},
			GiveUp: func(ctx context.Context, _ queue.Job, _ error) error {
				given <- ctx.Err()
				return nil
			},
		})
		_, err := runner.Drain(t.Context())
		require.NoError(t, err)
		require.NoError(t, <-given)
		require.Equal(t, queue.StatusFailed, b.row(id).Status)
	})

	t.Run("CallerWhoseTimeIsOverUsesUpNoAttempt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		id := b.enqueue("a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // enough to claim, on any machine
		defer cancel()
		require.NoError(t, b.runner().Try(ctx, id, func(ctx context.Context, _ queue.Job) error {
			<-ctx.Done()
			return ctx.Err()
		}))
		r := b.row(id)
		require.Equal(t, []any{queue.StatusPending, 0}, []any{r.Status, r.Attempts})
		require.Equal(t, time.Second, r.DueAt.Sub(b.clock.Now()))
	})

	t.Run("OutageUsesUpNoAttemptHoweverLongItLasts", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		id := b.enqueue("a")
		b.handle = func(context.Context, queue.Job) error { return errOutage }
		for range 10 {
			require.Equal(t, []string{id}, b.drain())
			b.clock.Advance(time.Second)
		}
		r := b.row(id)
		require.Equal(t, []any{queue.StatusPending, 0}, []any{r.Status, r.Attempts})
		b.handle = nil
		require.Equal(t, []string{id}, b.drain())
		require.Equal(t, queue.StatusCompleted, b.row(id).Status)
	})

	t.Run("CallerWhoHangsUpDoesNotStopTheWork", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		id := b.enqueue("a")
		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, b.runner().Try(ctx, id, func(ctx context.Context, _ queue.Job) error {
			cancel()
			return ctx.Err()
		}))
		require.Equal(t, queue.StatusCompleted, b.row(id).Status)
	})
}

func TestClaim(t *testing.T) {
	t.Parallel()

	t.Run("S2_32_33_ExpiredLeaseIsTakenOverAndTheOldHolderIsFenced", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		id := b.enqueue("a")
		now := b.clock.Now()
		stale := b.claimOne(id)[0]
		b.clock.Advance(lease - time.Millisecond)
		require.Empty(t, b.drain())
		b.clock.Advance(time.Millisecond)
		// What ends well and what does not are recorded by different statements.
		ends := []queue.Finish{
			{Job: stale, Status: queue.StatusCompleted, Attempts: stale.Attempts, At: now},
			{Job: stale, Status: queue.StatusFailed, Attempts: stale.Attempts + 1, At: now},
			{Job: stale, Status: queue.StatusPending, Attempts: stale.Attempts + 1, At: now, DueAt: now.Add(time.Hour)},
		}
		recorded := func(ctx context.Context) (all []string) {
			for _, end := range ends {
				if err := b.queue.FinishIn(ctx, b.pool, end); !errors.Is(err, queue.ErrFenced) {
					all = append(all, fmt.Sprintf("%s in a transaction: %v", end.Status, err))
				}
				if fenced, err := b.queue.Finish(ctx, []queue.Finish{end}); err != nil || !slices.Equal(fenced, []string{id}) {
					all = append(all, fmt.Sprintf("%s: %v", end.Status, err))
				}
			}
			return all
		}
		var during []string
		b.handle = func(ctx context.Context, j queue.Job) error {
			require.NotEqual(t, stale.LeaseToken, j.LeaseToken)
			during = recorded(ctx)
			return nil
		}
		require.Equal(t, []string{id}, b.drain())
		require.Empty(t, during, "while the new holder works")
		ended := b.row(id)
		require.Equal(t, queue.StatusCompleted, ended.Status)
		require.Empty(t, recorded(t.Context()), "and afterwards")
		require.Equal(t, ended, b.row(id))
	})

	t.Run("JobsOfOneSubjectKeepTheirOrderAndNeverOverlap", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		older, newer, other := b.enqueueAt("a", b.clock.Now().Add(time.Minute)), b.enqueue("a"), b.enqueue("b")
		require.Equal(t, []string{other}, b.drain(), "the newer one waits although it is due")
		require.Empty(t, b.claimOne(newer))
		b.clock.Advance(time.Minute)
		require.Equal(t, []string{older, newer}, b.drain())
	})

	t.Run("JobThatWaitedForItsTurnIsDueWhenTheOneBeforeItEnds", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		now := b.clock.Now()
		first := b.enqueue("a")
		second, third := b.enqueueAt("a", now.Add(time.Minute)), b.enqueueAt("a", now.Add(time.Minute))
		require.Equal(t, []string{first, second, third}, b.drain())
		require.Equal(t, now, b.clock.Now())
	})

	t.Run("JobWithAnOlderIDWaitsForOneThatIsBeingDone", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		late := uuid.Must(uuid.NewV7()).String() // another machine's clock is behind
		newer := b.enqueue("a")
		require.Len(t, b.claimOne(newer), 1)
		behind := b.job("a")
		behind.ID = late
		b.add(behind)
		require.Empty(t, b.drain())
		b.clock.Advance(lease)
		require.Equal(t, []string{late, newer}, b.drain())
	})
}

func TestRun(t *testing.T) {
	t.Parallel()

	t.Run("S2_22_WorksWhenWokenAndFinishesWhatItHasBegun", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		begun, goOn := make(chan struct{}), make(chan struct{})
		b.handle = func(ctx context.Context, _ queue.Job) error {
			close(begun)
			<-goOn
			return ctx.Err()
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- b.runner().Loop(process.RestOnMachineClock).Run(ctx) }()
		id := b.enqueue("a")
		b.wake <- struct{}{}
		<-begun
		cancel()
		close(goOn)
		require.NoError(t, <-ended)
		require.Equal(t, queue.StatusCompleted, b.row(id).Status)
	})
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]time.Duration{1: 30 * time.Second, 2: 2 * time.Minute, 3: 8 * time.Minute, 4: 8 * time.Minute, 1000: 8 * time.Minute} {
		require.Equal(t, want, queue.Backoff(n))
	}
}
