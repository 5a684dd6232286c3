// Package session is the conversation with one person: where it stands, what a reply means, what may be sent now and
// what comes next.
//
// It decides and does nothing. Every function takes what was read from the database and returns what is to be done;
// the callers do it and commit it with a compare-and-set on what they read.
package session

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// ErrUnknownToken is a state token that is not one of the registered ones.
var ErrUnknownToken = errors.New("unknown state token")

// Token is the state token: what the session waits for. The zero value is before activation.
type Token string

// The registered tokens, in the order in which a session goes through them.
const (
	// AwaitingOpeningResponse waits for the reply to the opening message.
	AwaitingOpeningResponse Token = "onboarding:awaiting_opening_response"
	// AwaitingExplanationResponse waits for the reply to the explanation.
	AwaitingExplanationResponse Token = "onboarding:awaiting_explanation_response"
	// AwaitingBurst is the time of the scheduled messages; which one is due is the session's next step. Replies are held.
	AwaitingBurst Token = "onboarding:awaiting_burst"
	// AwaitingInterviewStart waits for the reply to the last scheduled message.
	AwaitingInterviewStart Token = "onboarding:awaiting_interview_start"
	// InterviewActivity01 is the end of onboarding.
	InterviewActivity01 Token = "interview:activity_01"
)

// Tokens lists the registered tokens in the order in which a session goes through them.
func Tokens() []Token {
	return []Token{AwaitingOpeningResponse, AwaitingExplanationResponse, AwaitingBurst, AwaitingInterviewStart, InterviewActivity01}
}

// ParseToken reads a token; one that is not registered is ErrUnknownToken, never a guess.
func ParseToken(s string) (Token, error) {
	if token := Token(s); slices.Contains(Tokens(), token) {
		return token, nil
	}
	return "", fmt.Errorf("%w %.60q", ErrUnknownToken, s)
}

// flowToken is the form of the tokens of published flows.
var flowToken = regexp.MustCompile(`^[a-z0-9_]{1,40}:[a-z0-9_]{1,64}$`)

// ReadToken reads a token of the deployment's own conversation or of a published flow; ErrUnknownToken.
func ReadToken(s string) (Token, error) {
	if flowToken.MatchString(s) && !strings.HasPrefix(s, "onboarding:awaiting_") {
		return Token(s), nil
	}
	return ParseToken(s)
}

// Mode is which part of the product talks to the person.
type Mode string

// The modes.
const (
	Onboarding   Mode = "onboarding"
	Interviewing Mode = "interviewing"
)

// Status is the state of a session: it still runs, is parked or has ended. Stuck and Undeliverable are parked: an operator may resume them.
// Stopped and Closed are ends.
type Status string

// The statuses.
const (
	// Active sessions send and listen.
	Active Status = "active"
	// Stopped means that the person texted STOP, and nothing else.
	Stopped Status = "stopped"
	// Closed means that a reset ended the episode, or its flow has come to its end.
	Closed Status = "closed"
	// Stuck means that nothing more will happen until an operator has looked; the reason says why.
	Stuck Status = "stuck"
	// Undeliverable means that the carrier refuses this recipient for good.
	Undeliverable Status = "undeliverable"
)

// Known reports whether there is such a status.
func (s Status) Known() bool {
	switch s {
	case Active, Stopped, Closed, Stuck, Undeliverable:
		return true
	}
	return false
}

// Parked reports whether the session waits for an operator, who may resume it.
func (s Status) Parked() bool { return s == Stuck || s == Undeliverable }

// Snapshot is a session as it was read.
type Snapshot struct {
	Status Status
	Mode   Mode
	Token  Token
	// NextStep is the scheduled message that is due, set only during the burst.
	NextStep StepID
	// Paused means that the last reply was an explicit negative. Every negative sets it, every advancing reply clears it.
	Paused bool
	// Held means that the profile is on a safety hold.
	Held bool
}
