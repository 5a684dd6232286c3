// Package twilio is a stand-in for Twilio's Messages API and for the phone network behind it: it accepts messages over
// HTTP, delivers receipts and inbound messages as signed callbacks, keeps the opt-out list, and fails on request.
//
// Parameters and parts of the API that it does not play, such as media and scheduling, are refused with an error that names them.
//
// It was written from reference/qstash-twilio-wire-facts.md, Part B; TestConformance holds it to the items there.
package twilio

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"paceline.internal/emulators/clock"
)

// concurrentPosts bounds the webhooks in flight, so that a clock moved by a day does not dial ten thousand at once.
const concurrentPosts = 64

// Config sets the accounts that the emulator plays and the behaviour of their network.
type Config struct {
	Clock clock.Clock // required
	// The first account; see Account. Its SID and its token are required.
	AccountSID string
	AuthToken  string
	APIKeys    map[string]string
	Numbers    []string
	Services   map[string][]string
	// Others are further accounts.
	Others []Account

	Receipts Receipts
	Script   Script

	HTTPClient *http.Client // posts the callbacks; nil means a new client
	OnEvent    func(Event)  // gets every event as it happens, without any lock held; may be nil
	Log        *slog.Logger // warnings, without phones or bodies; nil means none
}

// Receipts sets the time at which a message reaches each status, counted from its creation on the emulator's clock. A negative time
// is at once, so that the receipt can arrive before the create call has been answered.
type Receipts struct {
	Queued    time.Duration // only with a messaging service; default 100 ms
	Sent      time.Duration // default 300 ms
	Delivered time.Duration // or undelivered; default 900 ms
}

// Emulator is the accounts, their numbers and the phones of all people. Make one with New, serve it as an http.Handler, and end
// it with Shutdown or Close.
type Emulator struct {
	cfg      Config
	began    time.Time // since when there is the account
	api      http.Handler
	scopes   map[string]string // each own number -> its service, or itself
	director director
	work     *work
	posts    chan struct{}   // a slot for each webhook in flight
	ctx      context.Context //nolint:containedctx // ends the webhooks in flight, which outlive the calls that caused them
	cancel   context.CancelFunc

	mu         sync.Mutex
	accounts   map[string]*Account // by SID; a changed one is another one
	inboundURL string
	accountURL map[string]string // of the accounts that have another one
	messages   []*Message        // oldest first
	bySID      map[string]*Message
	optedOut   map[subscription]bool
	callbacks  []Delivery
	inbound    []Delivery
	lastPost   map[string]chan struct{} // SID -> closed when its latest callback has been posted
}

// subscription is the thing that a person can stop: one phone hearing from one sender, all numbers of a service being one.
type subscription struct{ scope, phone string }

// New returns an emulator that has sent nothing yet. It fails if the clock, the account or the token is missing, or
// if a number belongs to two senders.
func New(cfg Config) (*Emulator, error) {
	if cfg.Clock == nil || cfg.AccountSID == "" || cfg.AuthToken == "" {
		return nil, errors.New("twilio emulator: Clock, AccountSID and AuthToken are required")
	}
	accounts, err := accountsOf(cfg)
	if err != nil {
		return nil, err
	}
	scopes, err := scopesOf(accounts)
	if err != nil {
		return nil, err
	}
	cfg.Receipts.Queued = cmp.Or(cfg.Receipts.Queued, 100*time.Millisecond)
	cfg.Receipts.Sent = cmp.Or(cfg.Receipts.Sent, 300*time.Millisecond)
	cfg.Receipts.Delivered = cmp.Or(cfg.Receipts.Delivered, 900*time.Millisecond)
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	if cfg.HTTPClient == nil {
		cfg.HTTPClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: concurrentPosts}}
	}
	client := *cfg.HTTPClient
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	cfg.HTTPClient = &client

	e := &Emulator{
		cfg: cfg, began: cfg.Clock.Now(), scopes: scopes, accounts: accounts, work: newWork(cfg.Clock),
		posts: make(chan struct{}, concurrentPosts), director: director{script: cfg.Script},
		bySID: map[string]*Message{}, optedOut: map[subscription]bool{}, lastPost: map[string]chan struct{}{},
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.api = e.routes()
	return e, nil
}

// scopesOf maps every own number to what an opt-out from it covers.
func scopesOf(accounts map[string]*Account) (map[string]string, error) {
	scopes := map[string]string{}
	add := func(number, scope string) error {
		if _, twice := scopes[number]; twice {
			return fmt.Errorf("twilio emulator: number %d is owned twice", len(scopes))
		}
		scopes[number] = scope
		return nil
	}
	var errs []error
	for _, a := range accounts {
		for _, n := range a.Numbers {
			errs = append(errs, add(n, n))
		}
		for service, pool := range a.Services {
			for _, n := range pool {
				errs = append(errs, add(n, service))
			}
		}
	}
	return scopes, errors.Join(errs...)
}

// ServeHTTP answers as api.twilio.com does.
func (e *Emulator) ServeHTTP(w http.ResponseWriter, r *http.Request) { e.api.ServeHTTP(w, r) }

// SetInboundURL sets the URL that messages from phones are posted to. It may carry connection overrides ("#rc=3&rp=all"). An empty one, the
// default, means that no application listens.
func (e *Emulator) SetInboundURL(url string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.inboundURL = url
}

// SetAccountURL is SetInboundURL for the numbers of one account.
func (e *Emulator) SetAccountURL(sid, url string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.accountURL == nil {
		e.accountURL = map[string]string{}
	}
	e.accountURL[sid] = url
}

// SetScript replaces the fault script from the next event on. The count of create requests goes on.
func (e *Emulator) SetScript(s Script) { e.director.replace(s) }

// Messages is a copy of every message in either direction, oldest first.
func (e *Emulator) Messages() []Message {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make([]Message, len(e.messages))
	for i, m := range e.messages {
		all[i] = m.snapshot()
	}
	return all
}

// Callbacks is a copy of every status callback that was posted or dropped, in the order in which they ended.
func (e *Emulator) Callbacks() []Delivery {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.callbacks)
}

// Inbound is a copy of the delivery of every inbound message, in the order in which they ended.
func (e *Emulator) Inbound() []Delivery {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.inbound)
}

// OptedOut reports whether phone has stopped the sender of the own number to.
func (e *Emulator) OptedOut(phone, to string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.optedOut[subscription{e.scopes[to], phone}]
}

// Idle waits until no callback is in flight and none is due at the clock's present.
func (e *Emulator) Idle(ctx context.Context) error { return e.work.idle(ctx) }

// Shutdown cancels what is not yet due and waits for the callbacks in flight, which are cut off when ctx ends. It
// returns ctx's error if they were.
func (e *Emulator) Shutdown(ctx context.Context) error {
	e.work.close()
	stop := context.AfterFunc(ctx, e.cancel)
	defer stop()
	// Cancelled work ends by itself, so this wait needs no bound.
	_ = e.work.idle(context.WithoutCancel(ctx))
	e.cancel()
	e.cfg.HTTPClient.CloseIdleConnections()
	return ctx.Err()
}

// Close ends the emulator at once: callbacks in flight and hanging answers are cut off.
func (e *Emulator) Close() {
	e.cancel()
	_ = e.Shutdown(e.ctx) // its only error says that it was cut off, and Close cuts off on purpose
}

// sender picks the number of a service that phone hears from: always the same one.
func (a *Account) sender(service, phone string) string {
	pool := a.Services[service]
	h := fnv.New32a()
	_, _ = h.Write([]byte(phone)) // a hash never fails to write
	return pool[int(h.Sum32()>>1)%len(pool)]
}

// newSID is prefix and 32 random hex digits.
func newSID(prefix string) string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // crypto/rand never fails since Go 1.24
	return prefix + hex.EncodeToString(id[:])
}
