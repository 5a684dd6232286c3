package session

import "time"

// AlarmCause says why an alarm was set.
type AlarmCause string

// The causes. Only overdue alarms are counted against a step: whatever else sets its alarm knows that the step can go on.
const (
	CauseDue      AlarmCause = "due"         // the step became due
	CauseOverdue  AlarmCause = "overdue"     // the alarm before brought nothing
	CauseDelivery AlarmCause = "delivery"    // the step waits for the receipt of the one before it
	CauseReleased AlarmCause = "released"    // a hold was lifted, or the alarm came under a pause of its organisation, or met a cap
	CauseReplayed AlarmCause = "replayed"    // an operator replays a dead letter
	CauseResumed  AlarmCause = "resumed"     // an operator resumes the session
	CauseQuiet    AlarmCause = "quiet_hours" // the step waits for the end of quiet hours
	CauseOutage   AlarmCause = "unavailable" // the alarm before came to a messaging service that could not be reached
)

// Alarm is for a due step: the row of the outbox, and what QStash is asked to deliver.
type Alarm struct {
	ID                 string // UUIDv7
	OrgID              string
	SessionID          string
	ProfileID          string
	StepID             StepID
	ExpectedStateToken Token
	Generation         int // 1 for the first; each time the alarm is set again adds one
	Cause              AlarmCause
	DueAt              time.Time
	LeaseToken         string    // of the process that publishes it, or rings it itself
	LeaseUntil         time.Time `db:"-"` // of an alarm that this process rings itself; zero for one that it publishes
}

// NewAlarm returns the alarm for a step of a session in the burst; its publisher sets the lease.
func NewAlarm(id string, r Record, step StepID, generation int, cause AlarmCause, due time.Time) Alarm {
	return Alarm{
		ID: id, OrgID: r.OrgID, SessionID: r.ID, ProfileID: r.ProfileID, StepID: step, ExpectedStateToken: AwaitingBurst,
		Generation: generation, Cause: cause, DueAt: due,
	}
}

// Payload returns what the alarm carries, exactly.
func (a Alarm) Payload() StepPayload { return NewStepPayload(a.ProfileID, a.SessionID, a.StepID) }

// Wait says why a due step is not sent yet although nothing forbids it: its alarm is set again.
type Wait struct {
	From  Record
	Cause AlarmCause // CauseQuiet, CauseDelivery, or CauseReleased
	At    time.Time
	Until time.Time // the step is sent then at the latest
	Entry Entry     // for the timeline
}

// Alarm decides when the step is tried again, and whether the timeline gets an entry, by when its newest alarm is due, how often it has
// waited for this, and how often in a row. It sets none when an alarm that is still to ring tries it anyway, so that of any number of
// executions at once one sets it.
func (w Wait) Alarm(newest time.Time, ever, inARow int) (due time.Time, set, noted bool) {
	switch w.Cause {
	case CauseQuiet:
		return w.Until, newest.Before(w.Until), true
	case CauseReleased:
		return w.Until, !newest.After(w.At), inARow == 0
	default:
	}
	return NextRead(w.At, w.Until, inARow), !newest.After(w.At), ever == 0
}

// longestDoublings keeps the doubling below from running over; a wait is capped by its limit long before.
const longestDoublings = 10

// NextRead returns when a step that waits for a receipt reads it again, after it has waited so many times: a second later, then
// two, then four, but not after the end of its wait.
func NextRead(now, end time.Time, waits int) time.Time {
	next := now.Add(time.Second << min(waits, longestDoublings))
	if next.After(end) {
		return end
	}
	return next
}
