package conversation

import (
	"time"

	"paceline.internal/platform/queue"
)

// Effect is the effect of a message on consent.
type Effect int

// The effects.
const (
	EffectNone Effect = iota + 1
	EffectOptOut
	EffectOptIn
	EffectHelp
	EffectOvertaken // a word about consent that the person has taken back meanwhile
	EffectAmbiguous // free words that may be an opt-out: an operator decides
)

// String is the effect's name in lower case, for logs and metrics.
func (e Effect) String() string {
	return map[Effect]string{
		EffectNone: "none", EffectOptOut: "opt_out", EffectOptIn: "opt_in", EffectHelp: "help", EffectOvertaken: "overtaken",
		EffectAmbiguous: "doubtful",
	}[e]
}

// Switch is the request that a message makes about one kind of messages.
type Switch int

// The switches.
const (
	Unsaid Switch = iota
	Off
	On
)

// Preferences has what messaging has read in a message about reminders and tips. The zero value asks nothing.
type Preferences struct{ Reminders, Tips Switch }

// Any reports whether something is asked.
func (p Preferences) Any() bool { return p.Reminders != Unsaid || p.Tips != Unsaid }

// Heard is a recorded text of a person as its takers get it.
type Heard struct {
	OrgID       string
	Phone       string
	MessageID   string // in messaging
	Body        string
	At          time.Time // when it reached us, or when the carrier says that it was sent, if it came late
	Effect      Effect
	Preferences Preferences
	Job         queue.Job // carries it
}

// Reply is a recorded message of a person, as their session takes it.
type Reply struct {
	Heard

	ReceivedAt time.Time     // when it reached us
	ByCarrier  bool          // At is the carrier's time, which is in whole seconds
	LateBy     time.Duration // of one with a webhook that never came; 0 for any other
	LiftsHold  bool          // they were held by their own words, were asked, and want the texts to go on
	Place      int           // session.Record.Place that it is meant for; AnyPlace for one as it came
}

// AnyPlace is the place of a message that was never tied to one.
const AnyPlace = -1

// cause is the job of the message, as what it changes ends it.
func (m Reply) cause() *Cause { return &Cause{Job: m.Job, WroteAt: m.At} }

// before reports whether a message came before the time ours. A carrier's time may be that of anything within its second.
func (m Reply) before(ours time.Time) bool {
	if m.ByCarrier {
		ours = ours.Truncate(time.Second)
	}
	return m.At.Before(ours)
}

// dated is a detail of the timeline, with how late the message is that it is about.
func (m Reply) dated(detail string) string {
	if m.LateBy == 0 {
		return detail
	}
	late := "late by " + m.LateBy.Round(time.Second).String()
	if detail == "" {
		return late
	}
	return detail + "; " + late
}
