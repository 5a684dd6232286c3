package engagement_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/engagement/rules"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// stands reads what is shown of a person.
func (b *bundle) stands(p people.Profile) *onboardingv1.Engagement {
	b.T.Helper()
	ctx := rpc.WithPrincipal(b.T.Context(), rpc.Principal{Subject: p.ID, Role: rpc.RoleUser, OrgID: onboardingtest.OrgID})
	out, err := b.Current().People.GetEngagement(ctx, &onboardingv1.GetEngagementRequest{ProfileId: p.ID})
	require.NoError(b.T, err)
	return out.GetEngagement()
}

// wished reads the effects of a wish.
func (b *bundle) wished(p people.Profile) []string {
	b.T.Helper()
	return onboardingtest.List[string](b.Bundle, `select concat_ws(' ', p.reengagement_opt_out, p.onboarding_tips_enabled, p.preferred_destination,
		(select string_agg(concat_ws('=', e.data ->> 'preference', e.data ->> 'value'), ' ' order by e.id) from event_outbox e
			where e.subject = p.id::text and e.type = 'engagement.preference_changed'),
		(select string_agg(concat_ws(' ', o.event_type, o.status, o.outcome), ' ' order by o.id) from engagement_outreach o
			where o.profile_id = p.id and o.event_type <> 'welcome'))
		from profiles p where p.id = $1`, p.ID)
}

func TestSetPreferences(t *testing.T) {
	t.Parallel()

	// Also: S4-74.
	onboardingtest.Subtest(t, "S4_72_WebDoesWhatTheWordsDo", setup, func(t *testing.T, b *bundle) {
		chat, web := b.GoodbyeQueued(), b.GoodbyeQueued()
		b.Together(chat, web)
		for _, tt := range []struct {
			words string
			call  *onboardingv1.SetPreferencesRequest
		}{
			{"stop reminders", &onboardingv1.SetPreferencesRequest{Reminders: "off"}},
			{"stop reminders", &onboardingv1.SetPreferencesRequest{Reminders: "off"}},
			{"start reminders", &onboardingv1.SetPreferencesRequest{Reminders: "on"}},
			{"stop tips", &onboardingv1.SetPreferencesRequest{Tips: "off"}},
			{"switch to household", &onboardingv1.SetPreferencesRequest{Destination: "group"}},
			{"no more reminders or tips", &onboardingv1.SetPreferencesRequest{Reminders: "off", Tips: "off"}},
			{"start tips", &onboardingv1.SetPreferencesRequest{Tips: "on"}},
		} {
			b.Clock.Advance(time.Second)
			b.Reply(chat, tt.words)
			_, err := b.Prefers(rpc.RoleUser, web, tt.call)
			require.NoError(t, err)
			require.Equal(t, b.wished(chat), b.wished(web), tt.words)
			require.Equal(t, b.Messaging.RemindersOff(chat.Phone), b.Messaging.RemindersOff(web.Phone))
		}
		b.Tells(web, engagement.EventPreferenceChanged, "source", "web", "web", "web", "web", "web", "web")
		b.Tells(chat, engagement.EventPreferenceChanged, "source", "chat", "chat", "chat", "chat", "chat", "chat")
	})

	onboardingtest.Subtest(t, "S4_72_AnswersWhatIsInForce", setup, func(t *testing.T, b *bundle) {
		p := b.Known()
		got, err := b.Prefers(rpc.RoleUser, p, &onboardingv1.SetPreferencesRequest{Tips: "off"})
		require.NoError(t, err)
		require.Equal(t, []string{"on", "off", "individual"}, []string{got.GetReminders(), got.GetTips(), got.GetDestination()})
	})

	onboardingtest.Subtest(t, "S4_72_ChatUndoesWhatTheWebDid", setup, func(t *testing.T, b *bundle) {
		p := b.Known()
		require.NoError(t, b.Switches(rpc.RoleUser, p, "off"))
		b.Clock.Advance(time.Second)
		b.Reply(p, "start reminders")
		require.False(t, b.Engaged(p).RemindersOff)
		require.False(t, b.Messaging.RemindersOff(p.Phone))
	})

	for _, role := range []rpc.Role{rpc.RoleOperator, rpc.RoleApp} {
		onboardingtest.Subtest(t, "S4_72_OnlyThePersonUndoesTheirOwnWords_"+string(role), setup, func(t *testing.T, b *bundle) {
			p, spoke := b.Known(), b.Known()
			require.NoError(t, b.Switches(role, p, "off"))
			require.True(t, b.Messaging.RemindersOff(p.Phone))
			require.NoError(t, b.Switches(role, p, "on"), "what an operator switched off")
			b.Tells(p, engagement.EventPreferenceChanged, "source", string(role), string(role))

			b.Clock.Advance(time.Second)
			b.Reply(spoke, "stop reminders")
			require.NoError(t, b.Switches(role, spoke, "off"), "it is off already")
			onboardingtest.Refused(t, b.Switches(role, spoke, "on"), codes.FailedPrecondition, onboardingv1.Reason_REASON_REMINDERS_OFF_BY_PERSON)
			require.True(t, b.Engaged(spoke).RemindersOff)
			require.True(t, b.Messaging.RemindersOff(spoke.Phone))
			require.NoError(t, b.Switches(rpc.RoleUser, spoke, "on"))
			require.False(t, b.Engaged(spoke).RemindersOff)
			b.Tells(spoke, engagement.EventPreferenceChanged, "source", "chat", "web")
		})
	}

	onboardingtest.Subtest(t, "S4_72_OutageOfMessagingChangesNothingAndAskingAgainHeals", setup, func(t *testing.T, b *bundle) {
		p := b.Known()
		b.Messaging.SetDown(true)
		onboardingtest.Refused(t, b.Switches(rpc.RoleUser, p, "off"), codes.Unavailable, onboardingv1.Reason_REASON_UNAVAILABLE)
		require.False(t, b.Engaged(p).RemindersOff)
		b.Messaging.SetDown(false)
		require.NoError(t, b.Switches(rpc.RoleUser, p, "off"))
		require.True(t, b.Engaged(p).RemindersOff)
	})

	onboardingtest.Subtest(t, "S4_55_GroupNeedsAHouseholdWithSomebodyElse", setup, func(t *testing.T, b *bundle) {
		p, other := b.Known(), b.Person()
		group := &onboardingv1.SetPreferencesRequest{Destination: "group", Tips: "off"}
		_, err := b.Prefers(rpc.RoleUser, p, group)
		onboardingtest.Refused(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_NO_HOUSEHOLD)
		require.False(t, b.Engaged(p).TipsOff, "nothing of it")
		household := b.Together(p, other)
		_, err = b.Prefers(rpc.RoleUser, p, group)
		require.NoError(t, err)
		require.Equal(t, household, b.stands(p).GetHouseholdId())
		require.NoError(t, b.Joins(other, ""))
		require.False(t, b.Engaged(p).InHousehold)
		require.Equal(t, rules.Group, b.Engaged(p).Destination, "resolved when something is sent")
	})

	onboardingtest.Subtest(t, "S4_55_HouseholdIsBoundedAndOfOneOrganisation", setup, func(t *testing.T, b *bundle) {
		household := b.Together(b.Person())
		for range 19 {
			require.NoError(t, b.Joins(b.Person(), household))
		}
		last := b.Person()
		onboardingtest.Refused(t, b.Joins(last, household), codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID)
		require.Empty(t, b.stands(last).GetHouseholdId())
		onboardingtest.Refused(t, b.Joins(people.Profile{ID: onboardingtest.NewID()}, household), codes.NotFound, onboardingv1.Reason_REASON_PROFILE_NOT_FOUND)
	})

	onboardingtest.Subtest(t, "S4_73_RemindersOffAreNoTipsOff", setup, func(t *testing.T, b *bundle) {
		p := b.Known()
		require.NoError(t, b.Switches(rpc.RoleUser, p, "off"))
		require.NotEmpty(t, b.Reports(p, "add_expense").GetHint())
		b.Tier(p, 1)
		b.celebrated(p, 1)
	})

	onboardingtest.Subtest(t, "S4_70_LateWishAboutTipsDoesNotUndoALaterOne", setup, func(t *testing.T, b *bundle) {
		p := b.Known()
		b.Unheard(p, "stop tips")
		b.Clock.Advance(time.Minute)
		b.Reply(p, "start tips")
		b.Clock.Advance(10 * time.Minute)
		b.Sweep()
		require.False(t, b.Engaged(p).TipsOff)
	})

	onboardingtest.Subtest(t, "S4_72_RefusesWhatItDoesNotKnow", setup, func(t *testing.T, b *bundle) {
		p := b.Known()
		_, err := b.Prefers(rpc.RoleUser, p, &onboardingv1.SetPreferencesRequest{Reminders: "never", Tips: "maybe", Destination: "moon"})
		onboardingtest.Refused(t, err, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID)
		for _, words := range []string{"reminders must be on or off", "tips must be on or off", "destination must be individual or group"} {
			require.ErrorContains(t, err, words)
		}
		_, err = b.Prefers(rpc.RoleOperator, people.Profile{ID: onboardingtest.NewID()}, &onboardingv1.SetPreferencesRequest{Tips: "off"})
		onboardingtest.Refused(t, err, codes.NotFound, onboardingv1.Reason_REASON_PROFILE_NOT_FOUND)
	})
}

func TestGetEngagement(t *testing.T) {
	t.Parallel()
	onboardingtest.Subtest(t, "ShowsWhereAPersonStandsAndWhyThereIsNoOutreach", setup, func(t *testing.T, b *bundle) {
		stranger := b.Person()
		onboarding, _ := b.Activated()
		require.Equal(t, "onboarding", b.stands(onboarding).GetSkip())
		require.Empty(t, b.stands(stranger).GetState())
		require.Empty(t, b.stands(stranger).GetSkip())

		p := b.asked()
		b.Reports(p, "view_report", onboardingtest.NLP)
		b.Tier(p, 1)
		got := b.stands(p)
		require.Equal(t, "active", got.GetState())
		require.Nil(t, got.GetGoodbyeExpiresAt())
		require.EqualValues(t, 3, got.GetTier())
		require.True(t, got.GetMagicMomentAt().AsTime().Equal(b.Clock.Now()))
		require.Len(t, got.GetProgress(), 3)
		require.Equal(t, "add_expense", got.GetProgress()[0].GetActions()[0].GetAction())
		require.True(t, got.GetProgress()[0].GetCompletedAt().AsTime().Equal(b.Clock.Now()))
		require.False(t, got.GetProgress()[1].GetActions()[0].GetDone())
		require.NoError(t, b.Switches(rpc.RoleUser, p, "off"))
		require.Equal(t, "reminders_off", b.stands(p).GetSkip())
		b.Reply(p, "STOP")
		require.Equal(t, "opted_out", b.stands(p).GetSkip())
	})
}

// TestFirstMessage is about a person's first message while no flow greets them.
func TestFirstMessage(t *testing.T) {
	t.Parallel()
	queued := func(b *bundle, p people.Profile) []string {
		return onboardingtest.List[string](b.Bundle, `select concat_ws(' ', message_key, payload ->> 'expense') from engagement_outreach where profile_id = $1`, p.ID)
	}
	recognising := func(t *testing.T) *bundle {
		t.Helper()
		b := setup(t)
		b.Rules.Recogniser = true
		b.Serve(b.Start(b.Healthy()))
		return b
	}

	// Also: S4-11.
	onboardingtest.Subtest(t, "S4_63_IsWelcomedWithAnExampleOnce", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		b.Reply(p, "hello")
		b.Clock.Advance(onboardingtest.Day)
		b.Reply(p, "hello again")
		require.Equal(t, []string{catalog.Welcome}, queued(b, p))
	})

	onboardingtest.Subtest(t, "S4_63_ExpenseIsCelebrated", recognising, func(t *testing.T, b *bundle) {
		p := b.Person()
		b.Reply(p, "gastei 50 no mercado")
		b.Clock.Advance(time.Hour)
		b.Reply(p, "coffee 5")
		require.Equal(t, []string{catalog.WelcomeExpense + " gastei 50 no mercado"}, queued(b, p))
		require.Equal(t, []string{"groceries", "food"}, onboardingtest.List[string](b.Bundle, `select category from engagement_actions where profile_id = $1 order by id`, p.ID))
		b.Tells(p, engagement.EventMagicMoment, "action", "add_expense")
		require.Equal(t, 2, b.Engaged(p).Expenses)
	})

	onboardingtest.Subtest(t, "S4_63_RecogniserIsOffUnlessConfigured", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		b.Reply(p, "gastei 50 no mercado")
		require.Equal(t, []string{catalog.Welcome}, queued(b, p))
		require.Zero(t, b.Count(`select count(*) from engagement_actions`))
	})

	onboardingtest.Subtest(t, "S4_63_FlowGreetsWhoHasASession", recognising, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Reply(p, "coffee 5")
		require.Empty(t, queued(b, p))
		b.At(r.ID, session.AwaitingExplanationResponse, "")
		require.Equal(t, 1, b.Engaged(p).Expenses, "it is the conversation's, and an expense")
	})

	onboardingtest.Subtest(t, "S4_64_MakesAMemberOfAHouseholdAGroupUnlessTheyChose", setup, func(t *testing.T, b *bundle) {
		p, chose, later, alone := b.Person(), b.Person(), b.Person(), b.Person()
		b.Together(alone)
		b.Reply(later, "hello")
		b.Together(p, chose, later)
		_, err := b.Prefers(rpc.RoleUser, chose, &onboardingv1.SetPreferencesRequest{Destination: "individual"})
		require.NoError(t, err)
		b.Clock.Advance(time.Second)
		for _, who := range []people.Profile{p, chose, later, alone} {
			b.Reply(who, "hello")
		}
		require.Equal(t, rules.Group, b.Engaged(p).Destination)
		require.False(t, b.Engaged(p).DestinationChosen)
		require.Equal(t, 1, b.Count(`select count(*) from engagement_outreach where destination = 'group'`))
		for _, who := range []people.Profile{chose, later, alone} {
			require.Equal(t, rules.Individual, b.Engaged(who).Destination)
		}
		b.Reply(p, "switch to individual")
		require.Equal(t, rules.Individual, b.Engaged(p).Destination)
	})

	onboardingtest.Subtest(t, "S4_64_SecondMessageChangesNothing", setup, func(t *testing.T, b *bundle) {
		alone, shared, mate := b.Person(), b.Person(), b.Person()
		b.Reply(alone, "hello")
		b.Together(shared, mate)
		b.Reply(shared, "hello")
		require.Equal(t, rules.Individual, b.Engaged(alone).Destination)
		require.Equal(t, rules.Group, b.Engaged(shared).Destination)
		b.Exec(`update profiles set preferred_destination = 'individual' where id = $1`, shared.ID) // as if nothing had been found
		b.Together(alone, b.Person())
		b.Clock.Advance(14 * onboardingtest.Day)
		for _, p := range []people.Profile{alone, shared} {
			b.Standing(p, rules.Inactivity14d)
			b.Reply(p, "hello again") // which moves their state, as the first one did
			v := b.Engaged(p)
			require.True(t, v.InHousehold)
			require.Equal(t, rules.Individual, v.Destination)
		}
	})

	onboardingtest.Subtest(t, "S4_63_WishIsNotWelcomed", setup, func(t *testing.T, b *bundle) {
		p, silent := b.Person(), b.Person()
		b.Reply(p, "stop reminders")
		b.Reply(silent, "STOP")
		require.Empty(t, queued(b, p))
		require.Empty(t, queued(b, silent))
	})

	onboardingtest.Subtest(t, "S4_68_ThatCannotBeCountedFailsNoReply", recognising, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Exec(`alter table engagement_actions add constraint broken check (false)`)
		b.Reply(p, "coffee 5")
		b.At(r.ID, session.AwaitingExplanationResponse, "")
	})
}
