package send

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/process"
	"paceline.internal/services/messaging/edge"
	"paceline.internal/services/messaging/twilio"
)

// sqlStopped is true of a claim u while nothing may be sent for its organisation: the database is of a history that nobody has noted, or
// behind what the process has seen committed, or Twilio's record is still to be read back. It is part of the claim, so that no claim falls
// between a look and a send. A database that no process of this release has opened knows no history.
const sqlStopped = `((select current_history()) not in (select name from histories) and exists (select from histories)
	or u.process is not null and not exists (select from beats b where b.process = u.process and b.n >= u.beat)
	or exists (select from readbacks r where r.org_id = u.org and r.ended_at is null
		and (r.settling or r.senders is null or coalesce(u.sender_id, '00000000-0000-0000-0000-000000000000') = any(r.senders))))`

const sqlIsStopped = `select ` + sqlStopped + ` from (
	select @org::uuid as org, @process::uuid as process, @beat::bigint as beat, @sender_id::uuid as sender_id) u`

// sqlUnclaimed is true of a claim u to a person to whom Twilio has messages that nobody has claimed yet: this may be one of them.
const sqlUnclaimed = `(not u.anew and exists (select from sms_messages r
	where r.org_id = u.org and r.to_number = u.recipient and r.unclaimed_until > u.at))`

const sqlUnclaimedOf = `
select ` + Columns + ` from sms_messages
where org_id = @org and to_number = @to and unclaimed_until > @at order by created_at, id limit 100`

// sqlAdopt gives an unclaimed message the key of the send that made it.
const sqlAdopt = `
update sms_messages
set unclaimed_until = null, idempotency_key = @key, body = @body, body_hash = @hash, profile_id = coalesce(@profile, profile_id),
	correlation_id = @correlation, unknown_policy = @policy, updated_at = @at
where id = @unclaimed and unclaimed_until is not null
	and not exists (select from sms_messages o where o.org_id = @org and o.idempotency_key = @key)
returning ` + Columns

// sqlYield gives up the key of a row, the last attempt of which Twilio did not process: a later attempt was lost with its commit.
const sqlYield = `
update sms_messages set idempotency_key = '` + unclaimedKeys + `' || id, updated_at = @at
where org_id = @org and idempotency_key = @key and status = 'throttled' and twilio_sid is null`

// errTaken is an unclaimed message that another send has claimed meanwhile.
var errTaken = errors.New("the message was claimed meanwhile")

// claimFound takes the oldest unclaimed message with the words of an attempt for the message of that attempt. None says whether there are
// others to that person. What Twilio has from before the row of the key was made is of another key.
func (s *Store) claimFound(ctx context.Context, a Attempt, row *Message, args postgres.Args) (m Message, found, others bool, err error) {
	waiting, err := messages(ctx, s.pool, sqlUnclaimedOf, args)
	if err != nil {
		return Message{}, false, false, err
	}
	for _, w := range waiting {
		if !isSendOf(w, a) || row != nil && w.CreatedAt.Before(row.CreatedAt.Add(-clockTolerance)) {
			continue
		}
		args["unclaimed"] = w.ID
		err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) (err error) {
			if err = edge.Exec(ctx, tx, sqlYield, args); err == nil {
				m, found, err = FindMessage(ctx, tx, sqlAdopt, args)
			}
			if err == nil && !found {
				err = errTaken // the row keeps its key
			}
			return err
		})
		if errors.Is(err, errTaken) {
			err = nil
		}
		if err != nil || found {
			return m, found, false, err
		}
	}
	return Message{}, false, len(waiting) > 0, nil
}

const sqlKnownSIDs = `select twilio_sid from sms_messages where twilio_sid = any(@sids)`

// sqlDoubtful reads what may be at Twilio without our knowing its SID.
const sqlDoubtful = `
select ` + Columns + ` from sms_messages
where direction = 'outbound' and status in ('sending', 'unknown', 'parked', 'given_up') and twilio_sid is null
	and org_id = @org and to_number = any(@to)`

// sqlKeepUnclaimed stores messages that Twilio has, each once for its SID.
const sqlKeepUnclaimed = `
insert into sms_messages (id, org_id, profile_id, direction, from_number, to_number, body, body_hash, idempotency_key, status, twilio_sid,
	error_code, segments, correlation_id, unknown_policy, attempt_token, attempted_at, lease_until, attempts, next_look_at, looks, accepted_at,
	asked_at, sender_id, unclaimed_until, created_at, updated_at)
values (@id, @org, (select profile_id from sms_messages where org_id = @org and to_number = @to and profile_id is not null
		order by id desc limit 1), 'outbound', @from, @to, @body, @hash, @key, @status, @sid,
	@code, @segments, @correlation, @policy, @token, @attempted, @lease, @attempts, @look, @looks, @accepted, @asked, @sender_id, @unclaimed,
	@created, @updated)
on conflict do nothing`

// Lost returns those messages that Twilio has and no row is about, as they can be stored.
func (s *Store) Lost(ctx context.Context, orgID uuid.UUID, sent []twilio.Sent) (lost []twilio.Sent, err error) {
	defer edge.Mark(&err)
	sids, numbers := []string{}, []string{}
	for i, m := range sent {
		m.SID, m.To, m.From, m.Body = Storable(m.SID), Storable(m.To), Storable(m.From), Storable(m.Body)
		sent[i] = m
		sids, numbers = append(sids, m.SID), append(numbers, m.To)
	}
	args := postgres.Args{"org": orgID, "sids": sids, "to": numbers}
	found, err := edge.Collect(ctx, s.pool, sqlKnownSIDs, args, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, sid := range found {
		known[sid] = true
	}
	doubtful, err := messages(ctx, s.pool, sqlDoubtful, args)
	if err != nil {
		return nil, err
	}
	return Lost(sent, known, doubtful), nil
}

// KeepLost stores what Lost returns, and reports how many.
func (s *Store) KeepLost(
	ctx context.Context, orgID uuid.UUID, sent []twilio.Sent, row func(twilio.Sent) Message, at time.Time,
) (kept int, err error) {
	defer edge.Mark(&err)
	all, err := s.Lost(ctx, orgID, sent)
	if err != nil {
		return 0, err
	}
	for _, lost := range all {
		args := rowArgs(row(lost))
		args["unclaimed"] = at.Add(UnclaimedFor)
		tag, err := s.pool.Exec(ctx, sqlKeepUnclaimed, args)
		if err != nil {
			return kept, err
		}
		kept += int(tag.RowsAffected())
		process.Progress(ctx)
	}
	return kept, nil
}

// rowArgs are all that a message has.
func rowArgs(m Message) postgres.Args {
	args := updateArgs(m)
	maps.Copy(args, postgres.Args{
		"org": m.OrgID, "profile": edge.Null(m.ProfileID), "to": m.To, "body": m.Body, "hash": m.BodyHash[:], "key": m.Key,
		"correlation": m.CorrelationID, "policy": string(m.UnknownPolicy), "token": m.AttemptToken, "attempted": m.AttemptedAt,
		"attempts": m.Attempts, "sender_id": edge.Null(m.SenderID), "created": m.CreatedAt,
	})
	return args
}

// sqlRestore writes the row of an attempt that the database has lost.
const sqlRestore = `
insert into sms_messages (id, org_id, profile_id, direction, from_number, to_number, body, body_hash, idempotency_key, status, segments,
	correlation_id, unknown_policy, attempt_token, attempted_at, lease_until, attempts, sender_id, created_at, updated_at)
values (@id, @org, @profile, 'outbound', @from, @to, @body, @hash, @key, 'sending', @segments, @correlation, @policy, @token, @attempted,
	@lease, @attempts, @sender_id, @created, @updated)
on conflict do nothing
returning ` + Columns

// sqlTakeOver gives an unclaimed message, which was found at Twilio meanwhile, the key of the attempt that made it.
const sqlTakeOver = `
update sms_messages
set unclaimed_until = null, idempotency_key = @key, profile_id = coalesce(@profile, profile_id), body = @body, body_hash = @hash,
	correlation_id = @correlation, unknown_policy = @policy, attempt_token = @token, updated_at = @updated
where twilio_sid = @sid and unclaimed_until is not null
	and not exists (select from sms_messages o where o.org_id = @org and o.idempotency_key = @key)
returning ` + Columns

// restore brings back the row of an attempt that was claimed in a history that is gone, while the attempt was under way.
func restore(ctx context.Context, tx pgx.Tx, claimed Message, sid string) (Message, error) {
	args := rowArgs(claimed)
	args["sid"] = edge.Null(sid)
	m, found, err := FindMessage(ctx, tx, sqlTakeOver, args)
	if err == nil && !found {
		m, found, err = FindMessage(ctx, tx, sqlRestore, args)
	}
	if err == nil && !found {
		err = errNoRow // its key is another attempt's by now
	}
	return m, err
}
