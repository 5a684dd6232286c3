package send

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"paceline.internal/services/messaging/sms"
)

const (
	// DefaultStopWait sets how long a STOP waits for what is on its way. Twilio gives us 4 s, of which the gateway keeps half a
	// second, and the rest of the way there and back needs some.
	DefaultStopWait = 2200 * time.Millisecond
	// quietPoll sets how soon a send that another process settled is noticed; our own notifies.
	quietPoll = 50 * time.Millisecond
)

// WaitForInFlight waits until no attempt that was claimed before it can still reach Twilio: until it is settled, or its
// lease and one call more are over. No new one is claimed when an opt-out or a hold is committed before. The wait is a caller's, so its
// bound is the machine's; the rows are judged by the service's clock. ErrUnavailable when it takes too long.
func (s *Service) WaitForInFlight(ctx context.Context, orgID uuid.UUID, phone string) error {
	ctx, cancel := context.WithTimeout(ctx, s.StopWait)
	defer cancel()
	for {
		settled := s.settled.next() // before the query, so that no notification falls between
		busy, err := s.Store.HasInFlight(ctx, orgID, phone, s.Now().Add(-s.Timeout))
		if err != nil {
			return fmt.Errorf("look for what is on its way: %w", err)
		}
		if !busy {
			return nil
		}
		poll := time.NewTimer(quietPoll)
		select {
		case <-settled:
		case <-poll.C:
		case <-ctx.Done():
			poll.Stop()
			return fmt.Errorf("%w: a text to this person is still on its way; what was asked is in force", sms.ErrUnavailable)
		}
		poll.Stop()
	}
}

// notifier wakes every goroutine that waits for a send to be settled. Its zero value is ready.
type notifier struct {
	mu      sync.Mutex
	waiting chan struct{}
}

func (n *notifier) next() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.waiting == nil {
		n.waiting = make(chan struct{})
	}
	return n.waiting
}

func (n *notifier) notify() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.waiting != nil {
		close(n.waiting)
		n.waiting = nil
	}
}
