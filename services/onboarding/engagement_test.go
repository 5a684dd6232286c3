package onboarding_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/messagingtest"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/engagement/rules"
	"paceline.internal/services/onboarding/session"
)

const day = 24 * time.Hour

// known is a person without a session, who has written once.
func (b *bundle) known() conversation.Profile {
	b.t.Helper()
	p := b.person()
	b.reply(p, "coffee 5")
	b.in(p, rules.Active)
	return p
}

// standing puts a person who is known into a state, as a run does that saw no open job of theirs.
func (b *bundle) standing(p conversation.Profile, triggers ...rules.Trigger) conversation.Profile {
	b.t.Helper()
	for _, trigger := range triggers {
		v := b.engaged(p)
		v.Situation.OpenJob = false
		at := b.clock.Now()
		m, err := rules.DefaultConfig().Limits.Decide(v.Person, v.Situation, rules.Event{Trigger: trigger, At: at, Now: at})
		require.NoError(b.t, err)
		c := engagement.Change{View: v, Cause: "run:" + newID(), Moves: []rules.Move{m}, At: at}
		if m.Queue != "" {
			o := rules.Outreach{Type: m.Queue, At: at}
			c.Outreach = []engagement.Outreach{{
				Type: m.Queue, Key: o.Key(p.ID), MessageKey: catalog.Goodbye, LocalDay: rules.LocalDay(at, nil), DueAt: at, ExpiresAt: o.Expires(),
			}}
		}
		require.NoError(b.t, b.store.Engagement().Apply(b.t.Context(), c))
	}
	return p
}

// goodbyeQueued is a person who has been away for 14 days, and whose goodbye waits in the queue.
func (b *bundle) goodbyeQueued() conversation.Profile {
	b.t.Helper()
	p := b.known()
	b.clock.Advance(14 * day)
	return b.standing(p, rules.Inactivity14d)
}

// accepts is Twilio taking the goodbye.
func (b *bundle) accepts(p conversation.Profile) {
	b.t.Helper()
	now := b.clock.Now()
	b.exec(`update engagement_outreach set status = 'completed', next_retry_at = null, processed_at = $2, message_id = gen_random_uuid(), sent_at = $2,
		recipient = subject, locale = 'en', body = 'x', outcome = 'sent' where profile_id = $1 and event_type = 'goodbye' and status = 'pending'`, p.ID, now)
	b.exec(`update user_engagement_states set goodbye_expires_at = $2 where profile_id = $1 and goodbye_sent_at is not null`, p.ID, now.Add(2*day))
}

// asked is a person who has got the goodbye an hour ago.
func (b *bundle) asked() conversation.Profile {
	b.t.Helper()
	p := b.goodbyeQueued()
	b.clock.Advance(time.Minute)
	b.accepts(p)
	b.clock.Advance(time.Hour)
	return p
}

// engaged is a person's engagement as it is stored.
func (b *bundle) engaged(p conversation.Profile) engagement.View {
	b.t.Helper()
	v, err := b.store.Engagement().Person(b.t.Context(), orgID, p.Phone, "", newID())
	require.NoError(b.t, err)
	return v
}

func (b *bundle) in(p conversation.Profile, state rules.State) engagement.View {
	b.t.Helper()
	v := b.engaged(p)
	require.Equal(b.t, state, v.Person.State)
	return v
}

// triggers is a person's audit, oldest first.
func (b *bundle) triggers(p conversation.Profile) []rules.Trigger {
	b.t.Helper()
	return listed[rules.Trigger](b, `select trigger from engagement_state_transitions where profile_id = $1 order by id`, p.ID)
}

func listed[T ~string](b *bundle, sql string, args ...any) []T {
	b.t.Helper()
	rows, err := b.pool.Query(b.t.Context(), sql, args...)
	require.NoError(b.t, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(b.t, err)
	typed := make([]T, len(all))
	for i, one := range all {
		typed[i] = T(one)
	}
	return typed
}

// metadata is that of a person's newest transition.
func (b *bundle) metadata(p conversation.Profile) rules.Metadata {
	b.t.Helper()
	var stored []byte
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(),
		`select metadata from engagement_state_transitions where profile_id = $1 order by id desc limit 1`, p.ID).Scan(&stored))
	var m rules.Metadata
	require.NoError(b.t, json.Unmarshal(stored, &m))
	return m
}

// tells asserts which events of a type there are of a person, by the value of a field.
func (b *bundle) tells(p conversation.Profile, kind, field string, want ...string) {
	b.t.Helper()
	require.Equal(b.t, append([]string{}, want...), listed[string](b, `select data ->> $3 from event_outbox where subject = $1 and type = $2 order by id`, p.ID, kind, field))
}

// answered asserts which texts of engagement a person has got, and no other.
func (b *bundle) answered(p conversation.Profile, keys ...string) {
	b.t.Helper()
	texts, want := catalog.DefaultEngagement(), []string{}
	for _, key := range keys {
		text, err := texts.Render(p.Locale, key, p.FirstName, catalog.Params{})
		require.NoError(b.t, err)
		want = append(want, text)
	}
	got := []string{}
	for _, sent := range b.messaging.Taken(p.Phone) {
		got = append(got, sent.Body)
	}
	require.Equal(b.t, want, got)
}

func (b *bundle) outreach(p conversation.Profile, kind rules.MessageType, status, outcome string) int {
	b.t.Helper()
	return b.count(`select count(*) from engagement_outreach where profile_id = $1 and event_type = $2 and status = $3 and outcome = $4`,
		p.ID, string(kind), status, outcome)
}

func TestActivity(t *testing.T) {
	t.Parallel()

	subtest(t, "S4_41_FirstMessageBeginsARowAndEveryOtherIsSeen", setup, func(t *testing.T, b *bundle) {
		p := b.known()
		b.clock.Advance(time.Hour)
		b.reply(p, "tea 3")
		require.True(t, b.in(p, rules.Active).Person.LastActivityAt.Equal(b.clock.Now()))
		require.Equal(t, []rules.Trigger{rules.UserMessage}, b.triggers(p))
		b.tells(p, engagement.EventStateChanged, "to", "active")
		b.answered(p)
	})

	subtest(t, "S4_41_NeverGoesBack", setup, func(t *testing.T, b *bundle) {
		p := b.known()
		b.unheard(p, "tea 3")
		b.clock.Advance(time.Minute)
		b.reply(p, "tea 4")
		latest := b.clock.Now()
		b.clock.Advance(10 * time.Minute)
		b.sweep()
		require.True(t, b.engaged(p).Person.LastActivityAt.Equal(latest))
	})

	// Also: S4-18.
	subtest(t, "S4_42_MessageAfterTheGoodbyeMakesActiveAndIsAnswered", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		r := b.activate(p)
		b.reply(p, "Sure")
		b.in(p, rules.Active)
		b.at(r.ID, session.AwaitingExplanationResponse, "")
		require.Equal(t, []string{opening, explanation}, b.sequence(p))
	})

	subtest(t, "S4_42_GoodbyeThatWasNotClaimedIsWithdrawn", setup, func(t *testing.T, b *bundle) {
		p := b.goodbyeQueued()
		b.reply(p, "1") // which no message has offered
		b.in(p, rules.Active)
		require.Equal(t, 1, b.outreach(p, rules.Goodbye, "cancelled", "returned"))
		b.answered(p)
	})

	subtest(t, "S4_43_MessageOfSomebodyToBeRemindedMakesActive", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		b.reply(p, "2")
		b.in(p, rules.RemindLater)
		b.clock.Advance(time.Hour)
		b.reply(p, "coffee 5")
		require.Zero(t, b.in(p, rules.Active).Person.RemindAt)
	})

	subtest(t, "S4_44_ReturnAfterThreeDaysIsUnprompted", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		b.reply(p, "3")
		b.clock.Advance(3 * day)
		b.reply(p, "coffee 5")
		b.in(p, rules.Active)
		require.True(t, b.metadata(p).UnpromptedReturn)
		b.tells(p, engagement.EventUnpromptedReturn, "days_inactive", "3")
	})

	subtest(t, "S4_44_ReturnBeforeIsNot", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		b.reply(p, "3")
		b.clock.Advance(3*day - time.Second)
		b.reply(p, "coffee 5")
		b.in(p, rules.Active)
		b.tells(p, engagement.EventUnpromptedReturn, "days_inactive")
	})

	subtest(t, "S4_41_STOPAndHELPMoveNoStateAndSTARTDoes", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		for _, word := range []string{"HELP", "STOP", "leave me alone"} {
			b.clock.Advance(time.Second)
			b.reply(p, word)
			require.True(t, b.in(p, rules.GoodbyeSent).Person.LastActivityAt.Equal(b.clock.Now()))
		}
		require.True(t, b.engaged(p).OptedOut)
		b.clock.Advance(time.Second)
		b.reply(p, "START")
		require.False(t, b.in(p, rules.Active).OptedOut)
	})
}

func TestChoices(t *testing.T) {
	t.Parallel()

	subtest(t, "S4_48_OneBeginsAgainWithHelp", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		b.exec(`update profiles set onboarding_tier = 2, onboarding_tips_enabled = false where id = $1`, p.ID)
		b.reply(p, " 1️⃣ ")
		require.False(t, b.in(p, rules.Active).TipsOff)
		require.Equal(t, []rules.Trigger{rules.UserMessage, rules.Inactivity14d, rules.GoodbyeResponse1, rules.UserMessage}, b.triggers(p))
		require.Equal(t, 1, b.count(`select count(*) from profiles where id = $1 and onboarding_tier = 0 and celebration_epoch = 1
			and onboarding_tier_progress ->> 'epoch' = '1'`, p.ID))
		require.Equal(t, 1, b.outreach(p, rules.HelpRestart, "pending", ""))
		b.tells(p, engagement.EventGoodbyeResponse, "response_type", "confused")
		b.tells(p, engagement.EventStateChanged, "to", "active", "help_flow", "active")
		b.answered(p, catalog.GoodbyeConfused)
	})

	subtest(t, "S4_49_TwoRemindsInFourteenDays", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		b.reply(p, "busy")
		require.True(t, b.in(p, rules.RemindLater).Person.RemindAt.Equal(b.clock.Now().Add(14*day)))
		b.answered(p, catalog.GoodbyeBusy)
	})

	subtest(t, "S4_50_S4_52_ThreeLeavesAloneAndSaysSoInTheirLanguage", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		b.exec(`update profiles set locale = 'pt-BR' where id = $1`, p.ID)
		p.Locale = "pt-BR"
		b.reply(p, "Tudo certo!")
		b.in(p, rules.Dormant)
		b.answered(p, catalog.GoodbyeAllGood)
	})

	subtest(t, "S4_51_IsNoneWithoutAGoodbye", setup, func(t *testing.T, b *bundle) {
		p := b.known()
		for _, words := range []string{"1", "11", "not busy"} {
			b.reply(p, words)
		}
		b.in(p, rules.Active)
		b.answered(p)
	})

	subtest(t, "S4_51_NearMissIsAnOrdinaryMessage", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		b.reply(p, "1 coffee")
		b.in(p, rules.Active)
		b.answered(p)
	})

	subtest(t, "S4_51_CameBeforeTheTimeoutAndOverrulesIt", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		b.unrecorded(p, "3")
		b.clock.Advance(2 * day)
		b.standing(p, rules.GoodbyeTimeout)
		b.in(p, rules.Dormant)
		b.quiet()
		b.in(p, rules.Dormant)
		require.Equal(t, rules.GoodbyeTimeout, b.metadata(p).Supersedes)
		require.Equal(t, 1, b.count(`select count(*) from engagement_state_transitions where profile_id = $1 and supersedes is not null`, p.ID))
		b.answered(p, catalog.GoodbyeAllGood)
	})

	subtest(t, "S4_51_IsOneAfterAMessageThatCrossedTheGoodbye", setup, func(t *testing.T, b *bundle) {
		p := b.goodbyeQueued()
		b.exec(`update engagement_outreach set recipient = subject, locale = 'en', body = 'x' where profile_id = $1`, p.ID)
		b.reply(p, "coffee 5")
		b.in(p, rules.Active)
		b.accepts(p)
		b.clock.Advance(time.Hour)
		b.reply(p, "2")
		b.in(p, rules.RemindLater)
		b.answered(p, catalog.GoodbyeBusy)
	})

	subtest(t, "S4_50_UnderAHoldIsTakenWhenItIsLifted", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		b.activate(p)
		before := len(b.messaging.Taken(p.Phone))
		b.hold(p)
		b.clock.Advance(time.Second)
		b.reply(p, "3")
		b.in(p, rules.GoodbyeSent)
		require.Len(t, b.messaging.Taken(p.Phone), before)
		b.clock.Advance(time.Hour)
		b.release(p)
		b.quiet()
		b.in(p, rules.Dormant)
		require.Len(t, b.messaging.Taken(p.Phone), before+1)
	})

	subtest(t, "S4_50_AnswerInDoubtIsAskedForAgain", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		b.messaging.Script(messagingtest.First(messagingtest.UnknownTaken))
		b.reply(p, "3")
		b.in(p, rules.Dormant)
		require.Equal(t, 1, b.count(`select count(*) from webhook_jobs where status = 'pending'`))
		b.messaging.Settle()
		b.quiet()
		b.answered(p, catalog.GoodbyeAllGood)
	})
}

func TestPreferences(t *testing.T) {
	t.Parallel()

	// Also: S4-13.
	subtest(t, "S4_72_S4_74_RemindersAreSwitchedOnceAndConfirmedEachTime", setup, func(t *testing.T, b *bundle) {
		p := b.known()
		for _, words := range []string{"stop reminders", "stop reminders", "start reminders"} {
			b.clock.Advance(time.Second)
			b.reply(p, words)
		}
		require.False(t, b.in(p, rules.Active).RemindersOff)
		b.tells(p, engagement.EventPreferenceChanged, "value", "off", "on")
		b.answered(p, catalog.RemindersOff, catalog.RemindersOff, catalog.RemindersOn)
	})

	subtest(t, "S4_72_AreForEngagementAndAdvanceNoOnboarding", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.reply(p, "stop reminders")
		b.at(r.ID, session.AwaitingOpeningResponse, "")
		require.Len(t, b.messaging.Taken(p.Phone), 2)
		require.True(t, b.engaged(p).RemindersOff)
	})

	subtest(t, "S4_72_TakeEffectInABurstAndUnderAHoldWithoutAWord", setup, func(t *testing.T, b *bundle) {
		p, _ := b.inBurst(2)
		said := len(b.sequence(p))
		b.reply(p, "stop reminders")
		require.True(t, b.engaged(p).RemindersOff)
		b.hold(p)
		b.clock.Advance(time.Second)
		b.reply(p, "start reminders")
		require.False(t, b.engaged(p).RemindersOff)
		require.Len(t, b.sequence(p), said)
	})

	subtest(t, "S4_72_LateMessageDoesNotUndoALaterOne", setup, func(t *testing.T, b *bundle) {
		p := b.known()
		b.unheard(p, "stop reminders")
		b.clock.Advance(time.Minute)
		b.reply(p, "start reminders")
		b.clock.Advance(10 * time.Minute)
		b.sweep()
		require.False(t, b.engaged(p).RemindersOff)
	})

	subtest(t, "S4_70_TipsAreASwitchOfTheirOwn", setup, func(t *testing.T, b *bundle) {
		p := b.known()
		b.reply(p, "stop tips")
		v := b.engaged(p)
		require.True(t, v.TipsOff)
		require.False(t, v.RemindersOff)
		b.answered(p, catalog.TipsOff)
		b.tells(p, engagement.EventPreferenceChanged, "preference", "tips")
	})

	subtest(t, "S4_73_RemindersOffWithdrawWhatWaits", setup, func(t *testing.T, b *bundle) {
		p := b.goodbyeQueued()
		b.reply(p, "stop reminders")
		require.Equal(t, 1, b.outreach(p, rules.Goodbye, "cancelled", "reminders_off"))
		b.in(p, rules.Active)
	})

	subtest(t, "S4_55_GroupNeedsAHousehold", setup, func(t *testing.T, b *bundle) {
		p, other := b.known(), b.person()
		b.reply(p, "switch to household")
		require.Equal(t, rules.Individual, b.engaged(p).Destination)
		household := newID()
		for _, member := range []string{p.ID, other.ID} {
			b.exec(`insert into household_members (profile_id, org_id, household_id, created_at) values ($1, $2, $3, $4)`,
				member, orgID, household, b.clock.Now())
		}
		b.clock.Advance(time.Second)
		b.reply(p, "mudar para o grupo")
		require.Equal(t, rules.Group, b.engaged(p).Destination)
		b.clock.Advance(time.Second)
		b.reply(p, "switch to my phone")
		require.Equal(t, rules.Individual, b.engaged(p).Destination)
		b.answered(p, catalog.DestinationNone, catalog.DestinationHousehold, catalog.DestinationIndividual)
		b.tells(p, engagement.EventPreferenceChanged, "value", "group", "individual")
	})
}

// refusesPreferences has the database refuse every change of a preference, until the returned function is called.
func (b *bundle) refusesPreferences() (mend func()) {
	b.t.Helper()
	b.exec(`alter table event_outbox add constraint broken check (type <> 'engagement.preference_changed')`)
	return func() { b.exec(`alter table event_outbox drop constraint broken`) }
}

func TestApology(t *testing.T) {
	t.Parallel()

	for _, locale := range []string{"en", "pt-BR"} {
		subtest(t, "S4_72_PreferenceThatFailedForGoodIsApologisedForOnce_"+locale, setup, func(t *testing.T, b *bundle) {
			p := b.known()
			b.exec(`update profiles set locale = $2 where id = $1`, p.ID, locale)
			p.Locale = locale
			mend := b.refusesPreferences()
			b.reply(p, "stop tips")
			b.work()
			b.answered(p) // it is tried again
			b.quiet()
			b.answered(p, catalog.Apology)
			require.False(t, b.engaged(p).TipsOff)
			require.Equal(t, 1, b.count(`select count(*) from webhook_jobs where status = 'failed'`))

			b.exec(`update webhook_jobs set status = 'pending', next_retry_at = $1, processed_at = null where status = 'failed'`, b.clock.Now())
			b.quiet() // as after a crash before the failure was recorded
			b.answered(p, catalog.Apology)

			mend()
			b.clock.Advance(time.Second)
			b.reply(p, "stop tips")
			require.True(t, b.engaged(p).TipsOff)
			b.answered(p, catalog.Apology, catalog.TipsOff)
		})
	}

	subtest(t, "S4_72_PreferenceThatARetryWritesIsConfirmedAndNotApologisedFor", setup, func(t *testing.T, b *bundle) {
		p := b.known()
		mend := b.refusesPreferences()
		b.reply(p, "stop tips")
		b.pass(time.Minute)
		b.answered(p)
		mend()
		b.quiet()
		require.True(t, b.engaged(p).TipsOff)
		b.answered(p, catalog.TipsOff)
	})

	subtest(t, "S4_72_PreferenceThatFailedForGoodLeavesTheConversationOpen", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		mend := b.refusesPreferences()
		b.reply(p, "stop tips")
		b.quiet()
		require.Equal(t, 1, b.count(`select count(*) from webhook_jobs where status = 'failed'`))
		require.Len(t, b.messaging.Taken(p.Phone), 2, "the opening and the apology")
		mend()
		b.reply(p, "Sure")
		b.at(r.ID, session.AwaitingExplanationResponse, "")
	})

	subtest(t, "S4_72_ApologyThatMessagingCannotTakeIsSentLater", setup, func(t *testing.T, b *bundle) {
		p := b.known()
		b.refusesPreferences()
		b.messaging.Script(messagingtest.First(messagingtest.Unavailable, messagingtest.Unavailable))
		b.reply(p, "stop tips")
		b.quiet()
		b.answered(p, catalog.Apology)
		require.Len(t, b.messaging.Attempts(), 3)
	})

	subtest(t, "S4_52_ChoiceThatFailedForGoodIsApologisedFor", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		b.exec(`alter table event_outbox add constraint broken check (type <> 'engagement.goodbye_response')`)
		b.reply(p, "3")
		b.quiet()
		b.in(p, rules.GoodbyeSent)
		b.answered(p, catalog.Apology)
	})

	subtest(t, "S4_72_OrdinaryMessageThatFailedForGoodGetsNone", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.exec(`alter table session_transitions add constraint broken check (kind <> 'replied')`)
		b.reply(p, "1") // a choice only while a goodbye asks for one
		b.quiet()
		b.requireParked(r, "failed for good")
		require.Equal(t, []string{opening, explanation}, b.sequence(p))
	})
}

// TestConcurrentTransitions: of two that were decided on the same person one is written, and the other is told.
func TestConcurrentTransitions(t *testing.T) {
	t.Parallel()

	subtest(t, "S4_40_OneIsAppliedAndTheOtherIsToldOfTheConflict", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		v, now := b.engaged(p), b.clock.Now()
		moves, _, err := rules.DefaultConfig().Limits.Answer(v.Person, v.Situation, rules.ChoiceAllGood, now, now)
		require.NoError(t, err)
		done := make(chan error, 8)
		for range cap(done) {
			go func() {
				done <- b.store.Engagement().Apply(context.WithoutCancel(t.Context()), engagement.Change{
					View: v, Cause: "message:" + newID(), Moves: moves, At: now,
				})
			}()
		}
		applied := 0
		for range cap(done) {
			if err := <-done; err == nil {
				applied++
			} else {
				require.ErrorIs(t, err, conversation.ErrConflict)
			}
		}
		require.Equal(t, 1, applied)
		require.Equal(t, []rules.Trigger{rules.UserMessage, rules.Inactivity14d, rules.GoodbyeResponse3}, b.triggers(p))
	})

	subtest(t, "S4_40_MessageIsDecidedAgain", setup, func(t *testing.T, b *bundle) {
		p := b.known()
		b.clock.Advance(14 * day)
		b.current().ports.beforeApply = func() { b.standing(p, rules.Inactivity14d) } // a run, between the read and the change
		b.reply(p, "coffee 5")
		b.in(p, rules.Active)
		require.Equal(t, []rules.Trigger{rules.UserMessage, rules.Inactivity14d, rules.UserMessage}, b.triggers(p))
		require.Equal(t, 1, b.outreach(p, rules.Goodbye, "cancelled", "returned"))
	})

	subtest(t, "S4_40_RunThatReadBeforeTheMessageChangesNothing", setup, func(t *testing.T, b *bundle) {
		p := b.known()
		b.clock.Advance(14 * day)
		v, at := b.engaged(p), b.clock.Now()
		b.reply(p, "coffee 5") // which moves no state
		m, err := rules.DefaultConfig().Limits.Decide(v.Person, v.Situation, rules.Event{Trigger: rules.Inactivity14d, At: at, Now: at})
		require.NoError(t, err)
		err = b.store.Engagement().Apply(t.Context(), engagement.Change{View: v, Cause: "run:" + newID(), Moves: []rules.Move{m}, At: at})
		require.ErrorIs(t, err, conversation.ErrConflict)
		b.in(p, rules.Active)
		require.Len(t, b.triggers(p), 1)
	})

	subtest(t, "S4_40_SecondMessageOfTheSameInstantIsToldOfTheFirst", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		b.reply(p, "3")
		v, now := b.in(p, rules.Dormant), b.clock.Now()
		moves, _, err := rules.DefaultConfig().Limits.Answer(v.Person, v.Situation, rules.NoChoice, now, now)
		require.NoError(t, err)
		write := func() error {
			return b.store.Engagement().Apply(t.Context(), engagement.Change{View: v, Cause: "message:" + newID(), Moves: moves, At: now})
		}
		require.NoError(t, write())
		require.ErrorIs(t, write(), conversation.ErrConflict)
		require.Len(t, b.triggers(p), 4)
	})

	subtest(t, "S4_38_CauseHasEachTransitionOnce", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		b.reply(p, "3")
		cause := listed[string](b, `select cause from engagement_state_transitions where profile_id = $1 order by id desc limit 1`, p.ID)[0]
		v, now := b.engaged(p), b.clock.Now()
		v.Situation.Newest = rules.Past{Trigger: rules.GoodbyeTimeout, GoodbyeSentAt: now, GoodbyeExpiresAt: now.Add(time.Hour)}
		moves, _, err := rules.DefaultConfig().Limits.Answer(v.Person, v.Situation, rules.ChoiceAllGood, now, now)
		require.NoError(t, err)
		err = b.store.Engagement().Apply(t.Context(), engagement.Change{View: v, Cause: cause, Moves: moves, At: now})
		require.ErrorIs(t, err, conversation.ErrConflict)
		require.Len(t, b.triggers(p), 3)
	})

	subtest(t, "S4_40_ManyCopiesOfAChoiceAreAnsweredOnce", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		m := b.message(p, "1")
		require.NoError(t, atOnce(8, func() error {
			_, err := b.current().server.ReceiveMessage(t.Context(), m)
			return err
		}))
		b.quiet()
		b.answered(p, catalog.GoodbyeConfused)
		require.Len(t, b.triggers(p), 4)
		require.Equal(t, 1, b.count(`select celebration_epoch from profiles where id = $1`, p.ID))
	})

	subtest(t, "S4_38_FailureLeavesNothing", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		b.exec(`alter table event_outbox add constraint broken check (type <> 'engagement.goodbye_response')`)
		v, now := b.engaged(p), b.clock.Now()
		moves, _, err := rules.DefaultConfig().Limits.Answer(v.Person, v.Situation, rules.ChoiceAllGood, now, now)
		require.NoError(t, err)
		change := engagement.Change{View: v, Cause: "message:" + newID(), Moves: moves, At: now, Events: []engagement.Event{{Type: engagement.EventGoodbyeResponse, Time: now}}}
		require.Error(t, b.store.Engagement().Apply(t.Context(), change))
		b.in(p, rules.GoodbyeSent)
		require.Len(t, b.triggers(p), 2)
	})

	subtest(t, "S4_41_ThatCannotBeNotedFailsNoReply", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.exec(`alter table user_engagement_states rename to gone`)
		b.reply(p, "Sure")
		b.at(r.ID, session.AwaitingExplanationResponse, "")
		require.Len(t, b.log.of(t, "engagement.activity_lost"), 1)
	})
}

// asking is one thing that engagement is asked about a person, by them, the host application or an operator, whatever fails.
type asking struct {
	name  string
	begin func(b *bundle) conversation.Profile
	cause func(b *bundle, p conversation.Profile) func() error
	want  func(b *bundle, p conversation.Profile)
}

func (s asking) play(b *bundle, p *ports) {
	b.t.Helper()
	b.serve(b.start(b.healthy()))
	person := s.begin(b)
	b.serve(b.start(p))
	cause := s.cause(b, person)
	for try := 1; cause() != nil; try++ {
		require.Less(b.t, try, 5)
	}
	b.quiet()
	b.serve(b.start(b.healthy()))
	require.NoError(b.t, cause())
	b.quiet()
	s.want(b, person)
	require.Zero(b.t, b.count(`select count(*) from webhook_jobs where status = 'failed'`))
}

// oneShort is a person with one action to go until tier 1, whose goodbye waits.
func oneShort(b *bundle) conversation.Profile {
	p := b.known()
	for _, action := range []string{"edit_category", "delete_expense", "add_category"} {
		b.reports(p, action)
	}
	b.clock.Advance(14 * day)
	return b.standing(p, rules.Inactivity14d)
}

// TestCrashOfEngagement is the crash matrix of messages that engagement takes, of actions and of preferences.
func TestCrashOfEngagement(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	asked := func(b *bundle) conversation.Profile { return b.asked() }
	known := func(b *bundle) conversation.Profile { return b.known() }
	for _, s := range []asking{
		{name: "S4_48_BeginAgain", begin: asked, cause: writes("1"), want: func(b *bundle, p conversation.Profile) {
			b.in(p, rules.Active)
			b.answered(p, catalog.GoodbyeConfused)
			require.Equal(b.t, 1, b.outreach(p, rules.HelpRestart, "pending", ""))
			require.Len(b.t, b.triggers(p), 4)
			require.Equal(b.t, 1, b.count(`select celebration_epoch from profiles where id = $1`, p.ID))
			b.tells(p, engagement.EventGoodbyeResponse, "response_type", "confused")
		}},
		{name: "S4_42_Return", begin: asked, cause: writes("coffee 5"), want: func(b *bundle, p conversation.Profile) {
			b.in(p, rules.Active)
			b.answered(p)
			require.Len(b.t, b.triggers(p), 3)
		}},
		{name: "S4_72_RemindersOff", begin: known, cause: writes("stop reminders"), want: func(b *bundle, p conversation.Profile) {
			require.True(b.t, b.in(p, rules.Active).RemindersOff)
			b.answered(p, catalog.RemindersOff)
			b.tells(p, engagement.EventPreferenceChanged, "value", "off")
		}},
		{name: "S4_75_ReportAction", begin: oneShort, cause: func(b *bundle, p conversation.Profile) func() error {
			in := b.did(p, "add_expense", nlp, inCategory("food"))
			return func() error {
				out, err := b.report(in)
				if err == nil {
					require.Equal(b.t, []any{int32(1), []int32{1}, true}, []any{out.GetTier(), out.GetCompleted(), out.GetMagicMoment()})
					require.NotEmpty(b.t, out.GetHint())
				}
				return err
			}
		}, want: func(b *bundle, p conversation.Profile) {
			require.Equal(b.t, 1, b.in(p, rules.Active).Expenses)
			b.celebrated(p, 1)
			b.tells(p, engagement.EventTierCompleted, "tier", "1")
			b.tells(p, engagement.EventMagicMoment, "action", "add_expense")
			require.Equal(b.t, []rules.Trigger{rules.UserMessage, rules.Inactivity14d, rules.UserMessage}, b.triggers(p))
			require.Equal(b.t, 1, b.outreach(p, rules.Goodbye, "cancelled", "returned"))
		}},
		{name: "S4_63_FirstMessageIsAnExpense", begin: func(b *bundle) conversation.Profile {
			b.rules.Recogniser = true
			return b.person()
		}, cause: writes("gastei 50 no mercado"), want: func(b *bundle, p conversation.Profile) {
			require.Equal(b.t, 1, b.in(p, rules.Active).Expenses)
			b.tells(p, engagement.EventMagicMoment, "action", "add_expense")
			require.Equal(b.t, 1, b.outreach(p, rules.Welcome, "pending", ""))
			require.Len(b.t, b.triggers(p), 1)
		}},
		{name: "S4_72_SetPreferences", begin: func(b *bundle) conversation.Profile {
			p := b.goodbyeQueued()
			b.together(p, b.person())
			return p
		}, cause: func(b *bundle, p conversation.Profile) func() error {
			return func() error {
				_, err := b.prefers(rpc.RoleUser, p, &onboardingv1.SetPreferencesRequest{Reminders: "off", Tips: "off", Destination: "group"})
				return err
			}
		}, want: func(b *bundle, p conversation.Profile) {
			require.Equal(b.t, []string{"t f group reminders=off tips=off destination=group goodbye cancelled reminders_off"}, b.wished(p))
			require.True(b.t, b.messaging.RemindersOff(p.Phone))
		}},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.everyMishap(3, func(p *ports) { s.play(b, p) })
		})
	}
}
