package onboarding_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/onboardingtest"
)

// TestEngagementCallers is about the whole service: the roles of the database bound what a call sees.
func TestEngagementCallers(t *testing.T) {
	t.Parallel()
	onboardingtest.Subtest(t, "S4_72_UsersCallChangesThemselvesAloneAndWithdrawsWhatIsQueued", newWorld, func(t *testing.T, w *world) {
		defer w.run()()
		people := onboardingv1.NewEngagementServiceClient(w.conn)
		hers, _ := w.enrolled("+5511987650001")
		other, _ := w.enrolled("+5511987650002")
		_, err := w.pool.Exec(t.Context(), `insert into engagement_outreach (id, org_id, idempotency_key, event_type, subject, priority, status, next_retry_at,
			profile_id, message_key, local_day, scheduled_for, expires_at, created_at, updated_at)
			select gen_random_uuid(), org_id, id::text, 'goodbye', phone, 1, 'pending', now() + interval '1 year', id, 'ENGAGEMENT_GOODBYE', now(), now(), now(), now(), now()
			from profiles`)
		require.NoError(t, err)
		app, user := w.as(rpc.RoleApp, "app", onboardingtest.OrgID), w.as(rpc.RoleUser, hers.GetProfileId(), onboardingtest.OrgID)
		for _, p := range []*onboardingv1.Profile{hers, other} {
			_, err := people.SetHousehold(app, &onboardingv1.SetHouseholdRequest{ProfileId: p.GetProfileId(), HouseholdId: onboardingtest.OrgID})
			require.NoError(t, err)
			_, err = people.ReportAction(app, &onboardingv1.ReportActionRequest{
				ProfileId: p.GetProfileId(), Action: "add_expense", Source: "nlp", IdempotencyKey: "1",
			})
			require.NoError(t, err)
		}
		set, err := people.SetPreferences(user, &onboardingv1.SetPreferencesRequest{
			ProfileId: hers.GetProfileId(), Reminders: "off", Destination: "group",
		})
		require.NoError(t, err)
		require.Equal(t, "group", set.GetPreferences().GetDestination())
		got, err := people.GetEngagement(user, &onboardingv1.GetEngagementRequest{ProfileId: hers.GetProfileId()})
		require.NoError(t, err)
		require.Equal(t, "off", got.GetEngagement().GetPreferences().GetReminders())
		require.Equal(t, onboardingtest.OrgID, got.GetEngagement().GetHouseholdId())
		require.Equal(t, 1, w.count(`select count(*) from engagement_outreach where outcome = 'reminders_off'`))
		require.Equal(t, 2, w.count(`select count(*) from (select type from event_outbox union all select type from events) e
			where type = 'engagement.preference_changed'`), "the sequencer may have moved them")
		_, err = people.SetPreferences(user, &onboardingv1.SetPreferencesRequest{ProfileId: other.GetProfileId(), Reminders: "off"})
		require.Equal(t, codes.PermissionDenied, status.Code(err))
		_, err = people.GetEngagement(user, &onboardingv1.GetEngagementRequest{ProfileId: other.GetProfileId()})
		require.Equal(t, codes.PermissionDenied, status.Code(err))
		_, err = people.ReportAction(user, &onboardingv1.ReportActionRequest{ProfileId: hers.GetProfileId(), Action: "add_expense"})
		require.Equal(t, codes.PermissionDenied, status.Code(err))
		_, err = people.GetEngagement(w.as(rpc.RoleOperator, "operator", onboardingtest.NewID()), &onboardingv1.GetEngagementRequest{ProfileId: hers.GetProfileId()})
		require.Equal(t, codes.NotFound, status.Code(err))
	})
}
