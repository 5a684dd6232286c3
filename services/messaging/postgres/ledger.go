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
	"paceline.internal/services/messaging/sms"
)

// lockConsent reads the state of consent and keeps every send and every other change waiting until the transaction
// ends. Nothing is locked, and the state is empty, when nothing is recorded.
func lockConsent(ctx context.Context, tx pgx.Tx, args pgx.NamedArgs) (state consent.State, err error) {
	if err := tx.QueryRow(ctx, sqlLockConsent, args).Scan(&state); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return "", err
	}
	return state, nil
}

// consentChange is a change of state together with the line that it adds to the ledger.
type consentChange struct {
	OrgID    uuid.UUID
	Phone    string
	Event    delivery.LedgerEvent
	NotAfter time.Time // a state that changed later than this stands; zero when none does
}

// sqlChange writes a line only if the state changes.
const sqlChange = `
with changed as (
	insert into consents as c (org_id, phone, state, updated_at) values (@org, @phone, @state, @at)
	on conflict (org_id, phone) do update set state = excluded.state, updated_at = excluded.updated_at
	where c.state <> excluded.state and (@not_after::timestamptz is null or c.updated_at <= @not_after)
	returning org_id, phone
)
insert into consent_events (org_id, phone, at, state, source, words, sender, message_id, keyword_pack)
select org_id, phone, @at, @state, @source, @words, @sender, @message, @pack from changed`

func change(ctx context.Context, tx pgx.Tx, c consentChange) error {
	pack := ""
	if c.Event.Source == delivery.FromText {
		pack = consent.Version
	}
	return exec(ctx, tx, sqlChange, pgx.NamedArgs{
		"org": c.OrgID, "phone": c.Phone, "state": string(c.Event.State), "at": c.Event.At, "not_after": null(c.NotAfter),
		"source": string(c.Event.Source), "words": c.Event.Words, "sender": c.Event.Sender, "message": null(c.Event.MessageID), "pack": pack,
	})
}

const sqlSetConsent = `
insert into consents as c (org_id, phone, state, updated_at) values (@org, @phone, @state, @at)
on conflict (org_id, phone) do update set state = excluded.state, updated_at = excluded.updated_at
where c.state <> excluded.state`

const sqlNote = `
insert into consent_events (org_id, phone, at, state, source, words, sender)
values (@org, @phone, @at, @state, 'operator', @words, @sender)`

// SetConsent writes an operator's note, also when it only confirms the state there is, and returns the ledger.
func (s *Store) SetConsent(ctx context.Context, n delivery.Note) (ledger delivery.Ledger, err error) {
	defer mark(&err)
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		args := pgx.NamedArgs{
			"org": n.OrgID, "phone": n.Phone.String(), "state": string(n.State), "at": n.At, "words": n.Reason, "sender": n.Sender,
		}
		if err := exec(ctx, tx, sqlSetConsent, args); err != nil {
			return err
		}
		if err := exec(ctx, tx, sqlNote, args); err != nil {
			return err
		}
		ledger, err = readLedger(ctx, tx, n.OrgID, n.Phone)
		return err
	})
	return ledger, err
}

// Consent is the ledger of a number; delivery.ErrConsentNotFound when nothing is recorded.
func (s *Store) Consent(ctx context.Context, orgID uuid.UUID, phone sms.Phone) (ledger delivery.Ledger, err error) {
	defer mark(&err)
	return readLedger(ctx, s.pool, orgID, phone)
}

// sqlLedger has one row per line, and at least one: the state stands in each.
const sqlLedger = `
select c.state as now, c.updated_at, e.at, e.state, e.source, e.words, e.sender, e.message_id
from consents c left join consent_events e using (org_id, phone)
where c.org_id = @org and c.phone = @phone
order by e.id`

type ledgerRow struct {
	Now       string
	UpdatedAt time.Time
	At        *time.Time
	State     *string
	Source    *string
	Words     *string
	Sender    *string
	MessageID *uuid.UUID
}

func readLedger(ctx context.Context, c conn, orgID uuid.UUID, phone sms.Phone) (delivery.Ledger, error) {
	rows, err := c.Query(ctx, sqlLedger, pgx.NamedArgs{"org": orgID, "phone": phone.String()})
	if err != nil {
		return delivery.Ledger{}, err
	}
	lines, err := pgx.CollectRows(rows, pgx.RowToStructByName[ledgerRow])
	if err != nil {
		return delivery.Ledger{}, err
	}
	if len(lines) == 0 {
		return delivery.Ledger{}, delivery.ErrConsentNotFound
	}
	ledger := delivery.Ledger{
		OrgID: orgID, Phone: phone, State: consent.State(lines[0].Now), UpdatedAt: lines[0].UpdatedAt.UTC(),
	}
	for _, l := range lines {
		if l.At != nil {
			ledger.Events = append(ledger.Events, delivery.LedgerEvent{
				At: l.At.UTC(), State: consent.State(value(l.State)), Source: delivery.Source(value(l.Source)),
				Words: value(l.Words), Sender: value(l.Sender), MessageID: value(l.MessageID),
			})
		}
	}
	return ledger, nil
}
