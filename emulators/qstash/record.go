package qstash

import (
	"log/slog"
	"slices"
	"time"
)

// Kind is the kind of an event.
type Kind string

// Everything that the emulator records.
const (
	// Published is a message accepted.
	Published Kind = "published"
	// Duplicate is a publish answered with the id of an earlier message.
	Duplicate Kind = "duplicate"
	// Refused is a publish that was not accepted: bad input, a bad token or a fault; Status says which.
	Refused Kind = "refused"
	// Attempted is the start of one delivery.
	Attempted Kind = "attempted"
	// Answered is the end of one delivery: Status is that of the destination, or Err says why there is none.
	Answered Kind = "answered"
	// Delivered is the end of a message: an attempt had success.
	Delivered Kind = "delivered"
	// Waiting is a message that will be tried again at Due.
	Waiting Kind = "waiting"
	// DeadLettered is the end of a message: no attempt had success.
	DeadLettered Kind = "dead_lettered"
	// CancelRequested is a cancellation while an attempt was in flight, which ends the message only if that fails.
	CancelRequested Kind = "cancel_requested"
	// Cancelled is the end of a message on request.
	Cancelled Kind = "cancelled"
	// Lost is the end of a message by a fault.
	Lost Kind = "lost"
)

// Event is one thing that happened.
type Event struct {
	// Time is read from the emulator's clock.
	Time time.Time
	Kind Kind
	// MessageID, URL, DeduplicationID and Label are those of the message, as far as there is one.
	MessageID, URL, DeduplicationID, Label string
	// Retried counts the attempts that came before this one.
	Retried int
	// Status is an HTTP status: ours for Refused, else of the destination's last answer.
	Status int
	// Err says why there is no status, or why a publish was refused.
	Err string
	// Due is the time at which the message is to be delivered, for Published and Waiting.
	Due time.Time
	// Fault means that the fault script caused this event.
	Fault bool
}

// Record is a list of events, oldest first.
type Record []Event

// Of keeps the events of the given kinds.
func (r Record) Of(kinds ...Kind) Record {
	var kept Record
	for _, event := range r {
		if slices.Contains(kinds, event.Kind) {
			kept = append(kept, event)
		}
	}
	return kept
}

// recordLimit bounds the record of a server that keeps running; beyond it the older half is forgotten.
const recordLimit = 1 << 18

// Record is a copy of everything that has happened, or of the last hundred thousand events at least.
func (e *Emulator) Record() Record {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.record)
}

// note records an event of a message. The lock is held.
func (e *Emulator) note(kind Kind, m Message, event Event) {
	event.Time, event.Kind = e.cfg.Clock.Now(), kind
	event.MessageID, event.URL, event.DeduplicationID, event.Label = m.ID, m.URL, m.DeduplicationID, m.Label
	if len(e.record) >= recordLimit {
		e.record = slices.Clone(e.record[recordLimit/2:])
		e.forgotten += recordLimit / 2
	}
	e.record = append(e.record, event)
	e.unreported = append(e.unreported, event)
}

// report passes an event to the observer and the log. The lock is not held.
func (e *Emulator) report(event Event) {
	e.cfg.Log.Info("qstash emulator", slog.String("event", string(event.Kind)),
		slog.String("message_id", event.MessageID), slog.String("url", event.URL), slog.String("label", event.Label),
		slog.Int("retried", event.Retried), slog.Int("status", event.Status), slog.String("error", event.Err))
	if e.cfg.OnEvent != nil {
		e.cfg.OnEvent(event)
	}
}
