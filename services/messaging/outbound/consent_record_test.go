package outbound_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/outbound"
)

// TestConsentRecord is about organisations with settings that require one, which the gateway says with each text but one-time codes.
func TestConsentRecord(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		know    func(b *bundle)
		refused bool
	}{
		{name: "OfAPersonOfWhomNothingIsKnown", know: func(*bundle) {}, refused: true},
		{name: "OfOneWhoWasTextedWithoutOne", know: func(b *bundle) { b.Send("before") }, refused: true},
		{name: "OfOneWhoWasTextedWithOne", know: func(b *bundle) {
			r := b.Request()
			r.Consent = consent.Given{Source: "web_form", WordsShown: "Text me", CollectedAt: b.Clock.Now()}
			_, err := b.Service(nil).Send(b.T.Context(), r)
			require.NoError(b.T, err)
		}},
		{name: "OfOneWhoCameBackInTheirOwnWords", know: func(b *bundle) {
			b.Receive("SM1", "STOP")
			b.Receive("SM2", "START")
		}},
		{name: "OfOneWhoseTextIsQueuedAlready", know: func(b *bundle) { b.enqueue(func(r *outbound.Request) { r.Key = "queued" }) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			tt.know(b)
			r := b.request()
			r.Key, r.ConsentRequired = "queued", true
			_, _, err := b.intake.Enqueue(t.Context(), r)
			if tt.refused {
				require.ErrorIs(t, err, outbound.ErrConsentRequired)
				return
			}
			require.NoError(t, err)
		})
	}
}
