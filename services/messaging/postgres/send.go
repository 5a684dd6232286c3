package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/delivery"
)

// claimRounds bounds Claim: consent may come and go between its statements, but not for ever.
const claimRounds = 4

var errClaimContended = errors.New("consent kept changing during the claim")

// sqlClaim is the whole decision to send in one statement: the consent row is locked against a STOP that commits at
// this moment, so the STOP comes before the claim, which then finds nothing permitted, or after it; and the key is
// inserted once. The opted-in test is what the row lock waits for and reads again. A hold has no row before it is set: against
// that the phone is locked, see claimed.
const sqlClaim = `
with permitted as (
	select 1 from consents where org_id = @org and phone = @to and state = 'opted_in' and not (` + sqlHeld + `) for share
)` + sqlInsertClaim

// sqlHeld is whether the recipient is held, as far as the caller does not know better: one that has read a later version of the hold
// has read that it is lifted.
const sqlHeld = `not @despite_hold::boolean and exists (
	select from holds where org_id = @org and phone = @to and held and version > @hold_version)`

const sqlInsertClaim = `
insert into sms_messages (id, org_id, profile_id, direction, from_number, to_number, body, body_hash, idempotency_key, status,
	segments, correlation_id, unknown_policy, attempt_token, attempted_at, lease_until, attempts, created_at, updated_at)
select @id, @org, @profile, 'outbound', @from, @to, @body, @hash, @key, 'sending',
	@segments, @correlation, @policy, @token, @at, @lease, 1, @at, @at
from permitted
on conflict (org_id, idempotency_key) do nothing
returning ` + columns

// sqlReclaim makes a new attempt on a row whose last one Twilio did not process, under the same lock on consent.
const sqlReclaim = `
with permitted as (
	select 1 from consents where org_id = @org and phone = @to and state = 'opted_in' and not (` + sqlHeld + `) for share
)` + sqlUpdateClaim

// sqlConfirmation is the one exception to what may be sent: a text to somebody who has opted out, in the words that were written
// into the ledger together with that opt-out, under the one key that was stored with it, in its time, and only while that opt-out is
// the last line of the ledger. The length of the ledger is read again when the lock is had, so a START or a second STOP that
// commits at this moment forbids it.
const sqlConfirmation = `
with permitted as (
	select 1 from consents c
	where c.org_id = @org and c.phone = @to and c.state = 'opted_out' and c.chain_length = (
		select e.seq from consent_events e
		where e.org_id = @org and e.phone = @to and e.message_id = @confirms and e.source = 'inbound' and e.state = 'opted_out'
			and e.confirmation = @body
	) and exists (
		select from consent_replies r
		where r.message_id = @confirms and r.kind = 'stop' and r.idempotency_key = @key and r.expires_at > @at
	)
	for share of c
)`

const (
	sqlClaimConfirmation   = sqlConfirmation + sqlInsertClaim
	sqlReclaimConfirmation = sqlConfirmation + sqlUpdateClaim
)

const sqlUpdateClaim = `
update sms_messages
set status = 'sending', error_code = null, attempt_token = @token, attempted_at = @at, lease_until = @lease,
	attempts = attempts + 1, absent_since = null, next_look_at = null, looks = 0, failing_since = null, failed_looks = 0, updated_at = @at
from permitted
where org_id = @org and idempotency_key = @key and to_number = @to and body_hash = @hash
	and status = 'throttled' and twilio_sid is null and lease_until <= @at
returning ` + columns

const sqlByKey = `select ` + columns + ` from sms_messages where org_id = @org and idempotency_key = @key`

const sqlRefused = `
select coalesce((select state from consents where org_id = @org and phone = @to), ''), ` + sqlHeld

// sqlFirstConsent notes on what grounds a person is texted of whom nothing is recorded.
const sqlFirstConsent = `
with first as (
	insert into consents (org_id, phone, state, updated_at) values (@org, @to, 'opted_in', @at)
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

// Claim inserts the row of a first attempt, in one statement, if the recipient has not opted out, is not held and the
// key is new. Else it reports the row that has the key and whether the recipient has opted out or is held.
func (s *Store) Claim(ctx context.Context, a delivery.Attempt) (claim delivery.Claim, err error) {
	defer mark(&err)
	args := claimArgs(a)
	if a.Confirms != uuid.Nil {
		return s.claimConfirmation(ctx, sqlClaimConfirmation, args)
	}
	if args["words"] != "" {
		if _, err := s.pool.Exec(ctx, sqlKeepConsent, args); err != nil {
			return delivery.Claim{}, err
		}
	}
	for range claimRounds {
		m, won, err := s.claimed(ctx, sqlClaim, args)
		if err != nil || won {
			return delivery.Claim{Won: won, Message: &m}, err
		}
		claim, state, err := s.lookUp(ctx, args)
		if err != nil || claim.Message != nil || claim.OptedOut || claim.Held {
			return claim, err
		}
		if state == "" {
			if _, err := s.pool.Exec(ctx, sqlFirstConsent, args); err != nil {
				return delivery.Claim{}, err
			}
		}
	}
	return delivery.Claim{}, errClaimContended
}

// Reclaim makes the attempt on a throttled row, or reports what stands in its way.
func (s *Store) Reclaim(ctx context.Context, a delivery.Attempt) (claim delivery.Claim, err error) {
	defer mark(&err)
	args := claimArgs(a)
	if a.Confirms != uuid.Nil {
		return s.claimConfirmation(ctx, sqlReclaimConfirmation, args)
	}
	m, won, err := s.claimed(ctx, sqlReclaim, args)
	if err != nil || won {
		return delivery.Claim{Won: won, Message: &m}, err
	}
	claim, _, err = s.lookUp(ctx, args)
	return claim, err
}

// claimed runs a claim under the phone's lock, in one transaction and one round trip. The lock is a statement of its own, so that the
// claim sees what was committed by the transaction that had it before.
func (s *Store) claimed(ctx context.Context, sql string, args pgx.NamedArgs) (m delivery.Message, won bool, err error) {
	var batch pgx.Batch
	batch.Queue(sqlShareLock, args)
	batch.Queue(sql, args).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, toMessage)
		if won = err == nil && len(found) > 0; won {
			m = found[0]
		}
		return err
	})
	if err := s.pool.SendBatch(ctx, &batch).Close(); err != nil { // only now it is committed
		return delivery.Message{}, false, err
	}
	return m, won, nil
}

// claimConfirmation claims the confirmation of an opt-out, or reports the row that has its key. Without one, it may not be sent.
func (s *Store) claimConfirmation(ctx context.Context, sql string, args pgx.NamedArgs) (delivery.Claim, error) {
	m, won, err := message(ctx, s.pool, sql, args)
	if err != nil || won {
		return delivery.Claim{Won: won, Message: &m}, err
	}
	m, found, err := message(ctx, s.pool, sqlByKey, args)
	if err != nil || !found {
		return delivery.Claim{OptedOut: true}, err
	}
	return delivery.Claim{Message: &m}, nil
}

// lookUp is why a claim was not won. The state is empty when nothing is recorded about the recipient.
func (s *Store) lookUp(ctx context.Context, args pgx.NamedArgs) (delivery.Claim, consent.State, error) {
	m, found, err := message(ctx, s.pool, sqlByKey, args)
	if err != nil {
		return delivery.Claim{}, "", err
	}
	var state consent.State
	var claim delivery.Claim
	if err := s.pool.QueryRow(ctx, sqlRefused, args).Scan(&state, &claim.Held); err != nil {
		return delivery.Claim{}, "", err
	}
	claim.OptedOut = state == consent.OptedOut
	if found {
		claim.Message = &m
	}
	return claim, state, nil
}

func claimArgs(a delivery.Attempt) pgx.NamedArgs {
	source, words := delivery.FromElsewhere, a.Consent.Words()
	if words != "" {
		source = delivery.FromFirstSend
	}
	return pgx.NamedArgs{
		"source": string(source), "words": words,
		"id": a.MessageID, "org": a.OrgID, "profile": null(a.ProfileID), "from": a.From, "to": a.To.String(), "body": string(a.Body),
		"phone": a.To.String(), "hash": a.BodyHash[:], "key": a.Key, "segments": a.Segments, "correlation": a.CorrelationID,
		"policy": string(a.UnknownPolicy), "token": a.Token, "lease": a.LeaseUntil, "at": a.At, "confirms": null(a.Confirms),
		"despite_hold": a.DespiteHold, "hold_version": a.HoldVersion,
	}
}

const sqlExpire = `
update sms_messages set status = 'unknown', next_look_at = @now, looks = 0, updated_at = @now
where id = @id and attempt_token = @token and status = 'sending' and lease_until <= @over
returning ` + columns

const sqlByID = `select ` + columns + ` from sms_messages where id = @id`

// Expire makes a row unknown whose lease has been over for timeout, unless somebody settled it first, and returns the row
// either way.
func (s *Store) Expire(
	ctx context.Context, m delivery.Message, now time.Time, timeout time.Duration,
) (current delivery.Message, err error) {
	defer mark(&err)
	args := pgx.NamedArgs{"id": m.ID, "token": m.AttemptToken, "now": now, "over": now.Add(-timeout)}
	expired, won, err := message(ctx, s.pool, sqlExpire, args)
	if err != nil || won {
		return expired, err
	}
	return one(ctx, s.pool, sqlByID, args)
}

const sqlByIDForUpdate = sqlByID + ` for no key update`

const sqlUpdate = `
update sms_messages
set from_number = @from, status = @status, twilio_sid = @sid, error_code = @code, segments = @segments, lease_until = @lease,
	absent_since = @absent, next_look_at = @look, looks = @looks, failing_since = @failing, failed_looks = @failed,
	accepted_at = @accepted, asked_at = @asked, updated_at = @updated
where id = @id`

// Settle applies Message.Settle to the stored row and returns the row after it. When Twilio says that the recipient has
// opted out, that is recorded too, even if the attempt has lost its row: it is true all the same.
func (s *Store) Settle(ctx context.Context, a delivery.Answer) (settled delivery.Message, err error) {
	defer mark(&err)
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if a.OptsOut() {
			if err := recordRefusal(ctx, tx, a.MessageID, a.At); err != nil {
				return err
			}
		}
		stored, err := one(ctx, tx, sqlByIDForUpdate, pgx.NamedArgs{"id": a.MessageID})
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
	m, err := one(ctx, tx, sqlByID, pgx.NamedArgs{"id": id})
	if err != nil {
		return err
	}
	return change(ctx, tx, consentChange{
		OrgID: m.OrgID, Phone: m.To, NotAfter: m.AttemptedAt, // a START that came while we asked is newer than what we asked
		Event: delivery.LedgerEvent{At: at, State: consent.OptedOut, Source: delivery.FromTwilio, Sender: m.From},
	})
}

func update(ctx context.Context, tx pgx.Tx, m delivery.Message) error {
	return exec(ctx, tx, sqlUpdate, pgx.NamedArgs{
		"id": m.ID, "from": m.From, "status": string(m.Status), "sid": null(m.SID), "code": null(m.ErrorCode),
		"segments": m.Segments, "lease": m.LeaseUntil, "absent": null(m.AbsentSince), "look": null(m.NextLookAt), "looks": m.Looks,
		"failing": null(m.FailingSince), "failed": m.FailedLooks, "accepted": null(m.AcceptedAt), "asked": null(m.AskedAt),
		"updated": m.UpdatedAt,
	})
}
