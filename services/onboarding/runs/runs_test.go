package runs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/messagingtest"
	"paceline.internal/platform/queue"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/runs"
	"paceline.internal/services/onboarding/session"
)

func TestRun(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "StartsEachPersonOnce", setup, func(t *testing.T, b *bundle) {
		all := b.persons(20)
		list := append(idsOf(all), all[0].Phone, strings.ToUpper(all[1].ID), "+1 202 555 9999", "Bob")
		run, unknown, _, err := b.runs().Start(t.Context(), runs.Request{OrgID: onboardingtest.OrgID, Flow: "news", People: list, Key: "all"})
		require.NoError(t, err)
		require.Equal(t, runs.Unknown{Counts: map[runs.Reason]int{runs.NoProfile: 1, runs.BadNumber: 1}, Places: []int{22, 23}}, unknown)
		b.Pass(time.Minute)
		is := b.get(run.ID)
		require.Equal(t, []any{runs.Completed, runs.Counts{People: 20, Started: 20, LeftOut: map[runs.Reason]int{}}}, []any{is.Status, *is.Counts})
		for _, n := range b.texts(all) {
			require.Equal(t, 1, n)
		}
		require.Equal(t, 20, b.Count(`select count(*) from conversation_sessions where flow = 'news' and status = 'closed'`))
	})

	onboardingtest.Subtest(t, "BeginsPeopleApartWhileTextsOfConversationsAreDue", setup, func(t *testing.T, b *bundle) {
		rests := 0
		b.runs().Rest = func(context.Context, time.Duration, <-chan struct{}) bool { rests++; return true }
		b.start(runs.Request{People: idsOf(b.persons(3))})
		b.Work()
		require.Zero(t, rests, "nobody else has a text that is due")
		_, err := b.Current().Service.ExecuteStep(t.Context(), session.StepPayload{
			SessionID: onboardingtest.NewID(), StepID: "onboarding_message_1",
		}, "", conversation.EarlyRuns)
		require.NoError(t, err)
		all := b.persons(3)
		b.start(runs.Request{People: idsOf(all)})
		b.Work()
		require.Equal(t, 2, rests)
		require.Equal(t, []int{1, 1, 1}, b.texts(all))
	})

	onboardingtest.Subtest(t, "KeepsTheVersionThatWasCurrent", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		run := b.start(runs.Request{People: []string{p.ID}, Paused: true})
		b.publish("Another text.")
		b.Pass(time.Minute)
		require.Equal(t, []int{0}, b.texts([]people.Profile{p}), "it is paused")
		_, err := b.runs().Switch(t.Context(), onboardingtest.OrgID, run.ID, runs.Running)
		require.NoError(t, err)
		b.Pass(time.Minute)
		require.Equal(t, "Hello Ana, we open at nine.", b.Messaging.Taken(p.Phone)[0].Body)
	})

	onboardingtest.Subtest(t, "AsksAFilter", setup, func(t *testing.T, b *bundle) {
		gold, other := b.persons(3), b.persons(3)
		for _, p := range gold {
			_, err := b.Current().Persons.ChangeProfile(t.Context(), onboardingtest.OrgID, p.ID, people.Change{Fields: map[string]any{"plan": "gold", "visits": 3.0}})
			require.NoError(t, err)
		}
		run := b.start(runs.Request{Filter: `person.fields.plan == 'gold' && person.fields.visits > 2`})
		b.Pass(time.Minute)
		require.Equal(t, runs.Counts{People: 3, Started: 3, LeftOut: map[runs.Reason]int{}}, *b.get(run.ID).Counts)
		require.Equal(t, []int{1, 1, 1, 0, 0, 0}, b.texts(append(gold, other...)))
	})

	onboardingtest.Subtest(t, "LeavesPeopleOut", setup, func(t *testing.T, b *bundle) {
		held, open, stopped, asks, fine := b.Person(), b.Person(), b.Person(), b.Person(), b.Person()
		b.Reply(asks, "is this the clinic?")
		b.Hold(held)
		_, err := b.Current().Service.Begin(t.Context(), onboardingtest.OrgID, conversation.Start{ProfileID: open.ID})
		require.NoError(t, err)
		b.Reply(stopped, "STOP")
		in := runs.Request{OrgID: onboardingtest.OrgID, Flow: "news", People: idsOf([]people.Profile{held, open, stopped, asks, fine})}
		preview, _, err := b.runs().Preview(t.Context(), in)
		require.NoError(t, err)
		left := map[runs.Reason]int{runs.Held: 1, runs.SessionOpen: 1, runs.OptedOut: 1, runs.TicketOpen: 1}
		require.Equal(t, runs.Preview{
			People: 1, Segments: 2, Languages: map[string]runs.Share{"en": {People: 1, Segments: 2}}, LeftOut: left, Complete: true,
		}, preview)
		run := b.start(in)
		b.Pass(time.Minute)
		require.Equal(t, runs.Counts{People: 5, Started: 1, LeftOut: left}, *b.get(run.ID).Counts)
		require.Equal(t, 1, b.texts([]people.Profile{fine})[0])
	})

	onboardingtest.Subtest(t, "WaitsForTheMorning", setup, func(t *testing.T, b *bundle) {
		b.SleepsAtNight()
		p := b.Person()
		b.Turns(2, 0)
		run := b.start(runs.Request{People: []string{p.ID}})
		b.Pass(time.Minute)
		require.Equal(t, 1, b.get(run.ID).Counts.Waiting)
		require.Zero(t, b.Count(`select count(*) from conversation_sessions`), "nobody's session is open through the night")
	})

	onboardingtest.Subtest(t, "OpensNoMoreWhileOpeningsAreNotSent", setup, func(t *testing.T, b *bundle) {
		all := b.persons(80)
		b.Messaging.Script(func(int, *messagingv1.SendRequest) messagingtest.Outcome { return messagingtest.Unavailable })
		run := b.start(runs.Request{People: idsOf(all)})
		b.Pass(time.Minute)
		require.LessOrEqual(t, b.Count(`select count(*) from conversation_sessions`), 72)
		b.Messaging.Script(nil)
		b.Pass(5 * time.Minute)
		require.Equal(t, 80, b.get(run.ID).Counts.Started)
		for _, n := range b.texts(all) {
			require.Equal(t, 1, n)
		}
	})

	onboardingtest.Subtest(t, "IsPausedAndCancelled", setup, func(t *testing.T, b *bundle) {
		all := b.persons(30)
		b.Messaging.SetDown(true) // nobody can be started
		run := b.start(runs.Request{People: idsOf(all)})
		b.Work()
		to := func(status runs.Status) error {
			_, err := b.runs().Switch(t.Context(), onboardingtest.OrgID, run.ID, status)
			return err
		}
		for range 2 { // a repeat changes nothing
			require.NoError(t, to(runs.Paused))
		}
		b.Messaging.SetDown(false)
		b.Pass(time.Minute)
		require.Zero(t, b.get(run.ID).Counts.Started)
		added, already, _, err := b.runs().Add(t.Context(), onboardingtest.OrgID, run.ID, []string{all[0].ID, b.Person().ID})
		require.NoError(t, err)
		require.Equal(t, []int{1, 1}, []int{added, already})
		require.NoError(t, to(runs.Cancelled))
		require.NoError(t, to(runs.Cancelled))
		require.ErrorIs(t, to(runs.Running), runs.ErrFinished)
		_, _, _, err = b.runs().Add(t.Context(), onboardingtest.OrgID, run.ID, idsOf(all))
		require.ErrorIs(t, err, runs.ErrFinished)
		b.Pass(time.Minute)
		require.Equal(t, runs.Counts{People: 31, Waiting: 31, LeftOut: map[runs.Reason]int{}}, *b.get(run.ID).Counts)
	})

	onboardingtest.Subtest(t, "IsMadeOncePerKey", setup, func(t *testing.T, b *bundle) {
		p := b.Person()
		in := runs.Request{OrgID: onboardingtest.OrgID, Flow: "news", People: []string{p.ID}, Key: "spring"}
		first, _, duplicate, err := b.runs().Start(t.Context(), in)
		require.NoError(t, err)
		require.False(t, duplicate)
		again, _, duplicate, err := b.runs().Start(t.Context(), in)
		require.NoError(t, err)
		require.True(t, duplicate)
		require.Equal(t, first.ID, again.ID)
		in.People = []string{b.Person().ID}
		_, _, _, err = b.runs().Start(t.Context(), in)
		require.ErrorIs(t, err, runs.ErrKeyReused)
	})

	onboardingtest.Subtest(t, "IsNotMadeWithoutAKey", setup, func(t *testing.T, b *bundle) {
		_, _, _, err := b.runs().Start(t.Context(), runs.Request{OrgID: onboardingtest.OrgID, Flow: "news", People: []string{b.Person().ID}})
		require.ErrorIs(t, err, runs.ErrInvalid)
		require.ErrorContains(t, err, "Idempotency-Key")
	})

	onboardingtest.Subtest(t, "IsRefusedWithWhatToSend", setup, func(t *testing.T, b *bundle) {
		for _, tt := range []struct {
			in   runs.Request
			want string
		}{
			{in: runs.Request{}, want: "send people, or a filter"},
			{in: runs.Request{People: []string{"x"}, Filter: "true"}, want: "send people or filter, and not both"},
			{in: runs.Request{People: make([]string, runs.MaxPage+1)}, want: "people has 10001 entries, and may have 10000"},
			{in: runs.Request{Filter: "person.fields.plna == 'gold'"}, want: "the names are person.locale, person.first_name, person.time_zone, person.fields.hour, person.fields.plan"},
			{in: runs.Request{Filter: "person.fields.plan"}, want: "a condition gives true or false"},
		} {
			tt.in.OrgID, tt.in.Flow, tt.in.Key = onboardingtest.OrgID, "news", "k"
			_, _, _, err := b.runs().Start(t.Context(), tt.in)
			require.ErrorIs(t, err, runs.ErrInvalid)
			require.ErrorContains(t, err, tt.want)
		}
	})
}

// TestStandstill is about what keeps a run from going on, or has it go on where it should not.
func TestStandstill(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "StopsWhenTheCarrierRefusesEverybody", setup, func(t *testing.T, b *bundle) {
		all := b.persons(40)
		b.Messaging.Script(func(int, *messagingv1.SendRequest) messagingtest.Outcome { return messagingtest.Misconfigured })
		run := b.start(runs.Request{People: idsOf(all)})
		b.Pass(time.Minute)
		is := b.get(run.ID)
		require.Equal(t, runs.Paused, is.Status)
		require.Contains(t, is.Reason, "Twilio 20003: Twilio does not know our account; to do: correct TWILIO_AUTH_TOKEN; it refused 16 first texts in a row")
		require.Less(t, is.Counts.Started, 25)
		require.Contains(t, b.Log.String(), "onboarding.run_paused")
		_, err := b.runs().Switch(t.Context(), onboardingtest.OrgID, run.ID, runs.Running)
		require.NoError(t, err)
		b.Pass(time.Minute)
		is = b.get(run.ID)
		require.Equal(t, runs.Paused, is.Status, "nothing was mended")
		require.Less(t, is.Counts.Started, 41)

		b.Messaging.Script(nil)
		_, err = b.runs().Switch(t.Context(), onboardingtest.OrgID, run.ID, runs.Running)
		require.NoError(t, err)
		b.Pass(2 * time.Minute)
		require.Equal(t, runs.Completed, b.get(run.ID).Status)
		for _, n := range b.texts(all) {
			require.Equal(t, 1, n)
		}
	})

	onboardingtest.Subtest(t, "GoesOnWithoutAJob", setup, func(t *testing.T, b *bundle) {
		all := b.persons(3)
		run := b.start(runs.Request{People: idsOf(all)})
		b.Exec(`delete from webhook_jobs where subject = 'run:' || $1`, run.ID)
		b.Pass(time.Minute)
		require.Equal(t, runs.Completed, b.get(run.ID).Status)
		require.Equal(t, []int{1, 1, 1}, b.texts(all))
	})

	onboardingtest.Subtest(t, "OpeningsThatWaitAreNotInTheWay", setup, func(t *testing.T, b *bundle) {
		all := b.persons(80)
		b.Messaging.SetFull(true) // each waits beneath a cap
		run := b.start(runs.Request{People: idsOf(all)})
		b.Pass(time.Minute)
		require.Equal(t, 80, b.get(run.ID).Counts.Started)
		b.Messaging.SetFull(false)
		b.Pass(2 * time.Minute)
		for _, n := range b.texts(all) {
			require.Equal(t, 1, n)
		}
	})

	onboardingtest.Subtest(t, "LeavesOutWhoCannotBeStarted", setup, func(t *testing.T, b *bundle) {
		all := b.persons(3)
		service := b.runs()
		service.Conversations = failing{service.Conversations.(*conversation.Service), all[1].ID}
		run := b.start(runs.Request{People: idsOf(all)})
		for range 12 {
			b.Clock.Advance(5 * time.Minute)
			b.Pass(time.Minute)
		}
		is := b.get(run.ID)
		require.Equal(t, runs.Completed, is.Status)
		require.Equal(t, runs.Counts{People: 3, Started: 2, LeftOut: map[runs.Reason]int{runs.Failed: 1}}, *is.Counts)
		require.Equal(t, []int{1, 0, 1}, b.texts(all))
	})

	onboardingtest.Subtest(t, "IsNotPausedByAJobFromBeforeItWasResumed", setup, func(t *testing.T, b *bundle) {
		run := b.start(runs.Request{People: idsOf(b.persons(1)), Paused: true})
		first, err := b.runs().Switch(t.Context(), onboardingtest.OrgID, run.ID, runs.Running)
		require.NoError(t, err)
		job := func(wakes int) queue.Job {
			return queue.Job{EventType: runs.Event, Payload: fmt.Appendf(nil, `{"org_id":%q,"run_id":%q,"wakes":%d}`, onboardingtest.OrgID, run.ID, wakes)}
		}
		require.NoError(t, b.runs().GiveUp(t.Context(), job(first.Wakes-1), errors.New("of before")))
		require.Equal(t, runs.Running, b.get(run.ID).Status)
		require.NoError(t, b.runs().GiveUp(t.Context(), job(first.Wakes), errors.New("of now")))
		require.Equal(t, runs.Paused, b.get(run.ID).Status)
		require.Contains(t, b.get(run.ID).Reason, "of now")
	})
}

// failing fails for one person.
type failing struct {
	*conversation.Service

	profileID string
}

func (f failing) Begin(ctx context.Context, orgID string, start conversation.Start) (conversation.Activated, error) {
	if start.ProfileID == f.profileID {
		return conversation.Activated{}, errors.New("it fails for this person")
	}
	return f.Service.Begin(ctx, orgID, start)
}

// TestCrash kills the process at every call of a port. The run converges, and nobody gets the text twice.
func TestCrash(t *testing.T) {
	t.Parallel()
	b := setup(t)
	plays := 0
	var everybody []people.Profile
	b.EveryMishap(12, func(p *onboardingtest.Ports) {
		plays++
		all := b.persons(4)
		for _, person := range all {
			_, err := b.Current().Persons.ChangeProfile(t.Context(), onboardingtest.OrgID, person.ID, people.Change{
				Fields: map[string]any{"hour": fmt.Sprint(plays)},
			})
			require.NoError(t, err)
		}
		b.Hold(all[3])
		run := b.start(runs.Request{Filter: fmt.Sprintf("person.fields.hour == '%d'", plays)})
		b.Serve(b.Start(p))
		b.Until(func() bool { return b.get(run.ID).Status == runs.Completed && b.texts(all[:3])[2] > 0 })
		require.Equal(t, runs.Counts{People: 4, Started: 3, LeftOut: map[runs.Reason]int{runs.Held: 1}}, *b.get(run.ID).Counts)
		everybody = append(everybody, all...)
	})
	b.Pass(time.Minute)
	for i, n := range b.texts(everybody) {
		require.Equal(t, 1-i%4/3, n, "the one who is held gets none, and all others one")
	}
}
