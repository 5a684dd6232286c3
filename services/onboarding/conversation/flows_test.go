package conversation_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/messagingtest"
	"paceline.internal/platform/queue"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// visit is a flow with a step of every kind that a session can stand at.
var visit = onboardingtest.Visit

func visited(b *bundle) (people.Profile, session.Record) { return b.Visited() }

func said(b *bundle, p people.Profile) []string { return b.Said(p) }

func free(answer string) func(string, []byte) ([]byte, error) { return onboardingtest.Answers(answer) }

// publish publishes a flow that begins at its step first.
func publish(b *bundle, name, steps, texts string) {
	b.T.Helper()
	files := map[string]string{"flow.yaml": "flow: " + name + "\nlanguages: [en]\nstart: first\nsteps:\n" + steps, "en.yaml": "texts:\n" + texts}
	_, err := b.Store.Flows().Publish(b.T.Context(), onboardingtest.OrgID, files, b.Clock.Now())
	require.NoError(b.T, err)
}

func begin(b *bundle, p people.Profile, name string) error {
	_, err := b.Current().Service.Begin(b.T.Context(), onboardingtest.OrgID, conversation.Start{ProfileID: p.ID, Flow: name})
	return err
}

func TestPublishedFlow(t *testing.T) {
	t.Parallel()
	const hello, ask, choose, nudge, full, tip = "Hi Ana, may we come by?", "Which day suits you, Monday or Tuesday?", "Please write Monday or Tuesday.",
		"We still need a day.", "That day is full.", "Keep your meter free."

	onboardingtest.Subtest(t, "IsPlayedFromItsFirstTextToItsEnd", setup, func(t *testing.T, b *bundle) {
		b.Host.Answer = free(`{"field": 3}`)
		p, r := visited(b)
		require.Equal(t, []any{session.Token("visit:hello"), "visit"}, []any{r.Token, r.Flow})
		b.Reply(p, "sure")
		b.Pass(time.Second)
		require.Equal(t, session.Token("visit:day"), b.Session(r.ID).Token)
		b.Reply(p, "tuesday or monday")
		b.Reply(p, "Monday")
		b.Pass(time.Minute)
		require.Equal(t, []string{hello, ask, choose, "We come on Monday.", tip}, said(b, p))
		taken := b.Messaging.Taken(p.Phone)
		require.GreaterOrEqual(t, taken[4].At.Sub(taken[3].At), 8*time.Second)
		ended := b.Session(r.ID)
		require.Equal(t, []any{session.Closed, "ended: booked", session.StepID("")}, []any{ended.Status, ended.Reason, ended.NextStep})
		require.Equal(t, []string{r.ID + ":free"}, b.Host.Keys)
		fields, err := b.Store.Fields(t.Context(), onboardingtest.OrgID, p.ID)
		require.NoError(t, err)
		require.Equal(t, map[string]any{"day": "monday", "free": 3.0}, fields)
		require.Equal(t, 1, b.Count(`select count(*) from event_outbox where type = 'session.completed' and data ->> 'flow' = 'visit'`))
		got, err := onboardingtest.Ask(b.Bundle, b.Current().Server.GetSession, &onboardingv1.GetSessionRequest{SessionId: r.ID})
		require.NoError(t, err)
		require.Equal(t, "ended: booked", got.GetTimeline()[len(got.GetTimeline())-1].GetDetail())
		require.Zero(t, b.Count(`select count(*) from event_outbox where data ? 'next_flow'`), "an outcome is no flow that follows")
	})

	onboardingtest.Subtest(t, "IsRefusedDuringAnother", setup, func(t *testing.T, b *bundle) {
		publish(b, "short", "  first: {send: BYE, then: done}\n  done: {end: over}\n", "  BYE: Bye.\n")
		p, r := visited(b)
		err := begin(b, p, "short")
		require.ErrorIs(t, err, conversation.ErrOtherOpen)
		require.EqualError(t, err, "the person is in the flow visit, in session "+r.ID+"; wait until it is over, or end it with "+
			"POST /v1/sessions/"+r.ID+":reset, and activate again")
		other, built := b.Activated()
		require.ErrorContains(t, begin(b, other, "short"), "the person is in the built-in conversation, in session "+built.ID)
	})

	onboardingtest.Subtest(t, "ShowsNoNumberThatIsLongerThanItsCheckCounted", setup, func(t *testing.T, b *bundle) {
		publish(b, "paid", "  first: {send: SUM, wait: reply, then: done}\n  done: {end: over}\nfields: {amount: number}\n",
			"  SUM: \"You owe {amount|nothing}, and no more than {amount|nothing}.\"\n")
		p := b.Person()
		owes := func(amount float64) error {
			_, err := b.Current().Service.Begin(t.Context(), onboardingtest.OrgID, conversation.Start{
				ProfileID: p.ID, Flow: "paid", Fields: map[string]any{"amount": amount},
			})
			return err
		}
		for _, amount := range []float64{1e300, 5e-324, 12345678901234567} {
			require.ErrorIs(t, owes(amount), flow.ErrFields)
			require.ErrorContains(t, owes(amount), "amount must be a number of at most 12 characters")
		}
		b.Exec(`insert into profile_fields (profile_id, org_id, name, value, private, updated_at) values ($1, $2, 'amount', '1e300', false, $3)`,
			p.ID, onboardingtest.OrgID, b.Clock.Now()) // of an earlier release
		require.NoError(t, begin(b, p, "paid"))
		require.Equal(t, []string{"You owe nothing, and no more than nothing."}, said(b, p))
	})

	onboardingtest.Subtest(t, "TakesNoLongNumberFromACall", setup, func(t *testing.T, b *bundle) {
		publish(b, "asked", "  first: {send: HI, wait: reply, then: sum}\n"+
			"  sum: {call: 'https://host.example/sum', save: amount, failed: bad, then: good}\n"+
			"  good: {send: SUM, then: done}\n  bad: {end: failed}\n  done: {end: over}\nfields: {amount: number}\n",
			"  HI: Hi.\n  SUM: \"You owe {amount|nothing}.\"\n")
		b.Host.Answer = free(`{"field": 1e308}`)
		p := b.Person()
		require.NoError(t, begin(b, p, "asked"))
		b.Reply(p, "yes")
		b.Pass(time.Minute)
		require.Equal(t, "ended: failed", b.Newest(p).Reason)
		require.Equal(t, []string{"Hi."}, said(b, p))
	})

	onboardingtest.Subtest(t, "ComesToAStepAgain", setup, func(t *testing.T, b *bundle) {
		b.Host.Answer = free(`{"field": 3, "branch": "full"}`)
		p, r := visited(b)
		b.Reply(p, "sure")
		for range 2 {
			b.Reply(p, "Monday")
			b.Pass(10 * time.Second)
		}
		b.Host.Answer = free(`{"field": 3}`)
		b.Reply(p, "Monday")
		b.Pass(time.Minute)
		require.Equal(t, []string{hello, ask, full, ask, full, ask, "We come on Monday.", tip}, said(b, p))
		require.Equal(t, []string{r.ID + ":free", r.ID + ":free#2", r.ID + ":free#3"}, b.Host.Keys)
		require.Equal(t, session.Closed, b.Session(r.ID).Status)
	})

	onboardingtest.Subtest(t, "FollowsASilence", setup, func(t *testing.T, b *bundle) {
		p, r := visited(b)
		b.Reply(p, "sure")
		b.Clock.Advance(23 * time.Hour)
		b.Pass(time.Second)
		require.Equal(t, []string{hello, ask}, said(b, p))
		b.Clock.Advance(time.Hour)
		b.Pass(time.Minute)
		require.Equal(t, []string{hello, ask, nudge}, said(b, p))
		b.Clock.Advance(24 * time.Hour)
		b.Pass(time.Minute)
		require.Equal(t, []string{hello, ask, nudge}, said(b, p))
		require.Equal(t, []any{session.Closed, "ended: silent"}, []any{b.Session(r.ID).Status, b.Session(r.ID).Reason})
	})

	onboardingtest.Subtest(t, "DoesNotNudgeAPersonWhoAnswered", setup, func(t *testing.T, b *bundle) {
		b.Host.Answer = free(`{"field": 3}`)
		p, _ := visited(b)
		b.Reply(p, "sure")
		b.Clock.Advance(23 * time.Hour)
		b.Reply(p, "Monday")
		b.Clock.Advance(2 * time.Hour)
		b.Pass(time.Minute)
		require.NotContains(t, said(b, p), nudge)
	})

	onboardingtest.Subtest(t, "HandsOverAndGoesOnWhenItIsResumed", setup, func(t *testing.T, b *bundle) {
		b.Host.Answer = func(string, []byte) ([]byte, error) { return nil, errors.New("503") }
		p, r := visited(b)
		b.Reply(p, "sure")
		b.Reply(p, "Monday")
		b.Pass(time.Minute)
		require.Equal(t, session.Stuck, b.Session(r.ID).Status)
		require.Contains(t, b.Entry(r.ID, session.KindParked).Detail, session.HandedOver+"no_day")
		b.Reply(p, "are you there?")
		b.Pass(time.Minute)
		require.Equal(t, []string{hello, ask}, said(b, p))
		b.Resumed(b.Session(r.ID))
		b.Pass(time.Minute)
		require.Equal(t, []any{session.Closed, "ended: booked"}, []any{b.Session(r.ID).Status, b.Session(r.ID).Reason})
	})

	onboardingtest.Subtest(t, "SendsNothingAfterAStop", setup, func(t *testing.T, b *bundle) {
		p, r := visited(b)
		b.Reply(p, "sure")
		b.Reply(p, "STOP")
		b.Clock.Advance(48 * time.Hour)
		b.Pass(time.Minute)
		require.NotContains(t, said(b, p), nudge)
		require.Equal(t, session.Stopped, b.Session(r.ID).Status)
	})

	onboardingtest.Subtest(t, "IsEnteredByAKeyword", setup, func(t *testing.T, b *bundle) {
		files := map[string]string{"en.yaml": visit["en.yaml"], "flow.yaml": visit["flow.yaml"] + "entry: {keywords: [Meter]}\n"}
		_, err := b.Store.Flows().Publish(t.Context(), onboardingtest.OrgID, files, b.Clock.Now())
		require.NoError(t, err)
		p := b.Person()
		b.Reply(p, "hello?")
		b.Reply(p, "meter!")
		b.Pass(time.Second)
		require.Equal(t, []string{hello}, said(b, p))
		b.Reply(p, "meter") // an answer by now
		b.Pass(time.Minute)
		require.Equal(t, []string{hello, ask}, said(b, p))
		require.Equal(t, 1, b.Sessions())
	})

	onboardingtest.Subtest(t, "StartsTheFlowThatFollows", setup, func(t *testing.T, b *bundle) {
		before := map[string]string{
			"flow.yaml": "flow: before\nlanguages: [en]\nstart: ready\nsteps:\n  ready: {send: READY, wait: reply, then: visit}\n  visit: {start: visit}\n",
			"en.yaml":   "texts:\n  READY: Ready?\n",
		}
		for _, files := range []map[string]string{before, visit} {
			_, err := b.Store.Flows().Publish(t.Context(), onboardingtest.OrgID, files, b.Clock.Now())
			require.NoError(t, err)
		}
		p := b.Person()
		_, err := b.Current().Service.Begin(t.Context(), onboardingtest.OrgID, conversation.Start{ProfileID: p.ID, Flow: "before"})
		require.NoError(t, err)
		b.Reply(p, "yes")
		b.Pass(time.Minute)
		require.Equal(t, []string{"Ready?", hello}, said(b, p))
		require.Equal(t, "visit", b.Newest(p).Flow)
		require.Equal(t, 1, b.Count(`select count(*) from conversation_sessions where flow = 'before' and status = 'closed'`))
	})

	onboardingtest.Subtest(t, "FollowsEveryAnswerAndOtherwiseAsOftenAsADayAllows", setup, func(t *testing.T, b *bundle) {
		b.Current().Service.ActivationsPerDay = 3
		publish(b, "circle", "  first: {send: READY, wait: reply, silence: {after: 1h, then: next}, then: again}\n  again: {start: circle}\n"+
			"  next: {start: last}\n", "  READY: Ready?\n")
		publish(b, "last", "  first: {send: BYE, then: done}\n  done: {end: over}\n", "  BYE: Bye.\n")
		p := b.Person()
		require.NoError(t, begin(b, p, "circle"))
		for n := 2; n <= 5; n++ {
			b.Reply(p, "yes")
			b.Pass(time.Minute)
			require.Len(t, said(b, p), n)
		}
		b.Pass(2 * time.Hour)
		require.Len(t, said(b, p), 5, "no answer led there")
		b.Pass(24 * time.Hour)
		require.Equal(t, "Bye.", said(b, p)[5])
	})

	onboardingtest.Subtest(t, "StartsNothingForWhomTheNextFlowIsNot", setup, func(t *testing.T, b *bundle) {
		publish(b, "before", "  first: {send: READY, wait: reply, then: next}\n  next: {start: gate}\n", "  READY: Ready?\n")
		publish(b, "gate", "  first: {if: \"person.locale == 'xx'\", then: bye, else: done}\n  bye: {send: BYE, then: done}\n  done: {end: over}\n", "  BYE: Bye.\n")
		p := b.Person()
		require.ErrorIs(t, begin(b, p, "gate"), conversation.ErrFlowSendsNothing)
		require.NoError(t, begin(b, p, "before"))
		b.Reply(p, "yes")
		b.Pass(time.Minute)
		require.Equal(t, []string{"Ready?"}, said(b, p))
		require.Equal(t, 1, b.Sessions())
		require.Zero(t, b.Count(`select count(*) from webhook_jobs where status in ('pending', 'failed')`))
	})

	onboardingtest.Subtest(t, "FollowsOnboardingAsTheInterview", setup, func(t *testing.T, b *bundle) {
		publish(b, session.Interview, "  first: {ask: FIRST, state: \"interview:activity_01\", expect: reply, then: done}\n  done: {end: told, host: true}\n",
			"  FIRST: First question?\n")
		p, r := b.Finished()
		b.Reply(p, "later") // S0-42
		require.Equal(t, []any{session.Active, session.AwaitingInterviewStart}, []any{b.Session(r.ID).Status, b.Session(r.ID).Token})
		b.Reply(p, "yes")
		b.Pass(time.Second)
		onboarded, interview := b.Session(r.ID), b.Newest(p)
		require.Equal(t, []any{session.Closed, session.Interviewing, session.InterviewActivity01},
			[]any{onboarded.Status, onboarded.Mode, onboarded.Token})
		require.Equal(t, []any{"interview", session.Active, session.InterviewActivity01}, []any{interview.Flow, interview.Status, interview.Token})
		require.Equal(t, "First question?", said(b, p)[7])
		require.NoError(t, begin(b, p, ""), "the conversation is open")
		require.Equal(t, interview.ID, b.Newest(p).ID)
		b.Reply(p, "an answer")
		b.Pass(time.Second)
		require.Equal(t, []any{session.Active, session.Interviewing}, []any{b.Newest(p).Status, b.Newest(p).Mode}, "engagement follows")
		require.Equal(t, 2, b.Count(`select count(*) from event_outbox where type = 'session.completed'`))
		require.Equal(t, 1, b.Count(`select count(*) from event_outbox where data ->> 'next_flow' = 'interview'`), "the host is told who asks")
	})

	onboardingtest.Subtest(t, "LeavesWhomTheHostHasToAnActivationWithoutAName", setup, func(t *testing.T, b *bundle) {
		_, err := b.Store.Flows().Publish(t.Context(), onboardingtest.OrgID, visit, b.Clock.Now())
		require.NoError(t, err)
		p, r := b.Finished()
		b.Reply(p, "yes")
		b.Current().Service.ActivationFlow = "visit"
		require.NoError(t, begin(b, p, ""))
		require.Equal(t, []any{r.ID, session.Interviewing}, []any{b.Newest(p).ID, b.Newest(p).Mode})
		stranger := b.Person()
		require.NoError(t, begin(b, stranger, ""))
		require.Equal(t, "visit", b.Newest(stranger).Flow)

		b.Current().Service.ActivationFlow = ""
		_, err = onboardingtest.Ask(b.Bundle, b.Current().Server.UpdateSettings, &onboardingv1.UpdateSettingsRequest{Settings: &onboardingv1.Settings{
			QuietHours: &onboardingv1.QuietHours{}, ActivationFlow: new("visit"),
		}})
		require.NoError(t, err)
		another := b.Person()
		require.NoError(t, begin(b, another, ""))
		require.Equal(t, "visit", b.Newest(another).Flow, "the organisation's, before the deployment's")
	})

	onboardingtest.Subtest(t, "LeavesTheInterviewToTheHostWhereItAsksNothing", setup, func(t *testing.T, b *bundle) {
		publish(b, session.Interview, "  first: {if: \"person.locale == 'xx'\", then: ask, else: done}\n  ask: {send: FIRST, then: done}\n  done: {end: told, host: true}\n",
			"  FIRST: First question?\n")
		p, r := b.Finished()
		b.Reply(p, "yes")
		b.Pass(time.Second)
		require.Equal(t, []any{session.Active, session.Interviewing}, []any{b.Session(r.ID).Status, b.Session(r.ID).Mode})
	})

	onboardingtest.Subtest(t, "RepeatsWhatWasJustSaid", setup, func(t *testing.T, b *bundle) {
		publish(b, "party", "  first: {ask: HOW_MANY, expect: {number: {min: 1, max: 9}}, save: guests, unclear: {send: HOW_MANY, then: done}, then: thanks}\n"+
			"  thanks: {send: THANKS, then: done}\n  done: {end: booked}\n", "  HOW_MANY: How many?\n  THANKS: \"A table for {guests|you}.\"\n")
		p := b.Person()
		require.NoError(t, begin(b, p, "party"))
		b.Reply(p, "4")
		require.Equal(t, []string{"How many?", "A table for 4."}, said(b, p))
	})

	onboardingtest.Subtest(t, "KeepsWhatIsWrittenBeforeItsFirstText", setup, func(t *testing.T, b *bundle) {
		b.SleepsAtNight()
		publish(b, "news", "  first: {send: NEWS, then: more}\n  more: {send: MORE, after: 8s, wait: reply, then: done}\n  done: {end: told}\n",
			"  NEWS: Some news.\n  MORE: Want more?\n")
		b.Turns(22, 30)
		p := b.Person()
		require.NoError(t, begin(b, p, "news"))
		b.Reply(p, "hello?")
		b.Pass(time.Minute)
		require.Empty(t, said(b, p))
		b.Clock.Advance(onboardingtest.Morning.Sub(b.Clock.Now()))
		b.Pass(time.Minute)
		require.Equal(t, []string{"Some news.", "Want more?"}, said(b, p))
		b.Reply(p, "yes")
		require.Equal(t, session.Closed, b.Newest(p).Status)
	})

	onboardingtest.Subtest(t, "DelaysItsFirstText", setup, func(t *testing.T, b *bundle) {
		publish(b, "late", "  first: {if: \"person.locale == 'en'\", then: news, else: done}\n  news: {send: NEWS, after: 1h, then: next}\n"+
			"  next: {start: later}\n  done: {end: told}\n", "  NEWS: Some news.\n")
		publish(b, "later", "  first: {ask: MORE, after: 2h, expect: yes_no, unclear: {send: MORE, then: done}, then: done}\n  done: {end: told}\n",
			"  MORE: Want more?\n")
		p, stopped := b.Person(), b.Person()
		begun := b.Clock.Now()
		require.NoError(t, begin(b, p, "late"))
		require.NoError(t, begin(b, stopped, "late"))
		b.Reply(p, "hello?")
		b.Reply(stopped, "STOP")
		b.Pass(59 * time.Minute)
		require.Empty(t, said(b, p))
		b.Pass(time.Minute)
		require.Equal(t, []string{"Some news."}, said(b, p))
		b.Pass(2*time.Hour + time.Minute)
		require.Equal(t, []string{"Some news.", "Want more?"}, said(b, p))
		taken := b.Messaging.Taken(p.Phone)
		require.Equal(t, begun.Add(time.Hour), taken[0].At)
		require.GreaterOrEqual(t, taken[1].At.Sub(taken[0].At), 2*time.Hour)
		require.Empty(t, said(b, stopped))
		b.Reply(p, "yes")
		require.Equal(t, session.Closed, b.Newest(p).Status)
	})

	onboardingtest.Subtest(t, "TakesNoReplyToAFirstTextThatIsDelayed", setup, func(t *testing.T, b *bundle) {
		publish(b, "late", "  first: {send: NEWS, after: 1h, wait: reply, then: next}\n  next: {send: MORE, then: done}\n  done: {end: told}\n",
			"  NEWS: Some news.\n  MORE: That is all.\n")
		p := b.Person()
		require.NoError(t, begin(b, p, "late"))
		b.Reply(p, "hello?")
		b.Pass(time.Hour + time.Minute)
		require.Equal(t, []string{"Some news."}, said(b, p))
		b.Reply(p, "ok")
		require.Equal(t, []string{"Some news.", "That is all."}, said(b, p))
	})

	onboardingtest.Subtest(t, "TakesNoAnswerToAQuestionThatWasNotAsked", setup, func(t *testing.T, b *bundle) {
		b.SleepsAtNight()
		publish(b, "agree", "  first: {ask: AGREE, expect: yes_no, save: agreed, unclear: {send: AGREE, then: done}, then: done}\n  done: {end: asked}\n",
			"  AGREE: Do you agree?\n")
		b.Turns(22, 30)
		p := b.Person()
		require.NoError(t, begin(b, p, "agree"))
		b.Reply(p, "yes")
		b.Clock.Advance(onboardingtest.Morning.Sub(b.Clock.Now()))
		b.Pass(time.Minute)
		fields, err := b.Store.Fields(t.Context(), onboardingtest.OrgID, p.ID)
		require.NoError(t, err)
		require.Empty(t, fields)
		require.Equal(t, []string{"Do you agree?"}, said(b, p))
		b.Reply(p, "yes")
		require.Equal(t, session.Closed, b.Newest(p).Status)
	})

	onboardingtest.Subtest(t, "ASilenceThatHasToWaitLetsThePersonsTextsPass", setup, func(t *testing.T, b *bundle) {
		p, r := visited(b)
		b.Reply(p, "sure")
		b.Hold(p)
		payload := fmt.Sprintf(`{"session_id": %q, "place": %d}`, r.ID, b.Session(r.ID).Place())
		its := queue.Job{ID: uuid.NewString(), OrgID: onboardingtest.OrgID, EventType: conversation.EventFlow, Subject: p.Phone, Payload: []byte(payload)}
		for range 2 {
			require.NoError(t, b.Current().Service.FollowFlow(t.Context(), its))
		}
		require.Equal(t, 1, b.Count(`select count(*) from webhook_jobs where idempotency_key = 'waits:' || $1 and subject like 'flow:%' and status = 'pending'`, its.ID))
	})

	onboardingtest.Subtest(t, "AReplyThatWaitsForACapIsNoSilence", setup, func(t *testing.T, b *bundle) {
		p, r := visited(b)
		b.Reply(p, "sure")
		b.Clock.Advance(24 * time.Hour)
		b.Pass(time.Minute)
		b.Clock.Advance(24*time.Hour - 90*time.Second)
		b.Messaging.SetFull(true)
		b.Reply(p, "what?")
		require.Equal(t, "capped", b.Entry(r.ID, session.KindHeld).Detail)
		b.Pass(3 * time.Minute)
		require.Equal(t, session.Active, b.Session(r.ID).Status)
		b.Messaging.SetFull(false)
		b.Pass(2 * time.Minute)
		require.Equal(t, []string{hello, ask, nudge, choose}, said(b, p))
	})

	onboardingtest.Subtest(t, "BeginsForAPersonWhoIsInterviewed", setup, func(t *testing.T, b *bundle) {
		_, err := b.Store.Flows().Publish(t.Context(), onboardingtest.OrgID, visit, b.Clock.Now())
		require.NoError(t, err)
		p, r := b.Finished()
		b.Reply(p, "yes")
		require.Equal(t, session.Interviewing, b.Session(r.ID).Mode)
		require.NoError(t, begin(b, p, "visit"))
		require.Equal(t, "visit", b.Newest(p).Flow)
		require.Equal(t, session.Closed, b.Session(r.ID).Status)
		require.NoError(t, begin(b, p, ""), "an open session is returned as it is")
		require.ErrorIs(t, begin(b, p, "other"), flow.ErrNotFound)
		require.Equal(t, 2, b.Sessions())
	})

	onboardingtest.Subtest(t, "AnswersWhatWasHeldRatherThanNudging", setup, func(t *testing.T, b *bundle) {
		b.Host.Answer = free(`{"field": 3}`)
		p, r := visited(b)
		b.Reply(p, "sure")
		b.Messaging.Script(messagingtest.First(messagingtest.Reject))
		b.Clock.Advance(24 * time.Hour)
		b.Pass(time.Minute)
		require.Equal(t, session.Undeliverable, b.Session(r.ID).Status)
		b.Reply(p, "Monday")
		b.Resumed(b.Session(r.ID))
		b.Pass(time.Minute)
		require.NotContains(t, said(b, p), nudge)
		require.Contains(t, said(b, p), "We come on Monday.")
	})

	onboardingtest.Subtest(t, "ReadsADayByThePersonsClock", setup, func(t *testing.T, b *bundle) {
		files := map[string]string{
			"flow.yaml": "flow: when\nlanguages: [en]\nstart: day\nsteps:\n  day: {ask: DAY, expect: date, save: day, unclear: {send: AGAIN, then: done}, then: done}\n  done: {end: known}\n",
			"en.yaml":   "texts:\n  DAY: Which day?\n  AGAIN: Which day?\n",
		}
		_, err := b.Store.Flows().Publish(t.Context(), onboardingtest.OrgID, files, b.Clock.Now())
		require.NoError(t, err)
		_, err = b.Settle(onboardingtest.OrgID, &onboardingv1.QuietHours{}) // at no time
		require.NoError(t, err)
		p := b.Person()
		b.Exec(`update profiles set time_zone = 'Pacific/Auckland' where id = $1`, p.ID)
		b.Turns(20, 0) // it is tomorrow there
		_, err = b.Current().Service.Begin(t.Context(), onboardingtest.OrgID, conversation.Start{ProfileID: p.ID, Flow: "when"})
		require.NoError(t, err)
		b.Reply(p, "tomorrow")
		fields, err := b.Store.Fields(t.Context(), onboardingtest.OrgID, p.ID)
		require.NoError(t, err)
		require.Equal(t, map[string]any{"day": b.Clock.Now().UTC().AddDate(0, 0, 2).Format(time.DateOnly)}, fields)
	})

	onboardingtest.Subtest(t, "StaysOnItsVersion", setup, func(t *testing.T, b *bundle) {
		p, r := visited(b)
		changed := map[string]string{"flow.yaml": visit["flow.yaml"], "en.yaml": visit["en.yaml"] + "\n"}
		published, err := b.Store.Flows().Publish(t.Context(), onboardingtest.OrgID, changed, b.Clock.Now())
		require.NoError(t, err)
		require.NotEqual(t, published.Version.Version, r.FlowVersion)
		b.Reply(p, "sure")
		require.Equal(t, r.FlowVersion, b.Session(r.ID).FlowVersion)
		require.Equal(t, []string{hello, ask}, said(b, p))
	})
}

// TestCrashOfFlows is the crash matrix of published flows: a reply that is answered, a silence, and an answer that leads through a call and
// two scheduled texts to the end, with every mishap at every call of the database, of messaging and of QStash, until a run has no call left.
func TestCrashOfFlows(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	asked := func(b *bundle) (people.Profile, session.Record) {
		p, r := visited(b)
		b.Reply(p, "sure")
		return p, r
	}
	for _, tt := range []struct {
		name  string
		begin func(b *bundle) (people.Profile, session.Record)
		cause func(b *bundle, p people.Profile) func() error
		want  int // texts
		ends  func(newest session.Record) bool
	}{
		{name: "Reply", begin: visited, cause: writes("sure"), want: 2, ends: func(r session.Record) bool { return r.Token == "visit:day" }},
		{name: "Silence", begin: asked, cause: func(b *bundle, _ people.Profile) func() error {
			b.Clock.Advance(24 * time.Hour)
			return func() error { return nil }
		}, want: 3, ends: func(r session.Record) bool { return r.At.Silent == 1 && r.Token == "visit:day" }},
		{name: "Start", begin: func(b *bundle) (people.Profile, session.Record) {
			publish(b, "before", "  first: {send: READY, wait: reply, then: next}\n  next: {start: short}\n", "  READY: Ready?\n")
			publish(b, "short", "  first: {send: BYE, then: done}\n  done: {end: over}\n", "  BYE: Bye.\n")
			p := b.Person()
			require.NoError(b.T, begin(b, p, "before"))
			return p, b.Newest(p)
		}, cause: writes("yes"), want: 2, ends: func(r session.Record) bool { return r.Flow == "short" && r.Status == session.Closed }},
		{name: "Call", begin: asked, cause: writes("Monday"), want: 4, ends: func(r session.Record) bool { return r.Status == session.Closed }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.Host.Answer = free(`{"field": 3}`)
			play := func(p *onboardingtest.Ports) []session.Kind {
				b.Serve(b.Start(b.Healthy()))
				person, _ := tt.begin(b)
				b.Serve(b.Start(p))
				cause := tt.cause(b, person)
				for try := 1; cause() != nil; try++ {
					require.Less(t, try, 5)
				}
				b.Until(func() bool { return tt.ends(b.Newest(person)) })
				b.Serve(b.Start(b.Healthy()))
				_ = cause()
				require.Len(t, said(b, person), tt.want, "%s call %d of %v", p.Mishap, p.At, p.Calls)
				require.Zero(t, b.Count(`select count(*) from webhook_jobs where status = 'failed'`))
				return b.effects(person)
			}
			goodDay := play(b.Healthy())
			b.EveryMishap(3, func(p *onboardingtest.Ports) {
				require.Equal(t, goodDay, play(p), "%s call %d of %v", p.Mishap, p.At, p.Calls)
			})
		})
	}
}
