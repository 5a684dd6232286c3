package devices

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"paceline.internal/platform/process"
	"paceline.internal/services/onboarding/goals"
)

// KeepLoop keeps the node's lease, and its streams and their rows alike.
func (h *Hub) KeepLoop(rest process.Rest) process.Repetition {
	return process.Repetition{
		Once: func(ctx context.Context) (bool, error) { return false, h.Keep(ctx) }, Rest: rest, Next: h.next, Wake: h.opened,
		Failed: func(ctx context.Context, err error) { h.Log.ErrorContext(ctx, "goals.devices_not_kept", "error", err) },
	}
}

// next is the rest until a loop's next pass: longer while no stream is open.
func (h *Hub) next() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.open) == 0 {
		return idleEvery
	}
	return keepEvery
}

// Keep makes one pass of KeepLoop. It closes a stream when its device has moved on, on whatever node, or its organisation has ended; a
// device after the end of its stream without that reaching its row is given back.
func (h *Hub) Keep(ctx context.Context) error {
	now := h.Now()
	h.mu.Lock()
	draining := h.draining
	before := maps.Clone(h.devices)
	h.mu.Unlock()
	if draining {
		return nil
	}
	if err := h.renew(ctx, now); err != nil {
		return err
	}
	held, err := h.Store.Held(ctx, h.node)
	if err != nil {
		return err
	}
	for deviceID, s := range before {
		switch now := held[deviceID]; {
		case now.Epoch != s.Epoch:
			s.end(goals.ErrReplaced)
		case now.Over:
			s.end(goals.ErrOver)
		}
	}
	var problems []error
	for deviceID, d := range held {
		if !h.knows(deviceID) {
			problems = append(problems, h.Store.Disconnect(ctx, h.node, deviceID, d.Epoch, now))
		}
	}
	return errors.Join(problems...)
}

// renew extends the node's lease when that is due. It has ended by itself while no stream was open.
func (h *Hub) renew(ctx context.Context, now time.Time) error {
	h.mu.Lock()
	due := !now.Before(h.renewAt)
	h.mu.Unlock()
	if !due {
		return nil
	}
	if err := h.Store.Renew(ctx, h.node, now.Add(nodeLease), now); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.renewAt = now.Add(renewLease)
	return nil
}

func (h *Hub) knows(deviceID string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.devices[deviceID] != nil || h.arriving[deviceID] > 0
}

// OfferLoop begins the goals that an alarm has called this node for.
func (h *Hub) OfferLoop(rest process.Rest) process.Repetition {
	return process.Repetition{
		Once: func(ctx context.Context) (bool, error) { return false, h.Offer(ctx) }, Rest: rest, Next: h.next, Wake: h.wake,
		Failed: func(ctx context.Context, err error) { h.Log.ErrorContext(ctx, "goals.offers_failed", "error", err) },
	}
}

// Offer is one pass of OfferLoop.
func (h *Hub) Offer(ctx context.Context) error {
	calls, err := h.Store.Calls(ctx, h.node, h.Now())
	if err != nil {
		return err
	}
	var begins errgroup.Group
	begins.SetLimit(maxCalls)
	for _, c := range calls {
		h.mu.Lock()
		s := h.devices[c.DeviceID]
		h.mu.Unlock()
		switch {
		case s == nil || s.Epoch != c.Epoch || s.ctx.Err() != nil || !s.mayBegin.Load():
		case c.Stop != "":
			s.stop(c.Stop)
		default:
			begins.Go(func() error {
				defer process.Progress(ctx)
				return h.begin(ctx, s, c)
			})
		}
	}
	return begins.Wait()
}

// begin begins a goal and offers it. After an error it is not known whether it has begun: the device is asked at its next hello.
func (h *Hub) begin(ctx context.Context, s *stream, c goals.Call) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	offer, err := h.Store.Begin(ctx, h.node, c, uuid.Must(uuid.NewV7()).String(), h.Now())
	switch {
	case errors.Is(err, goals.ErrConflict):
		return nil
	case errors.Is(err, goals.ErrReplaced):
		s.end(goals.ErrReplaced)
		return nil
	case err != nil:
		s.end(&leaving{after: s.spread(time.Second)})
		return err
	}
	if h.offer(ctx, s, Offer(offer), offerSent) {
		h.Goals.Offered(ctx, offer)
	}
	return nil
}

// offer hands an offer to the stream, and reports whether it did.
func (h *Hub) offer(ctx context.Context, s *stream, offer Offer, outcome string) bool {
	sent := s.send(offer)
	if !sent {
		outcome = offerUnsent
	}
	h.count(ctx, outcome)
	return sent
}

// Drain ends every stream in order, its device to come back to another process, and then the node. No stream is taken any more.
func (h *Hub) Drain(ctx context.Context) error {
	h.mu.Lock()
	h.draining = true
	if len(h.open) == 0 {
		close(h.empty)
	}
	for s := range h.open {
		s.end(&leaving{after: s.spread(comeBack)})
	}
	h.mu.Unlock()
	select {
	case <-h.empty:
	case <-ctx.Done(): // the end of the process ends the rest
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	if err := h.Store.Retire(ctx, h.node, h.Now()); err != nil { // its lease ends by itself
		h.Log.WarnContext(ctx, "goals.node_not_retired", "error", err)
	}
	return nil
}
