package onboarding_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/onboarding/session"
)

// TestDoubtfulOptOut: whether "leave me alone" is an opt-out is for an operator to say, and nothing is sent before they have.
func TestDoubtfulOptOut(t *testing.T) {
	t.Parallel()

	t.Run("S0_40_BurstWaitsForAnOperatorAndGoesOnWhenTheyResumeIt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.inBurst(2)
		said := len(b.sequence(p))
		b.reply(p, "leave me alone")
		parked := b.session(r.ID)
		require.Equal(t, session.Stuck, parked.Status)
		require.Contains(t, parked.Reason, "may want no more texts")
		require.Contains(t, parked.Reason, "/v1/sessions/"+r.ID+":resume")
		require.NotContains(t, parked.Reason, p.Phone)
		require.NotContains(t, parked.Reason, "leave me")
		require.Equal(t, parked.Reason, b.entry(r.ID, session.KindParked).Detail)
		require.NotEmpty(t, b.entry(r.ID, session.KindParked).MessageID)
		require.Equal(t, "may be an opt-out", b.entry(r.ID, session.KindReplied).Detail)
		_, err := b.execute(payload(r))
		require.NoError(t, err)
		require.Len(t, b.sequence(p), said, "nothing is sent")

		b.reply(p, "leave me alone") // which changes nothing more
		require.Equal(t, session.Stuck, b.session(r.ID).Status)
		b.resumed(r)
		b.work()
		require.Equal(t, session.Active, b.session(r.ID).Status, "the operator has judged the words")
		_, err = b.execute(payload(b.session(r.ID)))
		require.NoError(t, err)
		require.Len(t, b.sequence(p), said+1)
	})

	t.Run("S0_41_STOPAfterItEndsTheSession", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.inBurst(2)
		b.reply(p, "leave me alone")
		b.reply(p, "STOP")
		require.Equal(t, session.Stopped, b.session(r.ID).Status)
	})
}
