package send_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sendtest"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

// TestRefused is about the run that stops because nobody gets its first text.
func TestRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	outcome := twilio.Outcome{Status: sms.Rejected, Code: 20003}
	service := b.Service(func(c *send.Config) {
		c.Carrier = sendtest.CarrierFunc(func(context.Context, twilio.Outgoing) twilio.Outcome { return outcome })
	})
	var begun []send.Begun // the newest first, as a run names them
	starts := func(n int) {
		for range n {
			r := b.Request()
			r.ProfileID = uuid.Must(uuid.NewV7())
			prefix := fmt.Sprintf("onboarding:%s:%d:", r.ProfileID, len(begun))
			r.Key = prefix + "hello"
			_, err := service.Send(t.Context(), r)
			require.NoError(t, err)
			begun = append([]send.Begun{{ProfileID: r.ProfileID, KeyPrefix: prefix}}, begun...)
		}
	}
	refused := func() (send.RefusedInRow, bool) {
		found, is, err := b.Store.Refused(t.Context(), b.Config.Senders.Environment.OrgID, begun, b.Clock.Now())
		require.NoError(t, err)
		return found, is
	}
	starts(15)
	_, is := refused()
	require.False(t, is, "fewer may be the numbers of some people")
	starts(1)
	found, is := refused()
	require.True(t, is)
	require.Equal(t, send.RefusedInRow{
		Code: 20003, Messages: 16,
		Explanation: "the account, or its key or token, is wrong; to do: check TWILIO_ACCOUNT_SID and TWILIO_API_KEY_SID (or TWILIO_AUTH_TOKEN)",
	}, found)

	outcome = twilio.Outcome{Status: sms.Accepted, SID: "SM0123456789abcdef0123456789abcdef", Reported: "queued"}
	starts(1)
	_, is = refused()
	require.True(t, is, "whether the newest one gets through is not known yet")
	b.Clock.Advance(3 * time.Minute)
	_, is = refused()
	require.False(t, is, "it got through: nothing was heard of it")

	outcome = twilio.Outcome{Status: sms.Rejected, Code: 30007}
	starts(16)
	found, is = refused()
	require.True(t, is)
	require.Equal(t, 30007, found.Code)
	outcome = twilio.Outcome{Status: sms.Rejected, Code: 21211}
	starts(1)
	_, is = refused()
	require.False(t, is, "a number that is not valid is the person's")
}
