package worker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Claim says which jobs to claim.
type Claim struct {
	// ID is the one job to claim, due or not; empty claims what is due.
	ID    string
	Limit int
	Now   time.Time
	Until time.Time // when the lease ends
	// After is the organisation that was served last: the next share begins behind it. Empty begins anywhere.
	After string
	// From leaves out what became due earlier: while a backlog is worked off, it is known to be gone, and looking at it again costs time
	// as long as an old transaction keeps Postgres from clearing it away. Zero leaves out nothing.
	From time.Time
}

// Claimed is what was claimed.
type Claimed struct {
	Jobs []Job  // in the order in which they were due
	Last string // the organisation that was served last
	// More is set when another claim, after Last, may find something: there are organisations that were not looked at, or a job had to
	// be given back.
	More bool
	// Floor is how far the claim came, in each organisation that it claimed from; zero when it claimed nothing that was due.
	Floor time.Time
}

// free is a job that may be begun as far as its subject goes: no other one of it comes first, neither an older one that is
// open, nor a newer one that somebody has begun already.
const free = `(t.subject = '' or not exists (
            select 1 from {table} f
            where f.org_id = t.org_id and f.subject = t.subject and f.subject <> '' and f.status in ('pending', 'processing')
              and (f.id < t.id or f.id > t.id and f.status = 'processing' and f.lease_until > $2)))`

// maxOrganisations is how many organisations one claim looks at.
const maxOrganisations = 128

// sqlDue goes from organisation to organisation by the index on what is pending, beginning behind the one that was served last,
// and says what each one's equal share of the batch is. A share that is not used up leaves the batch smaller; the next claim is cheap.
const sqlDue = `
with recursive
ahead as (
    (select t.org_id, 1 as n from {table} t
     where t.status = 'pending' and t.org_id > $3::uuid and t.next_retry_at >= $5::timestamptz order by t.org_id limit 1)
    union all
    select x.org_id, o.n + 1
    from ahead o cross join lateral (
        select t.org_id from {table} t
        where t.status = 'pending' and t.org_id > o.org_id and t.next_retry_at >= $5::timestamptz order by t.org_id limit 1) x
    where o.n < $4::integer
),
behind as (
    (select t.org_id, 1 + (select count(*) from ahead)::integer as n from {table} t
     where t.status = 'pending' and t.org_id <= $3::uuid and t.next_retry_at >= $5::timestamptz
       and (select count(*) from ahead) < $4::integer order by t.org_id limit 1)
    union all
    select x.org_id, o.n + 1
    from behind o cross join lateral (
        select t.org_id from {table} t where t.status = 'pending' and t.org_id > o.org_id and t.org_id <= $3::uuid
          and t.next_retry_at >= $5::timestamptz order by t.org_id limit 1) x
    where o.n < $4::integer
),
visited as materialized (select org_id, n from ahead union all select org_id, n from behind),
due as materialized (
    select v.org_id, v.n from visited v
    where exists (
        select 1 from {lanes} cross join lateral (
            select 1 from {table} t
            where t.status = 'pending' and t.org_id = v.org_id{lane}
              and t.next_retry_at between $5::timestamptz and $2::timestamptz limit 1) x)
),
share as materialized (select greatest(1, ceil($1::integer / greatest(count(*), 1)::numeric))::integer as size from due),`

// sqlClaim takes over jobs whose lease has run out, and then each organisation's share of what is due.
//
// Everything that may be locked is locked by "skip locked": claims never wait for each other. The ids go into the update as an array,
// because a generic plan thinks of it as short and looks every one up.
const sqlClaim = sqlDue + `
taken_over as materialized (
    select t.id from {table} t
    where t.status = 'processing' and t.lease_until <= $2::timestamptz and {free}
    order by t.lease_until limit $1::integer
    for update skip locked
),
taken as materialized (
    select x.id, x.n, x.due_at, row_number() over () as place
    from (
        select c.id, c.due_at, d.n
        from (select org_id, n from due order by n) d cross join lateral (
            select l.id, l.due_at from {lanes} cross join lateral (
                select t.id, t.next_retry_at as due_at from {table} t
                where t.status = 'pending' and t.org_id = d.org_id{lane}
                  and t.next_retry_at between $5::timestamptz and $2::timestamptz and {free}
                order by t.next_retry_at, t.id
                limit (select size from share)
                for update skip locked) l
            limit (select size from share)) c
        limit $1::integer - (select count(*) from taken_over)) x
),
claimed as (
    update {table} j
    set status = 'processing', lease_token = $6::uuid, lease_until = $7::timestamptz, next_retry_at = null, updated_at = $2::timestamptz,
        lost_leases = j.lost_leases + case when j.status = 'processing' then 1 else 0 end
    where j.id = any(array(select id from taken_over union all select id from taken))
    returning j.id, j.org_id, j.event_type, j.subject, j.payload, j.attempts, j.max_attempts, j.lost_leases, j.created_at
)
select v.looked, v.last::text, c.id::text, c.org_id::text, c.event_type, c.subject, c.payload,
    c.attempts, c.max_attempts, c.lost_leases, c.created_at, taken.due_at
from (
    select (select count(*) from visited)::integer as looked,
        coalesce((select org_id from visited where n = (select max(n) from taken)),
            (select org_id from visited order by n desc limit 1)) as last
) v
left join (claimed c left join taken on taken.id = c.id) on true
order by taken.place nulls first, c.id`

const sqlClaimOne = `
update {table} j
set status = 'processing', lease_token = $3::uuid, lease_until = $4::timestamptz, next_retry_at = null, updated_at = $2::timestamptz,
    lost_leases = j.lost_leases + case when j.status = 'processing' then 1 else 0 end
where j.id = any(array(
    select t.id from {table} t
    where t.id = $1::uuid and (t.status = 'pending' or t.status = 'processing' and t.lease_until <= $2::timestamptz) and {free}
    for update skip locked))
returning 1, null::text, j.id::text, j.org_id::text, j.event_type, j.subject, j.payload,
    j.attempts, j.max_attempts, j.lost_leases, j.created_at, null::timestamptz`

// sqlYield gives back what turned out, after the claim was committed, not to be free. A claim cannot see one of the same subject that
// is committed at the same time, of a job that was stored late although its id is older. But of two that are committed, at least one
// finds the other when it looks again after its own commit; so they never both go on, and nothing has to be locked for it. If
// both yield, the older one is free next.
const sqlYield = `
update {table} t
set status = 'pending', lease_token = null, lease_until = null, next_retry_at = c.due_at, updated_at = $2::timestamptz
from unnest($1::uuid[], $4::timestamptz[]) c (id, due_at)
where t.id = c.id and t.status = 'processing' and t.lease_token = $3::uuid and not {free}
returning t.id::text`

// sqlByIndex, sent ahead in the same transaction, keeps the planner from reading the whole table because it was empty when somebody
// last looked, and from planning the same statement again and again: the plan is kept for as long as the connection is.
const sqlByIndex = `select set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
    set_config('plan_cache_mode', 'force_generic_plan', true)`

// Claim claims at most Limit free jobs that are due, or the one that ID names if it is free.
func (q *Queue) Claim(ctx context.Context, c Claim) (Claimed, error) {
	token, err := uuid.NewRandom()
	if err != nil {
		return Claimed{}, fmt.Errorf("lease token: %w", err)
	}
	var batch pgx.Batch
	batch.Queue(sqlByIndex)
	if c.ID != "" {
		batch.Queue(q.sql.claimOne, c.ID, c.Now, token.String(), c.Until)
	} else {
		after := c.After
		if after == "" {
			after = uuid.Nil.String()
		}
		batch.Queue(q.sql.claim, c.Limit, c.Now, after, maxOrganisations, c.From, token.String(), c.Until)
	}
	results := q.pool.SendBatch(ctx, &batch)
	claimed, ordered, err := readClaimed(results, token.String(), c.Now)
	if closing := results.Close(); err == nil {
		err = closing
	}
	if err == nil && len(ordered.ids) > 0 {
		err = q.yield(ctx, c, token.String(), ordered, &claimed)
	}
	if err != nil {
		return Claimed{}, fmt.Errorf("claim: %w", err)
	}
	return claimed, nil
}

// ordered are the claimed jobs that have a subject, and when they were due.
type ordered struct {
	ids []string
	due []time.Time
}

// yield gives back, and takes from the claimed, what another claim of its subject has come in the way of. It goes on when
// the caller ends, so that what is claimed is released by the runner instead of waiting for its lease.
func (q *Queue) yield(ctx context.Context, c Claim, token string, o ordered, claimed *Claimed) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.Until.Sub(c.Now)/4)
	defer cancel()
	var batch pgx.Batch
	batch.Queue(sqlByIndex)
	batch.Queue(q.sql.yield, o.ids, c.Now, token, o.due)
	results := q.pool.SendBatch(ctx, &batch)
	yielded := map[string]struct{}{}
	_, err := results.Exec()
	if err == nil {
		rows, asking := results.Query()
		err = collect(rows, asking, yielded)
	}
	if closing := results.Close(); err == nil {
		err = closing
	}
	if err != nil || len(yielded) == 0 {
		return err
	}
	claimed.More = true
	claimed.Jobs = slices.DeleteFunc(claimed.Jobs, func(j Job) bool { _, gone := yielded[j.ID]; return gone })
	return nil
}

// readClaimed reads the answer by hand: at tens of thousands of jobs a second it is worth it.
func readClaimed(results pgx.BatchResults, token string, now time.Time) (claimed Claimed, o ordered, err error) {
	if _, err := results.Exec(); err != nil {
		return claimed, o, err
	}
	rows, err := results.Query()
	if err != nil {
		return claimed, o, err
	}
	defer rows.Close()
	reached := map[string]time.Time{} // by organisation
	for rows.Next() {
		var looked int
		var last, id, orgID, eventType, subject *string
		var payload []byte
		var attempts, maxAttempts, lost *int32
		var created, due *time.Time
		if err := rows.Scan(
			&looked, &last, &id, &orgID, &eventType, &subject, &payload, &attempts, &maxAttempts, &lost, &created, &due,
		); err != nil {
			return claimed, o, err
		}
		claimed.More = looked >= maxOrganisations
		if last != nil {
			claimed.Last = *last
		}
		if id == nil { // nothing was claimed; the row only tells how far the claim looked
			continue
		}
		if due != nil && due.After(reached[*orgID]) {
			reached[*orgID] = *due
		}
		if *subject != "" {
			o.ids, o.due = append(o.ids, *id), append(o.due, orNow(due, now))
		}
		claimed.Jobs = append(claimed.Jobs, Job{
			ID: *id, OrgID: *orgID, EventType: *eventType, Subject: *subject, Payload: payload, Attempts: int(*attempts),
			MaxAttempts: int(*maxAttempts), Lost: int(*lost), CreatedAt: *created, LeaseToken: token,
		})
	}
	claimed.Floor = earliest(reached)
	return claimed, o, rows.Err()
}

// orNow is when a job was due, or now for one that was asked for by its id or taken over.
func orNow(due *time.Time, now time.Time) time.Time {
	if due == nil {
		return now
	}
	return *due
}

func earliest(times map[string]time.Time) time.Time {
	var first time.Time
	for _, t := range times {
		if first.IsZero() || t.Before(first) {
			first = t
		}
	}
	return first
}
