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

// notifyPause is the least time between two notifications of one process. NOTIFY serialises the commits of the whole database;
// at this rate nothing is lost by it.
const notifyPause = 5 * time.Millisecond

// Notifier wakes the runners of a queue in every process, by NOTIFY, outside the transactions that enqueue. Those of this process are woken
// at once. Notify after the commit.
type Notifier struct {
	pool    postgres.DB
	channel string
	wake    chan<- struct{}
	asked   chan struct{} // of one
	log     *slog.Logger
}

// NewNotifier returns the notifier of a channel; wake, which may be nil, is the channel of one that wakes the runner of this process.
func NewNotifier(pool postgres.DB, channel string, wake chan<- struct{}, log *slog.Logger) *Notifier {
	return &Notifier{pool: pool, channel: channel, wake: wake, asked: make(chan struct{}, 1), log: log}
}

// Notify says that something may be due. It returns at once; a second call before the first took effect adds nothing.
func (n *Notifier) Notify() {
	Wake(n.wake)
	Wake(n.asked)
}

// Wake leaves a wake-up in a channel of one; a second before the first was received adds nothing.
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
func (n *Notifier) Run(ctx context.Context) error {
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
		case <-n.asked:
		}
		if err := process.Bounded(ctx, 0, n.notify); err != nil && ctx.Err() == nil {
			n.log.WarnContext(ctx, "queue.not_notified", "channel", n.channel, "error", err)
			if errors.Is(err, process.ErrSilent) {
				Wake(n.asked) // it may not have been sent, and a loop that stands still is ready again only after a pass
			}
		}
		pause.Reset(notifyPause)
	}
}

func (n *Notifier) notify(ctx context.Context) error {
	if _, err := n.pool.Exec(ctx, `select pg_notify($1, '')`, n.channel); err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	return nil
}
