package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/inbox"
	"paceline.internal/services/messaging/send"
)

// claimRounds bounds Claim: consent may come and go between its statements, but not for ever.
const claimRounds = 4

var errClaimContended = errors.New("consent kept changing during the claim")

// A claim is one statement: what permits it, and then sqlInsert or sqlRenew. The consent row is locked against a STOP that commits at
// this moment, so the STOP comes before the claim, which then finds nothing permitted, or after it. The opted-in test is what the row lock
// waits for and reads again. A hold, and reminders that are off, are rows of other tables: against those the phone is locked, see claimed.
var sqlPermitted = sqlAttempts + `
	join consents c on c.org_id = u.org and c.phone = u.recipient
	where c.state = 'opted_in' and not (` + sqlHeld + `) and not (` + sqlRemindersOff + `) and not (` + sqlErased + `)
		and not (` + sqlCapped + `)
	for share of c
)`

// sqlAttempts begins the claims of many attempts, each of them an u.
//
//nolint:unqueryvet // u is what the statement was given, no table
var sqlAttempts = `
with permitted as (
	select u.id, u.org, u.profile, u.sender, u.recipient, u.body, u.hash, u.key, u.segments, u.correlation, u.policy, u.token, u.at,
		u.lease, u.hour, u.org_messages, u.prefix, u.prefix_messages, u.n
	from (select u.*, ` + sqlBefore + ` from unnest(@id::uuid[], @org::uuid[], @profile::uuid[], @from::text[], @to::text[],
		@body::text[], @hash::bytea[], @key::text[], @segments::int[], @correlation::text[], @policy::text[],
		@token::uuid[], @at::timestamptz[], @lease::timestamptz[], @confirms::uuid[], @despite_hold::boolean[],
		@hold_version::bigint[], @reminds::boolean[], @hour_since::timestamptz[],
		@hour_messages::int[], @hour_segments::int[], @day_since::timestamptz[], @day_messages::int[], @day_segments::int[],
		@hour::timestamptz[], @org_messages::int[], @org_segments::int[], @prefix::text[], @prefix_messages::int[],
		@prefix_segments::int[], @pseudonym::text[])
		with ordinality
		as u (id, org, profile, sender, recipient, body, hash, key, segments, correlation, policy, token, at, lease, confirms, despite_hold,
		hold_version, reminds, hour_since, hour_messages, hour_segments, day_since, day_messages, day_segments, hour, org_messages,
		org_segments, prefix, prefix_messages, prefix_segments, pseudonym, n)` + sqlWindows + `) u`

// sqlHeld is whether the recipient is held: by an operator, as far as the caller does not know better, for one that has read a later
// version of the hold has read that it is lifted; or by words of theirs that may be an opt-out.
const sqlHeld = `not u.despite_hold and exists (
	select from holds h where h.org_id = u.org and h.phone = u.recipient
		and (h.held and h.version > u.hold_version or h.unjudged_id is not null))`

// sqlRemindersOff is whether the message is a reminder to a recipient who wants none.
const sqlRemindersOff = `u.reminds and exists (
	select from reminder_preferences r where r.org_id = u.org and r.phone = u.recipient and r.off)`

// sqlPermittedConfirmation has the one exception to what may be sent: a message to a person who has opted out, in the words that were
// written into the ledger together with that opt-out, under the one key that was stored with it, in its time, and only while that
// opt-out is the last line of the ledger. The length of the ledger is read again when the lock is had, so a START or a second STOP
// that commits at this moment forbids it.
var sqlPermittedConfirmation = sqlAttempts + `
	join consents c on c.org_id = u.org and c.phone = u.recipient
	where c.state = 'opted_out' and c.chain_length = (
		select e.seq from consent_events e
		where e.org_id = u.org and e.phone = u.recipient and e.message_id = u.confirms and e.source = 'inbound' and e.state = 'opted_out'
			and e.confirmation = u.body
	) and exists (
		select from consent_replies r
		where r.message_id = u.confirms and r.kind = 'stop' and r.idempotency_key = u.key and r.expires_at > u.at
	)
	for share of c
)`

// sqlInsert makes a new row, once for each key. It does not look for the key itself: Postgres keeps the plan of a statement until the table
// is analyzed, and one that it has made for the empty table of a new database reads the whole table, ever longer, for each message.
var sqlInsert = `, claimed as (
	insert into sms_messages (id, org_id, profile_id, direction, from_number, to_number, body, body_hash, idempotency_key, status,
		segments, correlation_id, unknown_policy, attempt_token, attempted_at, lease_until, attempts, created_at, updated_at)
	select id, org, profile, 'outbound', sender, recipient, body, hash, key, 'sending', segments, correlation, policy, token, at, lease, 1, at,
		at
	from permitted
	on conflict (org_id, idempotency_key) do nothing
	returning *
)` + sqlCount + `
select p.n, ` + columnsOfClaimed + ` from claimed m join permitted p on p.id = m.id`

// sqlRenew makes a new attempt on the row of this very send whose last one Twilio certainly did not process. It locks no row that cannot be
// taken: a caller that asks again of a message that another transaction has locked must not hold up the words of its recipient.
var sqlRenew = `
update sms_messages m
set status = 'sending', body = p.body, error_code = null, attempt_token = p.token, attempted_at = p.at, lease_until = p.lease,
	attempts = m.attempts + 1, absent_since = null, next_look_at = null, looks = 0, failing_since = null, failed_looks = 0, updated_at = p.at
from permitted p
where m.org_id = p.org and m.idempotency_key = p.key and m.to_number = p.recipient and m.body_hash = p.hash
	and m.status = 'throttled' and m.twilio_sid is null and m.lease_until <= p.at
returning p.n, ` + columnsOfClaimed

const sqlByKey = `select ` + columns + ` from sms_messages where org_id = @org and idempotency_key = @key`

var sqlRefused = `
select case when ` + sqlErased + ` then 'opted_out' else coalesce(c.state, case when f.since is not null then 'opted_out' end, '') end,
	` + sqlHeld + `, ` + sqlRemindersOff + `, coalesce(c.updated_at, f.since),
	(select coalesce(h.unjudged_at, h.updated_at) from holds h where h.org_id = u.org and h.phone = u.recipient),
	(select h.unjudged_id from holds h where h.org_id = u.org and h.phone = u.recipient),
	(select r.updated_at from reminder_preferences r where r.org_id = u.org and r.phone = u.recipient),
	` + sqlFull + `
from (select @org::uuid as org, @profile::uuid as profile, @to::text as recipient, @despite_hold::boolean as despite_hold,
	@hold_version::bigint as hold_version, @reminds::boolean as reminds, @key::text as key, ` + sqlLimits + `) u
cross join lateral (select ` + sqlSuppressed + ` as since) f
left join consents c on c.org_id = u.org and c.phone = u.recipient`

// sqlFirstConsent notes on what grounds a person is texted of whom nothing is recorded: also no STOP from before they were erased.
const sqlFirstConsent = `
with first as (
	insert into consents (org_id, phone, state, updated_at)
	select @org, @to, 'opted_in', @at where ` + sqlSuppressed + ` is null and ` + sqlKeyFits + `
	on conflict (org_id, phone) do nothing
	returning org_id, phone
)
insert into consent_events (org_id, phone, at, state, source, words, sender)
select org_id, phone, @at, 'opted_in', @source, @words, @from from first`

// sqlKeepConsent notes how a person agreed of whom something is recorded already; once, and not beside an opt-out.
const sqlKeepConsent = `
with known as (
	select org_id, phone from consents where org_id = @org and phone = @to and state = 'opted_in' for no key update
)
insert into consent_events (org_id, phone, at, state, source, words, sender)
select org_id, phone, @at, 'opted_in', @source, @words, @from from known
where not exists (
	select from consent_events where org_id = @org and phone = @to and source = @source and words = @words
)`

// Claim takes the row of an attempt, in one statement, if the recipient has not opted out, is not held and wants such messages, and no cap
// is full: a new row if the key is new, else the row that has the key, if Twilio did not process its last attempt. Otherwise it reports
// that row, and whether the recipient has opted out, is held or wants no reminders, and which caps are full.
func (s *Store) Claim(ctx context.Context, a send.Attempt) (claim send.Claim, err error) {
	defer mark(&err)
	args, permitted := s.claimArgs(a), sqlPermitted
	switch {
	case a.Confirms != uuid.Nil:
		permitted = sqlPermittedConfirmation
	case args["words"] != "":
		if _, err := s.pool.Exec(ctx, sqlKeepConsent, args); err != nil {
			return send.Claim{}, err
		}
	}
	sql, renewal := permitted+sqlInsert, permitted+sqlRenew
	for range claimRounds {
		m, won, err := s.claimed(ctx, a, sql, args)
		if err != nil || won {
			return send.Claim{Won: won, Message: &m}, err
		}
		found, state, err := s.lookUp(ctx, a, args)
		claim := found.Claim
		switch there := claim.Message != nil; {
		case err != nil:
			return send.Claim{}, err
		case there && !claim.Message.Accepted() && sql != renewal:
			sql = renewal // what was read is only a hint; the statement decides on the newest row
		case there:
			return s.resume(ctx, claim, a)
		case claim.OptedOut, claim.Held, claim.RemindersOff, !claim.Full.Until().IsZero():
			return claim, nil
		case state == "":
			if err := s.firstConsent(ctx, args); err != nil {
				return send.Claim{}, err
			}
		}
	}
	return send.Claim{}, errClaimContended
}

// firstConsent lets a person be texted of whom nothing is recorded. Whether they said STOP before they were erased cannot be told
// without the key that they were erased under: without it no new person is texted, and the caller tries again.
func (s *Store) firstConsent(ctx context.Context, args postgres.Args) error {
	if err := s.checkKey(ctx, s.pool, args); err != nil {
		return fmt.Errorf("%w: %w", send.ErrUnavailable, err)
	}
	_, err := s.pool.Exec(ctx, sqlFirstConsent, args)
	return err
}

// resume goes on with a row that was there before: one that this very attempt holds is won, an abandoned one becomes unknown.
func (s *Store) resume(ctx context.Context, claim send.Claim, a send.Attempt) (send.Claim, error) {
	switch m := *claim.Message; {
	case !m.Matches(a):
		return send.Claim{}, send.ErrKeyReused
	case m.HeldBy(a):
		claim.Won = true
	case m.Abandoned(a.At):
		expired, done, err := message(ctx, s.pool, sqlExpire, postgres.Args{
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
// a statement of its own, so that the claim sees what was committed by the transaction that had it before.
func (s *Store) claimed(ctx context.Context, a send.Attempt, sql string, args postgres.Args) (m send.Message, won bool, err error) {
	var claimed int
	var read send.Message
	statements := []postgres.Statement{{SQL: sqlLocks, Args: postgres.Args{"org": a.OrgID, "phone": a.To.String()}}}
	if a.Limits.Shared() {
		statements = append(statements, postgres.Statement{SQL: sqlCountLocks, Args: postgres.Args{"org": a.OrgID}})
	}
	err = s.hot.Do(ctx, a.OrgID.String()+a.To.String(), append(statements,
		postgres.Statement{SQL: sql, Args: args, Rows: &claimed, Read: func(row pgx.CollectableRow) (err error) {
			read, err = toMessage(row)
			return err
		}},
	)...)
	if err != nil || claimed == 0 {
		return send.Message{}, false, err
	}
	return read, true, nil
}

// Look is what a claim would find, without making one.
func (s *Store) Look(ctx context.Context, a send.Attempt) (found send.Standing, err error) {
	defer mark(&err)
	found, _, err = s.lookUp(ctx, a, s.claimArgs(a))
	return found, err
}

// lookUp is why a claim was not won. The state is empty when nothing is recorded about the recipient. That the recipient has opted out
// does not stand in the way of the confirmation of just that; without a row it may not be sent, for whatever reason.
func (s *Store) lookUp(ctx context.Context, a send.Attempt, args postgres.Args) (standing send.Standing, state consent.State, err error) {
	m, found, err := message(ctx, s.pool, sqlByKey, args)
	if err != nil {
		return send.Standing{}, "", err
	}
	if found {
		standing.Message = &m
	}
	if a.Confirms != uuid.Nil {
		standing.OptedOut = !found
		return standing, "", nil
	}
	var consented, held, reminded, hour, ofDay, org, prefix, newest *time.Time
	var unjudged *uuid.UUID
	err = s.pool.QueryRow(ctx, sqlRefused, args).Scan(&state, &standing.Held, &standing.RemindersOff, &consented, &held, &unjudged,
		&reminded,
		&hour, &ofDay, &org, &prefix, &newest)
	if err != nil {
		return send.Standing{}, "", err
	}
	standing.Full = send.Full{PhoneHour: value(hour), PhoneDay: value(ofDay), OrgHour: value(org), PrefixHour: value(prefix)}
	standing.NewestAt, standing.Unjudged = value(newest), value(unjudged)
	standing.ConsentSince, standing.HoldSince, standing.RemindersSince = value(consented), value(held), value(reminded)
	standing.OptedOut = state == consent.OptedOut
	return standing, state, nil
}

func (s *Store) claimArgs(a send.Attempt) postgres.Args {
	source, words := inbox.FromElsewhere, a.Consent.Words()
	if words != "" {
		source = inbox.FromFirstSend
	}
	l := a.Limits
	return s.named(postgres.Args{
		"source": string(source), "words": words,
		"id": a.MessageID, "org": a.OrgID, "profile": null(a.ProfileID), "from": a.From, "to": a.To.String(), "body": string(a.Body),
		"phone": a.To.String(), "hash": a.BodyHash[:], "key": a.Key, "segments": a.Segments, "correlation": a.CorrelationID,
		"policy": string(a.UnknownPolicy), "token": a.Token, "lease": a.LeaseUntil, "at": a.At, "confirms": null(a.Confirms),
		"despite_hold": a.DespiteHold, "hold_version": a.HoldVersion, "reminds": a.Reminds(),
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
returning ` + columns

const sqlByID = `select ` + columns + ` from sms_messages where id = @id`

const sqlByIDForUpdate = sqlByID + ` for no key update`

const sqlUpdate = `
update sms_messages
set from_number = @from, status = @status, twilio_sid = @sid, error_code = @code, segments = @segments, lease_until = @lease,
	absent_since = @absent, next_look_at = @look, looks = @looks, failing_since = @failing, failed_looks = @failed,
	accepted_at = @accepted, asked_at = @asked, updated_at = @updated
where id = @id`

// sqlSettle is sqlUpdate of rows that are as their attempts claimed them: whatever else becomes of one changes its status, its SID or its
// token.
const sqlSettle = `
update sms_messages m set ` + setFromU + `
from unnest(` + arraysOfUpdate + `, @token::uuid[]) with ordinality as u (` + namesOfUpdate + `, token, n)
where m.id = u.id and m.id = any(@id::uuid[]) and m.status = 'sending' and m.twilio_sid is null and m.attempt_token = u.token
returning u.n`

// What updateArgs gives, for many rows at once.
const (
	setFromU = `from_number = u.sender, status = u.status, twilio_sid = u.sid, error_code = u.code, segments = u.segments,
	lease_until = u.lease, absent_since = u.absent, next_look_at = u.look, looks = u.looks, failing_since = u.failing,
	failed_looks = u.failed, accepted_at = u.accepted, asked_at = u.asked, updated_at = u.updated`
	arraysOfUpdate = `@id::uuid[], @from::text[], @status::text[], @sid::text[], @code::int[], @segments::int[], @lease::timestamptz[],
	@absent::timestamptz[], @look::timestamptz[], @looks::int[], @failing::timestamptz[], @failed::int[], @accepted::timestamptz[],
	@asked::timestamptz[], @updated::timestamptz[]`
	namesOfUpdate = `id, sender, status, sid, code, segments, lease, absent, look, looks, failing, failed, accepted, asked, updated`
)

// Settle applies Message.Settle to the stored row and returns the row after it. A row that still is as it was claimed is settled by one
// guarded statement; any other is locked and read first. When Twilio says that the recipient has opted out, that is recorded too, even if
// the attempt has lost its row: it is true all the same.
func (s *Store) Settle(ctx context.Context, claimed send.Message, a send.Answer) (settled send.Message, err error) {
	defer mark(&err)
	if after, changed := claimed.Settle(a); changed && !a.OptsOut() {
		args, done := updateArgs(after), 0
		args["token"] = a.Token
		err := s.hot.Do(ctx, a.MessageID.String(), postgres.Statement{SQL: sqlSettle, Args: args, Rows: &done})
		if err != nil || done > 0 {
			return after, err
		}
	}
	return s.settleLocked(ctx, a)
}

// settleLocked is Settle of a row that is not, or may not be, as it was claimed.
func (s *Store) settleLocked(ctx context.Context, a send.Answer) (settled send.Message, err error) {
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if a.OptsOut() {
			if err := recordRefusal(ctx, tx, a.MessageID, a.At); err != nil {
				return err
			}
		}
		stored, err := one(ctx, tx, sqlByIDForUpdate, postgres.Args{"id": a.MessageID})
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
	m, err := one(ctx, tx, sqlByID, postgres.Args{"id": id})
	if err != nil {
		return err
	}
	return change(ctx, tx, consentChange{
		OrgID: m.OrgID, Phone: m.To, NotAfter: m.AttemptedAt, // a START that came while we asked is newer than what we asked
		Event: inbox.LedgerEvent{At: at, State: consent.OptedOut, Source: inbox.FromTwilio, Sender: m.From},
	})
}

func update(ctx context.Context, tx pgx.Tx, m send.Message) error {
	return exec(ctx, tx, sqlUpdate, updateArgs(m))
}

func updateArgs(m send.Message) postgres.Args {
	return postgres.Args{
		"id": m.ID, "from": m.From, "status": string(m.Status), "sid": null(m.SID), "code": null(m.ErrorCode),
		"segments": m.Segments, "lease": m.LeaseUntil, "absent": null(m.AbsentSince), "look": null(m.NextCheckAt), "looks": m.Checks,
		"failing": null(m.FailingSince), "failed": m.FailedListings, "accepted": null(m.AcceptedAt), "asked": null(m.AskedAt),
		"updated": m.UpdatedAt,
	}
}

// sqlOnItsWay looks for attempts that can still reach Twilio. The confirmation of an opt-out may come after it.
const sqlOnItsWay = `
select exists (
	select from sms_messages where to_number = @phone and org_id = @org and status = 'sending' and lease_until > @after
		and not starts_with(idempotency_key, '` + send.StopKeys + `')
)`

// OnItsWay reports whether an attempt to send to a number is still being made: one whose lease is not over by after.
func (s *Store) OnItsWay(ctx context.Context, orgID uuid.UUID, phone string, after time.Time) (busy bool, err error) {
	defer mark(&err)
	err = s.pool.QueryRow(ctx, sqlOnItsWay, postgres.Args{"org": orgID, "phone": phone, "after": after}).Scan(&busy)
	return busy, err
}
