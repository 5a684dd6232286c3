package delivery

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
	Stored    *twilio.Stored // nil when nothing was learnt
	Gone      bool           // Twilio says that it has no such message
	At        time.Time
}

// Receipt is the poll's answer as if Twilio had reported it.
func (p Poll) Receipt() Receipt {
	return Receipt{
		MessageID: p.MessageID, SID: p.SID, Status: storable(p.Stored.Status), ErrorCode: p.Stored.ErrorCode, At: p.At,
		Raw: map[string]string{"paceline_source": "fetched"},
	}
}

// Poll merges what Twilio said and sets when it is asked again. Looks counts the polls, this one included.
func (m Message) Poll(p Poll) Message {
	switch {
	case m.SID != p.SID:
		return m
	case !m.Accepted():
		if m.Status != sms.Unknown { // an older release has settled it and left the look behind
			m.NextLookAt, m.Looks = time.Time{}, 0
		}
		return m
	}
	if p.Stored != nil {
		m, _ = m.Receive(p.Receipt())
	}
	last := m.AcceptedAt.Add(pollFor)
	switch {
	case m.Status.Final() || p.Gone || !p.At.Before(last): // a final row may have a look that another release left behind
		m.NextLookAt, m.Looks = time.Time{}, 0
	default:
		m.NextLookAt = p.At.Add(firstPoll << min(m.Looks, 10))
		if m.NextLookAt.After(last) {
			m.NextLookAt = last
		}
	}
	return m
}
