package readback

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

func TestRefusals(t *testing.T) {
	t.Parallel()
	no, from := refusals{}, senders.Sender{ID: uuid.New()}
	require.False(t, no.note(from, nil))
	require.False(t, no.note(from, errors.New("twilio: list sent messages: HTTP status 503 without a usable answer")))
	require.Empty(t, no)
	require.True(t, no.note(from, fmt.Errorf("%w: %w", sms.ErrUnavailable, twilio.ErrCredentials)), "a closed account")
	require.Contains(t, no, from.ID)

	open := senders.Sender{ID: uuid.New(), Status: senders.Active}
	from.Status = senders.Disabled
	left, all := no.left([]senders.Sender{from, open})
	require.Empty(t, left, "it sends no more")
	require.False(t, all)
	from.Status = senders.Active
	left, all = no.left([]senders.Sender{from, open})
	require.Equal(t, []uuid.UUID{from.ID}, left)
	require.False(t, all, "the other one sends again")
	_, all = no.left([]senders.Sender{from})
	require.True(t, all)
}
