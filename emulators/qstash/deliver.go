package qstash

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	api "paceline.internal/platform/qstash"
)

// maxAnswer bounds what is kept of a destination's answer, in bytes.
const maxAnswer = 1 << 20

// errTimeout is why an attempt that took too long has no answer.
var errTimeout = errors.New("timeout of the attempt")

// outcome is the destination's answer to one attempt, or why there is none.
type outcome struct {
	status int // zero when there is no answer
	header http.Header
	body   []byte
	err    error
}

// why is why there is no answer, or empty.
func (o outcome) why() string {
	if o.err == nil {
		return ""
	}
	return o.err.Error()
}

func (o outcome) success() bool { return o.err == nil && o.status/100 == 2 }

// forbidsRetry needs both the status and the header: the status without the header is a failure like any other.
func (o outcome) forbidsRetry() bool {
	return o.status == api.StatusNonRetryable && o.header.Get(api.HeaderNonRetryable) == "true"
}

// launch begins the attempt of a message that is due. The lock is held.
func (e *Emulator) launch(m *message) {
	due := Delivery{Message: m.Message, Retried: m.retried, Time: e.cfg.Clock.Now()}
	epoch := m.epoch
	m.flying, m.wait = true, nil
	e.fly(func(ctx context.Context) { e.deliver(ctx, m, epoch, due, e.script.deliver(due)) })
}

// deliver makes the attempt, with what the script adds to it, and settles the message by its outcome.
func (e *Emulator) deliver(ctx context.Context, m *message, epoch int, due Delivery, fault DeliverFault) {
	if fault.Lose {
		e.lose(m, epoch)
		return
	}
	if fault.Delay > 0 {
		e.postpone(m, epoch, due, fault)
		return
	}
	if fault.Silence != Speaks {
		e.unanswered(ctx, m, epoch, due, fault.Silence)
		return
	}
	var copies sync.WaitGroup
	for range fault.Copies {
		copies.Go(func() { e.attempt(ctx, due, true) })
	}
	out := e.attempt(ctx, due, false)
	e.settle(m, epoch, out)
	copies.Wait()
	if out.success() {
		e.repeat(due, fault)
	}
}

// postpone tries the same attempt again when the scripted delay has passed.
func (e *Emulator) postpone(m *message, epoch int, due Delivery, fault DeliverFault) {
	e.lock()
	defer e.unlock()
	if m.epoch != epoch {
		return
	}
	late := fault.Delay
	fault.Delay, m.flying = 0, false
	if m.cancelled {
		e.finish(m, Cancelled, Event{})
		return
	}
	m.wait = e.after(late, func() {
		m.flying, m.wait = true, nil
		e.fly(func(ctx context.Context) { e.deliver(ctx, m, epoch, due, fault) })
	})
}

// unanswered is an attempt that gets no answer until its timeout. The destination's handler has ended long before.
func (e *Emulator) unanswered(ctx context.Context, m *message, epoch int, due Delivery, silence Silence) {
	if silence == AnswerSilent {
		e.attempt(ctx, due, true)
	}
	e.lock()
	defer e.unlock()
	e.after(m.Timeout, func() {
		e.fly(func(context.Context) { e.settle(m, epoch, outcome{err: errTimeout}) })
	})
}

// repeat delivers again what was delivered with success.
func (e *Emulator) repeat(due Delivery, fault DeliverFault) {
	e.lock()
	defer e.unlock()
	for range fault.Repeats {
		e.after(fault.RepeatAfter, func() {
			e.fly(func(ctx context.Context) { e.attempt(ctx, due, true) })
		})
	}
}

// attempt is one HTTP request to the destination, aborted by ctx or the message's timeout on the clock.
func (e *Emulator) attempt(ctx context.Context, due Delivery, scripted bool) outcome {
	e.lock()
	key := e.current // read for every attempt: a rotation counts at once
	e.note(Attempted, due.Message, Event{Retried: due.Retried, Fault: scripted})
	e.unlock()

	ctx, abort := context.WithCancelCause(ctx)
	stop := e.cfg.Clock.AfterFunc(due.Message.Timeout, func() { abort(errTimeout) })
	out := e.request(ctx, key, due)
	if out.err != nil && ctx.Err() != nil {
		out.err = context.Cause(ctx)
	}
	stop()
	abort(nil)

	e.lock()
	e.note(Answered, due.Message, Event{Retried: due.Retried, Status: out.status, Err: out.why(), Fault: scripted})
	e.unlock()
	return out
}

// request sends the message with QStash's headers and its own signature for every attempt.
func (e *Emulator) request(ctx context.Context, key string, due Delivery) outcome {
	m := due.Message
	req, err := http.NewRequestWithContext(ctx, m.Method, m.URL, bytes.NewReader(m.Body))
	if err != nil {
		return outcome{err: err}
	}
	signature, err := api.Sign(key, m.URL, m.Body, e.cfg.Clock.Now())
	if err != nil {
		return outcome{err: err}
	}
	req.Header = m.Header.Clone()
	req.Header.Set("User-Agent", "Upstash-QStash")
	req.Header.Set(api.HeaderMessageID, m.ID)
	req.Header.Set(api.HeaderRetried, strconv.Itoa(due.Retried))
	req.Header.Set(api.HeaderSignature, signature)
	req.Header.Set(api.HeaderRegion, "EU-CENTRAL-1")
	req.Header.Set(api.HeaderCallerIP, m.CallerIP)

	resp, err := e.http.Do(req)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err // without the URL, which every event has already
		}
		return outcome{err: err}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return outcome{err: err}
	}
	return outcome{status: resp.StatusCode, header: resp.Header, body: body}
}

// settle applies an outcome to the message.
func (e *Emulator) settle(m *message, epoch int, out outcome) {
	e.lock()
	defer e.unlock()
	if m.epoch != epoch {
		return // a restart has forgotten this attempt
	}
	m.flying = false
	if m.Callback != "" {
		e.enqueue(e.callbackOf(m, out, ""))
	}
	switch {
	case out.success():
		e.finish(m, Delivered, Event{Status: out.status})
	case m.cancelled:
		e.finish(m, Cancelled, Event{})
	case out.forbidsRetry() || m.retried >= m.Retries:
		e.giveUp(m, out)
	default:
		e.retryLater(m, out)
	}
}

// retryLater sets the next attempt. The lock is held.
func (e *Emulator) retryLater(m *message, out outcome) {
	now := e.cfg.Clock.Now()
	pause := pauseBefore(m, out, now)
	m.retried++
	e.note(Waiting, m.Message, Event{Retried: m.retried, Due: now.Add(pause), Status: out.status, Err: out.why()})
	m.wait = e.after(pause, func() { e.launch(m) })
}

// finish ends a message. The lock is held.
func (e *Emulator) finish(m *message, kind Kind, event Event) {
	delete(e.messages, m.ID)
	event.Retried = m.retried
	e.note(kind, m.Message, event)
}

// lose ends a message without a trace at QStash.
func (e *Emulator) lose(m *message, epoch int) {
	e.lock()
	defer e.unlock()
	if m.epoch == epoch {
		e.finish(m, Lost, Event{Fault: true})
	}
}

// deliveryClient copies the client: QStash follows no redirect, a 3xx is a failure. The body is left as it was sent.
func deliveryClient(given *http.Client) *http.Client {
	if given == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // the standard library's own type
		transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, 256
		transport.DisableCompression = true
		given = &http.Client{Transport: transport}
	}
	own := *given
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &own
}
