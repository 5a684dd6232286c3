package onboarding_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/onboardingtest"
)

func TestOverviewIsOfTheCallersOrganisation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	t.Cleanup(w.run())
	_, _ = w.enrolled("+5511987650001")
	active := func(org string) int32 {
		out, err := w.client.GetOverview(w.as(rpc.RoleOperator, "ada", org), &onboardingv1.GetOverviewRequest{})
		require.NoError(t, err)
		return out.GetPeople()[0].GetPeople().GetCount()
	}
	require.Equal(t, []int32{1, 0}, []int32{active(onboardingtest.OrgID), active(onboardingtest.NewID())})
}
