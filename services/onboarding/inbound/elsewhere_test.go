package inbound_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/onboarding/inbound"
	"paceline.internal/services/onboarding/onboardingtest"
)

// TestTextOfAnotherOrganisation is answered by no flow of the one that the caller named, and the caller is to repeat it.
func TestTextOfAnotherOrganisation(t *testing.T) {
	t.Parallel()
	for name, named := range map[string]bool{"TheCallerNamesOne": true, "TheCallerNamesNone": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p, r := b.Activated()
			m, other := b.Message(p, "yes"), onboardingtest.NewID()
			if named {
				m.OrgId = other
			} else {
				b.Current().Inbound.OrgID = other
			}
			before := b.Session(r.ID)
			_, err := b.Current().Server.ReceiveMessage(t.Context(), m)
			require.ErrorIs(t, err, inbound.ErrElsewhere)
			b.Quiet()
			require.Equal(t, before, b.Session(r.ID))
			require.Equal(t, 1, b.Count(`select count(*) from webhook_jobs where org_id = $1 and status = 'failed' and attempts = 1`, other))
		})
	}
}
