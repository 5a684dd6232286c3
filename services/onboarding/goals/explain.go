package goals

import (
	"cmp"
	"fmt"
	"time"

	"paceline.internal/services/onboarding/conversation"
)

// Explanation has the state of a goal, the reason for it, what happens next by itself, and what may be done about it.
type Explanation struct{ Summary, Next, Advice string }

// Gates are the questions of an alarm in the order in which onAlarm lets them decide, and what the alarm would answer. What messaging would
// say about the text of a phone's goal is not asked. The pause is that of the organisation, if it has one.
func (v Situation) Gates(now time.Time, pause conversation.Pause) (gates []conversation.Gate, outcome string) {
	runs := v.Status == Running && v.Kind == Phone
	gates = []conversation.Gate{
		{
			Name: "status", Outcome: string(v.Status), Passed: v.Status == Scheduled || runs, Fact: "the goal is " + string(v.Status),
			Change: "nothing: an alarm begins only what is scheduled",
		},
		{
			Name: "due", Outcome: OutcomeEarly, Passed: runs || !now.Before(v.ScheduledFor.Add(-tolerance)),
			Fact: "it is due at " + v.ScheduledFor.UTC().Format(time.RFC3339), Change: "time, or POST /v1/goals/" + v.ID + ":reschedule",
		},
		{
			Name: "scheduling", Outcome: OutcomePaused, Passed: runs || !v.SchedulingPaused, Fact: "alarms are published",
			Change: pause.Change(),
		},
		{Name: "device", Outcome: "offline", Passed: v.Online, Fact: "the device is connected", Change: "connect the device"},
		{
			Name: "free", Outcome: OutcomeBusy, Passed: runs || !v.Busy, Fact: "nothing runs on the device",
			Change: "the end of the goal that runs on the device",
		},
	}
	if v.SchedulingPaused {
		gates[2].Fact, gates[2].Since = pause.Fact(), pause.Since
	}
	if !v.Online {
		gates[3].Fact = "the device is not connected"
	}
	if v.Busy {
		gates[4].Fact = "another goal runs on the device"
	}
	outcome = OutcomeStarted
	for i := len(gates) - 1; i >= 0; i-- {
		if gates[i].Passed {
			gates[i].Change = ""
		} else {
			outcome = gates[i].Outcome
		}
	}
	return gates, outcome
}

// Explain explains a goal as an alarm would find it. Disabled says that the process publishes no alarm, and the pause is that of the
// organisation, if it has one.
func (v Situation) Explain(now time.Time, disabled bool, pause conversation.Pause) Explanation {
	at := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	switch v.Status {
	case Completed:
		return Explanation{
			Summary: fmt.Sprintf("The goal was due at %s, began at %s and completed at %s.", at(v.ScheduledFor), at(v.StartedAt), at(v.EndedAt)),
		}
	case Cancelled:
		return Explanation{
			Summary: fmt.Sprintf("The goal was cancelled at %s, before it began. It will never run.", at(v.EndedAt)),
			Advice:  "Create a goal with undo_of to bring it back.",
		}
	case Failed:
		why := cmp.Or(failures[v.Reason], v.Reason)
		return Explanation{Summary: fmt.Sprintf("The goal failed at %s: %s.", at(v.EndedAt), why), Advice: advice[v.Reason]}
	case Running:
		e := Explanation{
			Summary: fmt.Sprintf("The goal runs on its device since %s, and was last heard of at %s.", at(v.StartedAt), at(v.HeardAt)),
			Next:    "The device says when it ends; if it falls silent the goal fails as device_lost.",
		}
		if !v.StopAskedAt.IsZero() {
			e.Summary += fmt.Sprintf(" A stop was asked for at %s.", at(v.StopAskedAt))
		}
		return e
	case Scheduled:
	}
	e := Explanation{Summary: fmt.Sprintf("The goal is due at %s.", at(v.ScheduledFor))}
	if !disabled && v.SchedulingPaused {
		e.Next = fmt.Sprintf("Nothing: %s, since %s.", pause.Fact(), at(pause.Since))
		e.Advice = pause.Change() + " lifts the pause; what is due by then runs at once."
		return e
	}
	return v.explainScheduled(e, now, disabled, at)
}

func (v Situation) explainScheduled(e Explanation, now time.Time, disabled bool, at func(time.Time) string) Explanation {
	switch {
	case disabled:
		e.Next, e.Advice = "Nothing: scheduling is switched off.", "Lift ONBOARDING_SCHEDULING_DISABLED; what is due by then runs at once."
	case now.Before(v.ScheduledFor):
		e.Next = "QStash calls then, and the goal begins if its device is connected and free."
		if !v.Online {
			e.Summary += " Its device is not connected now."
		}
	case !v.WaitingSince.IsZero():
		e.Summary = fmt.Sprintf("The goal was due at %s and waits since %s for its device to be free.", at(v.ScheduledFor), at(v.WaitingSince))
		e.Next = fmt.Sprintf("It begins when the device is free; if it is not by %s, it fails as device_busy.", at(v.WaitingSince.Add(MaxBusy)))
	case v.OfflineTries > 0:
		e.Summary = fmt.Sprintf("The goal was due at %s; its device was offline at %d of its alarms.", at(v.ScheduledFor), v.OfflineTries)
		e.Next, e.Advice = "QStash tries again, each time after a longer pause; then the goal fails as device_offline.", "Connect the device."
	default:
		e.Summary = fmt.Sprintf("The goal was due at %s, and its alarm has not come.", at(v.ScheduledFor))
		e.Next, e.Advice = "The sweeper sets the alarm again.", "See the runbook \"a goal did not run\"."
	}
	return e
}

// failures say why in words.
var failures = map[string]string{
	ReasonDevice:  "its device said so; the timeline has its words",
	ReasonOffline: "its device was offline at every try", ReasonBusy: "its device was not free for an hour",
	ReasonLost: "the device fell silent while it ran", ReasonRemoved: "the device was deleted",
	ReasonLimit: "it ran for longer than a run may", ReasonNoAlarm: "no alarm of it came through",
	ReasonHeld: "the person is held", ReasonOptedOut: "the person has opted out", ReasonUndelivered: "the carrier did not take the text",
}

var advice = map[string]string{
	ReasonOffline: "Connect the device and create the goal again.",
	ReasonLost:    "See on the device whether it was done, before you create it again.",
	ReasonNoAlarm: "See the runbook \"a goal did not run\".",
	ReasonHeld:    "Release the person, and create the goal again.",
}
