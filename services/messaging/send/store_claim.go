package send

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/consent/ledger"
	"paceline.internal/services/messaging/edge"
	"paceline.internal/services/messaging/sms"
)

// claimRounds bounds Claim: consent may come and go between its statements, but not for ever.
const claimRounds = 4

var errClaimContended = fmt.Errorf("%w: consent kept changing during the claim", sms.ErrUnavailable)

// A claim is one statement: what permits it, and then sqlInsert or sqlRenew. The consent row is locked against a STOP that commits at this
// moment, so the STOP comes before the claim, which then finds nothing permitted, or after it. The row lock waits, and reads the opted-in
// test again. A hold, and reminders that are off, are rows of other tables: against those the phone is locked, see claimed. A cap follows.
const sqlPermitted = `
	join consents c on c.org_id = u.org and c.phone = u.recipient
	where c.state = 'opted_in' and not (` + ledger.SQLHeld + `) and not (` + ledger.SQLRemindersOff + `) and not (` + ledger.SQLErased + `)
		and not (` + sqlSuspended + `) and not ` + sqlStopped + ` and not ` + sqlUnclaimed + `
		and not `

// sqlPermittedConfirmation has the one exception to what may be sent: a message to a person who has opted out, in the words that were
// written into the ledger together with that opt-out, under the one key that was stored with it, in its time, and only while that
// opt-out is the last line of the ledger. The length of the ledger is read again when the lock is had, so a START or a second STOP
// that commits at this moment forbids it.
const sqlPermittedConfirmation = `
	join consents c on c.org_id = u.org and c.phone = u.recipient
	where c.state = 'opted_out' and c.chain_length = (
		select e.seq from consent_events e
		where e.org_id = u.org and e.phone = u.recipient and e.message_id = u.confirms and e.source = 'inbound' and e.state = 'opted_out'
			and e.confirmation = (@body::text[])[u.n]
	) and exists (
		select from consent_replies r
		where r.message_id = u.confirms and r.kind = 'stop' and r.idempotency_key = u.key and r.expires_at > u.at
	) and not ` + sqlStopped + ` and not ` + sqlUnclaimed

// sqlAttempts lists the attempts, with what the conditions read. sqlAttemptsInTurn adds what the attempts before each may send. The offset
// keeps the values columns: for the planner each expression makes an index dearer, and it would take an index with fewer of the columns.
const (
	sqlAttempts = `unnest(@id::uuid[]) with ordinality i (id, n) cross join lateral (
		select i.n, (@org::uuid[])[i.n] as org, (@profile::uuid[])[i.n] as profile, (@to::text[])[i.n] as recipient,
		(@key::text[])[i.n] as key, (@segments::int[])[i.n] as segments, (@at::timestamptz[])[i.n] as at, (@confirms::uuid[])[i.n] as confirms,
		(@despite_hold::boolean[])[i.n] as despite_hold, (@hold_version::bigint[])[i.n] as hold_version,
		(@reminds::boolean[])[i.n] as reminds, (@hour_since::timestamptz[])[i.n] as hour_since,
		(@hour_messages::int[])[i.n] as hour_messages, (@hour_segments::int[])[i.n] as hour_segments,
		(@day_since::timestamptz[])[i.n] as day_since, (@day_messages::int[])[i.n] as day_messages,
		(@day_segments::int[])[i.n] as day_segments, (@hour::timestamptz[])[i.n] as hour, (@org_messages::int[])[i.n] as org_messages,
		(@org_segments::int[])[i.n] as org_segments, (@prefix::text[])[i.n] as prefix, (@prefix_messages::int[])[i.n] as prefix_messages,
		(@prefix_segments::int[])[i.n] as prefix_segments, (@pseudonym::text[])[i.n] as pseudonym, (@sender_id::uuid[])[i.n] as sender_id,
		(@process::uuid[])[i.n] as process, (@beat::bigint[])[i.n] as beat, (@anew::boolean[])[i.n] as anew offset 0)`
	sqlAttemptsInTurn = `(select a.*, ` + sqlBefore + ` from ` + sqlAttempts + ` a` + sqlWindows + `)` //nolint:unqueryvet // a is no table
)

// permitted begins a claim: it selects the attempts u that a condition permits.
func permitted(attempts, condition string) string {
	return `
with permitted as (
	select u.n, u.org, u.key from ` + attempts + ` u` + condition + `
	for share of c
)`
}

// sqlInsert makes a new row, once for each key. It does not look for the key itself: Postgres keeps the plan of a statement until the table
// is analyzed, and one that it has made for the empty table of a new database reads the whole table, ever longer, for each message.
const sqlInsert = `
insert into sms_messages (id, org_id, profile_id, direction, from_number, to_number, body, body_hash, idempotency_key, status,
	segments, correlation_id, unknown_policy, attempt_token, attempted_at, lease_until, attempts, sender_id, created_at, updated_at)
select (@id::uuid[])[n], (@org::uuid[])[n], (@profile::uuid[])[n], 'outbound', (@from::text[])[n], (@to::text[])[n], (@body::text[])[n],
	(@hash::bytea[])[n], (@key::text[])[n], 'sending', (@segments::int[])[n], (@correlation::text[])[n], (@policy::text[])[n],
	(@token::uuid[])[n], (@at::timestamptz[])[n], (@lease::timestamptz[])[n], 1, (@sender_id::uuid[])[n], (@at::timestamptz[])[n],
	(@at::timestamptz[])[n]
from permitted
on conflict (org_id, idempotency_key) do nothing
returning `

// sqlRenew makes a new attempt on the row of this very send, if Twilio certainly did not process the last one: by the same sender, or by
// another where that one sends no more. It locks no row that cannot
// be taken: a caller that asks again of a message that another transaction has locked must not hold up the words of its recipient.
var sqlRenew = `
update sms_messages m
set status = 'sending', from_number = (@from::text[])[p.n], sender_id = (@sender_id::uuid[])[p.n], throttled_sender = null,
	body = (@body::text[])[p.n], error_code = null, attempt_token = (@token::uuid[])[p.n], attempted_at = (@at::timestamptz[])[p.n],
	lease_until = (@lease::timestamptz[])[p.n], attempts = m.attempts + 1, absent_since = null, next_look_at = null, looks = 0,
	failing_since = null, failed_looks = 0, updated_at = (@at::timestamptz[])[p.n]
from permitted p
where m.org_id = p.org and m.idempotency_key = p.key and m.to_number = (@to::text[])[p.n]
	and m.body_hash = (@hash::bytea[])[p.n] and m.status = 'throttled' and m.twilio_sid is null
	and m.lease_until <= (@at::timestamptz[])[p.n]
returning p.n, ` + ColumnsOfClaimed

// The statements of a claim: each send runs one, so they are put together once.
var (
	sqlClaim = permitted(sqlAttempts, sqlPermitted+sqlPhoneCapped) + sqlInsert + sqlPlaceOfMessage
	// Where an organisation or a prefix has a cap, what is claimed is counted.
	sqlClaimCounted = permitted(sqlAttemptsInTurn, sqlPermitted+sqlCapped) + `, claimed as (` + sqlInsert + `*
)` + sqlCount + `
select ` + sqlPlaceOfMessage + ` from claimed`
	sqlClaimAgain             = permitted(sqlAttemptsInTurn, sqlPermitted+sqlCapped) + sqlRenew
	sqlClaimConfirmation      = permitted(sqlAttempts, sqlPermittedConfirmation) + sqlInsert + sqlPlaceOfMessage
	sqlClaimConfirmationAgain = permitted(sqlAttempts, sqlPermittedConfirmation) + sqlRenew
)

// sqlPlaceOfMessage finds the attempt of a new row.
const sqlPlaceOfMessage = `array_position(@id::uuid[], id)`

// SQLByKey reads the message of an idempotency key.
const SQLByKey = `select ` + Columns + ` from sms_messages where org_id = @org and idempotency_key = @key`

var sqlRefused = `
select case when ` + ledger.SQLErased + ` then 'opted_out'
	else coalesce(c.state, case when f.since is not null then 'opted_out' end, '') end,
	` + ledger.SQLHeld + `, ` + ledger.SQLRemindersOff + `, coalesce(c.updated_at, f.since),
	(select coalesce(h.unjudged_at, h.updated_at) from holds h where h.org_id = u.org and h.phone = u.recipient),
	(select h.unjudged_id from holds h where h.org_id = u.org and h.phone = u.recipient),
	(select r.updated_at from reminder_preferences r where r.org_id = u.org and r.phone = u.recipient),
	(select o.updated_at from organisations o where o.org_id = u.org and ` + sqlSuspended + `),
	` + sqlFull + `, ` + sqlStopped + `
from (select @org::uuid as org, @profile::uuid as profile, @to::text as recipient, @despite_hold::boolean as despite_hold,
	@process::uuid as process, @beat::bigint as beat, @sender_id::uuid as sender_id,
	@hold_version::bigint as hold_version, @reminds::boolean as reminds, @key::text as key,
	` + sqlLimits + `) u
cross join lateral (select ` + ledger.SQLSuppressed + ` as since) f
left join consents c on c.org_id = u.org and c.phone = u.recipient`

// Claim takes the row of an attempt, in one statement, if the recipient has not opted out, is not held and wants such messages, no cap is
// full and the organisation is not suspended: a new row if the key is new, else the row with the key, if Twilio did not process its last
// attempt. Otherwise it reports that row, and what stands in the way.
func (s *Store) Claim(ctx context.Context, a Attempt) (claim Claim, err error) {
	defer edge.Mark(&err)
	args, sql, renewal := s.claimArgs(a), sqlClaim, sqlClaimAgain
	if a.Limits.Shared() {
		sql = sqlClaimCounted
	}
	switch {
	case a.Confirms != uuid.Nil:
		sql, renewal = sqlClaimConfirmation, sqlClaimConfirmationAgain
	case args["words"] != "":
		if err := s.ledger.KeepConsent(ctx, args); err != nil {
			return Claim{}, err
		}
	}
	for range claimRounds {
		m, won, err := s.claimed(ctx, a, sql, args)
		if err != nil || won {
			return Claim{Won: won, Message: &m}, err
		}
		found, state, err := s.lookUp(ctx, a, args)
		claim, took, others := found.Claim, false, false
		if unsent := claim.Message == nil || claim.Message.Status == sms.Throttled; err == nil && unsent && args["anew"] == false {
			m, took, others, err = s.claimFound(ctx, a, claim.Message, args)
			args["anew"] = others // what Twilio has, has other words
		}
		switch there := claim.Message != nil; {
		case err != nil:
			return Claim{}, err
		case took:
			claim.Message = &m
			return s.resume(ctx, claim, a)
		case there && !claim.Message.Accepted() && (sql != renewal || others):
			sql = renewal // what was read is only a hint; the statement decides on the newest row
		case there:
			return s.resume(ctx, claim, a)
		case found.Stopped:
			return Claim{}, ErrStopped
		case claim.OptedOut, claim.Held, claim.RemindersOff, claim.Suspended, !claim.Exceeded.Until().IsZero():
			return claim, nil
		case others:
		case state == "":
			if err := s.ledger.FirstConsent(ctx, args); err != nil {
				return Claim{}, err
			}
		}
	}
	return Claim{}, errClaimContended
}

// resume goes on with a row that was there before: one that this very attempt holds is won, an abandoned one becomes unknown.
func (s *Store) resume(ctx context.Context, claim Claim, a Attempt) (Claim, error) {
	switch m := *claim.Message; {
	case !m.Matches(a):
		return Claim{}, ErrKeyReused
	case m.HeldBy(a):
		claim.Won = true
	case m.Abandoned(a.At):
		expired, done, err := FindMessage(ctx, s.pool, sqlExpire, postgres.Args{
			"id": m.ID, "token": m.AttemptToken, "now": a.At, "over": a.At.Add(-a.Timeout),
		})
		if done {
			claim.Message = &expired
		}
		return claim, err
	}
	return claim, nil
}

// claimed runs a claim under the phone's lock, in one transaction and one round trip, which claims for other phones may share. The lock is
// its own statement, so that the claim sees what was committed by the transaction that had it before.
func (s *Store) claimed(ctx context.Context, a Attempt, sql string, args postgres.Args) (m Message, won bool, err error) {
	var claimed int
	var read Message
	statements := []postgres.Statement{{SQL: ledger.SQLLocks, Args: postgres.Args{"org": a.OrgID, "phone": a.To.String()}}}
	if a.Limits.Shared() {
		statements = append(statements, postgres.Statement{SQL: sqlCountLocks, Args: postgres.Args{"org": a.OrgID}})
	}
	err = s.hot.Do(ctx, a.OrgID.String()+a.To.String(), append(statements,
		postgres.Statement{SQL: sql, Args: args, Rows: &claimed, Read: func(row pgx.CollectableRow) (err error) {
			if len(row.FieldDescriptions()) == 0 { // a new row
				read = a.stored()
				return nil
			}
			read, err = ReadMessage(row)
			return err
		}},
	)...)
	if err != nil || claimed == 0 {
		return Message{}, false, err
	}
	return read, true, nil
}

// stored is the message that sqlInsert makes of an attempt, as ReadMessage would read it.
func (a Attempt) stored() Message {
	at := a.At.UTC().Truncate(time.Microsecond)
	return Message{
		ID: a.MessageID, OrgID: a.OrgID, ProfileID: a.ProfileID, Direction: Outbound, SenderID: a.Sender.ID, From: a.Sender.From(),
		To: a.To.String(), Body: string(a.Body), BodyHash: a.BodyHash, Key: a.Key, Status: sms.Sending, Segments: a.Segments,
		CorrelationID: a.CorrelationID, AttemptToken: a.Token, AttemptedAt: at, LeaseUntil: a.LeaseUntil.UTC().Truncate(time.Microsecond),
		Attempts: 1, UnknownPolicy: a.UnknownPolicy, CreatedAt: at, UpdatedAt: at,
	}
}

// Look returns what a claim would find, without making one.
func (s *Store) Look(ctx context.Context, a Attempt) (found ClaimPreview, err error) {
	defer edge.Mark(&err)
	found, _, err = s.lookUp(ctx, a, s.claimArgs(a))
	return found, err
}

// lookUp returns why a claim was not won. The state is empty when nothing is recorded about the recipient. That the recipient has opted out
// does not stand in the way of the confirmation of just that; without a row it may not be sent, for whatever reason.
func (s *Store) lookUp(ctx context.Context, a Attempt, args postgres.Args) (preview ClaimPreview, state consent.State, err error) {
	m, found, err := FindMessage(ctx, s.pool, SQLByKey, args)
	if err != nil {
		return ClaimPreview{}, "", err
	}
	if found {
		preview.Message = &m
	}
	if a.Confirms != uuid.Nil {
		preview.OptedOut = !found
		err = s.pool.QueryRow(ctx, sqlIsStopped, args).Scan(&preview.Stopped)
		return preview, "", err
	}
	var consented, held, reminded, suspended, hour, ofDay, org, prefix, newest *time.Time
	var unjudged *uuid.UUID
	err = s.pool.QueryRow(ctx, sqlRefused, args).Scan(&state, &preview.Held, &preview.RemindersOff, &consented, &held, &unjudged,
		&reminded, &suspended,
		&hour, &ofDay, &org, &prefix, &newest, &preview.Stopped)
	if err != nil {
		return ClaimPreview{}, "", err
	}
	preview.Exceeded = ExceededCaps{
		PhoneHour: edge.Value(hour), PhoneDay: edge.Value(ofDay), OrgHour: edge.Value(org), PrefixHour: edge.Value(prefix),
	}
	preview.NewestAt, preview.Unjudged = edge.Value(newest), edge.Value(unjudged)
	preview.ConsentSince, preview.HoldSince, preview.RemindersSince = edge.Value(consented), edge.Value(held), edge.Value(reminded)
	preview.Suspended, preview.SuspendedSince = suspended != nil, edge.Value(suspended)
	preview.OptedOut = state == consent.OptedOut
	return preview, state, nil
}

func (s *Store) claimArgs(a Attempt) postgres.Args {
	source, words := ledger.FromElsewhere, a.Consent.Words()
	if words != "" {
		source = ledger.FromFirstSend
	}
	l := a.Limits
	var process uuid.UUID
	var beat int64
	if s.Beat != nil {
		process, beat = s.Beat()
	}
	return s.ledger.Named(postgres.Args{
		"source": string(source), "words": words,
		"id": a.MessageID, "org": a.OrgID, "profile": edge.Null(a.ProfileID), "from": a.Sender.From(),
		"sender_id": edge.Null(a.Sender.ID), "to": a.To.String(), "body": string(a.Body),
		"phone": a.To.String(), "hash": a.BodyHash[:], "key": a.Key, "segments": a.Segments, "correlation": a.CorrelationID,
		"policy": string(a.UnknownPolicy), "token": a.Token, "lease": a.LeaseUntil, "at": a.At, "confirms": edge.Null(a.Confirms),
		"despite_hold": a.DespiteHold, "hold_version": a.HoldVersion, "reminds": a.Reminds(),
		"process": edge.Null(process), "beat": beat, "anew": false,
		"hour_since": a.At.Add(-time.Hour), "hour_messages": l.PhoneHour.Messages, "hour_segments": l.PhoneHour.Segments,
		"day_since": a.At.Add(-day), "day_messages": l.PhoneDay.Messages, "day_segments": l.PhoneDay.Segments,
		"hour": a.At.UTC().Truncate(time.Hour), "org_messages": l.OrgHour.Messages, "org_segments": l.OrgHour.Segments,
		"prefix": l.PrefixHour.Prefix, "prefix_messages": l.PrefixHour.Messages, "prefix_segments": l.PrefixHour.Segments,
	}, a.OrgID, a.To.String())
}

// sqlExpire makes an abandoned row unknown, and due to be checked at once; but not before it is quiet, because a STOP waits for what is
// being sent, and not for what is in doubt.
const sqlExpire = `
update sms_messages set status = 'unknown', next_look_at = @now, looks = 0, updated_at = @now
where id = @id and attempt_token = @token and status = 'sending' and lease_until <= @over
returning ` + Columns

const sqlByID = `select ` + Columns + ` from sms_messages where id = @id`

const sqlByIDForUpdate = sqlByID + ` for no key update`
