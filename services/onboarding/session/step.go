package session

import (
	"errors"
	"fmt"
)

// ErrUnknownStep means that the flow has no such step.
var ErrUnknownStep = errors.New("unknown step")

// SkipReason is why nothing was sent or done. It is what the logs and the timeline say.
type SkipReason string

// The reasons.
const (
	SkipSessionNotFound SkipReason = "session_not_found"
	SkipSessionInactive SkipReason = "session_inactive"
	// SkipStale means that the session waits for something else: the alarm is late, repeated or forged.
	SkipStale       SkipReason = "stale"
	SkipSafetyHold  SkipReason = "safety_hold"
	SkipPaused      SkipReason = "paused"
	SkipOptedOut    SkipReason = "opted_out"
	SkipAlreadySent SkipReason = "already_sent"
	// SkipInterviewing means that a reply belongs to the interview and not to onboarding.
	SkipInterviewing SkipReason = "interviewing"
	// SkipAwaitingDelivery means that the alarm was set again, to wait for the receipt of the message before.
	SkipAwaitingDelivery SkipReason = "awaiting_delivery"
	// SkipQuietHours means that the alarm is set for the end of quiet hours.
	SkipQuietHours SkipReason = "quiet_hours"
)

// MayExecute says whether the step of an alarm may be sent now to the person whom the session belongs to, or why not: the first
// reason in the order of the constants above. A session that the person stopped is opted_out at once, because stopped means only that.
// An alarm that names a session of another profile names a session that does not exist.
func MayExecute(profileID string, view Snapshot, alarm StepPayload) (bool, SkipReason) {
	switch {
	case profileID != alarm.ProfileID:
		return false, SkipSessionNotFound
	case view.Status == Stopped:
		return false, SkipOptedOut
	case view.Status != Active || view.Mode != Onboarding:
		return false, SkipSessionInactive
	case view.Token != alarm.ExpectedToken || view.NextStep != alarm.StepID:
		return false, SkipStale
	case view.Held:
		return false, SkipSafetyHold
	case view.Paused:
		return false, SkipPaused
	}
	return true, ""
}

// MayReplay says whether an alarm that was given up may be set again, or why not. A session that is stuck at that very
// step may: resume says that it has to be made active with it.
func MayReplay(profileID string, view Snapshot, alarm StepPayload) (ok, resume bool, reason SkipReason) {
	resume = view.Status == Stuck
	if resume {
		view.Status = Active
	}
	ok, reason = MayExecute(profileID, view, alarm)
	if !ok && resume && reason == SkipStale { // it is stuck elsewhere, which a replay of this step does not mend
		reason = SkipSessionInactive
	}
	return ok, ok && resume, reason
}

// AfterStep is where a session goes once a step was sent: the token, and the step that is due next, nil after the
// last. A step that the flow does not have is ErrUnknownStep.
func AfterStep(flow Flow, sent StepID) (Token, *Step, error) {
	if _, found := flow.Step(sent); !found {
		return "", nil, fmt.Errorf("%w %.70q", ErrUnknownStep, string(sent))
	}
	if next, found := flow.Next(sent); found {
		return AwaitingBurst, &next, nil
	}
	return AwaitingInterviewStart, nil, nil
}
