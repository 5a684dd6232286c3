package dedup

import (
	"context"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
)

// Postgres keeps reservations in the database.
type Postgres struct{ Pool postgres.DB }

// sqlReserve always updates, so that it returns the value under the key after it. A statement that did nothing on a conflict would
// have to be followed by a read, and the row might be gone by then.
const sqlReserve = `
insert into delivery_reservations as r (key, state, owner, expires_at) values (@key, 'in_flight', @owner, @until)
on conflict (key) do update set
    state      = case when r.expires_at <= @now then excluded.state else r.state end,
    owner      = case when r.expires_at <= @now then excluded.owner else r.owner end,
    expires_at = case when r.expires_at <= @now then excluded.expires_at else r.expires_at end
returning state = 'done' as done, owner, expires_at as until`

// Reserve gives the key to the claim's owner if it is absent, and returns its value.
func (s *Postgres) Reserve(ctx context.Context, c Claim) (Value, error) {
	rows, err := s.Pool.Query(ctx, sqlReserve, postgres.Args{"key": c.Key, "owner": c.Owner, "now": c.Now, "until": c.Until})
	if err != nil {
		return Value{}, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Value])
}

// sweepLimit limits how many expired rows one completion deletes: more than it adds, so that a backlog shrinks.
const sweepLimit = 16

// sqlComplete sweeps in passing, so that no loop is needed for it. It cannot deadlock with another one: the only row that it may wait for
// is its own, which is live at its now, while those that another one sweeps are expired at that one's now.
const sqlComplete = `
with completed as (
    update delivery_reservations set state = 'done', expires_at = @until
    where key = @key and owner = @owner and expires_at > @now
    returning 1
), swept as (
    delete from delivery_reservations where key in (
        select key from delivery_reservations where expires_at <= @expired
        order by expires_at limit @sweep for update skip locked)
)
select from completed`

const sqlRelease = `delete from delivery_reservations where key = @key and owner = @owner and state = 'in_flight' and expires_at > @now`

// Finish turns the owner's lease into done, and deletes some rows that have long expired, or makes it absent; ErrLost.
func (s *Postgres) Finish(ctx context.Context, c Claim, done bool) error {
	sql := map[bool]string{false: sqlRelease, true: sqlComplete}[done]
	tag, err := s.Pool.Exec(ctx, sql, postgres.Args{
		"key": c.Key, "owner": c.Owner, "now": c.Now, "until": c.Until, "expired": c.Now.Add(-Slack), "sweep": sweepLimit,
	})
	if err == nil && tag.RowsAffected() == 0 {
		err = ErrLost
	}
	return err
}
