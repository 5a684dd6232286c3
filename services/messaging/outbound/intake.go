package outbound

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"paceline.internal/platform/queue"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/senders"
)

// Intake is the place where messages are asked for and taken back.
type Intake struct {
	Store   *Store
	Senders *senders.Directory
	Send    *send.Service   // knows which recipients are texted
	Wake    chan<- struct{} // of the runner of this process
	Log     *slog.Logger
	Now     func() time.Time
}

// Enqueue stores a message, once per key.
func (i *Intake) Enqueue(ctx context.Context, r Request) (stored Queued, duplicate bool, err error) {
	now := i.Now().Truncate(time.Microsecond) // as Postgres keeps it
	r.SendAt, r.ExpiresAt = r.SendAt.Truncate(time.Microsecond), r.ExpiresAt.Truncate(time.Microsecond)
	if err := r.check(now); err != nil {
		return Queued{}, false, err
	}
	if _, err := i.Senders.Active(ctx, r.OrgID); err != nil {
		return Queued{}, false, err
	}
	decided, err := i.Send.Settings(ctx, r.OrgID)
	if err != nil {
		return Queued{}, false, err
	}
	if _, err := decided.Numbers.Check(r.To.String()); err != nil {
		return Queued{}, false, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Queued{}, false, fmt.Errorf("text id: %w", err)
	}
	stored, duplicate, err = i.Store.Enqueue(ctx, r, id, now)
	if err != nil {
		return Queued{}, false, err
	}
	if !duplicate {
		queue.Wake(i.Wake)
		i.Log.LogAttrs(ctx, slog.LevelInfo, "messaging.text_queued", slog.String("text_id", stored.ID.String()),
			slog.String("purpose", string(stored.Purpose)), slog.Time("send_at", stored.SendAt))
	}
	return stored, duplicate, nil
}

// Cancel takes a message back.
func (i *Intake) Cancel(ctx context.Context, orgID, id uuid.UUID) (Queued, error) {
	m, err := i.Store.Cancel(ctx, orgID, id, i.Now())
	if err == nil {
		i.Log.LogAttrs(ctx, slog.LevelInfo, "messaging.text_cancelled", slog.String("text_id", id.String()))
	}
	return m, err
}
