package goals

import (
	"fmt"
	"time"
)

// Explanation says where a goal stands, why, what happens next by itself, and what may be done about it.
type Explanation struct{ Summary, Next, Advice string }

// Gate is one question that an alarm asks of a goal, in the order of Gates.
type Gate struct {
	Name    string
	Outcome string // of the alarm, if the gate does not let it pass
	Passed  bool
	Fact    string
	Since   time.Time
	Change  string // what would change it; empty when it passes
}

// Gates are the questions of an alarm in the order in which onAlarm lets them decide, and what the alarm would answer. What messaging would
// say about the text of a phone's goal is not asked.
func (v Situation) Gates(now time.Time) (gates []Gate, outcome string) {
	runs := v.Status == Running && v.Kind == Phone
	gates = []Gate{
		{
			Name: "status", Outcome: string(v.Status), Passed: v.Status == Scheduled || runs, Fact: "the goal is " + string(v.Status),
			Change: "nothing: an alarm begins only what is scheduled",
		},
		{
			Name: "due", Outcome: OutcomeEarly, Passed: runs || !now.Before(v.ScheduledFor.Add(-tolerance)),
			Fact: "it is due at " + v.ScheduledFor.UTC().Format(time.RFC3339), Change: "time, or POST /v1/goals/" + v.ID + ":reschedule",
		},
		{Name: "device", Outcome: "offline", Passed: v.Online, Fact: "the device is connected", Change: "connect the device"},
		{
			Name: "free", Outcome: OutcomeBusy, Passed: runs || !v.Busy, Fact: "nothing runs on the device",
			Change: "the end of the goal that runs on the device",
		},
	}
	if !v.Online {
		gates[2].Fact = "the device is not connected"
	}
	if v.Busy {
		gates[3].Fact = "another goal runs on the device"
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

// Explain explains a goal as an alarm would find it.
func (v Situation) Explain(now time.Time, paused bool) Explanation {
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
		return Explanation{Summary: fmt.Sprintf("The goal failed at %s: %s.", at(v.EndedAt), failures(v.Reason)), Advice: advice[v.Reason]}
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
	return v.explainScheduled(now, paused, at)
}

func (v Situation) explainScheduled(now time.Time, paused bool, at func(time.Time) string) Explanation {
	e := Explanation{Summary: fmt.Sprintf("The goal is due at %s.", at(v.ScheduledFor))}
	switch {
	case paused:
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

// failures says why in words.
func failures(reason string) string {
	if words, ok := map[string]string{
		ReasonDevice:  "its device said so; the timeline has its words",
		ReasonOffline: "its device was offline at every try", ReasonBusy: "its device was not free for an hour",
		ReasonLost: "the device fell silent while it ran", ReasonRemoved: "the device was deleted",
		ReasonLimit: "it ran for longer than a run may", ReasonNoAlarm: "no alarm of it came through",
		ReasonHeld: "the person is held", ReasonOptedOut: "the person has opted out", ReasonUndelivered: "the carrier did not take the text",
	}[reason]; ok {
		return words
	}
	return reason
}

var advice = map[string]string{
	ReasonOffline: "Connect the device and create the goal again.",
	ReasonLost:    "See on the device whether it was done, before you create it again.",
	ReasonNoAlarm: "See the runbook \"a goal did not run\".",
	ReasonHeld:    "Release the person, and create the goal again.",
}
