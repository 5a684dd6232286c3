package rules

import (
	"errors"
	"time"
)

// Response is the answer to a goodbye, as the audit row names it.
type Response string

// The responses.
const (
	ResponseConfused Response = "confused"
	ResponseBusy     Response = "busy"
	ResponseAllGood  Response = "all_good"
	ResponseTimeout  Response = "timeout"
)

// UnpromptedAfterDays is the number of dormant days after which a return counts as unprompted.
const UnpromptedAfterDays = 3

// Audit is the row of a transition.
type Audit struct {
	From     State // empty for the first row of a person
	To       State
	Trigger  Trigger
	At       time.Time // Past.At of the next decision
	Metadata Metadata
}

// Metadata is the metadata of an audit row, as JSON.
type Metadata struct {
	TriggerSource    string     `json:"trigger_source"` // user_message or scheduler
	DaysInactive     int        `json:"days_inactive"`  // since the activity before this, rounded down
	ResponseType     Response   `json:"response_type,omitempty"`
	DaysSinceGoodbye *int       `json:"days_since_goodbye,omitempty"` // of a choice
	UnpromptedReturn bool       `json:"unprompted_return,omitempty"`
	HoursWaited      *int       `json:"hours_waited,omitempty"` // of a timeout
	Accepted         *bool      `json:"accepted,omitempty"`     // of a timeout: whether Twilio accepted the goodbye
	Supersedes       Trigger    `json:"supersedes,omitempty"`   // the newest transition, which this one takes the place of
	GoodbyeSentAt    *time.Time `json:"goodbye_sent_at,omitempty"`
	GoodbyeExpiresAt *time.Time `json:"goodbye_expires_at,omitempty"`
}

// Begin is the row of a person who was not known, from their first message or action. Any other trigger is refused.
func Begin(e Event) (Move, error) {
	if e.Trigger != UserMessage {
		return Move{}, &Refusal{Trigger: e.Trigger, Reason: ErrNoRow}
	}
	return Move{
		Person: Person{State: Active, LastActivityAt: e.At},
		Audit:  &Audit{To: Active, Trigger: UserMessage, At: e.At, Metadata: Metadata{TriggerSource: source(UserMessage)}},
	}, nil
}

// Decide applies one trigger to a person, or refuses it with a Refusal. A choice that Choosable does not allow is refused;
// Answer makes an ordinary message of it.
func (l Limits) Decide(p Person, s Situation, e Event) (Move, error) {
	if responseOf(e.Trigger) != "" {
		return l.choose(p, s, e)
	}
	to, err := Next(p.State, e.Trigger)
	if err == nil {
		err = l.due(p, s, e)
	}
	switch {
	case err != nil:
		return Move{}, err
	case e.Trigger == UserMessage:
		return l.wrote(p, s, e, to), nil
	case e.Trigger == Inactivity14d:
		return Move{
			Person: Person{State: to, LastActivityAt: p.LastActivityAt, GoodbyeSentAt: e.Now},
			Audit:  audit(p, e, to), Queue: Goodbye,
		}, nil
	case e.Trigger == ReminderDue:
		return Move{Person: Person{State: to, LastActivityAt: p.LastActivityAt}, Audit: audit(p, e, to), Queue: Reminder}, nil
	}
	a := audit(p, e, to)
	a.Metadata.ResponseType = ResponseTimeout
	since, accepted := p.GoodbyeSentAt, !p.GoodbyeExpiresAt.IsZero()
	if accepted {
		since = p.GoodbyeExpiresAt.Add(-l.GoodbyeTimeout)
	}
	hours := whole(e.At.Sub(since), time.Hour)
	a.Metadata.HoursWaited, a.Metadata.Accepted = &hours, &accepted
	return Move{Person: Person{State: to, LastActivityAt: p.LastActivityAt}, Audit: a}, nil
}

// due returns an error unless the time of a run's trigger has come. Exactly the limit is enough. A message that is being worked comes
// first: the person is there.
func (l Limits) due(p Person, s Situation, e Event) error {
	refuse := func(reason error) error { return &Refusal{State: p.State, Trigger: e.Trigger, Reason: reason} }
	var due time.Time
	switch {
	case e.Trigger.FromPerson():
		return nil
	case s.OpenJob:
		return refuse(ErrOpenJob)
	case e.Trigger == Inactivity14d:
		due = p.LastActivityAt.Add(l.Inactivity)
	case e.Trigger == ReminderDue:
		due = p.RemindAt
	case !p.GoodbyeExpiresAt.IsZero():
		due = p.GoodbyeExpiresAt
	case !s.GoodbyeEnded:
		return refuse(ErrInFlight)
	}
	if e.At.Before(due) {
		return refuse(ErrTooEarly)
	}
	return nil
}

// wrote is a message that makes no choice, or an action.
func (l Limits) wrote(p Person, s Situation, e Event, to State) Move {
	m := Move{Person: p.Seen(e.At), Withdraw: []MessageType{Goodbye, Reminder}}
	if responseOf(s.Newest.Trigger) != "" && e.At.Before(s.Newest.At) {
		return Move{Person: m.Person} // it came before the choice that they made since: the choice stands
	}
	crossed := p.State == GoodbyeSent && !s.GoodbyeUnsent && !s.GoodbyeEnded &&
		(p.GoodbyeExpiresAt.IsZero() || e.At.Before(p.GoodbyeExpiresAt.Add(-l.GoodbyeTimeout)))
	if !crossed && (p.State != Active || ended(p, e.At)) {
		m.Person.GoodbyeSentAt, m.Person.GoodbyeExpiresAt = time.Time{}, time.Time{}
	}
	m.Person.State, m.Person.RemindAt = to, time.Time{}
	if p.State == to {
		return m
	}
	m.Audit = audit(p, e, to)
	m.Audit.Metadata.UnpromptedReturn = p.State == Dormant && whole(e.At.Sub(dormantSince(p, s)), 24*time.Hour) >= UnpromptedAfterDays
	return m
}

// ended reports whether the choices of a goodbye that crossed are over.
func ended(p Person, at time.Time) bool {
	return !p.GoodbyeExpiresAt.IsZero() && !at.Before(p.GoodbyeExpiresAt)
}

func dormantSince(p Person, s Situation) time.Time {
	if s.Newest.At.After(p.LastActivityAt) {
		return s.Newest.At
	}
	return p.LastActivityAt
}

// Choosable reports whether a choice in a message that reached us at an instant is one, and which transition it supersedes: it is
// judged by the state in which it reached us.
//
//   - In goodbye_sent it is one, unless the message is older than the goodbye, or the goodbye still waits in the queue.
//   - After a timeout it is one if it came before goodbye_expires_at. The timeout is superseded.
//   - After a message that crossed with the goodbye it is one until 48 h after the acceptance. That message is superseded.
func Choosable(p Person, s Situation, at time.Time) (supersedes Trigger, ok bool) {
	switch {
	case p.State == GoodbyeSent:
		return "", !s.GoodbyeUnsent && !at.Before(p.GoodbyeSentAt)
	case p.State == Dormant && s.Newest.Trigger == GoodbyeTimeout:
		return GoodbyeTimeout, !at.Before(s.Newest.GoodbyeSentAt) && at.Before(s.Newest.GoodbyeExpiresAt)
	case p.State == Active && !p.GoodbyeSentAt.IsZero():
		return UserMessage, !at.Before(p.GoodbyeSentAt) && !ended(p, at)
	}
	return "", false
}

func (l Limits) choose(p Person, s Situation, e Event) (Move, error) {
	supersedes, ok := Choosable(p, s, e.At)
	switch {
	case !ok && p.State == GoodbyeSent:
		return Move{}, &Refusal{State: p.State, Trigger: e.Trigger, Reason: ErrNotOffered}
	case !ok:
		return Move{}, &Refusal{State: p.State, Trigger: e.Trigger, Reason: ErrTransition}
	}
	if supersedes == GoodbyeTimeout {
		p.GoodbyeSentAt, p.GoodbyeExpiresAt = s.Newest.GoodbyeSentAt, s.Newest.GoodbyeExpiresAt
	}
	p.State = GoodbyeSent // where the choice was asked for
	to, err := Next(p.State, e.Trigger)
	if err != nil {
		return Move{}, err
	}
	a := audit(p, e, to)
	days := whole(e.At.Sub(p.GoodbyeSentAt), 24*time.Hour)
	a.Metadata.ResponseType, a.Metadata.DaysSinceGoodbye, a.Metadata.Supersedes = responseOf(e.Trigger), &days, supersedes
	m := Move{Person: Person{State: to, LastActivityAt: p.Seen(e.At).LastActivityAt}, Audit: a, Withdraw: []MessageType{Goodbye, Reminder}}
	switch to {
	case HelpFlow:
		m.Queue, m.ResetProgress = HelpRestart, true
	case RemindLater:
		m.Person.RemindAt = e.At.Add(l.RemindLater)
	case Active, GoodbyeSent, Dormant:
	}
	return m, nil
}

// Answer is the effect of a message: the moves in their order, to be written together, and the choice that it made, if any. Choice 1
// goes through help_flow to active at once. A choice where none is open is an ordinary message.
func (l Limits) Answer(p Person, s Situation, choice Choice, at, now time.Time) ([]Move, Choice, error) {
	e := Event{Trigger: choice.trigger(), At: at, Now: now}
	first, err := l.Decide(p, s, e)
	if choice != NoChoice && (errors.Is(err, ErrTransition) || errors.Is(err, ErrNotOffered)) {
		choice, e.Trigger = NoChoice, UserMessage
		first, err = l.Decide(p, s, e)
	}
	if err != nil {
		return nil, NoChoice, err
	}
	if first.Person.State != HelpFlow || choice != ChoiceConfused {
		return []Move{first}, choice, nil
	}
	e.Trigger = UserMessage
	second, err := l.Decide(first.Person, Situation{}, e)
	if err != nil {
		return nil, NoChoice, err
	}
	return []Move{first, second}, choice, nil
}

// audit is the row of a transition, without what only some of them say.
func audit(p Person, e Event, to State) *Audit {
	m := Metadata{TriggerSource: source(e.Trigger), DaysInactive: whole(e.At.Sub(p.LastActivityAt), 24*time.Hour)}
	if p.State == GoodbyeSent {
		m.GoodbyeSentAt, m.GoodbyeExpiresAt = orNil(p.GoodbyeSentAt), orNil(p.GoodbyeExpiresAt)
	}
	return &Audit{From: p.State, To: to, Trigger: e.Trigger, At: e.At, Metadata: m}
}

func source(t Trigger) string {
	if t.FromPerson() {
		return string(UserMessage)
	}
	return "scheduler"
}

func responseOf(t Trigger) Response {
	switch t {
	case GoodbyeResponse1:
		return ResponseConfused
	case GoodbyeResponse2:
		return ResponseBusy
	case GoodbyeResponse3:
		return ResponseAllGood
	case UserMessage, Inactivity14d, GoodbyeTimeout, ReminderDue:
	}
	return ""
}

// whole counts the units that have passed, rounded down; a message that is older than what it is compared with makes none.
func whole(passed, unit time.Duration) int { return max(0, int(passed/unit)) }

func orNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
