package conversation

import (
	"context"
	"fmt"
	"slices"
	"time"

	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// Message is one of our messages to be sent, at most once per key.
type Message struct {
	OrgID         string
	ProfileID     string
	To            string
	Body          string
	Key           string
	CorrelationID string
	Unknown       session.UnknownSends // what may be done while it is in doubt whether it was taken
	HoldVersion   int64                // of the person's hold, which is lifted
	Consent       people.ConsentRecord
	Outreach      bool   // that the person did not ask for just now: it is paced, and yields to conversations
	Reserved      bool   // messaging has given it a turn before
	Purpose       string // of what may be switched off, such as goodbye; empty of an answer or a step
}

// Outcome is the stage that messaging reached with a message.
type Outcome int

// The outcomes.
const (
	Accepted        Outcome = iota + 1 // Twilio took it now
	AlreadyAccepted                    // Twilio had taken it before
	InFlight                           // another call is sending it
	Unknown                            // it is not known yet whether Twilio took it
	Throttled                          // Twilio did not process it
	Rejected                           // Twilio refused it for good
	OptedOut                           // the person has opted out
	KeyReused                          // the key was used with another message
	Undecided                          // messaging could not find out; an operator has to
	GivenUp                            // an operator gave it up
	Held                               // by a safety hold that is later than what the caller has read
	RemindersOff                       // the person wants no reminders, and the message is one
	Capped                             // as much was sent as the caps allow; there is no row of it, or an old one
)

// Sent is messaging's answer. When Twilio took a message and when it was asked for it are by our own clock, and not by messaging's.
type Sent struct {
	Outcome    Outcome
	MessageID  string    // of the stored row; empty when there is none
	ProviderID string    // Twilio's SID; empty until it is known
	CreatedAt  time.Time // when messaging was first asked for it, by its clock; zero when there is no row
	AcceptedAt time.Time // zero until Twilio has it; not before they took it, so that the next message never comes too soon
	// AskedAt is the start of the attempt that Twilio took. A reply after it may answer the message: Twilio's answer may be slow or
	// lost, and the person may have read the message long before. When unsure it is the earlier time: counting a reply too early is
	// better than losing it, because the session would wait for it.
	AskedAt     time.Time
	RetryAfter  time.Duration
	Code        int    // Twilio's error code of a rejected or throttled message; 0 for none
	Explanation string // why a rejected, throttled, undecided or given up message is so, and what to do
}

// Pending is a message that could not be brought to an end yet. Nothing was changed; come back after RetryAfter.
type Pending struct {
	Outcome    Outcome // 0 of one that was not handed over yet
	RetryAfter time.Duration
}

func (p *Pending) Error() string {
	switch p.Outcome {
	case 0:
		return "the answer waits for the end of a burst, or for the session's move to another version"
	case InFlight:
		return "the text is being sent by another call"
	case Throttled:
		return "Twilio asks to wait"
	case Capped:
		return "as much was sent as the caps allow, or the organisation is suspended"
	default:
		return "it is not known yet whether Twilio took the text"
	}
}

// movingPause is the wait of a text while its session is moved to another version of its flow.
const movingPause = 2 * time.Second

// order is one message and the move that follows when Twilio has it.
type order struct {
	View          View
	Flow          *flow.Flow
	Learnt        map[string]flow.Value // by the decision that the text belongs to
	Text          session.TextKey
	Key           string
	CorrelationID string
	Trigger       session.Trigger
	Cause         *Cause
	Consent       people.ConsentRecord // of an opening
	Reserved      bool                 // of one that a run begins
	Rang          *session.Alarm       // of a step that this process has rung
	// Before are the timeline entries before those of the message, whatever its outcome: the reply that it answers.
	Before []session.Entry
	// Then is the move after the message was taken, with the entries that follow those of the message.
	Then func(ctx context.Context, s Sent) (session.Move, error)
}

// deliver sends the message of an order and makes its move, which it returns: the order's own, or a stop of a person who has opted out, or
// a parking after a refusal, both visibly. Errors: *Pending, people.ErrConflict (the message may have been taken, its key keeps it
// from being sent again), ErrMessageMissing, queue.ErrFenced, and what the ports return.
func (c *Service) deliver(ctx context.Context, o order) (Sent, session.Move, error) {
	r := o.View.Session
	if c.Now().Before(r.MovingUntil) {
		return Sent{}, session.Move{}, &Pending{RetryAfter: movingPause}
	}
	body, err := c.render(o.Flow, o.View, o.Learnt, o.Text)
	if err != nil {
		return Sent{}, session.Move{}, err
	}
	sent, err := c.Carrier.Send(ctx, Message{
		OrgID: r.OrgID, ProfileID: r.ProfileID, To: o.View.Phone, Body: body, Key: o.Key, CorrelationID: o.CorrelationID,
		Unknown: session.UnknownSends(o.Flow.UnknownSends), HoldVersion: o.View.HoldVersion, Consent: o.Consent, Reserved: o.Reserved,
	})
	if err != nil {
		return Sent{}, session.Move{}, fmt.Errorf("send: %w", err)
	}
	move, err := moveAfter(ctx, o, sent, c.Now())
	if err != nil {
		return sent, session.Move{}, err
	}
	move.Entries, move.Rang = append(slices.Clone(o.Before), move.Entries...), o.Rang
	if err := c.Store.Move(ctx, move, o.Cause); err != nil {
		return sent, session.Move{}, err
	}
	return sent, move, nil
}

// moveAfter decides what a send's outcome does to the session.
func moveAfter(ctx context.Context, o order, sent Sent, now time.Time) (session.Move, error) {
	r := o.View.Session
	switch sent.Outcome {
	case Accepted, AlreadyAccepted:
		if sent.MessageID == "" || sent.ProviderID == "" || sent.AcceptedAt.IsZero() {
			return session.Move{}, ErrMessageMissing
		}
		move, err := o.Then(ctx, sent)
		if err != nil {
			return session.Move{}, err
		}
		took := session.Entry{
			At: sent.AcceptedAt, Kind: session.KindSent, Trigger: o.Trigger, Step: r.NextStep,
			MessageID: sent.MessageID, Detail: string(o.Text), AskedAt: sent.AskedAt,
		}
		move.Entries = slices.Insert(move.Entries, 0, took)
		return move, nil
	case Capped: // it ends by itself, however long it takes
		return session.Move{}, &Pending{Outcome: sent.Outcome, RetryAfter: sent.RetryAfter}
	case InFlight, Unknown, Throttled:
		if givesUp(o, sent, now) {
			return session.Park(r, now, session.Stuck, o.Trigger, sent.MessageID, unsettled(r, sent)), nil
		}
		return session.Move{}, &Pending{Outcome: sent.Outcome, RetryAfter: sent.RetryAfter}
	case Held:
		return session.Move{}, ErrHeld
	case OptedOut:
		return session.Stop(r, now, o.Trigger, sent.MessageID), nil
	case Rejected:
		return session.Park(r, now, session.Undeliverable, o.Trigger, sent.MessageID, undelivered(r, sent)), nil
	case Undecided:
		return session.Park(r, now, session.Stuck, o.Trigger, sent.MessageID, undecided(r, sent)), nil
	case GivenUp:
		return session.Park(r, now, session.Stuck, o.Trigger, sent.MessageID, givenUp(r, sent)), nil
	case KeyReused:
		return session.Park(r, now, session.Stuck, o.Trigger, sent.MessageID, reused(r, o.Key)), nil
	case RemindersOff: // only of a message with a purpose that may be switched off, which no message of a conversation has
	}
	return session.Move{}, fmt.Errorf("conversation: outcome %d is none of a conversation's message", sent.Outcome)
}

// unsettledLimit sets how long a direct message is waited for: about as long as the sweeper keeps after a step.
const unsettledLimit = 30 * time.Minute

// givesUp reports whether a message would be awaited without end. It concerns only messages that answer a job: a step has the sweeper,
// but a job is snoozed again and again, and all that the person writes waits behind it. Both the job and the message must be older than
// unsettledLimit: a resumed session asks by a new job, and a job may have waited long before it asked.
//
// A messaging service that cannot be reached is no outcome of a message but an outage: it concerns every conversation, the log and the
// service's own readiness show it, and it ends without an operator having to resume a session. So it is tried again for as long as
// it takes.
func givesUp(o order, sent Sent, now time.Time) bool {
	return o.Cause != nil && !sent.CreatedAt.IsZero() &&
		now.Sub(o.Cause.Job.CreatedAt) >= unsettledLimit && now.Sub(sent.CreatedAt) >= unsettledLimit
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
