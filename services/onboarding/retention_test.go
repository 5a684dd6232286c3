package onboarding_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/onboardingtest"
)

// TestRetentionOfAnOrganisation is about what it may decide; what is deleted then is TestRetention of the store.
func TestRetentionOfAnOrganisation(t *testing.T) {
	t.Parallel()
	b := setup(t)
	decides := func(r *onboardingv1.Retention) (*onboardingv1.Settings, error) {
		out, err := onboardingtest.Ask(b.Bundle, b.Current().Server.UpdateSettings, &onboardingv1.UpdateSettingsRequest{
			Settings: &onboardingv1.Settings{QuietHours: &onboardingv1.QuietHours{}, Retention: r},
		})
		return out.GetSettings(), err
	}
	set, err := decides(nil)
	require.NoError(t, err)
	require.Nil(t, set.GetRetention(), "it has decided nothing")
	_, err = decides(&onboardingv1.Retention{TimelineDays: 730, AuditDays: 30})
	require.NoError(t, err)
	set, err = decides(nil)
	require.NoError(t, err)
	require.EqualValues(t, 730, set.GetRetention().GetTimelineDays(), "a request without it leaves it as it is")
	own, err := b.Store.OwnRetention(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]time.Duration{"timeline": 730 * onboardingtest.Day, "audit": 30 * onboardingtest.Day}, own[onboardingtest.OrgID])
	for _, days := range []int32{-1, 29, 3661} {
		_, err := decides(&onboardingv1.Retention{AlarmsDays: days})
		require.Equal(t, codes.InvalidArgument, status.Code(err))
		require.ErrorContains(t, err, "alarms_days must be 30 to 3660")
	}
	set, err = decides(&onboardingv1.Retention{})
	require.NoError(t, err)
	require.Nil(t, set.GetRetention(), "as the deployment has it, again")
}
