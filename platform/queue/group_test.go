package queue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/queue"
)

func TestGroups(t *testing.T) {
	t.Parallel()
	grouped := func(t *testing.T) *bundle {
		t.Helper()
		b := setup(t)
		b.queue = queue.NewQueue(b.pool, queue.Table{Name: "jobs", Group: "event_type"})
		return b
	}
	// adds stores jobs of a group, each with another subject.
	adds := func(b *bundle, group string, n int) {
		var jobs []queue.New
		for range n {
			j := b.job(uuid.NewString())
			j.EventType = group
			jobs = append(jobs, j)
		}
		b.add(jobs...)
	}
	// claims counts the jobs of each group that one claim finds.
	claims := func(b *bundle, room map[string]int, other int) map[string]int {
		now := b.clock.Now()
		c, err := b.queue.Claim(b.t.Context(), queue.Claim{
			Limit: 50, Now: now, Until: now.Add(lease), Room: room, OtherRoom: other,
		})
		require.NoError(b.t, err)
		require.Zero(b.t, c.Floor, "what was passed over is not gone")
		found := map[string]int{}
		for _, j := range c.Jobs {
			found[j.EventType]++
		}
		return found
	}

	t.Run("AGroupIsClaimedUpToItsRoom", func(t *testing.T) {
		t.Parallel()
		b := grouped(t)
		for _, group := range []string{"full", "some", "other", "another"} {
			adds(b, group, 8)
		}
		room := map[string]int{"full": 0, "over": -1, "some": 3}
		require.Equal(t, map[string]int{"some": 3, "other": 2, "another": 2}, claims(b, room, 2))
		require.Equal(t, map[string]int{"full": 8, "some": 5, "other": 6, "another": 6}, claims(b, map[string]int{"full": 9}, 9),
			"the others were left as they were")
	})

	t.Run("NothingIsBoundWithoutRoom", func(t *testing.T) {
		t.Parallel()
		b := grouped(t)
		adds(b, "a", 8)
		now := b.clock.Now()
		c, err := b.queue.Claim(t.Context(), queue.Claim{Limit: 50, Now: now, Until: now.Add(lease)})
		require.NoError(t, err)
		require.Len(t, c.Jobs, 8)
	})

	t.Run("AFullGroupWithAnyNumberOfJobsIsPassedOverAtOnce", func(t *testing.T) {
		t.Parallel()
		b := grouped(t)
		exec(t, b.pool, `alter table jobs set (autovacuum_enabled = off)`)
		exec(t, b.pool, `analyze jobs`)
		now := b.clock.Now()
		const full = 5000
		exec(t, b.pool, sqlPendingJobs, b.orgID, "", now, full)
		conn, err := b.pool.Acquire(t.Context())
		require.NoError(t, err)
		defer conn.Release()
		_, err = conn.Exec(t.Context(), "prepare claim as "+b.queue.SQL("claim"))
		require.NoError(t, err)
		adds(b, "another", 3)
		cost := b.buffers(conn, asked{name: "claim", args: fmt.Sprintf("50, %s, '%s', 128, %s, '%s', %s, '{}', '{work}', '{work}', '{0}', 2",
			quoted(now), b.orgID, quoted(time.Time{}), uuid.NewString(), quoted(now))})
		require.Less(t, cost, 3*full, "a look at each, and no search for its subject")
		require.Equal(t, map[string]int{"another": 2}, claims(b, map[string]int{"work": 0}, 2))
	})

	t.Run("WhatWaitsBehindAnotherOfItsSubjectIsSnoozedBehindAFullGroup", func(t *testing.T) {
		t.Parallel()
		b := grouped(t)
		exec(t, b.pool, sqlPendingJobs, b.orgID, "", b.clock.Now(), 1000)
		exec(t, b.pool, `update jobs set event_type = 'full'`)
		var deep []queue.New
		for range 600 {
			deep = append(deep, b.job("deep"))
		}
		b.add(deep...)
		adds(b, "another", 3)
		room := map[string]int{"full": 0}
		found := map[string]int{}
		for range 5 {
			for group, n := range claims(b, room, 9) {
				found[group] += n
			}
		}
		require.Equal(t, map[string]int{"work": 1, "another": 3}, found)
	})
}
