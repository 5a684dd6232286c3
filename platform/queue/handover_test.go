package queue_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/queue"
)

func TestHandOver(t *testing.T) {
	t.Parallel()

	t.Run("BeginsWithoutAClaim", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		r, second := b.runner(), ""
		b.handle = func(_ context.Context, j queue.Job) error {
			if second == "" {
				var next queue.Job
				next, second = b.leased(r.Lease())
				r.HandOver(next)
			}
			return nil
		}
		first := b.enqueue("")
		n, err := r.Drain(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2, n)
		require.Equal(t, []string{first, second}, b.ran)
		require.Equal(t, queue.StatusCompleted, b.row(second).Status)
	})

	t.Run("WhereNoPassIsUnderWayThereIsNoLease", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		r := b.runner()
		require.Empty(t, r.Lease())
		b.enqueue("")
		_, err := r.Drain(t.Context())
		require.NoError(t, err)
		require.Empty(t, r.Lease())
	})

	t.Run("AfterThePassTheNextOneBeginsIt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		r := b.runner()
		var lease queue.Lease
		b.handle = func(context.Context, queue.Job) error {
			lease = r.Lease()
			return nil
		}
		b.enqueue("")
		_, err := r.Drain(t.Context())
		require.NoError(t, err)
		b.handle = nil
		late, id := b.leased(lease)
		r.HandOver(late)
		require.NotEmpty(t, b.wake) // the loop
		n, err := r.Drain(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Equal(t, queue.StatusCompleted, b.row(id).Status)
	})

	t.Run("HalfOfTheWorkersStayFreeForOthers", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.change = func(cfg *queue.Config) { cfg.Workers = 4 }
		r, leases := b.runner(), make(chan queue.Lease, 2)
		var begun sync.WaitGroup
		begun.Add(2)
		b.handle = func(context.Context, queue.Job) error {
			begun.Done()
			begun.Wait() // both are at work
			leases <- r.Lease()
			return nil
		}
		b.enqueue("")
		b.enqueue("")
		_, err := r.Drain(t.Context())
		require.NoError(t, err)
		require.Empty(t, <-leases) // of the one that asked first
	})

	t.Run("IsReleasedWhenTheProcessStops", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		ctx, stop := context.WithCancel(t.Context())
		r, second := b.runner(), ""
		b.handle = func(context.Context, queue.Job) error {
			var next queue.Job
			next, second = b.leased(r.Lease())
			stop()
			r.HandOver(next)
			return nil
		}
		first := b.enqueue("")
		_, err := r.Drain(ctx)
		require.NoError(t, err)
		require.Equal(t, []string{first}, b.ran)
		row := b.row(second)
		require.Equal(t, []any{queue.StatusPending, 0}, []any{row.Status, row.Attempts})
		require.True(t, b.clock.Now().Equal(*row.DueAt))
	})
}

// leased stores a job under a lease, as its process does that hands it over.
func (b *bundle) leased(l queue.Lease) (queue.Job, string) {
	b.t.Helper()
	require.NotEmpty(b.t, l)
	n := b.job("")
	_, err := b.pool.Exec(b.t.Context(), `
insert into jobs (id, org_id, idempotency_key, event_type, subject, payload, status, lease_token, lease_until, created_at, updated_at)
values ($1, $2, $3, $4, '', $5, 'processing', $6, $7, $8, $8)`, n.ID, n.OrgID, n.Key, n.EventType, n.Payload, l.Token, l.Until, n.At)
	require.NoError(b.t, err)
	return queue.Job{
		ID: n.ID, OrgID: n.OrgID, EventType: n.EventType, Payload: n.Payload, MaxAttempts: 3, CreatedAt: n.At, DueAt: n.DueAt, LeaseToken: l.Token,
	}, n.ID
}
