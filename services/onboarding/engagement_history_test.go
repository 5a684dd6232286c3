package onboarding_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/process"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/engagement/rules"
	store "paceline.internal/services/onboarding/postgres"
)

func (b *bundle) transitionsAs(caller rpc.Principal, in *onboardingv1.ListEngagementTransitionsRequest) (*onboardingv1.ListEngagementTransitionsResponse, error) {
	return b.current().people.ListEngagementTransitions(process.Scope(rpc.WithPrincipal(b.t.Context(), caller), caller), in)
}

func (b *bundle) statsAs(caller rpc.Principal, in *onboardingv1.GetEngagementStatsRequest) (*onboardingv1.GetEngagementStatsResponse, error) {
	return b.current().people.GetEngagementStats(process.Scope(rpc.WithPrincipal(b.t.Context(), caller), caller), in)
}

func host(org string) rpc.Principal {
	return rpc.Principal{Subject: "shop", Role: rpc.RoleApp, OrgID: org}
}

func user(p conversation.Profile) rpc.Principal {
	return rpc.Principal{Subject: p.ID, Role: rpc.RoleUser, OrgID: orgID}
}

func TestHistory(t *testing.T) {
	t.Parallel()
	subtest(t, "S4_57_IsNewestFirstInPages", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		b.reply(p, "3")
		all, err := b.transitionsAs(host(orgID), &onboardingv1.ListEngagementTransitionsRequest{ProfileId: p.ID})
		require.NoError(t, err)
		require.Empty(t, all.GetNextPageToken())
		var triggers []string
		for _, made := range all.GetTransitions() {
			triggers = append(triggers, made.GetTrigger())
		}
		require.Equal(t, []string{"goodbye_response_3", "inactivity_14d", "user_message"}, triggers)
		newest := all.GetTransitions()[0]
		require.Equal(t, "goodbye_sent>dormant", newest.GetFromState()+">"+newest.GetToState())
		require.Equal(t, map[string]string{
			"response_type": "all_good", "days_inactive": "14", "days_since_goodbye": "0", "trigger_source": "user_message",
		}, only(newest.GetMetadata(), "response_type", "days_inactive", "days_since_goodbye", "trigger_source"))
		require.Equal(t, b.clock.Now(), newest.GetAt().AsTime())
		require.Contains(t, newest.GetCause(), "message:")

		first, err := b.transitionsAs(user(p), &onboardingv1.ListEngagementTransitionsRequest{ProfileId: p.ID, PageSize: 2})
		require.NoError(t, err)
		rest, err := b.transitionsAs(user(p), &onboardingv1.ListEngagementTransitionsRequest{
			ProfileId: p.ID, PageSize: 2, PageToken: first.GetNextPageToken(),
		})
		require.NoError(t, err)
		require.Empty(t, rest.GetNextPageToken())
		require.Equal(t, shownAs(all.GetTransitions()), shownAs(append(first.GetTransitions(), rest.GetTransitions()...)))
	})

	subtest(t, "S4_57_IsThePersonsOwnAndTheirOrganisations", setup, func(t *testing.T, b *bundle) {
		p, other := b.asked(), b.known()
		of := &onboardingv1.ListEngagementTransitionsRequest{ProfileId: p.ID}
		_, err := b.transitionsAs(user(other), of)
		refusedFor(t, err, codes.PermissionDenied, onboardingv1.Reason_REASON_PERMISSION_DENIED)
		elsewhere, err := b.transitionsAs(host(newID()), of)
		require.NoError(t, err)
		require.Empty(t, elsewhere.GetTransitions())
		// And the database shows a user's call no row of anybody else, whatever it asks for.
		pool, err := postgres.OpenFor(t.Context(), "onboarding", postgres.Config{URL: b.pool.Config().ConnString()})
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		bounded := store.NewStore(pool).Engagement()
		for caller, want := range map[rpc.Principal]int{user(p): 2, user(other): 0, host(orgID): 2, host(newID()): 0} {
			seen, err := bounded.History(process.Scope(t.Context(), caller), orgID, p.ID, "", 10)
			require.NoError(t, err)
			require.Len(t, seen, want, "%v", caller)
		}
	})

	subtest(t, "RefusesAPageThatIsNone", setup, func(t *testing.T, b *bundle) {
		for _, in := range []*onboardingv1.ListEngagementTransitionsRequest{
			{ProfileId: "1"}, {ProfileId: newID(), PageSize: 501}, {ProfileId: newID(), PageToken: "x"},
		} {
			_, err := b.transitionsAs(host(orgID), in)
			refusedFor(t, err, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID)
		}
	})
}

func TestStats(t *testing.T) {
	t.Parallel()
	subtest(t, "S4_57_CountPeopleNowAndTheRestOfASpan", setup, func(t *testing.T, b *bundle) {
		began := b.clock.Now()
		p := b.asked()
		b.reply(p, "3")
		b.known()
		b.goodbyeQueued()
		b.clock.Advance(time.Minute)
		got, err := b.statsAs(host(orgID), &onboardingv1.GetEngagementStatsRequest{Since: timestamppb.New(began)})
		require.NoError(t, err)
		require.Equal(t, map[string]int64{"dormant": 1, "active": 1, "goodbye_sent": 1}, got.GetPeople())
		require.Equal(t, int64(3), got.GetTransitions()["user_message"])
		require.Equal(t, int64(2), got.GetTransitions()["inactivity_14d"])
		require.Equal(t, int64(1), got.GetTransitions()["goodbye_response_3"])
		require.Equal(t, map[string]int64{"sent": 1, "open": 1}, got.GetOutreach()["goodbye"].GetOutcomes())

		before, err := b.statsAs(host(orgID), &onboardingv1.GetEngagementStatsRequest{
			Since: timestamppb.New(began.Add(-day)), Until: timestamppb.New(began),
		})
		require.NoError(t, err)
		require.Empty(t, before.GetTransitions())
		require.Empty(t, before.GetOutreach())
		elsewhere, err := b.statsAs(host(newID()), &onboardingv1.GetEngagementStatsRequest{Since: timestamppb.New(began)})
		require.NoError(t, err)
		require.Empty(t, elsewhere.GetPeople())
	})

	subtest(t, "RefuseASpanThatIsNone", setup, func(t *testing.T, b *bundle) {
		now := b.clock.Now()
		for field, in := range map[string]*onboardingv1.GetEngagementStatsRequest{
			"until must be a time":    {Until: &timestamppb.Timestamp{Nanos: -1}},
			"since must be a time":    {Since: &timestamppb.Timestamp{Nanos: -1}},
			"since must be before":    {Since: timestamppb.New(now), Until: timestamppb.New(now)},
			"by at most 366 days":     {Since: timestamppb.New(now.Add(-367 * day))},
			"since must be before un": {Since: timestamppb.New(now.Add(time.Hour))},
		} {
			_, err := b.statsAs(host(orgID), in)
			refusedFor(t, err, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID)
			require.ErrorContains(t, err, field)
		}
	})

	subtest(t, "PeopleOfAllOrganisationsAreCountedForTheGauge", setup, func(t *testing.T, b *bundle) {
		b.asked()
		b.known()
		b.exec(`update profiles set org_id = gen_random_uuid()`)
		b.exec(`update user_engagement_states e set org_id = p.org_id from profiles p where p.id = e.profile_id`)
		counted, err := b.store.Engagement().People(postgres.AcrossOrganisations(t.Context()))
		require.NoError(t, err)
		require.Equal(t, map[rules.State]int{rules.Active: 1, rules.GoodbyeSent: 1, rules.HelpFlow: 0, rules.RemindLater: 0, rules.Dormant: 0}, counted)
	})
}

func only(of map[string]string, names ...string) map[string]string {
	kept := map[string]string{}
	for _, name := range names {
		kept[name] = of[name]
	}
	return kept
}

func shownAs(all []*onboardingv1.EngagementTransition) (shown []string) {
	for _, one := range all {
		shown = append(shown, one.GetTransitionId())
	}
	return shown
}
