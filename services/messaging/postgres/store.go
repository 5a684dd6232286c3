// Package postgres keeps messages, receipts, the evidence about messages in doubt, and consent. No transaction leaves it, and
// none is held while another service is called. Locks are taken in one order, consent before message, so that they cannot
// cross; only a receipt that tells of an opt-out, or a status that was fetched in its place, has to find its message first, and
// the server breaks a deadlock of that by having one run again.
package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sms"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations is the schema of the messaging database.
func Migrations() postgres.Migrations {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		panic(err) // only a malformed path could do this, and it is the constant above
	}
	return postgres.Migrations{FS: files, Service: "messaging"}
}

// Store is the messaging database.
type Store struct {
	pool postgres.DB
	hot  *postgres.Combiner // of what every message does

	Pseudonyms consent.Pseudonyms // of erased people; without a key no person can be erased
}

// NewStore works on a migrated database; the caller keeps owning the pool.
func NewStore(pool postgres.DB) *Store { return &Store{pool: pool, hot: postgres.NewCombiner(pool)} }

// conn is what a query runs on: the pool, or a transaction.
type conn interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

const columns = `id, org_id, profile_id, direction, from_number, to_number, body, body_hash, idempotency_key, status, twilio_sid,
	error_code, segments, correlation_id, attempt_token, attempted_at, lease_until, attempts, unknown_policy, absent_since,
	next_look_at, looks, failing_since, failed_looks, accepted_at, asked_at, consent_effect, reminders, tips, lifts_hold, created_at,
	updated_at`

// columnsOfClaimed are the columns of an m.
var columnsOfClaimed = "m." + strings.Join(strings.FieldsFunc(columns, func(r rune) bool { return r == ',' || unicode.IsSpace(r) }), ", m.")

// row is sms_messages, column by column.
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
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

// message reads the row back. An unknown status or effect means that a newer release wrote it.
func (r row) message() (send.Message, error) {
	status, err := sms.ParseStatus(r.Status)
	if err != nil {
		return send.Message{}, fmt.Errorf("message %s: %w", r.ID, err)
	}
	effect, err := parseEffect(value(r.ConsentEffect))
	if err != nil {
		return send.Message{}, fmt.Errorf("message %s: %w", r.ID, err)
	}
	reminders, remindersErr := consent.ParseSwitch(value(r.Reminders))
	tips, tipsErr := consent.ParseSwitch(value(r.Tips))
	if err := errors.Join(remindersErr, tipsErr); err != nil {
		return send.Message{}, fmt.Errorf("message %s: %w", r.ID, err)
	}
	m := send.Message{
		ID: r.ID, OrgID: r.OrgID, ProfileID: value(r.ProfileID), Direction: send.Direction(r.Direction),
		From: r.FromNumber, To: r.ToNumber, Body: r.Body, Key: value(r.IdempotencyKey),
		Status: status, SID: value(r.TwilioSID), ErrorCode: value(r.ErrorCode), Segments: r.Segments,
		CorrelationID: r.CorrelationID, AttemptToken: value(r.AttemptToken), AttemptedAt: value(r.AttemptedAt).UTC(),
		LeaseUntil: value(r.LeaseUntil).UTC(), UnknownPolicy: send.UnknownPolicy(r.UnknownPolicy),
		AbsentSince: value(r.AbsentSince).UTC(), NextCheckAt: value(r.NextLookAt).UTC(), Checks: r.Looks,
		FailingSince: value(r.FailingSince).UTC(), FailedListings: r.FailedLooks,
		Attempts: r.Attempts, AcceptedAt: value(r.AcceptedAt).UTC(), AskedAt: value(r.AskedAt).UTC(), ConsentEffect: effect,
		Preferences: consent.Preferences{Reminders: reminders, Tips: tips}, LiftsHold: value(r.LiftsHold),
		CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
	}
	if m.Direction == send.Outbound && r.AttemptedAt == nil { // claimed by a release that did not note it
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

// messages runs a query of columns.
func messages(ctx context.Context, c conn, sql string, args postgres.Args) ([]send.Message, error) {
	rows, err := c.Query(ctx, sql, args)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, toMessage)
}

func toMessage(found pgx.CollectableRow) (send.Message, error) {
	r, err := pgx.RowToStructByName[row](found)
	if err != nil {
		return send.Message{}, err
	}
	return r.message()
}

// legible reads what a batch was claimed for, but for rows that this release cannot read, such as one with a status of a newer release
// that runs beside it: they are left to that, and do not keep the others from being done.
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

// message runs a query of columns that finds one row at most.
func message(ctx context.Context, c conn, sql string, args postgres.Args) (send.Message, bool, error) {
	found, err := messages(ctx, c, sql, args)
	if err != nil || len(found) == 0 {
		return send.Message{}, false, err
	}
	return found[0], true, nil
}

// one runs a statement that must find its row.
func one(ctx context.Context, c conn, sql string, args postgres.Args) (send.Message, error) {
	m, found, err := message(ctx, c, sql, args)
	if err == nil && !found {
		err = errNoRow
	}
	return m, err
}

// errNoRow is a row that was there a moment ago; rows are never deleted.
var errNoRow = errors.New("the message row is gone")

// value is what p points to, or the zero value for NULL.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// null is the reverse of value.
func null[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

func exec(ctx context.Context, tx pgx.Tx, sql string, args postgres.Args) error {
	_, err := tx.Exec(ctx, sql, args)
	return err
}
