package delivery

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/sms"
)

const (
	// DefaultStopWait is how long a STOP waits for what is on its way. Twilio gives us 4 s, of which the gateway keeps half a
	// second, and the rest of the way there and back needs some.
	DefaultStopWait = 2200 * time.Millisecond
	// silencePoll is how soon a send that another process settled is noticed; one of our own rings the bell.
	silencePoll = 50 * time.Millisecond
)

// SetConsent writes an operator's note, also when it only confirms the state there is, and returns the ledger. An opt-out is
// answered as one by text is: see RecordInbound.
func (s *Service) SetConsent(ctx context.Context, n Note) (Ledger, error) {
	ledger, err := s.Inbox.SetConsent(ctx, n)
	if err == nil && n.State == consent.OptedOut {
		err = s.awaitSilence(ctx, n.OrgID, n.Phone.String())
	}
	if err != nil {
		return Ledger{}, err
	}
	return ledger, nil
}

// Hold is an operator's safety hold on a number, or that it is lifted. While it holds, nothing is sent but our own answers to words
// about consent.
type Hold struct {
	OrgID   uuid.UUID
	Phone   sms.Phone
	Held    bool
	Version int64 // of two that are told, the higher one counts, whichever comes last
	At      time.Time
}

// SetHold keeps a hold, or that it is lifted. Like an opt-out it is answered once nothing is on its way to the person any more:
// ErrUnavailable, with the hold in force, when that takes too long.
func (s *Service) SetHold(ctx context.Context, h Hold) error {
	h.At = s.Now()
	err := s.Doubts.SetHold(ctx, h)
	if err == nil && h.Held {
		err = s.awaitSilence(ctx, h.OrgID, h.Phone.String())
	}
	return err
}

// awaitSilence waits until no attempt that was claimed before it can still reach Twilio: until it is settled, or its
// lease and one call more are over. No new one is claimed, for the opt-out or the hold is committed. The wait is a caller's, so its bound
// is the machine's; the rows are judged by the service's clock.
func (s *Service) awaitSilence(ctx context.Context, orgID uuid.UUID, phone string) error {
	ctx, cancel := context.WithTimeout(ctx, s.StopWait)
	defer cancel()
	for {
		settled := s.settled.next() // before the look, so that no ring falls between
		busy, err := s.Inbox.OnItsWay(ctx, orgID, phone, s.Now().Add(-s.Timeout))
		if err != nil {
			return fmt.Errorf("look for what is on its way: %w", err)
		}
		if !busy {
			return nil
		}
		poll := time.NewTimer(silencePoll)
		select {
		case <-settled:
		case <-poll.C:
		case <-ctx.Done():
			poll.Stop()
			return fmt.Errorf("%w: a text to this person is still on its way; what was asked is in force", ErrUnavailable)
		}
		poll.Stop()
	}
}

// bell wakes everybody who waits for a send to be settled. Its zero value is ready.
type bell struct {
	mu   sync.Mutex
	rung chan struct{}
}

// next is closed at the next ring.
func (b *bell) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung == nil {
		b.rung = make(chan struct{})
	}
	return b.rung
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung != nil {
		close(b.rung)
		b.rung = nil
	}
}
