package send_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sendtest"
)

// sets sets the status of the organisation.
func (b *bundle) sets(status string, version int64) {
	b.T.Helper()
	rooms := &send.RPC{Service: b.Service(nil), Store: send.NewStore(b.Pool, nil)}
	_, err := rooms.SetOrganisation(b.T.Context(), &messagingv1.SetOrganisationRequest{
		OrgId: b.Request().OrgID.String(), Status: status, Version: version,
	})
	require.NoError(b.T, err)
}

// TestSuspendedOrganisation sends nothing but our answers to STOP and HELP, and what waited afterwards, once.
func TestSuspendedOrganisation(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.sets("suspended", 2)
	b.sets("active", 1) // told late
	result := b.Send("onboarding:p:s:1")
	require.Equal(t, send.Suspended, result.Outcome)
	require.Positive(t, result.RetryAfter)
	require.Empty(t, b.Sent())

	r := b.Request()
	r.Key, r.DespiteHold = send.AnswerKeys+"help:SM1", true
	answered, err := b.Service(nil).Send(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, send.Accepted, answered.Outcome, "HELP is answered")

	r.Key = send.QuestionKeys + "SM2"
	asked, err := b.Service(nil).Send(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, send.Suspended, asked.Outcome, "the question whether the texts are to stop is no answer to STOP or HELP")

	e, err := b.Service(nil).Explain(t.Context(), b.Request())
	require.NoError(t, err)
	require.Equal(t, send.Suspended, e.Outcome)
	require.Equal(t, "those who run this deployment resume the organisation", e.Advice)

	b.sets("active", 3)
	require.Equal(t, send.Accepted, b.Send("onboarding:p:s:1").Outcome)
	require.Equal(t, send.AlreadyAccepted, b.Send("onboarding:p:s:1").Outcome)
	require.Len(t, b.Sent(), 2)
	require.Equal(t, sendtest.Theirs, b.Sent()[0].To)
}
