package devices

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"paceline.internal/services/onboarding/goals"
)

// streamLife bounds a stream when its context has no end.
const streamLife = time.Hour

// outgoing bounds the commands that wait for a device. One that lets them pile up is dropped: it loses nothing, for it says at its next
// hello what it has seen.
const outgoing = 16

// wire is a stream as gRPC has it. Receive waits for as long as the device is silent; a Send that is not taken fails within seconds.
type wire interface {
	Receive() (Frame, error)
	Send(c Command) error
}

// stream is one that is open in this process.
type stream struct {
	goals.Connection
	protocol

	ctx context.Context //nolint:containedctx // it ends the stream, from whichever side
	end context.CancelCauseFunc
	out chan Command

	opened time.Time

	received chan received

	mayBegin atomic.Bool // the device has said what it knows of each open run

	mu      sync.Mutex
	stopped string // the run that a stop was sent for

	heard   string // the run that stored its progress last
	heardAt time.Time
}

type received struct {
	frame Frame
	err   error
}

func newStream(ctx context.Context, opened time.Time) *stream {
	ctx, end := context.WithCancelCause(ctx)
	return &stream{ctx: ctx, end: end, opened: opened, out: make(chan Command, outgoing), received: make(chan received)}
}

// leaving ends a stream in order: what waits is sent, and then when to come back.
type leaving struct{ after time.Duration }

func (*leaving) Error() string { return "the stream ends in order" }

// send queues a command, and reports whether it did. A device that does not keep up loses its stream.
func (s *stream) send(c Command) bool {
	if s.ctx.Err() != nil {
		return false
	}
	select {
	case s.out <- c:
		return true
	default:
		s.end(ErrSlow)
		return false
	}
}

// stop asks for the end of a run, once.
func (s *stream) stop(runID string) {
	s.mu.Lock()
	again := s.stopped == runID
	s.stopped = runID
	s.mu.Unlock()
	if !again {
		s.send(StopRun{RunID: runID})
	}
}

// read hands over one frame after the other, each when the one before was dealt with.
func (s *stream) read(w wire) {
	for {
		frame, err := w.Receive()
		select {
		case s.received <- received{frame, err}:
		case <-s.ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// next waits for a frame. Its error is the reason of the end: io.EOF when the device has closed it.
func (s *stream) next() (Frame, error) {
	select {
	case <-s.ctx.Done():
		return nil, context.Cause(s.ctx)
	case r := <-s.received:
		return r.frame, r.err
	}
}

// life returns the time that the stream may last, so that it ends before its token. Streams that were opened together do not end together.
func (s *stream) life() time.Duration {
	end, ok := s.ctx.Deadline()
	if !ok {
		return streamLife
	}
	left := time.Until(end) //nolint:forbidigo // the deadline of a context is the machine's
	return max(left/2, left-renewBefore-s.spread(renewSpread))
}

// spread is a part of d, always the same one for a stream.
func (s *stream) spread(d time.Duration) time.Duration {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, s.DeviceID, s.Epoch)   // never fails
	return time.Duration(h.Sum64() % uint64(d)) //nolint:gosec // less than d
}

// write sends what is queued until the stream ends, and then why it does. It returns how many offers were left over.
func (s *stream) write(w wire) (unsent int) {
	for {
		select {
		case <-s.ctx.Done():
			return s.finish(w)
		case c := <-s.out:
			if err := w.Send(c); err != nil {
				s.end(err)
				return s.rest(c)
			}
		}
	}
}

// finish says why the stream ends. The device of a stream that ends in order gets what was queued for it first.
func (s *stream) finish(w wire) (unsent int) {
	cause := context.Cause(s.ctx)
	left, inOrder := errors.AsType[*leaving](cause)
	for inOrder && len(s.out) > 0 {
		if c := <-s.out; w.Send(c) != nil {
			return s.rest(c)
		}
	}
	switch {
	case inOrder:
		_ = w.Send(Reconnect{After: left.after})
	case errors.Is(cause, context.Canceled), errors.Is(cause, context.DeadlineExceeded), errors.Is(cause, io.EOF), errors.Is(cause, ErrSlow):
	default:
		_ = w.Send(Refusal{Err: cause})
	}
	return s.rest(nil)
}

// rest counts the offers among a command that was not sent, nil for none, and those that are still queued. Nothing else reads the queue.
func (s *stream) rest(c Command) (unsent int) {
	for {
		if _, offer := c.(Offer); offer {
			unsent++
		}
		if len(s.out) == 0 {
			return unsent
		}
		c = <-s.out
	}
}
