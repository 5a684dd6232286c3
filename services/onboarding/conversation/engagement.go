package conversation

import (
	"context"
	"time"

	"paceline.internal/platform/queue"
)

// taker takes the messages of people that speak to it and not to the conversation: engagement, which follows what people do, and goals.
type taker interface {
	// Taken reports whether a recorded message was for the taker, which has answered it then.
	Taken(ctx context.Context, h Heard) (bool, error)
}

// Switch is what a message asks of one kind of messages.
type Switch int

// The switches.
const (
	Unsaid Switch = iota
	Off
	On
)

// Preferences are what messaging has read in a message about reminders and tips. The zero value asks nothing.
type Preferences struct{ Reminders, Tips Switch }

// Any reports whether something is asked.
func (p Preferences) Any() bool { return p.Reminders != Unsaid || p.Tips != Unsaid }

// Heard is a recorded message of a person, as those are asked about it that may take it.
type Heard struct {
	OrgID       string
	Phone       string
	MessageID   string // in messaging
	Body        string
	At          time.Time // when it reached us, or when the carrier says that it was sent, if it came late
	Effect      Effect
	Preferences Preferences
	JobID       string
	JobSince    time.Time // when its job was stored
}

// taken asks engagement about a message, whose activity every message is, and then goals, before the conversation is asked. What is taken
// takes effect there; the runner ends its job.
func (c *Service) taken(ctx context.Context, j queue.Job, m reply, recorded Recorded) (bool, error) {
	at, _ := m.said()
	heard := Heard{
		OrgID: recorded.OrgID, Phone: m.Message.From, MessageID: recorded.MessageID, Body: m.Message.Body, At: at,
		Effect: recorded.Effect, Preferences: recorded.Preferences, JobID: j.ID, JobSince: j.CreatedAt,
	}
	taken, err := c.Engagement.Taken(ctx, heard)
	if taken || err != nil {
		return taken, err
	}
	return c.Goals.Taken(ctx, heard)
}

// Answered reports whether an answer that no conversation waits for was taken, or may not be sent to the person. *Pending while it is worth
// asking again, which is measured by the age of its job.
func (s Sent) Answered(age time.Duration) (bool, error) {
	switch s.Outcome {
	case Accepted, AlreadyAccepted, OptedOut, Held:
		return true, nil
	case InFlight, Unknown, Throttled, Capped:
		if age < unsettledLimit {
			return false, &Pending{Outcome: s.Outcome, RetryAfter: s.RetryAfter}
		}
	case Rejected, KeyReused, Undecided, GivenUp, RemindersOff:
	}
	return false, nil
}
