// Package dispatch hands one text to messaging and moves the session by what came of it. Every text of a conversation,
// direct or scheduled, goes this way and no other.
package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/jobs"
	"paceline.internal/services/onboarding/session"
)

// View is a session and its person, as one read of the database saw them.
type View struct {
	Session   session.Record
	Phone     string // E.164
	FirstName string
	Locale    string
	Hold      bool

	HoldVersion int64
}

// Snapshot is what the decisions need.
func (v View) Snapshot() session.Snapshot { return v.Session.Snapshot(v.Hold) }

// Cause is the claimed job that a change answers; it is ended in the change's transaction.
type Cause struct {
	Job       jobs.Job
	Failure   string // why the job has failed for good; empty when the change completes it
	Cancelled bool   // the job is pending, and an operator cancels it
}

// ErrConflict is a session that moved on between a decision and its change. Nothing was changed; decide again.
var ErrConflict = errors.New("dispatch: the session has moved on")

// ErrLocked is a session that another transaction has locked. Nothing was changed; a loop passes it over and looks again later.
var ErrLocked = errors.New("dispatch: another transaction has locked the session")

// ErrHeld is a person who was put on a safety hold between a decision and its text. It is an ErrConflict: the next look sees the hold.
var ErrHeld = fmt.Errorf("%w: the person is on a safety hold", ErrConflict)

// Text is one text to be sent, at most once per key.
type Text struct {
	OrgID         string
	ProfileID     string
	To            string
	Body          string
	Key           string
	CorrelationID string
	Unknown       session.UnknownSends // what may be done if nobody finds out whether it was taken
	HoldVersion   int64                // of the person's hold, which is lifted
	Consent       ConsentRecord
}

// ConsentRecord is how a person agreed to be texted, for the ledger. The zero value is that nobody said.
type ConsentRecord struct {
	Source      string    `json:"source"`
	WordsShown  string    `json:"words_shown"`
	CollectedAt time.Time `json:"collected_at"`
}

// Outcome is how far messaging came with a text.
type Outcome int

// The outcomes.
const (
	Accepted        Outcome = iota + 1 // Twilio took it now
	AlreadyAccepted                    // Twilio had taken it before
	InFlight                           // somebody else is sending it
	Unknown                            // nobody knows yet
	Throttled                          // Twilio did not process it
	Rejected                           // Twilio refused it for good
	OptedOut                           // the person has opted out
	KeyReused                          // the key was used with another text
	Undecided                          // nobody could find out; an operator has to
	GivenUp                            // an operator gave it up
	Held                               // by a safety hold that is later than what the caller has read
)

// Sent is messaging's answer. When Twilio took a text and when it was asked for it are by our own clock, and not by messaging's.
type Sent struct {
	Outcome    Outcome
	MessageID  string    // of the stored row; empty when there is none
	ProviderID string    // Twilio's SID; empty until it is known
	CreatedAt  time.Time // when messaging was first asked for it, by its clock; zero when there is no row
	AcceptedAt time.Time // zero until Twilio has it; not before they took it, so that the next text never comes too soon
	// AskedAt is since when a reply may answer the text: since the attempt began that Twilio took, for their answer may be slow, or
	// lost, and the person may have read the text long before. It is rather too early than too late: to count a reply that came a
	// moment too early is better than to lose an answer, for which the session would wait.
	AskedAt     time.Time
	RetryAfter  time.Duration
	Code        int    // Twilio's error code of a rejected or throttled text; 0 for none
	Explanation string // why a rejected, throttled, undecided or given up text is so, and what to do
}

// Wait is a text that could not be brought to an end yet. Nothing was changed; come back after RetryAfter.
type Wait struct {
	Outcome    Outcome
	RetryAfter time.Duration
}

func (w *Wait) Error() string {
	switch w.Outcome {
	case InFlight:
		return "the text is being sent by another call"
	case Throttled:
		return "Twilio asks to wait"
	default:
		return "it is not known yet whether Twilio took the text"
	}
}

// ErrNoSession is a session that does not exist, or a person who has none.
var ErrNoSession = errors.New("dispatch: there is no such session")

// ErrUnavailable is a dependency that cannot be reached. Nothing is wrong with what was asked.
var ErrUnavailable = errors.New("dispatch: messaging cannot be reached")

// ErrMessageMissing is an acceptance without a stored message or its provider id. Nothing was advanced.
var ErrMessageMissing = errors.New("dispatch: messaging answered accepted without a message row that has a provider id and a time")

type sender interface {
	Send(ctx context.Context, t Text) (Sent, error)
}

type mover interface {
	Move(ctx context.Context, m session.Move, cause *Cause) error
}

// Dispatcher sends and moves.
type Dispatcher struct {
	Sender  sender
	Store   mover
	Catalog catalog.Catalog
	Unknown session.UnknownSends // for every text of every conversation
	Now     func() time.Time
}

// Order is one text and the move that follows when Twilio has it.
type Order struct {
	View          View
	Text          session.TextKey
	Key           string
	CorrelationID string
	Trigger       session.Trigger
	Cause         *Cause
	Consent       ConsentRecord // of an opening
	// Told is what the timeline tells before the text, whatever comes of it: the reply that it answers.
	Told []session.Entry
	// Then is the move after the text was taken, with the entries that follow those of the text.
	Then func(s Sent) session.Move
}

// Done is an order that was brought to an end.
type Done struct {
	Sent Sent
	Move session.Move // what was changed: the order's own, or a stop, or a parking
}

// Deliver sends the text of an order and makes its move. A person who has opted out is stopped, a refusal parks the
// session, both visibly. Errors: *Wait, ErrConflict (the text may have been taken, its key keeps it from being sent
// again), ErrMessageMissing, jobs.ErrFenced, and what the ports return.
func (d *Dispatcher) Deliver(ctx context.Context, o Order) (Done, error) {
	body, err := d.Catalog.Render(o.View.Session.CopyVersion, o.View.Locale, string(o.Text), o.View.FirstName)
	if err != nil {
		return Done{}, fmt.Errorf("render %s: %w", o.Text, err)
	}
	sent, err := d.Sender.Send(ctx, Text{
		OrgID: o.View.Session.OrgID, ProfileID: o.View.Session.ProfileID, To: o.View.Phone,
		Body: body, Key: o.Key, CorrelationID: o.CorrelationID, Unknown: d.Unknown,
		HoldVersion: o.View.HoldVersion, Consent: o.Consent,
	})
	if err != nil {
		return Done{}, fmt.Errorf("send: %w", err)
	}
	move, err := d.moveAfter(o, sent)
	if err != nil {
		return Done{Sent: sent}, err
	}
	move.Entries = append(slices.Clone(o.Told), move.Entries...)
	if err := d.Store.Move(ctx, move, o.Cause); err != nil {
		return Done{Sent: sent}, err
	}
	return Done{Sent: sent, Move: move}, nil
}

// moveAfter decides what a send's outcome does to the session.
func (d *Dispatcher) moveAfter(o Order, sent Sent) (session.Move, error) {
	r, now := o.View.Session, d.Now()
	switch sent.Outcome {
	case Accepted, AlreadyAccepted:
		if sent.MessageID == "" || sent.ProviderID == "" || sent.AcceptedAt.IsZero() {
			return session.Move{}, ErrMessageMissing
		}
		move := o.Then(sent)
		took := session.Entry{
			At: sent.AcceptedAt, Kind: session.KindSent, Trigger: o.Trigger, Step: r.NextStep,
			MessageID: sent.MessageID, Detail: string(o.Text), AskedAt: sent.AskedAt,
		}
		move.Entries = slices.Insert(move.Entries, 0, took)
		return move, nil
	case InFlight, Unknown, Throttled:
		if hopeless(o, sent, now) {
			return session.Park(r, now, session.Stuck, o.Trigger, sent.MessageID, unsettled(r, sent)), nil
		}
		return session.Move{}, &Wait{Outcome: sent.Outcome, RetryAfter: sent.RetryAfter}
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
	default:
		return session.Move{}, fmt.Errorf("dispatch: outcome %d is unknown", sent.Outcome)
	}
}

// doubtLimit is how long a direct text is waited for: about as long as the sweeper keeps after a step.
const doubtLimit = 30 * time.Minute

// hopeless reports whether a text would be awaited without end. Only a text that answers a job: a step has the sweeper, and
// nobody else looks after a job that is put off again and again, with all that the person writes waiting behind it. What
// counts is how long the job has asked, for a session that was resumed asks anew, by a new job; but never less than the text
// itself is old, for a job may have waited long before it came to ask.
//
// A messaging service that cannot be reached is no outcome of a text but an outage: it is everybody's, every try of it is in
// the log and the service's own readiness tells of it, and it ends without anybody having to resume a session. So it is tried
// again for as long as it takes.
func hopeless(o Order, sent Sent, now time.Time) bool {
	return o.Cause != nil && !sent.CreatedAt.IsZero() &&
		now.Sub(o.Cause.Job.CreatedAt) >= doubtLimit && now.Sub(sent.CreatedAt) >= doubtLimit
}
