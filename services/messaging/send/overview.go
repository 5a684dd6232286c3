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
	MostRefused   int // among how many of the newest messages of a status refusals are looked for
}

// LookedFor returns the range of acceptance times for which Twilio may be asked for the final status: within a day and a check, and not so
// recently that its receipt is only on its way.
func (q OverviewQuery) LookedFor() (from, until time.Time) {
	return q.Now.Add(-pollFor - time.Hour), q.Now.Add(-receiptOverdue)
}

// Overview is the state of an organisation's messages. Nothing is counted beyond a limit.
type Overview struct {
	Undelivered     []UndeliveredMinute // oldest first
	Settled         []SettledMinute     // of the same minutes
	Unknown, Parked InDoubt
	Missing         int // messages without a final status in time, as in Gauges
	Refusals        []Refusal
}

// Refusal is a code with which Twilio or the carriers refuse messages until a person has acted, and nothing passed since: no message to
// the same number, or of a code that refuses whatever the account sends, none to the same zone of the numbering plan (the first digit).
type Refusal struct {
	Code     int
	Messages int
	Since    time.Time // when the first of them was made
	Newest   uuid.UUID // the one that was refused last
}

// RefusedSince returns how long ago a refusal of one recipient's message is still shown: nothing may ever be sent to them again.
func (q OverviewQuery) RefusedSince() time.Time { return q.Now.Add(-7 * 24 * time.Hour) }

// UndeliveredMinute counts the messages that Twilio took in a minute and has not reported as delivered.
type UndeliveredMinute struct {
	At         time.Time
	OnTheirWay int // accepted, queued or sent
	Failed     int // or undelivered
}

// SettledMinute counts the messages of a minute that Twilio has delivered or refused, among the newest messages.
type SettledMinute struct {
	Delivered, Rejected int
	More                bool // the newest messages do not reach back to the whole of it
}

// InDoubt has the number of messages in doubt, and the time since when the oldest of them has been.
type InDoubt struct {
	Count int
	Since time.Time // zero without any
}
