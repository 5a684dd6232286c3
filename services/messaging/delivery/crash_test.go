package delivery_test

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

	emulator "paceline.internal/emulators/twilio"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/delivery"
	"paceline.internal/services/messaging/postgres"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

// mishap is what happens at one call of a port.
type mishap string

const (
	failBefore mishap = "FailsBefore" // the call is not made, the caller sees an error
	failAfter  mishap = "FailsAfter"  // the call is made, the caller sees an error all the same
	dieBefore  mishap = "DiesBefore"  // the process is gone before the call
	dieAfter   mishap = "DiesAfter"   // the process is gone after the call
)

// process is a service whose ports meet a mishap at their k-th call; afterwards a dead one makes no call any more.
type process struct {
	store   *postgres.Store
	carrier *twilio.Client
	at      int
	mishap  mishap

	mu       sync.Mutex
	calls    []string
	happened bool
}

var errMishap = errors.New("injected")

// call makes one call of a port, unless the mishap of this process is due. A death ends the goroutine.
func (p *process) call(name string, do func() error) error {
	p.mu.Lock()
	p.calls = append(p.calls, name)
	due := len(p.calls) == p.at
	p.happened = p.happened || due
	p.mu.Unlock()
	if !due {
		return do()
	}
	switch p.mishap {
	case failBefore:
		return errMishap
	case dieBefore:
		runtime.Goexit()
	case failAfter, dieAfter:
	}
	if err := do(); err != nil {
		return err
	}
	if p.mishap == dieAfter {
		runtime.Goexit()
	}
	return errMishap
}

func (p *process) over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.happened
}

func called[T any](p *process, name string, do func() (T, error)) (answer T, err error) {
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

func (p *process) Claim(ctx context.Context, a delivery.Attempt) (delivery.Claim, error) {
	return called(p, "Claim", func() (delivery.Claim, error) { return p.store.Claim(ctx, a) })
}

func (p *process) Reclaim(ctx context.Context, a delivery.Attempt) (delivery.Claim, error) {
	return called(p, "Reclaim", func() (delivery.Claim, error) { return p.store.Reclaim(ctx, a) })
}

func (p *process) Expire(ctx context.Context, m delivery.Message, now time.Time, timeout time.Duration) (delivery.Message, error) {
	return called(p, "Expire", func() (delivery.Message, error) { return p.store.Expire(ctx, m, now, timeout) })
}

func (p *process) Settle(ctx context.Context, a delivery.Answer) (delivery.Message, error) {
	return called(p, "Settle", func() (delivery.Message, error) { return p.store.Settle(ctx, a) })
}

func (p *process) RecordReceipt(ctx context.Context, r delivery.Receipt) (delivery.Recorded, error) {
	return called(p, "RecordReceipt", func() (delivery.Recorded, error) { return p.store.RecordReceipt(ctx, r) })
}

func (p *process) RecordInbound(ctx context.Context, t delivery.Text) (delivery.Message, error) {
	return called(p, "RecordInbound", func() (delivery.Message, error) { return p.store.RecordInbound(ctx, t) })
}

// Send loses its answer, for a carrier has no errors: a failed call is one whose outcome is unknown.
func (p *process) Send(ctx context.Context, out twilio.Outgoing) twilio.Outcome {
	outcome, err := called(p, "Carrier", func() (twilio.Outcome, error) { return p.carrier.Send(ctx, out), nil })
	if err != nil {
		return twilio.Outcome{Kind: twilio.Unknown, Reason: "injected"}
	}
	return outcome
}

func (p *process) SetConsent(ctx context.Context, n delivery.Note) (delivery.Ledger, error) {
	return called(p, "SetConsent", func() (delivery.Ledger, error) { return p.store.SetConsent(ctx, n) })
}

func (p *process) SetHold(ctx context.Context, h delivery.Hold) error {
	return p.call("SetHold", func() error { return p.store.SetHold(ctx, h) })
}

func (p *process) OnItsWay(ctx context.Context, orgID uuid.UUID, phone string, after time.Time) (bool, error) {
	return called(p, "OnItsWay", func() (bool, error) { return p.store.OnItsWay(ctx, orgID, phone, after) })
}

func (p *process) Evidence(ctx context.Context, orgID, id uuid.UUID) (delivery.Evidence, error) {
	return called(p, "Evidence", func() (delivery.Evidence, error) { return p.store.Evidence(ctx, orgID, id) })
}

func (p *process) Resolve(ctx context.Context, r delivery.Resolution) (m delivery.Message, changed bool, err error) {
	m, err = called(p, "Resolve", func() (delivery.Message, error) {
		m, did, err := p.store.Resolve(ctx, r)
		changed = did
		return m, err
	})
	return m, changed, err
}

func (p *process) ExpireAbandoned(ctx context.Context, now time.Time, timeout time.Duration, limit int) (int, error) {
	return called(p, "ExpireAbandoned", func() (int, error) { return p.store.ExpireAbandoned(ctx, now, timeout, limit) })
}

func (p *process) ClaimLooks(ctx context.Context, now, until time.Time, limit int) (due []delivery.Message, unread []error, err error) {
	due, err = called(p, "ClaimLooks", func() (found []delivery.Message, err error) {
		found, unread, err = p.store.ClaimLooks(ctx, now, until, limit)
		return found, err
	})
	return due, unread, err
}

func (p *process) RecordSighting(ctx context.Context, s delivery.Sighting) (delivery.Looked, error) {
	return called(p, "RecordSighting", func() (delivery.Looked, error) { return p.store.RecordSighting(ctx, s) })
}

func (p *process) RecordPoll(ctx context.Context, poll delivery.Poll) (delivery.Recorded, error) {
	return called(p, "RecordPoll", func() (delivery.Recorded, error) { return p.store.RecordPoll(ctx, poll) })
}

func (p *process) List(ctx context.Context, to string, since time.Time) ([]twilio.Stored, error) {
	return called(p, "List", func() ([]twilio.Stored, error) { return p.carrier.List(ctx, to, since) })
}

func (p *process) Fetch(ctx context.Context, sid string) (twilio.Stored, error) {
	return called(p, "Fetch", func() (twilio.Stored, error) { return p.carrier.Fetch(ctx, sid) })
}

// matrix plays a scenario with every mishap at every call of a port, until no call is left. play reports how the
// scenario was played by the process it is given, which is replaced by a healthy one once its mishap has happened.
func matrix(t *testing.T, play func(t *testing.T, p *process)) {
	t.Helper()
	for _, m := range []mishap{failBefore, failAfter, dieBefore, dieAfter} {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			for at := 1; ; at++ {
				p := &process{at: at, mishap: m}
				t.Run(fmt.Sprintf("Call%d", at), func(t *testing.T) { play(t, p) })
				if !p.over() {
					require.Greater(t, at, 1, "no port was called at all")
					return
				}
			}
		})
	}
}

// within runs do in a goroutine of its own, which a death may end before its time.
func within(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	<-done
}

// on makes p the process of the bundle. Receipts reach whichever process lives; a dead one answers nothing.
func (b *bundle) on(p *process) *delivery.Service {
	p.store, p.carrier = b.store, b.carrier
	return b.service(func(c *delivery.Config) { c.Store, c.Inbox, c.Doubts, c.Carrier = p, p, p, p })
}

// TestCrashMatrixOfSend asks again and again, as QStash does, and lets receipts arrive in between. Whatever happened at
// whichever call, Twilio takes at most one text, and once its receipts have come the row says so.
func TestCrashMatrixOfSend(t *testing.T) {
	t.Parallel()
	for _, scenario := range []struct {
		name   string
		first  mishap // of a process that claimed the send before, and left the row behind
		script emulator.Script
	}{
		{name: "S0_31_FirstAttemptFailsAndARetryIsOneSMS"},
		{name: "ThrottledFirst", script: lose(emulator.AnswerTooMany, false)},
		{name: "AnswerLost", script: lose(emulator.AnswerReset, true)},
		{name: "S1_36_AbandonedBeforeTheCall", first: dieBefore},
		{name: "RequestLost", script: lose(emulator.AnswerServerError, false)},
	} {
		t.Run(scenario.name, func(t *testing.T) {
			t.Parallel()
			matrix(t, func(t *testing.T, p *process) {
				b := setup(t)
				b.emulator.SetScript(scenario.script)
				if scenario.first != "" {
					within(func() { _, _ = b.on(&process{at: 2, mishap: scenario.first}).Send(t.Context(), b.request()) })
					b.clock.Advance(lease)
				}
				sick, healthy := b.on(p), b.service(nil)
				for range 6 {
					service := sick
					if p.over() {
						service = healthy
					}
					within(func() { _, _ = service.Send(t.Context(), b.request()) })
					b.passOn(p, sick, healthy)
				}
				last, err := healthy.Send(t.Context(), b.request())
				require.NoError(t, err)
				b.judge(last)
			})
		})
	}
}

// passOn lets ten seconds pass; the receipts go to the sick process until its mishap.
func (b *bundle) passOn(p *process, sick, healthy *delivery.Service) {
	b.t.Helper()
	b.mu.Lock()
	b.receiver = healthy
	if !p.over() {
		b.receiver = sick
	}
	b.mu.Unlock()
	b.pass(time.Second)
	b.clock.Advance(9 * time.Second)
	require.NoError(b.t, b.emulator.Idle(b.t.Context()))
}

// judge is the promise: at most one text, and a row that tells the truth about it.
func (b *bundle) judge(last delivery.Result) {
	b.t.Helper()
	sent, row := b.sent(), b.stored()
	require.LessOrEqual(b.t, len(sent), 1)
	require.Len(b.t, b.ledger().Events, 1)
	if len(sent) == 0 {
		require.Equal(b.t, delivery.Unknown, last.Outcome, "Twilio has nothing, and we cannot know: visible, never sent again")
		require.Equal(b.t, sms.Unknown, row.Status)
		return
	}
	require.Equal(b.t, delivery.AlreadyAccepted, last.Outcome)
	require.Equal(b.t, sent[0].SID, row.SID)
	require.Equal(b.t, sms.Delivered, row.Status)
}

// TestCrashMatrixOfRecordInbound delivers a STOP until it is answered. It is stored once and is in the ledger once, and
// nothing is sent afterwards.
func TestCrashMatrixOfRecordInbound(t *testing.T) {
	t.Parallel()
	matrix(t, func(t *testing.T, p *process) {
		b := setup(t)
		sick, healthy := b.on(p), b.service(nil)
		answered := false
		for range 3 {
			service := sick
			if p.over() {
				service = healthy
			}
			within(func() {
				m, err := service.RecordInbound(t.Context(), b.text("SM1", "STOP"))
				if err == nil {
					require.Equal(t, consent.OptOut, m.ConsentEffect)
					answered = true
				}
			})
		}
		require.True(t, answered)
		require.Equal(t, consent.OptedOut, b.ledger().State)
		require.Len(t, b.ledger().Events, 1)
		result, err := healthy.Send(t.Context(), b.request())
		require.NoError(t, err)
		require.Equal(t, delivery.OptedOut, result.Outcome)
		require.Empty(t, b.sent())
	})
}
