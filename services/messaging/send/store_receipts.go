package send

import (
	"context"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/edge"
	"paceline.internal/services/messaging/sms"
)

// sqlAbout finds the messages that a receipt could be about: the one that it names and the one that has its SID.
const sqlAbout = `
select ` + Columns + ` from sms_messages
where direction = 'outbound' and (id = @id or twilio_sid = @sid)
order by id for no key update`

// sqlKeepReceipts keeps receipts as they came, each distinct one once; without an id they are about not ours.
const sqlKeepReceipts = `
insert into sms_receipts (message_id, org_id, twilio_sid, status, error_code, raw, received_at)
select message, (select m.org_id from sms_messages m where m.id = message), sid, status, code, raw, at
from unnest(@id::uuid[], @reported_sid::text[], @reported::text[], @reported_code::int[], @raw::jsonb[], @at::timestamptz[])
	u (message, sid, status, code, raw, at)
on conflict (twilio_sid, status, error_code) do nothing`

// receiptArgs are the arguments of a receipt that is about a message; uuid.Nil when it is about not ours.
func receiptArgs(args postgres.Args, messageID uuid.UUID, r Receipt) postgres.Args {
	args["id"], args["reported_sid"], args["reported"], args["reported_code"] = edge.Null(messageID), r.SID, r.Status, r.ErrorCode
	args["raw"], args["at"] = r.Raw, r.At
	return args
}

// keep stores a receipt as it came; messageID is uuid.Nil when it is about not ours.
func keep(ctx context.Context, tx pgx.Tx, messageID uuid.UUID, r Receipt) error {
	return edge.Exec(ctx, tx, sqlKeepReceipts, receiptArgs(postgres.Args{}, messageID, r).Each())
}

// sqlAboutAlone finds for each receipt the messages that it could be about, with the version of their rows.
const sqlAboutAlone = `
select u.n, m.*
from unnest(@id::uuid[], @sid::text[]) with ordinality u (id, sid, n) cross join lateral (
	select id from sms_messages where direction = 'outbound' and id = u.id
	union
	select id from sms_messages where direction = 'outbound' and twilio_sid = u.sid
) found cross join lateral (select ` + Columns + `, xmin::text as version from sms_messages where id = found.id limit 1) m`

// versioned is a row of sms_messages and which one it is: every change of a row changes that.
type versioned struct {
	row

	Version string
}

// sqlMerge writes messages as receipts have left them, with these receipts, of rows that are as they were read.
const sqlMerge = `
with merged as (
	update sms_messages m set ` + setFromU + `
	from unnest(@id::uuid[]) with ordinality as u (id, n)
	where m.id = u.id and m.id = any(@id::uuid[]) and m.xmin::text = (@version::text[])[u.n]
	returning u.n, m.id, m.org_id
), kept as (
	insert into sms_receipts (message_id, org_id, twilio_sid, status, error_code, raw, received_at)
	select m.id, m.org_id, (@reported_sid::text[])[m.n], (@reported::text[])[m.n], (@reported_code::int[])[m.n], (@raw::jsonb[])[m.n],
		(@at::timestamptz[])[m.n]
	from merged m
	on conflict (twilio_sid, status, error_code) do nothing
)
select n from merged`

// RecordReceipt keeps the receipt, found or not, applies Message.Receive, and returns the message after it. A late
// refusal for an opt-out is recorded in the ledger once, and not over a consent that was given after the send.
func (s *Store) RecordReceipt(ctx context.Context, r Receipt) (recorded Recorded, err error) {
	defer edge.Mark(&err)
	if !r.OptsOut() {
		recorded, done, err := s.mergeReceipt(ctx, r)
		if done || err != nil {
			return recorded, err
		}
	}
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		recorded = Recorded{}
		found, err := messages(ctx, tx, sqlAbout, postgres.Args{"id": r.MessageID, "sid": r.SID})
		if err != nil {
			return err
		}
		found = slices.DeleteFunc(found, func(m Message) bool { return !r.of(m) })
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

// mergeReceipt is RecordReceipt of a receipt that is about one message, if nothing else changes its row meanwhile, in transactions that
// others may share. Not done is any other.
func (s *Store) mergeReceipt(ctx context.Context, r Receipt) (recorded Recorded, done bool, err error) {
	var found int
	var version string
	var stored Message
	err = s.hot.Do(ctx, r.SID, postgres.Statement{
		SQL: sqlAboutAlone, Args: postgres.Args{"id": r.MessageID, "sid": r.SID}, Rows: &found, Read: func(OneMessage pgx.CollectableRow) error {
			read, err := pgx.RowToStructByName[versioned](OneMessage)
			if err != nil {
				return err
			}
			version = read.Version
			stored, err = read.message()
			return err
		},
	})
	if err != nil || found != 1 || !r.of(stored) {
		return Recorded{}, false, err
	}
	merged, changed := stored.Receive(r)
	args := receiptArgs(updateArgs(merged), merged.ID, r)
	args["version"] = version
	if !changed {
		err = s.hot.Do(ctx, stored.ID.String(), postgres.Statement{SQL: sqlKeepReceipts, Args: args})
		return Recorded{Message: &stored}, true, err
	}
	var written int
	err = s.hot.Do(ctx, stored.ID.String(), postgres.Statement{SQL: sqlMerge, Args: args, Rows: &written})
	if err != nil {
		return Recorded{}, false, err
	}
	recorded = Recorded{Message: &merged, Changed: true, Settled: stored.Status == sms.Unknown || stored.Status == sms.Parked}
	return recorded, written == 1, nil
}

// receive merges a receipt into the row that it is about, which is locked.
func receive(ctx context.Context, tx pgx.Tx, stored Message, r Receipt) (Recorded, error) {
	merged, changed := stored.Receive(r)
	if !changed {
		return Recorded{Message: &stored}, nil
	}
	recorded := Recorded{
		Message: &merged, Changed: true, Settled: stored.Status == sms.Unknown || stored.Status == sms.Parked,
	}
	if err := update(ctx, tx, merged); err != nil || !r.OptsOut() {
		return recorded, err
	}
	return recorded, optOutByReceipt(ctx, tx, merged, r)
}

// optOutByReceipt opts the recipient out of a message that a receipt says was refused for that, unless they have opted in since.
func optOutByReceipt(ctx context.Context, tx pgx.Tx, m Message, r Receipt) error {
	return optOutAtTwilio(ctx, tx, m, r.At, m.AcceptedAt)
}

// about picks the message that the receipt names, else the one with its SID. Foreign says that the SID belongs to
// another message than the one named: then the receipt tells nothing certain.
func about(found []Message, r Receipt) (m *Message, foreign bool) {
	for i := range found {
		if m == nil || found[i].ID == r.MessageID {
			m = &found[i]
		}
	}
	return m, len(found) > 1
}
