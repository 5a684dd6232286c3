package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/delivery"
	"paceline.internal/services/messaging/sms"
)

// sqlExpireAll also sets the look of what an older release has made unknown without one.
const sqlExpireAll = `
update sms_messages set status = 'unknown', next_look_at = @now, looks = 0, updated_at = @now
where id in (
	select id from sms_messages
	where status in ('sending', 'unknown') and lease_until <= @over and (status = 'sending' or next_look_at is null)
	order by lease_until limit @limit for update skip locked
)`

// ExpireAbandoned makes at most limit rows unknown whose leases have been over for timeout, and reports how many.
func (s *Store) ExpireAbandoned(ctx context.Context, now time.Time, timeout time.Duration, limit int) (n int, err error) {
	defer mark(&err)
	done, err := s.pool.Exec(ctx, sqlExpireAll, pgx.NamedArgs{"now": now, "over": now.Add(-timeout), "limit": limit})
	return int(done.RowsAffected()), err
}

// sqlClaimLooks takes what is due from under the hands of other processes.
const sqlClaimLooks = `
update sms_messages set next_look_at = @until, looks = looks + 1
where id in (
	select id from sms_messages where next_look_at <= @now
	order by next_look_at limit @limit for update skip locked
)
returning ` + columns

// ClaimLooks takes at most limit rows that are due, and puts their next look at until. Of those that cannot be read it says why.
func (s *Store) ClaimLooks(ctx context.Context, now, until time.Time, limit int) (due []delivery.Message, unread []error, err error) {
	defer mark(&err)
	rows, err := s.pool.Query(ctx, sqlClaimLooks, pgx.NamedArgs{"now": now, "until": until, "limit": limit})
	if err != nil {
		return nil, nil, err
	}
	return legible(rows, toMessage)
}

// RecordSighting applies Message.Decide to the stored row and keeps the look. A SID that another message takes at this very
// moment is refused by its unique constraint, which undoes everything: the next look finds it taken.
func (s *Store) RecordSighting(ctx context.Context, sighting delivery.Sighting) (looked delivery.Looked, err error) {
	defer mark(&err)
	err = postgres.InTxUnlessLocked(ctx, s.pool, func(tx pgx.Tx) error {
		stored, err := one(ctx, tx, sqlByIDForUpdate, pgx.NamedArgs{"id": sighting.MessageID})
		if err != nil {
			return err
		}
		sids := make([]string, len(sighting.Listed))
		for i, l := range sighting.Listed {
			sids[i] = l.SID
		}
		if sighting.Taken, err = taken(ctx, tx, stored.ID, sids); err != nil {
			return err
		}
		if sighting.Rivals, err = rivals(ctx, tx, stored, sighting.Timeout); err != nil {
			return err
		}
		var changed bool
		if looked, changed = stored.Decide(sighting); !changed {
			return nil
		}
		if err := update(ctx, tx, looked.Message); err != nil {
			return err
		}
		if looked.Look.Finding == delivery.Failed && stored.FailedLooks > 0 && looked.Settled == "" {
			return nil // failures in a row are one line of evidence: their number has no bound
		}
		return keepLook(ctx, tx, stored.ID, looked.Look)
	})
	if postgres.IsUniqueViolation(err, "sms_messages_twilio_sid_key") {
		return delivery.Looked{}, nil
	}
	return looked, err
}

// sqlTaken finds the SIDs that are another message's: by its row, or by a receipt that names it.
const sqlTaken = `
select twilio_sid from sms_messages where twilio_sid = any(@sids) and id <> @id
union
select twilio_sid from sms_receipts where twilio_sid = any(@sids) and message_id <> @id`

func taken(ctx context.Context, tx pgx.Tx, id uuid.UUID, sids []string) (map[string]bool, error) {
	found, err := collect(ctx, tx, sqlTaken, pgx.NamedArgs{"id": id, "sids": sids}, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	set := make(map[string]bool, len(found))
	for _, sid := range found {
		set[sid] = true
	}
	return set, nil
}

// sqlRivals is asked without the organisation: Twilio's list is the account's. What has waited for an operator since long before
// the attempt, or was given up then, cannot be what Twilio has of it.
const sqlRivals = `
select body, status from sms_messages
where to_number = @to and direction = 'outbound' and status in ('sending', 'unknown', 'parked', 'given_up') and id <> @id
	and (status in ('sending', 'unknown') or lease_until >= @since)`

func rivals(ctx context.Context, tx pgx.Tx, m delivery.Message, timeout time.Duration) ([]delivery.Rival, error) {
	args := pgx.NamedArgs{"to": m.To, "id": m.ID, "since": m.RivalsSince(timeout)}
	return collect(ctx, tx, sqlRivals, args, func(row pgx.CollectableRow) (delivery.Rival, error) {
		var r delivery.Rival
		var status string
		err := row.Scan(&r.Body, &status)
		r.Status = sms.Status(status)
		return r, err
	})
}

// sqlKeepLook adds to the evidence.
const sqlKeepLook = `
insert into sms_looks (message_id, at, finding, detail, candidates) values (@message, @at, @finding, @detail, @candidates)`

func keepLook(ctx context.Context, tx pgx.Tx, messageID uuid.UUID, look delivery.Look) error {
	candidates := look.Candidates
	if candidates == nil {
		candidates = []delivery.Candidate{}
	}
	return exec(ctx, tx, sqlKeepLook, pgx.NamedArgs{
		"message": messageID, "at": look.At, "finding": string(look.Finding), "detail": look.Detail, "candidates": candidates,
	})
}

// RecordPoll keeps what Twilio said as a receipt, applies Message.Poll, and returns the message after it.
func (s *Store) RecordPoll(ctx context.Context, p delivery.Poll) (recorded delivery.Recorded, err error) {
	defer mark(&err)
	err = postgres.InTxUnlessLocked(ctx, s.pool, func(tx pgx.Tx) error {
		stored, err := one(ctx, tx, sqlByIDForUpdate, pgx.NamedArgs{"id": p.MessageID})
		if err != nil {
			return err
		}
		recorded = delivery.Recorded{Message: &stored}
		if p.Stored != nil && stored.SID == p.SID {
			if err := keep(ctx, tx, stored.ID, p.Receipt()); err != nil {
				return err
			}
			if recorded, err = receive(ctx, tx, stored, p.Receipt()); err != nil {
				return err
			}
		}
		polled := stored.Poll(p)
		recorded.Message = &polled
		if err := update(ctx, tx, polled); err != nil || !p.Gone || !stored.Accepted() {
			return err
		}
		return keepLook(ctx, tx, stored.ID, delivery.Look{
			At: p.At, Finding: delivery.Absent, Detail: "Twilio no longer has it; its status stays as it was last heard of",
		})
	})
	return recorded, err
}
