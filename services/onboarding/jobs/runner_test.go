package jobs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/emulator/clock"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/platform/process"
	"paceline.internal/services/onboarding/jobs"
	"paceline.internal/services/onboarding/postgres"
)

var errOutage = errors.New("the database is failing over")

func TestMain(m *testing.M) { pgtest.Run(m) }

const lease = 40 * time.Second

var errWork = errors.New("it did not work")

// bundle is a runner on a real database and a clock that stands still.
type bundle struct {
	t     *testing.T
	pool  *pgxpool.Pool
	store *postgres.Store
	clock *clock.Settable
	orgID string
	wake  chan struct{}

	mu     sync.Mutex
	ran    []string // the ids of the jobs that were handled
	given  []string // of those that were given up
	handle jobs.Handler
	giveUp error
}

func setup(t *testing.T) *bundle {
	t.Helper()
	pool := pgtest.New(t, postgres.Migrations())
	return &bundle{
		t: t, pool: pool, store: postgres.NewStore(pool), orgID: uuid.NewString(), wake: make(chan struct{}, 1),
		clock: clock.NewSettable(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)),
	}
}

func (b *bundle) runner() *jobs.Runner {
	return jobs.NewRunner(jobs.Config{
		Store: b.store, Log: slog.New(slog.DiscardHandler), Now: b.clock.Now, Wake: b.wake, Lease: lease,
		Handlers: map[string]jobs.Handler{"work": func(ctx context.Context, j jobs.Job) error {
			b.mu.Lock()
			b.ran = append(b.ran, j.ID)
			handle := b.handle
			b.mu.Unlock()
			if handle == nil {
				return nil
			}
			return handle(ctx, j)
		}},
		Transient: func(err error) bool { return errors.Is(err, errOutage) },
		GiveUp: func(_ context.Context, j jobs.Job, _ error) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.given = append(b.given, j.ID)
			return b.giveUp
		},
	})
}

// fails has every job fail from now on.
func (b *bundle) fails(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.handle = func(context.Context, jobs.Job) error { return err }
}

func (b *bundle) enqueue(subject string) string {
	b.t.Helper()
	return b.enqueueAt(subject, b.clock.Now())
}

func (b *bundle) enqueueAt(subject string, due time.Time) string {
	b.t.Helper()
	id := uuid.Must(uuid.NewV7()).String()
	stored, err := b.store.Enqueue(b.t.Context(), jobs.New{
		ID: id, OrgID: b.orgID, Key: id, Source: jobs.SourceInternal, EventType: "work", Subject: subject,
		Payload: json.RawMessage(`{}`), At: b.clock.Now(), DueAt: due,
	})
	require.NoError(b.t, err)
	require.False(b.t, stored.Duplicate)
	return stored.ID
}

// drain runs everything that is due, and says what was handled.
func (b *bundle) drain() []string {
	b.t.Helper()
	b.mu.Lock()
	b.ran = nil
	b.mu.Unlock()
	for {
		n, err := b.runner().Drain(b.t.Context())
		require.NoError(b.t, err)
		if n == 0 {
			break
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ran
}

type row struct {
	Status   string
	Attempts int
	Due      *time.Time
	Done     *time.Time
	Message  string
}

func (b *bundle) row(id string) row {
	b.t.Helper()
	var r row
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(),
		`select status, attempts, next_retry_at, processed_at, error_message from webhook_jobs where id = $1`, id).
		Scan(&r.Status, &r.Attempts, &r.Due, &r.Done, &r.Message))
	return r
}

func TestRunner(t *testing.T) {
	t.Parallel()

	t.Run("DoesADueJobOnceAndRecordsIt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		id, future := b.enqueue("a"), b.enqueueAt("b", b.clock.Now().Add(time.Second))
		require.Equal(t, []string{id}, b.drain())
		done := b.row(id)
		require.Equal(t, jobs.StatusCompleted, done.Status)
		require.True(t, b.clock.Now().Equal(*done.Done))
		require.Empty(t, b.drain())
		b.clock.Advance(time.Second)
		require.Equal(t, []string{future}, b.drain())
	})

	t.Run("TriesAgainAfter30SecondsThen2MinutesAndThenGivesUp", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		id := b.enqueue("a")
		b.fails(errWork)
		for attempt, pause := range []time.Duration{30 * time.Second, 2 * time.Minute} {
			require.Len(t, b.drain(), 1)
			r := b.row(id)
			require.Equal(t, []any{jobs.StatusPending, attempt + 1, errWork.Error()}, []any{r.Status, r.Attempts, r.Message})
			require.Equal(t, pause, r.Due.Sub(b.clock.Now()))
			b.clock.Advance(pause - time.Second)
			require.Empty(t, b.drain())
			b.clock.Advance(time.Second)
		}
		require.Len(t, b.drain(), 1)
		r := b.row(id)
		require.Equal(t, []any{jobs.StatusFailed, 3, errWork.Error()}, []any{r.Status, r.Attempts, r.Message})
		require.Equal(t, []string{id}, b.given)
		b.clock.Advance(time.Hour)
		require.Empty(t, b.drain())
	})

	t.Run("SnoozeUsesUpNoAttempt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		id := b.enqueue("a")
		b.fails(fmt.Errorf("wrapped: %w", &jobs.Snooze{After: 7 * time.Second, Cause: errWork}))
		for range 5 {
			require.Len(t, b.drain(), 1)
			require.Equal(t, 7*time.Second, b.row(id).Due.Sub(b.clock.Now()))
			b.clock.Advance(7 * time.Second)
		}
		require.Zero(t, b.row(id).Attempts)
	})

	t.Run("PermanentFailureIsFinalAtOnce", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		id := b.enqueue("a")
		b.fails(&jobs.Permanent{Cause: errWork})
		b.drain()
		require.Equal(t, jobs.StatusFailed, b.row(id).Status)
		require.Equal(t, []string{id}, b.given)
	})

	t.Run("UnknownEventTypeFailsWithItsName", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		id := b.enqueue("a")
		_, err := b.pool.Exec(t.Context(), `update webhook_jobs set event_type = 'other'`)
		require.NoError(t, err)
		b.drain()
		require.Contains(t, b.row(id).Message, `"other"`)
		require.Equal(t, jobs.StatusFailed, b.row(id).Status)
	})

	t.Run("PanicIsAFailedAttempt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		id := b.enqueue("a")
		b.handle = func(context.Context, jobs.Job) error { panic("boom") }
		b.drain()
		require.Contains(t, b.row(id).Message, "boom")
		require.Equal(t, 1, b.row(id).Attempts)
	})

	t.Run("JobThatCannotBeGivenUpIsKept", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		id := b.enqueue("a")
		b.giveUp = errors.New("the database is away")
		b.fails(&jobs.Permanent{Cause: errWork})
		b.drain()
		require.Equal(t, jobs.StatusPending, b.row(id).Status)
		b.giveUp = nil
		b.clock.Advance(8 * time.Minute)
		b.drain()
		require.Equal(t, jobs.StatusFailed, b.row(id).Status)
	})

	t.Run("GivingUpHasTimeAfterAHandlerThatUsedAllOfItsOwn", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		id := b.enqueue("a")
		given := make(chan error, 1)
		runner := jobs.NewRunner(jobs.Config{
			Store: b.store, Log: slog.New(slog.DiscardHandler), Now: b.clock.Now, Lease: 400 * time.Millisecond,
			Handlers: map[string]jobs.Handler{"work": func(ctx context.Context, _ jobs.Job) error {
				<-ctx.Done()
				return &jobs.Permanent{Cause: ctx.Err()}
			}},
			GiveUp: func(ctx context.Context, _ jobs.Job, _ error) error {
				given <- ctx.Err()
				return nil
			},
		})
		_, err := runner.Drain(t.Context())
		require.NoError(t, err)
		require.NoError(t, <-given)
		require.Equal(t, jobs.StatusFailed, b.row(id).Status)
	})

	t.Run("CallerWhoseTimeIsOverUsesUpNoAttempt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		id := b.enqueue("a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // enough to claim, on any machine
		defer cancel()
		require.NoError(t, b.runner().Try(ctx, id, func(ctx context.Context, _ jobs.Job) error {
			<-ctx.Done()
			return ctx.Err()
		}))
		r := b.row(id)
		require.Equal(t, []any{jobs.StatusPending, 0}, []any{r.Status, r.Attempts})
		require.Equal(t, time.Second, r.Due.Sub(b.clock.Now()))
	})

	t.Run("OutageUsesUpNoAttemptHoweverLongItLasts", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		id := b.enqueue("a")
		b.handle = func(context.Context, jobs.Job) error { return errOutage }
		for range 10 {
			require.Equal(t, []string{id}, b.drain())
			b.clock.Advance(time.Second)
		}
		r := b.row(id)
		require.Equal(t, []any{jobs.StatusPending, 0}, []any{r.Status, r.Attempts})
		b.handle = nil
		require.Equal(t, []string{id}, b.drain())
		require.Equal(t, jobs.StatusCompleted, b.row(id).Status)
	})

	t.Run("CallerWhoHangsUpDoesNotStopTheWork", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		id := b.enqueue("a")
		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, b.runner().Try(ctx, id, func(ctx context.Context, _ jobs.Job) error {
			cancel()
			return ctx.Err()
		}))
		require.Equal(t, jobs.StatusCompleted, b.row(id).Status)
	})
}

func TestClaim(t *testing.T) {
	t.Parallel()

	t.Run("ExpiredLeaseIsTakenOverAndTheOldHolderIsFenced", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		id := b.enqueue("a")
		now := b.clock.Now()
		stale, free, err := b.store.ClaimJob(t.Context(), id, now, now.Add(lease))
		require.NoError(t, err)
		require.True(t, free)
		b.clock.Advance(lease - time.Millisecond)
		require.Empty(t, b.drain())
		b.clock.Advance(time.Millisecond)
		var during error
		b.handle = func(ctx context.Context, j jobs.Job) error {
			require.NotEqual(t, stale.LeaseToken, j.LeaseToken)
			during = b.store.FinishJob(ctx, jobs.Finish{Job: stale, Status: jobs.StatusFailed, At: now})
			return nil
		}
		require.Equal(t, []string{id}, b.drain())
		require.ErrorIs(t, during, jobs.ErrFenced, "while the new holder works")
		require.ErrorIs(t, b.store.FinishJob(t.Context(), jobs.Finish{Job: stale, Status: jobs.StatusFailed, At: now}), jobs.ErrFenced, "and afterwards")
		require.Equal(t, jobs.StatusCompleted, b.row(id).Status)
	})

	t.Run("JobsOfOneSubjectKeepTheirOrderAndNeverOverlap", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		older, newer, other := b.enqueueAt("a", b.clock.Now().Add(time.Minute)), b.enqueue("a"), b.enqueue("b")
		require.Equal(t, []string{other}, b.drain(), "the newer one waits although it is due")
		now := b.clock.Now()
		_, free, err := b.store.ClaimJob(t.Context(), newer, now, now.Add(lease))
		require.NoError(t, err)
		require.False(t, free)
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
		now := b.clock.Now()
		_, free, err := b.store.ClaimJob(t.Context(), newer, now, now.Add(lease))
		require.NoError(t, err)
		require.True(t, free)
		_, err = b.store.Enqueue(t.Context(), jobs.New{
			ID: late, OrgID: b.orgID, Key: "late", Source: jobs.SourceInternal, EventType: "work", Subject: "a", Payload: json.RawMessage(`{}`), At: now, DueAt: now,
		})
		require.NoError(t, err)
		require.Empty(t, b.drain())
		b.clock.Advance(lease)
		require.Equal(t, []string{late, newer}, b.drain())
	})

	t.Run("CompetingRunnersShareTheWork", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		for i := range 40 {
			b.enqueue(fmt.Sprint(i))
		}
		var runners sync.WaitGroup
		for range 4 {
			runners.Go(func() {
				for {
					if n, err := b.runner().Drain(t.Context()); n == 0 || err != nil {
						return
					}
				}
			})
		}
		runners.Wait()
		b.drain()
		var completed int
		require.NoError(t, b.pool.QueryRow(t.Context(), `select count(*) from webhook_jobs where status = 'completed' and attempts = 0`).Scan(&completed))
		require.Equal(t, 40, completed)
	})
}

func TestEnqueue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := jobs.New{
		ID: uuid.NewString(), OrgID: b.orgID, Key: "k", Source: jobs.SourceTwilio, EventType: "work", Subject: "a",
		Payload: json.RawMessage(`{"a": 1, "b": 2}`), At: b.clock.Now(), DueAt: b.clock.Now(),
	}
	stored, err := b.store.Enqueue(t.Context(), first)
	require.NoError(t, err)
	require.Equal(t, jobs.Enqueued{ID: first.ID, CreatedAt: first.At}, stored)

	t.Run("SameKeyAndPayloadIsADuplicate", func(t *testing.T) {
		t.Parallel()
		again := first
		again.ID, again.Payload = uuid.NewString(), json.RawMessage(`{"b":2,"a":1}`)
		again.At = first.At.Add(time.Hour)
		found, err := b.store.Enqueue(t.Context(), again)
		require.NoError(t, err)
		require.True(t, found.Duplicate)
		require.Equal(t, first.ID, found.ID)
		require.WithinDuration(t, first.At, found.CreatedAt, 0, "it came when it came first")
	})
	t.Run("SameKeyWithAnotherPayloadIsRefused", func(t *testing.T) {
		t.Parallel()
		other := first
		other.ID, other.Payload = uuid.NewString(), json.RawMessage(`{}`)
		_, err := b.store.Enqueue(t.Context(), other)
		require.ErrorIs(t, err, jobs.ErrPayloadMismatch)
	})
	t.Run("SameKeyInAnotherOrganisationIsAnotherJob", func(t *testing.T) {
		t.Parallel()
		other := first
		other.ID, other.OrgID = uuid.NewString(), uuid.NewString()
		stored, err := b.store.Enqueue(t.Context(), other)
		require.NoError(t, err)
		require.False(t, stored.Duplicate)
	})
}

func TestRun(t *testing.T) {
	t.Parallel()

	t.Run("WorksWhenWokenAndFinishesWhatItHasBegun", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		begun, goOn := make(chan struct{}), make(chan struct{})
		b.handle = func(ctx context.Context, _ jobs.Job) error {
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
		require.Equal(t, jobs.StatusCompleted, b.row(id).Status)
	})
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]time.Duration{1: 30 * time.Second, 2: 2 * time.Minute, 3: 8 * time.Minute, 4: 8 * time.Minute, 1000: 8 * time.Minute} {
		require.Equal(t, want, jobs.Backoff(n))
	}
}
