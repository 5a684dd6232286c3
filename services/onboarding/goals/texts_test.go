package goals_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/messagingtest"
	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/goals"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// service is the whole service, with the helpers of the tests of what people say by text.
type service struct{ *onboardingtest.Bundle }

func serve(t *testing.T) *service {
	t.Helper()
	return &service{onboardingtest.New(t)}
}

// nowIs is a goal as it stands, in one line.
func (b *service) nowIs(g goals.Goal) string {
	b.T.Helper()
	v, err := b.Store.Goals().Goal(b.T.Context(), onboardingtest.OrgID, g.ID, b.Clock.Now())
	require.NoError(b.T, err)
	return strings.TrimSpace(string(v.Status) + " " + v.Reason)
}

// comes lets the clock jump to when a goal is due, and everything be done then.
func (b *service) comes(g goals.Goal) {
	b.T.Helper()
	b.Clock.Advance(g.ScheduledFor.Sub(b.Clock.Now()))
	b.Work()
}

// texted are the texts that a person got.
func (b *service) texted(p people.Profile) []string {
	b.T.Helper()
	texts := []string{}
	for _, sent := range b.Messaging.Taken(p.Phone) {
		texts = append(texts, sent.Body)
	}
	return texts
}

func TestGoalsByText(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "IsScheduledAndTextedOnceAtNineOfTheirClock", serve, func(t *testing.T, b *service) {
		p, g := b.Reminded(onboardingtest.JohnAtNine)
		require.Equal(t, []any{goals.Scheduled, "call John", goals.SourceText, goals.Phone}, []any{g.Status, g.Goal, g.Source, g.Kind})
		require.Equal(t, time.Date(2026, 11, 21, 14, 0, 0, 0, time.UTC), g.ScheduledFor.UTC())
		answer := b.Says(p, catalog.GoalScheduled, catalog.Params{Goal: "call John", When: g.Understood})
		require.Equal(t, []string{answer}, b.texted(p))
		b.Clock.Advance(g.ScheduledFor.Sub(b.Clock.Now()) - time.Second)
		b.Work()
		require.Equal(t, []string{answer}, b.texted(p))
		b.comes(g)
		b.comes(g)
		require.Equal(t, []string{answer, "Reminder: call John"}, b.texted(p))
		require.True(t, b.Messaging.Taken(p.Phone)[1].At.Equal(g.ScheduledFor))
		require.Equal(t, "completed", b.nowIs(g))
		require.Equal(t, 1, b.Count(`select count(*) from goal_transitions where goal_id = $1 and event = 'ended' and detail like 'message %'`, g.ID))
		require.Equal(t, 1, b.Count(`select count(*) from user_engagement_states where profile_id = $1`, p.ID), "it is activity")
	})

	onboardingtest.Subtest(t, "IsInTheLanguageOfThePerson", serve, func(t *testing.T, b *service) {
		p := b.Speaker("pt-BR")
		b.Reply(p, "Lembre-me de ligar pro João amanhã às 9h")
		g := b.SaidGoal(p)
		require.Equal(t, time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), g.ScheduledFor.UTC())
		require.Equal(t, b.Says(p, catalog.GoalScheduled, catalog.Params{Goal: "ligar pro João", When: g.Understood}), b.texted(p)[0])
		b.comes(g)
		require.Equal(t, "Lembrete: ligar pro João", b.texted(p)[1])
		b.Reply(p, "me lembra de ligar pro João")
		require.Equal(t, b.Says(p, catalog.GoalAskWhen, catalog.Params{}), b.texted(p)[2])
	})

	onboardingtest.Subtest(t, "CountsFromWhenItReachedUs", serve, func(t *testing.T, b *service) {
		p, said := american(b), b.Clock.Now()
		b.Unrecorded(p, "remind me to call John in 20 minutes")
		b.Clock.Advance(5 * time.Minute)
		b.Work()
		require.Equal(t, said.Add(20*time.Minute), b.SaidGoal(p).ScheduledFor.UTC())
	})

	onboardingtest.Subtest(t, "OfAPersonWhoHasStoppedIsNotTexted", serve, func(t *testing.T, b *service) {
		p, g := b.Reminded(onboardingtest.JohnAtNine)
		b.Clock.Advance(time.Hour)
		b.Reply(p, "STOP")
		b.comes(g)
		require.Len(t, b.texted(p), 1)
		require.Equal(t, "failed opted_out", b.nowIs(g))
	})

	onboardingtest.Subtest(t, "OfAPersonWhoIsHeldIsNotTexted", serve, func(t *testing.T, b *service) {
		p, g := b.Reminded(onboardingtest.JohnAtNine)
		b.Hold(p)
		b.Reply(p, "remind me to call Mary tomorrow at 10am") // without an answer
		b.comes(g)
		require.Len(t, b.texted(p), 1)
		require.Equal(t, "failed on_hold", b.nowIs(g))
		require.Len(t, b.GoalsOf(p), 2)
	})

	onboardingtest.Subtest(t, "IsNoReminderThatCanBeSwitchedOff", serve, func(t *testing.T, b *service) {
		p, g := b.Reminded(onboardingtest.JohnAtNine)
		b.Reply(p, "stop reminders")
		b.comes(g)
		require.Contains(t, b.texted(p)[1], `Those you asked us for still come; to cancel the newest, text "cancel reminder".`)
		require.Equal(t, "Reminder: call John", b.texted(p)[2])
	})

	onboardingtest.Subtest(t, "ToWakeThemUpNeedsNoOtherWords", serve, func(t *testing.T, b *service) {
		p, g := b.Reminded("please wake me up tomorrow at 6am")
		require.Equal(t, "wake me up", g.Goal)
		b.Reply(p, "wake me up tomorrow at 6")
		require.Equal(t, b.Says(p, catalog.GoalUnclear, catalog.Params{}), b.texted(p)[1], "in the morning or in the evening")
		b.Reply(p, "wake me up tomorrow at 7am to feed the cat")
		b.comes(b.SaidGoal(p))
		require.Contains(t, b.texted(p), "Reminder: feed the cat")
	})

	onboardingtest.Subtest(t, "IsInTheWordsOfTheOrganisation", serve, func(t *testing.T, b *service) {
		decides := func(org, texts string) {
			b.Exec(`insert into organisation_settings (org_id, engagement_texts, version, updated_at) values ($1, $2, 1, $3)
				on conflict (org_id) do update set engagement_texts = excluded.engagement_texts`, org, texts, b.Clock.Now())
		}
		decides(onboardingtest.AnotherOrg, `{"en": {"GOAL_SCHEDULED": "Theirs, {when}: {goal}.", "GOAL_REMINDER": "Theirs: {whole_goal}"}}`)
		p, g := b.Reminded(onboardingtest.JohnAtNine)
		answer := b.Says(p, catalog.GoalScheduled, catalog.Params{Goal: "call John", When: g.Understood})
		b.comes(g)
		require.Equal(t, []string{answer, "Reminder: call John"}, b.texted(p), "another organisation's are not ours")
		decides(onboardingtest.OrgID, `{"en": {"GOAL_SCHEDULED": "Acme, {when}: {goal}. Or \"undo\".", "GOAL_REMINDER": "Acme: {whole_goal}",
			"GOAL_PAST": {"of a later release": true}}}`)
		for _, person := range []func() people.Profile{
			func() people.Profile { return american(b) },
			func() people.Profile { p, _ := b.Activated(); return p },
		} {
			p := person()
			before := len(b.texted(p))
			b.Reply(p, onboardingtest.JohnAtNine)
			g := b.SaidGoal(p)
			b.Reply(p, "remind me to call John today at 00:01")
			b.comes(g)
			require.Equal(t, []string{
				"Acme, " + g.Understood + `: call John. Or "undo".`, b.Says(p, catalog.GoalPast, catalog.Params{}), "Acme: call John",
			}, b.texted(p)[before:], "what this release cannot read is the deployment's")
		}
	})

	onboardingtest.Subtest(t, "IsNoOrdinaryReplyInAnInterview", serve, func(t *testing.T, b *service) {
		p, r := b.Finished()
		b.Unmute()
		b.Reply(p, "yes")
		b.At(r.ID, session.InterviewActivity01, "")
		b.Reply(p, onboardingtest.JohnAtNine)
		require.Len(t, b.GoalsOf(p), 1)
	})

	onboardingtest.Subtest(t, "IsTakenInAnOpenSessionWhichGoesOnWaiting", serve, func(t *testing.T, b *service) {
		p, r := b.Activated()
		b.Reply(p, onboardingtest.JohnAtNine)
		b.At(r.ID, session.AwaitingOpeningResponse, "")
		require.Len(t, b.GoalsOf(p), 1)
		require.Equal(t, b.Says(p, catalog.GoalScheduled, catalog.Params{Goal: "call John", When: b.SaidGoal(p).Understood}), b.texted(p)[1])
		b.Reply(p, "remind me to call Mary")
		require.Equal(t, b.Says(p, catalog.GoalAskWhen, catalog.Params{}), b.texted(p)[2])
		b.At(r.ID, session.AwaitingOpeningResponse, "")
		b.Reply(p, "yes")
		b.At(r.ID, session.AwaitingExplanationResponse, "")
	})

	for _, later := range []string{"remind me tomorrow", "me lembra amanhã", "remind me tomorrow at 9am", "lembre-me mais tarde"} {
		onboardingtest.Subtest(t, "WithoutAnythingToDoIsALaterAtTheOpening/"+later, serve, func(t *testing.T, b *service) {
			p, r := b.Activated()
			b.Reply(p, later)
			require.True(t, b.Session(r.ID).Paused)
			require.Empty(t, b.GoalsOf(p))
		})
	}

	onboardingtest.Subtest(t, "IsConfirmedAfterTheBurstInWhichItWasSaid", serve, func(t *testing.T, b *service) {
		p, r := b.InBurst(2)
		b.Reply(p, "me lembra amanhã às 8h de tomar remédio")
		require.Len(t, b.GoalsOf(p), 1, "at once")
		before := len(b.texted(p))
		b.Clock.Advance(time.Minute)
		b.Unmute()
		b.Executes(b.Session(r.ID))
		b.Pass(5 * time.Minute)
		got := b.texted(p)
		require.Greater(t, len(got), before+1)
		g := b.SaidGoal(p)
		require.Equal(t, b.Says(p, catalog.GoalScheduled, catalog.Params{Goal: "tomar remédio", When: g.Understood}), got[len(got)-1])
		require.Len(t, b.GoalsOf(p), 1)
	})

	onboardingtest.Subtest(t, "SaysNothingOfItInALog", serve, func(t *testing.T, b *service) {
		p, g := b.Reminded("remind me in 20 minutes that " + onboardingtest.SecretWords) // which the test's end looks for
		b.Messaging.Script(messagingtest.First(messagingtest.Reject))
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
		onboardingtest.Subtest(t, tt.name, serve, func(t *testing.T, b *service) {
			p := american(b)
			b.Reply(p, tt.message)
			require.Equal(t, []string{b.Says(p, tt.key, tt.params)}, b.texted(p))
			require.Empty(t, b.GoalsOf(p))
			b.Reply(p, "tomorrow at 9am") // which is remembered nowhere
			require.Len(t, b.texted(p), 1)
		})
	}

	onboardingtest.Subtest(t, "TooManyOfADay", serve, func(t *testing.T, b *service) {
		p := american(b)
		for range goals.MaxTextDaily {
			b.Reply(p, onboardingtest.JohnAtNine)
		}
		require.Len(t, b.GoalsOf(p), goals.MaxTextDaily)
		b.Reply(p, onboardingtest.JohnAtNine)
		require.Len(t, b.GoalsOf(p), goals.MaxTextDaily)
		require.Equal(t, b.Says(p, catalog.GoalTooMany, catalog.Params{}), b.texted(p)[goals.MaxTextDaily])
	})
}

func TestUndoByText(t *testing.T) {
	t.Parallel()
	cancelled := func(b *service, p people.Profile, of string) string {
		return b.Says(p, catalog.GoalCancelled, catalog.Params{Goal: of})
	}

	onboardingtest.Subtest(t, "InTime", serve, func(t *testing.T, b *service) {
		p, g := b.Reminded(onboardingtest.JohnAtNine)
		b.Clock.Advance(time.Hour)
		b.Reply(p, "Undo!")
		require.Equal(t, "cancelled", b.nowIs(g))
		require.Equal(t, cancelled(b, p, "call John"), b.texted(p)[1])
		b.comes(g) // its alarm comes all the same
		require.Len(t, b.texted(p), 2)
	})

	onboardingtest.Subtest(t, "TheNewestFirst", serve, func(t *testing.T, b *service) {
		p, john := b.Reminded(onboardingtest.JohnAtNine)
		b.Reply(p, "remind me to call Mary tomorrow at 10am")
		mary := b.SaidGoal(p)
		b.Reply(p, "desfazer")
		require.Equal(t, []string{"scheduled", "cancelled"}, []string{b.nowIs(john), b.nowIs(mary)})
		b.Reply(p, "cancelar lembrete, por favor")
		require.Equal(t, "cancelled", b.nowIs(john))
		require.Equal(t, []string{cancelled(b, p, "call Mary"), cancelled(b, p, "call John")}, b.texted(p)[2:])
	})

	onboardingtest.Subtest(t, "OfOneThatWasSentSaysSo", serve, func(t *testing.T, b *service) {
		p, g := b.Reminded("remind me in 20 minutes to call John")
		b.comes(g)
		b.Reply(p, "undo")
		require.Equal(t, b.Says(p, catalog.GoalBegun, catalog.Params{Goal: "call John"}), b.texted(p)[2])
		require.Equal(t, "completed", b.nowIs(g))
	})

	for words, locale := range map[string]string{
		"cancel that": "en", "Cancel it!": "en", "undo that": "en", "nevermind, cancel": "en", "nevermind": "en", "Never mind, thanks": "en", "deixa pra lá": "pt-BR", "never mind the reminder": "en",
		"cancela isso": "pt-BR", "desfaz isso": "pt-BR", "esquece o lembrete": "pt-BR", "cancela o lembrete": "pt-BR",
	} {
		onboardingtest.Subtest(t, "ByAnswering/"+words, serve, func(t *testing.T, b *service) {
			p := b.Speaker(locale)
			b.Reply(p, onboardingtest.JohnAtNine)
			g := b.SaidGoal(p)
			b.Clock.Advance(time.Minute)
			b.Reply(p, words)
			require.Equal(t, "cancelled", b.nowIs(g))
			require.Equal(t, cancelled(b, p, "call John"), b.texted(p)[1])
			b.Clock.Advance(time.Minute)
			b.Reply(p, "undo")
			require.Equal(t, b.Says(p, catalog.GoalNothing, catalog.Params{}), b.texted(p)[2])
		})
	}

	onboardingtest.Subtest(t, "ByAPronounOfSomethingElseIsAnOrdinaryMessage", serve, func(t *testing.T, b *service) {
		p, g := b.Reminded(onboardingtest.JohnAtNine)
		b.Clock.Advance(time.Minute)
		r := b.Activate(p)
		b.Clock.Advance(time.Minute)
		b.Reply(p, "undo that")
		require.Equal(t, "scheduled", b.nowIs(g))
		b.At(r.ID, session.AwaitingExplanationResponse, "")
	})

	onboardingtest.Subtest(t, "AgainInAnOpenSessionGetsAnAnswer", serve, func(t *testing.T, b *service) {
		p, r := b.Activated()
		b.Clock.Advance(time.Minute)
		b.Reply(p, onboardingtest.JohnAtNine)
		for range 2 {
			b.Clock.Advance(time.Minute)
			b.Reply(p, "undo")
		}
		b.At(r.ID, session.AwaitingOpeningResponse, "")
		require.Equal(t, []string{cancelled(b, p, "call John"), b.Says(p, catalog.GoalNothing, catalog.Params{})}, b.texted(p)[2:])
	})

	onboardingtest.Subtest(t, "OfNothingIsAnOrdinaryMessage", serve, func(t *testing.T, b *service) {
		p, r := b.Activated()
		b.Reply(p, "undo")
		b.At(r.ID, session.AwaitingExplanationResponse, "")
	})

	onboardingtest.Subtest(t, "AfterADayUndoesNothing", serve, func(t *testing.T, b *service) {
		p, g := b.Reminded("remind me to call John in 5 days")
		b.Clock.Advance(25 * time.Hour)
		b.Reply(p, "undo")
		require.Equal(t, "scheduled", b.nowIs(g))
		require.Equal(t, b.Says(p, catalog.GoalNothing, catalog.Params{}), b.texted(p)[1])
		b.Reply(p, "cancel reminder")
		require.Equal(t, "cancelled", b.nowIs(g))
	})

	onboardingtest.Subtest(t, "ByNameOfNothingSaysSo", serve, func(t *testing.T, b *service) {
		p := american(b)
		b.Reply(p, "cancel reminder")
		require.Equal(t, []string{b.Says(p, catalog.GoalNone, catalog.Params{})}, b.texted(p))
	})

	onboardingtest.Subtest(t, "OneOfSeveralByWhatTellsItFromTheOthers", serve, func(t *testing.T, b *service) {
		p, gym := b.Reminded("remind me to go to the gym tomorrow at 5pm")
		b.Reply(p, "remind me to call the gym on monday at 5pm")
		call := b.SaidGoal(p)
		b.Reply(p, onboardingtest.JohnAtNine)
		john := b.SaidGoal(p)
		stand := func() []string { return []string{b.nowIs(gym), b.nowIs(call), b.nowIs(john)} }
		for _, several := range []string{"cancel the 5pm one", "cancel the gym reminder", "cancel my reminder for sunday", "forget about the bank one"} {
			b.Reply(p, several)
			require.Equal(t, []string{"scheduled", "scheduled", "scheduled"}, stand(), several)
			require.Len(t, b.texted(p), 3, several)
		}
		b.Reply(p, "cancel my reminder for monday, please")
		require.Equal(t, []string{"scheduled", "cancelled", "scheduled"}, stand())
		b.Reply(p, "Forget about the gym one!")
		require.Equal(t, []string{"cancelled", "cancelled", "scheduled"}, stand())
		require.Equal(t, []string{cancelled(b, p, "call the gym"), cancelled(b, p, "go to the gym")}, b.texted(p)[3:])
	})

	onboardingtest.Subtest(t, "CountsInASessionThatWasOpenedSince", serve, func(t *testing.T, b *service) {
		p, g := b.Reminded(onboardingtest.JohnAtNine)
		r := b.Activate(p)
		b.Reply(p, "undo")
		b.At(r.ID, session.AwaitingOpeningResponse, "")
		require.Equal(t, "cancelled", b.nowIs(g))
	})

	onboardingtest.Subtest(t, "OfAGoalThatWasNotSaidByTextIsNone", serve, func(t *testing.T, b *service) {
		p := american(b)
		g, _, err := b.Current().Goals.Create(t.Context(), goals.New{
			OrgID: onboardingtest.OrgID, ProfileID: p.ID, Said: "call John", At: b.Clock.Now().Add(time.Hour), Source: goals.SourceREST, Key: "1", By: "user:" + p.ID,
		})
		require.NoError(t, err)
		b.Reply(p, "undo")
		require.Equal(t, "scheduled", b.nowIs(g))
		require.Equal(t, []string{b.Says(p, catalog.GoalNothing, catalog.Params{})}, b.texted(p))
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
		{name: "InsteadAlone", first: atNine, answer: "10am instead", day: 21, hour: 10},
		{name: "InsteadAndPlease", first: atNine, answer: "change that to 10am pls", day: 21, hour: 10},
		{name: "No", first: atNine, answer: "nope 10am", day: 21, hour: 10},
		{name: "AsAQuestion", first: atNine, answer: "can you move it to 10am please?", day: 21, hour: 10},
		{name: "Postponed", first: atNine, answer: "postpone it to 10am", day: 21, hour: 10},
		{name: "Portuguese", first: atNinePt, answer: "muda para as 10h", day: 21, hour: 10},
		{name: "PortugueseOnAnotherDay", first: atNinePt, answer: "na verdade, segunda às 8h", day: 23, hour: 8},
	} {
		onboardingtest.Subtest(t, tt.name, serve, func(t *testing.T, b *service) {
			p := b.Speaker(map[bool]string{true: "pt-BR", false: "en"}[tt.first == atNinePt])
			b.Reply(p, tt.first)
			b.Clock.Advance(time.Minute)
			b.Reply(p, tt.answer)
			require.Len(t, b.GoalsOf(p), 1)
			g := b.SaidGoal(p)
			zone, err := time.LoadLocation(p.TimeZone)
			require.NoError(t, err)
			local := g.ScheduledFor.In(zone)
			require.Equal(t, []int{tt.day, tt.hour}, []int{local.Day(), local.Hour()})
			require.Len(t, b.texted(p), 2)
			require.Contains(t, b.texted(p)[1], g.Understood)
			b.Clock.Advance(time.Minute)
			b.Reply(p, "cancel that")
			require.Equal(t, "cancelled", b.nowIs(g), "the move was confirmed, too")
		})
	}

	for _, answer := range []string{"make it friday", "postpone it by an hour", "make it 9;30", "muda para sexta", "make it 6am today"} {
		onboardingtest.Subtest(t, "IsAskedBack/"+answer, serve, func(t *testing.T, b *service) {
			p, g := b.Reminded(atNine)
			b.Clock.Advance(time.Minute)
			b.Reply(p, answer)
			require.Equal(t, b.Says(p, catalog.GoalUnmoved, catalog.Params{}), b.texted(p)[1])
			require.Equal(t, g.ScheduledFor, b.SaidGoal(p).ScheduledFor)
			b.Clock.Advance(time.Minute)
			b.Reply(p, "make it tomorrow at 10am")
			require.Equal(t, g.ScheduledFor.Add(time.Hour), b.SaidGoal(p).ScheduledFor)
		})
	}

	for _, answer := range []string{"actually I like it", "make it stop", "no thanks", "make it a good one", "actually we are 10 people", "tomorrow at 10am", "I like tea instead"} {
		onboardingtest.Subtest(t, "IsNoMove/"+answer, serve, func(t *testing.T, b *service) {
			p, g := b.Reminded(atNine)
			b.Clock.Advance(time.Minute)
			b.Reply(p, answer)
			require.Equal(t, g.ScheduledFor, b.SaidGoal(p).ScheduledFor)
			require.Len(t, b.texted(p), 1)
		})
	}

	onboardingtest.Subtest(t, "OnlyInAnswerToTheConfirmation", serve, func(t *testing.T, b *service) {
		p, g := b.Reminded(atNine)
		b.Clock.Advance(25 * time.Hour)
		b.Reply(p, "make it 10")
		require.Equal(t, "scheduled", b.nowIs(g))
		require.Len(t, b.texted(p), 1)
	})
}

func TestTextOfAGoal(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		outcome messagingtest.Outcome
		resolve func(b *service, g goals.Goal) // what becomes known later
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
		onboardingtest.Subtest(t, tt.name, serve, func(t *testing.T, b *service) {
			p, g := b.Reminded(onboardingtest.JohnAtNine)
			b.Messaging.Script(messagingtest.First(tt.outcome))
			b.comes(g)
			b.Messaging.Settle()
			for range 6 { // QStash comes again
				b.Clock.Advance(3 * time.Minute)
				b.Work()
			}
			require.Equal(t, tt.end, b.nowIs(g))
			require.Len(t, b.texted(p), 1+tt.texts)
		})
	}

	onboardingtest.Subtest(t, "WaitsForTheEndOfABurst", serve, func(t *testing.T, b *service) {
		p, r := b.InBurst(2)
		g, _, err := b.Current().Goals.Create(t.Context(), goals.New{
			OrgID: onboardingtest.OrgID, ProfileID: p.ID, Said: "call John", At: b.Clock.Now().Add(2 * time.Second), Source: goals.SourceREST, Key: "1", By: "user:" + p.ID,
		})
		require.NoError(t, err)
		b.Unmute()
		b.Executes(r)
		b.Pass(2 * time.Minute)
		require.Equal(t, "completed", b.nowIs(g))
		got := b.texted(p)
		require.Equal(t, "Reminder: call John", got[len(got)-1])
		require.Len(t, got, len(onboardingtest.Whole)+1)
	})

	onboardingtest.Subtest(t, "DoesNotWaitForABurstThatWaitsForTheMorning", serve, func(t *testing.T, b *service) {
		p, r := b.InBurst(1)
		b.Exec(`update step_alarms set due_at = due_at + interval '9 hours' where session_id = $1`, r.ID)
		g, _, err := b.Current().Goals.Create(t.Context(), goals.New{
			OrgID: onboardingtest.OrgID, ProfileID: p.ID, Said: "Remind me to call John", At: b.Clock.Now().Add(time.Second), Source: goals.SourceREST, Key: "1", By: "user:" + p.ID,
		})
		require.NoError(t, err)
		b.Unmute()
		b.comes(g)
		require.Equal(t, "completed", b.nowIs(g))
		require.Contains(t, b.texted(p), "Reminder: call John")
	})

	onboardingtest.Subtest(t, "OfAHeldPersonWhoseTextIsOnItsWayIsToldByWhatBecameOfIt", serve, func(t *testing.T, b *service) {
		p, g := b.Reminded(onboardingtest.JohnAtNine)
		b.Messaging.Script(messagingtest.First(messagingtest.AcceptLost))
		b.Mute()
		b.comes(g)
		_, err := b.Current().Goals.Execute(t.Context(), g.ID)
		require.Error(t, err)
		b.Hold(p)
		_, err = b.Current().Goals.Execute(t.Context(), g.ID)
		require.NoError(t, err)
		require.Equal(t, "completed", b.nowIs(g))
		require.Len(t, b.texted(p), 2)
	})

	onboardingtest.Subtest(t, "WrittenOtherwiseSinceTheFirstTryIsNotSentTwice", serve, func(t *testing.T, b *service) {
		p, g := b.Reminded(onboardingtest.JohnAtNine)
		b.Messaging.Script(messagingtest.First(messagingtest.AcceptLost))
		b.Mute()
		b.comes(g)
		_, err := b.Current().Goals.Execute(t.Context(), g.ID)
		require.Error(t, err)
		b.Exec(`update goals set locale = 'pt-BR' where id = $1`, g.ID) // as a new copy would
		_, err = b.Current().Goals.Execute(t.Context(), g.ID)
		require.NoError(t, err)
		require.Equal(t, "completed", b.nowIs(g))
		require.Len(t, b.texted(p), 2)
	})
}

// asking is one thing that a person asks for, whatever fails.
type asking struct {
	name  string
	begin func(b *service) people.Profile
	cause func(b *service, p people.Profile) func() error
	want  func(b *service, p people.Profile)
}

func (s asking) play(b *service, p *onboardingtest.Ports) {
	b.T.Helper()
	b.Serve(b.Start(b.Healthy()))
	person := s.begin(b)
	b.Play(p, person, func(p people.Profile) func() error { return s.cause(b, p) })
	s.want(b, person)
}

func writes(body string) func(b *service, p people.Profile) func() error {
	return func(b *service, p people.Profile) func() error { return b.Posts(p, body) }
}

// TestCrashOfGoalsByText is the crash matrix of what is said by text, of what is taken back, and of the text at its time.
func TestCrashOfGoalsByText(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	asked := func(b *service) people.Profile {
		p, _ := b.Reminded(onboardingtest.JohnAtNine)
		b.Reply(p, "remind me to call Mary tomorrow at 10am")
		return p
	}
	for _, s := range []asking{
		{name: "Said", begin: american, cause: writes(onboardingtest.JohnAtNine), want: func(b *service, p people.Profile) {
			require.Len(b.T, b.GoalsOf(p), 1)
			g := b.SaidGoal(p)
			require.Equal(b.T, []string{b.Says(p, catalog.GoalScheduled, catalog.Params{Goal: "call John", When: g.Understood})}, b.texted(p))
			require.Equal(b.T, 1, b.Count(`select count(*) from goal_alarms where goal_id = $1 and published_at is not null`, g.ID))
		}},
		{name: "AskedBack", begin: american, cause: writes("remind me to call John"), want: func(b *service, p people.Profile) {
			require.Empty(b.T, b.GoalsOf(p))
			require.Equal(b.T, []string{b.Says(p, catalog.GoalAskWhen, catalog.Params{})}, b.texted(p))
		}},
		{name: "Moved", begin: func(b *service) people.Profile {
			p := asked(b)
			b.Clock.Advance(time.Minute)
			return p
		}, cause: writes("make it 11am"), want: func(b *service, p people.Profile) {
			g := b.SaidGoal(p)
			require.Equal(b.T, 1, b.Count(`select count(*) from goal_transitions where goal_id = $1 and event = 'rescheduled'`, g.ID))
			require.Equal(b.T, time.Date(2026, 11, 21, 16, 0, 0, 0, time.UTC), g.ScheduledFor.UTC())
			require.Equal(b.T, []string{b.Says(p, catalog.GoalScheduled, catalog.Params{Goal: "call Mary", When: g.Understood})}, b.texted(p)[2:])
		}},
		{name: "Undone", begin: asked, cause: writes("undo"), want: func(b *service, p people.Profile) {
			all := b.GoalsOf(p)
			require.Equal(b.T, []string{"cancelled", "scheduled"}, []string{b.nowIs(all[0]), b.nowIs(all[1])})
			require.Equal(b.T, []string{b.Says(p, catalog.GoalCancelled, catalog.Params{Goal: "call Mary"})}, b.texted(p)[2:])
		}},
		{name: "Texted", begin: american, cause: func(b *service, p people.Profile) func() error {
			g, _, err := b.Start(b.Healthy()).Goals.Create(b.T.Context(), goals.New{
				OrgID: onboardingtest.OrgID, ProfileID: p.ID, Said: "call John", At: b.Clock.Now().Add(time.Minute), Source: goals.SourceREST, Key: "1", By: "user:" + p.ID,
			})
			require.NoError(b.T, err)
			return func() error {
				b.Clock.Advance(max(0, g.ScheduledFor.Sub(b.Clock.Now())))
				_, err := b.Current().Goals.Execute(b.T.Context(), g.ID)
				return err
			}
		}, want: func(b *service, p people.Profile) {
			require.Equal(b.T, "completed", b.nowIs(b.SaidGoal(p)))
			require.Equal(b.T, []string{"Reminder: call John"}, b.texted(p))
			require.Equal(b.T, 1, b.Count(`select count(*) from event_outbox where subject = $1 and type = 'goal.completed'`, p.ID))
		}},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			b := serve(t)
			b.EveryMishap(3, func(p *onboardingtest.Ports) { s.play(b, p) })
		})
	}
}

func american(b *service) people.Profile { return b.Speaker("en") }
