package alarms

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"paceline.internal/platform/outbox"
	"paceline.internal/platform/qstash"
)

const (
	// patience bounds a publish to QStash, so that the caller has time left for the database.
	patience = 2 * time.Second
	// aside is the time for which QStash is not asked after it refused or was silent.
	aside = 10 * time.Second
)

// Deleter withdraws what was published; qstash.Client, Engine and Takeover implement it.
type Deleter interface {
	Delete(ctx context.Context, messageID string) error
}

// Takeover publishes to QStash, and to the database while QStash refuses, is silent, or has lost the alarm before. An alarm that both ring
// does its work once, as one that QStash delivers twice.
type Takeover struct {
	QStash   outbox.Publisher
	Messages Deleter
	Own      *Engine
	Log      *slog.Logger
	Now      func() time.Time

	until atomic.Int64 // QStash is not asked before, in nanoseconds of Unix time; 0 while it answers
}

// Publish implements outbox.Publisher.
func (t *Takeover) Publish(ctx context.Context, job qstash.Job) (qstash.Receipt, error) {
	now, until := t.Now(), t.until.Load()
	// Of those who come when QStash may be asked again one asks it: the others would all wait for it.
	probes := until > 0 && now.UnixNano() >= until && t.until.CompareAndSwap(until, now.Add(aside).UnixNano())
	if job.Lost || until > 0 && !probes {
		return t.Own.Publish(ctx, job)
	}
	asked, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	receipt, err := t.QStash.Publish(asked, job)
	if err == nil && probes {
		t.until.Store(0)
	}
	if err == nil || errors.Is(err, qstash.ErrInvalid) || ctx.Err() != nil {
		return receipt, err
	}
	t.until.Store(t.Now().Add(aside).UnixNano())
	t.Log.WarnContext(ctx, "alarms.taken_over", "seconds", aside.Seconds(), "error", err)
	return t.Own.Publish(ctx, job)
}

// Delete withdraws an alarm from the engine that has it.
func (t *Takeover) Delete(ctx context.Context, messageID string) error {
	if uuid.Validate(messageID) == nil {
		return t.Own.Delete(ctx, messageID)
	}
	return t.Messages.Delete(ctx, messageID)
}
