package conversation

import (
	"context"
	"errors"
	"time"

	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/people"
)

// follower is engagement, which a message may ask for something that then fails.
type follower interface {
	taker
	// Apologise answers a message after its job failed for good, if it asked something of engagement, and reports whether that is done.
	// *Pending and people.ErrUnavailable while it is worth asking again.
	Apologise(ctx context.Context, h Heard) (bool, error)
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

// apologised has engagement answer a message after its job failed for good, and reports whether it did: no conversation waits for such a
// message. Only what passes by itself is an error, for which the job is kept. Any other failure leaves the message to the list of
// failed jobs, as if engagement had not been asked.
func (c *Service) apologised(ctx context.Context, j queue.Job) (bool, error) {
	m, err := replyIn(j)
	if err != nil {
		return false, nil //nolint:nilerr // the job fails for it
	}
	var done bool
	_, recorded, err := c.record(ctx, &m)
	if err == nil {
		done, err = c.Engagement.Apologise(ctx, text{job: j, reply: m, recorded: recorded}.heard())
	}
	if _, pending := errors.AsType[*Pending](err); pending || errors.Is(err, people.ErrUnavailable) {
		return false, err
	}
	if err != nil {
		c.Log.ErrorContext(ctx, "onboarding.apology_failed", "job_id", j.ID, "error", err)
	}
	return done, nil
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
