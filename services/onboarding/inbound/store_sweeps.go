package inbound

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
)

// sqlClaimAudit begins a sweep that is due and not leased; the first one of a sender makes its row.
const sqlClaimAudit = `
insert into inbound_audits as a (org_id, sender, swept_until, due_at, lease_token, lease_until)
values (@org, @sender, @first, @now, @token, @lease_until)
on conflict (org_id, sender) do update set lease_token = @token, lease_until = @lease_until
where a.due_at <= @now and (a.lease_until is null or a.lease_until <= @now)
returning swept_until, again_until`

// ClaimAudit begins a sweep of a sender, and reports whether one is due and free. A sender that was never swept is swept
// from first on.
func (s *Store) ClaimAudit(
	ctx context.Context, of Sender, first, now, leaseUntil time.Time,
) (Audit, bool, error) {
	token, err := uuid.NewRandom()
	if err != nil {
		return Audit{}, false, fmt.Errorf("lease token: %w", err)
	}
	rows, err := s.pool.Query(ctx, sqlClaimAudit, postgres.Args{
		"org": of.OrgID, "sender": of.Name, "first": first, "now": now, "token": token.String(), "lease_until": leaseUntil,
	})
	if err != nil {
		return Audit{}, false, fmt.Errorf("claim an audit: %w", err)
	}
	marks, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct {
		Swept time.Time
		Again *time.Time
	}])
	if err != nil || len(marks) == 0 {
		return Audit{}, false, err
	}
	claimed := Audit{Sender: of, SweptUntil: marks[0].Swept, LeaseToken: token.String()}
	if marks[0].Again != nil {
		claimed.AgainUntil = *marks[0].Again
	}
	return claimed, true, nil
}

// sqlSweepAgain takes sweeps that are under way away from their processes: they do not know what is lost.
const sqlSweepAgain = `
update inbound_audits
set swept_until = least(swept_until, @since), again_until = @now, due_at = least(due_at, @now), lease_token = null, lease_until = null`

// SweepAgain has everything that was sent to us since a time delivered again, in the transaction that notes that the database went back. Of
// a message that is there still nothing comes.
func (s *Store) SweepAgain(ctx context.Context, tx pgx.Tx, since, now time.Time) error {
	_, err := tx.Exec(ctx, sqlSweepAgain, postgres.Args{"since": since, "now": now})
	return err
}

const sqlExtendAudit = `
update inbound_audits set lease_until = @lease_until where org_id = @org and sender = @sender and lease_token = @token`

// ExtendAudit extends the lease of a sweep; ErrAuditLost when another process has taken it over.
func (s *Store) ExtendAudit(ctx context.Context, sweep Audit, leaseUntil time.Time) error {
	return s.ofAudit(ctx, sqlExtendAudit, sweep, postgres.Args{"lease_until": leaseUntil})
}

// sqlFinishAudit moves the mark, never back.
const sqlFinishAudit = `
update inbound_audits
set swept_until = greatest(swept_until, @until), swept_at = @at, due_at = @due_at, listed = @listed, found = @found::integer,
    found_total = found_total + @found::integer,
    again_until = case when again_until > greatest(swept_until, @until) then again_until end, lease_token = null, lease_until = null
where org_id = @org and sender = @sender and lease_token = @token`

// FinishAudit ends a sweep of which everything that was found is stored; ErrAuditLost.
func (s *Store) FinishAudit(ctx context.Context, sweep Audit, end AuditEnd) error {
	return s.ofAudit(ctx, sqlFinishAudit, sweep, postgres.Args{
		"until": end.SweptUntil, "at": end.At, "due_at": end.DueAt, "listed": end.Listed, "found": end.Found,
	})
}

const sqlReleaseAudit = `
update inbound_audits set lease_token = null, lease_until = null where org_id = @org and sender = @sender and lease_token = @token`

// ReleaseAudit breaks a sweep off: it is as due as it was; ErrAuditLost.
func (s *Store) ReleaseAudit(ctx context.Context, sweep Audit) error {
	return s.ofAudit(ctx, sqlReleaseAudit, sweep, postgres.Args{})
}

// ofAudit runs a statement that changes something only under the lease.
func (s *Store) ofAudit(ctx context.Context, sql string, sweep Audit, args postgres.Args) error {
	args["org"], args["sender"], args["token"] = sweep.Sender.OrgID, sweep.Sender.Name, sweep.LeaseToken
	tag, err := s.pool.Exec(ctx, sql, args)
	if err != nil {
		return fmt.Errorf("go on with an audit: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return ErrAuditLost
	}
	return nil
}
