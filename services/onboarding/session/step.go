package session

import (
	"errors"
	"fmt"

	"paceline.internal/services/onboarding/flow"
)

// ErrUnknownStep means that the flow has no such step.
var ErrUnknownStep = errors.New("unknown step")

// SkipReason says why nothing was sent or done. The logs and the timeline show it.
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
	// SkipNoAnswer means that a reply is a reaction, a quote or an automatic reply.
	SkipNoAnswer SkipReason = "no_answer"
	// SkipInterviewing means that a reply belongs to the interview and not to onboarding.
	SkipInterviewing SkipReason = "interviewing"
	// SkipAwaitingDelivery means that the alarm was set again, to wait for the receipt of the message before.
	SkipAwaitingDelivery SkipReason = "awaiting_delivery"
	// SkipQuietHours means that the alarm is set for the end of quiet hours.
	SkipQuietHours SkipReason = "quiet_hours"
	// SkipSchedulingPaused means that the alarm is set for after the pause of the organisation.
	SkipSchedulingPaused SkipReason = "scheduling_paused"
	// SkipCapped means that the alarm was set again, to wait for room beneath a cap.
	SkipCapped SkipReason = "capped"
)

// Gate is one question that decides whether a step may be sent.
type Gate struct {
	Skip   SkipReason // why it may not, if it does not pass
	Passed bool
}

// Gates are the questions that decide whether the step of an alarm may be sent now to the person whom the session belongs to, in their
// order. A session that the person stopped is opted_out at once, because stopped means only that. An alarm that names a session of another
// profile names a session that does not exist.
func Gates(profileID string, view Snapshot, alarm StepPayload) [6]Gate {
	return [...]Gate{
		{SkipSessionNotFound, profileID == alarm.ProfileID},
		{SkipOptedOut, view.Status != Stopped},
		{SkipSessionInactive, view.Status == Active && view.Mode == Onboarding},
		{SkipStale, view.Token == alarm.ExpectedToken && view.NextStep == alarm.StepID},
		{SkipSafetyHold, !view.Held},
		{SkipPaused, !view.Paused},
	}
}

// MayExecute reports whether every gate lets the step of an alarm pass, and returns the reason of the first that does not.
func MayExecute(profileID string, view Snapshot, alarm StepPayload) (bool, SkipReason) {
	for _, g := range Gates(profileID, view, alarm) {
		if !g.Passed {
			return false, g.Skip
		}
	}
	return true, ""
}

// MayReplay reports whether an alarm that was given up may be set again, and returns the reason why not. A session that is stuck at that
// very step may: resume says that it has to be made active with it.
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

// Position returns where a session is in its flow. That of the deployment's own conversation is read off its token and its due step, as
// every release stores them.
func Position(f *flow.Flow, r Record) (flow.State, error) {
	if r.Flow != "" {
		at := r.At
		if s := f.Steps[at.Step]; r.Place() == 0 && at.Phase == flow.Due && s.Waits && s.Kind == flow.Send && !s.Scheduled {
			// The opening waits for the morning, and a reply to it does not. A question is asked before it is answered, and a text with after is
			// sent when it is due.
			at.Phase = flow.Waiting
		}
		return at, nil
	}
	if r.Token == AwaitingBurst {
		id := string(r.NextStep)
		return flow.State{
			Step: id, Phase: flow.Due, Key: id, Before: f.Before(id), Visits: map[string]int{id: 1}, Paused: r.Paused,
		}, nil
	}
	for _, id := range f.Order {
		switch s := f.Steps[id]; {
		case s.State != string(r.Token):
		case s.Waits:
			return flow.State{Step: id, Phase: flow.Waiting, Asked: id, Visits: map[string]int{id: 1}, Paused: r.Paused}, nil
		case s.Kind == flow.End, s.Kind == flow.Start:
			return flow.State{Step: id, Phase: flow.Ended}, nil
		}
	}
	return flow.State{}, fmt.Errorf("%w %.60q", ErrUnknownToken, string(r.Token))
}
