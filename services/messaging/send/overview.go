package send

import (
	"time"

	"github.com/google/uuid"
)

// OverviewQuery asks for what an operator of an organisation sees first.
type OverviewQuery struct {
	OrgID         uuid.UUID
	Now           time.Time
	Minutes       int // of how many minutes, the present one included
	Most          int // where counting stops
	MostOfAMinute int // where it stops for a minute
}

// LookedFor is when a message was accepted for whose final status Twilio may be asked now: within a day, and the check after it; and not so
// recently that its receipt is only on its way.
func (q OverviewQuery) LookedFor() (from, until time.Time) {
	return q.Now.Add(-pollFor - time.Hour), q.Now.Add(-receiptOverdue)
}

// Overview is how the messages of an organisation stand. Nothing is counted beyond a limit.
type Overview struct {
	Undelivered     []UndeliveredMinute // oldest first
	Settled         []SettledMinute     // of the same minutes
	Unknown, Parked InDoubt
	Missing         int // messages whose final status has not come in time, as in Gauges
}

// UndeliveredMinute is what Twilio took in a minute and has not reported as delivered.
type UndeliveredMinute struct {
	At         time.Time
	OnTheirWay int // accepted, queued or sent
	Failed     int // or undelivered
}

// SettledMinute is what Twilio has delivered or refused of a minute, among the newest messages.
type SettledMinute struct {
	Delivered, Rejected int
	More                bool // the newest messages do not reach back to the whole of it
}

// InDoubt is how many messages are in doubt, and since when the oldest of them.
type InDoubt struct {
	Count int
	Since time.Time // zero without any
}
