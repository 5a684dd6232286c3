package queue

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
)

// Claim selects the jobs to claim.
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
	// Except names organisations that have no turn now: they get no share. Their jobs with an expired lease are claimed all the same.
	Except []string
	// Room bounds the jobs that are claimed by their group, of a table with Table.Group; those of a group with no room are passed over.
	// OtherRoom is that of the groups that Room does not name; 0 bounds nothing.
	Room      map[string]int
	OtherRoom int
}

// Claimed is the result of a claim.
type Claimed struct {
	Jobs []Job  // in the order in which they were due
	Last string // the organisation that was served last
	// More is set when another claim, after Last, may find something: there are organisations that were not looked at, or a job had to
	// be released.
	More bool
	// Snoozed counts the jobs that were in the way of others: they wait behind one of their subject, and are due again when it ends.
	Snoozed int
	// Drained is set when nothing else was due, and Next is the time of the next job, or zero: both are only known of a Table that is
	// Scheduled, or when there was nothing to claim.
	Drained bool
	Next    time.Time
	// Floor is the point that the claim reached, in each organisation that it claimed from; zero when it claimed nothing that was due.
	Floor time.Time
}

// head is the oldest open job of the subject that {head of} belongs to: the first that the index on what is open by subject has from
// there on. It is ordered by two columns of that index, and not told that the subject is the same, so that neither the
// primary key nor an organisation's whole history looks like a way to the first id, whatever the statistics say.
const head = `(select f.id from {table} f
            where f.org_id = {head of}.org_id and (f.subject, f.id) >= ({head of}.subject, '00000000-0000-0000-0000-000000000000'::uuid)
              and f.subject <= {head of}.subject and f.subject <> '' and f.status in ('pending', 'processing')
            order by f.subject, f.id limit 1)`

// overtaken is true where a newer job of the subject of t is being done. It is ordered as only the index on what is processing by subject
// is.
const overtaken = `exists (select 1 from (
            select r.id from {table} r
            where (r.subject, r.org_id, r.id) > (t.subject, t.org_id, t.id) and (r.subject, r.org_id) <= (t.subject, t.org_id)
              and r.subject <> '' and r.status = 'processing' and r.lease_until > {now}
            order by r.subject, r.org_id, r.id limit 1) r)`

// free is a job that may be begun as far as its subject goes: no other one of it comes first, neither an older one that is
// open, nor a newer one that has begun already. Both are looked up without walking through the subject, which may have any
// number of open jobs.
const free = `(t.subject = '' or t.id = {head of t} and not {overtaken})`

// maxOrganisations bounds the organisations that one claim looks at.
const maxOrganisations = 128

// maxBehind bounds the jobs behind others of their subjects that one claim looks past.
const maxBehind = 256

// sqlDue computes each visited organisation's equal share of the batch, and the number of jobs that are looked at for it. A share that is
// not used up leaves the batch smaller; the next claim is cheap. Each look is ordered by all columns of the index on what is pending, so
// that no other one serves it.
const sqlDue = `
with recursive {visited},
due as materialized (
    select v.org_id, v.n from visited v
    where v.org_id <> all($8::uuid[]) and exists (
        select 1 from {lanes} cross join lateral (
            select 1 from {table} t
            where t.status = 'pending' and t.org_id = v.org_id{lane}
              and t.next_retry_at between $5::timestamptz and $2::timestamptz order by t.next_retry_at, t.id limit 1) x)
),
share as materialized (
    select x.size, 2 * x.size + greatest(16, {max behind} / greatest(x.orgs, 1))::integer as reach
    from (
        select greatest(1, ceil($1::integer / greatest(count(*), 1)::numeric))::integer as size, count(*) as orgs from due) x
),`

// sqlClaim claims jobs with an expired lease, and then each organisation's share of what is due, from as many as are within
// reach: of a subject with any number of open jobs only the first may begin, and the others must not be walked through each time.
// The organisations that had less than their share within reach are named for sqlSnoozeBehind.
//
// Every lock is taken with "skip locked": claims never wait for each other. The ids go into the update as an array,
// because a generic plan thinks of it as short and looks every one up.
const sqlClaim = sqlDue + `
reached as materialized (
    select d.org_id, d.n, p.priority, h.id is not null as more,
        coalesce(h.next_retry_at, $2::timestamptz) as until, coalesce(h.id, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid) as id
    from due d cross join {lanes} left join lateral (
        select t.next_retry_at, t.id from {table} t
        where (select true from {table} f -- where no job has a subject, nothing stands in the way
               where f.org_id = d.org_id and f.subject > '' and f.subject <> '' and f.status in ('pending', 'processing')
               order by f.subject, f.id limit 1)
          and t.status = 'pending' and t.org_id = d.org_id{lane} and t.next_retry_at between $5::timestamptz and $2::timestamptz{roomy $9}
        order by t.next_retry_at, t.id offset (select reach from share) limit 1) h on true
),
expired as materialized (
    select t.id from {table} t
    where t.status = 'processing' and t.lease_until <= $2::timestamptz and {free}
    order by t.lease_until limit $1::integer
    for update skip locked
),
taken as materialized (
    select x.id, x.n, x.due_at, x.in_group, row_number() over () as place
    from (
        select c.id, c.due_at, c.in_group, d.n
        from (select org_id, n from due order by n) d cross join lateral (
            select l.id, l.due_at, l.in_group from (select * from reached r where r.n = d.n order by r.priority) p cross join lateral (
                select t.id, t.next_retry_at as due_at, {group} as in_group from {table} t
                where t.status = 'pending' and t.org_id = d.org_id{lane}
                  and t.next_retry_at between $5::timestamptz and $2::timestamptz and (t.next_retry_at, t.id) <= (p.until, p.id){roomy $9}
                  and {free}
                order by t.next_retry_at, t.id
                limit (select size from share)
                for update skip locked) l
            limit (select size from share)) c
        limit $1::integer - (select count(*) from expired)) x
),
claimed as (
    update {table} j
    set status = 'processing', lease_token = $6::uuid, lease_until = $7::timestamptz, next_retry_at = null, updated_at = $2::timestamptz,
        lost_leases = j.lost_leases + case when j.status = 'processing' then 1 else 0 end
    where j.id = any(array(select id from expired union all select id from {taken within room}))
    returning j.id, j.org_id, j.event_type, j.subject, j.payload, j.attempts, j.max_attempts, j.lost_leases, j.created_at
)
select v.looked, v.last::text, v.drained, v.next, v.reach, v.short, v.until, c.id::text, c.org_id::text, c.event_type, c.subject, c.payload,
    c.attempts, c.max_attempts, c.lost_leases, c.created_at, taken.due_at
from (
    select {looked}::integer as looked,
        {last} as last, {drained} as drained, {next} as next,
        (select reach from share) as reach,
        short.orgs as short, short.until
    from (
        select array_agg(r.org_id::text) as orgs, array_agg(r.until) as until
        from (select x.org_id, x.n, min(x.until) as until from reached x where x.more group by x.org_id, x.n) r
        where (select count(*) from taken x where x.n = r.n) < (select size from share)
          and (select count(*) from taken) + (select count(*) from expired) < $1::integer) short
) v
left join (claimed c left join taken on taken.id = c.id) on true
order by taken.place nulls first, c.id`

// sqlWithinRoom are those of the taken that their groups have room for. The others stay pending, and locked until the claim ends.
const sqlWithinRoom = `(
        select k.id from (select id, in_group, row_number() over (partition by in_group order by place) as nth from taken) k
        left join unnest($10::text[], $11::integer[]) r (in_group, room) on r.in_group = k.in_group
        where k.nth <= coalesce(r.room, $12::integer)) w`

// sqlClaimOne claims jobs by their ids, each of them for another caller.
const sqlClaimOne = `
with mine as (
    select t.id, u.n, u.token, u.lease, u.now
    from unnest(@id::uuid[], @token::uuid[], @lease::timestamptz[], @now::timestamptz[]) with ordinality u (id, token, lease, now, n)
    join {table} t on t.id = u.id
    where t.id = any(@id::uuid[]) and (t.status || '' = 'pending' or t.status || '' = 'processing' and t.lease_until <= u.now)
      and {free at u.now}
    for update of t skip locked
)
update {table} j
set status = 'processing', lease_token = m.token, lease_until = m.lease, next_retry_at = null, updated_at = m.now,
    lost_leases = j.lost_leases + case when j.status = 'processing' then 1 else 0 end
from mine m where j.id = m.id and j.id = any(@id::uuid[])
returning m.n, j.id::text, j.org_id::text, j.event_type, j.subject, j.payload, j.attempts, j.max_attempts, j.lost_leases, j.created_at`

// sizes is the number of sizes of its table that a claim is planned for. While a table is small all indexes look alike: a plan that is kept
// from then would go through one of them row by row once there are many. So each size, which is four times the one before, has its own
// plan, and the last one is for all above 4 MB. To plan a claim anew takes 2.5 ms, and is most of what a small queue costs.
const sizes = 5

// sqlLook selects which of the sizes the table has, and whether a claim would find nothing in one that is small. A large one is not asked
// that, for this look may walk through all that is pending, unless the table has an index by time.
const sqlLook = `
select size, case when {asks} then
    {none due} and not exists (select from {table} where status = 'processing' and lease_until <= $1::timestamptz)
else false end, {next of look}
from (select width_bucket(pg_relation_size('{table}'::regclass), '{65536, 262144, 1048576, 4194304}'::bigint[]) as size) s`

// Claim claims at most Limit free jobs that are due, or the one that ID names if it is free.
func (q *Queue) Claim(ctx context.Context, c Claim) (Claimed, error) {
	token, err := uuid.NewRandom()
	if err != nil {
		return Claimed{}, fmt.Errorf("lease token: %w", err)
	}
	// The subjects of jobs are compared by an index, which Postgres refuses where a row-level policy chooses the rows.
	ctx = postgres.AcrossOrganisations(ctx)
	var claimed Claimed
	var seen seen
	if c.ID != "" {
		claimed.Jobs, seen, err = q.claimOne(ctx, c, token.String())
	} else {
		claimed, seen, err = q.claimDue(ctx, c, token.String())
	}
	if err == nil && len(seen.ids) > 0 {
		err = q.release(ctx, c, token.String(), seen, &claimed)
	}
	if err != nil {
		return Claimed{}, fmt.Errorf("claim: %w", err)
	}
	if len(seen.short) > 0 {
		// What is claimed is claimed, whatever happens to this; the next claim asks for it again.
		claimed.More = true
		claimed.Snoozed, _ = q.snoozeBehind(ctx, c, seen)
	}
	return claimed, nil
}

// claimOne claims the job that is named, in a transaction that may be shared with other claims, which are all of other jobs.
func (q *Queue) claimOne(ctx context.Context, c Claim, token string) (jobs []Job, s seen, err error) {
	j := Job{LeaseToken: token}
	var found int
	err = q.hot.Do(ctx, "", postgres.Statement{
		SQL: q.sql.claimOne, Args: postgres.Args{"id": c.ID, "token": token, "lease": c.Until, "now": c.Now}, Rows: &found,
		Read: func(row pgx.CollectableRow) error {
			return row.Scan(&j.ID, &j.OrgID, &j.EventType, &j.Subject, &j.Payload, &j.Attempts, &j.MaxAttempts, &j.Lost, &j.CreatedAt)
		},
	})
	if err != nil || found == 0 {
		return nil, seen{}, err
	}
	if j.Subject != "" {
		s.ids, s.due = []string{j.ID}, []time.Time{c.Now}
	}
	return []Job{j}, s, nil
}

// claimDue claims what is due.
func (q *Queue) claimDue(ctx context.Context, c Claim, token string) (claimed Claimed, s seen, err error) {
	after := c.After
	if after == "" {
		after = uuid.Nil.String()
	}
	var size int
	var idle bool
	var next *time.Time
	if err := q.pool.QueryRow(ctx, q.sql.look, c.Now).Scan(&size, &idle, &next); err != nil || idle {
		return Claimed{Last: c.After, Drained: true, Next: timeOf(next)}, seen{}, err
	}
	args := []any{c.Limit, c.Now, after, maxOrganisations, c.From, token, c.Until, append([]string{}, c.Except...)}
	if q.table.Group != "" {
		groups, rooms := c.rooms()
		args = append(args, c.full(), groups, rooms, cmp.Or(c.OtherRoom, c.Limit))
	}
	err = q.byIndex(ctx, q.pool, func(rows pgx.Rows) (err error) {
		claimed, s, err = readClaimed(rows, token, c.Now)
		s.size = size
		return err
	}, q.sql.claim[size], args...)
	if len(c.Except) > 0 || len(c.Room) > 0 || c.OtherRoom > 0 {
		claimed.Floor = time.Time{} // nothing is known of what these have
	}
	claimed.Drained = claimed.Drained && c.From.IsZero()
	claimed.Last = cmp.Or(claimed.Last, c.After)
	return claimed, s, err
}

// full returns the groups that have no room.
func (c Claim) full() []string {
	groups := []string{}
	for group, room := range c.Room {
		if room <= 0 {
			groups = append(groups, group)
		}
	}
	return groups
}

// rooms returns the groups that Room names, and the room of each.
func (c Claim) rooms() (groups []string, rooms []int32) {
	groups, rooms = []string{}, []int32{}
	for group, room := range c.Room {
		groups, rooms = append(groups, group), append(rooms, int32(room)) //nolint:gosec // never more than a process has workers
	}
	return groups, rooms
}

// seen holds what a claim found besides the jobs: the ids of those that have a subject and when they were due; the organisations that had
// less than their share within reach, until when that goes, and how many jobs it is.
type seen struct {
	ids   []string
	due   []time.Time
	short []string
	until []time.Time
	reach int
	size  int // of the table
}

// readClaimed reads the answer by hand: at tens of thousands of jobs a second it is worth it.
func readClaimed(rows pgx.Rows, token string, now time.Time) (claimed Claimed, s seen, err error) {
	defer rows.Close()
	reached := map[string]time.Time{} // by organisation
	for rows.Next() {
		var looked int
		var next *time.Time
		var last, id, orgID, eventType, subject *string
		var payload []byte
		var attempts, maxAttempts, lost *int32
		var created, due *time.Time
		if err := rows.Scan(
			&looked, &last, &claimed.Drained, &next, &s.reach, &s.short, &s.until, &id, &orgID, &eventType, &subject, &payload, &attempts,
			&maxAttempts, &lost, &created, &due,
		); err != nil {
			return claimed, s, err
		}
		claimed.More, claimed.Next = looked >= maxOrganisations, timeOf(next)
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
			s.ids, s.due = append(s.ids, *id), append(s.due, orNow(due, now))
		}
		claimed.Jobs = append(claimed.Jobs, Job{
			ID: *id, OrgID: *orgID, EventType: *eventType, Subject: *subject, Payload: payload, Attempts: int(*attempts),
			MaxAttempts: int(*maxAttempts), Lost: int(*lost), CreatedAt: *created, DueAt: timeOf(due), LeaseToken: token,
		})
	}
	for i, orgID := range s.short {
		reached[orgID] = s.until[i]
	}
	claimed.Floor = earliest(reached)
	return claimed, s, rows.Err()
}

func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// orNow returns the time when a job was due, or now for one that was claimed by its id or after its lease expired.
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
