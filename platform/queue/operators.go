package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
)

// Row is a job as an operator sees it.
type Row struct {
	ID           string
	OrgID        string
	Key          string
	EventType    string
	Subject      string
	Payload      json.RawMessage
	Status       string
	Attempts     int
	MaxAttempts  int
	DueAt        *time.Time // of a pending job
	ProcessedAt  *time.Time // of one that is at its end
	ErrorMessage string
	CreatedAt    time.Time
	UpdatedAt    time.Time
	Actor        *string  // the caller who stored it, or retried or cancelled it last, as postgres.WithActor has it; nil when none did
	Extra        []string // as in Table.Extra
}

// Filter chooses jobs of one organisation. An empty field chooses all.
type Filter struct {
	OrgID     string
	Status    string
	EventType string
	Before    string // jobs older than this id
	Limit     int
}

const rowColumns = `j.id::text, j.org_id::text, j.idempotency_key, j.event_type, j.subject, j.payload, j.status, j.attempts, j.max_attempts,
    j.next_retry_at, j.processed_at, j.error_message, j.created_at, j.updated_at, j.actor::text,
    array[]::text[]{row.extra}`

// listColumns leave the payload out.
var listColumns = strings.Replace(rowColumns, "j.payload", "null::jsonb", 1)

const sqlGet = `select {row} from {table} j where j.org_id = $1::uuid and j.id = $2::uuid`

// sqlList has the status spelled out, so that the partial index of the few that failed or are open can be used however many jobs are
// finished.
const sqlList = `
select {row of list}
from {jobs} j
where j.org_id = $1::uuid{status} and {type}
  and ($3::text = '' or j.id < nullif($3::text, '')::uuid)
order by {newest} limit $4::integer`

// sqlPending is read in the order of the index of what is pending: what is open is in another one, by its subject, too, and which of
// the two the planner took was a matter of its samples.
const sqlPending = `(
    select t.id, t.org_id, t.idempotency_key, t.event_type, t.subject, t.status, t.attempts, t.max_attempts, t.next_retry_at,
        t.processed_at, t.error_message, t.created_at, t.updated_at, t.actor{extra}
    from {table} t where t.org_id = $1::uuid and t.status = 'pending' order by {by org}, t.id)`

// sqlPlannedNow plans a list anew each time it is asked for: which index finds a type or a status soonest depends on how rare it is.
const sqlPlannedNow = `select set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
    set_config('plan_cache_mode', 'force_custom_plan', true)`

// lists are sqlList for every status, and for the empty one, which is all; behind a slash for those of one event type, which have another
// index. What is open is sorted as text, which is the same order: else
// the planner may walk through all that is finished, by id, to find the few in between.
func lists(write func(sql string) string) map[string]string {
	const newest, sorted = "j.id desc", `j.id::text collate "C" desc`
	all := map[string]string{}
	add := func(name, jobs, status, order string) {
		list := strings.NewReplacer("{jobs}", jobs, "{status}", status, "{newest}", order).Replace(sqlList)
		all[name] = write(strings.ReplaceAll(list, "{type}", "$2::text = ''"))
		all[name+"/"] = write(strings.ReplaceAll(list, "{type}", "j.event_type = $2::text"))
	}
	add("", "{table}", "", newest)
	add(StatusPending, sqlPending, "", sorted)
	for status, order := range map[string]string{
		StatusProcessing: sorted, StatusCompleted: newest, StatusFailed: newest, StatusCancelled: newest,
	} {
		add(status, "{table}", " and j.status = '"+status+"'", order)
	}
	return all
}

// Get reads one job; ErrNoJob.
func (q *Queue) Get(ctx context.Context, orgID, id string) (Row, error) {
	r, err := q.one(ctx, q.pool, q.sql.get, orgID, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return Row{}, ErrNoJob
	}
	if err != nil {
		return Row{}, fmt.Errorf("read job: %w", err)
	}
	return r, nil
}

// one returns the result of a statement about one job; pgx.ErrNoRows.
func (q *Queue) one(ctx context.Context, db postgres.DB, sql string, args ...any) (r Row, err error) {
	err = q.byIndex(ctx, db, func(rows pgx.Rows) (err error) {
		r, err = pgx.CollectExactlyOneRow(rows, toRow)
		return err
	}, sql, args...)
	return r, err
}

// List reads jobs without their payloads, which may be long, the newest first.
func (q *Queue) List(ctx context.Context, f Filter) ([]Row, error) {
	name := f.Status
	if f.EventType != "" {
		name += "/"
	}
	list, known := q.sql.list[name]
	if !known {
		return nil, nil
	}
	var found []Row
	err := behind(ctx, q.pool, sqlPlannedNow, func(rows pgx.Rows) (err error) {
		found, err = pgx.CollectRows(rows, toRow)
		return err
	}, list, f.OrgID, f.EventType, f.Before, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	return found, nil
}

func toRow(row pgx.CollectableRow) (Row, error) {
	var r Row
	var payload []byte
	err := row.Scan(&r.ID, &r.OrgID, &r.Key, &r.EventType, &r.Subject, &payload, &r.Status, &r.Attempts, &r.MaxAttempts,
		&r.DueAt, &r.ProcessedAt, &r.ErrorMessage, &r.CreatedAt, &r.UpdatedAt, &r.Actor, &r.Extra)
	r.Payload = payload
	return r, err
}

// sqlRetry begins anew, and forgets the error with the attempts: sqlSnoozeBehind takes a job with an error for one that has
// its own time.
const sqlRetry = `
update {table} j
set status = 'pending', attempts = 0, lost_leases = 0, error_message = '', next_retry_at = $3::timestamptz, processed_at = null,
    updated_at = $3::timestamptz, actor = nullif($4::text, '')::jsonb
where j.org_id = $1::uuid and j.id = $2::uuid and j.status || '' = 'failed'
returning {row}`

// sqlCancel takes a pending job only, so that no handler has done work that does not count.
const sqlCancel = `
update {table} j
set status = 'cancelled', next_retry_at = null, processed_at = $3::timestamptz, updated_at = $3::timestamptz,
    actor = nullif($4::text, '')::jsonb
where j.org_id = $1::uuid and j.id = $2::uuid and j.status || '' = 'pending'
returning {row}`

// sqlDismiss keeps the error, which says what it was about.
const sqlDismiss = `
update {table} j
set status = 'cancelled', processed_at = $3::timestamptz, updated_at = $3::timestamptz,
    actor = nullif($4::text, '')::jsonb
where j.org_id = $1::uuid and j.id = $2::uuid and j.status || '' = 'failed'
returning {row}`

// Retry gives a failed job all of its attempts again and makes it due; a *StatusError when it has not failed, ErrNoJob. The
// caller notifies the queue's Notifier after the commit.
func (q *Queue) Retry(ctx context.Context, db postgres.DB, orgID, id string, now time.Time) (Row, error) {
	return q.change(ctx, db, q.sql.retry, StatusFailed, orgID, id, now)
}

// Cancel ends a pending job that has not begun; a *StatusError when it is not pending, ErrNoJob.
func (q *Queue) Cancel(ctx context.Context, db postgres.DB, orgID, id string, now time.Time) (Row, error) {
	return q.change(ctx, db, q.sql.cancel, StatusPending, orgID, id, now)
}

// Dismiss cancels a failed job that will not be retried, because what it asked for is done or not wanted; a *StatusError when it has not
// failed, ErrNoJob.
func (q *Queue) Dismiss(ctx context.Context, db postgres.DB, orgID, id string, now time.Time) (Row, error) {
	return q.change(ctx, db, q.sql.dismiss, StatusFailed, orgID, id, now)
}

func (q *Queue) change(ctx context.Context, db postgres.DB, sql, from, orgID, id string, now time.Time) (Row, error) {
	changed, err := q.one(ctx, db, sql, orgID, id, now, postgres.Actor(ctx))
	if err == nil {
		return changed, nil
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return Row{}, fmt.Errorf("change job: %w", err)
	}
	found, err := q.one(ctx, db, q.sql.get, orgID, id)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Row{}, ErrNoJob
	case err != nil:
		return Row{}, fmt.Errorf("change job: %w", err)
	}
	return found, &StatusError{Status: found.Status, Want: from}
}
