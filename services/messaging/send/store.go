package send

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/consent/ledger"
	"paceline.internal/services/messaging/edge"
	"paceline.internal/services/messaging/sms"
)

// Store keeps messages, receipts, and the evidence about messages in doubt. No transaction leaves the service, and none is held while
// another service is called. Locks are taken in one order, consent before message, so that they cannot cross. Only a receipt that tells of
// an opt-out, or a status that was fetched in its place, has to find its message first; Postgres breaks a deadlock of that, and one of the
// two transactions runs again.
type Store struct {
	pool   postgres.DB
	hot    *postgres.Combiner // of what every message does
	ledger *ledger.Store

	// Beat names the process and the furthest count that it has seen committed: a database without it went back. Nil where nobody counts.
	Beat func() (process uuid.UUID, n int64)
}

// NewStore works on a migrated database; the caller keeps owning the pool.
func NewStore(pool postgres.DB, consents *ledger.Store) *Store {
	return &Store{pool: pool, hot: postgres.NewCombiner(pool), ledger: consents}
}

// Columns lists the columns that ReadMessage reads, and ColumnsOfClaimed the same of an m.
const Columns = `id, org_id, profile_id, direction, from_number, to_number, body, body_hash, idempotency_key, status, twilio_sid,
	error_code, segments, correlation_id, attempt_token, attempted_at, lease_until, attempts, unknown_policy, absent_since,
	next_look_at, looks, failing_since, failed_looks, accepted_at, asked_at, consent_effect, reminders, tips, lifts_hold, sender_id,
	created_at, updated_at`

// ColumnsOfClaimed is documented at Columns.
var ColumnsOfClaimed = "m." + strings.Join(strings.FieldsFunc(Columns, func(r rune) bool { return r == ',' || unicode.IsSpace(r) }), ", m.")

type row struct {
	ID             uuid.UUID
	OrgID          uuid.UUID
	ProfileID      *uuid.UUID
	Direction      string
	FromNumber     string
	ToNumber       string
	Body           string
	BodyHash       []byte
	IdempotencyKey *string
	Status         string
	TwilioSID      *string `db:"twilio_sid"`
	ErrorCode      *int
	Segments       int
	CorrelationID  string
	AttemptToken   *uuid.UUID
	AttemptedAt    *time.Time
	LeaseUntil     *time.Time
	Attempts       int
	UnknownPolicy  string
	AbsentSince    *time.Time
	NextLookAt     *time.Time
	Looks          int
	FailingSince   *time.Time
	FailedLooks    int
	AcceptedAt     *time.Time
	AskedAt        *time.Time
	ConsentEffect  *string
	Reminders      *string
	Tips           *string
	LiftsHold      *bool
	SenderID       *uuid.UUID
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

// message reads the row back. An unknown status or effect means that a newer release wrote it.
func (r row) message() (Message, error) {
	status, err := sms.ParseStatus(r.Status)
	if err != nil {
		return Message{}, fmt.Errorf("message %s: %w", r.ID, err)
	}
	effect, err := parseEffect(edge.Value(r.ConsentEffect))
	if err != nil {
		return Message{}, fmt.Errorf("message %s: %w", r.ID, err)
	}
	reminders, remindersErr := consent.ParseSwitch(edge.Value(r.Reminders))
	tips, tipsErr := consent.ParseSwitch(edge.Value(r.Tips))
	if err := errors.Join(remindersErr, tipsErr); err != nil {
		return Message{}, fmt.Errorf("message %s: %w", r.ID, err)
	}
	m := Message{
		ID: r.ID, OrgID: r.OrgID, ProfileID: edge.Value(r.ProfileID), Direction: Direction(r.Direction),
		From: r.FromNumber, To: r.ToNumber, Body: r.Body, Key: edge.Value(r.IdempotencyKey),
		Status: status, SID: edge.Value(r.TwilioSID), ErrorCode: edge.Value(r.ErrorCode), Segments: r.Segments,
		CorrelationID: r.CorrelationID, AttemptToken: edge.Value(r.AttemptToken), AttemptedAt: edge.Value(r.AttemptedAt).UTC(),
		LeaseUntil: edge.Value(r.LeaseUntil).UTC(), UnknownPolicy: UnknownPolicy(r.UnknownPolicy),
		AbsentSince: edge.Value(r.AbsentSince).UTC(), NextCheckAt: edge.Value(r.NextLookAt).UTC(), Checks: r.Looks,
		FailingSince: edge.Value(r.FailingSince).UTC(), FailedListings: r.FailedLooks,
		Attempts: r.Attempts, AcceptedAt: edge.Value(r.AcceptedAt).UTC(), AskedAt: edge.Value(r.AskedAt).UTC(), ConsentEffect: effect,
		Preferences: consent.Preferences{Reminders: reminders, Tips: tips}, LiftsHold: edge.Value(r.LiftsHold),
		SenderID:  edge.Value(r.SenderID),
		CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
	}
	if m.Direction == Outbound && r.AttemptedAt == nil { // claimed by a release that did not note it
		m.AttemptedAt = m.CreatedAt
	}
	copy(m.BodyHash[:], r.BodyHash)
	return m, nil
}

// parseEffect reads what consent.Effect writes; an outbound row has none.
func parseEffect(stored string) (consent.Effect, error) {
	for _, e := range consent.Effects() {
		if stored == e.String() {
			return e, nil
		}
	}
	if stored == "" {
		return consent.None, nil
	}
	return consent.None, fmt.Errorf("unknown consent effect %q", stored)
}

func messages(ctx context.Context, c edge.Conn, sql string, args postgres.Args) ([]Message, error) {
	return edge.Collect(ctx, c, sql, args, ReadMessage)
}

// ReadMessage reads a row of Columns.
func ReadMessage(found pgx.CollectableRow) (Message, error) {
	r, err := pgx.RowToStructByName[row](found)
	if err != nil {
		return Message{}, err
	}
	return r.message()
}

// legible reads what a batch was claimed for, but for rows that this release cannot read, such as one with a status of a newer release
// that runs next to it: they are left to that, and do not keep the others from being done.
func legible[T any](rows pgx.Rows, read pgx.RowToFunc[T]) (all []T, unread []error, err error) {
	defer rows.Close()
	for rows.Next() {
		one, err := read(rows)
		if err != nil {
			unread = append(unread, err)
			continue
		}
		all = append(all, one)
	}
	return all, unread, rows.Err()
}

// FindMessage runs a query of Columns that finds one row at most.
func FindMessage(ctx context.Context, c edge.Conn, sql string, args postgres.Args) (Message, bool, error) {
	found, err := messages(ctx, c, sql, args)
	if err != nil || len(found) == 0 {
		return Message{}, false, err
	}
	return found[0], true, nil
}

// OneMessage runs a statement that must find its row.
func OneMessage(ctx context.Context, c edge.Conn, sql string, args postgres.Args) (Message, error) {
	m, found, err := FindMessage(ctx, c, sql, args)
	if err == nil && !found {
		err = errNoRow
	}
	return m, err
}

// errNoRow is a row that was there a moment ago; rows are never deleted.
var errNoRow = errors.New("the message row is gone")
