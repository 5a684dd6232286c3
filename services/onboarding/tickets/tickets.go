// Package tickets has the inbox: the conversations that wait for a person of the organisation, what they answer by hand, their notes and
// saved replies.
package tickets

import (
	"errors"
	"fmt"
	"time"

	"paceline.internal/services/onboarding/session"
)

// Status is the state of a ticket.
type Status string

// States of a ticket.
const (
	Open     Status = "open"     // nobody has it
	Assigned Status = "assigned" // somebody has it
	Closed   Status = "closed"
)

// Outcome is the way in which a conversation goes on when its ticket is closed.
type Outcome string

// Outcomes of tickets.
const (
	Resume  Outcome = "resume"  // where it stood
	Restart Outcome = "restart" // the step asks again
	End     Outcome = "end"     // the session is closed
)

// AnswerStatus is the state of an answer.
type AnswerStatus string

// States of an answer.
const (
	Sending AnswerStatus = "sending"  // it is being tried, or it is not known whether the carrier took it
	Sent    AnswerStatus = "sent"     // the carrier has it
	NotSent AnswerStatus = "not_sent" // it will not go out
)

// Why says why an answer did not go out, or has not yet.
type Why string

// Reasons of answers.
const (
	WhyOptedOut    Why = "opted_out"   // the person has opted out
	WhySafetyHold  Why = "safety_hold" // the person is on a safety hold
	WhyQuietHours  Why = "quiet_hours" // the person wrote more than 24 hours ago, and it is night where they are
	WhyCapped      Why = "capped"      // as much was sent as the caps allow
	WhyThrottled   Why = "throttled"   // Twilio asks to wait
	WhyRejected    Why = "rejected"    // Twilio refused it
	WhyExpired     Why = "expired"     // it could not be sent in time
	WhyUndecided   Why = "undecided"   // it may have gone out; an operator resolves the message
	WhyUnavailable Why = "unavailable" // messaging cannot be reached
	WhyInDoubt     Why = "in_doubt"    // it is not known yet whether Twilio took it
)

// Known reports whether a call may close a ticket so.
func (o Outcome) Known() bool { return o == Resume || o == Restart || o == End }

// What keeps a call from being done. Each says what to do.
var (
	ErrNotFound     = errors.New("there is no such ticket in this organisation")
	ErrClosed       = errors.New("the ticket is closed; POST /v1/tickets opens another, and so may the person's next text")
	ErrNoSavedReply = errors.New("there is no such saved reply in this organisation")
	ErrTitleTaken   = errors.New("another saved reply of the organisation has this title; change that one, or choose another title")
	ErrManyReplies  = fmt.Errorf("the organisation has %d saved replies; delete one first", MaxSavedReplies)
	ErrManyNotes    = fmt.Errorf("the ticket has %d notes, which is the most", MaxNotes)
	ErrManyAnswers  = fmt.Errorf("%d answers were written to this person within an hour, which is the most", MaxAnswersPerHour)
	ErrKeyReused    = errors.New("the key was used for something else; a new text needs a new idempotency_key")
	ErrCancelled    = errors.New("an operator has cancelled the job")
	ErrTooLong      = errors.New("the saved reply is longer than 1600 characters with the person's values in it, where an emoji counts as " +
		"two or more; shorten it")
)

// AssignedError reports a ticket that somebody else has by now.
type AssignedError struct{ Assignee string }

func (e *AssignedError) Error() string {
	if e.Assignee == "" {
		return "nobody has the ticket any more; to take it leave from empty"
	}
	return fmt.Sprintf("the ticket is assigned to %s; to take it over give from: %q", e.Assignee, e.Assignee)
}

// Bounds of an inbox.
const (
	MaxSavedReplies   = 200
	MaxNotes          = 200
	MaxAnswersPerHour = 60
	maxBody           = 1600
	maxNote           = 2000
	maxTitle          = 60
	maxDetail         = 200
	maxSubject        = 200
	maxKey            = 200
)

// Ticket is a conversation that waits for a person of the organisation.
type Ticket struct {
	ID              string
	OrgID           string
	ProfileID       string
	SessionID       string // that waits for it; empty for none
	FirstName       string
	Phone           string
	Locale          string
	Status          Status
	Reason          session.TicketReason
	Detail          string
	Assignee        string
	OpenedAt        time.Time
	AssignedAt      *time.Time
	FirstAnsweredAt *time.Time
	ClosedAt        *time.Time
	Outcome         Outcome
	LastText        string
	LastTextAt      time.Time
	WaitsSince      *time.Time
	Texts           int
	Answers         int
	Notes           int
	MessageID       string
	OpenedBy        *string // the actor, see audit.Read
	ClosedBy        *string
}

// Counts counts the tickets of an organisation that are not closed.
type Counts struct{ Open, Assigned, Mine int }

// Answer is a text that an operator wrote.
type Answer struct {
	ID           string
	OrgID        string
	TicketID     string
	ProfileID    string
	Key          string `db:"idempotency_key"`
	Body         string
	SavedReplyID string
	Author       string
	Status       AnswerStatus
	Reason       Why
	Explanation  string
	RetryAt      *time.Time
	MessageID    string
	CreatedAt    time.Time
	SettledAt    *time.Time
}

// Note is a remark about a ticket.
type Note struct {
	ID        string
	TicketID  string
	Body      string
	Author    string
	CreatedAt time.Time
}

// SavedReply is a text to answer with.
type SavedReply struct {
	ID        string
	Title     string
	Body      string
	CreatedAt time.Time
	UpdatedAt time.Time
	UpdatedBy string
}
