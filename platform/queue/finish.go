package queue

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
)

// SetCompleted completes a job in a statement of the owner that makes its own change, too: "update jobs j set" comes
// before, and behind it "from ... done", where done.at is the time. The statement has to hold the job's lease, as sqlComplete does.
const SetCompleted = `status = 'completed', error_message = '', updated_at = done.at, processed_at = done.at,
    lease_token = null, lease_until = null, lost_leases = 0`

// sqlComplete is sqlFinish for what most jobs come to, for those of one claim. The ids are an array besides the join because that alone
// would be planned, while the table is still empty, as a walk through all of it, and the plan is kept.
const sqlComplete = `
update {table} j set ` + SetCompleted + `
from (select u.id, $3::timestamptz as at from unnest($1::uuid[]) u (id)) done
where j.id = done.id and j.id = any($1::uuid[]) and j.lease_token = $2::uuid
returning j.id::text`

// sqlPass is sqlComplete of a table of passing jobs.
const sqlPass = `delete from {table} j where j.id = any($1::uuid[]) and j.lease_token = $2::uuid returning j.id::text`

// sqlFinish lets only the holder of the lease end a job. Only a job that is processing has a token, and to say so once more would be
// harmful: while the statistics know of no such job, the planner then reads the index of all that are processing for each that ends.
const sqlFinish = `
update {table} j
set status = f.status, attempts = f.attempts, error_message = f.message, updated_at = f.at,
    next_retry_at = case when f.status = 'pending' then f.due_at end,
    processed_at = case when f.status <> 'pending' then f.at end,
    lease_token = null, lease_until = null, lost_leases = 0
from unnest($1::uuid[], $2::uuid[], $3::timestamptz[], $4::text[], $5::integer[], $6::text[], $7::timestamptz[])
    f (id, token, at, status, attempts, message, due_at)
where j.id = any($1::uuid[]) and j.id = f.id and j.lease_token = f.token
returning j.id::text`

// Finish records the ends of attempts, each once, and returns the ids of those that had lost their lease; of them nothing is recorded.
func (q *Queue) Finish(ctx context.Context, ends []Finish) (fenced []string, err error) {
	recorded, err := q.finish(ctx, q.pool, ends)
	if err != nil {
		return nil, err
	}
	return missing(ends, recorded), nil
}

// FinishIn ends one attempt inside the caller's transaction; ErrFenced when the lease was lost, and then the caller rolls back. What the
// transaction still does is planned by indexes alone, see sqlByIndex.
func (q *Queue) FinishIn(ctx context.Context, db postgres.DB, end Finish) error {
	recorded, err := q.finish(ctx, db, []Finish{end})
	if err == nil && len(recorded) == 0 {
		err = ErrFenced
	}
	return err
}

func (q *Queue) finish(ctx context.Context, db postgres.DB, ends []Finish) (recorded map[string]struct{}, err error) {
	batch := &pgx.Batch{}
	batch.Queue(q.sql.byIndex)
	asked := 0
	for _, s := range q.finishes(ends) {
		batch.Queue(s.sql, s.args...)
		asked++
	}
	results := db.SendBatch(ctx, batch)
	recorded = make(map[string]struct{}, len(ends))
	_, err = results.Exec()
	for range asked {
		if err == nil {
			rows, asking := results.Query()
			err = collect(rows, asking, recorded)
		}
	}
	if closing := results.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return nil, fmt.Errorf("finish: %w", err)
	}
	return recorded, nil
}

func missing(ends []Finish, recorded map[string]struct{}) []string {
	var fenced []string
	for _, e := range ends {
		if _, ok := recorded[e.Job.ID]; !ok {
			fenced = append(fenced, e.Job.ID)
		}
	}
	return fenced
}

func collect(rows pgx.Rows, err error, recorded map[string]struct{}) error {
	if err != nil {
		return err
	}
	var id string
	_, err = pgx.ForEachRow(rows, []any{&id}, func() error {
		recorded[id] = struct{}{}
		return nil
	})
	return err
}

// statement is one with its arguments.
type statement struct {
	sql  string
	args []any
}

// finishes are the statements that record these ends: one for those that are done of each claim, and one for all others. In a batch with
// two claims of one job, by one runner that took it over from itself, each is fenced by its own lease.
func (q *Queue) finishes(ends []Finish) []statement {
	var all []statement
	var others []Finish
	claims := map[string]*completion{}
	var tokens []string // in the order in which they came
	for _, e := range ends {
		if e.Status != StatusCompleted || e.Message != "" || e.Attempts != e.Job.Attempts {
			others = append(others, e)
			continue
		}
		c, known := claims[e.Job.LeaseToken]
		if !known {
			c = &completion{}
			claims[e.Job.LeaseToken], tokens = c, append(tokens, e.Job.LeaseToken)
		}
		c.add(e)
	}
	for _, token := range tokens {
		args := []any{claims[token].ids, token}
		if !q.table.Passing {
			args = append(args, claims[token].at)
		}
		all = append(all, statement{sql: q.sql.complete, args: args})
	}
	if n := len(others); n > 0 {
		ids, tokens, at := texts(n), texts(n), make([]time.Time, n)
		statuses, attempts, messages, due := texts(n), make([]int32, n), texts(n), make([]time.Time, n)
		for i, e := range others {
			ids[i], tokens[i], at[i] = e.Job.ID, e.Job.LeaseToken, e.At
			statuses[i], messages[i], due[i] = e.Status, storable(e.Message), e.DueAt
			attempts[i] = int32(e.Attempts) //nolint:gosec // at most max_attempts
		}
		all = append(all, statement{sql: q.sql.finish, args: []any{ids, tokens, at, statuses, attempts, messages, due}})
	}
	return all
}

// completion are jobs of one claim that are done, and when the last of them was.
type completion struct {
	ids []string
	at  time.Time
}

func (c *completion) add(e Finish) {
	c.ids = append(c.ids, e.Job.ID)
	if e.At.After(c.at) {
		c.at = e.At
	}
}

// maxMessage bounds what is kept of an error, in bytes.
const maxMessage = 4000

// storable makes a text of a handler's error that Postgres takes: it may quote anything.
func storable(message string) string {
	if len(message) > maxMessage {
		message = message[:maxMessage]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(message, "?"), "\x00", "?")
}

// sqlExtend skips what is locked: that is being ended, and a heartbeat must not wait for it, nor it for the heartbeat. What was lost is
// read with it. A job that its handler has ended in its own transaction is not lost.
const sqlExtend = `
with leased as materialized (
    select f.id, j.status = 'processing' and j.lease_token = f.token as ours,
        coalesce(j.status not in ('completed', 'failed'), true) as open
    from unnest($1::uuid[], $2::uuid[]) f (id, token)
    left join (select t.id, t.status, t.lease_token from {table} t where t.id = any($1::uuid[])) j on j.id = f.id
),
extended as (
    update {table} j set lease_until = $3::timestamptz
    where j.id = any(array(
        select t.id from {table} t join unnest($1::uuid[], $2::uuid[]) f (id, token) on t.id = f.id and t.lease_token = f.token
        where t.id = any($1::uuid[]) and t.status || '' = 'processing' for update of t skip locked))
)
select id::text from leased where ours is not true and open`

// Extend makes the leases of running jobs last until then, and returns the ids of those that were lost.
func (q *Queue) Extend(ctx context.Context, jobs []Job, until time.Time) (lost []string, err error) {
	ids, tokens := texts(len(jobs)), texts(len(jobs))
	for i, j := range jobs {
		ids[i], tokens[i] = j.ID, j.LeaseToken
	}
	err = q.byIndex(ctx, q.pool, func(rows pgx.Rows) (err error) {
		lost, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	}, q.sql.extend, ids, tokens, until)
	if err != nil {
		return nil, fmt.Errorf("extend leases: %w", err)
	}
	return lost, nil
}

// sqlExpedite makes the first open job of each subject due, which is the only one that may begin. Only one that was not tried yet: it
// waits for its own request to run it, which found an older job in its way, or was snoozed behind that. One that a handler snoozed keeps
// its time.
const sqlExpedite = `
with heads as materialized (
    select {head of t} as id, min(t.n) as n, max(t.now) as now
    from unnest(@org::uuid[], @subject::text[], @now::timestamptz[]) with ordinality t (org_id, subject, now, n)
    group by t.org_id, t.subject
)
update {table} j set next_retry_at = h.now
from heads h
where j.id = h.id and j.id = any(array(select id from heads)) and j.status || '' = 'pending' and j.attempts = 0
    and j.error_message = '' and j.next_retry_at > h.now
returning h.n`

// Expedite makes the next job of each of these jobs' subjects due if it was only waiting for its turn, and reports whether there is
// one.
func (q *Queue) Expedite(ctx context.Context, done []Job, now time.Time) (bool, error) {
	var asked []postgres.Args
	for _, j := range done {
		if j.Subject != "" {
			asked = append(asked, postgres.Args{"org": j.OrgID, "subject": j.Subject, "now": now})
		}
	}
	if len(asked) == 0 {
		return false, nil
	}
	due, err := forEach(postgres.AcrossOrganisations(ctx), q, q.sql.expedite, asked, func(scan) (none struct{}, err error) { return })
	if err != nil {
		return false, fmt.Errorf("expedite the next job: %w", err)
	}
	return len(due) > 0, nil
}
