package send

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/hours"
	"paceline.internal/platform/phone"
	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/edge"
)

// The overview over a month must not read a month of messages, and a counter that each send writes would be a row that all sends of an
// organisation wait for. So a loop counts quarters of an hour from the indexes by time (sms_messages_with_words and _without_words), for
// all organisations at once, and the overview adds up what it left. A quarter is counted while it lasts, and again until its receipts are
// in; each count replaces the one before, so a repeat, another replica or a death in between changes nothing.

const (
	// countedFor is the time back to which quarters are counted: longer than any span of hours.Periods. After an upgrade the loop works back
	// through it without a rest.
	countedFor = 31 * 24 * time.Hour
	// countedAtOnce bounds the quarters of a pass, and so the messages that it reads: 16 times what Twilio takes in a quarter.
	countedAtOnce = 16
)

// recounts are the ages of a quarter at which it is counted once more: when it is over, and as long as Twilio is asked for a final status.
func recounts() []time.Duration {
	return []time.Duration{hours.Quarter, 2 * hours.Quarter, time.Hour, 6 * time.Hour, pollFor + 2*time.Hour}
}

const sqlCountLock = `select pg_try_advisory_xact_lock(hashtextextended('quarters', 0))`

// sqlQuartersDue has the present quarter, those that were never counted, and those that an age was reached of since; the newest first.
const sqlQuartersDue = `
select g.quarter from generate_series(@first::timestamptz, @present::timestamptz, interval '15 minutes') g (quarter)
left join sms_quarters_counted c on c.quarter = g.quarter
where g.quarter = @present or c.counted_at is null or exists (
    select from unnest(@recounts::interval[]) u (age) where c.counted_at < g.quarter + u.age and g.quarter + u.age <= @now)
order by g.quarter desc limit @most`

const sqlCounted = `org_id, direction, from_number, to_number, status, consent_effect, accepted_at, segments`

// sqlQuarters counts by the first digits of the other number, of which Go knows the country code.
const sqlQuarters = `
select m.org_id, q.quarter, left(case m.direction when 'inbound' then m.from_number else m.to_number end, 4) as country,
    count(*) filter (where m.status = 'delivered')::int as delivered,
    count(*) filter (where m.status in ('failed', 'undelivered', 'rejected', 'given_up', 'throttled'))::int as failed,
    count(*) filter (where m.status in ('sending', 'unknown', 'parked', 'accepted', 'queued', 'sent'))::int as under_way,
    count(*) filter (where m.direction = 'inbound')::int as replies,
    count(*) filter (where m.consent_effect = 'opt_out')::int as opt_outs,
    count(*) filter (where m.direction = 'outbound' and m.accepted_at is not null)::int as taken,
    coalesce(sum(m.segments) filter (where m.direction = 'outbound' and m.accepted_at is not null), 0)::int as segments
from unnest(@quarters::timestamptz[]) q (quarter) cross join lateral (
    select ` + sqlCounted + ` from sms_messages w
    where w.body <> '' and w.created_at >= q.quarter and w.created_at < q.quarter + interval '15 minutes'
    union all
    select ` + sqlCounted + ` from sms_messages o
    where o.body = '' and o.created_at >= q.quarter and o.created_at < q.quarter + interval '15 minutes'
) m
group by 1, 2, 3`

// sqlKeepQuarters replaces what was counted before. A row that stays as it was is not written.
//
//nolint:unqueryvet // u holds the parameters of the statement, it is no table
const sqlKeepQuarters = `
with counted as (
    select u.* from unnest(@org::uuid[], @quarter::timestamptz[], @country::text[], @delivered::int[], @failed::int[], @under_way::int[],
        @replies::int[], @opt_outs::int[], @taken::int[], @segments::int[])
        u (org_id, quarter, country, delivered, failed, under_way, replies, opt_outs, taken, segments)
), gone as (
    delete from sms_quarters k where k.quarter = any (@quarters::timestamptz[]) and not exists (
        select from counted c where c.org_id = k.org_id and c.quarter = k.quarter and c.country = k.country)
), noted as (
    insert into sms_quarters_counted (quarter, counted_at) select unnest(@quarters::timestamptz[]), @now
    on conflict (quarter) do update set counted_at = excluded.counted_at
)
insert into sms_quarters as k (org_id, quarter, country, delivered, failed, under_way, replies, opt_outs, taken, segments)
select org_id, quarter, country, delivered, failed, under_way, replies, opt_outs, taken, segments from counted
on conflict (org_id, quarter, country) do update set delivered = excluded.delivered, failed = excluded.failed,
    under_way = excluded.under_way, replies = excluded.replies, opt_outs = excluded.opt_outs, taken = excluded.taken,
    segments = excluded.segments
where (k.delivered, k.failed, k.under_way, k.replies, k.opt_outs, k.taken, k.segments)
    is distinct from (excluded.delivered, excluded.failed, excluded.under_way, excluded.replies, excluded.opt_outs, excluded.taken,
        excluded.segments)`

// counts has what messages of one time and one country came to.
type counts struct {
	Delivered, Failed, UnderWay, Replies, OptOuts, Taken, Segments int64
}

func (c *counts) add(o counts) {
	c.Delivered, c.Failed, c.UnderWay = c.Delivered+o.Delivered, c.Failed+o.Failed, c.UnderWay+o.UnderWay
	c.Replies, c.OptOuts, c.Taken, c.Segments = c.Replies+o.Replies, c.OptOuts+o.OptOuts, c.Taken+o.Taken, c.Segments+o.Segments
}

// place names a row of sms_quarters.
type place struct {
	OrgID   uuid.UUID
	Quarter time.Time
	Country string
}

type quarterRow struct {
	place
	counts
}

// CountQuarters counts quarters that are due at an instant, and reports whether there may be more. Another process that counts at the
// moment does it instead.
func (s *Store) CountQuarters(ctx context.Context, now time.Time) (more bool, err error) {
	defer edge.Mark(&err)
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		var ours bool
		if err := tx.QueryRow(ctx, sqlCountLock).Scan(&ours); err != nil || !ours {
			return err
		}
		if _, err := tx.Exec(ctx, postgres.PlanNow); err != nil {
			return err
		}
		present := now.Truncate(hours.Quarter)
		args := postgres.Args{
			"first": present.Add(-countedFor), "present": present, "now": now, "recounts": recounts(), "most": countedAtOnce,
		}
		rows, err := tx.Query(ctx, sqlQuartersDue, args)
		if err != nil {
			return err
		}
		due, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
		if err != nil {
			return err
		}
		args["quarters"], more = due, len(due) == countedAtOnce
		if rows, err = tx.Query(ctx, sqlQuarters, args); err != nil {
			return err
		}
		found, err := pgx.CollectRows(rows, pgx.RowToStructByName[quarterRow])
		if err != nil {
			return err
		}
		return edge.Exec(ctx, tx, sqlKeepQuarters, columnsOf(found, args))
	})
	return more && err == nil, err
}

// columnsOf adds up the rows of a country and adds them to args, a column each.
func columnsOf(found []quarterRow, args postgres.Args) postgres.Args {
	sums := map[place]*counts{}
	for _, r := range found {
		if r.Country = strings.TrimSpace(r.Country); strings.HasPrefix(r.Country, "+") {
			r.Country = "+" + phone.CountryCode(r.Country)
		} else {
			r.Country = ""
		}
		if sums[r.place] == nil {
			sums[r.place] = &counts{}
		}
		sums[r.place].add(r.counts)
	}
	var orgs []uuid.UUID
	var quarters []time.Time
	var countries []string
	var numbers [7][]int64
	for at, n := range sums {
		orgs, quarters, countries = append(orgs, at.OrgID), append(quarters, at.Quarter), append(countries, at.Country)
		for i, of := range []int64{n.Delivered, n.Failed, n.UnderWay, n.Replies, n.OptOuts, n.Taken, n.Segments} {
			numbers[i] = append(numbers[i], of)
		}
	}
	args["org"], args["quarter"], args["country"] = orgs, quarters, countries
	for i, name := range []string{"delivered", "failed", "under_way", "replies", "opt_outs", "taken", "segments"} {
		args[name] = numbers[i]
	}
	return args
}

// sqlTrend adds up the quarters of each period; a period without a row is not in it.
const sqlTrend = `
select width_bucket(q.quarter, @edges::timestamptz[]) as period, q.country, sum(q.delivered) as delivered, sum(q.failed) as failed,
    sum(q.under_way) as under_way, sum(q.replies) as replies, sum(q.opt_outs) as opt_outs, sum(q.taken) as taken,
    sum(q.segments) as segments
from sms_quarters q where q.org_id = @org and q.quarter >= @first and q.quarter < @last
group by 1, 2`

// sqlCountedUntil belongs to no organisation.
const sqlCountedUntil = `select counted_at from sms_quarters_counted order by quarter desc limit 1`

// Trend has the messages of an organisation by period and by country.
type Trend struct {
	CountedUntil time.Time           // zero if nothing was counted yet
	Periods      []counts            // between the edges
	ByCountry    []map[string]counts // the same
	Countries    map[string]counts   // of all periods
}

// Trend adds up what was counted between edges, which are whole quarters.
func (s *Store) Trend(ctx context.Context, orgID uuid.UUID, edges []time.Time) (trend Trend, err error) {
	defer edge.Mark(&err)
	trend = Trend{
		Periods: make([]counts, len(edges)-1), ByCountry: make([]map[string]counts, len(edges)-1), Countries: map[string]counts{},
	}
	rows, err := s.pool.Query(ctx, sqlTrend, postgres.Args{"org": orgID, "edges": edges, "first": edges[0], "last": edges[len(edges)-1]})
	if err != nil {
		return Trend{}, err
	}
	type periodRow struct {
		Period  int
		Country string
		counts
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[periodRow])
	if err != nil {
		return Trend{}, err
	}
	for _, r := range found {
		trend.Periods[r.Period-1].add(r.counts)
		if trend.ByCountry[r.Period-1] == nil {
			trend.ByCountry[r.Period-1] = map[string]counts{}
		}
		trend.ByCountry[r.Period-1][r.Country] = r.counts
		country := trend.Countries[r.Country]
		country.add(r.counts)
		trend.Countries[r.Country] = country
	}
	rows, err = s.pool.Query(postgres.AcrossOrganisations(ctx), sqlCountedUntil)
	if err != nil {
		return Trend{}, err
	}
	until, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
	if len(until) > 0 {
		trend.CountedUntil = until[0]
	}
	return trend, err
}
