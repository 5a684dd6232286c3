package queue_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/queue"
)

// claims notes where each claim began to look.
type claims struct {
	*queue.Queue

	mu   sync.Mutex
	from []time.Time
}

func (c *claims) Claim(ctx context.Context, claim queue.Claim) (queue.Claimed, error) {
	c.mu.Lock()
	c.from = append(c.from, claim.From)
	c.mu.Unlock()
	return c.Queue.Claim(ctx, claim)
}

func TestBacklog(t *testing.T) {
	t.Parallel()

	t.Run("LooksOnlyAtWhatIsLeftAndMissesNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		begin := b.clock.Now()
		for i := range 60 {
			b.enqueueAt([]string{"", "a", "b"}[i%3], begin.Add(time.Duration(i)*time.Second))
		}
		b.clock.Advance(time.Minute)
		noted := &claims{Queue: b.queue}
		b.change = func(c *queue.Config) { c.Store, c.Workers = noted, 2 }
		late, once := "", sync.Once{}
		b.handle = func(context.Context, queue.Job) error {
			once.Do(func() { late = b.enqueueAt("", begin.Add(-time.Hour)) }) // stored as overdue in the middle of it
			return nil
		}
		ran := b.drain()
		require.Len(t, ran, 61)
		require.Contains(t, ran, late)
		partial := 0
		for _, from := range noted.from {
			if !from.IsZero() {
				partial++
			}
		}
		require.Positive(t, partial)
		require.Less(t, partial, len(noted.from))
	})
}
