package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/delivery"
	"paceline.internal/services/messaging/sms"
)

// sqlAbout finds the messages that a receipt could be about: the one that it names and the one that has its SID.
const sqlAbout = `
select ` + columns + ` from sms_messages
where direction = 'outbound' and (id = @id or twilio_sid = @sid)
order by id for no key update`

const sqlKeepReceipt = `
insert into sms_receipts (message_id, twilio_sid, status, error_code, raw, received_at)
values (@message, @sid, @status, @code, @raw, @at)
on conflict (twilio_sid, status, error_code) do nothing`

// keep stores a receipt as it came; messageID is uuid.Nil when it is about none of ours.
func keep(ctx context.Context, tx pgx.Tx, messageID uuid.UUID, r delivery.Receipt) error {
	return exec(ctx, tx, sqlKeepReceipt, pgx.NamedArgs{
		"message": null(messageID), "sid": r.SID, "status": r.Status, "code": r.ErrorCode, "raw": r.Raw, "at": r.At,
	})
}

// RecordReceipt keeps the receipt, found or not, applies Message.Receive, and returns the message after it. A late
// refusal for an opt-out is recorded in the ledger once, and not over a consent that was given after the send.
func (s *Store) RecordReceipt(ctx context.Context, r delivery.Receipt) (recorded delivery.Recorded, err error) {
	defer mark(&err)
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		recorded = delivery.Recorded{}
		found, err := messages(ctx, tx, sqlAbout, pgx.NamedArgs{"id": r.MessageID, "sid": r.SID})
		if err != nil {
			return err
		}
		stored, foreign := about(found, r)
		id := uuid.Nil
		if stored != nil {
			id = stored.ID
		}
		if err := keep(ctx, tx, id, r); err != nil || stored == nil {
			return err
		}
		recorded.Message = stored
		if foreign {
			return nil
		}
		recorded, err = receive(ctx, tx, *stored, r)
		return err
	})
	return recorded, err
}

// receive merges a receipt into the row that it is about, which is locked.
func receive(ctx context.Context, tx pgx.Tx, stored delivery.Message, r delivery.Receipt) (delivery.Recorded, error) {
	merged, changed := stored.Receive(r)
	if !changed {
		return delivery.Recorded{Message: &stored}, nil
	}
	recorded := delivery.Recorded{
		Message: &merged, Changed: true, Settled: stored.Status == sms.Unknown || stored.Status == sms.Parked,
	}
	if err := update(ctx, tx, merged); err != nil || !r.OptsOut() {
		return recorded, err
	}
	return recorded, change(ctx, tx, consentChange{
		OrgID: merged.OrgID, Phone: merged.To, NotAfter: merged.AcceptedAt,
		Event: delivery.LedgerEvent{At: r.At, State: consent.OptedOut, Source: delivery.FromTwilio, Sender: merged.From},
	})
}

// about picks the message that the receipt names, else the one with its SID. Foreign says that the SID belongs to
// another message than the one named: then the receipt tells nothing certain.
func about(found []delivery.Message, r delivery.Receipt) (m *delivery.Message, foreign bool) {
	for i := range found {
		if m == nil || found[i].ID == r.MessageID {
			m = &found[i]
		}
	}
	return m, len(found) > 1
}

const sqlBySID = `select ` + columns + ` from sms_messages where twilio_sid = @sid`

const sqlLockConsent = `select state from consents where org_id = @org and phone = @phone for no key update`

const sqlInsertInbound = `
insert into sms_messages (id, org_id, profile_id, direction, from_number, to_number, body, body_hash, status, twilio_sid,
	segments, correlation_id, attempts, consent_effect, created_at, updated_at)
values (@id, @org, @profile, 'inbound', @phone, @to, @body, @hash, 'received', @sid, @segments, '', 0, @effect, @received, @at)
returning ` + columns

// sqlLaterWord looks for a word about consent that the person said, or an operator took down, after the text had reached us. A
// text whose recording failed is recorded by its job a while later, and the person may have changed their mind meanwhile. What
// an operator wrote down is compared by the same clock, and so is Twilio's refusal: words from before it cannot have lifted it. But only
// the person's own words come after their opt-out: no note of an operator keeps it from holding.
// It runs under the lock on the consent row.
const sqlLaterWord = `
select exists (
	select from sms_messages
	where org_id = @org and from_number = @phone and direction = 'inbound' and consent_effect in ('opt_out', 'opt_in')
		and created_at > @overtaken_after
) or exists (
	select from consent_events where org_id = @org and phone = @phone and source in ('operator', 'twilio_21610') and at > @overtaken_after
		and not @opts_out
)`

// RecordInbound stores the text and applies its effect on consent in one transaction. Of two deliveries of one SID at
// the same time, one is refused by the unique SID, undoes everything and reads what the other stored.
func (s *Store) RecordInbound(ctx context.Context, t delivery.Text) (m delivery.Message, err error) {
	defer mark(&err)
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		m, err = record(ctx, tx, t)
		return err
	})
	if postgres.IsUniqueViolation(err, "sms_messages_twilio_sid_key") {
		return one(ctx, s.pool, sqlBySID, pgx.NamedArgs{"sid": t.SID})
	}
	return m, err
}

func record(ctx context.Context, tx pgx.Tx, t delivery.Text) (delivery.Message, error) {
	args := pgx.NamedArgs{
		"id": t.MessageID, "org": t.OrgID, "profile": null(t.ProfileID), "phone": t.From.String(), "to": t.To, "body": t.Body,
		"hash": t.BodyHash[:], "sid": t.SID, "segments": t.Segments, "at": t.At,
		"received": t.ReceivedAt,
	}
	if m, found, err := message(ctx, tx, sqlBySID, args); err != nil || found {
		return m, err
	}
	current, err := lockConsent(ctx, tx, args)
	if err != nil {
		return delivery.Message{}, err
	}
	reading, overtaken := t.Read(current), false
	if reading.Effect != consent.None || reading.Carrier != consent.Passes {
		args["overtaken_after"], args["opts_out"] = t.OvertakenAfter(reading.Effect), reading.Effect == consent.OptOut
		if err := tx.QueryRow(ctx, sqlLaterWord, args).Scan(&overtaken); err != nil {
			return delivery.Message{}, err
		}
	}
	follows := t.Consequences(reading, current, overtaken)
	args["effect"] = follows.Effect.String()
	m, err := one(ctx, tx, sqlInsertInbound, args)
	if err != nil {
		return delivery.Message{}, err
	}
	if follows.Event != nil {
		if err := change(ctx, tx, consentChange{OrgID: t.OrgID, Phone: m.From, Event: *follows.Event}); err != nil {
			return delivery.Message{}, err
		}
	}
	if follows.Carrier == consent.Blocks || follows.Carrier == consent.Lifts {
		args["blocks"] = follows.Carrier == consent.Blocks
		if err := exec(ctx, tx, sqlCarrierBlocks, args); err != nil {
			return delivery.Message{}, err
		}
	}
	if follows.Reply != nil {
		err = keepReply(ctx, tx, *follows.Reply)
	}
	return m, err
}

// sqlOnItsWay looks for attempts that can still reach Twilio. The confirmation of an opt-out may come after it.
const sqlOnItsWay = `
select exists (
	select from sms_messages where to_number = @phone and org_id = @org and status = 'sending' and lease_until > @after
		and not starts_with(idempotency_key, '` + delivery.StopKeys + `')
)`

// OnItsWay reports whether an attempt to text a number is still being made: one whose lease is not over by after.
func (s *Store) OnItsWay(ctx context.Context, orgID uuid.UUID, phone string, after time.Time) (busy bool, err error) {
	defer mark(&err)
	err = s.pool.QueryRow(ctx, sqlOnItsWay, pgx.NamedArgs{"org": orgID, "phone": phone, "after": after}).Scan(&busy)
	return busy, err
}
