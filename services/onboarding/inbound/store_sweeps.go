package inbound

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/retention"
)

// sqlClaimSweep begins a sweep that is due and not leased; the first one of a sender makes its row.
const sqlClaimSweep = `
insert into inbound_sweeps as a (org_id, sender, swept_until, due_at, lease_token, lease_until)
values (@org, @sender, @first, @now, @token, @lease_until)
on conflict (org_id, sender) do update set lease_token = @token, lease_until = @lease_until
where a.due_at <= @now and (a.lease_until is null or a.lease_until <= @now)
returning swept_until, again_until`

// ClaimSweep begins a sweep of a sender, and reports whether one is due and free. A sender that was never swept is swept
// from first on.
func (s *Store) ClaimSweep(
	ctx context.Context, of Sender, first, now, leaseUntil time.Time,
) (Sweep, bool, error) {
	token, err := uuid.NewRandom()
	if err != nil {
		return Sweep{}, false, fmt.Errorf("lease token: %w", err)
	}
	rows, err := s.pool.Query(ctx, sqlClaimSweep, postgres.Args{
		"org": of.OrgID, "sender": of.Name, "first": first, "now": now, "token": token.String(), "lease_until": leaseUntil,
	})
	if err != nil {
		return Sweep{}, false, fmt.Errorf("claim a sweep: %w", err)
	}
	marks, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct {
		Swept time.Time
		Again *time.Time
	}])
	if err != nil || len(marks) == 0 {
		return Sweep{}, false, err
	}
	claimed := Sweep{Sender: of, SweptUntil: marks[0].Swept, LeaseToken: token.String()}
	if marks[0].Again != nil {
		claimed.AgainUntil = *marks[0].Again
	}
	return claimed, true, nil
}

// sqlSweepAgain takes sweeps that are under way away from their processes: they do not know what is lost. What was delivered before the
// time of the organisation's jobs is forgotten, and would come again.
const sqlSweepAgain = `
update inbound_sweeps a
set swept_until = least(swept_until, greatest(@since::timestamptz, @before::timestamptz)), again_until = @now,
    due_at = least(due_at, @now), lease_token = null, lease_until = null
where {part}`

// SweepAgain has everything that was sent to us since a time delivered again, as far back as each part of the organisations keeps its jobs,
// in the transaction that notes that the database went back. Of a message that is there still nothing comes.
func (s *Store) SweepAgain(ctx context.Context, tx pgx.Tx, parts []retention.Part, since, now time.Time) error {
	for _, part := range parts {
		if _, err := tx.Exec(ctx, part.SQL(sqlSweepAgain, "a"), part.Args(postgres.Args{"since": since, "now": now})); err != nil {
			return err
		}
	}
	return nil
}

// sqlSweptAgain leaves out former senders: nobody sweeps these any more, once another one of the organisation was.
const sqlSweptAgain = `
select count(*) from inbound_sweeps a where again_until is not null and not exists (
	select from inbound_sweeps other where other.org_id = a.org_id and other.sender <> a.sender and other.swept_at > a.again_until
		and (a.swept_at is null or other.swept_at > a.swept_at))`

// SweptAgain counts the senders for which the record is still to be delivered again.
func (s *Store) SweptAgain(ctx context.Context) (left int, err error) {
	if err := s.pool.QueryRow(ctx, sqlSweptAgain).Scan(&left); err != nil {
		return 0, fmt.Errorf("count the audits: %w", err)
	}
	return left, nil
}

const sqlExtendSweep = `
update inbound_sweeps set lease_until = @lease_until where org_id = @org and sender = @sender and lease_token = @token`

// ExtendSweep extends the lease of a sweep; ErrSweepLost when another process has taken it over.
func (s *Store) ExtendSweep(ctx context.Context, sweep Sweep, leaseUntil time.Time) error {
	return s.ofSweep(ctx, sqlExtendSweep, sweep, postgres.Args{"lease_until": leaseUntil})
}

// sqlFinishSweep moves the mark, never back.
const sqlFinishSweep = `
update inbound_sweeps
set swept_until = greatest(swept_until, @until), swept_at = @at, due_at = @due_at, listed = @listed, found = @found::integer,
    found_total = found_total + @found::integer,
    again_until = case when again_until > greatest(swept_until, @until) then again_until end, lease_token = null, lease_until = null
where org_id = @org and sender = @sender and lease_token = @token`

// FinishSweep ends a sweep of which everything that was found is stored; ErrSweepLost.
func (s *Store) FinishSweep(ctx context.Context, sweep Sweep, end SweepEnd) error {
	return s.ofSweep(ctx, sqlFinishSweep, sweep, postgres.Args{
		"until": end.SweptUntil, "at": end.At, "due_at": end.DueAt, "listed": end.Listed, "found": end.Found,
	})
}

const sqlReleaseSweep = `
update inbound_sweeps set lease_token = null, lease_until = null where org_id = @org and sender = @sender and lease_token = @token`

// ReleaseSweep breaks a sweep off: it is as due as it was; ErrSweepLost.
func (s *Store) ReleaseSweep(ctx context.Context, sweep Sweep) error {
	return s.ofSweep(ctx, sqlReleaseSweep, sweep, postgres.Args{})
}

// ofSweep runs a statement that changes something only under the lease.
func (s *Store) ofSweep(ctx context.Context, sql string, sweep Sweep, args postgres.Args) error {
	args["org"], args["sender"], args["token"] = sweep.Sender.OrgID, sweep.Sender.Name, sweep.LeaseToken
	tag, err := s.pool.Exec(ctx, sql, args)
	if err != nil {
		return fmt.Errorf("go on with a sweep: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return ErrSweepLost
	}
	return nil
}
