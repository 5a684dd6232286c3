package onboarding_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"paceline.internal/platform/retention"
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
	own := func() map[string]time.Duration {
		found, err := retention.ReadOwn(t.Context(), b.Pool, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		return found[onboardingtest.OrgID]
	}
	require.Equal(t, map[string]time.Duration{"timeline": 730 * onboardingtest.Day, "audit": 30 * onboardingtest.Day}, own())
	b.Exec(`update organisation_settings set retention = retention || '{"alarms": "long", "timeline": 3}' where org_id = $1`, onboardingtest.OrgID)
	require.Equal(t, map[string]time.Duration{"audit": 30 * onboardingtest.Day}, own(), "what cannot be read is kept as the deployment says")
	for _, wrong := range []struct {
		kept *onboardingv1.Retention
		want string
	}{
		{&onboardingv1.Retention{AlarmsDays: -1}, "alarms_days must be 30 to 3660"},
		{&onboardingv1.Retention{AlarmsDays: 29}, "alarms_days must be 30 to 3660"},
		{&onboardingv1.Retention{MessagesDays: 3661}, "messages_days must be 30 to 3660"},
		{&onboardingv1.Retention{ConsentDays: 364}, "consent_days must be 365 to 3660"},
		{&onboardingv1.Retention{GoalsDays: -1}, "goals_days must be 1 to 3660"},
		{&onboardingv1.Retention{ConsentDays: 400, MessagesDays: 401}, "consent_days must be no less than messages_days"},
	} {
		_, err := decides(wrong.kept)
		require.Equal(t, codes.InvalidArgument, status.Code(err))
		require.ErrorContains(t, err, wrong.want)
	}
	all := &onboardingv1.Retention{
		TimelineDays: 30, AlarmsDays: 31, EngagementDays: 32, AuditDays: 33, MessagesDays: 34, ConsentDays: 365, ReceiptsDays: 36, OutboundDays: 1,
		GoalsDays: 2, EventsDays: 3, JobsDays: 37,
	}
	set, err = decides(all)
	require.NoError(t, err)
	require.True(t, proto.Equal(all, set.GetRetention()), set.GetRetention())
	require.Len(t, own(), 11)
	told := b.Messaging.Retention()
	require.Equal(t, []int32{34, 365, 36, 1, 33}, []int32{
		told.GetMessagesDays(), told.GetConsentDays(), told.GetReceiptsDays(), told.GetOutboundDays(), told.GetAuditDays(),
	}, "messaging knows what it keeps")
	set, err = decides(&onboardingv1.Retention{})
	require.NoError(t, err)
	require.Nil(t, set.GetRetention(), "as the deployment has it, again")
	require.Zero(t, b.Messaging.Retention().GetMessagesDays())
}
