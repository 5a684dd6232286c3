package readback

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"

	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/messaging/twilio"
)

// refusals are the senders of accounts that Twilio does not let us read, by their ids.
type refusals map[uuid.UUID]error

// refused reports whether an error is a refusal of a sender. Every other error may pass.
func refused(err error) bool {
	return errors.Is(err, twilio.ErrCredentials) || errors.Is(err, twilio.ErrForbidden) || errors.Is(err, twilio.ErrNoResource)
}

// note reports whether an error is a refusal of a sender, and keeps it.
func (no refusals) note(from senders.Sender, err error) bool {
	if refused(err) {
		no[from.ID] = err
		return true
	}
	return false
}

// left returns the refused senders that still send, and whether these are all that do. A sender that sends no more is given up: its account
// may be closed.
func (no refusals) left(all []senders.Sender) (left []uuid.UUID, every bool) {
	active := 0
	for _, from := range all {
		if !from.DeletedAt.IsZero() || from.Status == senders.Disabled {
			continue
		}
		active++
		if no[from.ID] != nil {
			left = append(left, from.ID)
		}
	}
	return left, len(left) == active
}

// settle lets the other senders send again where some are refused, and fails until these are read. Where every one is refused, all wait:
// what is wrong is more likely the keys.
func (s *Service) settle(ctx context.Context, r Readback, all []senders.Sender, no refusals) error {
	for id, why := range no {
		s.Log.WarnContext(ctx, "messaging.readback_sender_refused", "org_id", r.OrgID, "sender_id", id, "error", why)
	}
	left, every := no.left(all)
	if len(left) == 0 {
		return nil
	}
	if !every {
		if err := s.Store.narrow(ctx, r, left); err != nil {
			return err
		}
	}
	return fmt.Errorf("senders %s: %w", left, errors.Join(slices.Collect(maps.Values(no))...))
}
