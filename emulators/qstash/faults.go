package qstash

import (
	"sync"
	"time"
)

// Script decides what goes wrong. Each function is asked once per event and answers with plain data, so a seeded
// simulation can drive it as well as a test; a nil function means that nothing goes wrong. They are called one at a time and
// may keep state without a lock, but the order of concurrent events is not determined: what must be
// reproducible should be decided from the message and not from the count.
type Script struct {
	// OnPublish is asked for every well-formed publish, repeated ones too. n counts them from 0 since the script was set.
	OnPublish func(n int, m Message) PublishFault
	// OnDeliver is asked once for every attempt that falls due, callbacks' too.
	OnDeliver func(Delivery) DeliverFault
}

// PublishFault is the fault of one publish. The zero value is success.
type PublishFault struct {
	// Status, when set, is answered and nothing is accepted.
	Status int
	// Reset drops the connection and nothing is accepted.
	Reset bool
	// LoseAnswer accepts the message and drops the connection instead of answering.
	LoseAnswer bool
}

// Delivery is an attempt that is due.
type Delivery struct {
	// N counts the attempts from 0 since the script was set.
	N       int
	Message Message
	// Retried counts the attempts of this message that came before.
	Retried int
	Time    time.Time
}

// DeliverFault is the fault of one attempt. The zero value is that it takes place once, now. The fields combine.
type DeliverFault struct {
	// Lose forgets the message: no attempt, no retry, no dead letter.
	Lose bool
	// Delay makes the attempt late.
	Delay time.Duration
	// Copies are identical attempts at the same time as the real one. Their answers count for nothing.
	Copies int
	// Repeats are identical attempts RepeatAfter the real one had success, as after a crash of QStash.
	Repeats     int
	RepeatAfter time.Duration
	// Silence has the attempt end with the message's timeout, on the clock, because the network delivers nothing. The other fields
	// but Lose and Delay count for nothing then.
	Silence Silence
}

// Silence is the part of an exchange that a network does not deliver.
type Silence int

// The silences.
const (
	Speaks        Silence = iota // none
	RequestSilent                // the request never arrives
	AnswerSilent                 // the request arrives, and its answer never does
)

// First makes an OnPublish that gives fault to the first n publishes.
func First(n int, fault PublishFault) func(int, Message) PublishFault {
	return func(k int, _ Message) PublishFault {
		if k < n {
			return fault
		}
		return PublishFault{}
	}
}

// Every makes an OnDeliver that gives the same fault to every attempt.
func Every(fault DeliverFault) func(Delivery) DeliverFault {
	return func(Delivery) DeliverFault { return fault }
}

// SetFaults replaces the script, at any time; the counts begin again at 0. The zero Script ends all faults.
func (e *Emulator) SetFaults(s Script) {
	e.script.mu.Lock()
	defer e.script.mu.Unlock()
	e.script.script, e.script.publishes, e.script.deliveries = s, 0, 0
}

// scripted is a script and its counts. Its lock is never held together with the emulator's, so a script may
// read the emulator; only SetFaults must not be called from within.
type scripted struct {
	mu                    sync.Mutex
	script                Script
	publishes, deliveries int
}

func (s *scripted) publish(m Message) PublishFault {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.publishes
	s.publishes++
	if s.script.OnPublish == nil {
		return PublishFault{}
	}
	return s.script.OnPublish(n, m)
}

func (s *scripted) deliver(d Delivery) DeliverFault {
	s.mu.Lock()
	defer s.mu.Unlock()
	d.N = s.deliveries
	s.deliveries++
	if s.script.OnDeliver == nil {
		return DeliverFault{}
	}
	return s.script.OnDeliver(d)
}
