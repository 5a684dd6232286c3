package onboarding_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/emulators/messagingtest"
	"paceline.internal/platform/queue"
	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/engagement/rules"
)

// sends works all outreach that is due.
func (b *bundle) sends() {
	b.t.Helper()
	_, err := b.current().outreach.Drain(b.t.Context())
	require.NoError(b.t, err)
}

// later lets time pass, and works the outreach that is due then.
func (b *bundle) later(d time.Duration) {
	b.t.Helper()
	b.clock.Advance(d)
	b.sends()
}

// away is a person who was here for a while and is silent now: what welcomed them has been sent.
func (b *bundle) away() conversation.Profile {
	b.t.Helper()
	p := b.known()
	b.sends()
	b.exec(`delete from engagement_outreach where profile_id = $1`, p.ID)
	b.clock.Advance(14 * day)
	return p
}

// got is what reached a person's phone but for the welcome.
func (b *bundle) got(p conversation.Profile) []string {
	b.t.Helper()
	welcome, err := catalog.DefaultEngagement().Render(p.Locale, catalog.Welcome, p.FirstName, catalog.Params{})
	require.NoError(b.t, err)
	texts := []string{}
	for _, text := range b.messaging.Taken(p.Phone) {
		if text.Body != welcome {
			texts = append(texts, text.Body)
		}
	}
	return texts
}

func goodbyeFor(t *testing.T, p conversation.Profile) string {
	t.Helper()
	text, err := catalog.DefaultEngagement().Render(p.Locale, catalog.Goodbye, p.FirstName, catalog.Params{})
	require.NoError(t, err)
	return text
}

func TestOutreach(t *testing.T) {
	t.Parallel()

	// Also: S4-10.
	subtest(t, "S4_45_ChoicesOfAGoodbyeAreOpenFor48HoursAfterItsAcceptance", setup, func(t *testing.T, b *bundle) {
		p := b.standing(b.away(), rules.Inactivity14d)
		require.True(t, b.in(p, rules.GoodbyeSent).Person.GoodbyeExpiresAt.IsZero())
		b.later(time.Hour)
		v := b.in(p, rules.GoodbyeSent)
		require.Equal(t, []string{goodbyeFor(t, p)}, b.got(p))
		require.WithinDuration(t, b.clock.Now().Add(48*time.Hour), v.Person.GoodbyeExpiresAt, 0)
		require.Equal(t, 1, b.outreach(p, rules.Goodbye, "completed", "sent"))
		b.later(time.Hour)
		require.Len(t, b.got(p), 1)
	})

	subtest(t, "S4_45_AcceptanceThatIsLearntLaterCountsFromWhenTwilioTookIt", setup, func(t *testing.T, b *bundle) {
		p := b.standing(b.away(), rules.Inactivity14d)
		b.messaging.Script(messagingtest.First(messagingtest.UnknownTaken))
		b.sends()
		taken := b.clock.Now()
		b.clock.Advance(3 * time.Hour)
		require.True(t, b.in(p, rules.GoodbyeSent).Person.GoodbyeExpiresAt.IsZero())
		b.messaging.ResolveAll() // by the carrier's own list
		b.sends()
		require.Equal(t, 1, b.outreach(p, rules.Goodbye, "completed", "sent"))
		require.WithinDuration(t, taken.Add(48*time.Hour), b.in(p, rules.GoodbyeSent).Person.GoodbyeExpiresAt, 0)
	})

	// Also: S4-33.
	subtest(t, "S4_62_TriesAreASecondAndTwoApartAndTheThirdIsTheLast", setup, func(t *testing.T, b *bundle) {
		p := b.standing(b.away(), rules.Inactivity14d)
		b.exec(`alter table engagement_outreach add constraint broken check (body is null)`)
		for _, tries := range []struct {
			after time.Duration
			used  int
		}{{0, 1}, {999 * time.Millisecond, 1}, {time.Millisecond, 2}, {1999 * time.Millisecond, 2}, {time.Millisecond, 3}} {
			b.later(tries.after)
			require.Equal(t, tries.used, b.count(`select attempts from engagement_outreach where profile_id = $1`, p.ID))
		}
		require.Equal(t, 1, b.outreach(p, rules.Goodbye, "failed", "given_up"))
		require.Positive(t, b.count(`select length(error_message) from engagement_outreach where profile_id = $1`, p.ID))
		require.Empty(t, b.got(p))
	})

	subtest(t, "S4_34_RefusalForGoodFailsAtOnce", setup, func(t *testing.T, b *bundle) {
		p := b.standing(b.away(), rules.Inactivity14d)
		b.messaging.Script(messagingtest.First(messagingtest.Reject))
		b.sends()
		require.Equal(t, 1, b.outreach(p, rules.Goodbye, "failed", "rejected"))
		require.Equal(t, 1, b.count(`select attempts from engagement_outreach where profile_id = $1`, p.ID))
		require.True(t, b.engaged(p).Situation.GoodbyeEnded, "the daily run ends the goodbye")
	})

	subtest(t, "S4_61_MessagingThatIsAwayUsesNoTry", setup, func(t *testing.T, b *bundle) {
		p := b.standing(b.away(), rules.Inactivity14d)
		b.messaging.SetDown(true)
		for range 10 {
			b.later(time.Minute)
		}
		require.Zero(t, b.count(`select attempts from engagement_outreach where profile_id = $1`, p.ID))
		b.messaging.SetDown(false)
		b.later(time.Minute)
		require.Len(t, b.got(p), 1)
	})

	subtest(t, "AnswerInDoubtIsWaitedForAndTheSameRequestIsAskedAgain", setup, func(t *testing.T, b *bundle) {
		p := b.standing(b.away(), rules.Inactivity14d)
		b.messaging.Script(messagingtest.First(messagingtest.UnknownTaken))
		b.sends()
		b.exec(`update profiles set first_name = 'Eva', locale = 'pt-BR' where id = $1`, p.ID)
		b.later(time.Minute)
		require.Equal(t, 1, b.outreach(p, rules.Goodbye, "pending", ""))
		b.messaging.Settle()
		b.later(time.Minute)
		require.Equal(t, 1, b.outreach(p, rules.Goodbye, "completed", "sent"))
		require.Equal(t, []string{goodbyeFor(t, p)}, b.got(p))
	})

	subtest(t, "OneThatIsNotWantedAnyMoreAndStaysInDoubtIsAskedAboutMoreSeldom", setup, func(t *testing.T, b *bundle) {
		p := b.standing(b.away(), rules.Inactivity14d)
		b.messaging.Script(messagingtest.First(messagingtest.UnknownTaken))
		b.sends()
		b.reply(p, "hi")
		for range 12 {
			b.later(time.Hour)
		}
		require.Equal(t, 1, b.count(`select count(*) from engagement_outreach
			where profile_id = $1 and status = 'pending' and next_retry_at = updated_at + interval '1 hour'`, p.ID))
	})

	subtest(t, "WaitsForTheMorningOfThePerson", setup, func(t *testing.T, b *bundle) {
		p := b.away()
		b.exec(`update profiles set time_zone = 'Pacific/Auckland' where id = $1`, p.ID) // 01:00 there
		b.standing(p, rules.Inactivity14d)
		b.sends()
		require.Empty(t, b.got(p))
		b.later(7*time.Hour - time.Minute)
		require.Empty(t, b.got(p))
		b.later(time.Minute)
		require.Len(t, b.got(p), 1)
	})

	subtest(t, "S4_46_GoesToTheHouseholdInTheLocaleOfEachAndStopSilencesItsWriter", setup, func(t *testing.T, b *bundle) {
		p, partner, silent := b.away(), b.person(), b.person()
		b.together(p, partner, silent)
		b.exec(`update profiles set preferred_destination = 'group' where id = $1`, p.ID)
		b.exec(`update profiles set locale = 'pt-BR' where id = $1`, partner.ID)
		b.reply(silent, "STOP")
		b.standing(p, rules.Inactivity14d)
		b.sends()
		b.later(time.Second)
		partner.Locale = "pt-BR"
		require.Equal(t, []string{goodbyeFor(t, p)}, b.got(p))
		require.Equal(t, []string{goodbyeFor(t, partner)}, b.got(partner))
		require.Empty(t, b.got(silent))
		require.Equal(t, 2, b.outreach(p, rules.Goodbye, "completed", "sent"))
		require.Equal(t, 1, b.outreach(p, rules.Goodbye, "cancelled", "opted_out"))
		require.Equal(t, 1, b.count(`select count(*) from engagement_outreach
			where member_id = $1 and idempotency_key = (select idempotency_key || ':' || $1 from engagement_outreach where member_id is null)`, partner.ID))
	})

	subtest(t, "S4_55_WithoutAHouseholdTheGroupIsTheOwnPhone", setup, func(t *testing.T, b *bundle) {
		p := b.away()
		b.exec(`update profiles set preferred_destination = 'group' where id = $1`, p.ID)
		b.standing(p, rules.Inactivity14d)
		b.sends()
		require.Len(t, b.got(p), 1)
		require.Equal(t, []string{"individual"}, listed[string](b, `select destination from engagement_outreach where profile_id = $1`, p.ID))
	})
}

// TestOutreachThatIsNotWanted is about what changed after a row was queued.
func TestOutreachThatIsNotWanted(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, outcome string
		meanwhile     func(b *bundle, p conversation.Profile)
	}{
		{"S4_82_PersonWhoReturned", "returned", func(b *bundle, p conversation.Profile) { b.reply(p, "coffee 5") }},
		{"S4_83_PersonWhoOptedOut", "opted_out", func(b *bundle, p conversation.Profile) {
			b.exec(`update profiles set opted_out_at = $2 where id = $1`, p.ID, b.clock.Now())
		}},
		{"S4_73_PersonWithoutReminders", "reminders_off", func(b *bundle, p conversation.Profile) {
			require.NoError(b.t, b.switches(rpc.RoleOperator, p, "off"))
		}},
		{"S4_83_RemindersThatOnlyMessagingKnowsToBeOff", "reminders_off", func(b *bundle, p conversation.Profile) {
			_, err := b.messaging.SetReminders(b.t.Context(), &messagingv1.SetRemindersRequest{
				OrgId: orgID, Phone: p.Phone, Reminders: messagingv1.Switch_SWITCH_OFF, Source: "person", SaidAt: timestamppb.New(b.clock.Now()),
			})
			require.NoError(b.t, err)
		}},
		{"S4_83_OptOutThatOnlyMessagingKnows", "opted_out", func(b *bundle, p conversation.Profile) {
			b.reply(p, "STOP")
			b.exec(`update profiles set opted_out_at = null where id = $1`, p.ID)
		}},
		{"PersonWhoBeganOnboarding", "ineligible", func(b *bundle, p conversation.Profile) { b.activate(p) }},
		{"OneThatExpired", "expired", func(b *bundle, p conversation.Profile) {
			b.hold(p)
			b.later(8 * day)
		}},
	} {
		subtest(t, tc.name, setup, func(t *testing.T, b *bundle) {
			p := b.standing(b.away(), rules.Inactivity14d)
			tc.meanwhile(b, p)
			before := len(b.got(p))
			b.later(time.Minute)
			require.Len(t, b.got(p), before)
			require.Equal(t, 1, b.outreach(p, rules.Goodbye, "cancelled", tc.outcome), "%v",
				listed[string](b, `select status || ' ' || outcome from engagement_outreach where profile_id = $1`, p.ID))
		})
	}

	subtest(t, "S4_82_MessageThatIsStoredBeforeTheClaimIsWaitedFor", setup, func(t *testing.T, b *bundle) {
		p := b.standing(b.away(), rules.Inactivity14d)
		b.current().ports.beforeBegin = func() { b.unrecorded(p, "coffee 5") }
		b.sends()
		b.later(time.Second)
		require.Empty(t, b.got(p))
		b.clock.Advance(time.Minute)
		b.quiet()
		b.later(time.Minute)
		require.Empty(t, b.got(p))
		b.in(p, rules.Active)
	})

	subtest(t, "S4_82_PersonWhoReturnsBeforeTheClaimGetsNone", setup, func(t *testing.T, b *bundle) {
		p := b.standing(b.away(), rules.Inactivity14d)
		b.current().ports.beforeBegin = func() { b.reply(p, "coffee 5") }
		b.later(time.Second)
		b.in(p, rules.Active)
		b.later(time.Minute)
		require.Empty(t, b.got(p))
		require.Equal(t, 1, b.outreach(p, rules.Goodbye, "cancelled", "returned"))
	})

	subtest(t, "OneThatMayHaveBeenSentIsNotTakenBack", setup, func(t *testing.T, b *bundle) {
		p := b.standing(b.away(), rules.Inactivity14d)
		b.messaging.Script(messagingtest.First(messagingtest.UnknownTaken))
		b.sends()
		b.reply(p, "coffee 5")
		b.later(time.Minute)
		require.Equal(t, 1, b.outreach(p, rules.Goodbye, "pending", ""))
		b.messaging.Settle()
		b.later(time.Minute)
		require.Equal(t, 1, b.outreach(p, rules.Goodbye, "completed", "sent"))
		require.False(t, b.in(p, rules.Active).Person.GoodbyeExpiresAt.IsZero(), "its choices are honoured")
	})

	subtest(t, "OneThatWasThrottledIsTakenBackWhenThePersonReturns", setup, func(t *testing.T, b *bundle) {
		p := b.standing(b.away(), rules.Inactivity14d)
		b.messaging.Script(messagingtest.First(messagingtest.Throttle))
		b.sends()
		b.reply(p, "coffee 5")
		b.later(time.Minute)
		require.Equal(t, 1, b.outreach(p, rules.Goodbye, "cancelled", "returned"))
		require.True(t, b.in(p, rules.Active).Person.GoodbyeSentAt.IsZero(), "there is no choice to be made")
	})
}

// TestChoicesOfAGoodbye is about which goodbye its choices are of, and from when on.
func TestChoicesOfAGoodbye(t *testing.T) {
	t.Parallel()

	subtest(t, "CountFromItsFirstAcceptanceInTheHousehold", setup, func(t *testing.T, b *bundle) {
		p, partner := b.away(), b.person()
		b.together(p, partner)
		b.exec(`update profiles set preferred_destination = 'group' where id = $1`, p.ID)
		b.hold(partner)
		b.standing(p, rules.Inactivity14d)
		b.sends()
		until := b.in(p, rules.GoodbyeSent).Person.GoodbyeExpiresAt
		b.release(partner)
		b.later(time.Hour)
		require.Equal(t, []string{goodbyeFor(t, partner)}, b.got(partner))
		require.True(t, b.in(p, rules.GoodbyeSent).Person.GoodbyeExpiresAt.Equal(until))
	})

	subtest(t, "AreNotOpenedByTheLateAcceptanceOfAnotherGoodbye", setup, func(t *testing.T, b *bundle) {
		p := b.standing(b.away(), rules.Inactivity14d)
		b.messaging.Script(messagingtest.First(messagingtest.UnknownTaken))
		b.sends()
		b.reply(p, "coffee 5")
		b.clock.Advance(14 * day)
		b.standing(p, rules.Inactivity14d)
		b.exec(`update engagement_outreach set next_retry_at = $2 where profile_id = $1 and body is null`, p.ID, b.clock.Now().Add(day))
		b.messaging.Settle()
		b.later(time.Minute)
		require.Equal(t, 1, b.outreach(p, rules.Goodbye, "completed", "sent"))
		require.True(t, b.in(p, rules.GoodbyeSent).Person.GoodbyeExpiresAt.IsZero())
	})

	subtest(t, "StayWhileItMayStillBeAcceptedForAnotherMember", setup, func(t *testing.T, b *bundle) {
		p, partner := b.away(), b.person()
		b.together(p, partner)
		b.exec(`update profiles set preferred_destination = 'group' where id = $1`, p.ID)
		b.standing(p, rules.Inactivity14d)
		b.messaging.Script(messagingtest.First(messagingtest.UnknownTaken, messagingtest.Throttle))
		b.sends()
		b.later(time.Millisecond)
		b.reply(p, "coffee 5")
		b.later(10 * time.Minute)
		require.Equal(t, 1, b.outreach(p, rules.Goodbye, "cancelled", "returned"), "the partner's")
		require.Equal(t, 1, b.outreach(p, rules.Goodbye, "pending", ""))
		require.False(t, b.in(p, rules.Active).Person.GoodbyeSentAt.IsZero())
	})
}

// TestQueueOfOutreach is about what is queued, before anything is sent.
func TestQueueOfOutreach(t *testing.T) {
	t.Parallel()

	subtest(t, "S4_30_WhatIsQueuedIsPendingWithoutATry", setup, func(t *testing.T, b *bundle) {
		p := b.goodbyeQueued()
		require.Equal(t, []string{"pending 0"}, listed[string](b, `select status || ' ' || attempts from engagement_outreach
			where profile_id = $1 and event_type = 'goodbye'`, p.ID))
		require.Equal(t, []string{"pending 0"}, listed[string](b, `select status || ' ' || retry_count from engagement_message_queue
			where user_id = $1 and message_type = 'goodbye'`, p.ID))
	})

	subtest(t, "S4_31_KeyIsQueuedOnceAndTheFirstStays", setup, func(t *testing.T, b *bundle) {
		p := b.goodbyeQueued()
		const queued = `select id || ' ' || idempotency_key from engagement_outreach where profile_id = $1 and event_type = 'goodbye'`
		first := listed[string](b, queued, p.ID)
		b.exec(`update user_engagement_states set state = 'active', goodbye_sent_at = null where profile_id = $1`, p.ID)
		b.standing(p, rules.Inactivity14d)
		require.Len(t, b.triggers(p), 3)
		require.Len(t, first, 1)
		require.Equal(t, first, listed[string](b, queued, p.ID))
	})
}

// TestTurnsOfOutreach is about the order of what is due.
func TestTurnsOfOutreach(t *testing.T) {
	t.Parallel()
	// queued are goodbyes that are due at these times from now on, in the order of their ids.
	queued := func(b *bundle, due ...time.Duration) []conversation.Profile {
		people := make([]conversation.Profile, len(due))
		for i := range due {
			people[i] = b.known()
		}
		b.exec(`delete from engagement_outreach`)
		b.clock.Advance(14 * day)
		for i, p := range people {
			b.standing(p, rules.Inactivity14d)
			b.exec(`update engagement_outreach set next_retry_at = $2, scheduled_for = $2 where profile_id = $1`, p.ID, b.clock.Now().Add(due[i]))
		}
		return people
	}

	subtest(t, "S4_61_ClaimTakesWhatIsDueOldestFirstUpToItsLimit", setup, func(t *testing.T, b *bundle) {
		people := queued(b, -time.Second, -3*time.Second, time.Millisecond, -2*time.Second)
		claim := func() []string {
			claimed, err := b.store.Engagement().Queue().Claim(t.Context(), queue.Claim{Limit: 2, Now: b.clock.Now(), Until: b.clock.Now().Add(time.Minute)})
			require.NoError(t, err)
			var phones []string
			for _, j := range claimed.Jobs {
				phones = append(phones, j.Subject)
			}
			return phones
		}
		require.Equal(t, []string{people[1].Phone, people[3].Phone}, claim())
		require.Equal(t, []string{people[0].Phone}, claim())
		require.Empty(t, claim(), "the other one is not due")
	})
}

// logged are the types of outreach, and the statuses of its rows, that lines of an event in the log are about.
func (b *bundle) logged(event string) []string {
	b.t.Helper()
	about := []string{}
	for _, line := range b.log.of(b.t, event) {
		about = append(about, listed[string](b, `select $2 || ' ' || status from engagement_outreach where id = $1 and profile_id = $3`,
			line["outreach_id"], line["type"], line["profile_id"])...)
	}
	return about
}

func TestLogOfOutreach(t *testing.T) {
	t.Parallel()

	subtest(t, "S4_36_TellsWhatIsQueuedSentAndFailed", setup, func(t *testing.T, b *bundle) {
		sent, failed := b.known(), b.known()
		require.Equal(t, []string{"welcome pending", "welcome pending"}, b.logged("engagement.outreach_queued"))
		b.messaging.Script(func(_ int, in *sendRequest) messagingtest.Outcome {
			if in.GetTo() == failed.Phone {
				return messagingtest.Reject
			}
			return messagingtest.Accept
		})
		b.sends()
		require.Equal(t, []string{"welcome completed"}, b.logged("engagement.outreach_sent"))
		require.Equal(t, []string{"welcome failed"}, b.logged("engagement.outreach_failed"))
		require.Len(t, b.messaging.Taken(sent.Phone), 1)
		require.NotEmpty(t, b.log.of(t, "engagement.outreach_failed")[0]["error"])
	})

	subtest(t, "S4_36_TellsWhatARunQueuesAndForWhomElse", runsToday, func(t *testing.T, b *bundle) {
		p, partner := b.known(), b.person()
		b.exec(`delete from engagement_outreach`)
		b.together(p, partner)
		b.exec(`update profiles set preferred_destination = 'group' where id = $1`, p.ID)
		before := len(b.logged("engagement.outreach_queued"))
		b.exec(`delete from user_engagement_states where profile_id <> $1`, p.ID)
		b.onDay(16, 9)
		b.works()
		require.Equal(t, []string{"goodbye pending"}, b.logged("engagement.outreach_queued")[before:])
		b.sends()
		require.Equal(t, []string{"goodbye completed", "goodbye completed"}, b.logged("engagement.outreach_queued")[before:], "and the partner's")
	})

	subtest(t, "S4_31_S4_36_KeyThatIsThereIsNotToldAgain", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		welcome := rules.Outreach{Type: rules.Welcome, At: b.clock.Now()}
		row := engagement.Outreach{
			Type: welcome.Type, Key: welcome.Key(p.ID), MessageKey: catalog.Welcome, LocalDay: rules.LocalDay(welcome.At, nil), DueAt: welcome.At,
			ExpiresAt: welcome.Expires(),
		}
		v, at := b.engaged(p), b.clock.Now()
		moves, _, err := rules.DefaultConfig().Limits.Answer(v.Person, v.Situation, rules.ChoiceAllGood, at, at)
		require.NoError(t, err)
		c := engagement.Change{View: v, Cause: "message:" + newID(), Moves: moves, Outreach: []engagement.Outreach{row, row}, At: at}
		require.NoError(t, b.store.Engagement().Apply(t.Context(), c))
		require.NotEmpty(t, c.Outreach[0].ID)
		require.Empty(t, c.Outreach[1].ID)
	})
}

func TestRestart(t *testing.T) {
	t.Parallel()

	subtest(t, "S4_36_QueuedMessagesSurviveIt", setup, func(t *testing.T, b *bundle) {
		p := b.standing(b.away(), rules.Inactivity14d)
		dying := b.healthy()
		dying.at, dying.mishap = 1, dieBefore
		b.serve(b.start(dying))
		_, err := b.current().outreach.Drain(t.Context())
		require.ErrorIs(t, err, errMishap)
		require.True(t, dying.dead())
		require.Empty(t, b.got(p))
		b.serve(b.start(b.healthy()))
		b.later(time.Minute)
		require.Equal(t, []string{goodbyeFor(t, p)}, b.got(p))
		require.Equal(t, 1, b.outreach(p, rules.Goodbye, "completed", "sent"))
	})
}

func TestCapsOfOutreach(t *testing.T) {
	t.Parallel()
	queued := func(b *bundle, p conversation.Profile, kind rules.MessageType) {
		o := rules.Outreach{Type: kind, At: b.clock.Now()}
		b.exec(`insert into engagement_outreach (id, org_id, idempotency_key, event_type, subject, payload, priority, status, next_retry_at, profile_id,
			message_key, local_day, scheduled_for, expires_at, created_at, updated_at)
			values ($1, $2, $3, $4, $5, '{"count": 3}', 1, 'pending', $6, $7, 'ENGAGEMENT_WEEKLY_REVIEW', $8, $6, $9, $6, $6)`,
			newID(), orgID, o.Key(p.ID), string(kind), p.Phone, b.clock.Now(), p.ID, rules.LocalDay(b.clock.Now(), nil), o.Expires())
	}

	subtest(t, "OneADay", setup, func(t *testing.T, b *bundle) {
		p := b.standing(b.away(), rules.Inactivity14d)
		b.sends()
		queued(b, p, rules.WeeklyReview)
		b.later(time.Minute)
		require.Len(t, b.got(p), 1)
		require.Equal(t, 1, b.outreach(p, rules.WeeklyReview, "cancelled", "capped"))
	})

	subtest(t, "TwoAWeekOfAllThatReachesThePerson", setup, func(t *testing.T, b *bundle) {
		p, partner := b.away(), b.person()
		b.together(p, partner)
		b.exec(`update profiles set preferred_destination = 'group' where id = $1`, p.ID)
		b.standing(p, rules.Inactivity14d)
		b.sends()
		b.later(time.Second)
		require.Len(t, b.got(partner), 1)
		for range 2 {
			b.clock.Advance(day)
			queued(b, partner, rules.WeeklyReview)
			b.exec(`update engagement_outreach set idempotency_key = idempotency_key || id where event_type = 'weekly_review'`)
			b.sends()
			require.Len(t, b.got(partner), 2)
		}
		require.Equal(t, 1, b.outreach(partner, rules.WeeklyReview, "cancelled", "capped"))
	})
}

func TestWorkersOfOutreach(t *testing.T) {
	t.Parallel()

	subtest(t, "S4_80_TwoWorkersNeverSendOneRowTwice", setup, func(t *testing.T, b *bundle) {
		people := make([]conversation.Profile, 12)
		for i := range people {
			people[i] = b.known()
		}
		b.exec(`delete from engagement_outreach`)
		b.clock.Advance(14 * day)
		for _, p := range people {
			b.standing(p, rules.Inactivity14d)
		}
		var working sync.WaitGroup
		for range 3 {
			other := b.start(b.healthy())
			working.Go(func() {
				_, err := other.outreach.Drain(t.Context())
				require.NoError(t, err)
			})
		}
		working.Wait()
		b.later(time.Minute)
		for _, p := range people {
			require.Len(t, b.got(p), 1)
		}
		require.Len(t, b.messaging.Attempts(), 12)
	})

	subtest(t, "WorkerThatLostItsLeaseSendsNothing", setup, func(t *testing.T, b *bundle) {
		p := b.standing(b.away(), rules.Inactivity14d)
		b.current().ports.beforeBegin = func() {
			b.exec(`update engagement_outreach set lease_token = gen_random_uuid() where profile_id = $1`, p.ID)
		}
		b.sends()
		require.Empty(t, b.messaging.Taken(p.Phone)[1:], "but for the welcome")
		require.Zero(t, b.count(`select count(*) from engagement_outreach where profile_id = $1 and body is not null`, p.ID))
	})

	subtest(t, "S4_36_IsSentOnceWhicheverCallFails", setup, func(t *testing.T, b *bundle) {
		b.everyMishap(6, func(ports *ports) {
			p := b.standing(b.away(), rules.Inactivity14d)
			_, _ = b.start(ports).outreach.Drain(t.Context()) // it fails or dies, as the mishap says
			for range 4 {
				b.later(time.Minute)
			}
			require.Equal(t, []string{goodbyeFor(t, p)}, b.got(p))
			require.Equal(t, 1, b.outreach(p, rules.Goodbye, "completed", "sent"))
			require.False(t, b.in(p, rules.GoodbyeSent).Person.GoodbyeExpiresAt.IsZero())
		})
	})
}

func TestOperatorsOfOutreach(t *testing.T) {
	t.Parallel()
	newest := func(b *bundle) *onboardingv1.Outreach {
		page, err := b.current().people.ListOutreach(asOperator(b), &onboardingv1.ListOutreachRequest{Type: "goodbye", PageSize: 1})
		require.NoError(b.t, err)
		require.Len(b.t, page.GetOutreach(), 1)
		return page.GetOutreach()[0]
	}

	subtest(t, "CancelAndRetryFollowWhatMayHaveBeenSent", setup, func(t *testing.T, b *bundle) {
		ctx, server := asOperator(b), b.current()
		b.standing(b.away(), rules.Inactivity14d)
		id := newest(b).GetOutreachId()
		_, err := server.people.RetryOutreach(ctx, &onboardingv1.RetryOutreachRequest{OutreachId: id})
		refusedFor(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_OUTREACH_STATUS)
		b.messaging.Script(messagingtest.First(messagingtest.UnknownForever))
		b.sends()
		_, err = server.people.CancelOutreach(ctx, &onboardingv1.CancelOutreachRequest{OutreachId: id})
		refusedFor(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_OUTREACH_STATUS)
		require.Equal(t, "pending", newest(b).GetStatus())
		_, err = server.people.CancelOutreach(ctx, &onboardingv1.CancelOutreachRequest{OutreachId: newID()})
		refusedFor(t, err, codes.NotFound, onboardingv1.Reason_REASON_OUTREACH_NOT_FOUND)
	})

	subtest(t, "FailedRowIsRetriedWhileItsTimeLasts", setup, func(t *testing.T, b *bundle) {
		ctx, server := asOperator(b), b.current()
		p := b.standing(b.away(), rules.Inactivity14d)
		b.messaging.Script(messagingtest.First(messagingtest.ParkMissed))
		b.sends()
		require.Equal(t, "failed", newest(b).GetStatus())
		require.True(t, b.messaging.Resolve(newest(b).GetIdempotencyKey(), wasNotSent))
		_, err := server.people.RetryOutreach(ctx, &onboardingv1.RetryOutreachRequest{OutreachId: newest(b).GetOutreachId()})
		require.NoError(t, err)
		b.sends()
		require.Len(t, b.got(p), 1)

		late := b.standing(b.away(), rules.Inactivity14d)
		b.messaging.Script(messagingtest.First(messagingtest.Reject))
		b.sends()
		b.clock.Advance(7 * day)
		_, err = server.people.RetryOutreach(ctx, &onboardingv1.RetryOutreachRequest{OutreachId: newest(b).GetOutreachId()})
		refusedFor(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_OUTREACH_STATUS)
		cancelled, err := server.people.CancelOutreach(ctx, &onboardingv1.CancelOutreachRequest{OutreachId: newest(b).GetOutreachId()})
		require.NoError(t, err)
		require.Equal(t, "cancelled", cancelled.GetOutreach().GetStatus())
		require.Equal(t, late.ID, cancelled.GetOutreach().GetProfileId())
	})
}

// TestOutreachBegun is about rows that were claimed for sending, and of which nothing was sent.
func TestOutreachBegun(t *testing.T) {
	t.Parallel()

	subtest(t, "RowThatWaitsInMessagingOffersNoChoiceAndIsTakenBack", setup, func(t *testing.T, b *bundle) {
		p := b.standing(b.away(), rules.Inactivity14d)
		_, err := b.messaging.SetHold(t.Context(), &messagingv1.SetHoldRequest{OrgId: orgID, Phone: p.Phone, Held: true, Version: 9})
		require.NoError(t, err)
		b.sends()
		require.Zero(t, b.count(`select count(*) from engagement_outreach where profile_id = $1 and body is not null`, p.ID))
		n, wait, err := b.current().people.People.Admit(t.Context(), 4)
		require.NoError(t, err)
		require.Equal(t, 4, n, "others do not wait for one that is held")
		require.Zero(t, wait)
		b.reply(p, "2")
		b.in(p, rules.Active)
		require.Equal(t, 1, b.outreach(p, rules.Goodbye, "cancelled", "returned"))
	})

	subtest(t, "NothingIsBegunBeforeTheNextTurn", setup, func(t *testing.T, b *bundle) {
		first, second := b.away(), b.known()
		b.exec(`delete from engagement_outreach`)
		b.clock.Advance(14 * day)
		b.standing(first, rules.Inactivity14d)
		b.standing(second, rules.Inactivity14d)
		b.messaging.SetInterval(500 * time.Millisecond)
		people := b.current().people.People
		n, wait, err := people.Admit(t.Context(), 4)
		require.NoError(t, err)
		require.Equal(t, 4, n)
		require.Zero(t, wait)
		b.sends()
		n, wait, err = people.Admit(t.Context(), 4)
		require.NoError(t, err)
		require.Zero(t, n)
		require.Positive(t, wait)
		b.messaging.SetInterval(0)
		b.clock.Advance(wait)
		n, _, err = people.Admit(t.Context(), 4)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		b.clock.Advance(time.Minute)
		n, _, err = people.Admit(t.Context(), 4)
		require.NoError(t, err)
		require.Equal(t, 4, n)
		b.sends()
		require.Len(t, b.got(first), 1)
		require.Len(t, b.got(second), 1)
	})

	subtest(t, "MemberWhoLeftTheHouseholdGetsNothing", setup, func(t *testing.T, b *bundle) {
		p, partner := b.away(), b.person()
		b.together(p, partner)
		b.exec(`update profiles set preferred_destination = 'group' where id = $1`, p.ID)
		b.standing(p, rules.Inactivity14d)
		b.hold(partner)
		b.sends()
		require.NoError(t, b.joins(partner, ""))
		b.release(partner)
		b.later(10 * time.Minute)
		require.Empty(t, b.got(partner))
		require.Equal(t, 1, b.outreach(p, rules.Goodbye, "cancelled", "ineligible"))
	})

	subtest(t, "RowOfANewerReleaseIsLeftToIt", setup, func(t *testing.T, b *bundle) {
		p := b.standing(b.away(), rules.Inactivity14d)
		b.exec(`update engagement_outreach set payload = '{"of_tomorrow": 1}' where profile_id = $1`, p.ID)
		for range 5 {
			b.later(10 * time.Minute)
		}
		require.Equal(t, 1, b.outreach(p, rules.Goodbye, "pending", ""))
		b.later(8 * day)
		require.Equal(t, 1, b.outreach(p, rules.Goodbye, "cancelled", "expired"))
	})

	subtest(t, "RowThatFailedForGoodAndWasTakenAllTheSameIsSent", setup, func(t *testing.T, b *bundle) {
		p := b.standing(b.away(), rules.Inactivity14d)
		b.messaging.Script(func(int, *messagingv1.SendRequest) messagingtest.Outcome { return messagingtest.AcceptNoRow })
		for range 5 {
			b.later(time.Minute)
		}
		require.Equal(t, 1, b.outreach(p, rules.Goodbye, "completed", "sent"))
		require.Len(t, b.got(p), 1)
	})
}
