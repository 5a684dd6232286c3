package inbound

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/consent/ledger"
	"paceline.internal/services/messaging/edge"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sms"
)

// sqlKeepReply stores what a message is answered with. A hold asks one question, at its beginning. Of the calls for help of one person, and
// of their opt-outs, one in a while is answered. An opt-out without a confirmation that was sent, such as one that was taken back, does not
// count.
const sqlKeepReply = `
insert into consent_replies (message_id, org_id, phone, kind, body, idempotency_key, created_at, expires_at, due_at)
select @message, @org, @phone, @kind, @body, @key, @at, @expires, @due
where not exists (select from consent_replies where org_id = @org and phone = @phone and kind = @kind and created_at > @since
	and kind <> 'ask' and (kind = 'help' or outcome = '` + string(send.Accepted) + `'))`

// keepReply reports whether the reply is one of those that are given.
func keepReply(ctx context.Context, tx pgx.Tx, r Reply) (kept bool, err error) {
	pause := HelpPause
	if r.Kind == ConfirmStop {
		pause = StopPause
	}
	done, err := tx.Exec(ctx, sqlKeepReply, postgres.Args{
		"message": r.MessageID, "org": r.OrgID, "phone": r.Phone.String(), "kind": string(r.Kind), "body": r.Body, "key": r.Key,
		"at": r.CreatedAt, "expires": r.ExpiresAt, "due": r.DueAt, "since": r.CreatedAt.Add(-pause),
	})
	return done.RowsAffected() > 0, err
}

// sqlClaimReplies takes what is due from under the hands of other processes.
const sqlClaimReplies = `
with due as (
	select message_id from consent_replies where due_at <= @now order by due_at limit @limit for update skip locked
)
update consent_replies r set due_at = @until
from due join sms_messages m on m.id = due.message_id
where r.message_id = due.message_id
returning r.message_id, r.org_id, m.profile_id, r.phone, r.kind, r.body, r.idempotency_key, r.created_at, r.expires_at, r.due_at`

type replyRow struct {
	MessageID      uuid.UUID
	OrgID          uuid.UUID
	ProfileID      *uuid.UUID
	Phone          string
	Kind           string
	Body           string
	IdempotencyKey string
	CreatedAt      time.Time
	ExpiresAt      time.Time
	DueAt          time.Time
}

// ClaimReplies takes at most limit replies that are due, and makes them due again at until.
func (s *Store) ClaimReplies(ctx context.Context, now, until time.Time, limit int) (due []Reply, err error) {
	defer edge.Mark(&err)
	rows, err := s.pool.Query(ctx, sqlClaimReplies, postgres.Args{"now": now, "until": until, "limit": limit})
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(found pgx.CollectableRow) (Reply, error) {
		r, err := pgx.RowToStructByName[replyRow](found)
		if err != nil {
			return Reply{}, err
		}
		phone, err := sms.StoredPhone(r.Phone)
		return Reply{
			MessageID: r.MessageID, OrgID: r.OrgID, ProfileID: edge.Value(r.ProfileID), Phone: phone, Kind: ReplyKind(r.Kind), Body: r.Body,
			Key: r.IdempotencyKey, CreatedAt: r.CreatedAt.UTC(), ExpiresAt: r.ExpiresAt.UTC(), DueAt: r.DueAt.UTC(),
		}, err
	})
}

const sqlSettleReply = `
update consent_replies set due_at = @due, outcome = @outcome where message_id = @reply_to and due_at is not null`

// sqlConfirmed writes the confirmation or question that was sent into the ledger, whatever has been said since: the state stays as it is.
const sqlConfirmed = `
insert into consent_events (org_id, phone, at, state, source, words, sender, message_id)
select org_id, phone, @at, state, @source, @words, @sender, @message from consents where org_id = @org and phone = @phone`

// sources names the source of the ledger's line for a reply that was sent.
var sources = map[ReplyKind]ledger.Source{ConfirmStop: ledger.FromReply, AskWhether: ledger.FromQuestion}

// SettleReply keeps how a reply ended, unless it was settled before, and writes a confirmation or question that was sent into
// the ledger.
func (s *Store) SettleReply(ctx context.Context, r Reply) (err error) {
	defer edge.Mark(&err)
	return postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		args := postgres.Args{
			"reply_to": r.MessageID, "org": r.OrgID, "phone": r.Phone.String(), "due": edge.Null(r.DueAt), "outcome": r.Outcome,
		}
		if _, err := ledger.Lock(ctx, tx, args); err != nil {
			return err
		}
		done, err := tx.Exec(ctx, sqlSettleReply, args)
		source, isLine := sources[r.Kind]
		if err != nil || done.RowsAffected() == 0 || r.SentAs == nil || !isLine {
			return err
		}
		args["source"] = string(source)
		args["at"], args["words"], args["sender"], args["message"] = r.SentAs.AcceptedAt, r.SentAs.Body, r.SentAs.From, r.SentAs.ID
		return edge.Exec(ctx, tx, sqlConfirmed, args)
	})
}
