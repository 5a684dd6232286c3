package inbox

import (
	"context"
	"time"

	"github.com/google/uuid"

	"paceline.internal/services/messaging/sms"
)

// Hold is an operator's safety hold on a number, or that it is lifted. While it holds, nothing is sent but our own answers to words
// about consent.
type Hold struct {
	OrgID   uuid.UUID
	Phone   sms.Phone
	Held    bool
	Version int64 // the higher one of two counts, whichever comes last
	At      time.Time
}

// JudgeWords ends the hold by words of a person that may be an opt-out: an operator has read them, and they are none. A hold of an operator
// stays.
func (s *Service) JudgeWords(ctx context.Context, orgID uuid.UUID, phone sms.Phone) error {
	return s.Notes.JudgeWords(ctx, orgID, phone)
}

// SetHold keeps a hold, or that it is lifted. Like an opt-out it is answered once nothing is on its way to the person any more:
// send.ErrUnavailable, with the hold in force, when that takes too long.
func (s *Service) SetHold(ctx context.Context, h Hold) error {
	err := s.Notes.SetHold(ctx, h)
	if err == nil && h.Held {
		err = s.Send.AwaitQuiet(ctx, h.OrgID, h.Phone.String())
	}
	return err
}
