package sendtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/inbound"
	"paceline.internal/services/messaging/outbound"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

// Mishap is a failure at one call of a port.
type Mishap string

// The mishaps.
const (
	FailBefore Mishap = "FailsBefore" // the call is not made, the caller sees an error
	FailAfter  Mishap = "FailsAfter"  // the call is made, the caller sees an error all the same
	DieBefore  Mishap = "DiesBefore"  // the process is gone before the call
	DieAfter   Mishap = "DiesAfter"   // the process is gone after the call
)

// Process is a service that meets a mishap at the k-th call of a port; afterwards a dead one makes no call any more.
type Process struct {
	store   Store
	carrier *twilio.Client
	limiter *outbound.Outreach
	At      int // from 1; never when it is 0
	Mishap  Mishap

	mu       sync.Mutex
	calls    []string
	happened bool
}

// ErrMishap is the error of a port that fails.
var ErrMishap = errors.New("injected")

// call makes one call of a port, unless the mishap of this process is due. A death ends the goroutine.
func (p *Process) call(name string, do func() error) error {
	p.mu.Lock()
	p.calls = append(p.calls, name)
	due := len(p.calls) == p.At
	p.happened = p.happened || due
	p.mu.Unlock()
	if !due {
		return do()
	}
	switch p.Mishap {
	case FailBefore:
		return ErrMishap
	case DieBefore:
		runtime.Goexit()
	case FailAfter, DieAfter:
	}
	if err := do(); err != nil {
		return err
	}
	if p.Mishap == DieAfter {
		runtime.Goexit()
	}
	return ErrMishap
}

// Over reports whether the mishap has happened.
func (p *Process) Over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.happened
}

func called[T any](p *Process, name string, do func() (T, error)) (answer T, err error) {
	err = p.call(name, func() (err error) {
		answer, err = do()
		return err
	})
	if err != nil {
		var zero T
		return zero, err
	}
	return answer, nil
}

// Claim calls a port.
func (p *Process) Claim(ctx context.Context, a send.Attempt) (send.Claim, error) {
	return called(p, "Claim", func() (send.Claim, error) { return p.store.Claim(ctx, a) })
}

// Look calls a port.
func (p *Process) Look(ctx context.Context, a send.Attempt) (send.ClaimPreview, error) {
	return called(p, "Look", func() (send.ClaimPreview, error) { return p.store.Look(ctx, a) })
}

// Reserve calls a port.
func (p *Process) Reserve(ctx context.Context, from senders.Sender, segments int, now time.Time) (time.Duration, error) {
	return called(p, "Reserve", func() (time.Duration, error) { return p.limiter.Reserve(ctx, from, segments, now) })
}

// ReserveSends calls the limiter, and is in no crash matrix: what it takes is lost at most.
func (p *Process) ReserveSends(ctx context.Context, orgID uuid.UUID, segments []int, now time.Time) (int, time.Duration, error) {
	return p.limiter.ReserveSends(ctx, orgID, segments, now)
}

// Cancel calls a port.
func (p *Process) Cancel(ctx context.Context, from senders.Sender, segments int) error {
	return p.call("Cancel", func() error { return p.limiter.Cancel(ctx, from, segments) })
}

// Settle calls a port.
func (p *Process) Settle(ctx context.Context, claimed send.Message, a send.Answer) (send.Message, error) {
	return called(p, "Settle", func() (send.Message, error) { return p.store.Settle(ctx, claimed, a) })
}

// RecordReceipt calls a port.
func (p *Process) RecordReceipt(ctx context.Context, r send.Receipt) (send.Recorded, error) {
	return called(p, "RecordReceipt", func() (send.Recorded, error) { return p.store.RecordReceipt(ctx, r) })
}

// RecordInbound calls a port.
func (p *Process) RecordInbound(ctx context.Context, e inbound.Entry) (send.Message, error) {
	return called(p, "RecordInbound", func() (send.Message, error) { return p.store.RecordInbound(ctx, e) })
}

// Send loses its answer, for a carrier has no errors: after a failed call the outcome is unknown.
func (p *Process) Send(ctx context.Context, out twilio.Outgoing) twilio.Outcome {
	outcome, err := called(p, "Carrier", func() (twilio.Outcome, error) { return p.carrier.Send(ctx, out), nil })
	if err != nil {
		return twilio.Outcome{Status: sms.Unknown, Reason: "injected"}
	}
	return outcome
}

// RecordedSIDs calls a port.
func (p *Process) RecordedSIDs(ctx context.Context, sids []string) ([]string, error) {
	return called(p, "RecordedSIDs", func() ([]string, error) { return p.store.RecordedSIDs(ctx, sids) })
}

// ClaimReplies calls a port.
func (p *Process) ClaimReplies(ctx context.Context, now, until time.Time, limit int) ([]inbound.Reply, error) {
	return called(p, "ClaimReplies", func() ([]inbound.Reply, error) { return p.store.ClaimReplies(ctx, now, until, limit) })
}

// SettleReply calls a port.
func (p *Process) SettleReply(ctx context.Context, r inbound.Reply) error {
	return p.call("SettleReply", func() error { return p.store.SettleReply(ctx, r) })
}

// Sending calls no port: settings are remembered, so that it is read at some sends only.
func (p *Process) Sending(ctx context.Context, orgID uuid.UUID) (*messagingv1.Sending, error) {
	return p.store.Sending(ctx, orgID)
}

// HasInFlight calls a port.
func (p *Process) HasInFlight(ctx context.Context, orgID uuid.UUID, phone string, after time.Time) (bool, error) {
	return called(p, "HasInFlight", func() (bool, error) { return p.store.HasInFlight(ctx, orgID, phone, after) })
}

// Evidence calls a port.
func (p *Process) Evidence(ctx context.Context, orgID, id uuid.UUID) (send.Evidence, error) {
	return called(p, "Evidence", func() (send.Evidence, error) { return p.store.Evidence(ctx, orgID, id) })
}

// Resolve calls a port.
func (p *Process) Resolve(ctx context.Context, r send.Resolution) (m send.Message, changed bool, err error) {
	m, err = called(p, "Resolve", func() (send.Message, error) {
		m, did, err := p.store.Resolve(ctx, r)
		changed = did
		return m, err
	})
	return m, changed, err
}

// ExpireAbandoned calls a port.
func (p *Process) ExpireAbandoned(ctx context.Context, now time.Time, timeout time.Duration, limit int) (int, error) {
	return called(p, "ExpireAbandoned", func() (int, error) { return p.store.ExpireAbandoned(ctx, now, timeout, limit) })
}

// ClaimDue calls a port.
func (p *Process) ClaimDue(ctx context.Context, now, until time.Time, limit int) (due []send.Message, unread []error, err error) {
	due, err = called(p, "ClaimDue", func() (found []send.Message, err error) {
		found, unread, err = p.store.ClaimDue(ctx, now, until, limit)
		return found, err
	})
	return due, unread, err
}

// RecordListing calls a port.
func (p *Process) RecordListing(ctx context.Context, l send.Listing) (send.Decision, error) {
	return called(p, "RecordListing", func() (send.Decision, error) { return p.store.RecordListing(ctx, l) })
}

// RecordPoll calls a port.
func (p *Process) RecordPoll(ctx context.Context, poll send.Poll) (send.Recorded, error) {
	return called(p, "RecordPoll", func() (send.Recorded, error) { return p.store.RecordPoll(ctx, poll) })
}

// List calls a port.
func (p *Process) List(ctx context.Context, to string, since time.Time) ([]twilio.Stored, error) {
	return called(p, "List", func() ([]twilio.Stored, error) { return p.carrier.List(ctx, to, since) })
}

// Fetch calls a port.
func (p *Process) Fetch(ctx context.Context, sid string) (twilio.Stored, error) {
	return called(p, "Fetch", func() (twilio.Stored, error) { return p.carrier.Fetch(ctx, sid) })
}

// Matrix plays a scenario with every mishap at every call of a port, until no call is left. play reports how the
// scenario was played by the process it is given, which is replaced by a healthy one once its mishap has happened.
func Matrix(t *testing.T, play func(t *testing.T, p *Process)) {
	t.Helper()
	for _, m := range []Mishap{FailBefore, FailAfter, DieBefore, DieAfter} {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			for at := 1; ; at++ {
				p := &Process{At: at, Mishap: m}
				t.Run(fmt.Sprintf("Call%d", at), func(t *testing.T) { play(t, p) })
				if !p.Over() {
					require.Greater(t, at, 1, "no port was called at all")
					return
				}
			}
		})
	}
}

// Within runs do in its own goroutine, which a death may end before its time.
func Within(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	<-done
}

// On makes p the process of the bundle. Receipts reach whichever process lives; a dead one answers nothing.
func (b *Bundle) On(p *Process) *send.Service {
	p.store, p.carrier, p.limiter = b.Store, b.Carrier, b.Limiter()
	return b.Service(func(c *send.Config) { c.Store, c.Evidence, c.Carrier, c.Limiter = p, p, p, p })
}

// InboxOn is the inbox of that process.
func (b *Bundle) InboxOn(p *Process) *inbound.Service {
	return b.Inbox(b.On(p), func(c *inbound.Config) { c.Store = p })
}

// TakeReceipts makes a service the one that takes the receipts from now on. With nil they are heard, and not taken to heart.
func (b *Bundle) TakeReceipts(s *send.Service) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.receiver = s
}
