package outbound

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"paceline.internal/platform/queue"
	"paceline.internal/services/messaging/delivery"
)

// Desk is where texts are asked for, looked at and taken back.
type Desk struct {
	Store  deskStore
	Sender delivery.Sender
	Wake   chan<- struct{} // of the runner of this process
	Log    *slog.Logger
	Now    func() time.Time
}

// deskStore keeps the texts; postgres.Outbound implements it.
type deskStore interface {
	// Enqueue stores a text under an id, or finds the one that has its key. ErrKeyReused when that one is another.
	Enqueue(ctx context.Context, r Request, id uuid.UUID, now time.Time) (stored Text, duplicate bool, err error)
	// Text reads one; ErrNotFound.
	Text(ctx context.Context, orgID, id uuid.UUID) (Text, error)
	Texts(ctx context.Context, q Query) ([]Text, error)
	// Cancel takes a text back unless Twilio has it or may have it; ErrNotFound, ErrNotCancellable.
	Cancel(ctx context.Context, orgID, id uuid.UUID, now time.Time) (Text, error)
}

// Enqueue stores a text, once per key.
func (d *Desk) Enqueue(ctx context.Context, r Request) (stored Text, duplicate bool, err error) {
	now := d.Now().Truncate(time.Microsecond) // as Postgres keeps it
	r.SendAt, r.ExpiresAt = r.SendAt.Truncate(time.Microsecond), r.ExpiresAt.Truncate(time.Microsecond)
	if err := r.check(now); err != nil {
		return Text{}, false, err
	}
	if _, err := d.Sender.Of(r.OrgID); err != nil {
		return Text{}, false, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Text{}, false, fmt.Errorf("text id: %w", err)
	}
	stored, duplicate, err = d.Store.Enqueue(ctx, r, id, now)
	if err != nil {
		return Text{}, false, err
	}
	if !duplicate {
		queue.Wake(d.Wake)
		d.Log.LogAttrs(ctx, slog.LevelInfo, "messaging.text_queued", slog.String("text_id", stored.ID.String()),
			slog.String("purpose", string(stored.Purpose)), slog.Time("send_at", stored.SendAt))
	}
	return stored, duplicate, nil
}

// Get reads one text.
func (d *Desk) Get(ctx context.Context, orgID, id uuid.UUID) (Text, error) {
	return d.Store.Text(ctx, orgID, id)
}

// List reads texts, newest first.
func (d *Desk) List(ctx context.Context, q Query) ([]Text, error) { return d.Store.Texts(ctx, q) }

// Cancel takes a text back.
func (d *Desk) Cancel(ctx context.Context, orgID, id uuid.UUID) (Text, error) {
	t, err := d.Store.Cancel(ctx, orgID, id, d.Now())
	if err == nil {
		d.Log.LogAttrs(ctx, slog.LevelInfo, "messaging.text_cancelled", slog.String("text_id", id.String()))
	}
	return t, err
}
