package onboarding_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/messagingtest"
	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/goals"
	"paceline.internal/services/onboarding/postgres"
	"paceline.internal/services/onboarding/session"
)

// speaker is a person with a language and a clock of their own, where it is seven in the morning.
func (b *bundle) speaker(locale string) conversation.Profile {
	b.t.Helper()
	zone := map[string]string{"en": "America/New_York", "pt-BR": "America/Sao_Paulo"}[locale]
	p, _, err := b.current().service.Enrol(b.t.Context(), orgID, conversation.Person{
		Phone: fmt.Sprintf("+551198765%04d", b.people.Add(1)), FirstName: "Ana", Locale: locale, TimeZone: zone,
	})
	require.NoError(b.t, err)
	return p
}

func american(b *bundle) conversation.Profile { return b.speaker("en") }

// reminded is a person who has said a goal for tomorrow at nine, and has its answer.
func (b *bundle) reminded(words string) (conversation.Profile, goals.Goal) {
	b.t.Helper()
	p := american(b)
	b.reply(p, words)
	return p, b.saidGoal(p)
}

const johnAtNine = "Remind me to call John tomorrow at 9am"

// saidGoal is the newest goal of a person.
func (b *bundle) saidGoal(p conversation.Profile) goals.Goal {
	b.t.Helper()
	all := b.goalsOf(p)
	require.NotEmpty(b.t, all)
	return all[0]
}

func (b *bundle) goalsOf(p conversation.Profile) []goals.Goal {
	b.t.Helper()
	all, err := b.store.Goals().List(b.t.Context(), postgres.GoalFilter{ProfileID: p.ID, Limit: 200})
	require.NoError(b.t, err)
	return all
}

// nowIs is a goal as it stands, in one line.
func (b *bundle) nowIs(g goals.Goal) string {
	b.t.Helper()
	v, err := b.store.Goals().Goal(b.t.Context(), orgID, g.ID, b.clock.Now())
	require.NoError(b.t, err)
	return strings.TrimSpace(string(v.Status) + " " + v.Reason)
}

// comes lets the clock jump to when a goal is due, and everything be done then.
func (b *bundle) comes(g goals.Goal) {
	b.t.Helper()
	b.clock.Advance(g.ScheduledFor.Sub(b.clock.Now()))
	b.work()
}

// texted are the texts that a person got.
func (b *bundle) texted(p conversation.Profile) []string {
	b.t.Helper()
	texts := []string{}
	for _, sent := range b.messaging.Taken(p.Phone) {
		texts = append(texts, sent.Body)
	}
	return texts
}

// says is the text of a key with these parameters.
func (b *bundle) says(p conversation.Profile, key string, params catalog.Params) string {
	b.t.Helper()
	text, err := catalog.DefaultEngagement().Render(p.Locale, key, "", params)
	require.NoError(b.t, err)
	return text
}

func TestGoalsByText(t *testing.T) {
	t.Parallel()

	subtest(t, "IsScheduledAndTextedOnceAtNineOfTheirClock", setup, func(t *testing.T, b *bundle) {
		p, g := b.reminded(johnAtNine)
		require.Equal(t, []any{goals.Scheduled, "call John", goals.SourceText, goals.Phone}, []any{g.Status, g.Goal, g.Source, g.Kind})
		require.Equal(t, time.Date(2026, 11, 21, 14, 0, 0, 0, time.UTC), g.ScheduledFor.UTC())
		answer := b.says(p, catalog.GoalScheduled, catalog.Params{Goal: "call John", When: g.Understood})
		require.Equal(t, []string{answer}, b.texted(p))
		b.clock.Advance(g.ScheduledFor.Sub(b.clock.Now()) - time.Second)
		b.work()
		require.Equal(t, []string{answer}, b.texted(p))
		b.comes(g)
		b.comes(g)
		require.Equal(t, []string{answer, "Reminder: call John"}, b.texted(p))
		require.True(t, b.messaging.Taken(p.Phone)[1].At.Equal(g.ScheduledFor))
		require.Equal(t, "completed", b.nowIs(g))
		require.Equal(t, 1, b.count(`select count(*) from goal_transitions where goal_id = $1 and event = 'ended' and detail like 'message %'`, g.ID))
		require.Equal(t, 1, b.count(`select count(*) from user_engagement_states where profile_id = $1`, p.ID), "it is activity")
	})

	subtest(t, "IsInTheLanguageOfThePerson", setup, func(t *testing.T, b *bundle) {
		p := b.speaker("pt-BR")
		b.reply(p, "Lembre-me de ligar pro João amanhã às 9h")
		g := b.saidGoal(p)
		require.Equal(t, time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), g.ScheduledFor.UTC())
		require.Equal(t, b.says(p, catalog.GoalScheduled, catalog.Params{Goal: "ligar pro João", When: g.Understood}), b.texted(p)[0])
		b.comes(g)
		require.Equal(t, "Lembrete: ligar pro João", b.texted(p)[1])
		b.reply(p, "me lembra de ligar pro João")
		require.Equal(t, b.says(p, catalog.GoalAskWhen, catalog.Params{}), b.texted(p)[2])
	})

	subtest(t, "CountsFromWhenItReachedUs", setup, func(t *testing.T, b *bundle) {
		p, said := american(b), b.clock.Now()
		b.unrecorded(p, "remind me to call John in 20 minutes")
		b.clock.Advance(5 * time.Minute)
		b.work()
		require.Equal(t, said.Add(20*time.Minute), b.saidGoal(p).ScheduledFor.UTC())
	})

	subtest(t, "OfAPersonWhoHasStoppedIsNotTexted", setup, func(t *testing.T, b *bundle) {
		p, g := b.reminded(johnAtNine)
		b.clock.Advance(time.Hour)
		b.reply(p, "STOP")
		b.comes(g)
		require.Len(t, b.texted(p), 1)
		require.Equal(t, "failed opted_out", b.nowIs(g))
	})

	subtest(t, "OfAPersonWhoIsHeldIsNotTexted", setup, func(t *testing.T, b *bundle) {
		p, g := b.reminded(johnAtNine)
		b.hold(p)
		b.reply(p, "remind me to call Mary tomorrow at 10am") // without an answer
		b.comes(g)
		require.Len(t, b.texted(p), 1)
		require.Equal(t, "failed on_hold", b.nowIs(g))
		require.Len(t, b.goalsOf(p), 2)
	})

	subtest(t, "IsNoReminderThatCanBeSwitchedOff", setup, func(t *testing.T, b *bundle) {
		p, g := b.reminded(johnAtNine)
		b.reply(p, "stop reminders")
		b.comes(g)
		require.Equal(t, "Reminder: call John", b.texted(p)[2])
	})

	subtest(t, "IsNoOrdinaryReplyInAnInterview", setup, func(t *testing.T, b *bundle) {
		p, r := b.finished()
		b.unmute()
		b.reply(p, "yes")
		b.at(r.ID, session.InterviewActivity01, "")
		b.reply(p, johnAtNine)
		require.Len(t, b.goalsOf(p), 1)
	})

	subtest(t, "IsTakenInAnOpenSessionWhichGoesOnWaiting", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.reply(p, johnAtNine)
		b.at(r.ID, session.AwaitingOpeningResponse, "")
		require.Len(t, b.goalsOf(p), 1)
		require.Equal(t, b.says(p, catalog.GoalScheduled, catalog.Params{Goal: "call John", When: b.saidGoal(p).Understood}), b.texted(p)[1])
		b.reply(p, "remind me to call Mary")
		require.Equal(t, b.says(p, catalog.GoalAskWhen, catalog.Params{}), b.texted(p)[2])
		b.at(r.ID, session.AwaitingOpeningResponse, "")
		b.reply(p, "yes")
		b.at(r.ID, session.AwaitingExplanationResponse, "")
	})

	for _, later := range []string{"remind me tomorrow", "me lembra amanhã", "remind me tomorrow at 9am", "lembre-me mais tarde"} {
		subtest(t, "WithoutAnythingToDoIsALaterAtTheOpening/"+later, setup, func(t *testing.T, b *bundle) {
			p, r := b.activated()
			b.reply(p, later)
			require.True(t, b.session(r.ID).Paused)
			require.Empty(t, b.goalsOf(p))
		})
	}

	subtest(t, "IsConfirmedAfterTheBurstInWhichItWasSaid", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(2)
		b.reply(p, "me lembra amanhã às 8h de tomar remédio")
		require.Len(t, b.goalsOf(p), 1, "at once")
		before := len(b.texted(p))
		b.clock.Advance(time.Minute)
		b.unmute()
		b.executes(b.session(r.ID))
		b.pass(5 * time.Minute)
		got := b.texted(p)
		require.Greater(t, len(got), before+1)
		g := b.saidGoal(p)
		require.Equal(t, b.says(p, catalog.GoalScheduled, catalog.Params{Goal: "tomar remédio", When: g.Understood}), got[len(got)-1])
		require.Len(t, b.goalsOf(p), 1)
	})

	subtest(t, "SaysNothingOfItInALog", setup, func(t *testing.T, b *bundle) {
		p, g := b.reminded("remind me in 20 minutes that " + secretWords) // which the test's end looks for
		b.messaging.Script(messagingtest.First(messagingtest.Reject))
		b.comes(g)
		require.Len(t, b.texted(p), 1)
		require.Equal(t, "failed undelivered", b.nowIs(g))
	})
}

func TestGoalsByTextAreAskedBack(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, message, key string
		params             catalog.Params
	}{
		{name: "NoTime", message: "remind me to call John", key: catalog.GoalAskWhen},
		{name: "NothingAtAll", message: "Remind me!", key: catalog.GoalAskWhat},
		{name: "NothingButATime", message: "remind me tomorrow at 9am", key: catalog.GoalAskWhat},
		{name: "UnclearTime", message: "remind me to call John later", key: catalog.GoalUnclear},
		{name: "PastTime", message: "remind me to call John on November 3, 2026 at 9am", key: catalog.GoalPast},
		{name: "TooFarAhead", message: "remind me to call John in 400 days", key: catalog.GoalTooFar, params: catalog.Params{Count: 366}},
	} {
		subtest(t, tt.name, setup, func(t *testing.T, b *bundle) {
			p := american(b)
			b.reply(p, tt.message)
			require.Equal(t, []string{b.says(p, tt.key, tt.params)}, b.texted(p))
			require.Empty(t, b.goalsOf(p))
			b.reply(p, "tomorrow at 9am") // which is remembered nowhere
			require.Len(t, b.texted(p), 1)
		})
	}

	subtest(t, "TooManyOfADay", setup, func(t *testing.T, b *bundle) {
		p := american(b)
		for range goals.MaxTextDaily {
			b.reply(p, johnAtNine)
		}
		require.Len(t, b.goalsOf(p), goals.MaxTextDaily)
		b.reply(p, johnAtNine)
		require.Len(t, b.goalsOf(p), goals.MaxTextDaily)
		require.Equal(t, b.says(p, catalog.GoalTooMany, catalog.Params{}), b.texted(p)[goals.MaxTextDaily])
	})
}

func TestUndoByText(t *testing.T) {
	t.Parallel()
	cancelled := func(b *bundle, p conversation.Profile, of string) string {
		return b.says(p, catalog.GoalCancelled, catalog.Params{Goal: of})
	}

	subtest(t, "InTime", setup, func(t *testing.T, b *bundle) {
		p, g := b.reminded(johnAtNine)
		b.clock.Advance(time.Hour)
		b.reply(p, "Undo!")
		require.Equal(t, "cancelled", b.nowIs(g))
		require.Equal(t, cancelled(b, p, "call John"), b.texted(p)[1])
		b.comes(g) // its alarm comes all the same
		require.Len(t, b.texted(p), 2)
	})

	subtest(t, "TheNewestFirst", setup, func(t *testing.T, b *bundle) {
		p, john := b.reminded(johnAtNine)
		b.reply(p, "remind me to call Mary tomorrow at 10am")
		mary := b.saidGoal(p)
		b.reply(p, "desfazer")
		require.Equal(t, []string{"scheduled", "cancelled"}, []string{b.nowIs(john), b.nowIs(mary)})
		b.reply(p, "cancelar lembrete, por favor")
		require.Equal(t, "cancelled", b.nowIs(john))
		require.Equal(t, []string{cancelled(b, p, "call Mary"), cancelled(b, p, "call John")}, b.texted(p)[2:])
	})

	subtest(t, "OfOneThatWasSentSaysSo", setup, func(t *testing.T, b *bundle) {
		p, g := b.reminded("remind me in 20 minutes to call John")
		b.comes(g)
		b.reply(p, "undo")
		require.Equal(t, b.says(p, catalog.GoalBegun, catalog.Params{Goal: "call John"}), b.texted(p)[2])
		require.Equal(t, "completed", b.nowIs(g))
	})

	for words, locale := range map[string]string{
		"cancel that": "en", "Cancel it!": "en", "undo that": "en", "nevermind, cancel": "en", "never mind the reminder": "en",
		"cancela isso": "pt-BR", "desfaz isso": "pt-BR", "esquece o lembrete": "pt-BR", "cancela o lembrete": "pt-BR",
	} {
		subtest(t, "ByAnswering/"+words, setup, func(t *testing.T, b *bundle) {
			p := b.speaker(locale)
			b.reply(p, johnAtNine)
			g := b.saidGoal(p)
			b.clock.Advance(time.Minute)
			b.reply(p, words)
			require.Equal(t, "cancelled", b.nowIs(g))
			require.Equal(t, cancelled(b, p, "call John"), b.texted(p)[1])
			b.clock.Advance(time.Minute)
			b.reply(p, "undo")
			require.Equal(t, b.says(p, catalog.GoalNothing, catalog.Params{}), b.texted(p)[2])
		})
	}

	subtest(t, "ByAPronounOfSomethingElseIsAnOrdinaryMessage", setup, func(t *testing.T, b *bundle) {
		p, g := b.reminded(johnAtNine)
		b.clock.Advance(time.Minute)
		r := b.activate(p)
		b.clock.Advance(time.Minute)
		b.reply(p, "undo that")
		require.Equal(t, "scheduled", b.nowIs(g))
		b.at(r.ID, session.AwaitingExplanationResponse, "")
	})

	subtest(t, "AgainInAnOpenSessionGetsAnAnswer", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.clock.Advance(time.Minute)
		b.reply(p, johnAtNine)
		for range 2 {
			b.clock.Advance(time.Minute)
			b.reply(p, "undo")
		}
		b.at(r.ID, session.AwaitingOpeningResponse, "")
		require.Equal(t, []string{cancelled(b, p, "call John"), b.says(p, catalog.GoalNothing, catalog.Params{})}, b.texted(p)[2:])
	})

	subtest(t, "OfNothingIsAnOrdinaryMessage", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.reply(p, "undo")
		b.at(r.ID, session.AwaitingExplanationResponse, "")
	})

	subtest(t, "AfterADayUndoesNothing", setup, func(t *testing.T, b *bundle) {
		p, g := b.reminded("remind me to call John in 5 days")
		b.clock.Advance(25 * time.Hour)
		b.reply(p, "undo")
		require.Equal(t, "scheduled", b.nowIs(g))
		require.Equal(t, b.says(p, catalog.GoalNothing, catalog.Params{}), b.texted(p)[1])
		b.reply(p, "cancel reminder")
		require.Equal(t, "cancelled", b.nowIs(g))
	})

	subtest(t, "ByNameOfNothingSaysSo", setup, func(t *testing.T, b *bundle) {
		p := american(b)
		b.reply(p, "cancel reminder")
		require.Equal(t, []string{b.says(p, catalog.GoalNone, catalog.Params{})}, b.texted(p))
	})

	subtest(t, "CountsInASessionThatWasOpenedSince", setup, func(t *testing.T, b *bundle) {
		p, g := b.reminded(johnAtNine)
		r := b.activate(p)
		b.reply(p, "undo")
		b.at(r.ID, session.AwaitingOpeningResponse, "")
		require.Equal(t, "cancelled", b.nowIs(g))
	})

	subtest(t, "OfAGoalThatWasNotSaidByTextIsNone", setup, func(t *testing.T, b *bundle) {
		p := american(b)
		g, _, err := b.current().goals.Create(t.Context(), goals.New{
			OrgID: orgID, ProfileID: p.ID, Said: "call John", At: b.clock.Now().Add(time.Hour), Source: goals.SourceREST, Key: "1", By: "user:" + p.ID,
		})
		require.NoError(t, err)
		b.reply(p, "undo")
		require.Equal(t, "scheduled", b.nowIs(g))
		require.Equal(t, []string{b.says(p, catalog.GoalNothing, catalog.Params{})}, b.texted(p))
	})
}

// TestMoveByText answers the confirmation of a goal with another time. It is seven in the morning of the 20th.
func TestMoveByText(t *testing.T) {
	t.Parallel()
	const atNine, atNinePt = "remind me to call John tomorrow at 9am", "me lembra de ligar pro João amanhã às 9h"
	for _, tt := range []struct {
		name, first, answer string
		day, hour           int
	}{
		{name: "AnHourStaysOnTheDay", first: atNine, answer: "make it 10", day: 21, hour: 10},
		{name: "AnHourWithItsHalfOfTheDay", first: atNine, answer: "Actually 10pm.", day: 21, hour: 22},
		{name: "ADay", first: atNine, answer: "no, make it today at 11am please", day: 20, hour: 11},
		{name: "AWeekday", first: atNine, answer: "change it to monday at 8am", day: 23, hour: 8},
		{name: "AnAmount", first: atNine, answer: "make it in 2 hours", day: 20, hour: 9},
		{name: "Instead", first: atNine, answer: "actually tomorrow at 8am instead", day: 21, hour: 8},
		{name: "Portuguese", first: atNinePt, answer: "muda para as 10h", day: 21, hour: 10},
		{name: "PortugueseOnAnotherDay", first: atNinePt, answer: "na verdade, segunda às 8h", day: 23, hour: 8},
	} {
		subtest(t, tt.name, setup, func(t *testing.T, b *bundle) {
			p := b.speaker(map[bool]string{true: "pt-BR", false: "en"}[tt.first == atNinePt])
			b.reply(p, tt.first)
			b.clock.Advance(time.Minute)
			b.reply(p, tt.answer)
			require.Len(t, b.goalsOf(p), 1)
			g := b.saidGoal(p)
			zone, err := time.LoadLocation(p.TimeZone)
			require.NoError(t, err)
			local := g.ScheduledFor.In(zone)
			require.Equal(t, []int{tt.day, tt.hour}, []int{local.Day(), local.Hour()})
			require.Len(t, b.texted(p), 2)
			require.Contains(t, b.texted(p)[1], g.Understood)
			b.clock.Advance(time.Minute)
			b.reply(p, "cancel that")
			require.Equal(t, "cancelled", b.nowIs(g), "the move was confirmed, too")
		})
	}

	for _, answer := range []string{"make it friday", "make it 9;30", "muda para sexta", "make it 6am today"} {
		subtest(t, "IsAskedBack/"+answer, setup, func(t *testing.T, b *bundle) {
			p, g := b.reminded(atNine)
			b.clock.Advance(time.Minute)
			b.reply(p, answer)
			require.Equal(t, b.says(p, catalog.GoalUnmoved, catalog.Params{}), b.texted(p)[1])
			require.Equal(t, g.ScheduledFor, b.saidGoal(p).ScheduledFor)
			b.clock.Advance(time.Minute)
			b.reply(p, "make it tomorrow at 10am")
			require.Equal(t, g.ScheduledFor.Add(time.Hour), b.saidGoal(p).ScheduledFor)
		})
	}

	for _, answer := range []string{"actually I like it", "make it stop", "no thanks", "make it a good one", "actually we are 10 people", "tomorrow at 10am"} {
		subtest(t, "IsNoMove/"+answer, setup, func(t *testing.T, b *bundle) {
			p, g := b.reminded(atNine)
			b.clock.Advance(time.Minute)
			b.reply(p, answer)
			require.Equal(t, g.ScheduledFor, b.saidGoal(p).ScheduledFor)
			require.Len(t, b.texted(p), 1)
		})
	}

	subtest(t, "OnlyInAnswerToTheConfirmation", setup, func(t *testing.T, b *bundle) {
		p, g := b.reminded(atNine)
		b.clock.Advance(25 * time.Hour)
		b.reply(p, "make it 10")
		require.Equal(t, "scheduled", b.nowIs(g))
		require.Len(t, b.texted(p), 1)
	})
}

func TestTextOfAGoal(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		outcome messagingtest.Outcome
		resolve func(b *bundle, g goals.Goal) // what becomes known later
		texts   int
		end     string
	}{
		{name: "TakenAndTheAnswerLost", outcome: messagingtest.AcceptLost, texts: 1, end: "completed"},
		{name: "InDoubtAndTaken", outcome: messagingtest.UnknownTaken, texts: 1, end: "completed"},
		{name: "InDoubtAndNotTaken", outcome: messagingtest.UnknownMissed, texts: 1, end: "completed"},
		{name: "Throttled", outcome: messagingtest.Throttle, texts: 1, end: "completed"},
		{name: "Unavailable", outcome: messagingtest.Unavailable, texts: 1, end: "completed"},
		{name: "Refused", outcome: messagingtest.Reject, end: "failed undelivered"},
		{name: "ForAnOperator", outcome: messagingtest.ParkMissed, end: "failed undelivered"},
	} {
		subtest(t, tt.name, setup, func(t *testing.T, b *bundle) {
			p, g := b.reminded(johnAtNine)
			b.messaging.Script(messagingtest.First(tt.outcome))
			b.comes(g)
			b.messaging.Settle()
			for range 6 { // QStash comes again
				b.clock.Advance(3 * time.Minute)
				b.work()
			}
			require.Equal(t, tt.end, b.nowIs(g))
			require.Len(t, b.texted(p), 1+tt.texts)
		})
	}

	subtest(t, "WaitsForTheEndOfABurst", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(2)
		g, _, err := b.current().goals.Create(t.Context(), goals.New{
			OrgID: orgID, ProfileID: p.ID, Said: "call John", At: b.clock.Now().Add(2 * time.Second), Source: goals.SourceREST, Key: "1", By: "user:" + p.ID,
		})
		require.NoError(t, err)
		b.unmute()
		b.executes(r)
		b.pass(2 * time.Minute)
		require.Equal(t, "completed", b.nowIs(g))
		got := b.texted(p)
		require.Equal(t, "Reminder: call John", got[len(got)-1])
		require.Len(t, got, len(whole)+1)
	})

	subtest(t, "DoesNotWaitForABurstThatWaitsForTheMorning", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(1)
		b.exec(`update step_alarms set due_at = due_at + interval '9 hours' where session_id = $1`, r.ID)
		g, _, err := b.current().goals.Create(t.Context(), goals.New{
			OrgID: orgID, ProfileID: p.ID, Said: "Remind me to call John", At: b.clock.Now().Add(time.Second), Source: goals.SourceREST, Key: "1", By: "user:" + p.ID,
		})
		require.NoError(t, err)
		b.unmute()
		b.comes(g)
		require.Equal(t, "completed", b.nowIs(g))
		require.Contains(t, b.texted(p), "Reminder: call John")
	})

	subtest(t, "OfAHeldPersonWhoseTextIsOnItsWayIsToldByWhatBecameOfIt", setup, func(t *testing.T, b *bundle) {
		p, g := b.reminded(johnAtNine)
		b.messaging.Script(messagingtest.First(messagingtest.AcceptLost))
		b.mute()
		b.comes(g)
		_, err := b.current().goals.Execute(t.Context(), g.ID)
		require.Error(t, err)
		b.hold(p)
		_, err = b.current().goals.Execute(t.Context(), g.ID)
		require.NoError(t, err)
		require.Equal(t, "completed", b.nowIs(g))
		require.Len(t, b.texted(p), 2)
	})

	subtest(t, "WrittenOtherwiseSinceTheFirstTryIsNotSentTwice", setup, func(t *testing.T, b *bundle) {
		p, g := b.reminded(johnAtNine)
		b.messaging.Script(messagingtest.First(messagingtest.AcceptLost))
		b.mute()
		b.comes(g)
		_, err := b.current().goals.Execute(t.Context(), g.ID)
		require.Error(t, err)
		b.exec(`update goals set locale = 'pt-BR' where id = $1`, g.ID) // as a new copy would
		_, err = b.current().goals.Execute(t.Context(), g.ID)
		require.NoError(t, err)
		require.Equal(t, "completed", b.nowIs(g))
		require.Len(t, b.texted(p), 2)
	})
}

// TestCrashOfGoalsByText is the crash matrix of what is said by text, of what is taken back, and of the text at its time.
func TestCrashOfGoalsByText(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	asked := func(b *bundle) conversation.Profile {
		p, _ := b.reminded(johnAtNine)
		b.reply(p, "remind me to call Mary tomorrow at 10am")
		return p
	}
	for _, s := range []asking{
		{name: "Said", begin: american, cause: writes(johnAtNine), want: func(b *bundle, p conversation.Profile) {
			require.Len(b.t, b.goalsOf(p), 1)
			g := b.saidGoal(p)
			require.Equal(b.t, []string{b.says(p, catalog.GoalScheduled, catalog.Params{Goal: "call John", When: g.Understood})}, b.texted(p))
			require.Equal(b.t, 1, b.count(`select count(*) from goal_alarms where goal_id = $1 and published_at is not null`, g.ID))
		}},
		{name: "AskedBack", begin: american, cause: writes("remind me to call John"), want: func(b *bundle, p conversation.Profile) {
			require.Empty(b.t, b.goalsOf(p))
			require.Equal(b.t, []string{b.says(p, catalog.GoalAskWhen, catalog.Params{})}, b.texted(p))
		}},
		{name: "Moved", begin: func(b *bundle) conversation.Profile {
			p := asked(b)
			b.clock.Advance(time.Minute)
			return p
		}, cause: writes("make it 11am"), want: func(b *bundle, p conversation.Profile) {
			g := b.saidGoal(p)
			require.Equal(b.t, 1, b.count(`select count(*) from goal_transitions where goal_id = $1 and event = 'rescheduled'`, g.ID))
			require.Equal(b.t, time.Date(2026, 11, 21, 16, 0, 0, 0, time.UTC), g.ScheduledFor.UTC())
			require.Equal(b.t, []string{b.says(p, catalog.GoalScheduled, catalog.Params{Goal: "call Mary", When: g.Understood})}, b.texted(p)[2:])
		}},
		{name: "Undone", begin: asked, cause: writes("undo"), want: func(b *bundle, p conversation.Profile) {
			all := b.goalsOf(p)
			require.Equal(b.t, []string{"cancelled", "scheduled"}, []string{b.nowIs(all[0]), b.nowIs(all[1])})
			require.Equal(b.t, []string{b.says(p, catalog.GoalCancelled, catalog.Params{Goal: "call Mary"})}, b.texted(p)[2:])
		}},
		{name: "Texted", begin: american, cause: func(b *bundle, p conversation.Profile) func() error {
			g, _, err := b.start(b.healthy()).goals.Create(b.t.Context(), goals.New{
				OrgID: orgID, ProfileID: p.ID, Said: "call John", At: b.clock.Now().Add(time.Minute), Source: goals.SourceREST, Key: "1", By: "user:" + p.ID,
			})
			require.NoError(b.t, err)
			return func() error {
				b.clock.Advance(max(0, g.ScheduledFor.Sub(b.clock.Now())))
				_, err := b.current().goals.Execute(b.t.Context(), g.ID)
				return err
			}
		}, want: func(b *bundle, p conversation.Profile) {
			require.Equal(b.t, "completed", b.nowIs(b.saidGoal(p)))
			require.Equal(b.t, []string{"Reminder: call John"}, b.texted(p))
			require.Equal(b.t, 1, b.count(`select count(*) from event_outbox where subject = $1 and type = 'goal.completed'`, p.ID))
		}},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.everyMishap(3, func(p *ports) { s.play(b, p) })
		})
	}
}
