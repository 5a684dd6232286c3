package queue_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/queue"
)

// finishes counts the jobs that a runner records.
type finishes struct {
	*queue.Queue

	n int
}

func (f *finishes) Finish(ctx context.Context, ends []queue.Finish) ([]string, error) {
	f.n += len(ends)
	return f.Queue.Finish(ctx, ends)
}

// TestErrEnded is about a handler that ended the job in the same transaction as its change.
func TestErrEnded(t *testing.T) {
	t.Parallel()
	ends := func(t *testing.T) (*bundle, *finishes) {
		t.Helper()
		b := setup(t)
		counted := &finishes{Queue: b.queue}
		b.change = func(c *queue.Config) { c.Store = counted }
		b.handle = func(ctx context.Context, j queue.Job) error {
			require.NoError(t, b.queue.FinishIn(ctx, b.pool, queue.Finish{Job: j, Status: queue.StatusCompleted, At: b.clock.Now()}))
			return queue.ErrEnded
		}
		return b, counted
	}

	t.Run("JobIsNotRecordedASecondTimeAndTheNextOfItsSubjectIsDueAtOnce", func(t *testing.T) {
		t.Parallel()
		b, counted := ends(t)
		first, next := b.enqueue("a"), b.enqueueAt("a", b.clock.Now().Add(20*time.Second))
		require.Equal(t, []string{first, next}, b.drain())
		require.Zero(t, counted.n)
		require.Equal(t, queue.StatusCompleted, b.row(first).Status)
		require.Equal(t, queue.StatusCompleted, b.row(next).Status)
	})

	t.Run("JobThatUsedUpItsTimeStaysEnded", func(t *testing.T) {
		t.Parallel()
		b, counted := ends(t)
		id := b.enqueue("")
		ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(time.Hour)) // an impatient caller
		defer cancel()
		require.NoError(t, b.runner().Try(ctx, id, func(ctx context.Context, j queue.Job) error {
			err := b.handle(ctx, j)
			cancel()
			return err
		}))
		require.Zero(t, counted.n)
		require.Equal(t, queue.StatusCompleted, b.row(id).Status)
	})
}
