package send

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/consent/ledger"
	"paceline.internal/services/messaging/edge"
	"paceline.internal/services/messaging/senders"
)

const sqlUpdate = `
update sms_messages
set from_number = @from, status = @status, twilio_sid = @sid, error_code = @code, segments = @segments, lease_until = @lease,
	absent_since = @absent, next_look_at = @look, looks = @looks, failing_since = @failing, failed_looks = @failed,
	accepted_at = @accepted, asked_at = @asked, updated_at = @updated,
	throttled_sender = case when @status = 'throttled' then sender_id end
where id = @id`

// sqlSettle updates only rows that are as their attempts claimed them: any other change of a row changes its status, its SID or its
// token. Both comparisons are written so that no partial index serves them, as in platform/queue: messages that are being sent enter and
// leave those indexes all the time, and the dead entries cost more than the primary key.
const sqlSettle = `
update sms_messages m set ` + setFromU + `
from unnest(@id::uuid[]) with ordinality as u (id, n)
where m.id = u.id and m.id = any(@id::uuid[]) and m.status || '' = 'sending' and nullif(m.twilio_sid, '') is null
	and m.attempt_token = (@token::uuid[])[u.n]
returning u.n`

// setFromU sets what updateArgs gives, for many rows at once.
const setFromU = `from_number = (@from::text[])[u.n], status = (@status::text[])[u.n], twilio_sid = (@sid::text[])[u.n],
	error_code = (@code::int[])[u.n], segments = (@segments::int[])[u.n], lease_until = (@lease::timestamptz[])[u.n],
	absent_since = (@absent::timestamptz[])[u.n], next_look_at = (@look::timestamptz[])[u.n], looks = (@looks::int[])[u.n],
	failing_since = (@failing::timestamptz[])[u.n], failed_looks = (@failed::int[])[u.n], accepted_at = (@accepted::timestamptz[])[u.n],
	asked_at = (@asked::timestamptz[])[u.n], updated_at = (@updated::timestamptz[])[u.n],
	throttled_sender = case when (@status::text[])[u.n] = 'throttled' then m.sender_id end`

// Settle applies Message.Settle to the stored row and returns the row after it. A row that still is as it was claimed is settled by one
// guarded statement; any other is locked and read first. When Twilio says that the recipient has opted out, that is recorded too, even if
// the attempt has lost its row: it is true all the same.
func (s *Store) Settle(ctx context.Context, claimed Message, a Answer) (settled Message, err error) {
	defer edge.Mark(&err)
	if after, changed := claimed.Settle(a); changed && !a.OptsOut() {
		args, done := updateArgs(after), 0
		args["token"] = a.Token
		err := s.hot.Do(ctx, a.MessageID.String(), postgres.Statement{SQL: sqlSettle, Args: args, Rows: &done})
		if err != nil || done > 0 {
			return after, err
		}
	}
	return s.settleLocked(ctx, claimed, a)
}

// settleLocked is Settle of a row that is not, or may not be, as it was claimed; or is gone, because the database went back in time.
func (s *Store) settleLocked(ctx context.Context, claimed Message, a Answer) (settled Message, err error) {
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		id := a.MessageID
		_, found, err := FindMessage(ctx, tx, sqlByID, postgres.Args{"id": id})
		if err == nil && !found {
			var restored Message
			restored, err = restore(ctx, tx, claimed, a.Outcome.SID)
			id = restored.ID
		}
		if err == nil && a.OptsOut() {
			err = recordRefusal(ctx, tx, id, a.At)
		}
		if err != nil {
			return err
		}
		stored, err := OneMessage(ctx, tx, sqlByIDForUpdate, postgres.Args{"id": id})
		if err != nil {
			return err
		}
		var changed bool
		if settled, changed = stored.Settle(a); !changed {
			return nil
		}
		return update(ctx, tx, settled)
	})
	return settled, err
}

// recordRefusal opts the recipient of a message out, in Twilio's name.
func recordRefusal(ctx context.Context, tx pgx.Tx, id uuid.UUID, at time.Time) error {
	m, err := OneMessage(ctx, tx, sqlByID, postgres.Args{"id": id})
	if err != nil {
		return err
	}
	return optOutAtTwilio(ctx, tx, m, at, m.AttemptedAt) // a START that came while we asked is newer than what we asked
}

// optOutAtTwilio opts the recipient of a message out in Twilio's name, unless their consent changed after an instant. That Twilio still
// blocks a sender that they stopped before a START to another one changes nothing: the START counts for the organisation.
func optOutAtTwilio(ctx context.Context, tx pgx.Tx, m Message, at, notAfter time.Time) error {
	if known, err := senders.BlockedElsewhere(ctx, tx, m.OrgID, m.SenderID, m.To); known || err != nil {
		return err
	}
	return ledger.WriteChange(ctx, tx, ledger.Change{
		OrgID: m.OrgID, Phone: m.To, NotAfter: notAfter,
		Event: ledger.Event{At: at, State: consent.OptedOut, Source: ledger.FromTwilio, Sender: m.From},
	})
}

func update(ctx context.Context, tx pgx.Tx, m Message) error {
	return edge.Exec(ctx, tx, sqlUpdate, updateArgs(m))
}

func updateArgs(m Message) postgres.Args {
	return postgres.Args{
		"id": m.ID, "from": m.From, "status": string(m.Status), "sid": edge.Null(m.SID), "code": edge.Null(m.ErrorCode),
		"segments": m.Segments, "lease": m.LeaseUntil, "absent": edge.Null(m.AbsentSince), "look": edge.Null(m.NextCheckAt), "looks": m.Checks,
		"failing": edge.Null(m.FailingSince), "failed": m.FailedListings, "accepted": edge.Null(m.AcceptedAt), "asked": edge.Null(m.AskedAt),
		"updated": m.UpdatedAt,
	}
}

// sqlInFlight looks for attempts that can still reach Twilio. The confirmation of an opt-out may come after it.
const sqlInFlight = `
select exists (
	select from sms_messages where to_number = @phone and org_id = @org and status = 'sending' and lease_until > @after
		and not starts_with(idempotency_key, '` + StopKeys + `')
)`

// HasInFlight reports whether an attempt to send to a number is still being made: one with a lease that is not over by after.
func (s *Store) HasInFlight(ctx context.Context, orgID uuid.UUID, phone string, after time.Time) (busy bool, err error) {
	defer edge.Mark(&err)
	err = s.pool.QueryRow(ctx, sqlInFlight, postgres.Args{"org": orgID, "phone": phone, "after": after}).Scan(&busy)
	return busy, err
}
