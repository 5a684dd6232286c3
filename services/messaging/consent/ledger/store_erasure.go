package ledger

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/edge"
	"paceline.internal/services/messaging/sms"
)

// sqlKeyFits reads the least and the greatest key that made a suppression: by their index, however many there are.
const sqlKeyFits = `
(select coalesce(min(s.key_id), @key_id) from suppressions s where s.org_id = @org) = @key_id
	and (select coalesce(max(s.key_id), @key_id) from suppressions s where s.org_id = @org) = @key_id`

// SQLSuppressed tells since when the STOP of a phone is in force that was erased; null for none.
const SQLSuppressed = `(select s.created_at from suppressions s where s.org_id = @org and s.pseudonym = @pseudonym)`

// SQLErased is true where the message is of a profile that is being erased or was.
const SQLErased = `exists (select from erased_profiles e where e.org_id = u.org and e.profile_id = u.profile)`

// Named adds to the arguments of a statement what it finds a suppression by.
func (s *Store) Named(args postgres.Args, orgID uuid.UUID, phone string) postgres.Args {
	args["key_id"], args["pseudonym"] = s.Pseudonyms.KeyID(), s.Pseudonyms.Of(orgID.String(), phone)
	return args
}

// checkKey is ErrPseudonymKey when suppressions would not be found.
func (s *Store) checkKey(ctx context.Context, c edge.Conn, args postgres.Args) error {
	var fits bool
	if err := c.QueryRow(ctx, `select `+sqlKeyFits, args).Scan(&fits); err != nil {
		return err
	}
	if !fits {
		return ErrPseudonymKey
	}
	return nil
}

// Unsuppress ends a STOP from before an erasure, in the transaction that records the person's opt-in.
func (s *Store) Unsuppress(ctx context.Context, tx pgx.Tx, orgID uuid.UUID, phone string) error {
	return edge.Exec(ctx, tx, sqlUnsuppress, s.Named(postgres.Args{"org": orgID}, orgID, phone))
}

// CanErase says under which pseudonym a person would be erased; ErrPseudonymKey.
func (s *Store) CanErase(ctx context.Context, p Person) (pseudonym string, err error) {
	defer edge.Mark(&err)
	args := s.Named(postgres.Args{"org": p.OrgID}, p.OrgID, p.Phone.String())
	if !s.Pseudonyms.Known() {
		return "", ErrPseudonymKey
	}
	return s.Pseudonyms.Of(p.OrgID.String(), p.Phone.String()), s.checkKey(ctx, s.pool, args)
}

const (
	sqlBeginErasure = `
insert into erased_profiles (org_id, profile_id, pseudonym, began_at) values (@org, @profile, @pseudonym, @at)
on conflict (org_id, profile_id) do nothing`

	// sqlBlock holds the phone as no version of a hold can lift it. The hold goes with the person.
	sqlBlock = `
insert into holds as h (org_id, phone, held, version, updated_at) values (@org, @phone, true, 9223372036854775807, @at)
on conflict (org_id, phone) do update set held = true, version = excluded.version, updated_at = excluded.updated_at`

	sqlDropQueued = `
delete from sms_outbound_jobs
where org_id = @org and status = 'pending'
	and (payload ->> 'to' = @phone or payload ? 'profile_id' and payload ->> 'profile_id' = @profile::uuid::text)`

	// sqlErasureWaits finds what must end before the erasure. A message that waits for an operator or for another attempt does not
	// delay it: no further attempt can be made.
	sqlErasureWaits = `
select coalesce((
	select m.id from sms_messages m
	where m.org_id = @org and m.to_number = @phone and m.direction = 'outbound'
		and (m.status in ('sending', 'unknown') or m.status in ('accepted', 'queued', 'sent') and m.next_look_at is not null)
	limit 1), (
	select j.id from sms_outbound_jobs j where j.org_id = @org and j.status = 'processing' and j.payload ->> 'to' = @phone limit 1))`

	// sqlOthers are numbers that the person's messages went to or came from, and that are not theirs now.
	sqlOthers = `
select distinct case direction when 'inbound' then from_number else to_number end from sms_messages
where org_id = @org and profile_id = @profile and erased_at is null and @phone not in (from_number, to_number)`

	sqlErasePerson = `select erase_person(@org, @phone, @profile, @pseudonym, @at, @others, @aliases)`

	// sqlSuppress keeps an opt-out, and words that may be one and that no operator has judged: what a STOP keeps the person from, they do.
	sqlSuppress = `
insert into suppressions (org_id, pseudonym, key_id, created_at)
select @org, @pseudonym, @key_id, @at
where exists (select from consents c where c.org_id = @org and c.phone = @phone and c.state = 'opted_out')
	or exists (select from holds h where h.org_id = @org and h.phone = @phone and h.unjudged_id is not null)
on conflict (org_id, pseudonym) do update set created_at = excluded.created_at`

	sqlUnsuppress = `delete from suppressions where org_id = @org and pseudonym = @pseudonym`

	// sqlNameErased is the name under which signed anchors know the ledger; locked, for it may be getting one.
	sqlNameErased = `select coalesce(ledger_id, @id)::text from consents where org_id = @org and phone = @phone for update`

	sqlKeepLedger = `
insert into erased_ledgers (id, org_id, pseudonym, erased_at, state, length, broken_at, lines)
values (@id, @org, @pseudonym, @at, @state, @length, @broken, @lines)`

	sqlErasedNow = `
update erased_profiles set erased_at = @at where org_id = @org and profile_id = @profile and erased_at is null`
)

// ErasePerson takes a person out of everything that is kept here. From its first call on nothing is sent to them; what is on its way has to
// come to its end first, and until it has the erasure waits for it. Another call goes on; one after the end changes nothing.
// ErrPseudonymKey.
func (s *Store) ErasePerson(ctx context.Context, p Person, at time.Time) (e Erasure, err error) {
	defer edge.Mark(&err)
	if !s.Pseudonyms.Known() {
		return e, ErrPseudonymKey
	}
	at = at.UTC().Truncate(time.Microsecond)
	args := s.Named(postgres.Args{"org": p.OrgID, "profile": p.ProfileID, "phone": p.Phone.String(), "at": at}, p.OrgID, p.Phone.String())
	e.Pseudonym = s.Pseudonyms.Of(p.OrgID.String(), p.Phone.String())
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		e.WaitsFor = uuid.Nil
		if err := s.checkKey(ctx, tx, args); err != nil {
			return err
		}
		for _, sql := range []string{sqlLock, sqlBeginErasure, sqlBlock, sqlDropQueued} {
			if err := edge.Exec(ctx, tx, sql, args); err != nil {
				return err
			}
		}
		var waits *uuid.UUID
		if err := tx.QueryRow(ctx, sqlErasureWaits, args).Scan(&waits); err != nil || waits != nil {
			e.WaitsFor = edge.Value(waits)
			return err
		}
		return s.eraseLocked(ctx, tx, p, args, at)
	})
	return e, err
}

// eraseLocked erases a person to whom nothing is on its way, and keeps what is left of their consent.
func (s *Store) eraseLocked(ctx context.Context, tx pgx.Tx, p Person, args postgres.Args, at time.Time) error {
	ledger, err := readLedger(ctx, tx, p.OrgID, p.Phone, Page{Limit: math.MaxInt})
	switch {
	case errors.Is(err, ErrConsentNotFound): // what an earlier erasure has kept stays
	case err != nil:
		return err
	default:
		if err := s.keepErased(ctx, tx, ledger, args, at); err != nil {
			return err
		}
	}
	others, err := edge.Collect(ctx, tx, sqlOthers, args, pgx.RowTo[string])
	if err != nil {
		return err
	}
	aliases := make([]string, len(others))
	for i, number := range others {
		aliases[i] = s.Pseudonyms.Of(p.OrgID.String(), number)
	}
	args["others"], args["aliases"] = others, aliases
	for _, sql := range []string{sqlSuppress, sqlErasePerson, sqlErasedNow} {
		if err := edge.Exec(ctx, tx, sql, args); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) keepErased(ctx context.Context, tx pgx.Tx, l Ledger, args postgres.Args, at time.Time) error {
	if len(l.Events) == 0 {
		return nil
	}
	lines := l.Lines()
	for i, e := range l.Events {
		var err error
		if lines[i].Actor, err = consent.ReadActor(edge.Value(e.Actor)); err != nil {
			return err
		}
	}
	args["id"] = uuid.Must(uuid.NewV7())
	var id string
	if err := tx.QueryRow(ctx, sqlNameErased, args).Scan(&id); err != nil {
		return err
	}
	erased, err := s.Pseudonyms.Erase(id, lines, l.Chain, string(l.State), at)
	if err != nil {
		return err
	}
	return edge.Exec(ctx, tx, sqlKeepLedger, postgres.Args{
		"id": id, "org": l.OrgID, "pseudonym": erased.Pseudonym, "at": at, "state": erased.State, "length": erased.Length,
		"broken": edge.Null(erased.BrokenAt), "lines": erased.Lines,
	})
}

const (
	// ErasedColumns are the columns of a ledger of an erased person.
	ErasedColumns    = `id::text, org_id::text, pseudonym, erased_at, state, length, coalesce(broken_at, 0), lines`
	sqlErasedLedgers = `select ` + ErasedColumns + ` from erased_ledgers where org_id = @org and pseudonym = @pseudonym order by erased_at`
)

// ErasedConsent returns what is left of the consent of a pseudonym.
func (s *Store) ErasedConsent(ctx context.Context, orgID uuid.UUID, pseudonym string) (left ErasedConsent, err error) {
	defer edge.Mark(&err)
	args := postgres.Args{"org": orgID, "pseudonym": pseudonym}
	left.Ledgers, err = edge.Collect(ctx, s.pool, sqlErasedLedgers, args, ReadErased)
	if err != nil {
		return left, err
	}
	var since *time.Time
	err = s.pool.QueryRow(ctx, `select `+SQLSuppressed, args).Scan(&since)
	left.SuppressedAt = edge.Value(since)
	return left, err
}

// ReadErased reads a row of ErasedColumns.
func ReadErased(row pgx.CollectableRow) (e consent.ErasedLedger, err error) {
	return e, row.Scan(&e.ID, &e.OrgID, &e.Pseudonym, &e.ErasedAt, &e.State, &e.Length, &e.BrokenAt, &e.Lines)
}

const (
	// MaxExport sets how many rows of one kind an export has at most.
	MaxExport = 5000

	// sqlExport has one row more of a kind than there may be, so that it is seen when there are too many.
	sqlExport = `
with m as (
	select * from sms_messages where org_id = @org and to_number = @phone and direction = 'outbound'
	union
	select * from sms_messages where org_id = @org and from_number = @phone and direction = 'inbound'
	union
	select * from sms_messages where org_id = @org and profile_id = @profile
	limit @most + 1
), q as (
	select * from sms_outbound_jobs
	where org_id = @org and (payload ->> 'to' = @phone or payload ->> 'profile_id' = @profile::uuid::text)
	limit @most + 1
), r as (
	select s.* from sms_receipts s join m on m.id = s.message_id limit @most + 1
), l as (
	select s.* from sms_looks s join m on m.id = s.message_id limit @most + 1
), a as (
	select * from audit where org_id = @org and (profile_id = @profile or phone = @phone) limit @most + 1
), counted as (
	select greatest((select count(*) from m), (select count(*) from q), (select count(*) from r), (select count(*) from l),
		(select count(*) from a)) as n
)
select counted.n, case when counted.n <= @most then jsonb_build_object(
	'messages', (select coalesce(jsonb_agg(to_jsonb(m) - array['attempt_token', 'body_hash'] order by m.id), '[]') from m),
	'receipts', (select coalesce(jsonb_agg(to_jsonb(r) order by r.id), '[]') from r),
	'looks', (select coalesce(jsonb_agg(to_jsonb(l) order by l.id), '[]') from l),
	'queued_texts', (select coalesce(jsonb_agg(to_jsonb(q) - 'lease_token' order by q.id), '[]') from q),
	'consent_replies', (select coalesce(jsonb_agg(to_jsonb(c) order by c.created_at), '[]') from consent_replies c
		where c.org_id = @org and c.phone = @phone),
	'reminder_preference', (select to_jsonb(p) from reminder_preferences p where p.org_id = @org and p.phone = @phone),
	'hold', (select to_jsonb(h) from holds h where h.org_id = @org and h.phone = @phone),
	'audit', (select coalesce(jsonb_agg(to_jsonb(a) order by a.at, a.id), '[]') from a)
)::text end
from counted`
)

// Export is everything that is kept here about a person but their consent, as one JSON object; ErrExportTooLarge.
func (s *Store) Export(ctx context.Context, p Person) (document []byte, err error) {
	defer edge.Mark(&err)
	var rows int
	var text *string
	err = s.pool.QueryRow(ctx, sqlExport, postgres.Args{
		"org": p.OrgID, "profile": p.ProfileID, "phone": p.Phone.String(), "most": MaxExport,
	}).Scan(&rows, &text)
	if err == nil && text == nil {
		err = fmt.Errorf("%w: there are more than %d rows of one kind", ErrExportTooLarge, MaxExport)
	}
	return []byte(edge.Value(text)), err
}

// sqlFormerNumbers are the numbers that the messages of a profile went to or came from and that it has no more. One that another profile
// has had since is not among them: its ledger would say what another person has said.
const sqlFormerNumbers = `
select distinct n.phone from sms_messages m
cross join lateral (select case m.direction when 'inbound' then m.from_number else m.to_number end as phone) n
where m.org_id = @org and m.profile_id = @profile and m.erased_at is null and n.phone <> @phone
	and not exists (select from sms_messages o
		where o.org_id = @org and o.to_number = n.phone and o.direction = 'outbound' and o.profile_id <> @profile)
	and not exists (select from sms_messages o
		where o.org_id = @org and o.from_number = n.phone and o.direction = 'inbound' and o.profile_id <> @profile)
order by n.phone limit 100`

// FormerNumbers lists the numbers that a person had before, as their messages tell; at most 100.
func (s *Store) FormerNumbers(ctx context.Context, p Person) (numbers []sms.Phone, err error) {
	defer edge.Mark(&err)
	args := postgres.Args{"org": p.OrgID, "profile": p.ProfileID, "phone": p.Phone.String()}
	return edge.Collect(ctx, s.pool, sqlFormerNumbers, args, func(row pgx.CollectableRow) (number sms.Phone, err error) {
		var text string
		if err := row.Scan(&text); err != nil {
			return number, err
		}
		return sms.StoredPhone(text)
	})
}
