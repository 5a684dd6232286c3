package inbox

import (
	"context"
	"time"

	"github.com/google/uuid"

	"paceline.internal/services/messaging/sms"
)

// Reminders is what is said about reminders of a number: that they are not wanted, or wanted again. It is narrower than consent, which it
// leaves as it is.
type Reminders struct {
	OrgID  uuid.UUID
	Phone  sms.Phone
	Off    bool
	Source RemindersSource
	SaidAt time.Time // what was said last counts, whichever is recorded last

	MessageID   uuid.UUID // the message that says it; uuid.Nil when it was said elsewhere
	KeywordPack string    // the version of the words that the message was read by; else empty
	At          time.Time // when it is recorded
}

// RemindersSource is who says it.
type RemindersSource string

// The sources, as they are stored.
const (
	SaidByPerson   RemindersSource = "person"
	SaidByOperator RemindersSource = "operator"
)

// SetReminders keeps what was said elsewhere than in a message, unless something was said later, or an operator says it while the person's
// own words have switched reminders off, and returns what is in force. Like an
// opt-out, reminders that are off are answered once nothing is on its way to the person any more: send.ErrUnavailable, with it in force,
// when that takes too long.
func (s *Service) SetReminders(ctx context.Context, r Reminders) (Reminders, error) {
	inForce, err := s.Notes.SetReminders(ctx, r)
	if err == nil && inForce.Off {
		err = s.Send.AwaitQuiet(ctx, r.OrgID, r.Phone.String())
	}
	if err != nil {
		return Reminders{}, err
	}
	return inForce, nil
}
