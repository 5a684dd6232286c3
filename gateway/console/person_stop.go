package console

import (
	"slices"
	"time"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
)

// stopLine counts the texts that a person got after opting out, from the rows: by the time at which Twilio took each text.
type stopLine struct {
	At      time.Time
	Last    time.Time // when Twilio took the last text; zero where it took none of those that are shown
	After   int       // texts that Twilio took after the opt-out, without our confirmation of it
	InDoubt int       // texts of which that is not known
}

// stopped is nil where nothing is to be said: the person has not opted out, or the texts cannot be read.
func stopped(p personPage) *stopLine {
	line := stopLine{At: p.Profile.GetState().GetOptedOutAt().AsTime()}
	switch {
	case p.Unread["conversation"] != "":
		return nil
	case p.Consent.GetState() == "opted_out":
		line.At = p.Consent.Since
	case p.Consent.Consent != nil, p.Profile.GetState().GetOptedOutAt() == nil:
		return nil
	}
	for _, b := range p.Bubbles {
		at := b.GetAcceptedAt()
		switch {
		case b.GetDirection() != "outbound", slices.Contains(p.Consent.Confirmations, b.GetMessageId()):
		case inDoubt(b.Message):
			line.InDoubt++
		case at == nil:
		default:
			if line.Last.Before(at.AsTime()) {
				line.Last = at.AsTime()
			}
			if at.AsTime().After(line.At) {
				line.After++
			}
		}
	}
	return &line
}

// OptedOut reports whether the person has opted out: by the ledger, and where it cannot be read by their profile.
func (p personPage) OptedOut() bool {
	if p.Consent.Consent != nil {
		return p.Consent.GetState() == "opted_out"
	}
	return p.Profile.GetState().GetOptedOutAt() != nil
}

// inDoubt reports whether it is not known whether Twilio has a text.
func inDoubt(m *messagingv1.Message) bool {
	return slices.Contains([]string{"sending", "unknown", "parked"}, m.GetStatus())
}
