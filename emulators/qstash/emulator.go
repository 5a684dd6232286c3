// Package qstash is a faithful local stand-in for Upstash QStash: the same HTTP interface, signatures, delays,
// retries and dead letters, on a clock that can be set, with faults that can be scripted and a record of everything.
//
// It delivers messages, single and in batches. URL groups, queues, schedules, flow control, several labels and whatever else it does not
// play is refused with 501 and an error that names it, and unlike QStash it delivers to private and local addresses. Everything lives in
// memory, within bounds.
package qstash

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"paceline.internal/emulators/clock"
)

// What the vendor publishes for its own local server, so that every SDK's development mode works against this one.
// See https://upstash.com/docs/qstash/howto/local-development.
const (
	DevAddr       = "127.0.0.1:8080"
	DevToken      = "eyJVc2VySUQiOiJkZWZhdWx0VXNlciIsIlBhc3N3b3JkIjoiZGVmYXVsdFBhc3N3b3JkIn0=" //nolint:gosec // published test value
	DevCurrentKey = "sig_7kYjw48mhY7kAjqNGcy6cr29RJ6r"
	DevNextKey    = "sig_5ZB6DVzB1wjE8S6rZ7eenA8Pdnhs"
)

// Config sets an emulator up. The zero Config is a pay-as-you-go account with the published development token and
// keys, on the system clock.
type Config struct {
	// Clock is the clock of delays, retries, timeouts and signatures.
	Clock clock.Clock
	// HTTPClient makes the deliveries; nil means one with a connection pool. Redirects are never followed.
	HTTPClient *http.Client
	// OnEvent gets every event, in the order of the record and one at a time, before Idle returns. It may read
	// the emulator, and must neither block nor wait for Idle.
	OnEvent func(Event)
	// Log gets one line per event, without bodies and headers; nil means none.
	Log *slog.Logger
}

// The limits of the first paid plan: https://upstash.com/pricing/qstash.
const (
	maxDelay   = 365 * 24 * time.Hour // of Upstash-Delay, and until Upstash-Not-Before
	maxBody    = 10 << 20             // bytes of a message
	maxTimeout = 2 * time.Hour        // of one attempt
)

// Emulator is one QStash account and the machinery behind it. It is an http.Handler that must be reached without a
// ServeMux in front, since that would clean the destination's "//" out of the path. Close or Shutdown ends it.
type Emulator struct {
	cfg    Config
	http   *http.Client
	script scripted

	mu          sync.Mutex
	closed      bool
	attempts    context.Context //nolint:containedctx // the life of the attempts in flight; Restart and Close end it
	drop        context.CancelFunc
	current     string
	next        string
	messages    map[string]*message
	duplicates  duplicates
	deadLetters []deadLetter
	givenUp     int // how many messages were ever given up, for the ids of dead letters

	flying  int // attempts in flight
	timers  map[*timer]struct{}
	waiters []chan struct{} // of Idle

	record     Record
	forgotten  int     // events before the record's first
	unreported []Event // recorded, and not yet given to OnEvent
	notifying  bool
}

// New returns an emulator that is ready to be served, with no goroutine running.
func New(cfg Config) *Emulator {
	cfg = withDefaults(cfg)
	e := &Emulator{
		cfg:        cfg,
		http:       deliveryClient(cfg.HTTPClient),
		current:    DevCurrentKey,
		next:       DevNextKey,
		messages:   map[string]*message{},
		duplicates: newDuplicates(),
		timers:     map[*timer]struct{}{},
	}
	e.attempts, e.drop = context.WithCancel(context.Background())
	return e
}

func withDefaults(cfg Config) Config {
	if cfg.Clock == nil {
		cfg.Clock = clock.System()
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return cfg
}

// Shutdown stops the timers, refuses new messages and waits for the deliveries in flight. When ctx ends first they
// are dropped, and its error is returned.
func (e *Emulator) Shutdown(ctx context.Context) error {
	e.lock()
	e.stopTimers()
	e.unlock()
	err := e.Idle(ctx)
	e.Close()
	return err
}

// Close stops the timers, drops the deliveries in flight and returns when they have ended.
func (e *Emulator) Close() {
	e.lock()
	e.stopTimers()
	e.drop()
	e.unlock()
	_ = e.Idle(context.Background()) // cannot fail: this context never ends
	if e.cfg.HTTPClient == nil {
		e.http.CloseIdleConnections()
	}
}

// stopTimers ends everything that waits, for good. The lock is held.
func (e *Emulator) stopTimers() {
	e.closed = true
	for t := range e.timers {
		e.forget(t)
	}
}

// Restart is a crash of QStash and its recovery: the attempts in flight are dropped with their outcomes forgotten, and
// begin again at once under the same message id. Messages that wait keep waiting.
func (e *Emulator) Restart() {
	e.lock()
	defer e.unlock()
	if e.closed {
		return
	}
	e.drop()
	e.attempts, e.drop = context.WithCancel(context.Background())
	for _, m := range e.messages {
		if m.flying {
			m.epoch++
			e.launch(m)
		}
	}
}

// lock and unlock guard everything below mu.
func (e *Emulator) lock() { e.mu.Lock() }

// unlock first reports to the observer what happened under the lock, then wakes those that wait for quiescence. One
// goroutine at a time reports, for all, so the order is kept and the observer itself may take the lock.
func (e *Emulator) unlock() {
	defer e.mu.Unlock()
	if e.notifying {
		return
	}
	e.notifying = true
	for len(e.unreported) > 0 {
		batch := e.unreported
		e.unreported = nil
		e.mu.Unlock()
		for _, event := range batch {
			e.report(event)
		}
		e.mu.Lock()
	}
	e.notifying = false
	if len(e.waiters) > 0 && e.idle() {
		for _, w := range e.waiters {
			close(w)
		}
		e.waiters = nil
	}
}
