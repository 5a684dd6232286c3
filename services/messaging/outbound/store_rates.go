package outbound

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/edge"
)

// sqlTake is the whole decision to send now in one statement: a second caller waits for the row, and reads it again.
const sqlTake = `
insert into sender_rates as r (sender, arrival) values (@sender, @at::timestamptz + @cost::interval)
on conflict (sender) do update set arrival = greatest(r.arrival, @at) + @cost::interval
where r.arrival <= @at::timestamptz + @slack::interval
returning true`

const sqlArrival = `select arrival from sender_rates where sender = @sender`

// Reserve moves the sender's arrival on by cost if it is no further ahead of now than slack, or says how long until it will be.
func (o *Store) Reserve(ctx context.Context, from string, cost, slack time.Duration, now time.Time) (wait time.Duration, err error) {
	defer edge.Mark(&err)
	args := postgres.Args{"sender": from, "at": now, "cost": cost, "slack": slack}
	var taken bool
	if err := o.pool.QueryRow(ctx, sqlTake, args).Scan(&taken); err == nil || !errors.Is(err, pgx.ErrNoRows) {
		return 0, err
	}
	var arrival time.Time
	if err := o.pool.QueryRow(ctx, sqlArrival, args).Scan(&arrival); err != nil {
		return 0, err
	}
	return max(arrival.Add(-slack).Sub(now), time.Millisecond), nil
}

const sqlCharge = `
insert into sender_rates as r (sender, arrival) values (@sender, @at::timestamptz + least(@cost::interval, @limit::interval))
on conflict (sender) do update
set arrival = greatest(r.arrival, least(greatest(r.arrival, @at) + @cost::interval, @at::timestamptz + @limit::interval))`

// Charge moves the sender's arrival on whatever it is, but not beyond limit ahead of now.
func (o *Store) Charge(ctx context.Context, from string, cost, limit time.Duration, now time.Time) (err error) {
	defer edge.Mark(&err)
	_, err = o.pool.Exec(ctx, sqlCharge, postgres.Args{"sender": from, "at": now, "cost": cost, "limit": limit})
	return err
}

// CancelReservation moves the sender's arrival back by what was taken for a message that was not sent.
func (o *Store) CancelReservation(ctx context.Context, from string, cost time.Duration) (err error) {
	defer edge.Mark(&err)
	_, err = o.pool.Exec(ctx, `update sender_rates set arrival = arrival - @cost::interval where sender = @sender`,
		postgres.Args{"sender": from, "cost": cost})
	return err
}

// maxOrganisations bounds the organisations that are looked at before a claim. The next look begins behind them.
const maxOrganisations = 128

// sqlPressure counts what is due in each organisation with pending messages, in a circle from the one behind @after on. It looks at no more
// than it counts, and goes from organisation to organisation by the index on what is pending.
const sqlPressure = `
with recursive
ahead as (
	(select j.org_id, 1 as n from sms_outbound_jobs j where j.status = 'pending' and j.org_id > @after
		order by j.org_id, j.priority, j.next_retry_at limit 1)
	union all
	select x.org_id, o.n + 1 from ahead o cross join lateral (
		select j.org_id from sms_outbound_jobs j where j.status = 'pending' and j.org_id > o.org_id
		order by j.org_id, j.priority, j.next_retry_at limit 1) x
	where o.n < @most::integer
), behind as (
	(select j.org_id, 1 + (select count(*) from ahead)::integer as n from sms_outbound_jobs j
		where j.status = 'pending' and j.org_id <= @after and (select count(*) from ahead) < @most::integer
		order by j.org_id, j.priority, j.next_retry_at limit 1)
	union all
	select x.org_id, o.n + 1 from behind o cross join lateral (
		select j.org_id from sms_outbound_jobs j where j.status = 'pending' and j.org_id > o.org_id and j.org_id <= @after
		order by j.org_id, j.priority, j.next_retry_at limit 1) x
	where o.n < @most::integer
)
select v.org_id,
	(select count(*) from (
		select 1 from sms_outbound_jobs where org_id = v.org_id and status = 'pending' and priority = 0 and next_retry_at <= @at
		limit @limit::integer) x),
	(select count(*) from (
		select 1 from generate_series(1, @lanes::integer - 1) p (priority) cross join lateral (
			select 1 from sms_outbound_jobs j
			where j.org_id = v.org_id and j.status = 'pending' and j.priority = p.priority and j.next_retry_at <= @at
			limit @limit::integer) y
		limit @limit::integer) x)
from (select org_id, n from ahead union all select org_id, n from behind) v order by v.n`

// Due counts what is due in one organisation, up to a limit of each kind.
type Due struct {
	OrgID          uuid.UUID
	Urgent, Others int
}

// Due returns what is due in the organisations that have pending messages, at most maxOrganisations of them from behind one on.
func (o *Store) Due(ctx context.Context, after uuid.UUID, limit int, now time.Time) (due []Due, err error) {
	defer edge.Mark(&err)
	return edge.Collect(postgres.AcrossOrganisations(ctx), o.pool, sqlPressure, postgres.Args{
		"after": after, "most": maxOrganisations, "limit": limit, "at": now, "lanes": Priorities,
	}, pgx.RowToStructByPos[Due])
}

// Ahead returns how far ahead of now the senders are that have sent anything.
func (o *Store) Ahead(ctx context.Context, from []string, now time.Time) (ahead map[string]time.Duration, err error) {
	defer edge.Mark(&err)
	rows, err := o.pool.Query(ctx, `select sender, arrival from sender_rates where sender = any(@senders::text[])`,
		postgres.Args{"senders": from})
	if err != nil {
		return nil, err
	}
	ahead = map[string]time.Duration{}
	var sender string
	var arrival time.Time
	_, err = pgx.ForEachRow(rows, []any{&sender, &arrival}, func() error {
		ahead[sender] = arrival.Sub(now)
		return nil
	})
	return ahead, err
}

const sqlNext = `
select min(x.next_retry_at)
from unnest(@orgs::uuid[]) o (org_id) cross join generate_series(0, @lanes::integer - 1) p (priority) cross join lateral (
	select j.next_retry_at from sms_outbound_jobs j
	where j.org_id = o.org_id and j.status = 'pending' and j.priority = p.priority and j.next_retry_at > @then
	order by j.next_retry_at limit 1) x`

// Next returns when the first message of these organisations falls due that was not due by then; zero when there is none.
func (o *Store) Next(ctx context.Context, orgs []uuid.UUID, then time.Time) (at time.Time, err error) {
	defer edge.Mark(&err)
	var next *time.Time
	err = o.pool.QueryRow(ctx, sqlNext, postgres.Args{"orgs": orgs, "then": then, "lanes": Priorities}).Scan(&next)
	return edge.Value(next), err
}
