package sendtest

import (
	"context"
	"sync"
	"time"

	emulator "paceline.internal/emulators/twilio"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/twilio"
)

// CarrierFunc is a carrier that does something around the real call.
type CarrierFunc func(ctx context.Context, out twilio.Outgoing) twilio.Outcome

// Fetch and List are not what it is for.
func (f CarrierFunc) Fetch(context.Context, string) (twilio.Stored, error) {
	return twilio.Stored{}, twilio.ErrNotFound
}

// List has nothing.
func (f CarrierFunc) List(context.Context, string, time.Time) ([]twilio.Stored, error) {
	return nil, nil
}

// Send implements the carrier.
func (f CarrierFunc) Send(ctx context.Context, out twilio.Outgoing) twilio.Outcome {
	return f(ctx, out)
}

// Lose makes the first answer of Twilio something else than its own; commit says that it takes the message all the same.
func Lose(answer emulator.Answer, commit bool) emulator.Script {
	return emulator.Script{OnCreate: func(n int, _ emulator.Message) emulator.CreateFault {
		if n > 1 {
			return emulator.CreateFault{}
		}
		return emulator.CreateFault{Answer: answer, Commit: commit}
	}}
}

// Mute is Lose, and loses every receipt as well.
func Mute(answer emulator.Answer, commit bool) emulator.Script {
	script := Lose(answer, commit)
	script.OnCallback = Silent.OnCallback
	return script
}

// Claims is the store with something around its claims.
type Claims struct {
	Store

	Around func(ctx context.Context, a send.Attempt) (send.Claim, error)
}

// Claim implements the port.
func (c Claims) Claim(ctx context.Context, a send.Attempt) (send.Claim, error) {
	return c.Around(ctx, a)
}

// Slow is a send that is claimed and waits before Twilio until it is let through.
type Slow struct {
	LetThrough func()
	Result     chan send.Result
}

// SlowSend begins one, of a service with something changed.
func (b *Bundle) SlowSend(change func(*send.Config)) Slow {
	b.T.Helper()
	inside, release := make(chan struct{}), make(chan struct{})
	service := b.Service(func(c *send.Config) {
		c.Carrier = CarrierFunc(func(ctx context.Context, out twilio.Outgoing) twilio.Outcome {
			close(inside)
			<-release
			return b.Carrier.Send(context.WithoutCancel(ctx), out)
		})
		if change != nil {
			change(c)
		}
	})
	slow := Slow{LetThrough: sync.OnceFunc(func() { close(release) }), Result: make(chan send.Result, 1)}
	b.T.Cleanup(slow.LetThrough) // or a failure would wait for it
	go func() {
		result, _ := service.Send(b.T.Context(), b.Request())
		slow.Result <- result
	}()
	<-inside
	return slow
}
