// Package chaos lets many conversations happen while everything around them fails, and examines what the people got.
package chaos

import (
	"slices"
	"sync"
	"time"

	"paceline.internal/emulators/twilio"
)

// recorder stands at Twilio and writes down, in the order in which it happened, which texts were taken or refused there and
// when a person's STOP or START was acknowledged. It is safe for concurrent use; the zero value is ready.
type recorder struct {
	mu     sync.Mutex
	record []observation
}

// observation is one line of the record.
type observation struct {
	at    time.Time
	kind  observationKind
	phone string
	text  twilio.Message // of a text
}

type observationKind int

const (
	textTaken    observationKind = iota + 1 // Twilio took one of our texts
	textRefused                             // Twilio refused one, because the person had stopped the sender there
	optOutActed                             // a STOP was answered 200: from here on nothing may even be asked of Twilio
	optInArrived                            // a START reached Twilio: from here on texts are welcome
)

// codeOptedOut is Twilio's refusal to text a person who stopped the sender.
const codeOptedOut = 21610

// observe is the OnTwilio of stack.VendorConfig.
func (r *recorder) observe(e twilio.Event) {
	switch {
	case e.Message.Direction != twilio.DirectionAPI:
	case e.Kind == twilio.EventCreated:
		r.note(observation{at: e.At, kind: textTaken, phone: e.Message.To, text: e.Message})
	case e.Kind == twilio.EventRefused && e.Code == codeOptedOut:
		r.note(observation{at: e.At, kind: textRefused, phone: e.Message.To, text: e.Message})
	}
}

// stopped is called when the webhook of a person's STOP, in any of its words, has been answered 200.
func (r *recorder) stopped(phone string, at time.Time) {
	r.note(observation{at: at, kind: optOutActed, phone: phone})
}

// restarts is called before a person's START is handed to Twilio.
func (r *recorder) restarts(phone string, at time.Time) {
	r.note(observation{at: at, kind: optInArrived, phone: phone})
}

func (r *recorder) note(t observation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.record = append(r.record, t)
}

// underWay bounds the time for which a text that was claimed before a fault may reach Twilio after it.
const underWay = 3 * time.Second

// pauseAfter returns the time from a fault to the end of the longest pause between two texts that began before it was over; 0 when no text
// came after it.
func (r *recorder) pauseAfter(fault, over time.Time) (ended time.Duration) {
	var last time.Time
	var longest time.Duration
	for _, t := range r.observations() {
		if t.kind != textTaken {
			continue
		}
		if t.at.After(fault) && last.Before(over.Add(underWay)) && t.at.Sub(last) > longest {
			longest, ended = t.at.Sub(last), t.at.Sub(fault)
		}
		last = t.at
	}
	return ended
}

// texts returns what Twilio took, in its order.
func (r *recorder) texts() []twilio.Message {
	var texts []twilio.Message
	for _, t := range r.observations() {
		if t.kind == textTaken {
			texts = append(texts, t.text)
		}
	}
	return texts
}

func (r *recorder) observations() []observation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.record)
}

// afterStop is every text that Twilio was asked for after the person's STOP had been acknowledged, taken or not, but for one that
// confirms it.
func (r *recorder) afterStop(confirms func(twilio.Message) bool) []observation {
	stopped, confirmed := map[string]bool{}, map[string]bool{}
	var found []observation
	for _, t := range r.observations() {
		switch t.kind {
		case optOutActed:
			stopped[t.phone] = true
		case optInArrived:
			delete(stopped, t.phone)
			delete(confirmed, t.phone)
		case textTaken, textRefused:
			switch {
			case !stopped[t.phone]:
			case confirms(t.text) && !confirmed[t.phone]:
				confirmed[t.phone] = true
			default:
				found = append(found, t)
			}
		}
	}
	return found
}
