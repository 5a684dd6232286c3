package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// enqueueArrays is how many parameters sqlEnqueue has before those of Table.Extra.
const enqueueArrays = 10

const sqlEnqueue = `
insert into {table} (id, org_id, idempotency_key, event_type, subject, payload{priority}, status, max_attempts,
    next_retry_at, created_at, updated_at{extra})
select n.id, n.org_id, n.key, n.event_type, n.subject, n.payload::jsonb{n.priority}, 'pending', n.max_attempts,
    n.due_at, n.at, n.at{n.extra}
from unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::smallint[], $8::integer[], $9::timestamptz[],
    $10::timestamptz[]{extra[]}) n (id, org_id, key, event_type, subject, payload, priority, max_attempts, due_at, at{extra})
on conflict (org_id, idempotency_key) do nothing
returning id::text`

const sqlByKey = `
select n.n, j.id::text, j.created_at, j.payload = n.payload::jsonb as same
from unnest($1::uuid[], $2::text[], $3::text[]) with ordinality n (org_id, key, payload, n)
join {table} j on j.org_id = n.org_id and j.idempotency_key = n.key`

// defaultAttempts is New.MaxAttempts.
const defaultAttempts = 3

// Enqueue stores a job in the caller's transaction, or finds the one that its key already has. ErrPayloadMismatch when that one
// carries something else; then the job that has the key is returned all the same.
func (q *Queue) Enqueue(ctx context.Context, db Querier, n New) (Enqueued, error) {
	stored, err := q.EnqueueMany(ctx, db, []New{n})
	if err != nil {
		return Enqueued{}, err
	}
	if stored[0].mismatch {
		err = ErrPayloadMismatch
	}
	return stored[0].Enqueued, err
}

// Stored is what became of one of many jobs.
type Stored struct {
	Enqueued

	mismatch bool
}

// Err is ErrPayloadMismatch or nil.
func (s Stored) Err() error {
	if s.mismatch {
		return ErrPayloadMismatch
	}
	return nil
}

// EnqueueMany stores jobs with one statement, which is several times faster than one at a time, and says of each what became
// of it, in their order.
func (q *Queue) EnqueueMany(ctx context.Context, db Querier, jobs []New) ([]Stored, error) {
	rows, err := db.Query(ctx, q.sql.enqueue, q.enqueueArgs(jobs)...)
	if err != nil {
		return nil, fmt.Errorf("enqueue: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, refusal(err)
	}
	inserted := make(map[string]bool, len(ids))
	for _, id := range ids {
		inserted[id] = true
	}
	stored, known := make([]Stored, len(jobs)), []int(nil)
	for i, n := range jobs {
		if !inserted[n.ID] {
			known = append(known, i)
			continue
		}
		stored[i].Enqueued = Enqueued{ID: n.ID, CreatedAt: n.At}
	}
	return stored, q.find(ctx, db, jobs, known, stored)
}

func (q *Queue) enqueueArgs(jobs []New) []any {
	n := len(jobs)
	ids, orgs, keys, types, subjects, payloads := texts(n), texts(n), texts(n), texts(n), texts(n), texts(n)
	priorities, attempts, due, at := make([]int16, n), make([]int32, n), make([]time.Time, n), make([]time.Time, n)
	extra := make([][]string, len(q.table.Extra))
	for i := range extra {
		extra[i] = texts(n)
	}
	for i, j := range jobs {
		ids[i], orgs[i], keys[i], types[i], subjects[i], payloads[i] = j.ID, j.OrgID, j.Key, j.EventType, j.Subject, string(j.Payload)
		priorities[i], attempts[i], due[i], at[i] = int16(j.Priority), int32(j.MaxAttempts), j.DueAt, j.At //nolint:gosec // both are small
		if j.MaxAttempts == 0 {
			attempts[i] = defaultAttempts
		}
		for column := range extra {
			extra[column][i] = j.Extra[column]
		}
	}
	args := []any{ids, orgs, keys, types, subjects, payloads, priorities, attempts, due, at}
	for _, column := range extra {
		args = append(args, column)
	}
	return args
}

func texts(n int) []string { return make([]string, n) }

// find fills in the jobs that had been stored before.
func (q *Queue) find(ctx context.Context, db Querier, jobs []New, known []int, stored []Stored) error {
	if len(known) == 0 {
		return nil
	}
	orgs, keys, payloads := texts(len(known)), texts(len(known)), texts(len(known))
	for n, i := range known {
		orgs[n], keys[n], payloads[n] = jobs[i].OrgID, jobs[i].Key, string(jobs[i].Payload)
	}
	rows, err := db.Query(ctx, q.sql.byKey, orgs, keys, payloads)
	if err != nil {
		return fmt.Errorf("find job: %w", err)
	}
	var n, found int
	var first Stored
	var same bool
	_, err = pgx.ForEachRow(rows, []any{&n, &first.ID, &first.CreatedAt, &same}, func() error {
		first.Duplicate, first.mismatch = true, !same
		stored[known[n-1]] = first
		found++
		return nil
	})
	if err == nil && found < len(known) {
		err = pgx.ErrNoRows // it was cleared away between the two statements; the caller's next try stores it
	}
	if err != nil {
		return fmt.Errorf("find job: %w", err)
	}
	return nil
}

// classDataException are the SQLSTATEs of a value that cannot be what it should be, from the appendix "PostgreSQL Error Codes" of its
// manual.
const classDataException = "22"

// refusal tells a value that can never be stored from everything else. The server's text is left out, for it quotes the value.
func refusal(err error) error {
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && strings.HasPrefix(refused.Code, classDataException) {
		return fmt.Errorf("%w (%s)", ErrPayload, refused.Code)
	}
	return fmt.Errorf("enqueue: %w", err)
}
