package session

import "time"

// AlarmCause is why an alarm was set.
type AlarmCause string

// The causes. Only overdue alarms are counted against a step: whatever else sets its alarm knows that the step can go on.
const (
	CauseDue      AlarmCause = "due"         // the step became due
	CauseOverdue  AlarmCause = "overdue"     // the alarm before brought nothing
	CauseDelivery AlarmCause = "delivery"    // the step waits for the receipt of the one before it
	CauseReleased AlarmCause = "released"    // a hold was lifted
	CauseReplayed AlarmCause = "replayed"    // an operator replays a dead letter
	CauseResumed  AlarmCause = "resumed"     // an operator resumes the session
	CauseQuiet    AlarmCause = "quiet_hours" // the step waits for the end of quiet hours
	CauseOutage   AlarmCause = "unavailable" // the alarm before came to a messaging service that could not be reached
)

// Alarm is a wake-up call for a due step: the row of the outbox, and what QStash is asked to deliver.
type Alarm struct {
	ID            string // UUIDv7
	OrgID         string
	SessionID     string
	ProfileID     string
	StepID        StepID
	ExpectedToken Token
	Generation    int // 1 for the first; each time the alarm is set again adds one
	Cause         AlarmCause
	DueAt         time.Time
	LeaseToken    string // whoever publishes it holds this
}

// Payload is what the alarm carries, exactly.
func (a Alarm) Payload() StepPayload { return NewStepPayload(a.ProfileID, a.SessionID, a.StepID) }

// longestDoublings keeps the doubling below from running over; a wait is capped by its limit long before.
const longestDoublings = 10

// NextLook is when a step that waits for a receipt looks again, after it has waited so many times: a second later, then
// two, then four, but not after the end of its wait.
func NextLook(now, end time.Time, waits int) time.Time {
	next := now.Add(time.Second << min(waits, longestDoublings))
	if next.After(end) {
		return end
	}
	return next
}
