package events

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"paceline.internal/platform/process"
)

const (
	// maxStreams bounds the open streams of a process, and maxStreamsOfOrg those of one organisation.
	maxStreams      = 256
	maxStreamsOfOrg = 16
	// maxReads bounds how many of them read at a time, so that they leave connections to the conversations.
	maxReads = 4
	// lookEvery is the interval at which a process with open streams looks whether there is more, and idleEvery one without.
	lookEvery = 500 * time.Millisecond
	idleEvery = time.Minute
)

// Hub wakes the streams of a process when there is more in the log. One small read stands for all of them.
type Hub struct {
	last   func(ctx context.Context) (int64, error)
	logger *slog.Logger
	opened chan struct{}
	reads  chan struct{}

	mu       sync.Mutex
	ofOrg    map[string]int
	open     int
	seen     int64
	changed  chan struct{} // closed when there is more
	draining chan struct{}
}

// NewHub returns a hub; last reads the last number of the log.
func NewHub(last func(ctx context.Context) (int64, error), logger *slog.Logger) *Hub {
	return &Hub{
		last: last, logger: logger, opened: make(chan struct{}, 1), reads: make(chan struct{}, maxReads), ofOrg: map[string]int{},
		changed: make(chan struct{}), draining: make(chan struct{}),
	}
}

// Open takes a place for a stream of an organisation. ErrFull, ErrDraining.
func (h *Hub) Open(orgID string) (leave func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.draining:
		return nil, ErrDraining
	default:
	}
	if h.open >= maxStreams || h.ofOrg[orgID] >= maxStreamsOfOrg {
		return nil, ErrFull
	}
	h.open++
	h.ofOrg[orgID]++
	select {
	case h.opened <- struct{}{}:
	default:
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.open--
		if h.ofOrg[orgID]--; h.ofOrg[orgID] == 0 {
			delete(h.ofOrg, orgID)
		}
	}, nil
}

// Changed returns a channel that is closed when there is more in the log than there was when it was asked for.
func (h *Hub) Changed() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changed
}

// Wait waits until changed is closed: nil. ErrDraining when the process ends, or the error of ctx.
func (h *Hub) Wait(ctx context.Context, changed <-chan struct{}) error {
	select {
	case <-changed:
		return nil
	case <-h.draining:
		return ErrDraining
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Read does one read of a stream, when it is its turn.
func (h *Hub) Read(ctx context.Context, read func() error) error {
	select {
	case h.reads <- struct{}{}:
		defer func() { <-h.reads }()
		return read()
	case <-h.draining:
		return ErrDraining
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Loop looks for more while a stream is open.
func (h *Hub) Loop(rest process.Rest) process.Repetition {
	return process.Repetition{
		Once: func(ctx context.Context) (bool, error) { return false, h.look(ctx) },
		Failed: func(ctx context.Context, err error) {
			h.logger.WarnContext(ctx, "events.look_failed", "error", err)
		},
		Rest: rest, Wake: h.opened,
		Next: func() time.Duration {
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.open > 0 {
				return lookEvery
			}
			return idleEvery
		},
	}
}

func (h *Hub) look(ctx context.Context) error {
	h.mu.Lock()
	open := h.open
	h.mu.Unlock()
	if open == 0 {
		return nil
	}
	last, err := h.last(ctx)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if last > h.seen {
		h.seen = last
		close(h.changed)
		h.changed = make(chan struct{})
	}
	return nil
}

// Drain ends the streams in order.
func (h *Hub) Drain() {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.draining:
	default:
		close(h.draining)
	}
}
