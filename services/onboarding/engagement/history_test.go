package engagement_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/process"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding"
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/engagement/rules"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
)

func (b *bundle) transitionsAs(caller rpc.Principal, in *onboardingv1.ListEngagementTransitionsRequest) (*onboardingv1.ListEngagementTransitionsResponse, error) {
	return b.Current().People.ListEngagementTransitions(process.Scope(rpc.WithPrincipal(b.T.Context(), caller), caller), in)
}

func (b *bundle) statsAs(caller rpc.Principal, in *onboardingv1.GetEngagementStatsRequest) (*onboardingv1.GetEngagementStatsResponse, error) {
	return b.Current().People.GetEngagementStats(process.Scope(rpc.WithPrincipal(b.T.Context(), caller), caller), in)
}

func host(org string) rpc.Principal {
	return rpc.Principal{Subject: "shop", Role: rpc.RoleApp, OrgID: org}
}

func user(p people.Profile) rpc.Principal {
	return rpc.Principal{Subject: p.ID, Role: rpc.RoleUser, OrgID: onboardingtest.OrgID}
}

func TestHistory(t *testing.T) {
	t.Parallel()
	onboardingtest.Subtest(t, "S4_57_IsNewestFirstInPages", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		b.Reply(p, "3")
		all, err := b.transitionsAs(host(onboardingtest.OrgID), &onboardingv1.ListEngagementTransitionsRequest{ProfileId: p.ID})
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
		require.Equal(t, b.Clock.Now(), newest.GetAt().AsTime())
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

	onboardingtest.Subtest(t, "S4_57_IsThePersonsOwnAndTheirOrganisations", setup, func(t *testing.T, b *bundle) {
		p, other := b.asked(), b.Known()
		of := &onboardingv1.ListEngagementTransitionsRequest{ProfileId: p.ID}
		_, err := b.transitionsAs(user(other), of)
		onboardingtest.Refused(t, err, codes.PermissionDenied, onboardingv1.Reason_REASON_PERMISSION_DENIED)
		elsewhere, err := b.transitionsAs(host(onboardingtest.NewID()), of)
		require.NoError(t, err)
		require.Empty(t, elsewhere.GetTransitions())
		// And the database shows a user's call no row of another person, whatever the call asks for.
		pool, err := postgres.OpenFor(t.Context(), "onboarding", postgres.Config{URL: b.Pool.Config().ConnString()})
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		bounded := onboarding.NewStores(pool).Engagement()
		for caller, want := range map[rpc.Principal]int{user(p): 2, user(other): 0, host(onboardingtest.OrgID): 2, host(onboardingtest.NewID()): 0} {
			seen, err := bounded.History(process.Scope(t.Context(), caller), onboardingtest.OrgID, p.ID, "", 10)
			require.NoError(t, err)
			require.Len(t, seen, want, "%v", caller)
		}
	})

	onboardingtest.Subtest(t, "RefusesAPageThatIsNone", setup, func(t *testing.T, b *bundle) {
		for _, in := range []*onboardingv1.ListEngagementTransitionsRequest{
			{ProfileId: "1"}, {ProfileId: onboardingtest.NewID(), PageSize: 501}, {ProfileId: onboardingtest.NewID(), PageToken: "x"},
		} {
			_, err := b.transitionsAs(host(onboardingtest.OrgID), in)
			onboardingtest.Refused(t, err, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID)
		}
	})
}

func TestStats(t *testing.T) {
	t.Parallel()
	onboardingtest.Subtest(t, "S4_57_CountPeopleNowAndTheRestOfASpan", setup, func(t *testing.T, b *bundle) {
		began := b.Clock.Now()
		p := b.asked()
		b.Reply(p, "3")
		b.Known()
		b.GoodbyeQueued()
		b.Clock.Advance(time.Minute)
		got, err := b.statsAs(host(onboardingtest.OrgID), &onboardingv1.GetEngagementStatsRequest{Since: timestamppb.New(began)})
		require.NoError(t, err)
		require.Equal(t, map[string]int64{"dormant": 1, "active": 1, "goodbye_sent": 1}, got.GetPeople())
		require.Equal(t, int64(3), got.GetTransitions()["user_message"])
		require.Equal(t, int64(2), got.GetTransitions()["inactivity_14d"])
		require.Equal(t, int64(1), got.GetTransitions()["goodbye_response_3"])
		require.Equal(t, map[string]int64{"sent": 1, "open": 1}, got.GetOutreach()["goodbye"].GetOutcomes())

		before, err := b.statsAs(host(onboardingtest.OrgID), &onboardingv1.GetEngagementStatsRequest{
			Since: timestamppb.New(began.Add(-onboardingtest.Day)), Until: timestamppb.New(began),
		})
		require.NoError(t, err)
		require.Empty(t, before.GetTransitions())
		require.Empty(t, before.GetOutreach())
		elsewhere, err := b.statsAs(host(onboardingtest.NewID()), &onboardingv1.GetEngagementStatsRequest{Since: timestamppb.New(began)})
		require.NoError(t, err)
		require.Empty(t, elsewhere.GetPeople())
	})

	onboardingtest.Subtest(t, "RefuseASpanThatIsNone", setup, func(t *testing.T, b *bundle) {
		now := b.Clock.Now()
		for field, in := range map[string]*onboardingv1.GetEngagementStatsRequest{
			"until must be a time":    {Until: &timestamppb.Timestamp{Nanos: -1}},
			"since must be a time":    {Since: &timestamppb.Timestamp{Nanos: -1}},
			"since must be before":    {Since: timestamppb.New(now), Until: timestamppb.New(now)},
			"by at most 366 days":     {Since: timestamppb.New(now.Add(-367 * onboardingtest.Day))},
			"since must be before un": {Since: timestamppb.New(now.Add(time.Hour))},
		} {
			_, err := b.statsAs(host(onboardingtest.OrgID), in)
			onboardingtest.Refused(t, err, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID)
			require.ErrorContains(t, err, field)
		}
	})
}

func TestEngagementGauges(t *testing.T) {
	t.Parallel()
	onboardingtest.Subtest(t, "PeopleOfAllOrganisationsAreCountedByState", setup, func(t *testing.T, b *bundle) {
		reader := b.observed()
		counted := func() (found []float64) {
			for _, state := range rules.States() {
				found = append(found, onboardingtest.Gauge(t, reader, "paceline_engagement_people", attribute.String("state", string(state))))
			}
			return found
		}
		require.Equal(t, []float64{0, 0, 0, 0, 0}, counted())
		b.asked()
		b.Known()
		b.Known()
		b.Exec(`update profiles set org_id = gen_random_uuid()`)
		b.Exec(`update user_engagement_states e set org_id = p.org_id from profiles p where p.id = e.profile_id`)
		require.Equal(t, []float64{2, 1, 0, 0, 0}, counted())
	})

	onboardingtest.Subtest(t, "ARunIsLateUntilEveryOrganisationHasComeToItsEnd", setup, func(t *testing.T, b *bundle) {
		reader := b.observed()
		lag := func(job rules.Job) float64 {
			return onboardingtest.Gauge(t, reader, "paceline_engagement_run_lag_seconds", attribute.String("job", string(job)))
		}
		require.Zero(t, lag(rules.Daily), "there is no person to run for")
		b.Known()
		require.InDelta(t, (6 * time.Hour).Seconds(), lag(rules.Daily), 0) // it is noon, and the daily run begins at six
		require.InDelta(t, (4*onboardingtest.Day + 3*time.Hour).Seconds(), lag(rules.Weekly), 0)
		b.Exec(`insert into engagement_runs (id, org_id, job, period, nominal_at, status, config_hash, created_at, updated_at)
			values (gen_random_uuid(), $1, 'daily', '2026-11-20', '2026-11-20 06:00Z', 'running', '', now(), now())`, onboardingtest.OrgID)
		require.NotZero(t, lag(rules.Daily), "it is at work")
		b.Exec(`update engagement_runs set status = 'completed', finished_at = now()`)
		require.Zero(t, lag(rules.Daily))
		b.Exec(`insert into engagement_runs (id, org_id, job, period, nominal_at, status, config_hash, finished_at, created_at, updated_at)
			values (gen_random_uuid(), $1, 'weekly', '2026-W47', '2026-11-16 09:00Z', 'superseded', '', now(), now(), now())`, onboardingtest.OrgID)
		require.Zero(t, lag(rules.Weekly), "it was too late to run it")
		b.Clock.Advance(onboardingtest.Day)
		require.InDelta(t, (6 * time.Hour).Seconds(), lag(rules.Daily), 0)
	})

	onboardingtest.Subtest(t, "TransitionsAreCountedOnceByTrigger", setup, func(t *testing.T, b *bundle) {
		reader := b.observed()
		made := func(trigger rules.Trigger) float64 {
			return onboardingtest.Gauge(t, reader, "paceline_engagement_transitions_total", attribute.String("trigger", string(trigger)))
		}
		for _, trigger := range rules.Triggers() {
			require.Zero(t, made(trigger), "an alert sees the first")
		}
		p := b.asked()
		b.Reply(p, "3")
		b.Reply(p, "hello") // which is another transition
		require.InDelta(t, 1, made(rules.GoodbyeResponse3), 0)
		require.InDelta(t, 2, made(rules.UserMessage), 0)
		b.Reply(p, "hello again") // which is none
		require.InDelta(t, 2, made(rules.UserMessage), 0)
	})
}

// observed measures what happens from now on.
func (b *bundle) observed() *sdkmetric.ManualReader {
	meter, reader := b.Meter()
	people := b.Current().People.People
	measured, err := engagement.NewMetrics(meter)
	require.NoError(b.T, err)
	people.Metrics = measured
	require.NoError(b.T, people.Observe(b.T.Context(), meter, b.Store.Engagement()))
	return reader
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
