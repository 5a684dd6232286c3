package ledger

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/edge"
	"paceline.internal/services/messaging/sms"
)

// Store keeps consent, its ledger, holds and preferences. It locks the consent before any message (see send.Store).
type Store struct {
	pool       postgres.DB
	Pseudonyms consent.Pseudonyms // of erased people; without a key no person can be erased
}

// NewStore works on a migrated database; the caller keeps owning the pool.
func NewStore(pool postgres.DB, pseudonyms consent.Pseudonyms) *Store {
	return &Store{pool: pool, Pseudonyms: pseudonyms}
}

// sqlLock keeps every claim of a send to a phone, and every change of its consent or its hold, waiting until the transaction ends,
// also before there is any row that could be locked. It has to be its own statement: one that waits for it does not see a row
// that was inserted meanwhile.
const sqlLock = `select pg_advisory_xact_lock(hashtextextended(@org::uuid::text || @phone::text, 0))`

const sqlLockConsent = `select state from consents where org_id = @org and phone = @phone for no key update`

// Lock reads the state of consent and keeps every send and every other change waiting until the transaction
// ends, in one round trip. The state is empty when nothing is recorded. The row is locked, too: the release before knows no other lock.
func Lock(ctx context.Context, tx pgx.Tx, args postgres.Args) (state consent.State, err error) {
	var batch pgx.Batch
	batch.Queue(sqlLock, args)
	batch.Queue(sqlLockConsent, args).QueryRow(func(row pgx.Row) error {
		if err := row.Scan(&state); !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		return nil
	})
	err = tx.SendBatch(ctx, &batch).Close()
	return state, err
}

// Change is a change of state together with the line that it adds to the ledger.
type Change struct {
	OrgID    uuid.UUID
	Phone    string
	Event    Event
	NotAfter time.Time // a state that changed later than this stands; zero when none does
	Always   bool      // the line is written also if the state stays
}

// sqlChange writes a line only if the state changes, or always.
const sqlChange = `
with changed as (
	insert into consents as c (org_id, phone, state, updated_at) values (@org, @phone, @state, @at)
	on conflict (org_id, phone) do update set state = excluded.state, updated_at = excluded.updated_at
	where (c.state <> excluded.state or @always) and (@not_after::timestamptz is null or c.updated_at <= @not_after)
	returning org_id, phone
)
insert into consent_events (org_id, phone, at, state, source, words, sender, message_id, keyword_pack, rules_version, confirmed_by,
	confirmation)
select org_id, phone, @at, @state, @source, @words, @sender, @message, @pack, @rules, @by, @confirmation from changed`

// sqlCarrierBlocks notes what Twilio has done about a message by itself.
const sqlCarrierBlocks = `
update consents set carrier_blocks = @blocks where org_id = @org and phone = @phone and carrier_blocks <> @blocks`

// CarrierBlocks notes it in the transaction that records the message.
func CarrierBlocks(ctx context.Context, tx pgx.Tx, args postgres.Args) error {
	return edge.Exec(ctx, tx, sqlCarrierBlocks, args)
}

// sqlCarrierRefuses notes that Twilio refuses messages to a person, unless the person has opted in again since.
const sqlCarrierRefuses = `
update consents set carrier_blocks = true where org_id = @org and phone = @phone and state = 'opted_out' and not carrier_blocks`

// WriteChange stores a change and its line, in the transaction that has locked the consent.
func WriteChange(ctx context.Context, tx pgx.Tx, c Change) error {
	args := postgres.Args{
		"org": c.OrgID, "phone": c.Phone, "state": string(c.Event.State), "at": c.Event.At, "not_after": edge.Null(c.NotAfter),
		"always": c.Always, "source": string(c.Event.Source), "words": c.Event.Words, "sender": c.Event.Sender,
		"message": edge.Null(c.Event.MessageID), "pack": c.Event.KeywordPack, "rules": c.Event.Rules,
		"by": string(c.Event.ConfirmedBy), "confirmation": c.Event.Confirmation,
	}
	if err := edge.Exec(ctx, tx, sqlChange, args); err != nil || c.Event.Source != FromTwilio {
		return err
	}
	return edge.Exec(ctx, tx, sqlCarrierRefuses, args)
}

const sqlSetConsent = `
insert into consents as c (org_id, phone, state, updated_at) values (@org, @phone, @state, @at)
on conflict (org_id, phone) do update set state = excluded.state, updated_at = excluded.updated_at
where c.state <> excluded.state`

// sqlNote writes no line that repeats the last one: a form that is sent twice, or from two tabs at once, is one decision.
const sqlNote = `
insert into consent_events (org_id, phone, at, state, source, words, sender)
select @org, @phone, @at, @state, 'operator', @words, @sender
where not exists (
	select from (select source, state, words from consent_events where org_id = @org and phone = @phone order by id desc limit 1) e
	where e.source = 'operator' and e.state = @state and e.words = @words
)`

// sqlOptOut is the opt-out in force: when it was given last, and whether by the person. Theirs are the lines since the last opt-in that
// are their own or Twilio's, a STOP that changed nothing because an operator had opted them out before, and free words that may be
// an opt-out and that an operator's line follows; a preference is none. Theirs is also one from before they were erased, which only a later
// own opt-in ends. It runs under the lock on the consent.
const sqlOptOut = `
with last_in as (
	select coalesce(max(id), 0) as id, coalesce(max(at), '-infinity') as at
	from consent_events where org_id = @org and phone = @phone and state = 'opted_in'
), lines as (
	select max(e.at) as at, coalesce(bool_or(e.source in ('inbound', 'twilio_21610')), false) as theirs
	from consent_events e, last_in where e.org_id = @org and e.phone = @phone and e.id > last_in.id
)
select greatest(lines.at, ` + SQLSuppressed + `), lines.theirs or coalesce(` + SQLSuppressed + ` > last_in.at, false) or coalesce((
	select m.consent_effect = 'opt_out' from sms_messages m
	where m.org_id = @org and m.from_number = @phone and m.direction = 'inbound' and m.consent_effect in ('opt_out', 'opt_in')
	order by m.created_at desc limit 1
), false) or exists (
	select from sms_messages m
	where m.org_id = @org and m.from_number = @phone and m.direction = 'inbound' and m.consent_effect = 'doubtful'
		and m.reminders is null and m.tips is null and m.created_at > last_in.at and m.created_at <= lines.at
)
from last_in, lines`

// optOut reads the opt-out in force; zero when there is none.
func optOut(ctx context.Context, tx pgx.Tx, state consent.State, args postgres.Args) (o OptOut, err error) {
	if state == consent.OptedIn {
		return o, nil
	}
	var at *time.Time
	err = tx.QueryRow(ctx, sqlOptOut, args).Scan(&at, &o.Theirs)
	o.At = edge.Value(at)
	return o, err
}

// SetConsent writes an operator's note, also when it only confirms the state there is, and returns the ledger with its last lines. Errors:
// those of Note.Check.
func (s *Store) SetConsent(ctx context.Context, n Note) (ledger Ledger, err error) {
	defer edge.Mark(&err)
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		args := postgres.Args{
			"org": n.OrgID, "phone": n.Phone.String(), "state": string(n.State), "at": n.At, "words": n.Words(), "sender": n.Sender,
		}
		if err := s.checkKey(ctx, tx, s.Named(args, n.OrgID, n.Phone.String())); err != nil {
			return err
		}
		state, err := Lock(ctx, tx, args)
		if err != nil {
			return err
		}
		current, err := optOut(ctx, tx, state, args)
		if err != nil {
			return err
		}
		if err := n.Check(current); err != nil {
			return err
		}
		if err := edge.Exec(ctx, tx, sqlSetConsent, args); err != nil {
			return err
		}
		if err := edge.Exec(ctx, tx, sqlNote, args); err != nil {
			return err
		}
		if n.State == consent.OptedOut { // it settles the words that may be one, too
			if err := edge.Exec(ctx, tx, sqlJudgeWords, args); err != nil {
				return err
			}
		}
		ledger, err = readLedger(ctx, tx, n.OrgID, n.Phone, Page{After: -1, Limit: edge.LargestPage})
		return err
	})
	return ledger, err
}

const sqlConsentState = `
select state from consents where org_id = @org and phone = @phone
union all
select 'opted_out' where ` + SQLSuppressed + ` is not null
limit 1`

// State is the state in force, also that of a STOP from before the person was erased; empty when nothing is recorded.
func (s *Store) State(ctx context.Context, orgID uuid.UUID, phone string) (state consent.State, err error) {
	defer edge.Mark(&err)
	args := s.Named(postgres.Args{"org": orgID, "phone": phone}, orgID, phone)
	err = s.pool.QueryRow(ctx, sqlConsentState, args).Scan(&state)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return state, err
}

// Consent is the ledger of a number, all of it verified, and a page of its lines; ErrConsentNotFound when nothing is
// recorded.
func (s *Store) Consent(
	ctx context.Context, orgID uuid.UUID, phone sms.Phone, page Page,
) (ledger Ledger, err error) {
	defer edge.Mark(&err)
	return readLedger(ctx, s.pool, orgID, phone, page)
}

// sqlLedger has one row per line, and at least one: the state stands in each. All of it is read, whatever the page is: a chain is
// verified from its beginning.
const sqlLedger = `
select c.state as now, c.updated_at, c.carrier_blocks, c.chain_length, encode(c.chain_head, 'hex') as chain_head,
	e.id is not null as is_line, e.at, e.state, e.source, e.words, e.sender, e.message_id, e.keyword_pack, e.rules_version, e.confirmed_by,
	e.confirmation, e.seq, encode(e.prev_hash, 'hex') as prev_hash, encode(e.hash, 'hex') as hash, r.outcome as confirmed,
	e.actor::text as actor
from consents c left join consent_events e using (org_id, phone)
left join consent_replies r on r.message_id = e.message_id and r.kind = 'stop' and e.confirmed_by = 'paceline'
where c.org_id = @org and c.phone = @phone
order by e.id`

type ledgerRow struct {
	Now           string
	UpdatedAt     time.Time
	CarrierBlocks bool
	ChainLength   int64
	ChainHead     *string

	IsLine       bool
	At           *time.Time
	State        *string
	Source       *string
	Words        *string
	Sender       *string
	MessageID    *uuid.UUID
	KeywordPack  *string
	RulesVersion *string
	ConfirmedBy  *string
	Confirmation *string
	Seq          *int64
	PrevHash     *string
	Hash         *string
	Confirmed    *string
	Actor        *string
}

// line returns the n-th line. A line from before there were chains has no number.
func (r ledgerRow) line(n int) Line {
	l := Line{
		Event: Event{
			At: edge.Value(r.At).UTC(), State: consent.State(edge.Value(r.State)), Source: Source(edge.Value(r.Source)), Words: edge.Value(r.Words),
			Sender: edge.Value(r.Sender), MessageID: edge.Value(r.MessageID), KeywordPack: edge.Value(r.KeywordPack),
			Rules: edge.Value(r.RulesVersion), ConfirmedBy: Confirmer(edge.Value(r.ConfirmedBy)), Confirmation: edge.Value(r.Confirmation),
		},
		Seq: int64(n), PrevHash: edge.Value(r.PrevHash), Hash: edge.Value(r.Hash), Confirmed: edge.Value(r.Confirmed),
		Actor: r.Actor,
	}
	if r.Seq != nil {
		l.Seq = *r.Seq
	}
	return l
}

func readLedger(
	ctx context.Context, c edge.Conn, orgID uuid.UUID, phone sms.Phone, page Page,
) (Ledger, error) {
	rows, err := c.Query(ctx, sqlLedger, postgres.Args{"org": orgID, "phone": phone.String()})
	if err != nil {
		return Ledger{}, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[ledgerRow])
	if err != nil {
		return Ledger{}, err
	}
	if len(found) == 0 {
		return Ledger{}, ErrConsentNotFound
	}
	first := found[0]
	ledger := Ledger{
		OrgID: orgID, Phone: phone, State: consent.State(first.Now), UpdatedAt: first.UpdatedAt.UTC(), CarrierBlocks: first.CarrierBlocks,
		Chain: consent.Chain{Length: first.ChainLength, Head: edge.Value(first.ChainHead), State: first.Now},
	}
	for i, r := range found {
		if r.IsLine {
			ledger.Events = append(ledger.Events, r.line(i+1))
		}
	}
	ledger.Broken = ledger.Verify()
	return ledger.Page(page), nil
}
