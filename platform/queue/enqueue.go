package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"paceline.internal/platform/postgres"
)

// enqueueArrays is the number of parameters that sqlEnqueue has before those of the table's own columns.
const enqueueArrays = 11

// sqlEnqueue unnests in the select list: there the arrays are walked through side by side, while a function in "from" would first be
// read to its end. It returns nothing, for as long as it stored all of them there is nothing to tell.
const sqlEnqueue = `
insert into {table} (id, org_id, idempotency_key, event_type, subject, payload, max_attempts, next_retry_at, created_at, updated_at,
    actor, status{priority}{extra})
select unnest($1::uuid[]), unnest($2::uuid[]), unnest($3::text[]), unnest($4::text[]), unnest($5::text[]), unnest($6::text[])::jsonb,
    unnest($7::integer[]), unnest($8::timestamptz[]), unnest($9::timestamptz[]), unnest($10::timestamptz[]),
    nullif(unnest($11::text[]), '')::jsonb, 'pending'{priority[]}{extra[]}
on conflict (org_id, idempotency_key) do nothing`

// sqlEnqueueClaimed is sqlEnqueue that claims each job that has a lease, unless one of its subject is open. Two that are stored at the same
// time do not see each other, so sqlRelease has to follow.
const sqlEnqueueClaimed = `
insert into {table} (id, org_id, idempotency_key, event_type, subject, payload, max_attempts, next_retry_at, created_at, updated_at,
    actor, status, lease_token, lease_until{priority}{extra})
select id, org_id, idempotency_key, event_type, subject, payload, max_attempts, case when token is null then due_at end, at, updated_at,
    actor, case when token is null then 'pending' else 'processing' end, token, case when token is not null then lease end{priority}{extra}
from (
    select unnest($1::uuid[]), unnest($2::uuid[]), unnest($3::text[]), unnest($4::text[]), unnest($5::text[]), unnest($6::text[])::jsonb,
        unnest($7::integer[]), unnest($8::timestamptz[]), unnest($9::timestamptz[]), unnest($10::timestamptz[]),
        nullif(unnest($11::text[]), '')::jsonb{priority[]}{extra[]}, unnest({leases}::timestamptz[])
) t (id, org_id, idempotency_key, event_type, subject, payload, max_attempts, due_at, at, updated_at, actor{priority}{extra}, lease)
cross join lateral (
    select case when t.lease is not null and (t.subject = '' or {head of t} is null) then {token}::uuid end as token
) c
on conflict (org_id, idempotency_key) do nothing
returning id::text, lease_token is not null`

// sqlByKey looks each one up by itself: a join may be planned as a walk through the whole table.
const sqlByKey = `
select n.n, found.id::text, found.created_at, found.payload = n.payload::jsonb as same
from unnest($1::uuid[], $2::text[], $3::text[]) with ordinality n (org_id, key, payload, n)
cross join lateral (
    select j.id, j.created_at, j.payload from {table} j where j.org_id = n.org_id and j.idempotency_key = n.key limit 1
) found`

// defaultAttempts is New.MaxAttempts.
const defaultAttempts = 3

// Enqueue stores a job in the caller's transaction, or finds the one that its key already has. ErrPayloadMismatch when that one
// carries something else; then the job that has the key is returned all the same.
func (q *Queue) Enqueue(ctx context.Context, db postgres.DB, n New) (Enqueued, error) {
	stored, err := q.EnqueueMany(ctx, db, []New{n})
	if err != nil {
		return Enqueued{}, err
	}
	return stored[0], stored[0].Err()
}

// EnqueueMany stores jobs with one statement, which is several times faster than one at a time, and returns the result of
// each, in their order.
func (q *Queue) EnqueueMany(ctx context.Context, db postgres.DB, jobs []New) ([]Enqueued, error) {
	args, err := q.enqueueArgs(jobs, postgres.Actor(ctx))
	if err != nil {
		return nil, err
	}
	tag, err := db.Exec(ctx, q.sql.enqueue, args...)
	if err != nil {
		return nil, refusal(err)
	}
	stored := make([]Enqueued, len(jobs))
	for i, n := range jobs {
		stored[i] = Enqueued{ID: n.ID, CreatedAt: n.At}
	}
	if tag.RowsAffected() == int64(len(jobs)) {
		return stored, nil
	}
	return stored, q.find(ctx, db, jobs, stored)
}

// enqueueClaimed stores jobs like EnqueueMany and claims those that have a lease. The caller of each claimed job calls
// confirm after the commit.
func (q *Queue) enqueueClaimed(ctx context.Context, jobs []New) ([]Enqueued, error) {
	args, err := q.enqueueArgs(jobs, "")
	if err != nil {
		return nil, err
	}
	token, err := uuid.NewRandom()
	if err != nil {
		return nil, fmt.Errorf("lease token: %w", err)
	}
	leases, places, stored := make([]*time.Time, len(jobs)), make(map[string]int, len(jobs)), make([]Enqueued, len(jobs))
	for i, n := range jobs {
		leases[i], places[n.ID], stored[i] = postgres.NullIfZero(n.Until), i, Enqueued{ID: n.ID, CreatedAt: n.At}
	}
	rows, _ := q.pool.Query(ctx, q.sql.enqueueClaimed, append(args, leases, token)...) // ForEachRow returns the error that rows carry
	var id string
	var claimed bool
	tag, err := pgx.ForEachRow(rows, []any{&id, &claimed}, func() error {
		if n := jobs[places[id]]; claimed {
			stored[places[id]].Claimed = &Job{
				ID: n.ID, OrgID: n.OrgID, EventType: n.EventType, Subject: n.Subject, Payload: n.Payload,
				MaxAttempts: cmp.Or(n.MaxAttempts, defaultAttempts), CreatedAt: n.At, LeaseToken: token.String(),
			}
		}
		return nil
	})
	if err != nil {
		return nil, refusal(err)
	}
	if tag.RowsAffected() == int64(len(jobs)) {
		return stored, nil
	}
	return stored, q.find(ctx, q.pool, jobs, stored)
}

// confirm releases a job that was claimed as it was stored, if another claim of its subject overlaps. When that cannot be found out nobody
// runs it before its lease expires.
func (q *Queue) confirm(ctx context.Context, e Enqueued, n New) Enqueued {
	if n.Subject == "" {
		return e
	}
	claimed := Claimed{Jobs: []Job{*e.Claimed}}
	mine := seen{ids: []string{n.ID}, due: []time.Time{n.DueAt}}
	err := q.release(postgres.AcrossOrganisations(ctx), Claim{Now: n.At, Until: n.Until}, e.Claimed.LeaseToken, mine, &claimed)
	if err != nil || len(claimed.Jobs) == 0 {
		e.Claimed = nil
	}
	return e
}

func (q *Queue) enqueueArgs(jobs []New, actor string) ([]any, error) {
	n := len(jobs)
	ids, orgs := make([]uuid.UUID, n), make([]uuid.UUID, n)
	keys, types, subjects, payloads, actors := texts(n), texts(n), texts(n), texts(n), texts(n)
	attempts, due, at := make([]int32, n), make([]time.Time, n), make([]time.Time, n)
	for i, j := range jobs {
		if err := errors.Join(parse(&ids[i], j.ID), parse(&orgs[i], j.OrgID)); err != nil {
			return nil, err
		}
		keys[i], types[i], subjects[i], payloads[i] = j.Key, j.EventType, j.Subject, string(j.Payload)
		actors[i] = cmp.Or(j.actor, actor)
		attempts[i], due[i], at[i] = int32(j.MaxAttempts), j.DueAt, j.At //nolint:gosec // it is small
		if j.MaxAttempts == 0 {
			attempts[i] = defaultAttempts
		}
	}
	args := []any{ids, orgs, keys, types, subjects, payloads, attempts, due, at, at, actors}
	if q.table.Priorities > 0 {
		priorities := make([]int16, n)
		for i, j := range jobs {
			priorities[i] = int16(j.Priority) //nolint:gosec // it is below Table.Priorities
		}
		args = append(args, priorities)
	}
	for column := range q.table.Extra {
		extra := texts(n)
		for i, j := range jobs {
			extra[i] = j.Extra[column]
		}
		args = append(args, extra)
	}
	return args, nil
}

func parse(into *uuid.UUID, id string) (err error) {
	if *into, err = uuid.Parse(id); err != nil {
		return fmt.Errorf("%w: an id is no UUID", ErrPayload) // the cause quotes it
	}
	return nil
}

func texts(n int) []string { return make([]string, n) }

// find marks in stored the jobs that had been stored before: those with the key of another.
func (q *Queue) find(ctx context.Context, db postgres.DB, jobs []New, stored []Enqueued) error {
	orgs, keys, payloads := texts(len(jobs)), texts(len(jobs)), texts(len(jobs))
	for i, j := range jobs {
		orgs[i], keys[i], payloads[i] = j.OrgID, j.Key, string(j.Payload)
	}
	rows, err := db.Query(ctx, q.sql.byKey, orgs, keys, payloads)
	if err != nil {
		return fmt.Errorf("find job: %w", err)
	}
	var n, found int
	var first Enqueued
	var same bool
	_, err = pgx.ForEachRow(rows, []any{&n, &first.ID, &first.CreatedAt, &same}, func() error {
		found++
		if first.ID != jobs[n-1].ID {
			stored[n-1] = Enqueued{ID: first.ID, CreatedAt: first.CreatedAt, Duplicate: true, mismatch: !same}
		}
		return nil
	})
	if err == nil && found < len(jobs) {
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
