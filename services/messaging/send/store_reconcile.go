package send

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/edge"
	"paceline.internal/services/messaging/sms"
)

// sqlExpireAll also sets the check of what an older release has made unknown without one.
const sqlExpireAll = `
update sms_messages set status = 'unknown', next_look_at = @now, looks = 0, updated_at = @now
where id in (
	select id from sms_messages
	where status in ('sending', 'unknown') and lease_until <= @over and (status = 'sending' or next_look_at is null)
	order by lease_until limit @limit for update skip locked
)`

// ExpireAbandoned makes at most limit rows unknown with leases that have been over for timeout, and reports how many.
func (s *Store) ExpireAbandoned(ctx context.Context, now time.Time, timeout time.Duration, limit int) (n int, err error) {
	defer edge.Mark(&err)
	done, err := s.pool.Exec(ctx, sqlExpireAll, postgres.Args{"now": now, "over": now.Add(-timeout), "limit": limit})
	return int(done.RowsAffected()), err
}

// sqlClaimDue takes what is due from under the hands of other processes.
const sqlClaimDue = `
update sms_messages set next_look_at = @until, looks = looks + 1
where id in (
	select id from sms_messages where next_look_at <= @now
	order by next_look_at limit @limit for update skip locked
)
returning ` + Columns

// ClaimDue takes at most limit rows with a check that is due, and puts their next one at until. Of those that cannot be read it says why.
func (s *Store) ClaimDue(ctx context.Context, now, until time.Time, limit int) (due []Message, unread []error, err error) {
	defer edge.Mark(&err)
	rows, err := s.pool.Query(ctx, sqlClaimDue, postgres.Args{"now": now, "until": until, "limit": limit})
	if err != nil {
		return nil, nil, err
	}
	return legible(rows, ReadMessage)
}

// RecordListing applies Message.Decide to the stored row and keeps the evidence. A SID that another message takes at this very
// moment is refused by its unique constraint, which undoes everything: the next check finds it taken.
func (s *Store) RecordListing(ctx context.Context, l Listing) (decision Decision, err error) {
	defer edge.Mark(&err)
	err = postgres.InTxUnlessLocked(ctx, s.pool, func(tx pgx.Tx) error {
		stored, err := OneMessage(ctx, tx, sqlByIDForUpdate, postgres.Args{"id": l.MessageID})
		if err != nil {
			return err
		}
		sids := make([]string, len(l.Listed))
		for i, listed := range l.Listed {
			sids[i] = listed.SID
		}
		var others Others
		if others.Taken, err = taken(ctx, tx, stored.ID, sids); err != nil {
			return err
		}
		if others.Rivals, err = rivals(ctx, tx, stored, l); err != nil {
			return err
		}
		var changed bool
		if decision, changed = stored.Decide(l, others); !changed {
			return nil
		}
		if err := update(ctx, tx, decision.Message); err != nil {
			return err
		}
		if decision.Item.Kind == Failed && stored.FailedListings > 0 && decision.Settled == "" {
			return nil // failures in a row are one item of evidence: their number has no bound
		}
		return keepEvidence(ctx, tx, stored.ID, decision.Item)
	})
	if postgres.IsUniqueViolation(err, "sms_messages_twilio_sid_key") {
		return Decision{}, nil
	}
	return decision, err
}

// sqlTaken finds the SIDs that are another message's: by its row, or by a receipt that names it.
const sqlTaken = `
select twilio_sid from sms_messages where twilio_sid = any(@sids) and id <> @id
union
select twilio_sid from sms_receipts where twilio_sid = any(@sids) and message_id <> @id`

func taken(ctx context.Context, tx pgx.Tx, id uuid.UUID, sids []string) (map[string]bool, error) {
	found, err := edge.Collect(ctx, tx, sqlTaken, postgres.Args{"id": id, "sids": sids}, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	set := make(map[string]bool, len(found))
	for _, sid := range found {
		set[sid] = true
	}
	return set, nil
}

// sqlRivals is asked without the organisation: Twilio's list is that of the account, which these senders have. What has waited for an
// operator since long before the attempt, or was given up then, cannot be what Twilio has of it.
const sqlRivals = `
select body, status from sms_messages
where to_number = @to and direction = 'outbound' and status in ('sending', 'unknown', 'parked', 'given_up') and id <> @id
	and (status in ('sending', 'unknown') or lease_until >= @since)
	and coalesce(sender_id, '00000000-0000-0000-0000-000000000000') = any(@senders::uuid[])`

func rivals(ctx context.Context, tx pgx.Tx, m Message, l Listing) ([]Rival, error) {
	args := postgres.Args{"to": m.To, "id": m.ID, "since": m.RivalsSince(l.Timeout), "senders": l.Senders}
	return edge.Collect(ctx, tx, sqlRivals, args, func(row pgx.CollectableRow) (Rival, error) {
		var r Rival
		var status string
		err := row.Scan(&r.Body, &status)
		r.Status = sms.Status(status)
		return r, err
	})
}

const sqlKeepEvidence = `
insert into sms_looks (message_id, at, finding, detail, candidates) values (@message, @at, @kind, @detail, @candidates)`

func keepEvidence(ctx context.Context, tx pgx.Tx, messageID uuid.UUID, item EvidenceItem) error {
	candidates := item.Candidates
	if candidates == nil {
		candidates = []Candidate{}
	}
	return edge.Exec(ctx, tx, sqlKeepEvidence, postgres.Args{
		"message": messageID, "at": item.At, "kind": string(item.Kind), "detail": item.Detail, "candidates": candidates,
	})
}

// RecordPoll keeps what Twilio said as a receipt, applies Message.Poll, and returns the message after it.
func (s *Store) RecordPoll(ctx context.Context, p Poll) (recorded Recorded, err error) {
	defer edge.Mark(&err)
	err = postgres.InTxUnlessLocked(ctx, s.pool, func(tx pgx.Tx) error {
		stored, err := OneMessage(ctx, tx, sqlByIDForUpdate, postgres.Args{"id": p.MessageID})
		if err != nil {
			return err
		}
		if p.Receipt != nil && stored.SID == p.SID {
			if err := keep(ctx, tx, stored.ID, *p.Receipt); err != nil {
				return err
			}
		}
		polled, changed := stored.Poll(p)
		recorded = Recorded{Message: &polled, Changed: changed}
		if err := update(ctx, tx, polled); err != nil {
			return err
		}
		if changed && p.Receipt.OptsOut() {
			return optOutByReceipt(ctx, tx, polled, *p.Receipt)
		}
		if !p.Gone || !stored.Accepted() {
			return nil
		}
		return keepEvidence(ctx, tx, stored.ID, EvidenceItem{
			At: p.At, Kind: Absent, Detail: "Twilio no longer has it; its status stays as it was last heard of",
		})
	})
	return recorded, err
}
