package inbound

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/consent/ledger"
	"paceline.internal/services/messaging/edge"
	"paceline.internal/services/messaging/send"
)

// Store keeps what people write, and our replies.
type Store struct {
	pool   postgres.DB
	hot    *postgres.Combiner // of messages that nothing follows from
	ledger *ledger.Store
}

// NewStore works on a migrated database; the caller keeps owning the pool.
func NewStore(pool postgres.DB, consents *ledger.Store) *Store {
	return &Store{pool: pool, hot: postgres.NewCombiner(pool), ledger: consents}
}

// storedSwitch is null when nothing is asked.
func storedSwitch(s consent.Switch) *string {
	if s == consent.Unsaid {
		return nil
	}
	return new(s.String())
}

// sqlRepeat finds a message that was recorded before. Onboarding's record of it completes the one that was recorded ahead, or before its
// writer had a profile.
const sqlRepeat = `
with completed as (
	update sms_messages set awaits_onboarding = null, profile_id = coalesce(profile_id, @profile)
	where twilio_sid = @sid and @ahead::boolean is null
		and (awaits_onboarding or profile_id is null and @profile::uuid is not null and from_number = @phone and direction = 'inbound')
)
select ` + send.Columns + ` from sms_messages where twilio_sid = @sid`

const sqlInsertInbound = `
insert into sms_messages (id, org_id, profile_id, direction, from_number, to_number, body, body_hash, status, twilio_sid,
	segments, correlation_id, attempts, consent_effect, reminders, tips, lifts_hold, awaits_onboarding, sender_id, created_at, updated_at)
values (@id, @org, @profile, 'inbound', @phone, @to, @body, @hash, 'received', @sid, @segments, '', 0, @effect, @reminders, @tips,
	@lifts, @ahead, @sender_id, @received, @at)
returning ` + send.Columns

// sqlKeepPlain keeps messages that nothing follows from, which need no lock: each once for its SID, also of two at once.
var sqlKeepPlain = `
with kept as (
	insert into sms_messages (id, org_id, profile_id, direction, from_number, to_number, body, body_hash, status, twilio_sid,
		segments, correlation_id, attempts, consent_effect, sender_id, created_at, updated_at)
	select u.id, (@org::uuid[])[n], (@profile::uuid[])[n], 'inbound', (@phone::text[])[n], (@to::text[])[n], (@body::text[])[n],
		(@hash::bytea[])[n], 'received', (@sid::text[])[n], (@segments::int[])[n], '', 0, (@effect::text[])[n], (@sender_id::uuid[])[n],
		(@received::timestamptz[])[n], (@at::timestamptz[])[n]
	from unnest(@id::uuid[]) with ordinality as u (id, n)
	on conflict (twilio_sid) do nothing
	returning *
)
select array_position(@id::uuid[], m.id), ` + send.ColumnsOfClaimed + ` from kept m`

// sqlLastWords finds the last words about consent that are recorded, and the hold by words that is in force. It runs under the lock on
// the consent row.
const sqlLastWords = `
select (
	select max(created_at) from sms_messages
	where org_id = @org and from_number = @phone and direction = 'inbound' and consent_effect in ('opt_out', 'opt_in')
		and twilio_sid <> all(@before::text[])
), exists (
	select from sms_messages
	where org_id = @org and from_number = @phone and direction = 'inbound' and consent_effect in ('opt_out', 'opt_in')
		and twilio_sid = any(@after::text[])
), (
	select max(at) from consent_events where org_id = @org and phone = @phone and source in ('operator', 'twilio_21610')
), h.unjudged_at, (
	select m.asked_at from consent_replies r join sms_messages m on m.org_id = r.org_id and m.idempotency_key = r.idempotency_key
	where r.message_id = h.asked_id
) from (values (1)) one left join holds h on h.org_id = @org and h.phone = @phone and h.unjudged_id is not null`

// sqlLastAsked finds the last messages that a person can have got before they wrote.
const sqlLastAsked = `
select body, idempotency_key from sms_messages
where org_id = @org and to_number = @phone and direction = 'outbound'
	and attempted_at <= @received and attempted_at > @received::timestamptz - interval '24 hours'
	and status not in ('rejected', 'throttled')
order by attempted_at desc limit 3`

// decide reads what was said and sent before, as far as it matters, and says what follows from a message.
func decide(ctx context.Context, tx pgx.Tx, e Entry, current consent.State, args postgres.Args) (Consequences, error) {
	var person, others, doubt, asked *time.Time
	var listed bool
	if err := tx.QueryRow(ctx, sqlLastWords, args).Scan(&person, &listed, &others, &doubt, &asked); err != nil {
		return Consequences{}, err
	}
	last := LastWords{
		Person: edge.Value(person), Listed: listed, Others: edge.Value(others),
		Doubt: edge.Value(doubt), Asked: edge.Value(asked),
	}
	follows := e.Decide(current, last, consent.Asked{})
	if !follows.ByRules {
		return follows, nil
	}
	sent, err := edge.Collect(ctx, tx, sqlLastAsked, args, pgx.RowToStructByPos[SentText])
	return e.Decide(current, last, AskedOf(sent)), err
}

// RecordInbound stores the message and applies its effect on consent in one transaction. Of two deliveries of one SID at
// the same time, one is refused by the unique SID, undoes everything and reads what the other stored.
func (s *Store) RecordInbound(ctx context.Context, e Entry) (m send.Message, err error) {
	defer edge.Mark(&err)
	if e.Plain() && !e.Ahead {
		if m, kept, err := s.keepPlain(ctx, e); kept || err != nil {
			return m, err
		}
	}
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		m, err = s.record(ctx, tx, e)
		return err
	})
	if postgres.IsUniqueViolation(err, "sms_messages_twilio_sid_key") {
		return send.OneMessage(ctx, s.pool, sqlRepeat, argsOf(e))
	}
	return m, err
}

// keepPlain keeps a message that nothing follows from, unless its SID is kept already.
func (s *Store) keepPlain(ctx context.Context, e Entry) (_ send.Message, kept bool, err error) {
	args := argsOf(e)
	args["effect"] = consent.None.String()
	var m send.Message
	var rows int
	err = s.hot.Do(ctx, e.From.String(), postgres.Statement{
		SQL: sqlKeepPlain, Args: args, Rows: &rows, Read: func(row pgx.CollectableRow) (err error) {
			m, err = send.ReadMessage(row)
			return err
		},
	})
	if err != nil || rows == 0 {
		return send.Message{}, false, err
	}
	return m, true, nil
}

func argsOf(e Entry) postgres.Args {
	hash := sha256.Sum256([]byte(e.Body))
	return postgres.Args{
		"id": e.ID, "org": e.OrgID, "profile": edge.Null(e.ProfileID), "phone": e.From.String(), "to": e.To, "body": e.Body,
		"hash": hash[:], "sid": e.SID, "segments": e.Segments, "at": e.At, "received": e.ReceivedAt, "ahead": edge.Null(e.Ahead),
		"sender_id": edge.Null(e.SenderID), "before": notNil(e.Before), "after": notNil(e.After),
	}
}

// notNil is a list that is no null in SQL.
func notNil(sids []string) []string { return append([]string{}, sids...) }

func (s *Store) record(ctx context.Context, tx pgx.Tx, e Entry) (send.Message, error) {
	args := argsOf(e)
	if m, found, err := send.FindMessage(ctx, tx, sqlRepeat, args); err != nil || found {
		return m, err
	}
	current, err := ledger.Lock(ctx, tx, args)
	if err != nil {
		return send.Message{}, err
	}
	follows, err := decide(ctx, tx, e, current, args)
	if err != nil {
		return send.Message{}, err
	}
	args["effect"], args["lifts"] = follows.Effect.String(), edge.Null(follows.LiftsHold)
	args["reminders"], args["tips"] = storedSwitch(follows.Preferences.Reminders), storedSwitch(follows.Preferences.Tips)
	m, err := send.OneMessage(ctx, tx, sqlInsertInbound, args)
	if err != nil {
		return send.Message{}, err
	}
	return m, s.follow(ctx, tx, e, follows, args)
}

// follow writes what follows from a message that is stored: its reply, the ledger, the hold, Twilio's block and the reminders.
func (s *Store) follow(ctx context.Context, tx pgx.Tx, e Entry, follows Consequences, args postgres.Args) error {
	var asks uuid.UUID
	if follows.Reply != nil {
		kept, err := keepReply(ctx, tx, *follows.Reply)
		if err != nil {
			return err
		}
		if follows.Reply.Kind == AskWhether {
			asks = follows.Reply.MessageID
		}
		if !kept && follows.Event != nil { // the ledger states no confirmation that is not given
			follows.Event.ConfirmedBy, follows.Event.Confirmation = ledger.Unconfirmed, ""
		}
	}
	if follows.Event != nil {
		event := ledger.Change{OrgID: e.OrgID, Phone: e.From.String(), Event: *follows.Event, Always: follows.LiftsHold}
		if err := ledger.WriteChange(ctx, tx, event); err != nil {
			return err
		}
		if follows.Event.State == consent.OptedIn { // their STOP from before an erasure is over, also when this ledger is lost
			if err := s.ledger.Unsuppress(ctx, tx, e.OrgID, e.From.String()); err != nil {
				return err
			}
		}
	}
	switch {
	case follows.Hold():
		args["asked"] = edge.Null(asks)
		if err := ledger.HoldByWords(ctx, tx, args); err != nil {
			return err
		}
	case follows.EndHold():
		if err := ledger.JudgeWordsIn(ctx, tx, args); err != nil {
			return err
		}
	}
	if follows.Carrier == consent.Blocks || follows.Carrier == consent.Lifts {
		args["blocks"] = follows.Carrier == consent.Blocks
		if err := ledger.CarrierBlocks(ctx, tx, args); err != nil {
			return err
		}
	}
	if follows.Reminders != nil {
		return ledger.KeepReminders(ctx, tx, *follows.Reminders)
	}
	return nil
}

const sqlRecordedSIDs = `
select twilio_sid from sms_messages where twilio_sid = any(@sids) and direction = 'inbound' and awaits_onboarding is null`

// RecordedSIDs returns those of the SIDs that RecordInbound has stored for onboarding.
func (s *Store) RecordedSIDs(ctx context.Context, sids []string) (recorded []string, err error) {
	if len(sids) == 0 {
		return nil, nil
	}
	defer edge.Mark(&err)
	return edge.Collect(ctx, s.pool, sqlRecordedSIDs, postgres.Args{"sids": sids}, pgx.RowTo[string])
}
