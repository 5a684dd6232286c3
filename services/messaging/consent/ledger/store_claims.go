package ledger

import (
	"context"
	"fmt"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/sms"
)

// SQLHeld is true where the recipient is held by their words that may be an opt-out, or by an operator. A caller that names a later version
// of the operator's hold has read that it is lifted.
const SQLHeld = `not u.despite_hold and exists (
	select from holds h where h.org_id = u.org and h.phone = u.recipient
		and (h.held and h.version > u.hold_version or h.unjudged_id is not null))`

// SQLRemindersOff is true where the message is a reminder to a recipient who wants none.
const SQLRemindersOff = `u.reminds and exists (
	select from reminder_preferences r where r.org_id = u.org and r.phone = u.recipient and r.off)`

// sqlFirstConsent opts in a number without a record and notes why it may be texted, unless a STOP from before an erasure still holds.
const sqlFirstConsent = `
with first as (
	insert into consents (org_id, phone, state, updated_at)
	select @org, @to, 'opted_in', @at where ` + SQLSuppressed + ` is null and ` + sqlKeyFits + `
	on conflict (org_id, phone) do nothing
	returning org_id, phone
)
insert into consent_events (org_id, phone, at, state, source, words, sender)
select org_id, phone, @at, 'opted_in', @source, @words, @from from first`

// sqlKeepConsent notes how a person agreed of whom something is recorded already; once, and not next to an opt-out.
const sqlKeepConsent = `
with known as (
	select org_id, phone from consents where org_id = @org and phone = @to and state = 'opted_in' for no key update
)
insert into consent_events (org_id, phone, at, state, source, words, sender)
select org_id, phone, @at, 'opted_in', @source, @words, @from from known
where not exists (
	select from consent_events where org_id = @org and phone = @to and source = @source and words = @words
)`

// KeepConsent notes how a person agreed, before a claim of a message to them.
func (s *Store) KeepConsent(ctx context.Context, args postgres.Args) error {
	_, err := s.pool.Exec(ctx, sqlKeepConsent, args)
	return err
}

// FirstConsent lets a person be texted of whom nothing is recorded. Whether they said STOP before they were erased cannot be told
// without the key that they were erased under: without it no new person is texted, and the caller tries again.
func (s *Store) FirstConsent(ctx context.Context, args postgres.Args) error {
	if err := s.checkKey(ctx, s.pool, args); err != nil {
		return fmt.Errorf("%w: %w", sms.ErrUnavailable, err)
	}
	_, err := s.pool.Exec(ctx, sqlFirstConsent, args)
	return err
}

// SQLLocks locks the phones of many claims. A claim waits for a change of consent and for other claims of its phone, so that each counts
// what the one before it has sent.
const SQLLocks = `
select pg_advisory_xact_lock(hashtextextended(u.org::text || u.phone, 0)) from unnest(@org::uuid[], @phone::text[]) u (org, phone)`
