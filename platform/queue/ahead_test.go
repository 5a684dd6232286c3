package queue_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/queue"
)

func TestAhead(t *testing.T) {
	t.Parallel()

	t.Run("AJobBeginsWhenItIsDue", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		var began time.Time
		b.handle = func(context.Context, queue.Job) error {
			began = time.Now()
			return nil
		}
		b.change = func(cfg *queue.Config) { cfg.Ahead, cfg.Now = time.Minute, time.Now }
		due := time.Now().Add(300 * time.Millisecond).Truncate(time.Microsecond) // as the database keeps it
		id := b.enqueueAt("", due)
		require.Equal(t, []string{id}, b.drain())
		require.Equal(t, queue.StatusCompleted, b.row(id).Status)
		require.False(t, began.Before(due))
	})

	t.Run("AJobThatHasNotBegunIsReleasedWhenTheProcessStops", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		ctx, cancel := context.WithCancel(t.Context())
		b.change = func(cfg *queue.Config) {
			cfg.Ahead, cfg.Lease = time.Hour, 4*time.Second
			cfg.Store = extending{b.queue, cancel}
		}
		due := b.clock.Now().Add(time.Hour)
		id := b.enqueueAt("", due)
		_, err := b.runner().Drain(ctx)
		require.NoError(t, err)
		r := b.row(id)
		require.Equal(t, []any{queue.StatusPending, 0}, []any{r.Status, r.Attempts})
		require.True(t, due.Equal(*r.DueAt))
		require.Empty(t, b.ran)
	})
}

// extending calls told at each extension of a lease.
type extending struct {
	*queue.Queue

	told func()
}

func (e extending) Extend(ctx context.Context, jobs []queue.Job, until time.Time) ([]string, error) {
	e.told()
	return e.Queue.Extend(ctx, jobs, until)
}
