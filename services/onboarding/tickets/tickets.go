// Package tickets has the inbox: the conversations that wait for a person of the organisation, what they answer by hand, their notes and saved
// replies.
package tickets

// Status is the state of a ticket.
type Status string

// States of a ticket.
const (
	Open     Status = "open"     // nobody has it
	Assigned Status = "assigned" // somebody has it
	Closed   Status = "closed"
)

// Reason is why a ticket was opened.
type Reason string

// Reasons of tickets.
const (
	Asked      Reason = "asked"     // the person asked for a person
	Unclaimed  Reason = "unclaimed" // nothing else answers the text
	Unclear    Reason = "unclear"   // an answer stayed unclear
	HandOver   Reason = "hand_over" // the flow hands over
	Distress   Reason = "distress"  // words of distress; a safety hold is on
	ByOperator Reason = "operator"  // by hand
)

// Outcome says how a conversation goes on when its ticket is closed.
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
