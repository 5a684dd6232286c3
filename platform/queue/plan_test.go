package queue_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/queue"
)

const (
	sqlPendingJobs = `
insert into jobs (id, org_id, idempotency_key, event_type, subject, payload, status, next_retry_at, created_at, updated_at)
select ('00000000-0000-7000-8000-' || lpad(to_hex(g), 12, '0'))::uuid, $1, 'pending-' || g, 'work', coalesce(nullif($2::text, ''), '+1555' || g),
    '{}', 'pending', $3::timestamptz - interval '1 hour' + (g * 7919 % 20011) * interval '1 ms', $3, $3
from generate_series(1, $4::integer) g`
	sqlCompletedJobs = `
insert into jobs (id, org_id, idempotency_key, event_type, subject, payload, status, processed_at, created_at, updated_at)
select gen_random_uuid(), $1, 'completed-' || g, 'work', '', '{}', 'completed', $2, $2, $2 from generate_series(1, 5000) g`
	sqlCompleteAll = `update jobs set status = 'completed', next_retry_at = null, processed_at = updated_at, id = gen_random_uuid()`
)

// statistics holds the planner's knowledge of the table: not what is in it when the statements run.
var statistics = map[string]func(t *testing.T, b *bundle){
	"TakenWhileItWasEmpty": func(t *testing.T, b *bundle) {
		t.Helper()
		exec(t, b.pool, `vacuum analyze jobs`)
	},
	"TakenWhileNothingWasPending": func(t *testing.T, b *bundle) {
		t.Helper()
		exec(t, b.pool, sqlCompletedJobs, b.orgID, b.clock.Now())
		exec(t, b.pool, `vacuum analyze jobs`)
	},
	"TakenWhileAllWasPendingAndOfOneSubject": func(t *testing.T, b *bundle) {
		t.Helper()
		exec(t, b.pool, sqlPendingJobs, b.orgID, "a", b.clock.Now(), 5000)
		exec(t, b.pool, `analyze jobs`)
		exec(t, b.pool, sqlCompleteAll)
		exec(t, b.pool, `update jobs set idempotency_key = 'completed' || idempotency_key`)
	},
}

func exec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	_, err := pool.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

// asked is a statement with its arguments as SQL, and how many buffers it may read and write.
type asked struct {
	name, args string
	most       int
}

// TestBuffers holds what the queue asks to a number of buffers under a backlog of which the planner knows nothing: its statistics are
// older, and so are the plans that the connection keeps.
func TestBuffers(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()

	for name, know := range statistics {
		t.Run("R_14_ABacklogOfTwentyThousandIsNotReadThroughWithStatistics"+name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			exec(t, b.pool, `alter table jobs set (autovacuum_enabled = off)`)
			know(t, b)
			conn, err := b.pool.Acquire(t.Context())
			require.NoError(t, err)
			defer conn.Release()
			now := b.clock.Now()
			before := b.asked(nil, now)
			for _, a := range before { // the plans are made now
				_, err := conn.Exec(t.Context(), "prepare "+a.name+" as "+b.queue.SQL(a.name))
				require.NoError(t, err)
				b.buffers(conn, a)
			}
			exec(t, b.pool, sqlPendingJobs, b.orgID, "", now, 20_000)
			claimed := b.claim(batch).Jobs
			require.Len(t, claimed, batch)
			for _, a := range b.asked(claimed, now) {
				kept := 0
				if a.name != "claim" && a.name != "snoozeBehind" { // these have another text, and so a new plan, by now
					kept = b.buffers(conn, a)
				}
				_, err := conn.Exec(t.Context(), "deallocate "+a.name)
				require.NoError(t, err)
				_, err = conn.Exec(t.Context(), "prepare "+a.name+" as "+b.queue.SQL(a.name))
				require.NoError(t, err)
				fresh := b.buffers(conn, a)
				require.LessOrEqual(t, max(kept, fresh), a.most, "%s: by the plan that was kept %d, by a new one %d", a.name, kept, fresh)
			}
		})
	}

	t.Run("R_14_ASubjectWithTwentyThousandOpenJobsSlowsNoClaimAndKeepsItsOrder", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		exec(t, b.pool, `alter table jobs set (autovacuum_enabled = off)`)
		exec(t, b.pool, `analyze jobs`)
		now := b.clock.Now()
		exec(t, b.pool, sqlPendingJobs, b.orgID, "a", now.Add(-time.Hour), 20_000)
		others := map[string]bool{}
		for range 3 {
			others[b.enqueue("")] = true
		}
		conn, err := b.pool.Acquire(t.Context())
		require.NoError(t, err)
		defer conn.Release()
		_, err = conn.Exec(t.Context(), "prepare claim as "+b.queue.SQL("claim"))
		require.NoError(t, err)
		var head queue.Job
		var from time.Time
		cost := func() int {
			args := fmt.Sprintf("%d, %s, '%s', 128, %s, '%s', %s, '{}'", batch, quoted(now), b.orgID, quoted(from), uuid.NewString(), quoted(now))
			return b.buffers(conn, asked{name: "claim", args: args})
		}
		claims := 0
		for ; len(others) > 0; claims++ {
			require.Less(t, claims, 20_000/256, "each clears away as many as it looks past")
			require.Less(t, cost(), 4000)
			c, err := b.queue.Claim(t.Context(), queue.Claim{Limit: batch, Now: now, Until: now.Add(lease), From: from})
			require.NoError(t, err)
			from = c.Floor
			for _, j := range c.Jobs {
				if j.Subject == "a" {
					require.Empty(t, head.ID, "one at a time")
					head = j
				}
				delete(others, j.ID)
			}
		}
		require.Less(t, cost(), 400, "nothing is in the way any more")
		for n := 1; n <= 3; n++ {
			require.Equal(t, fmt.Sprintf("00000000-0000-7000-8000-%012x", n), head.ID)
			_, err := b.queue.Finish(t.Context(), []queue.Finish{{Job: head, Status: queue.StatusCompleted, At: now}})
			require.NoError(t, err)
			more, err := b.queue.Expedite(t.Context(), []queue.Job{head}, now)
			require.NoError(t, err)
			require.True(t, more)
			next := b.claim(batch).Jobs
			require.Len(t, next, 1)
			head = next[0]
		}
	})

	t.Run("R_14_ARunnerFinishesADeepSubjectInItsOrder", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.change = func(c *queue.Config) { c.Workers = 2 }
		var deep []queue.New
		for range 300 {
			deep = append(deep, b.job("a"))
		}
		want := b.add(deep...)
		for range 3 {
			b.enqueue("")
		}
		var order []string
		b.handle = func(_ context.Context, j queue.Job) error {
			if j.Subject == "a" {
				order = append(order, j.ID)
			}
			return nil
		}
		require.Len(t, b.drain(), 303, "although the clock stands still: what was snoozed is due when the one before it ends")
		require.Equal(t, want, order)
	})
}

const batch = 50

// asked are the statements of the queue, the claim first, about these jobs.
func (b *bundle) asked(claimed []queue.Job, now time.Time) []asked {
	b.t.Helper()
	token, one := uuid.NewString(), "00000000-0000-7000-8000-000000001000"
	var ids, tokens, orgs, subjects, times, numbers, statuses []string
	for _, j := range claimed {
		ids, tokens, token = append(ids, j.ID), append(tokens, j.LeaseToken), j.LeaseToken
		orgs, subjects, times = append(orgs, j.OrgID), append(subjects, j.Subject), append(times, now.Format(time.RFC3339))
		numbers, statuses = append(numbers, "1"), append(statuses, queue.StatusFailed)
	}
	at, far, times1 := quoted(now), quoted(time.Time{}), "'{"+now.Format(time.RFC3339)+"}'"
	list := func(texts []string) string { return "'{" + strings.Join(texts, ",") + "}'" }
	args := func(texts ...string) string { return strings.Join(texts, ", ") }
	// A row that is changed is written to six indexes, each two or three pages deep.
	const byID, change = 12, 40
	return []asked{
		{name: "claim", args: args("50", at, "'"+b.orgID+"'", "128", far, "'"+token+"'", at, "'{}'"), most: batch * 50},
		{name: "enqueueClaimed", args: args("'{"+uuid.NewString()+"}'", "'{"+b.orgID+"}'", "'{new}'", "'{work}'", "'{+15551}'", "'{\"{}\"}'", "'{3}'",
			times1, times1, times1, "'{\"\"}'", times1, "'"+token+"'"), most: byID + change},
		{name: "claimOne", args: args("'{"+one+"}'", "'{"+token+"}'", "'{"+now.Format(time.RFC3339)+"}'", "'{"+now.Format(time.RFC3339)+"}'"), most: byID + change},
		{name: "snoozeBehind", args: args("'{"+b.orgID+"}'", at, far, "50", at), most: batch * change},
		{name: "release", args: args(list(ids), list(tokens), list(times), list(times)), most: batch * byID},
		{name: "complete", args: args(list(ids), "'"+token+"'", at), most: batch * change},
		{name: "finish", args: args(list(ids), list(tokens), list(times), list(statuses), list(numbers), list(statuses), list(times)), most: batch * change},
		{name: "extend", args: args(list(ids), list(tokens), at), most: batch * change},
		{name: "expedite", args: args(list(orgs), list(subjects), list(times)), most: batch * byID},
		{name: "get", args: args("'"+b.orgID+"'", "'"+one+"'"), most: byID},
		{name: "retry", args: args("'"+b.orgID+"'", "'"+one+"'", at, "''"), most: byID},
		{name: "cancel", args: args("'"+b.orgID+"'", "'"+one+"'", at, "''"), most: byID + change},
		{name: "dismiss", args: args("'"+b.orgID+"'", "'"+one+"'", at, "''"), most: byID},
	}
}

func quoted(at time.Time) string { return "'" + at.Format(time.RFC3339Nano) + "'" }

// sqlCombined goes before what postgres.Combiner runs.
const sqlCombined = `set local plan_cache_mode = force_generic_plan; set local enable_hashjoin = off; set local enable_mergejoin = off`

// buffers runs a prepared statement in every way in which the queue does, undoes it, and says how many buffers it read and wrote at most.
func (b *bundle) buffers(conn *pgxpool.Conn, a asked) int {
	b.t.Helper()
	if slices.Contains([]string{"claimOne", "release", "expedite"}, a.name) {
		return max(b.buffersBehind(conn, b.queue.SQL("byIndex"), a), b.buffersBehind(conn, sqlCombined, a))
	}
	return b.buffersBehind(conn, b.queue.SQL("byIndex"), a)
}

func (b *bundle) buffersBehind(conn *pgxpool.Conn, first string, a asked) int {
	b.t.Helper()
	tx, err := conn.Begin(b.t.Context())
	require.NoError(b.t, err)
	defer func() { require.NoError(b.t, tx.Rollback(b.t.Context())) }()
	_, err = tx.Exec(b.t.Context(), first)
	require.NoError(b.t, err)
	var explained []byte
	err = tx.QueryRow(b.t.Context(), "explain (analyze, buffers, format json) execute "+a.name+"("+a.args+")").Scan(&explained)
	require.NoError(b.t, err, a.name)
	var plans []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	require.NoError(b.t, json.Unmarshal(explained, &plans))
	return plans[0].Plan.Hit + plans[0].Plan.Read
}
