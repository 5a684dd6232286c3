package queue_test

import (
	"context"
	"sync"
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

	t.Run("HalfOfTheWorkersStayFreeForWhatIsDueAtOnce", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		ctx, cancel := context.WithCancel(t.Context())
		waiting := make(chan struct{})
		b.change = func(cfg *queue.Config) {
			cfg.Ahead, cfg.Lease, cfg.Workers = time.Hour, 4*time.Second, 4
			cfg.Store = extending{b.queue, sync.OnceFunc(func() { close(waiting) })}
		}
		for range 4 {
			b.enqueueAt("", b.clock.Now().Add(time.Minute))
		}
		ended := make(chan error, 1)
		go func() { _, err := b.runner().Drain(ctx); ended <- err }()
		<-waiting // for their time, for the lease was extended
		var claimed int
		require.NoError(t, b.pool.QueryRow(t.Context(), `select count(*) from jobs where status = 'processing'`).Scan(&claimed))
		cancel()
		require.NoError(t, <-ended)
		require.Equal(t, 2, claimed)
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

func TestLinger(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ended, ids := make(chan struct{}), make([]string, 2)
	b.handle = func(_ context.Context, j queue.Job) error {
		if j.ID == ids[0] {
			defer close(ended)
			return nil
		}
		<-ended
		b.row(j.ID) // takes longer than the first job needs to be recorded by itself
		return nil
	}
	records := &recording{Queue: b.queue}
	b.change = func(cfg *queue.Config) { cfg.Linger, cfg.Store = 500*time.Millisecond, records }
	ids[0], ids[1] = b.enqueueAt("", b.clock.Now()), b.enqueueAt("", b.clock.Now())
	require.Len(t, b.drain(), 2)
	require.Equal(t, []int{2}, records.sizes)
}

// recording notes how many ends each statement records.
type recording struct {
	*queue.Queue

	sizes []int
}

func (r *recording) Finish(ctx context.Context, ends []queue.Finish) ([]string, error) {
	r.sizes = append(r.sizes, len(ends))
	return r.Queue.Finish(ctx, ends)
}
