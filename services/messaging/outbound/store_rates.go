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

// sqlPressure looks at no more than it counts.
const sqlPressure = `
select (select arrival from sender_rates where sender = @sender),
	(select count(*) from (
		select 1 from sms_outbound_jobs where org_id = @org and status = 'pending' and priority = 0 and next_retry_at <= @at
		limit @limit::integer) x),
	(select count(*) from (
		select 1 from generate_series(1, @lanes::integer - 1) p (priority) cross join lateral (
			select 1 from sms_outbound_jobs j
			where j.org_id = @org and j.status = 'pending' and j.priority = p.priority and j.next_retry_at <= @at limit @limit::integer) y
		limit @limit::integer) x)`

// Pressure returns what is due of each kind, counted up to limit, and how far ahead of now the sender is.
func (o *Store) Pressure(
	ctx context.Context, orgID uuid.UUID, from string, limit int, now time.Time,
) (waiting Pressure, err error) {
	defer edge.Mark(&err)
	var arrival *time.Time
	err = o.pool.QueryRow(ctx, sqlPressure, postgres.Args{
		"org": orgID, "sender": from, "limit": limit, "at": now, "lanes": Priorities,
	}).Scan(&arrival, &waiting.Urgent, &waiting.Others)
	if arrival != nil {
		waiting.Ahead = arrival.Sub(now)
	}
	return waiting, err
}

const sqlNext = `
select min(x.next_retry_at)
from generate_series(0, @lanes::integer - 1) p (priority) cross join lateral (
	select j.next_retry_at from sms_outbound_jobs j
	where j.org_id = @org and j.status = 'pending' and j.priority = p.priority and j.next_retry_at > @then
	order by j.next_retry_at limit 1) x`

// Next returns when the first message falls due that was not due by then; zero when there is none.
func (o *Store) Next(ctx context.Context, orgID uuid.UUID, then time.Time) (at time.Time, err error) {
	defer edge.Mark(&err)
	var next *time.Time
	err = o.pool.QueryRow(ctx, sqlNext, postgres.Args{"org": orgID, "then": then, "lanes": Priorities}).Scan(&next)
	return edge.Value(next), err
}
