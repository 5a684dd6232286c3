package twilio

import (
	"sync"
	"time"
)

// Script decides what goes wrong. Each function is asked once per event and answers with plain data; a nil function
// or a zero answer means that nothing goes wrong. They are called one at a time, so a seeded generator inside needs no lock.
type Script struct {
	// OnCreate is asked for the n-th well-formed create request, counting from 1. The message has no SID yet.
	OnCreate func(n int, m Message) CreateFault
	// OnFate is asked how a created message ends.
	OnFate func(m Message) Fate
	// OnCallback is asked before the status callback with m.Status is posted.
	OnCallback func(m Message) CallbackFault
	// OnInbound is asked before a message of a person is posted to the inbound URL.
	OnInbound func(m Message) InboundFault
}

// CreateFault is the fault of one create request.
type CreateFault struct {
	Answer Answer
	// Commit creates the message although the answer does not say so, which makes an outcome
	// unknown. AnswerNormal always creates it, AnswerTooMany never does.
	Commit bool
	// Delay is the time by which the answer is delayed, on the emulator's clock.
	Delay time.Duration
	// Refuse is a code of Twilio's, such as 21211: nothing is created, and the answer is 400 with it. The other fields count for nothing.
	Refuse int
}

// Answer is the kind of reply to a create request.
type Answer int

// The answers, from the true one to none at all.
const (
	AnswerNormal      Answer = iota // 201 and the message
	AnswerTooMany                   // 429 with Twilio's JSON and Retry-After: 1
	AnswerServerError               // 500 with Twilio's JSON
	AnswerUnavailable               // 503 with a load balancer's HTML
	AnswerRedirect                  // 302 back to the same path
	AnswerGarbage                   // 201 with a body that is not JSON
	AnswerReset                     // the connection is reset (RST) instead of an answer
	AnswerHang                      // nothing, until the client gives up
)

// Fate is the end of a message. The zero value is delivered.
type Fate struct {
	Final Status // StatusDelivered, StatusSent (a carrier without receipts), StatusUndelivered or StatusFailed
	Code  int    // Twilio's error code of a failure, such as 30003
}

// CallbackFault is the fault of one status callback. Callbacks of one message are otherwise posted one after the
// other in the order of its life.
type CallbackFault struct {
	Drop      bool          // never posted
	Duplicate int           // posted this many more times
	Delay     time.Duration // posted this much later, on the emulator's clock: behind its successor if longer than their gap
}

// InboundFault is the fault of the post of one inbound message, which Twilio keeps and lists all the same.
type InboundFault struct {
	Drop bool // never posted, as if every attempt had failed
}

// director holds the script that is being played, which may be replaced at any time.
type director struct {
	mu      sync.Mutex
	script  Script
	creates int
}

func (d *director) replace(s Script) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.script = s
}

func (d *director) create(m Message) CreateFault {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.creates++
	if d.script.OnCreate == nil {
		return CreateFault{}
	}
	return d.script.OnCreate(d.creates, m)
}

func (d *director) fate(m Message) Fate {
	d.mu.Lock()
	defer d.mu.Unlock()
	var f Fate
	if d.script.OnFate != nil {
		f = d.script.OnFate(m)
	}
	if f.Final == "" {
		f.Final = StatusDelivered
	}
	return f
}

func (d *director) callback(m Message) CallbackFault {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.script.OnCallback == nil {
		return CallbackFault{}
	}
	return d.script.OnCallback(m)
}

func (d *director) inbound(m Message) InboundFault {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.script.OnInbound == nil {
		return InboundFault{}
	}
	return d.script.OnInbound(m)
}
