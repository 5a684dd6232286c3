package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/process"
)

// bellPause is the least time between two notifications of one process. NOTIFY serialises the commits of the whole database;
// at this rate nothing is lost by it.
const bellPause = 5 * time.Millisecond

// Notifier wakes the runners of a queue in every process, by NOTIFY, outside the transactions that enqueue. Those of this process are woken
// at once. Ring it after the commit.
type Notifier struct {
	pool    postgres.DB
	channel string
	wake    chan<- struct{}
	rung    chan struct{}
	log     *slog.Logger
}

// NewNotifier makes the bell of a channel; wake, which may be nil, is the channel of one that the runner here listens on.
func NewNotifier(pool postgres.DB, channel string, wake chan<- struct{}, log *slog.Logger) *Notifier {
	return &Notifier{pool: pool, channel: channel, wake: wake, rung: make(chan struct{}, 1), log: log}
}

// Ring says that something may be due. It returns at once; a ring before the last was heard adds nothing.
func (b *Notifier) Notify() {
	Wake(b.wake)
	Wake(b.rung)
}

// Wake leaves a wake-up in a channel of one; a second before the first was heard adds nothing.
func Wake(channel chan<- struct{}) {
	if channel == nil {
		return
	}
	select {
	case channel <- struct{}{}:
	default:
	}
}

// Run notifies until ctx ends. A notification that fails is not repeated: the runners poll.
func (b *Notifier) Run(ctx context.Context) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-pause.C:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-b.rung:
		}
		if err := process.Bounded(ctx, 0, b.notify); err != nil && ctx.Err() == nil {
			b.log.WarnContext(ctx, "worker.not_notified", "channel", b.channel, "error", err)
			if errors.Is(err, process.ErrSilent) {
				Wake(b.rung) // it was not heard, and a loop that stands still is ready again only after a pass
			}
		}
		pause.Reset(bellPause)
	}
}

func (b *Notifier) notify(ctx context.Context) error {
	if _, err := b.pool.Exec(ctx, `select pg_notify($1, '')`, b.channel); err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	return nil
}
