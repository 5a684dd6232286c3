package onboarding_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/engagement/rules"
	"paceline.internal/services/onboarding/session"
)

// prefers is a call of a role about a person, who is the caller if it is a user.
func (b *bundle) prefers(role rpc.Role, p conversation.Profile, change *onboardingv1.SetPreferencesRequest) (*onboardingv1.Preferences, error) {
	change.ProfileId = p.ID
	ctx := rpc.WithPrincipal(b.t.Context(), rpc.Principal{Subject: p.ID, Role: role, OrgID: orgID})
	out, err := b.current().people.SetPreferences(ctx, change)
	return out.GetPreferences(), err
}

// switches is a call about reminders, a second after what was before.
func (b *bundle) switches(role rpc.Role, p conversation.Profile, reminders string) error {
	b.clock.Advance(time.Second)
	_, err := b.prefers(role, p, &onboardingv1.SetPreferencesRequest{Reminders: reminders})
	return err
}

// refusedFor asserts why a call is refused.
func refusedFor(t *testing.T, err error, code codes.Code, reason onboardingv1.Reason) {
	t.Helper()
	refusal, known := rpc.ErrorFrom(err)
	require.True(t, known, "%v", err)
	require.Equal(t, code, refusal.Code)
	require.Equal(t, reason.String(), refusal.Reason)
}

// together puts people into one household.
func (b *bundle) together(all ...conversation.Profile) (household string) {
	b.t.Helper()
	household = newID()
	for _, p := range all {
		require.NoError(b.t, b.joins(p, household))
	}
	return household
}

func (b *bundle) joins(p conversation.Profile, household string) error {
	ctx := rpc.WithPrincipal(b.t.Context(), rpc.Principal{Subject: "app", Role: rpc.RoleApp, OrgID: orgID})
	_, err := b.current().people.SetHousehold(ctx, &onboardingv1.SetHouseholdRequest{ProfileId: p.ID, HouseholdId: household})
	return err
}

// stands is what is shown of a person.
func (b *bundle) stands(p conversation.Profile) *onboardingv1.Engagement {
	b.t.Helper()
	ctx := rpc.WithPrincipal(b.t.Context(), rpc.Principal{Subject: p.ID, Role: rpc.RoleUser, OrgID: orgID})
	out, err := b.current().people.GetEngagement(ctx, &onboardingv1.GetEngagementRequest{ProfileId: p.ID})
	require.NoError(b.t, err)
	return out.GetEngagement()
}

// wished is what a wish leaves behind, but for where it was said.
func (b *bundle) wished(p conversation.Profile) []string {
	b.t.Helper()
	return listed[string](b, `select concat_ws(' ', p.reengagement_opt_out, p.onboarding_tips_enabled, p.preferred_destination,
		(select string_agg(concat_ws('=', e.data ->> 'preference', e.data ->> 'value'), ' ' order by e.id) from event_outbox e
			where e.subject = p.id::text and e.type = 'engagement.preference_changed'),
		(select string_agg(concat_ws(' ', o.event_type, o.status, o.outcome), ' ' order by o.id) from engagement_outreach o
			where o.profile_id = p.id and o.event_type <> 'welcome'))
		from profiles p where p.id = $1`, p.ID)
}

func TestSetPreferences(t *testing.T) {
	t.Parallel()

	// Also: S4-74.
	subtest(t, "S4_72_WebDoesWhatTheWordsDo", setup, func(t *testing.T, b *bundle) {
		chat, web := b.goodbyeQueued(), b.goodbyeQueued()
		b.together(chat, web)
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
			b.clock.Advance(time.Second)
			b.reply(chat, tt.words)
			_, err := b.prefers(rpc.RoleUser, web, tt.call)
			require.NoError(t, err)
			require.Equal(t, b.wished(chat), b.wished(web), tt.words)
			require.Equal(t, b.messaging.RemindersOff(chat.Phone), b.messaging.RemindersOff(web.Phone))
		}
		b.tells(web, engagement.EventPreferenceChanged, "source", "web", "web", "web", "web", "web", "web")
		b.tells(chat, engagement.EventPreferenceChanged, "source", "chat", "chat", "chat", "chat", "chat", "chat")
	})

	subtest(t, "S4_72_AnswersWhatIsInForce", setup, func(t *testing.T, b *bundle) {
		p := b.known()
		got, err := b.prefers(rpc.RoleUser, p, &onboardingv1.SetPreferencesRequest{Tips: "off"})
		require.NoError(t, err)
		require.Equal(t, []string{"on", "off", "individual"}, []string{got.GetReminders(), got.GetTips(), got.GetDestination()})
	})

	subtest(t, "S4_72_ChatUndoesWhatTheWebDid", setup, func(t *testing.T, b *bundle) {
		p := b.known()
		require.NoError(t, b.switches(rpc.RoleUser, p, "off"))
		b.clock.Advance(time.Second)
		b.reply(p, "start reminders")
		require.False(t, b.engaged(p).RemindersOff)
		require.False(t, b.messaging.RemindersOff(p.Phone))
	})

	for _, role := range []rpc.Role{rpc.RoleOperator, rpc.RoleApp} {
		subtest(t, "S4_72_OnlyThePersonUndoesTheirOwnWords_"+string(role), setup, func(t *testing.T, b *bundle) {
			p, spoke := b.known(), b.known()
			require.NoError(t, b.switches(role, p, "off"))
			require.True(t, b.messaging.RemindersOff(p.Phone))
			require.NoError(t, b.switches(role, p, "on"), "what an operator switched off")
			b.tells(p, engagement.EventPreferenceChanged, "source", string(role), string(role))

			b.clock.Advance(time.Second)
			b.reply(spoke, "stop reminders")
			require.NoError(t, b.switches(role, spoke, "off"), "it is off already")
			refusedFor(t, b.switches(role, spoke, "on"), codes.FailedPrecondition, onboardingv1.Reason_REASON_REMINDERS_OFF_BY_PERSON)
			require.True(t, b.engaged(spoke).RemindersOff)
			require.True(t, b.messaging.RemindersOff(spoke.Phone))
			require.NoError(t, b.switches(rpc.RoleUser, spoke, "on"))
			require.False(t, b.engaged(spoke).RemindersOff)
			b.tells(spoke, engagement.EventPreferenceChanged, "source", "chat", "web")
		})
	}

	subtest(t, "S4_72_OutageOfMessagingChangesNothingAndAskingAgainHeals", setup, func(t *testing.T, b *bundle) {
		p := b.known()
		b.messaging.SetDown(true)
		refusedFor(t, b.switches(rpc.RoleUser, p, "off"), codes.Unavailable, onboardingv1.Reason_REASON_UNAVAILABLE)
		require.False(t, b.engaged(p).RemindersOff)
		b.messaging.SetDown(false)
		require.NoError(t, b.switches(rpc.RoleUser, p, "off"))
		require.True(t, b.engaged(p).RemindersOff)
	})

	subtest(t, "S4_55_GroupNeedsAHouseholdWithSomebodyElse", setup, func(t *testing.T, b *bundle) {
		p, other := b.known(), b.person()
		group := &onboardingv1.SetPreferencesRequest{Destination: "group", Tips: "off"}
		_, err := b.prefers(rpc.RoleUser, p, group)
		refusedFor(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_NO_HOUSEHOLD)
		require.False(t, b.engaged(p).TipsOff, "nothing of it")
		household := b.together(p, other)
		_, err = b.prefers(rpc.RoleUser, p, group)
		require.NoError(t, err)
		require.Equal(t, household, b.stands(p).GetHouseholdId())
		require.NoError(t, b.joins(other, ""))
		require.False(t, b.engaged(p).InHousehold)
		require.Equal(t, rules.Group, b.engaged(p).Destination, "resolved when something is sent")
	})

	subtest(t, "S4_55_HouseholdIsBoundedAndOfOneOrganisation", setup, func(t *testing.T, b *bundle) {
		household := b.together(b.person())
		for range 19 {
			require.NoError(t, b.joins(b.person(), household))
		}
		last := b.person()
		refusedFor(t, b.joins(last, household), codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID)
		require.Empty(t, b.stands(last).GetHouseholdId())
		refusedFor(t, b.joins(conversation.Profile{ID: newID()}, household), codes.NotFound, onboardingv1.Reason_REASON_PROFILE_NOT_FOUND)
	})

	subtest(t, "S4_73_RemindersOffAreNoTipsOff", setup, func(t *testing.T, b *bundle) {
		p := b.known()
		require.NoError(t, b.switches(rpc.RoleUser, p, "off"))
		require.NotEmpty(t, b.reports(p, "add_expense").GetHint())
		b.tier(p, 1)
		b.celebrated(p, 1)
	})

	subtest(t, "S4_70_LateWishAboutTipsDoesNotUndoALaterOne", setup, func(t *testing.T, b *bundle) {
		p := b.known()
		b.unheard(p, "stop tips")
		b.clock.Advance(time.Minute)
		b.reply(p, "start tips")
		b.clock.Advance(10 * time.Minute)
		b.sweep()
		require.False(t, b.engaged(p).TipsOff)
	})

	subtest(t, "S4_72_RefusesWhatItDoesNotKnow", setup, func(t *testing.T, b *bundle) {
		p := b.known()
		_, err := b.prefers(rpc.RoleUser, p, &onboardingv1.SetPreferencesRequest{Reminders: "never", Tips: "maybe", Destination: "moon"})
		refusedFor(t, err, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID)
		for _, words := range []string{"reminders must be on or off", "tips must be on or off", "destination must be individual or group"} {
			require.ErrorContains(t, err, words)
		}
		_, err = b.prefers(rpc.RoleOperator, conversation.Profile{ID: newID()}, &onboardingv1.SetPreferencesRequest{Tips: "off"})
		refusedFor(t, err, codes.NotFound, onboardingv1.Reason_REASON_PROFILE_NOT_FOUND)
	})
}

func TestGetEngagement(t *testing.T) {
	t.Parallel()
	subtest(t, "ShowsWhereAPersonStandsAndWhyThereIsNoOutreach", setup, func(t *testing.T, b *bundle) {
		stranger, onboarding := b.person(), activated(b)
		require.Equal(t, "onboarding", b.stands(onboarding).GetSkip())
		require.Empty(t, b.stands(stranger).GetState())
		require.Empty(t, b.stands(stranger).GetSkip())

		p := b.asked()
		b.reports(p, "view_report", nlp)
		b.tier(p, 1)
		got := b.stands(p)
		require.Equal(t, "active", got.GetState())
		require.Nil(t, got.GetGoodbyeExpiresAt())
		require.EqualValues(t, 3, got.GetTier())
		require.True(t, got.GetMagicMomentAt().AsTime().Equal(b.clock.Now()))
		require.Len(t, got.GetProgress(), 3)
		require.Equal(t, "add_expense", got.GetProgress()[0].GetActions()[0].GetAction())
		require.True(t, got.GetProgress()[0].GetCompletedAt().AsTime().Equal(b.clock.Now()))
		require.False(t, got.GetProgress()[1].GetActions()[0].GetDone())
		require.NoError(t, b.switches(rpc.RoleUser, p, "off"))
		require.Equal(t, "reminders_off", b.stands(p).GetSkip())
		b.reply(p, "STOP")
		require.Equal(t, "opted_out", b.stands(p).GetSkip())
	})
}

// TestFirstMessage is about a person's first message while no flow greets them.
func TestFirstMessage(t *testing.T) {
	t.Parallel()
	queued := func(b *bundle, p conversation.Profile) []string {
		return listed[string](b, `select concat_ws(' ', message_key, payload ->> 'expense') from engagement_outreach where profile_id = $1`, p.ID)
	}
	recognising := func(t *testing.T) *bundle {
		t.Helper()
		b := setup(t)
		b.rules.Recogniser = true
		b.serve(b.start(b.healthy()))
		return b
	}

	// Also: S4-11.
	subtest(t, "S4_63_IsWelcomedWithAnExampleOnce", setup, func(t *testing.T, b *bundle) {
		p := b.person()
		b.reply(p, "hello")
		b.clock.Advance(day)
		b.reply(p, "hello again")
		require.Equal(t, []string{catalog.Welcome}, queued(b, p))
	})

	subtest(t, "S4_63_ExpenseIsCelebrated", recognising, func(t *testing.T, b *bundle) {
		p := b.person()
		b.reply(p, "gastei 50 no mercado")
		b.clock.Advance(time.Hour)
		b.reply(p, "coffee 5")
		require.Equal(t, []string{catalog.WelcomeExpense + " gastei 50 no mercado"}, queued(b, p))
		require.Equal(t, []string{"groceries", "food"}, listed[string](b, `select category from engagement_actions where profile_id = $1 order by id`, p.ID))
		b.tells(p, engagement.EventMagicMoment, "action", "add_expense")
		require.Equal(t, 2, b.engaged(p).Expenses)
	})

	subtest(t, "S4_63_RecogniserIsOffUnlessConfigured", setup, func(t *testing.T, b *bundle) {
		p := b.person()
		b.reply(p, "gastei 50 no mercado")
		require.Equal(t, []string{catalog.Welcome}, queued(b, p))
		require.Zero(t, b.count(`select count(*) from engagement_actions`))
	})

	subtest(t, "S4_63_FlowGreetsWhoHasASession", recognising, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.reply(p, "coffee 5")
		require.Empty(t, queued(b, p))
		b.at(r.ID, session.AwaitingExplanationResponse, "")
		require.Equal(t, 1, b.engaged(p).Expenses, "it is the conversation's, and an expense")
	})

	subtest(t, "S4_64_MakesAMemberOfAHouseholdAGroupUnlessTheyChose", setup, func(t *testing.T, b *bundle) {
		p, chose, later, alone := b.person(), b.person(), b.person(), b.person()
		b.together(alone)
		b.reply(later, "hello")
		b.together(p, chose, later)
		_, err := b.prefers(rpc.RoleUser, chose, &onboardingv1.SetPreferencesRequest{Destination: "individual"})
		require.NoError(t, err)
		b.clock.Advance(time.Second)
		for _, who := range []conversation.Profile{p, chose, later, alone} {
			b.reply(who, "hello")
		}
		require.Equal(t, rules.Group, b.engaged(p).Destination)
		require.False(t, b.engaged(p).DestinationChosen)
		require.Equal(t, 1, b.count(`select count(*) from engagement_outreach where destination = 'group'`))
		for _, who := range []conversation.Profile{chose, later, alone} {
			require.Equal(t, rules.Individual, b.engaged(who).Destination)
		}
		b.reply(p, "switch to individual")
		require.Equal(t, rules.Individual, b.engaged(p).Destination)
	})

	subtest(t, "S4_64_SecondMessageChangesNothing", setup, func(t *testing.T, b *bundle) {
		alone, shared, mate := b.person(), b.person(), b.person()
		b.reply(alone, "hello")
		b.together(shared, mate)
		b.reply(shared, "hello")
		require.Equal(t, rules.Individual, b.engaged(alone).Destination)
		require.Equal(t, rules.Group, b.engaged(shared).Destination)
		b.exec(`update profiles set preferred_destination = 'individual' where id = $1`, shared.ID) // as if nothing had been found
		b.together(alone, b.person())
		b.clock.Advance(14 * day)
		for _, p := range []conversation.Profile{alone, shared} {
			b.standing(p, rules.Inactivity14d)
			b.reply(p, "hello again") // which moves their state, as the first one did
			v := b.engaged(p)
			require.True(t, v.InHousehold)
			require.Equal(t, rules.Individual, v.Destination)
		}
	})

	subtest(t, "S4_63_WishIsNotWelcomed", setup, func(t *testing.T, b *bundle) {
		p, silent := b.person(), b.person()
		b.reply(p, "stop reminders")
		b.reply(silent, "STOP")
		require.Empty(t, queued(b, p))
		require.Empty(t, queued(b, silent))
	})

	subtest(t, "S4_68_ThatCannotBeCountedFailsNoReply", recognising, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.exec(`alter table engagement_actions add constraint broken check (false)`)
		b.reply(p, "coffee 5")
		b.at(r.ID, session.AwaitingExplanationResponse, "")
	})
}

// TestEngagementCallers is about the whole service: the roles of the database bound what a call sees.
func TestEngagementCallers(t *testing.T) {
	t.Parallel()
	subtest(t, "S4_72_UsersCallChangesThemselvesAloneAndWithdrawsWhatIsQueued", newWorld, func(t *testing.T, w *world) {
		defer w.run()()
		people := onboardingv1.NewEngagementServiceClient(w.conn)
		hers, _ := w.enrolled("+5511987650001")
		other, _ := w.enrolled("+5511987650002")
		_, err := w.pool.Exec(t.Context(), `insert into engagement_outreach (id, org_id, idempotency_key, event_type, subject, priority, status, next_retry_at,
			profile_id, message_key, local_day, scheduled_for, expires_at, created_at, updated_at)
			select gen_random_uuid(), org_id, id::text, 'goodbye', phone, 1, 'pending', now() + interval '1 year', id, 'ENGAGEMENT_GOODBYE', now(), now(), now(), now(), now()
			from profiles`)
		require.NoError(t, err)
		app, user := w.as(rpc.RoleApp, "app", orgID), w.as(rpc.RoleUser, hers.GetProfileId(), orgID)
		for _, p := range []*onboardingv1.Profile{hers, other} {
			_, err := people.SetHousehold(app, &onboardingv1.SetHouseholdRequest{ProfileId: p.GetProfileId(), HouseholdId: orgID})
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
		require.Equal(t, orgID, got.GetEngagement().GetHouseholdId())
		require.Equal(t, 1, w.count(`select count(*) from engagement_outreach where outcome = 'reminders_off'`))
		require.Equal(t, 2, w.count(`select count(*) from (select type from event_outbox union all select type from events) e
			where type = 'engagement.preference_changed'`), "the sequencer may have moved them")
		_, err = people.SetPreferences(user, &onboardingv1.SetPreferencesRequest{ProfileId: other.GetProfileId(), Reminders: "off"})
		require.Equal(t, codes.PermissionDenied, status.Code(err))
		_, err = people.GetEngagement(user, &onboardingv1.GetEngagementRequest{ProfileId: other.GetProfileId()})
		require.Equal(t, codes.PermissionDenied, status.Code(err))
		_, err = people.ReportAction(user, &onboardingv1.ReportActionRequest{ProfileId: hers.GetProfileId(), Action: "add_expense"})
		require.Equal(t, codes.PermissionDenied, status.Code(err))
		_, err = people.GetEngagement(w.as(rpc.RoleOperator, "operator", newID()), &onboardingv1.GetEngagementRequest{ProfileId: hers.GetProfileId()})
		require.Equal(t, codes.NotFound, status.Code(err))
	})
}
