package queue

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// sqlHold locks each organisation's share of what is due for as long as the transaction lives, and changes nothing.
const sqlHold = sqlDue + `
held as materialized (
    select x.*, row_number() over () as place
    from (
        select c.*, d.n
        from (select org_id, n from due order by n) d cross join lateral (
            select l.* from {lanes} cross join lateral (
                select {held}
                from {table} t
                where t.status = 'pending' and t.org_id = d.org_id{lane}
                  and t.next_retry_at between $5::timestamptz and $2::timestamptz and {free}
                order by t.next_retry_at, t.id
                limit (select size from share)
                for update skip locked) l
            limit (select size from share)) c
        limit $1::integer) x
)
select v.looked, v.last::text, h.at, h.id::text, h.org_id::text, h.event_type, h.subject, h.payload,
    h.attempts, h.max_attempts, h.created_at, h.due_at
from (
    select (select count(*) from visited)::integer as looked,
        coalesce((select org_id from visited where n = (select max(n) from held)),
            (select org_id from visited order by n desc limit 1)) as last
) v
left join held h on true
order by h.place`

// heldColumns are what is read of a job that is locked. Where its row is cannot change until it is let go.
const heldColumns = `t.ctid::text as at, t.id, t.org_id, t.event_type, t.subject, t.payload, t.attempts, t.max_attempts, t.created_at,
                    t.next_retry_at as due_at`

const sqlHoldOne = `
select 1, null::text, {held}
from {table} t
where t.id = $1::uuid and t.status || '' = 'pending' and t.next_retry_at <= $2::timestamptz and {free}
for update skip locked`

// sqlDone ends jobs that this transaction has locked, by where they are. To say once more that they are pending would be harmful: while
// the statistics know of few, the planner then goes through all that are.
const sqlDone = `
update {table} j
set status = 'completed', error_message = '', updated_at = $2::timestamptz, processed_at = $2::timestamptz, next_retry_at = null,
    lost_leases = 0
where j.ctid = any($1::text[]::tid[])`

// sqlNotDone records an attempt whose transaction was rolled back, unless somebody else has come to an end with the job since.
const sqlNotDone = `
update {table} j
set status = $4, attempts = $5::integer, error_message = $6, updated_at = $3::timestamptz,
    next_retry_at = case when $4 = 'pending' then $7::timestamptz end, processed_at = case when $4 <> 'pending' then $3::timestamptz end
where j.id = $1::uuid and j.status || '' = 'pending' and j.attempts = $2::integer`

// sqlTakeBack frees what a Runner, which worked this queue before, left claimed.
const sqlTakeBack = `
update {table} j
set status = 'pending', lease_token = null, lease_until = null, next_retry_at = $1::timestamptz, updated_at = $1::timestamptz,
    lost_leases = j.lost_leases + 1
where j.id = any(array(
    select t.id from {table} t where t.status = 'processing' and t.lease_until <= $1::timestamptz order by t.lease_until
    for update skip locked))`

// holdTimeout has the server end a transaction, and so let its jobs go, when nothing was heard of it for so long.
const holdTimeout = `select set_config('idle_in_transaction_session_timeout', $1, true)`

// hold locks free jobs that are due, at most c.Limit or the one that c.ID names, in tx.
func (q *Queue) hold(ctx context.Context, tx pgx.Tx, c Claim, silence time.Duration) (Claimed, error) {
	var batch pgx.Batch
	batch.Queue(q.sql.byIndex)
	batch.Queue(holdTimeout, strconv.FormatInt(silence.Milliseconds(), 10))
	if c.ID != "" {
		batch.Queue(q.sql.holdOne, c.ID, c.Now)
	} else {
		after := c.After
		if after == "" {
			after = uuid.Nil.String()
		}
		batch.Queue(q.sql.hold, c.Limit, c.Now, after, maxOrganisations, c.From)
	}
	results := tx.SendBatch(ctx, &batch)
	held, err := readHeld(results)
	if closing := results.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return Claimed{}, fmt.Errorf("hold: %w", err)
	}
	return held, nil
}

func readHeld(results pgx.BatchResults) (held Claimed, err error) {
	for range 2 { // the settings
		if _, err := results.Exec(); err != nil {
			return held, err
		}
	}
	rows, err := results.Query()
	if err != nil {
		return held, err
	}
	defer rows.Close()
	reached := map[string]time.Time{} // by organisation
	for rows.Next() {
		var looked int
		var last, at, id, orgID, eventType, subject *string
		var payload []byte
		var attempts, maxAttempts *int32
		var created, due *time.Time
		if err := rows.Scan(
			&looked, &last, &at, &id, &orgID, &eventType, &subject, &payload, &attempts, &maxAttempts, &created, &due,
		); err != nil {
			return held, err
		}
		held.More = looked >= maxOrganisations
		if last != nil {
			held.Last = *last
		}
		if id == nil { // nothing was found; the row only tells how far the look went
			continue
		}
		if due.After(reached[*orgID]) {
			reached[*orgID] = *due
		}
		held.Jobs = append(held.Jobs, Job{
			ID: *id, OrgID: *orgID, EventType: *eventType, Subject: *subject, Payload: payload, Attempts: int(*attempts),
			MaxAttempts: int(*maxAttempts), CreatedAt: *created, place: *at,
		})
	}
	held.Floor = earliest(reached)
	return held, rows.Err()
}

// done ends jobs that tx holds.
func (q *Queue) done(ctx context.Context, tx pgx.Tx, jobs []Job, now time.Time) error {
	places := texts(len(jobs))
	for i, j := range jobs {
		places[i] = j.place
	}
	tag, err := tx.Exec(ctx, q.sql.done, places, now)
	if err != nil {
		return fmt.Errorf("done: %w", err)
	}
	if n := tag.RowsAffected(); n != int64(len(jobs)) {
		return fmt.Errorf("done: of %d jobs that are held, %d could be ended", len(jobs), n)
	}
	return nil
}

// notDone records a failed attempt at a job that is no longer held, and reports whether it was still there to be recorded.
func (q *Queue) notDone(ctx context.Context, e Finish) (bool, error) {
	changed, err := q.execByIndex(ctx, q.sql.notDone,
		e.Job.ID, e.Job.Attempts, e.At, e.Status, e.Attempts, storable(e.Message), e.DueAt)
	if err != nil {
		return false, fmt.Errorf("record a failed attempt: %w", err)
	}
	return changed > 0, nil
}

// takeBack frees jobs whose lease has run out.
func (q *Queue) takeBack(ctx context.Context, now time.Time) error {
	if _, err := q.execByIndex(ctx, q.sql.takeBack, now); err != nil {
		return fmt.Errorf("take back expired leases: %w", err)
	}
	return nil
}
