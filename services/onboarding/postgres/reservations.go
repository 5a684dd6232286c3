package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/reservation"
)

// Reservations keeps the reservations of deliveries in the database, where they need nothing that is not there anyway.
type Reservations struct{ pool postgres.DB }

// NewReservations returns a store on an open pool.
func NewReservations(pool postgres.DB) *Reservations { return &Reservations{pool: pool} }

// sqlReserve always updates, so that it returns what stands under the key after it, whoever came first. A statement that
// did nothing on a conflict would have to be followed by a look, and the row might be gone by then.
const sqlReserve = `
insert into delivery_reservations as r (key, state, owner, expires_at) values (@key, 'in_flight', @owner, @until)
on conflict (key) do update set
    state      = case when r.expires_at <= @now then excluded.state else r.state end,
    owner      = case when r.expires_at <= @now then excluded.owner else r.owner end,
    expires_at = case when r.expires_at <= @now then excluded.expires_at else r.expires_at end
returning state, owner = @owner as ours, expires_at`

// Reserve gives the key to the claim's owner if it is absent, and says what stands under it.
func (s *Reservations) Reserve(ctx context.Context, c reservation.Claim) (reservation.Answer, error) {
	rows, err := s.pool.Query(ctx, sqlReserve, pgx.NamedArgs{"key": c.Key, "owner": c.Owner, "now": c.Now, "until": c.Until})
	if err != nil {
		return reservation.Answer{}, fmt.Errorf("reserve a delivery: %w", err)
	}
	stands, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[struct {
		State     string
		Ours      bool
		ExpiresAt time.Time
	}])
	if err != nil {
		return reservation.Answer{}, fmt.Errorf("reserve a delivery: %w", err)
	}
	answer := reservation.Answer{Verdict: reservation.InFlight, Until: stands.ExpiresAt}
	switch {
	case stands.State == "done":
		answer.Verdict = reservation.Done
	case stands.Ours:
		answer.Verdict = reservation.Won
	}
	return answer, nil
}

// sweepLimit is how many expired rows one completion deletes. A delivery completes as many rows as it adds, so anything
// above one makes a backlog shrink.
const sweepLimit = 16

// sweepSlack is how long a row outlives its value, so that a process whose clock is ahead sweeps nothing that others hold.
const sweepSlack = time.Hour

// sqlComplete sweeps in passing, so that the table holds a day of deliveries and no loop is needed for it. It cannot
// deadlock with another: the only row that it may wait for is its own, which is live at its now, while the rows that somebody
// else sweeps are expired at theirs; in a circle of waits every now would be later than the one before it.
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
select count(*) from completed`

// Complete turns the owner's lease into done and deletes some rows that expired an hour ago; reservation.ErrLost.
func (s *Reservations) Complete(ctx context.Context, c reservation.Claim) error {
	var completed int
	err := s.pool.QueryRow(ctx, sqlComplete, pgx.NamedArgs{
		"key": c.Key, "owner": c.Owner, "now": c.Now, "until": c.Until, "expired": c.Now.Add(-sweepSlack), "sweep": sweepLimit,
	}).Scan(&completed)
	if err != nil {
		return fmt.Errorf("complete a delivery: %w", err)
	}
	if completed == 0 {
		return reservation.ErrLost
	}
	return nil
}

const sqlRelease = `
delete from delivery_reservations where key = @key and owner = @owner and state = 'in_flight' and expires_at > @now`

// Release makes the owner's key absent; reservation.ErrLost.
func (s *Reservations) Release(ctx context.Context, c reservation.Claim) error {
	tag, err := s.pool.Exec(ctx, sqlRelease, pgx.NamedArgs{"key": c.Key, "owner": c.Owner, "now": c.Now})
	if err != nil {
		return fmt.Errorf("release a delivery: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return reservation.ErrLost
	}
	return nil
}
