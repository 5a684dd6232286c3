package session

import (
	"time"
)

const (
	// burstPause is the longest time between two messages of one burst. After a longer one, because the flow has it or because the step
	// was held up, the next message begins anew, and waits for quiet hours to end. It is longer than any wait for a receipt
	// (MaxAfterDelivery) and than the sweeper's first repeats.
	burstPause = 15 * time.Minute
	// clockSkew bounds how far the clock that rings may be ahead of our clock.
	clockSkew = 5 * time.Second
)

// BurstGoesOn reports whether a step still belongs to the burst, by when its last message was taken. Quiet hours never part a burst.
func BurstGoesOn(last, now time.Time) bool { return now.Sub(last) <= burstPause }

// QuietUntil returns when a message that begins something may be sent, and whether that is later than now.
func (r Record) QuietUntil(now time.Time) (until time.Time, quiet bool) {
	until = r.Quiet.Next(now)
	return until, until.After(now)
}

// QuietAlarm returns when to try a step again that waits for the end of quiet hours. If the alarm rings a
// few seconds early, QStash's clock is ahead; without clockSkew the next one would ring early, too.
func QuietAlarm(now, until time.Time) time.Time {
	if until.Sub(now) <= clockSkew {
		return until.Add(clockSkew)
	}
	return until
}

// BurstDue returns when the alarm of a burst's first step is to ring, for a reply of now: after its delay, and not in quiet hours.
// If delay and quiet hours together exceed MaxDelay, the alarm rings after the delay, and the step then waits again.
func (r Record) BurstDue(after time.Duration, now time.Time) time.Time {
	due := now.Add(after)
	if until, quiet := r.QuietUntil(due); quiet && until.Sub(now) <= MaxDelay {
		return until
	}
	return due
}

// QuietEntry is the timeline entry of a message that waits for the end of quiet hours; step is empty for the opening.
func QuietEntry(at, until time.Time, trigger Trigger, step StepID) Entry {
	return Entry{
		At: at, Kind: KindWaiting, Trigger: trigger, Step: step,
		Detail: "for the end of quiet hours, at " + until.UTC().Format(time.RFC3339),
	}
}
