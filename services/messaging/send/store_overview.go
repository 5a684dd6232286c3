package send

import (
	"context"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/edge"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

// sqlUndelivered reads an index that has no delivered message, of each minute and kind up to a limit.
const sqlUndelivered = `
select m.at, (select count(*) from (
        select from sms_messages s where s.org_id = @org and s.status in ('accepted', 'queued', 'sent')
          and s.accepted_at >= m.at and s.accepted_at < m.at + interval '1 minute' limit @each) n)::int as on_their_way,
    (select count(*) from (
        select from sms_messages s where s.org_id = @org and s.status in ('failed', 'undelivered')
          and s.accepted_at >= m.at and s.accepted_at < m.at + interval '1 minute' limit @each) n)::int as failed
from generate_series(@first::timestamptz, @last::timestamptz, interval '1 minute') m (at)
order by m.at`

// sqlSettledByMinute counts the newest messages up to a limit: their ids go with their age, and no index has the time of what is
// delivered. Of a minute before the oldest of them there may be more.
const sqlSettledByMinute = `
with newest as (
    select status, coalesce(accepted_at, attempted_at) as at from sms_messages where org_id = @org order by id desc limit @most
), seen as (select count(*) = @most as many, min(at) as since from newest)
select count(n) filter (where n.status = 'delivered')::int as delivered, count(n) filter (where n.status = 'rejected')::int as rejected,
    coalesce(seen.many and m.at <= seen.since, false) as more
from generate_series(@first::timestamptz, @last::timestamptz, interval '1 minute') m (at) cross join seen
left join newest n on date_bin('1 minute', n.at, @first) = m.at
group by m.at, seen.many, seen.since order by m.at`

// sqlInDoubtOf counts by an index what sqlInDoubt counts of all organisations; since when is that of the first that was asked for.
const sqlInDoubtOf = `
select (select count(*) from (
        select from sms_messages s
        where s.org_id = @org and s.status = u.status and s.` + sqlInTrouble + ` limit @most) n)::int,
    (select coalesce(s.attempted_at, s.created_at) from sms_messages s
     where s.org_id = @org and s.status = u.status and s.` + sqlInTrouble + ` order by s.id limit 1)
from (values (1, 'unknown'), (2, 'parked')) u (place, status)
order by u.place`

// sqlMissingOf counts what sqlMissing counts of all organisations: those for which one may still be looked for.
const sqlMissingOf = `
select count(*)::int from (
    select from sms_messages s where s.org_id = @org and s.status in ('accepted', 'queued', 'sent')
      and s.accepted_at > @from and s.accepted_at <= @until and s.next_look_at is not null limit @most) n`

// sqlRefusals counts, among the newest messages of each status of a refusal, those with a code that needs a person and after which nothing
// passed: was delivered, or was taken and not reported as lost in time.
const sqlRefusals = `
with refused as (
    select m.id, m.to_number, m.error_code, m.created_at, m.updated_at
    from unnest(array['throttled', 'rejected', 'failed', 'undelivered']) u (status)
    cross join lateral (
        select s.id, s.to_number, s.error_code, s.created_at, s.updated_at from sms_messages s
        where s.org_id = @org and s.status = u.status and s.` + sqlInTrouble + ` order by s.id desc limit @most) m
    where m.error_code = any (@codes::int[]) and m.to_number like '+%'
), passed as (
    select left(n.to_number, 2) as zone, max(n.accepted_at) as at
    from (select to_number, status, accepted_at from sms_messages where org_id = @org order by id desc limit @most) n
    where n.status = 'delivered' or n.status in ('accepted', 'queued', 'sent') and n.accepted_at <= @until
    group by left(n.to_number, 2)
)
select r.error_code as code, count(*)::int as messages, min(r.created_at) as since,
    (array_agg(r.id order by r.updated_at desc, r.id desc))[1] as newest
from refused r left join passed p on p.zone = left(r.to_number, 2)
where case when r.error_code = any (@of_account::int[]) then p.at is null or p.at <= r.updated_at
    else r.updated_at > @refused_since and not exists (
        select from sms_messages l where l.org_id = @org and l.to_number = r.to_number and l.direction = 'outbound'
          and l.attempted_at > r.updated_at
          and (l.status = 'delivered' or l.status in ('accepted', 'queued', 'sent') and l.accepted_at <= @until))
    end
group by r.error_code order by max(r.updated_at) desc, r.error_code`

// sqlByIndex, sent ahead in the same transaction, has what is rare read by its index, whatever the planner takes for hidden by policies.
const sqlByIndex = `select set_config('plan_cache_mode', 'force_custom_plan', true), set_config('enable_seqscan', 'off', true),
    set_config('enable_bitmapscan', 'off', true), set_config('jit', 'off', true)`

// Overview counts what an operator of an organisation sees first, each up to a limit.
func (s *Store) Overview(ctx context.Context, q OverviewQuery) (o Overview, err error) {
	defer edge.Mark(&err)
	from, until := q.LookedFor()
	last := q.Now.Truncate(time.Minute)
	args := postgres.Args{
		"org": q.OrgID, "most": q.Most, "each": q.MostOfAMinute, "first": last.Add(-time.Duration(q.Minutes-1) * time.Minute), "last": last,
		"from": from, "until": until, "refused_since": q.RefusedSince(),
	}
	args["codes"], args["of_account"] = twilio.NeedingPerson()
	var batch pgx.Batch
	batch.Queue(sqlByIndex)
	batch.Queue(sqlUndelivered, args).Query(func(rows pgx.Rows) (err error) {
		o.Undelivered, err = pgx.CollectRows(rows, pgx.RowToStructByName[UndeliveredMinute])
		return err
	})
	batch.Queue(sqlSettledByMinute, args).Query(func(rows pgx.Rows) (err error) {
		o.Settled, err = pgx.CollectRows(rows, pgx.RowToStructByName[SettledMinute])
		return err
	})
	batch.Queue(sqlInDoubtOf, args).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (d InDoubt, err error) {
			var since *time.Time
			err = row.Scan(&d.Count, &since)
			d.Since = edge.Value(since)
			return d, err
		})
		if err == nil {
			o.Unknown, o.Parked = found[0], found[1]
		}
		return err
	})
	batch.Queue(sqlMissingOf, args).QueryRow(func(row pgx.Row) error { return row.Scan(&o.Missing) })
	refusals := maps.Clone(args)
	refusals["most"] = q.MostRefused
	batch.Queue(sqlRefusals, refusals).Query(func(rows pgx.Rows) (err error) {
		o.Refusals, err = pgx.CollectRows(rows, pgx.RowToStructByName[Refusal])
		return err
	})
	err = s.pool.SendBatch(ctx, &batch).Close()
	return o, err
}

const sqlInDoubt = `
select status, count(*)::int as n, min(coalesce(attempted_at, created_at)) as since
from sms_messages where status in ('unknown', 'parked') group by status`

// sqlMissing reads only what is still looked at: sms_messages_due has no other rows.
const sqlMissing = `
select count(*)::int from sms_messages
where next_look_at is not null and status in ('accepted', 'queued', 'sent') and accepted_at <= @before`

// Gauges counts the messages that are in doubt, and those without a final status although Twilio took them so long ago, in all
// organisations that ctx may see.
func (s *Store) Gauges(ctx context.Context, now time.Time, overdue time.Duration) (gauges Gauges, err error) {
	defer edge.Mark(&err)
	gauges = Gauges{InDoubt: map[sms.Status]int{}, OldestInDoubt: map[sms.Status]time.Duration{}}
	rows, err := s.pool.Query(ctx, sqlInDoubt)
	if err != nil {
		return Gauges{}, err
	}
	var status string
	var n int
	var since time.Time
	_, err = pgx.ForEachRow(rows, []any{&status, &n, &since}, func() error {
		gauges.InDoubt[sms.Status(status)], gauges.OldestInDoubt[sms.Status(status)] = n, max(0, now.Sub(since))
		return nil
	})
	if err != nil {
		return Gauges{}, err
	}
	err = s.pool.QueryRow(ctx, sqlMissing, postgres.Args{"before": now.Add(-overdue)}).Scan(&gauges.Missing)
	return gauges, err
}
