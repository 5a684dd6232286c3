package queue_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/queue"
)

// scheduled returns a queue of which most jobs are due later.
func scheduled(t *testing.T) *bundle {
	t.Helper()
	b := setup(t)
	exec(t, b.pool, `create index jobs_by_time on jobs (next_retry_at, org_id) where status = 'pending'`)
	b.queue = queue.NewQueue(b.pool, queue.Table{Name: "jobs", Scheduled: true})
	return b
}

// org returns the n-th organisation.
func org(n int) string { return fmt.Sprintf("00000000-0000-7000-8000-%012x", n) }

// sqlOfOrgs stores jobs of each of many organisations.
const sqlOfOrgs = `
insert into jobs (id, org_id, idempotency_key, event_type, subject, payload, status, next_retry_at, created_at, updated_at)
select gen_random_uuid(), ('00000000-0000-7000-8000-' || lpad(to_hex(o), 12, '0'))::uuid, gen_random_uuid()::text, 'work', '', '{}', 'pending',
    $1::timestamptz + g * interval '1 ms', $1, $1
from generate_series($2::integer, $3::integer) o, generate_series(1, $4::integer) g`

func TestScheduled(t *testing.T) {
	t.Parallel()

	t.Run("OrganisationsWithNothingDueCostNothing", func(t *testing.T) {
		t.Parallel()
		b := scheduled(t)
		exec(t, b.pool, `alter table jobs set (autovacuum_enabled = off)`)
		exec(t, b.pool, `analyze jobs`)
		now := b.clock.Now()
		conn, err := b.pool.Acquire(t.Context())
		require.NoError(t, err)
		defer conn.Release()
		_, err = conn.Exec(t.Context(), "prepare claim as "+b.queue.SQL("claim"))
		require.NoError(t, err)
		cost := func() int {
			args := fmt.Sprintf("%d, %s, '%s', 128, %s, '%s', %s, '{}'", batch, quoted(now), uuid.Nil, quoted(time.Time{}), uuid.NewString(), quoted(now))
			return b.buffers(conn, asked{name: "claim", args: args})
		}
		b.enqueueAt("", now.Add(-2*time.Second))
		alone := cost()
		exec(t, b.pool, sqlOfOrgs, now.Add(time.Hour), 1, 5000, 4)
		require.LessOrEqual(t, cost(), alone+30, "the indexes are a few pages deeper")
		g, err := b.queue.Gauges(t.Context(), now)
		require.NoError(t, err)
		require.Equal(t, queue.Gauges{Backlog: 1, Scheduled: 20_000, OldestDueSeconds: 2}, g)
		c := b.claim(batch)
		require.Len(t, c.Jobs, 1)
		require.True(t, c.Drained)
		require.Equal(t, now.Add(time.Hour+time.Millisecond), c.Next.UTC())
		require.Empty(t, b.claim(batch).Jobs)
	})

	t.Run("ABacklogOfOneKeepsNoOtherWaitingLongerThanARound", func(t *testing.T) {
		t.Parallel()
		b := scheduled(t)
		now := b.clock.Now()
		exec(t, b.pool, sqlOfOrgs, now.Add(-time.Hour), 200, 200, 3000)
		exec(t, b.pool, sqlOfOrgs, now.Add(time.Hour), 1, 600, 1)
		exec(t, b.pool, sqlOfOrgs, now.Add(-time.Minute), 500, 501, 1)
		ran, last := map[string]int{}, ""
		for range 5 { // a round is of 600 organisations, 128 at a time
			c, err := b.queue.Claim(t.Context(), queue.Claim{Limit: batch, Now: now, Until: now.Add(lease), After: last})
			require.NoError(t, err)
			require.False(t, c.Drained)
			for _, j := range c.Jobs {
				ran[j.OrgID]++
			}
			last = c.Last
		}
		require.Equal(t, 1, ran[org(500)])
		require.Equal(t, 1, ran[org(501)])
		require.Greater(t, ran[org(200)], 4*batch, "and no claim comes back with less than there is")
	})

	t.Run("MoreOrganisationsThanABatchHasRoomForHaveTheirTurns", func(t *testing.T) {
		t.Parallel()
		for name, each := range map[string]int{"WithoutABacklog": 3, "WithOne": 30} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				b := scheduled(t)
				exec(t, b.pool, sqlOfOrgs, b.clock.Now().Add(-time.Hour), 1, 100, each)
				ran, last := map[string]int{}, ""
				for range 2 {
					c, err := b.queue.Claim(t.Context(), queue.Claim{Limit: batch, Now: b.clock.Now(), Until: b.clock.Now().Add(lease), After: last})
					require.NoError(t, err)
					for _, j := range c.Jobs {
						ran[j.OrgID]++
					}
					last = c.Last
				}
				require.Len(t, ran, 100)
			})
		}
	})

	t.Run("TheRoundGoesOnInTheNextPass", func(t *testing.T) {
		t.Parallel()
		b := scheduled(t)
		noted := &afters{Queue: b.queue}
		b.change = func(c *queue.Config) { c.Store = noted }
		runner := b.runner()
		for range 2 {
			b.enqueue("")
			_, err := runner.Drain(t.Context())
			require.NoError(t, err)
		}
		require.Equal(t, []string{"", b.orgID}, noted.after)
	})

	t.Run("TheLoopRestsUntilTheNextIsDue", func(t *testing.T) {
		t.Parallel()
		b := scheduled(t)
		b.enqueueAt("", b.clock.Now().Add(2*time.Second))
		runner := b.runner()
		var rests []time.Duration
		loop := runner.Loop(onceStarted(func(_ context.Context, d time.Duration, _ <-chan struct{}) bool {
			rests = append(rests, d)
			b.clock.Advance(d)
			return len(rests) < 2
		}))
		require.NoError(t, loop.Run(t.Context()))
		require.Equal(t, []time.Duration{2*time.Second + 5*time.Millisecond, 5 * time.Second}, rests)
		require.Len(t, b.ran, 1)
	})
}

// afters notes behind whom each claim began.
type afters struct {
	*queue.Queue

	after []string
}

func (a *afters) Claim(ctx context.Context, c queue.Claim) (queue.Claimed, error) {
	a.after = append(a.after, c.After)
	return a.Queue.Claim(ctx, c)
}
