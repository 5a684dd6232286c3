package conversation

import (
	"context"
	"time"

	"paceline.internal/platform/queue"
)

// engagement follows what people do, and takes the messages that speak to it and not to the conversation.
type engagement interface {
	// Taken reports whether a recorded message was for engagement, which has answered it then. Every message counts as activity.
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

// Heard is a recorded message of a person, as engagement is asked about it.
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

// taken asks engagement about a message, before the conversation is asked. What is taken takes effect there; the runner ends its job.
func (c *Service) taken(ctx context.Context, j queue.Job, m reply, recorded Recorded) (bool, error) {
	at, _ := m.said()
	return c.Engagement.Taken(ctx, Heard{
		OrgID: recorded.OrgID, Phone: m.Message.From, MessageID: recorded.MessageID, Body: m.Message.Body, At: at,
		Effect: recorded.Effect, Preferences: recorded.Preferences, JobID: j.ID, JobSince: j.CreatedAt,
	})
}
