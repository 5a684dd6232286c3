package session

import "fmt"

// Decision is the consequence of a reply: SendAndMove, StartBurst, Hold, BeginInterview or Ignore.
//
//sumtype:decl
type Decision interface{ decision() }

// SendAndMove sends a message directly and moves the session.
type SendAndMove struct {
	Text TextKey
	To   Token
	// Pause is the new value of the session's paused: true after an explicit negative, false after anything else.
	Pause bool
}

// StartBurst sends nothing: it moves the session, makes Step the next one and sets its alarm, in one transaction.
// The session is not paused any more.
type StartBurst struct {
	Step Step
	To   Token
}

// Hold keeps the reply. The last one that came after the burst's last message was sent is decided again once the burst
// has ended, and the last one to a parked session once that is resumed; earlier ones stay in the timeline.
type Hold struct{}

// BeginInterview ends onboarding. The session is not paused any more.
type BeginInterview struct {
	To   Token
	Mode Mode
}

// Ignore keeps the reply in the timeline and does nothing about it.
type Ignore struct{ Reason SkipReason }

func (SendAndMove) decision()    {}
func (StartBurst) decision()     {}
func (Hold) decision()           {}
func (BeginInterview) decision() {}
func (Ignore) decision()         {}

// OnReply decides what a reply does. Consent keywords never get here: they are applied before, whatever the session
// waits for. A token that is not registered is ErrUnknownToken.
func OnReply(flow Flow, s Snapshot, intent Intent) (Decision, error) {
	switch {
	case s.Status == Stopped:
		return Ignore{Reason: SkipOptedOut}, nil
	case s.Status.Parked() && s.Mode == Onboarding:
		return Hold{}, nil
	case s.Status != Active:
		return Ignore{Reason: SkipSessionInactive}, nil
	case s.Held:
		return Ignore{Reason: SkipSafetyHold}, nil
	case s.Mode != Onboarding:
		return Ignore{Reason: SkipInterviewing}, nil
	case intent == Remark:
		return Ignore{Reason: SkipNoAnswer}, nil
	}
	switch s.Token {
	case AwaitingOpeningResponse:
		if intent == Pause {
			return SendAndMove{Text: TextLater, To: AwaitingOpeningResponse, Pause: true}, nil
		}
		return SendAndMove{Text: TextExplanation, To: AwaitingExplanationResponse}, nil
	case AwaitingExplanationResponse:
		if intent == Pause {
			return SendAndMove{Text: TextLater, To: AwaitingOpeningResponse, Pause: true}, nil
		}
		return StartBurst{Step: flow.First(), To: AwaitingBurst}, nil
	case AwaitingBurst:
		return Hold{}, nil
	case AwaitingInterviewStart:
		if intent == Pause { // every message was sent already, so going back would only repeat them
			return SendAndMove{Text: TextLater, To: AwaitingInterviewStart, Pause: true}, nil
		}
		return BeginInterview{To: InterviewActivity01, Mode: Interviewing}, nil
	case InterviewActivity01:
		return Ignore{Reason: SkipInterviewing}, nil
	}
	return nil, fmt.Errorf("%w %.60q", ErrUnknownToken, string(s.Token))
}
