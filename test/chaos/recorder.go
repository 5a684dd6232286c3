// Package chaos lets many conversations happen while everything around them fails, and examines what the people got.
package chaos

import (
	"slices"
	"sync"
	"time"

	"paceline.internal/emulators/twilio"
)

// Recorder stands at Twilio and writes down, in the order in which it happened, which texts were taken or refused there and
// when a person's STOP or START was acknowledged. It is safe for concurrent use; the zero value is ready.
type Recorder struct {
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
	textTaken    observationKind = iota + 1 // Twilio took a text of ours
	textRefused                             // Twilio refused one, because the person had stopped the sender there
	optOutActed                             // a STOP was answered 200: from here on nothing may even be asked of Twilio
	optInArrived                            // a START reached Twilio: from here on texts are welcome
)

// codeOptedOut is Twilio's refusal to text somebody who stopped the sender.
const codeOptedOut = 21610

// Observe is the OnTwilio of stack.VendorConfig.
func (w *Recorder) Observe(e twilio.Event) {
	switch {
	case e.Message.Direction != twilio.DirectionAPI:
	case e.Kind == twilio.EventCreated:
		w.note(observation{at: e.At, kind: textTaken, phone: e.Message.To, text: e.Message})
	case e.Kind == twilio.EventRefused && e.Code == codeOptedOut:
		w.note(observation{at: e.At, kind: textRefused, phone: e.Message.To, text: e.Message})
	}
}

// Stopped is called when the webhook of a person's STOP, in any of its words, has been answered 200.
func (w *Recorder) Stopped(phone string, at time.Time) {
	w.note(observation{at: at, kind: optOutActed, phone: phone})
}

// Restarts is called before a person's START is handed to Twilio.
func (w *Recorder) Restarts(phone string, at time.Time) {
	w.note(observation{at: at, kind: optInArrived, phone: phone})
}

func (w *Recorder) note(t observation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.record = append(w.record, t)
}

// Texts is what Twilio took, in its order.
func (w *Recorder) Texts() []twilio.Message {
	var texts []twilio.Message
	for _, t := range w.observations() {
		if t.kind == textTaken {
			texts = append(texts, t.text)
		}
	}
	return texts
}

func (w *Recorder) observations() []observation {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.record)
}

// afterStop is every text that Twilio was asked for after the person's STOP had been acknowledged, taken or not, but for one that
// confirms it.
func (w *Recorder) afterStop(confirms func(twilio.Message) bool) []observation {
	stopped, confirmed := map[string]bool{}, map[string]bool{}
	var found []observation
	for _, t := range w.observations() {
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
