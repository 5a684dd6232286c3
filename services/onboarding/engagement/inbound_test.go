package engagement_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/messagingtest"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/engagement/rules"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// accepts is Twilio taking the goodbye.
func (b *bundle) accepts(p people.Profile) {
	b.T.Helper()
	now := b.Clock.Now()
	b.Exec(`update engagement_outreach set status = 'completed', next_retry_at = null, processed_at = $2, message_id = gen_random_uuid(), sent_at = $2,
		recipient = subject, locale = 'en', body = 'x', outcome = 'sent' where profile_id = $1 and event_type = 'goodbye' and status = 'pending'`, p.ID, now)
	b.Exec(`update user_engagement_states set goodbye_expires_at = $2 where profile_id = $1 and goodbye_sent_at is not null`, p.ID, now.Add(2*onboardingtest.Day))
}

// asked is a person who has got the goodbye an hour ago.
func (b *bundle) asked() people.Profile {
	b.T.Helper()
	p := b.GoodbyeQueued()
	b.Clock.Advance(time.Minute)
	b.accepts(p)
	b.Clock.Advance(time.Hour)
	return p
}

// metadata returns the metadata of a person's newest transition.
func (b *bundle) metadata(p people.Profile) rules.Metadata {
	b.T.Helper()
	var stored []byte
	require.NoError(b.T, b.Pool.QueryRow(b.T.Context(),
		`select metadata from engagement_state_transitions where profile_id = $1 order by id desc limit 1`, p.ID).Scan(&stored))
	var m rules.Metadata
	require.NoError(b.T, json.Unmarshal(stored, &m))
	return m
}

// answered asserts which texts of engagement a person has got, and no other.
func (b *bundle) answered(p people.Profile, keys ...string) {
	b.T.Helper()
	texts, want := catalog.DefaultEngagement(), []string{}
	for _, key := range keys {
		text, err := texts.Render(p.Locale, key, p.FirstName, catalog.Params{})
		require.NoError(b.T, err)
		want = append(want, text)
	}
	got := []string{}
	for _, sent := range b.Messaging.Taken(p.Phone) {
		got = append(got, sent.Body)
	}
	require.Equal(b.T, want, got)
}

func TestActivity(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "S4_41_FirstMessageBeginsARowAndEveryOtherIsSeen", setup, func(t *testing.T, b *bundle) {
		p := b.Known()
		b.Clock.Advance(time.Hour)
		b.Reply(p, "tea 3")
		require.True(t, b.In(p, rules.Active).Person.LastActivityAt.Equal(b.Clock.Now()))
		require.Equal(t, []rules.Trigger{rules.UserMessage}, b.Triggers(p))
		b.Tells(p, engagement.EventStateChanged, "to", "active")
		b.answered(p)
	})

	onboardingtest.Subtest(t, "S4_41_NeverGoesBack", setup, func(t *testing.T, b *bundle) {
		p := b.Known()
		b.Unheard(p, "tea 3")
		b.Clock.Advance(time.Minute)
		b.Reply(p, "tea 4")
		latest := b.Clock.Now()
		b.Clock.Advance(10 * time.Minute)
		b.Sweep()
		require.True(t, b.Engaged(p).Person.LastActivityAt.Equal(latest))
	})

	// Also: S4-18.
	onboardingtest.Subtest(t, "S4_42_MessageAfterTheGoodbyeMakesActiveAndIsAnswered", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		r := b.Activate(p)
		b.Reply(p, "Sure")
		b.In(p, rules.Active)
		b.At(r.ID, session.AwaitingExplanationResponse, "")
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation}, b.Sequence(p))
	})

	onboardingtest.Subtest(t, "S4_42_GoodbyeThatWasNotClaimedIsWithdrawn", setup, func(t *testing.T, b *bundle) {
		p := b.GoodbyeQueued()
		b.Reply(p, "1") // which no message has offered
		b.In(p, rules.Active)
		require.Equal(t, 1, b.Outreach(p, rules.Goodbye, "cancelled", "returned"))
		b.answered(p)
	})

	onboardingtest.Subtest(t, "S4_43_MessageOfSomebodyToBeRemindedMakesActive", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		b.Reply(p, "2")
		b.In(p, rules.RemindLater)
		b.Clock.Advance(time.Hour)
		b.Reply(p, "coffee 5")
		require.Zero(t, b.In(p, rules.Active).Person.RemindAt)
	})

	onboardingtest.Subtest(t, "S4_44_ReturnAfterThreeDaysIsUnprompted", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		b.Reply(p, "3")
		b.Clock.Advance(3 * onboardingtest.Day)
		b.Reply(p, "coffee 5")
		b.In(p, rules.Active)
		require.True(t, b.metadata(p).UnpromptedReturn)
		b.Tells(p, engagement.EventUnpromptedReturn, "days_inactive", "3")
	})

	onboardingtest.Subtest(t, "S4_44_ReturnBeforeIsNot", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		b.Reply(p, "3")
		b.Clock.Advance(3*onboardingtest.Day - time.Second)
		b.Reply(p, "coffee 5")
		b.In(p, rules.Active)
		b.Tells(p, engagement.EventUnpromptedReturn, "days_inactive")
	})

	onboardingtest.Subtest(t, "S4_41_STOPAndHELPMoveNoStateAndSTARTDoes", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		for _, word := range []string{"HELP", "STOP", "leave me alone"} {
			b.Clock.Advance(time.Second)
			b.Reply(p, word)
			require.True(t, b.In(p, rules.GoodbyeSent).Person.LastActivityAt.Equal(b.Clock.Now()))
		}
		require.True(t, b.Engaged(p).OptedOut)
		b.Clock.Advance(time.Second)
		b.Reply(p, "START")
		require.False(t, b.In(p, rules.Active).OptedOut)
	})
}

func TestChoices(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "S4_48_OneBeginsAgainWithHelp", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		b.Exec(`update profiles set onboarding_tier = 2, onboarding_tips_enabled = false where id = $1`, p.ID)
		b.Reply(p, " 1️⃣ ")
		require.False(t, b.In(p, rules.Active).TipsOff)
		require.Equal(t, []rules.Trigger{rules.UserMessage, rules.Inactivity14d, rules.GoodbyeResponse1, rules.UserMessage}, b.Triggers(p))
		require.Equal(t, 1, b.Count(`select count(*) from profiles where id = $1 and onboarding_tier = 0 and celebration_epoch = 1
			and onboarding_tier_progress ->> 'epoch' = '1'`, p.ID))
		require.Equal(t, 1, b.Outreach(p, rules.HelpRestart, "pending", ""))
		b.Tells(p, engagement.EventGoodbyeResponse, "response_type", "confused")
		b.Tells(p, engagement.EventStateChanged, "to", "active", "help_flow", "active")
		b.answered(p, catalog.GoodbyeConfused)
	})

	onboardingtest.Subtest(t, "S4_49_TwoRemindsInFourteenDays", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		b.Reply(p, "busy")
		require.True(t, b.In(p, rules.RemindLater).Person.RemindAt.Equal(b.Clock.Now().Add(14*onboardingtest.Day)))
		b.answered(p, catalog.GoodbyeBusy)
	})

	onboardingtest.Subtest(t, "S4_50_S4_52_ThreeLeavesAloneAndSaysSoInTheirLanguage", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		b.Exec(`update profiles set locale = 'pt-BR' where id = $1`, p.ID)
		p.Locale = "pt-BR"
		b.Reply(p, "Tudo certo!")
		b.In(p, rules.Dormant)
		b.answered(p, catalog.GoodbyeAllGood)
	})

	onboardingtest.Subtest(t, "S4_51_IsNoneWithoutAGoodbye", setup, func(t *testing.T, b *bundle) {
		p := b.Known()
		for _, words := range []string{"1", "11", "not busy"} {
			b.Reply(p, words)
		}
		b.In(p, rules.Active)
		b.answered(p)
	})

	onboardingtest.Subtest(t, "S4_51_NearMissIsAnOrdinaryMessage", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		b.Reply(p, "1 coffee")
		b.In(p, rules.Active)
		b.answered(p)
	})

	onboardingtest.Subtest(t, "S4_51_CameBeforeTheTimeoutAndOverrulesIt", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		b.Unrecorded(p, "3")
		b.Clock.Advance(2 * onboardingtest.Day)
		b.Standing(p, rules.GoodbyeTimeout)
		b.In(p, rules.Dormant)
		b.Quiet()
		b.In(p, rules.Dormant)
		require.Equal(t, rules.GoodbyeTimeout, b.metadata(p).Supersedes)
		require.Equal(t, 1, b.Count(`select count(*) from engagement_state_transitions where profile_id = $1 and supersedes is not null`, p.ID))
		b.answered(p, catalog.GoodbyeAllGood)
	})

	onboardingtest.Subtest(t, "S4_51_IsOneAfterAMessageThatCrossedTheGoodbye", setup, func(t *testing.T, b *bundle) {
		p := b.GoodbyeQueued()
		b.Exec(`update engagement_outreach set recipient = subject, locale = 'en', body = 'x' where profile_id = $1`, p.ID)
		b.Reply(p, "coffee 5")
		b.In(p, rules.Active)
		b.accepts(p)
		b.Clock.Advance(time.Hour)
		b.Reply(p, "2")
		b.In(p, rules.RemindLater)
		b.answered(p, catalog.GoodbyeBusy)
	})

	onboardingtest.Subtest(t, "S4_50_UnderAHoldIsTakenWhenItIsLifted", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		b.Activate(p)
		before := len(b.Messaging.Taken(p.Phone))
		b.Hold(p)
		b.Clock.Advance(time.Second)
		b.Reply(p, "3")
		b.In(p, rules.GoodbyeSent)
		require.Len(t, b.Messaging.Taken(p.Phone), before)
		b.Clock.Advance(time.Hour)
		b.Release(p)
		b.Quiet()
		b.In(p, rules.Dormant)
		require.Len(t, b.Messaging.Taken(p.Phone), before+1)
	})

	onboardingtest.Subtest(t, "S4_50_AnswerInDoubtIsAskedForAgain", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		b.Messaging.Script(messagingtest.First(messagingtest.UnknownTaken))
		b.Reply(p, "3")
		b.In(p, rules.Dormant)
		require.Equal(t, 1, b.Count(`select count(*) from webhook_jobs where status = 'pending'`))
		b.Messaging.Settle()
		b.Quiet()
		b.answered(p, catalog.GoodbyeAllGood)
	})
}

func TestPreferences(t *testing.T) {
	t.Parallel()

	// Also: S4-13.
	onboardingtest.Subtest(t, "S4_72_S4_74_RemindersAreSwitchedOnceAndConfirmedEachTime", setup, func(t *testing.T, b *bundle) {
		p := b.Known()
		for _, words := range []string{"stop reminders", "stop reminders", "start reminders"} {
			b.Clock.Advance(time.Second)
			b.Reply(p, words)
		}
		require.False(t, b.In(p, rules.Active).RemindersOff)
		b.Tells(p, engagement.EventPreferenceChanged, "value", "off", "on")
		b.answered(p, catalog.RemindersOff, catalog.RemindersOff, catalog.RemindersOn)
	})

	onboardingtest.Subtest(t, "S4_72_AreForEngagementAndAdvanceNoOnboarding", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Reply(p, "stop reminders")
		b.At(r.ID, session.AwaitingOpeningResponse, "")
		require.Len(t, b.Messaging.Taken(p.Phone), 2)
		require.True(t, b.Engaged(p).RemindersOff)
	})

	onboardingtest.Subtest(t, "S4_72_TakeEffectInABurstAndUnderAHoldWithoutAWord", setup, func(t *testing.T, b *bundle) {
		p, _ := b.InBurst(2)
		said := len(b.Sequence(p))
		b.Reply(p, "stop reminders")
		require.True(t, b.Engaged(p).RemindersOff)
		b.Hold(p)
		b.Clock.Advance(time.Second)
		b.Reply(p, "start reminders")
		require.False(t, b.Engaged(p).RemindersOff)
		require.Len(t, b.Sequence(p), said)
	})

	onboardingtest.Subtest(t, "S4_72_LateMessageDoesNotUndoALaterOne", setup, func(t *testing.T, b *bundle) {
		p := b.Known()
		b.Unheard(p, "stop reminders")
		b.Clock.Advance(time.Minute)
		b.Reply(p, "start reminders")
		b.Clock.Advance(10 * time.Minute)
		b.Sweep()
		require.False(t, b.Engaged(p).RemindersOff)
	})

	onboardingtest.Subtest(t, "S4_70_TipsAreASwitchOfTheirOwn", setup, func(t *testing.T, b *bundle) {
		p := b.Known()
		b.Reply(p, "stop tips")
		v := b.Engaged(p)
		require.True(t, v.TipsOff)
		require.False(t, v.RemindersOff)
		b.answered(p, catalog.TipsOff)
		b.Tells(p, engagement.EventPreferenceChanged, "preference", "tips")
	})

	onboardingtest.Subtest(t, "S4_73_RemindersOffWithdrawWhatWaits", setup, func(t *testing.T, b *bundle) {
		p := b.GoodbyeQueued()
		b.Reply(p, "stop reminders")
		require.Equal(t, 1, b.Outreach(p, rules.Goodbye, "cancelled", "reminders_off"))
		b.In(p, rules.Active)
	})

	onboardingtest.Subtest(t, "S4_55_GroupNeedsAHousehold", setup, func(t *testing.T, b *bundle) {
		p, other := b.Known(), b.Person()
		b.Reply(p, "switch to household")
		require.Equal(t, rules.Individual, b.Engaged(p).Destination)
		household := onboardingtest.NewID()
		for _, member := range []string{p.ID, other.ID} {
			b.Exec(`insert into household_members (profile_id, org_id, household_id, created_at) values ($1, $2, $3, $4)`,
				member, onboardingtest.OrgID, household, b.Clock.Now())
		}
		b.Clock.Advance(time.Second)
		b.Reply(p, "mudar para o grupo")
		require.Equal(t, rules.Group, b.Engaged(p).Destination)
		b.Clock.Advance(time.Second)
		b.Reply(p, "switch to my phone")
		require.Equal(t, rules.Individual, b.Engaged(p).Destination)
		b.answered(p, catalog.DestinationNone, catalog.DestinationHousehold, catalog.DestinationIndividual)
		b.Tells(p, engagement.EventPreferenceChanged, "value", "group", "individual")
	})
}

// refusesPreferences has the database refuse every change of a preference, until the returned function is called.
func (b *bundle) refusesPreferences() (mend func()) {
	b.T.Helper()
	b.Exec(`alter table event_outbox add constraint broken check (type <> 'engagement.preference_changed')`)
	return func() { b.Exec(`alter table event_outbox drop constraint broken`) }
}

func TestApology(t *testing.T) {
	t.Parallel()

	for _, locale := range []string{"en", "pt-BR"} {
		onboardingtest.Subtest(t, "S4_72_PreferenceThatFailedForGoodIsApologisedForOnce_"+locale, setup, func(t *testing.T, b *bundle) {
			p := b.Known()
			b.Exec(`update profiles set locale = $2 where id = $1`, p.ID, locale)
			p.Locale = locale
			mend := b.refusesPreferences()
			b.Reply(p, "stop tips")
			b.Work()
			b.answered(p) // it is tried again
			b.Quiet()
			b.answered(p, catalog.Apology)
			require.False(t, b.Engaged(p).TipsOff)
			require.Equal(t, 1, b.Count(`select count(*) from webhook_jobs where status = 'failed'`))

			b.Exec(`update webhook_jobs set status = 'pending', next_retry_at = $1, processed_at = null where status = 'failed'`, b.Clock.Now())
			b.Quiet() // as after a crash before the failure was recorded
			b.answered(p, catalog.Apology)

			mend()
			b.Clock.Advance(time.Second)
			b.Reply(p, "stop tips")
			require.True(t, b.Engaged(p).TipsOff)
			b.answered(p, catalog.Apology, catalog.TipsOff)
		})
	}

	onboardingtest.Subtest(t, "S4_72_PreferenceThatARetryWritesIsConfirmedAndNotApologisedFor", setup, func(t *testing.T, b *bundle) {
		p := b.Known()
		mend := b.refusesPreferences()
		b.Reply(p, "stop tips")
		b.Pass(time.Minute)
		b.answered(p)
		mend()
		b.Quiet()
		require.True(t, b.Engaged(p).TipsOff)
		b.answered(p, catalog.TipsOff)
	})

	onboardingtest.Subtest(t, "S4_72_PreferenceThatFailedForGoodLeavesTheConversationOpen", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		mend := b.refusesPreferences()
		b.Reply(p, "stop tips")
		b.Quiet()
		require.Equal(t, 1, b.Count(`select count(*) from webhook_jobs where status = 'failed'`))
		require.Len(t, b.Messaging.Taken(p.Phone), 2, "the opening and the apology")
		mend()
		b.Reply(p, "Sure")
		b.At(r.ID, session.AwaitingExplanationResponse, "")
	})

	onboardingtest.Subtest(t, "S4_72_ApologyThatMessagingCannotTakeIsSentLater", setup, func(t *testing.T, b *bundle) {
		p := b.Known()
		b.refusesPreferences()
		b.Messaging.Script(messagingtest.First(messagingtest.Unavailable, messagingtest.Unavailable))
		b.Reply(p, "stop tips")
		b.Quiet()
		b.answered(p, catalog.Apology)
		require.Len(t, b.Messaging.Attempts(), 3)
	})

	onboardingtest.Subtest(t, "S4_52_ChoiceThatFailedForGoodIsApologisedFor", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		b.Exec(`alter table event_outbox add constraint broken check (type <> 'engagement.goodbye_response')`)
		b.Reply(p, "3")
		b.Quiet()
		b.In(p, rules.GoodbyeSent)
		b.answered(p, catalog.Apology)
	})

	onboardingtest.Subtest(t, "S4_72_OrdinaryMessageThatFailedForGoodGetsNone", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Exec(`alter table session_transitions add constraint broken check (kind <> 'replied')`)
		b.Reply(p, "1") // a choice only while a goodbye asks for one
		b.Quiet()
		b.RequireParked(r, "failed for good")
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation}, b.Sequence(p))
	})
}

// TestConcurrentTransitions: of two that were decided on the same person one is written, and the other is told.
func TestConcurrentTransitions(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "S4_40_OneIsAppliedAndTheOtherIsToldOfTheConflict", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		v, now := b.Engaged(p), b.Clock.Now()
		moves, _, err := rules.DefaultConfig().Limits.Answer(v.Person, v.Situation, rules.ChoiceAllGood, now, now)
		require.NoError(t, err)
		done := make(chan error, 8)
		for range cap(done) {
			go func() {
				done <- b.Store.Engagement().Apply(context.WithoutCancel(t.Context()), engagement.Change{
					View: v, Cause: "message:" + onboardingtest.NewID(), Moves: moves, At: now,
				})
			}()
		}
		applied := 0
		for range cap(done) {
			if err := <-done; err == nil {
				applied++
			} else {
				require.ErrorIs(t, err, people.ErrConflict)
			}
		}
		require.Equal(t, 1, applied)
		require.Equal(t, []rules.Trigger{rules.UserMessage, rules.Inactivity14d, rules.GoodbyeResponse3}, b.Triggers(p))
	})

	onboardingtest.Subtest(t, "S4_40_MessageIsDecidedAgain", setup, func(t *testing.T, b *bundle) {
		p := b.Known()
		b.Clock.Advance(14 * onboardingtest.Day)
		b.Current().Ports.BeforeApply = func() { b.Standing(p, rules.Inactivity14d) } // a run, between the read and the change
		b.Reply(p, "coffee 5")
		b.In(p, rules.Active)
		require.Equal(t, []rules.Trigger{rules.UserMessage, rules.Inactivity14d, rules.UserMessage}, b.Triggers(p))
		require.Equal(t, 1, b.Outreach(p, rules.Goodbye, "cancelled", "returned"))
	})

	onboardingtest.Subtest(t, "S4_40_RunThatReadBeforeTheMessageChangesNothing", setup, func(t *testing.T, b *bundle) {
		p := b.Known()
		b.Clock.Advance(14 * onboardingtest.Day)
		v, at := b.Engaged(p), b.Clock.Now()
		b.Reply(p, "coffee 5") // which moves no state
		m, err := rules.DefaultConfig().Limits.Decide(v.Person, v.Situation, rules.Event{Trigger: rules.Inactivity14d, At: at, Now: at})
		require.NoError(t, err)
		err = b.Store.Engagement().Apply(t.Context(), engagement.Change{View: v, Cause: "run:" + onboardingtest.NewID(), Moves: []rules.Move{m}, At: at})
		require.ErrorIs(t, err, people.ErrConflict)
		b.In(p, rules.Active)
		require.Len(t, b.Triggers(p), 1)
	})

	onboardingtest.Subtest(t, "S4_40_SecondMessageOfTheSameInstantIsToldOfTheFirst", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		b.Reply(p, "3")
		v, now := b.In(p, rules.Dormant), b.Clock.Now()
		moves, _, err := rules.DefaultConfig().Limits.Answer(v.Person, v.Situation, rules.NoChoice, now, now)
		require.NoError(t, err)
		write := func() error {
			return b.Store.Engagement().Apply(t.Context(), engagement.Change{View: v, Cause: "message:" + onboardingtest.NewID(), Moves: moves, At: now})
		}
		require.NoError(t, write())
		require.ErrorIs(t, write(), people.ErrConflict)
		require.Len(t, b.Triggers(p), 4)
	})

	onboardingtest.Subtest(t, "S4_38_CauseHasEachTransitionOnce", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		b.Reply(p, "3")
		cause := onboardingtest.List[string](b.Bundle, `select cause from engagement_state_transitions where profile_id = $1 order by id desc limit 1`, p.ID)[0]
		v, now := b.Engaged(p), b.Clock.Now()
		v.Situation.Newest = rules.Past{Trigger: rules.GoodbyeTimeout, GoodbyeSentAt: now, GoodbyeExpiresAt: now.Add(time.Hour)}
		moves, _, err := rules.DefaultConfig().Limits.Answer(v.Person, v.Situation, rules.ChoiceAllGood, now, now)
		require.NoError(t, err)
		err = b.Store.Engagement().Apply(t.Context(), engagement.Change{View: v, Cause: cause, Moves: moves, At: now})
		require.ErrorIs(t, err, people.ErrConflict)
		require.Len(t, b.Triggers(p), 3)
	})

	onboardingtest.Subtest(t, "S4_40_ManyCopiesOfAChoiceAreAnsweredOnce", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		m := b.Message(p, "1")
		require.NoError(t, onboardingtest.AtOnce(8, func() error {
			_, err := b.Current().Server.ReceiveMessage(t.Context(), m)
			return err
		}))
		b.Quiet()
		b.answered(p, catalog.GoodbyeConfused)
		require.Len(t, b.Triggers(p), 4)
		require.Equal(t, 1, b.Count(`select celebration_epoch from profiles where id = $1`, p.ID))
	})

	onboardingtest.Subtest(t, "S4_38_FailureLeavesNothing", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		b.Exec(`alter table event_outbox add constraint broken check (type <> 'engagement.goodbye_response')`)
		v, now := b.Engaged(p), b.Clock.Now()
		moves, _, err := rules.DefaultConfig().Limits.Answer(v.Person, v.Situation, rules.ChoiceAllGood, now, now)
		require.NoError(t, err)
		change := engagement.Change{View: v, Cause: "message:" + onboardingtest.NewID(), Moves: moves, At: now, Events: []engagement.Event{{Type: engagement.EventGoodbyeResponse, Time: now}}}
		require.Error(t, b.Store.Engagement().Apply(t.Context(), change))
		b.In(p, rules.GoodbyeSent)
		require.Len(t, b.Triggers(p), 2)
	})

	onboardingtest.Subtest(t, "S4_41_ThatCannotBeNotedFailsNoReply", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Exec(`alter table user_engagement_states rename to gone`)
		b.Reply(p, "Sure")
		b.At(r.ID, session.AwaitingExplanationResponse, "")
		require.Len(t, b.Log.Of(t, "engagement.activity_lost"), 1)
	})
}

// asking is one thing that engagement is asked about a person, by them, the host application or an operator, whatever fails.
type asking struct {
	name  string
	begin func(b *bundle) people.Profile
	cause func(b *bundle, p people.Profile) func() error
	want  func(b *bundle, p people.Profile)
}

func (s asking) play(b *bundle, p *onboardingtest.Ports) {
	b.T.Helper()
	b.Serve(b.Start(b.Healthy()))
	person := s.begin(b)
	b.Play(p, person, func(p people.Profile) func() error { return s.cause(b, p) })
	s.want(b, person)
}

func writes(body string) func(b *bundle, p people.Profile) func() error {
	return func(b *bundle, p people.Profile) func() error { return b.Posts(p, body) }
}

// oneShort is a person with one action to go until tier 1, and a goodbye that waits.
func oneShort(b *bundle) people.Profile {
	p := b.Known()
	for _, action := range []string{"edit_category", "delete_expense", "add_category"} {
		b.Reports(p, action)
	}
	b.Clock.Advance(14 * onboardingtest.Day)
	return b.Standing(p, rules.Inactivity14d)
}

// TestCrashOfEngagement is the crash matrix of messages that engagement takes, of actions and of preferences.
func TestCrashOfEngagement(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	asked := func(b *bundle) people.Profile { return b.asked() }
	known := func(b *bundle) people.Profile { return b.Known() }
	for _, s := range []asking{
		{name: "S4_48_BeginAgain", begin: asked, cause: writes("1"), want: func(b *bundle, p people.Profile) {
			b.In(p, rules.Active)
			b.answered(p, catalog.GoodbyeConfused)
			require.Equal(b.T, 1, b.Outreach(p, rules.HelpRestart, "pending", ""))
			require.Len(b.T, b.Triggers(p), 4)
			require.Equal(b.T, 1, b.Count(`select celebration_epoch from profiles where id = $1`, p.ID))
			b.Tells(p, engagement.EventGoodbyeResponse, "response_type", "confused")
		}},
		{name: "S4_42_Return", begin: asked, cause: writes("coffee 5"), want: func(b *bundle, p people.Profile) {
			b.In(p, rules.Active)
			b.answered(p)
			require.Len(b.T, b.Triggers(p), 3)
		}},
		{name: "S4_72_RemindersOff", begin: known, cause: writes("stop reminders"), want: func(b *bundle, p people.Profile) {
			require.True(b.T, b.In(p, rules.Active).RemindersOff)
			b.answered(p, catalog.RemindersOff)
			b.Tells(p, engagement.EventPreferenceChanged, "value", "off")
		}},
		{name: "S4_75_ReportAction", begin: oneShort, cause: func(b *bundle, p people.Profile) func() error {
			in := b.Did(p, "add_expense", onboardingtest.NLP, onboardingtest.InCategory("food"))
			return func() error {
				out, err := b.Report(in)
				if err == nil {
					require.Equal(b.T, []any{int32(1), []int32{1}, true}, []any{out.GetTier(), out.GetCompleted(), out.GetMagicMoment()})
					require.NotEmpty(b.T, out.GetHint())
				}
				return err
			}
		}, want: func(b *bundle, p people.Profile) {
			require.Equal(b.T, 1, b.In(p, rules.Active).Expenses)
			b.celebrated(p, 1)
			b.Tells(p, engagement.EventTierCompleted, "tier", "1")
			b.Tells(p, engagement.EventMagicMoment, "action", "add_expense")
			require.Equal(b.T, []rules.Trigger{rules.UserMessage, rules.Inactivity14d, rules.UserMessage}, b.Triggers(p))
			require.Equal(b.T, 1, b.Outreach(p, rules.Goodbye, "cancelled", "returned"))
		}},
		{name: "S4_63_FirstMessageIsAnExpense", begin: func(b *bundle) people.Profile {
			b.Rules.Recogniser = true
			return b.Person()
		}, cause: writes("gastei 50 no mercado"), want: func(b *bundle, p people.Profile) {
			require.Equal(b.T, 1, b.In(p, rules.Active).Expenses)
			b.Tells(p, engagement.EventMagicMoment, "action", "add_expense")
			require.Equal(b.T, 1, b.Outreach(p, rules.Welcome, "pending", ""))
			require.Len(b.T, b.Triggers(p), 1)
		}},
		{name: "S4_72_SetPreferences", begin: func(b *bundle) people.Profile {
			p := b.GoodbyeQueued()
			b.Together(p, b.Person())
			return p
		}, cause: func(b *bundle, p people.Profile) func() error {
			return func() error {
				_, err := b.Prefers(rpc.RoleUser, p, &onboardingv1.SetPreferencesRequest{Reminders: "off", Tips: "off", Destination: "group"})
				return err
			}
		}, want: func(b *bundle, p people.Profile) {
			require.Equal(b.T, []string{"t f group reminders=off tips=off destination=group goodbye cancelled reminders_off"}, b.wished(p))
			require.True(b.T, b.Messaging.RemindersOff(p.Phone))
		}},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.EveryMishap(3, func(p *onboardingtest.Ports) { s.play(b, p) })
		})
	}
}
