package engagement_test

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
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/engagement/rules"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
)

// later lets time pass, and works the outreach that is due then.
func (b *bundle) later(d time.Duration) {
	b.T.Helper()
	b.Clock.Advance(d)
	b.Sends()
}

// away is a person who was here for a while and is silent now: what welcomed them has been sent.
func (b *bundle) away() people.Profile {
	b.T.Helper()
	p := b.Known()
	b.Sends()
	b.Exec(`delete from engagement_outreach where profile_id = $1`, p.ID)
	b.Clock.Advance(14 * onboardingtest.Day)
	return p
}

// got lists what reached a person's phone but for the welcome.
func (b *bundle) got(p people.Profile) []string {
	b.T.Helper()
	welcome, err := catalog.DefaultEngagement().Render(p.Locale, catalog.Welcome, p.FirstName, catalog.Params{})
	require.NoError(b.T, err)
	texts := []string{}
	for _, text := range b.Messaging.Taken(p.Phone) {
		if text.Body != welcome {
			texts = append(texts, text.Body)
		}
	}
	return texts
}

func goodbyeFor(t *testing.T, p people.Profile) string {
	t.Helper()
	text, err := catalog.DefaultEngagement().Render(p.Locale, catalog.Goodbye, p.FirstName, catalog.Params{})
	require.NoError(t, err)
	return text
}

func TestOutreach(t *testing.T) {
	t.Parallel()

	// Also: S4-10.
	onboardingtest.Subtest(t, "S4_45_ChoicesOfAGoodbyeAreOpenFor48HoursAfterItsAcceptance", setup, func(t *testing.T, b *bundle) {
		p := b.Standing(b.away(), rules.Inactivity14d)
		require.True(t, b.In(p, rules.GoodbyeSent).Person.GoodbyeExpiresAt.IsZero())
		b.later(time.Hour)
		v := b.In(p, rules.GoodbyeSent)
		require.Equal(t, []string{goodbyeFor(t, p)}, b.got(p))
		require.WithinDuration(t, b.Clock.Now().Add(48*time.Hour), v.Person.GoodbyeExpiresAt, 0)
		require.Equal(t, 1, b.Outreach(p, rules.Goodbye, "completed", "sent"))
		b.later(time.Hour)
		require.Len(t, b.got(p), 1)
	})

	onboardingtest.Subtest(t, "AnOrganisationSendsItsOwnTexts", setup, func(t *testing.T, b *bundle) {
		decides := func(org, texts string) {
			b.Exec(`insert into organisation_settings (org_id, engagement_texts, version, updated_at) values ($1, $2, 1, $3)
				on conflict (org_id) do update set engagement_texts = excluded.engagement_texts`, org, texts, b.Clock.Now())
		}
		p := b.Standing(b.away(), rules.Inactivity14d)
		decides(onboardingtest.NewID(), `{"en": {"ENGAGEMENT_GOODBYE": "Theirs: 1, 2 or 3?"}}`)
		decides(onboardingtest.OrgID, `{"en": {"ENGAGEMENT_GOODBYE": "Acme: 1, 2 or 3?", "ENGAGEMENT_GOODBYE_BUSY": {"of a later release": true}},
			"xx": {"ENGAGEMENT_GOODBYE": "of a later release"}}`)
		b.later(time.Hour)
		require.Equal(t, []string{"Acme: 1, 2 or 3?"}, b.got(p))
		b.Reply(p, "2")
		busy, err := catalog.DefaultEngagement().Render(p.Locale, catalog.GoodbyeBusy, p.FirstName, catalog.Params{})
		require.NoError(t, err)
		require.Equal(t, busy, b.got(p)[1], "what it has not decided, or this release cannot read, is the deployment's")
		decides(onboardingtest.OrgID, `{"en": {"ENGAGEMENT_REMINDERS_OFF": "Acme: no more. \"reminders on\" brings them back."}}`)
		b.Reply(p, "stop reminders")
		require.Equal(t, `Acme: no more. "reminders on" brings them back.`, b.got(p)[2])
	})

	onboardingtest.Subtest(t, "S4_45_AcceptanceThatIsLearntLaterCountsFromWhenTwilioTookIt", setup, func(t *testing.T, b *bundle) {
		p := b.Standing(b.away(), rules.Inactivity14d)
		b.Messaging.Script(messagingtest.First(messagingtest.UnknownTaken))
		b.Sends()
		taken := b.Clock.Now()
		b.Clock.Advance(3 * time.Hour)
		require.True(t, b.In(p, rules.GoodbyeSent).Person.GoodbyeExpiresAt.IsZero())
		b.Messaging.ResolveAll() // by the carrier's own list
		b.Sends()
		require.Equal(t, 1, b.Outreach(p, rules.Goodbye, "completed", "sent"))
		require.WithinDuration(t, taken.Add(48*time.Hour), b.In(p, rules.GoodbyeSent).Person.GoodbyeExpiresAt, 0)
	})

	// Also: S4-33.
	onboardingtest.Subtest(t, "S4_62_TriesAreASecondAndTwoApartAndTheThirdIsTheLast", setup, func(t *testing.T, b *bundle) {
		p := b.Standing(b.away(), rules.Inactivity14d)
		b.Exec(`alter table engagement_outreach add constraint broken check (body is null)`)
		for _, tries := range []struct {
			after time.Duration
			used  int
		}{{0, 1}, {999 * time.Millisecond, 1}, {time.Millisecond, 2}, {1999 * time.Millisecond, 2}, {time.Millisecond, 3}} {
			b.later(tries.after)
			require.Equal(t, tries.used, b.Count(`select attempts from engagement_outreach where profile_id = $1`, p.ID))
		}
		require.Equal(t, 1, b.Outreach(p, rules.Goodbye, "failed", "given_up"))
		require.Positive(t, b.Count(`select length(error_message) from engagement_outreach where profile_id = $1`, p.ID))
		require.Empty(t, b.got(p))
	})

	onboardingtest.Subtest(t, "S4_34_RefusalForGoodFailsAtOnce", setup, func(t *testing.T, b *bundle) {
		p := b.Standing(b.away(), rules.Inactivity14d)
		b.Messaging.Script(messagingtest.First(messagingtest.Reject))
		b.Sends()
		require.Equal(t, 1, b.Outreach(p, rules.Goodbye, "failed", "rejected"))
		require.Equal(t, 1, b.Count(`select attempts from engagement_outreach where profile_id = $1`, p.ID))
		require.True(t, b.Engaged(p).Situation.GoodbyeEnded, "the daily run ends the goodbye")
	})

	onboardingtest.Subtest(t, "S4_61_MessagingThatIsAwayUsesNoTry", setup, func(t *testing.T, b *bundle) {
		p := b.Standing(b.away(), rules.Inactivity14d)
		b.Messaging.SetDown(true)
		for range 10 {
			b.later(time.Minute)
		}
		require.Zero(t, b.Count(`select attempts from engagement_outreach where profile_id = $1`, p.ID))
		b.Messaging.SetDown(false)
		b.later(time.Minute)
		require.Len(t, b.got(p), 1)
	})

	onboardingtest.Subtest(t, "AnswerInDoubtIsWaitedForAndTheSameRequestIsAskedAgain", setup, func(t *testing.T, b *bundle) {
		p := b.Standing(b.away(), rules.Inactivity14d)
		b.Messaging.Script(messagingtest.First(messagingtest.UnknownTaken))
		b.Sends()
		b.Exec(`update profiles set first_name = 'Eva', locale = 'pt-BR' where id = $1`, p.ID)
		b.later(time.Minute)
		require.Equal(t, 1, b.Outreach(p, rules.Goodbye, "pending", ""))
		b.Messaging.Settle()
		b.later(time.Minute)
		require.Equal(t, 1, b.Outreach(p, rules.Goodbye, "completed", "sent"))
		require.Equal(t, []string{goodbyeFor(t, p)}, b.got(p))
	})

	onboardingtest.Subtest(t, "OneThatIsNotWantedAnyMoreAndStaysInDoubtIsAskedAboutMoreSeldom", setup, func(t *testing.T, b *bundle) {
		p := b.Standing(b.away(), rules.Inactivity14d)
		b.Messaging.Script(messagingtest.First(messagingtest.UnknownTaken))
		b.Sends()
		b.Reply(p, "hi")
		for range 12 {
			b.later(time.Hour)
		}
		require.Equal(t, 1, b.Count(`select count(*) from engagement_outreach
			where profile_id = $1 and status = 'pending' and next_retry_at = updated_at + interval '1 hour'`, p.ID))
	})

	onboardingtest.Subtest(t, "WaitsForTheMorningOfThePerson", setup, func(t *testing.T, b *bundle) {
		p := b.away()
		b.Exec(`update profiles set time_zone = 'Pacific/Auckland' where id = $1`, p.ID) // 01:00 there
		b.Standing(p, rules.Inactivity14d)
		b.Sends()
		require.Empty(t, b.got(p))
		b.later(7*time.Hour - time.Minute)
		require.Empty(t, b.got(p))
		b.later(time.Minute)
		require.Len(t, b.got(p), 1)
	})

	onboardingtest.Subtest(t, "S4_46_GoesToTheHouseholdInTheLocaleOfEachAndStopSilencesItsWriter", setup, func(t *testing.T, b *bundle) {
		p, partner, silent := b.away(), b.Person(), b.Person()
		b.Together(p, partner, silent)
		b.Exec(`update profiles set preferred_destination = 'group' where id = $1`, p.ID)
		b.Exec(`update profiles set locale = 'pt-BR' where id = $1`, partner.ID)
		b.Reply(silent, "STOP")
		b.Standing(p, rules.Inactivity14d)
		b.Sends()
		b.later(time.Second)
		partner.Locale = "pt-BR"
		require.Equal(t, []string{goodbyeFor(t, p)}, b.got(p))
		require.Equal(t, []string{goodbyeFor(t, partner)}, b.got(partner))
		require.Empty(t, b.got(silent))
		require.Equal(t, 2, b.Outreach(p, rules.Goodbye, "completed", "sent"))
		require.Equal(t, 1, b.Outreach(p, rules.Goodbye, "cancelled", "opted_out"))
		require.Equal(t, 1, b.Count(`select count(*) from engagement_outreach
			where member_id = $1 and idempotency_key = (select idempotency_key || ':' || $1 from engagement_outreach where member_id is null)`, partner.ID))
	})

	onboardingtest.Subtest(t, "S4_55_WithoutAHouseholdTheGroupIsTheOwnPhone", setup, func(t *testing.T, b *bundle) {
		p := b.away()
		b.Exec(`update profiles set preferred_destination = 'group' where id = $1`, p.ID)
		b.Standing(p, rules.Inactivity14d)
		b.Sends()
		require.Len(t, b.got(p), 1)
		require.Equal(t, []string{"individual"}, onboardingtest.List[string](b.Bundle, `select destination from engagement_outreach where profile_id = $1`, p.ID))
	})
}

// TestOutreachThatIsNotWanted is about what changed after a row was queued.
func TestOutreachThatIsNotWanted(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, outcome string
		meanwhile     func(b *bundle, p people.Profile)
	}{
		{"S4_82_PersonWhoReturned", "returned", func(b *bundle, p people.Profile) { b.Reply(p, "coffee 5") }},
		{"S4_83_PersonWhoOptedOut", "opted_out", func(b *bundle, p people.Profile) {
			b.Exec(`update profiles set opted_out_at = $2 where id = $1`, p.ID, b.Clock.Now())
		}},
		{"S4_73_PersonWithoutReminders", "reminders_off", func(b *bundle, p people.Profile) {
			require.NoError(b.T, b.Switches(rpc.RoleOperator, p, "off"))
		}},
		{"S4_83_RemindersThatOnlyMessagingKnowsToBeOff", "reminders_off", func(b *bundle, p people.Profile) {
			_, err := b.Messaging.SetReminders(b.T.Context(), &messagingv1.SetRemindersRequest{
				OrgId: onboardingtest.OrgID, Phone: p.Phone, Reminders: messagingv1.Switch_SWITCH_OFF, Source: "person", SaidAt: timestamppb.New(b.Clock.Now()),
			})
			require.NoError(b.T, err)
		}},
		{"S4_83_OptOutThatOnlyMessagingKnows", "opted_out", func(b *bundle, p people.Profile) {
			b.Reply(p, "STOP")
			b.Exec(`update profiles set opted_out_at = null where id = $1`, p.ID)
		}},
		{"PersonWhoBeganOnboarding", "ineligible", func(b *bundle, p people.Profile) { b.Activate(p) }},
		{"OneThatExpired", "expired", func(b *bundle, p people.Profile) {
			b.Hold(p)
			b.later(8 * onboardingtest.Day)
		}},
	} {
		onboardingtest.Subtest(t, tc.name, setup, func(t *testing.T, b *bundle) {
			p := b.Standing(b.away(), rules.Inactivity14d)
			tc.meanwhile(b, p)
			before := len(b.got(p))
			b.later(time.Minute)
			require.Len(t, b.got(p), before)
			require.Equal(t, 1, b.Outreach(p, rules.Goodbye, "cancelled", tc.outcome), "%v",
				onboardingtest.List[string](b.Bundle, `select status || ' ' || outcome from engagement_outreach where profile_id = $1`, p.ID))
		})
	}

	onboardingtest.Subtest(t, "PersonWhoseTicketSomebodyHasRead", setup, func(t *testing.T, b *bundle) {
		p := b.Standing(b.away(), rules.Inactivity14d)
		b.Exec(`update tickets set notes = 1 where profile_id = $1 and reason = 'unclaimed'`, p.ID)
		before := len(b.got(p))
		b.later(time.Minute)
		require.Len(t, b.got(p), before, "who has written a note means to answer")
		b.Exec(`update tickets set notes = 0`)
		b.later(onboardingtest.Day)
		require.Len(t, b.got(p), before+1, "nobody attends to it")
	})

	onboardingtest.Subtest(t, "S4_82_MessageThatIsStoredBeforeTheClaimIsWaitedFor", setup, func(t *testing.T, b *bundle) {
		p := b.Standing(b.away(), rules.Inactivity14d)
		b.Current().Ports.BeforeBegin = func() { b.Unrecorded(p, "coffee 5") }
		b.Sends()
		b.later(time.Second)
		require.Empty(t, b.got(p))
		b.Clock.Advance(time.Minute)
		b.Quiet()
		b.later(time.Minute)
		require.Empty(t, b.got(p))
		b.In(p, rules.Active)
	})

	onboardingtest.Subtest(t, "S4_82_PersonWhoReturnsBeforeTheClaimGetsNone", setup, func(t *testing.T, b *bundle) {
		p := b.Standing(b.away(), rules.Inactivity14d)
		b.Current().Ports.BeforeBegin = func() { b.Reply(p, "coffee 5") }
		b.later(time.Second)
		b.In(p, rules.Active)
		b.later(time.Minute)
		require.Empty(t, b.got(p))
		require.Equal(t, 1, b.Outreach(p, rules.Goodbye, "cancelled", "returned"))
	})

	onboardingtest.Subtest(t, "OneThatMayHaveBeenSentIsNotTakenBack", setup, func(t *testing.T, b *bundle) {
		p := b.Standing(b.away(), rules.Inactivity14d)
		b.Messaging.Script(messagingtest.First(messagingtest.UnknownTaken))
		b.Sends()
		b.Reply(p, "coffee 5")
		b.later(time.Minute)
		require.Equal(t, 1, b.Outreach(p, rules.Goodbye, "pending", ""))
		b.Messaging.Settle()
		b.later(time.Minute)
		require.Equal(t, 1, b.Outreach(p, rules.Goodbye, "completed", "sent"))
		require.False(t, b.In(p, rules.Active).Person.GoodbyeExpiresAt.IsZero(), "its choices are honoured")
	})

	onboardingtest.Subtest(t, "OneThatWasThrottledIsTakenBackWhenThePersonReturns", setup, func(t *testing.T, b *bundle) {
		p := b.Standing(b.away(), rules.Inactivity14d)
		b.Messaging.Script(messagingtest.First(messagingtest.Throttle))
		b.Sends()
		b.Reply(p, "coffee 5")
		b.later(time.Minute)
		require.Equal(t, 1, b.Outreach(p, rules.Goodbye, "cancelled", "returned"))
		require.True(t, b.In(p, rules.Active).Person.GoodbyeSentAt.IsZero(), "there is no choice to be made")
	})
}

// TestChoicesOfAGoodbye is about which goodbye its choices are of, and from when on.
func TestChoicesOfAGoodbye(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "CountFromItsFirstAcceptanceInTheHousehold", setup, func(t *testing.T, b *bundle) {
		p, partner := b.away(), b.Person()
		b.Together(p, partner)
		b.Exec(`update profiles set preferred_destination = 'group' where id = $1`, p.ID)
		b.Hold(partner)
		b.Standing(p, rules.Inactivity14d)
		b.Sends()
		until := b.In(p, rules.GoodbyeSent).Person.GoodbyeExpiresAt
		b.Release(partner)
		b.later(time.Hour)
		require.Equal(t, []string{goodbyeFor(t, partner)}, b.got(partner))
		require.True(t, b.In(p, rules.GoodbyeSent).Person.GoodbyeExpiresAt.Equal(until))
	})

	onboardingtest.Subtest(t, "AreNotOpenedByTheLateAcceptanceOfAnotherGoodbye", setup, func(t *testing.T, b *bundle) {
		p := b.Standing(b.away(), rules.Inactivity14d)
		b.Messaging.Script(messagingtest.First(messagingtest.UnknownTaken))
		b.Sends()
		b.Reply(p, "coffee 5")
		b.Clock.Advance(14 * onboardingtest.Day)
		b.Standing(p, rules.Inactivity14d)
		b.Exec(`update engagement_outreach set next_retry_at = $2 where profile_id = $1 and body is null`, p.ID, b.Clock.Now().Add(onboardingtest.Day))
		b.Messaging.Settle()
		b.later(time.Minute)
		require.Equal(t, 1, b.Outreach(p, rules.Goodbye, "completed", "sent"))
		require.True(t, b.In(p, rules.GoodbyeSent).Person.GoodbyeExpiresAt.IsZero())
	})

	onboardingtest.Subtest(t, "StayWhileItMayStillBeAcceptedForAnotherMember", setup, func(t *testing.T, b *bundle) {
		p, partner := b.away(), b.Person()
		b.Together(p, partner)
		b.Exec(`update profiles set preferred_destination = 'group' where id = $1`, p.ID)
		b.Standing(p, rules.Inactivity14d)
		b.Messaging.Script(messagingtest.First(messagingtest.UnknownTaken, messagingtest.Throttle))
		b.Sends()
		b.later(time.Millisecond)
		b.Reply(p, "coffee 5")
		b.later(10 * time.Minute)
		require.Equal(t, 1, b.Outreach(p, rules.Goodbye, "cancelled", "returned"), "the partner's")
		require.Equal(t, 1, b.Outreach(p, rules.Goodbye, "pending", ""))
		require.False(t, b.In(p, rules.Active).Person.GoodbyeSentAt.IsZero())
	})
}

// TestQueueOfOutreach is about what is queued, before anything is sent.
func TestQueueOfOutreach(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "S4_30_WhatIsQueuedIsPendingWithoutATry", setup, func(t *testing.T, b *bundle) {
		p := b.GoodbyeQueued()
		require.Equal(t, []string{"pending 0"}, onboardingtest.List[string](b.Bundle, `select status || ' ' || attempts from engagement_outreach
			where profile_id = $1 and event_type = 'goodbye'`, p.ID))
		require.Equal(t, []string{"pending 0"}, onboardingtest.List[string](b.Bundle, `select status || ' ' || retry_count from engagement_message_queue
			where user_id = $1 and message_type = 'goodbye'`, p.ID))
	})

	onboardingtest.Subtest(t, "S4_31_KeyIsQueuedOnceAndTheFirstStays", setup, func(t *testing.T, b *bundle) {
		p := b.GoodbyeQueued()
		const queued = `select id || ' ' || idempotency_key from engagement_outreach where profile_id = $1 and event_type = 'goodbye'`
		first := onboardingtest.List[string](b.Bundle, queued, p.ID)
		b.Exec(`update user_engagement_states set state = 'active', goodbye_sent_at = null where profile_id = $1`, p.ID)
		b.Standing(p, rules.Inactivity14d)
		require.Len(t, b.Triggers(p), 3)
		require.Len(t, first, 1)
		require.Equal(t, first, onboardingtest.List[string](b.Bundle, queued, p.ID))
	})
}

// TestTurnsOfOutreach is about the order of what is due.
func TestTurnsOfOutreach(t *testing.T) {
	t.Parallel()
	// queued are goodbyes that are due at these times from now on, in the order of their ids.
	queued := func(b *bundle, due ...time.Duration) []people.Profile {
		people := make([]people.Profile, len(due))
		for i := range due {
			people[i] = b.Known()
		}
		b.Exec(`delete from engagement_outreach`)
		b.Clock.Advance(14 * onboardingtest.Day)
		for i, p := range people {
			b.Standing(p, rules.Inactivity14d)
			b.Exec(`update engagement_outreach set next_retry_at = $2, scheduled_for = $2 where profile_id = $1`, p.ID, b.Clock.Now().Add(due[i]))
		}
		return people
	}

	onboardingtest.Subtest(t, "S4_61_ClaimTakesWhatIsDueOldestFirstUpToItsLimit", setup, func(t *testing.T, b *bundle) {
		people := queued(b, -time.Second, -3*time.Second, time.Millisecond, -2*time.Second)
		claim := func() []string {
			claimed, err := b.Store.Engagement().Queue().Claim(t.Context(), queue.Claim{Limit: 2, Now: b.Clock.Now(), Until: b.Clock.Now().Add(time.Minute)})
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
	b.T.Helper()
	about := []string{}
	for _, line := range b.Log.Of(b.T, event) {
		about = append(about, onboardingtest.List[string](b.Bundle, `select $2 || ' ' || status from engagement_outreach where id = $1 and profile_id = $3`,
			line["outreach_id"], line["type"], line["profile_id"])...)
	}
	return about
}

func TestLogOfOutreach(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "S4_36_TellsWhatIsQueuedSentAndFailed", setup, func(t *testing.T, b *bundle) {
		sent, failed := b.Known(), b.Known()
		require.Equal(t, []string{"welcome pending", "welcome pending"}, b.logged("engagement.outreach_queued"))
		b.Messaging.Script(func(_ int, in *messagingv1.SendRequest) messagingtest.Outcome {
			if in.GetTo() == failed.Phone {
				return messagingtest.Reject
			}
			return messagingtest.Accept
		})
		b.Sends()
		require.Equal(t, []string{"welcome completed"}, b.logged("engagement.outreach_sent"))
		require.Equal(t, []string{"welcome failed"}, b.logged("engagement.outreach_failed"))
		require.Len(t, b.Messaging.Taken(sent.Phone), 1)
		require.NotEmpty(t, b.Log.Of(t, "engagement.outreach_failed")[0]["error"])
	})

	onboardingtest.Subtest(t, "S4_36_TellsWhatARunQueuesAndForWhomElse", runsToday, func(t *testing.T, b *bundle) {
		p, partner := b.Known(), b.Person()
		b.Exec(`delete from engagement_outreach`)
		b.Together(p, partner)
		b.Exec(`update profiles set preferred_destination = 'group' where id = $1`, p.ID)
		before := len(b.logged("engagement.outreach_queued"))
		b.Exec(`delete from user_engagement_states where profile_id <> $1`, p.ID)
		b.OnDay(16, 9)
		b.Works()
		require.Equal(t, []string{"goodbye pending"}, b.logged("engagement.outreach_queued")[before:])
		b.Sends()
		require.Equal(t, []string{"goodbye completed", "goodbye completed"}, b.logged("engagement.outreach_queued")[before:], "and the partner's")
	})

	onboardingtest.Subtest(t, "S4_31_S4_36_KeyThatIsThereIsNotToldAgain", setup, func(t *testing.T, b *bundle) {
		p := b.asked()
		welcome := rules.Outreach{Type: rules.Welcome, At: b.Clock.Now()}
		row := engagement.Outreach{
			Type: welcome.Type, Key: welcome.Key(p.ID), MessageKey: catalog.Welcome, LocalDay: rules.LocalDay(welcome.At, nil), DueAt: welcome.At,
			ExpiresAt: welcome.Expires(),
		}
		v, at := b.Engaged(p), b.Clock.Now()
		moves, _, err := rules.DefaultConfig().Limits.Answer(v.Person, v.Situation, rules.ChoiceAllGood, at, at)
		require.NoError(t, err)
		c := engagement.Change{View: v, Cause: "message:" + onboardingtest.NewID(), Moves: moves, Outreach: []engagement.Outreach{row, row}, At: at}
		require.NoError(t, b.Store.Engagement().Apply(t.Context(), c))
		require.NotEmpty(t, c.Outreach[0].ID)
		require.Empty(t, c.Outreach[1].ID)
	})
}

func TestRestart(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "S4_36_QueuedMessagesSurviveIt", setup, func(t *testing.T, b *bundle) {
		p := b.Standing(b.away(), rules.Inactivity14d)
		dying := b.Healthy()
		dying.At, dying.Mishap = 1, onboardingtest.DieBefore
		b.Serve(b.Start(dying))
		_, err := b.Current().Outreach.Drain(t.Context())
		require.ErrorIs(t, err, onboardingtest.ErrMishap)
		require.True(t, dying.Dead())
		require.Empty(t, b.got(p))
		b.Serve(b.Start(b.Healthy()))
		b.later(time.Minute)
		require.Equal(t, []string{goodbyeFor(t, p)}, b.got(p))
		require.Equal(t, 1, b.Outreach(p, rules.Goodbye, "completed", "sent"))
	})
}

func TestCapsOfOutreach(t *testing.T) {
	t.Parallel()
	queued := func(b *bundle, p people.Profile, kind rules.MessageType) {
		o := rules.Outreach{Type: kind, At: b.Clock.Now()}
		b.Exec(`insert into engagement_outreach (id, org_id, idempotency_key, event_type, subject, payload, priority, status, next_retry_at, profile_id,
			message_key, local_day, scheduled_for, expires_at, created_at, updated_at)
			values ($1, $2, $3, $4, $5, '{"count": 3}', 1, 'pending', $6, $7, 'ENGAGEMENT_WEEKLY_REVIEW', $8, $6, $9, $6, $6)`,
			onboardingtest.NewID(), onboardingtest.OrgID, o.Key(p.ID), string(kind), p.Phone, b.Clock.Now(), p.ID, rules.LocalDay(b.Clock.Now(), nil), o.Expires())
	}

	onboardingtest.Subtest(t, "OneADay", setup, func(t *testing.T, b *bundle) {
		p := b.Standing(b.away(), rules.Inactivity14d)
		b.Sends()
		queued(b, p, rules.WeeklyReview)
		b.later(time.Minute)
		require.Len(t, b.got(p), 1)
		require.Equal(t, 1, b.Outreach(p, rules.WeeklyReview, "cancelled", "capped"))
	})

	onboardingtest.Subtest(t, "TwoAWeekOfAllThatReachesThePerson", setup, func(t *testing.T, b *bundle) {
		p, partner := b.away(), b.Person()
		b.Together(p, partner)
		b.Exec(`update profiles set preferred_destination = 'group' where id = $1`, p.ID)
		b.Standing(p, rules.Inactivity14d)
		b.Sends()
		b.later(time.Second)
		require.Len(t, b.got(partner), 1)
		for range 2 {
			b.Clock.Advance(onboardingtest.Day)
			queued(b, partner, rules.WeeklyReview)
			b.Exec(`update engagement_outreach set idempotency_key = idempotency_key || id where event_type = 'weekly_review'`)
			b.Sends()
			require.Len(t, b.got(partner), 2)
		}
		require.Equal(t, 1, b.Outreach(partner, rules.WeeklyReview, "cancelled", "capped"))
	})
}

func TestWorkersOfOutreach(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "S4_80_TwoWorkersNeverSendOneRowTwice", setup, func(t *testing.T, b *bundle) {
		people := make([]people.Profile, 12)
		for i := range people {
			people[i] = b.Known()
		}
		b.Exec(`delete from engagement_outreach`)
		b.Clock.Advance(14 * onboardingtest.Day)
		for _, p := range people {
			b.Standing(p, rules.Inactivity14d)
		}
		var working sync.WaitGroup
		for range 3 {
			other := b.Start(b.Healthy())
			working.Go(func() {
				_, err := other.Outreach.Drain(t.Context())
				require.NoError(t, err)
			})
		}
		working.Wait()
		b.later(time.Minute)
		for _, p := range people {
			require.Len(t, b.got(p), 1)
		}
		require.Len(t, b.Messaging.Attempts(), 12)
	})

	onboardingtest.Subtest(t, "WorkerThatLostItsLeaseSendsNothing", setup, func(t *testing.T, b *bundle) {
		p := b.Standing(b.away(), rules.Inactivity14d)
		b.Current().Ports.BeforeBegin = func() {
			b.Exec(`update engagement_outreach set lease_token = gen_random_uuid() where profile_id = $1`, p.ID)
		}
		b.Sends()
		require.Empty(t, b.Messaging.Taken(p.Phone)[1:], "but for the welcome")
		require.Zero(t, b.Count(`select count(*) from engagement_outreach where profile_id = $1 and body is not null`, p.ID))
	})

	onboardingtest.Subtest(t, "S4_36_IsSentOnceWhicheverCallFails", setup, func(t *testing.T, b *bundle) {
		b.EveryMishap(6, func(ports *onboardingtest.Ports) {
			p := b.Standing(b.away(), rules.Inactivity14d)
			_, _ = b.Start(ports).Outreach.Drain(t.Context()) // it fails or dies, as the mishap says
			for range 4 {
				b.later(time.Minute)
			}
			require.Equal(t, []string{goodbyeFor(t, p)}, b.got(p))
			require.Equal(t, 1, b.Outreach(p, rules.Goodbye, "completed", "sent"))
			require.False(t, b.In(p, rules.GoodbyeSent).Person.GoodbyeExpiresAt.IsZero())
		})
	})
}

func TestOperatorsOfOutreach(t *testing.T) {
	t.Parallel()
	newest := func(b *bundle) *onboardingv1.Outreach {
		page, err := b.Current().People.ListOutreach(asOperator(b), &onboardingv1.ListOutreachRequest{Type: "goodbye", PageSize: 1})
		require.NoError(b.T, err)
		require.Len(b.T, page.GetOutreach(), 1)
		return page.GetOutreach()[0]
	}

	onboardingtest.Subtest(t, "CancelAndRetryFollowWhatMayHaveBeenSent", setup, func(t *testing.T, b *bundle) {
		ctx, server := asOperator(b), b.Current()
		b.Standing(b.away(), rules.Inactivity14d)
		id := newest(b).GetOutreachId()
		_, err := server.People.RetryOutreach(ctx, &onboardingv1.RetryOutreachRequest{OutreachId: id})
		onboardingtest.Refused(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_OUTREACH_STATUS)
		b.Messaging.Script(messagingtest.First(messagingtest.UnknownForever))
		b.Sends()
		_, err = server.People.CancelOutreach(ctx, &onboardingv1.CancelOutreachRequest{OutreachId: id})
		onboardingtest.Refused(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_OUTREACH_STATUS)
		require.Equal(t, "pending", newest(b).GetStatus())
		_, err = server.People.CancelOutreach(ctx, &onboardingv1.CancelOutreachRequest{OutreachId: onboardingtest.NewID()})
		onboardingtest.Refused(t, err, codes.NotFound, onboardingv1.Reason_REASON_OUTREACH_NOT_FOUND)
	})

	onboardingtest.Subtest(t, "FailedRowIsRetriedWhileItsTimeLasts", setup, func(t *testing.T, b *bundle) {
		ctx, server := asOperator(b), b.Current()
		p := b.Standing(b.away(), rules.Inactivity14d)
		b.Messaging.Script(messagingtest.First(messagingtest.ParkMissed))
		b.Sends()
		require.Equal(t, "failed", newest(b).GetStatus())
		require.True(t, b.Messaging.Resolve(newest(b).GetIdempotencyKey(), onboardingtest.WasNotSent))
		_, err := server.People.RetryOutreach(ctx, &onboardingv1.RetryOutreachRequest{OutreachId: newest(b).GetOutreachId()})
		require.NoError(t, err)
		b.Sends()
		require.Len(t, b.got(p), 1)

		late := b.Standing(b.away(), rules.Inactivity14d)
		b.Messaging.Script(messagingtest.First(messagingtest.Reject))
		b.Sends()
		b.Clock.Advance(7 * onboardingtest.Day)
		_, err = server.People.RetryOutreach(ctx, &onboardingv1.RetryOutreachRequest{OutreachId: newest(b).GetOutreachId()})
		onboardingtest.Refused(t, err, codes.FailedPrecondition, onboardingv1.Reason_REASON_OUTREACH_STATUS)
		cancelled, err := server.People.CancelOutreach(ctx, &onboardingv1.CancelOutreachRequest{OutreachId: newest(b).GetOutreachId()})
		require.NoError(t, err)
		require.Equal(t, "cancelled", cancelled.GetOutreach().GetStatus())
		require.Equal(t, late.ID, cancelled.GetOutreach().GetProfileId())
		_, err = server.People.CancelOutreach(ctx, &onboardingv1.CancelOutreachRequest{OutreachId: newest(b).GetOutreachId()})
		require.ErrorContains(t, err, "the outreach is cancelled; only one that is pending or failed can be changed so")
	})
}

// TestOutreachBegun is about rows that were claimed for sending, and of which nothing was sent.
func TestOutreachBegun(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "RowThatWaitsInMessagingOffersNoChoiceAndIsTakenBack", setup, func(t *testing.T, b *bundle) {
		p := b.Standing(b.away(), rules.Inactivity14d)
		_, err := b.Messaging.SetHold(t.Context(), &messagingv1.SetHoldRequest{OrgId: onboardingtest.OrgID, Phone: p.Phone, Held: true, Version: 9})
		require.NoError(t, err)
		b.Sends()
		require.Zero(t, b.Count(`select count(*) from engagement_outreach where profile_id = $1 and body is not null`, p.ID))
		n, wait, err := b.Current().People.People.Admit(t.Context(), 4)
		require.NoError(t, err)
		require.Equal(t, 4, n, "others do not wait for one that is held")
		require.Zero(t, wait)
		b.Reply(p, "2")
		b.In(p, rules.Active)
		require.Equal(t, 1, b.Outreach(p, rules.Goodbye, "cancelled", "returned"))
	})

	onboardingtest.Subtest(t, "NothingIsBegunBeforeTheNextTurn", setup, func(t *testing.T, b *bundle) {
		first, second := b.away(), b.Known()
		b.Exec(`delete from engagement_outreach`)
		b.Clock.Advance(14 * onboardingtest.Day)
		b.Standing(first, rules.Inactivity14d)
		b.Standing(second, rules.Inactivity14d)
		b.Messaging.SetInterval(500 * time.Millisecond)
		people := b.Current().People.People
		n, wait, err := people.Admit(t.Context(), 4)
		require.NoError(t, err)
		require.Equal(t, 4, n)
		require.Zero(t, wait)
		b.Sends()
		n, wait, err = people.Admit(t.Context(), 4)
		require.NoError(t, err)
		require.Zero(t, n)
		require.Positive(t, wait)
		b.Messaging.SetInterval(0)
		b.Clock.Advance(wait)
		n, _, err = people.Admit(t.Context(), 4)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		b.Clock.Advance(time.Minute)
		n, _, err = people.Admit(t.Context(), 4)
		require.NoError(t, err)
		require.Equal(t, 4, n)
		b.Sends()
		require.Len(t, b.got(first), 1)
		require.Len(t, b.got(second), 1)
	})

	onboardingtest.Subtest(t, "MemberWhoLeftTheHouseholdGetsNothing", setup, func(t *testing.T, b *bundle) {
		p, partner := b.away(), b.Person()
		b.Together(p, partner)
		b.Exec(`update profiles set preferred_destination = 'group' where id = $1`, p.ID)
		b.Standing(p, rules.Inactivity14d)
		b.Hold(partner)
		b.Sends()
		require.NoError(t, b.Joins(partner, ""))
		b.Release(partner)
		b.later(10 * time.Minute)
		require.Empty(t, b.got(partner))
		require.Equal(t, 1, b.Outreach(p, rules.Goodbye, "cancelled", "ineligible"))
	})

	onboardingtest.Subtest(t, "RowOfANewerReleaseIsLeftToIt", setup, func(t *testing.T, b *bundle) {
		p := b.Standing(b.away(), rules.Inactivity14d)
		b.Exec(`update engagement_outreach set payload = '{"of_tomorrow": 1}' where profile_id = $1`, p.ID)
		for range 5 {
			b.later(10 * time.Minute)
		}
		require.Equal(t, 1, b.Outreach(p, rules.Goodbye, "pending", ""))
		b.later(8 * onboardingtest.Day)
		require.Equal(t, 1, b.Outreach(p, rules.Goodbye, "cancelled", "expired"))
	})

	onboardingtest.Subtest(t, "RowThatFailedForGoodAndWasTakenAllTheSameIsSent", setup, func(t *testing.T, b *bundle) {
		p := b.Standing(b.away(), rules.Inactivity14d)
		b.Messaging.Script(func(int, *messagingv1.SendRequest) messagingtest.Outcome { return messagingtest.AcceptNoRow })
		for range 5 {
			b.later(time.Minute)
		}
		require.Equal(t, 1, b.Outreach(p, rules.Goodbye, "completed", "sent"))
		require.Len(t, b.got(p), 1)
	})
}
