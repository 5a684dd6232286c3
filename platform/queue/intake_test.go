package queue_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/queue"
)

// crowd has every caller bring its job at the same time.
func (b *bundle) crowd(intake *queue.Intake, jobs ...queue.New) ([]queue.Enqueued, []error) {
	b.t.Helper()
	stored, errs := make([]queue.Enqueued, len(jobs)), make([]error, len(jobs))
	var all sync.WaitGroup
	for i, n := range jobs {
		all.Go(func() { stored[i], errs[i] = intake.Enqueue(b.t.Context(), n) })
	}
	all.Wait()
	return stored, errs
}

func TestIntake(t *testing.T) {
	t.Parallel()

	t.Run("OneAloneIsStored", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.job("")
		stored, err := queue.NewIntake(b.queue).Enqueue(t.Context(), n)
		require.NoError(t, err)
		require.Equal(t, queue.Enqueued{ID: n.ID, CreatedAt: n.At}, stored)
		require.Equal(t, queue.StatusPending, b.row(n.ID).Status)
	})

	t.Run("OneWithALeaseIsClaimedAsItIsStoredUnlessItsSubjectIsOpen", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		leased := func(subject string) queue.New {
			n := b.job(subject)
			n.Until = n.At.Add(lease)
			return n
		}
		ctx, intake := postgres.AcrossOrganisations(t.Context()), queue.NewIntake(b.queue)
		n := leased("a")
		first, err := intake.Enqueue(ctx, n)
		require.NoError(t, err)
		require.NotNil(t, first.Claimed)
		require.Equal(t, queue.StatusProcessing, b.row(n.ID).Status)
		require.Empty(t, b.claim(9).Jobs, "it has its lease")
		for _, blocked := range []queue.New{leased("a"), n} {
			again, err := intake.Enqueue(ctx, blocked)
			require.NoError(t, err)
			require.Nil(t, again.Claimed)
		}
		unscoped, err := intake.Enqueue(t.Context(), leased("b"))
		require.NoError(t, err)
		require.Nil(t, unscoped.Claimed, "a claim looks across organisations")

		require.NoError(t, b.runner().Do(ctx, *first.Claimed, func(context.Context, queue.Job) error { return nil }))
		require.Equal(t, queue.StatusCompleted, b.row(n.ID).Status)
		lost, err := intake.Enqueue(ctx, leased("c"))
		require.NoError(t, err)
		b.clock.Advance(lease)
		require.Contains(t, ids(b.claim(9).Jobs), lost.ID, "whose process died")
	})

	t.Run("OfASubjectInACrowdAtMostOneRuns", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		var jobs []queue.New
		for range 40 {
			n := b.job("a")
			n.Until = n.At.Add(lease)
			jobs = append(jobs, n)
		}
		intake, ctx := queue.NewIntake(b.queue), postgres.AcrossOrganisations(t.Context())
		var stores, claimed atomic.Int32
		var all sync.WaitGroup
		for _, n := range jobs {
			all.Go(func() {
				stored, err := intake.Enqueue(ctx, n)
				if err == nil {
					stores.Add(1)
				}
				if stored.Claimed != nil {
					claimed.Add(1)
				}
			})
		}
		all.Wait()
		require.EqualValues(t, len(jobs), stores.Load())
		require.LessOrEqual(t, claimed.Load(), int32(1))
		if claimed.Load() == 0 { // all were given back, and the oldest is the first again
			require.Len(t, b.claim(9).Jobs, 1)
		}
	})

	t.Run("EachCallerInACrowdGetsItsOwnAnswer", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		intake := queue.NewIntake(b.queue)
		known := b.job("")
		b.add(known)
		var jobs []queue.New
		for i := range 300 {
			n := b.job("")
			switch i % 6 {
			case 1: // what is stored already
				n.Key = known.Key
			case 2: // the same with something else in it
				n.Key, n.Payload = known.Key, json.RawMessage(`{"other":true}`)
			case 3: // what Postgres does not store
				n.Payload = json.RawMessage(`{"a":"\u0000"}`)
			case 4: // another organisation's
				n.OrgID = uuid.NewString()
			}
			jobs = append(jobs, n)
		}
		stored, errs := b.crowd(intake, jobs...)
		for i, n := range jobs {
			switch i % 6 {
			case 1:
				require.NoError(t, errs[i])
				require.Equal(t, known.ID, stored[i].ID)
				require.True(t, stored[i].Duplicate)
			case 2:
				require.ErrorIs(t, errs[i], queue.ErrPayloadMismatch)
				require.Equal(t, known.ID, stored[i].ID)
			case 3:
				require.ErrorIs(t, errs[i], queue.ErrPayload)
			default:
				require.NoError(t, errs[i])
				require.Equal(t, queue.Enqueued{ID: n.ID, CreatedAt: n.At}, stored[i])
				_, err := b.queue.Get(t.Context(), n.OrgID, n.ID)
				require.NoError(t, err)
			}
		}
	})

	t.Run("OneKeyThatManyBringIsStoredOnce", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		first, second := queue.NewIntake(b.queue), queue.NewIntake(b.queue)
		jobs := make([]queue.New, 200)
		for i := range jobs {
			jobs[i] = b.job("")
			jobs[i].Key = fmt.Sprint("key ", i%7)
		}
		var all sync.WaitGroup
		ids := make([]string, len(jobs))
		for i, n := range jobs {
			all.Go(func() {
				stored, err := []*queue.Intake{first, second}[i%2].Enqueue(t.Context(), n)
				if err != nil {
					t.Error(err)
				}
				ids[i] = stored.ID
			})
		}
		all.Wait()
		for i, id := range ids {
			require.Equal(t, ids[i%7], id)
		}
		require.Len(t, b.drain(), 7)
	})
}

func TestIntakeMishaps(t *testing.T) {
	t.Parallel()

	t.Run("ACallerThatHasGoneIsNotWaitedFor", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		intake := queue.NewIntake(b.queue)
		locked, err := b.pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = locked.Exec(t.Context(), `lock table jobs in exclusive mode`)
		require.NoError(t, err)
		gone, leave := context.WithCancel(t.Context())
		left := make(chan error, 3)
		for n := range 3 { // one in each of the two lanes, which are blocked, and one behind them
			go func() {
				_, err := intake.Enqueue(gone, b.job(""))
				left <- err
			}()
			require.Eventually(t, func() bool {
				var waiting int
				err := b.pool.QueryRow(t.Context(), `select count(*) from pg_locks where relation = 'jobs'::regclass and not granted`).Scan(&waiting)
				return err == nil && waiting == min(n+1, 2)
			}, 10*time.Second, 5*time.Millisecond)
		}
		leave()
		for range 3 {
			require.ErrorIs(t, <-left, context.Canceled)
		}
		require.NoError(t, locked.Rollback(t.Context()))
		n := b.job("")
		_, err = intake.Enqueue(t.Context(), n)
		require.NoError(t, err)
		require.Contains(t, b.drain(), n.ID)
		var stored int
		require.Eventually(t, func() bool { // none waits for the two that were on their way
			return b.pool.QueryRow(t.Context(), `select count(*) from jobs`).Scan(&stored) == nil && stored >= 3
		}, 10*time.Second, 5*time.Millisecond)
		require.Equal(t, 3, stored, "the two that were on their way, and not the one behind them")
	})

	t.Run("ADatabaseThatIsGoneIsAnErrorForEachCaller", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		intake := queue.NewIntake(b.queue)
		b.pool.Close()
		_, errs := b.crowd(intake, b.job(""), b.job(""), b.job(""))
		for _, err := range errs {
			require.ErrorContains(t, err, "closed pool")
		}
	})
}
