package send

import (
	"time"

	"github.com/google/uuid"

	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

// A receipt that is lost is lost for good: Twilio repeats it for fifteen seconds. So a message without a final status is asked
// about: firstPoll after its acceptance, then after twice as long each time, and never later than pollFor after it. Twilio
// itself gives a message up after ten hours; carriers without receipts leave it at sent.
const (
	firstPoll = time.Minute
	pollFor   = 24 * time.Hour
)

// Poll is what Twilio said when it was asked about a message that it has.
type Poll struct {
	MessageID uuid.UUID
	SID       string
	Receipt   *Receipt // its answer, as if Twilio had reported it; nil when nothing was learnt
	Gone      bool     // Twilio says that it has no such message
	At        time.Time
}

// fetched is a message as Twilio has it, as if Twilio had reported it.
func fetched(m Message, stored twilio.Stored, at time.Time) *Receipt {
	return &Receipt{
		MessageID: m.ID, SID: m.SID, Status: Storable(stored.Status), ErrorCode: stored.ErrorCode, At: at,
		Raw: map[string]string{"paceline_source": "fetched"},
	}
}

// Poll merges what Twilio said and sets when it is asked again. Checks counts the polls, this one included. Changed says that the
// answer said anything new.
func (m Message) Poll(p Poll) (polled Message, changed bool) {
	switch {
	case m.SID != p.SID:
		return m, false
	case !m.Accepted():
		if m.Status != sms.Unknown { // an older release has settled it and left the check behind
			m.NextCheckAt, m.Checks = time.Time{}, 0
		}
		return m, false
	}
	if p.Receipt != nil {
		m, changed = m.Receive(*p.Receipt)
	}
	last := m.AcceptedAt.Add(pollFor)
	switch {
	case m.Status.Final() || p.Gone || !p.At.Before(last): // a final row may have a check that another release left behind
		m.NextCheckAt, m.Checks = time.Time{}, 0
	default:
		m.NextCheckAt = p.At.Add(firstPoll << min(m.Checks, 10))
		if m.NextCheckAt.After(last) {
			m.NextCheckAt = last
		}
	}
	return m, changed
}
