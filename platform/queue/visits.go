package queue

// A claim visits organisations: in turn, beginning behind the one that was served last, so that each has its share. Which it visits, and
// what it knows of the rest, depends on the table.

// sqlInTurn goes from organisation to organisation by the index on what is pending. {while} may keep it from doing so.
const sqlInTurn = `
ahead as (
    (select t.org_id, 1 as n from {table} t
     where {while} t.status = 'pending' and t.org_id > $3::uuid and t.next_retry_at >= $5::timestamptz order by {by org} limit 1)
    union all
    select x.org_id, o.n + 1
    from ahead o cross join lateral (
        select t.org_id from {table} t
        where t.status = 'pending' and t.org_id > o.org_id and t.next_retry_at >= $5::timestamptz order by {by org} limit 1) x
    where o.n < $4::integer
),
behind as (
    (select t.org_id, 1 + (select count(*) from ahead)::integer as n from {table} t
     where {while} t.status = 'pending' and t.org_id <= $3::uuid and t.next_retry_at >= $5::timestamptz
       and (select count(*) from ahead) < $4::integer order by {by org} limit 1)
    union all
    select x.org_id, o.n + 1
    from behind o cross join lateral (
        select t.org_id from {table} t where t.status = 'pending' and t.org_id > o.org_id and t.org_id <= $3::uuid
          and t.next_retry_at >= $5::timestamptz order by {by org} limit 1) x
    where o.n < $4::integer
)`

// visits are the parts of the claim that differ.
type visits struct {
	visited, while, looked, last, drained, next string // of the claim
	asks, noneDue, nextOfLook                   string // of the look before it
	oldestDue                                   string // of the gauges
}

// plain returns those of a table of which most jobs are due: each organisation in turn.
func plain() visits {
	return visits{
		visited: sqlInTurn + `,
visited as materialized (select org_id, n from ahead union all select org_id, n from behind)`,
		looked: `(select count(*) from visited)`,
		last: `coalesce((select org_id from visited where n = (select max(n) from taken)),
            (select org_id from visited order by n desc limit 1))`,
		drained: `false`, next: `null::timestamptz`,
		asks: `size < 4`, noneDue: `not exists (select from {table} where status = 'pending' and next_retry_at <= $1::timestamptz)`,
		nextOfLook: `null::timestamptz`,
		oldestDue:  sqlOldestInTurn,
	}
}

// scheduled returns those of a table of which most jobs are due later: the organisations of the jobs that are due for longest, so that
// those with nothing due cost nothing. Where these jobs are more than a claim looks at there is a backlog. Then those who have their turn
// are visited first, as above, so that a backlog of some keeps no other waiting for longer than a round of all.
func scheduled() visits {
	return visits{
		visited: `
oldest as materialized (
    select t.org_id from {table} t
    where t.status = 'pending' and t.next_retry_at between $5::timestamptz and $2::timestamptz
    order by t.next_retry_at, t.org_id limit {oldest}
),` + sqlInTurn + `,
turns as materialized (select org_id, n from ahead union all select org_id, n from behind),
visited as materialized (
    select org_id, n from turns
    union all
    select o.org_id, ($4::integer + row_number() over (order by o.org_id <= $3::uuid, o.org_id))::integer
    from (select distinct org_id from oldest) o where o.org_id not in (select org_id from turns)
)`,
		while:  `(select count(*) from oldest) = {oldest} and`,
		looked: `(select count(*) from turns)`,
		// Of the turns, the last one that was looked at, or where the batch was full before, that was served.
		last: `(select org_id from visited
         where (n <= $4::integer or not exists (select from turns)) and n <= coalesce((
             select max(n) from taken having count(*) + (select count(*) from expired) >= $1::integer), 2147483647)
         order by n desc limit 1)`,
		drained: `((select count(*) from taken) = (select count(*) from oldest) and not exists (select from turns))`,
		next: `(select t.next_retry_at from {table} t where t.status = 'pending' and t.next_retry_at > $2::timestamptz
         order by t.next_retry_at, t.org_id limit 1)`,
		asks: `true`,
		noneDue: `not exists (select from (select t.next_retry_at from {table} t where t.status = 'pending'
        order by t.next_retry_at, t.org_id limit 1) t where t.next_retry_at <= $1::timestamptz)`,
		nextOfLook: `(select t.next_retry_at from {table} t where t.status = 'pending' order by t.next_retry_at, t.org_id limit 1)`,
		oldestDue: `oldest as (
    select t.next_retry_at as at from {table} t where t.status = 'pending' order by t.next_retry_at, t.org_id limit 1
)`,
	}
}

// sqlOldestInTurn finds the oldest due job by going from organisation to organisation.
const sqlOldestInTurn = `orgs as (
    (select t.org_id from {table} t where t.status = 'pending' order by {by org} limit 1)
    union all
    select x.org_id from orgs o cross join lateral (
        select t.org_id from {table} t where t.status = 'pending' and t.org_id > o.org_id order by {by org} limit 1) x
),
oldest as (
    select min(x.next_retry_at) as at
    from orgs o cross join {lanes} cross join lateral (
        select t.next_retry_at from {table} t where t.status = 'pending' and t.org_id = o.org_id{lane} order by t.next_retry_at limit 1) x
)`

// maxOldest bounds the jobs that a claim of a scheduled table looks at to find their organisations.
const maxOldest = 1024
