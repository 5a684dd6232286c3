package twilio

import "time"

// Event is one thing that happened, for a timeline.
type Event struct {
	At      time.Time // on the emulator's clock
	Kind    EventKind
	Message Message  // the message it is about, as it stood then; without SID for one that was refused
	Post    Delivery // the delivery of the callback or of the inbound message, of the kinds that have one
	Code    int      // Twilio's error or warning code, if any
}

// EventKind is the kind of an event.
type EventKind string

// The kinds of events.
const (
	EventCreated  EventKind = "created"   // an outbound message exists
	EventRefused  EventKind = "refused"   // a create request or a reply was refused with Code
	EventFault    EventKind = "fault"     // the script spoiled the answer to a create request
	EventStatus   EventKind = "status"    // a message moved on to Message.Status
	EventCallback EventKind = "callback"  // a status callback ended as Post says
	EventInbound  EventKind = "inbound"   // a phone sent a message; it has not been posted yet
	EventPosted   EventKind = "posted"    // an inbound message's delivery ended as Post says
	EventOptedOut EventKind = "opted_out" // a phone stopped this sender
	EventOptedIn  EventKind = "opted_in"  // and came back
	EventRedacted EventKind = "redacted"  // the API's user deleted a message's text
	EventRemoved  EventKind = "removed"   // or the message
	EventWarning  EventKind = "warning"   // Twilio's debugger would show Code, such as 12100 for broken TwiML
)

func (e *Emulator) report(event Event) {
	event.At = e.cfg.Clock.Now()
	if event.Kind == EventWarning {
		e.cfg.Log.Warn("twilio emulator: webhook warning", "code", event.Code, "message_sid", event.Message.SID)
	}
	if e.cfg.OnEvent != nil {
		e.cfg.OnEvent(event)
	}
}
