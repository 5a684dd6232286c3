package tickets_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"paceline.internal/platform/queue"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// TestTakers is about who takes which text: a ticket opens for what nobody else answers, and for what asks for a person.
func TestTakers(t *testing.T) {
	t.Parallel()

	t.Run("AskingWordsWaitForAPerson", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.Activated()
		before := len(b.said(p))
		b.Reply(p, asking)
		got := b.ticket(p)
		require.Equal(t, []string{"open", "asked", asking, r.ID}, []string{got.GetStatus(), got.GetReason(), got.GetLastText(), got.GetSessionId()})
		require.EqualValues(t, 1, got.GetTexts())
		b.Reply(p, "hello?")
		require.EqualValues(t, 2, b.ticket(p).GetTexts(), "a further text belongs to it")
		require.Equal(t, "hello?", b.ticket(p).GetLastText())
		b.Work()
		require.Len(t, b.said(p), before, "the flow says nothing")
		require.Equal(t, session.Stuck, b.Session(r.ID).Status)

		b.closes(p, "resume")
		require.Equal(t, session.AwaitingOpeningResponse, b.Session(r.ID).Token)
		require.Equal(t, session.Active, b.Session(r.ID).Status)
		b.Work()
		require.Len(t, b.said(p), before, "what the person wrote to a person answers nothing")
		b.Reply(p, "ok")
		require.Equal(t, session.AwaitingExplanationResponse, b.Session(r.ID).Token)
	})

	t.Run("OrdinaryWordsGoToTheFlow", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.Activated()
		b.Reply(p, "my child is sick, what do I do") // any reply but a refusal advances
		require.Empty(t, b.tickets(p))
		require.Equal(t, session.AwaitingExplanationResponse, b.Session(r.ID).Token)
	})

	t.Run("AChoiceGoesToTheFlow", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, _ := b.begun("jobs", map[string]string{
			"flow.yaml": `
flow: jobs
languages: [en]
start: ask
steps:
  ask: {ask: WHAT, expect: {choice: [agent, driver]}, save: job, unclear: {send: WHAT, times: 1, then: done}, then: done}
  done: {end: known}
`,
			"en.yaml": `
texts:
  WHAT: Are you an agent or a driver?
choices:
  agent: [agent]
  driver: [driver]
`,
		})
		b.Reply(p, "Agent")
		require.Empty(t, b.tickets(p))
	})

	t.Run("WithoutAConversation", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.Person()
		b.Reply(p, "is this the clinic?")
		require.Equal(t, "unclaimed", b.ticket(p).GetReason())
		b.Activate(p) // begins a conversation, and nobody had the ticket
		require.Equal(t, 1, b.Count(`select count(*) from tickets where profile_id = $1 and outcome = 'entered'`, p.ID))
	})

	t.Run("AKeywordClosesOneThatNobodyHas", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.Person()
		_, err := b.Store.Flows().Publish(t.Context(), onboardingtest.OrgID, map[string]string{
			"flow.yaml": "flow: join\nlanguages: [en]\nentry: {keywords: [JOIN]}\nstart: hello\n" +
				"steps:\n  hello: {send: HELLO, wait: reply, then: done}\n  done: {end: completed}\n",
			"en.yaml": "texts:\n  HELLO: Welcome\n",
		}, b.Clock.Now())
		require.NoError(t, err)
		b.Reply(p, "is this the clinic?")
		b.Reply(p, "join")
		require.Empty(t, b.tickets(p))
		require.Equal(t, 1, b.Count(`select count(*) from tickets where profile_id = $1 and outcome = 'entered'`, p.ID))
		require.Equal(t, 1, b.Count(`select count(*) from conversation_sessions where flow = 'join' and status = 'active'`))
	})

	t.Run("AfterTheEndOfAFlow", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.surveyed()
		b.Reply(p, "4")
		b.Work()
		require.Equal(t, session.Closed, b.Session(r.ID).Status)
		b.Reply(p, "we are five after all")
		require.Equal(t, "unclaimed", b.ticket(p).GetReason())
	})

	t.Run("TheHostApplicationTakesWhatFollowsOnboarding", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, _ := b.Finished()
		b.Reply(p, "a story about my day")
		require.Empty(t, b.tickets(p))
	})

	t.Run("ASignIsNoText", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.Person()
		b.Reply(p, "Liked “Hi Ana”")
		require.Empty(t, b.tickets(p))
	})

	t.Run("StopStops", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.Activated()
		b.Reply(p, asking)
		b.Reply(p, "STOP")
		require.Equal(t, session.Stopped, b.Session(r.ID).Status)
		require.EqualValues(t, 1, b.ticket(p).GetTexts(), "a STOP has its own taker")
		b.closes(p, "resume")
		require.Equal(t, session.Stopped, b.Session(r.ID).Status)
	})

	t.Run("AFlowThatHandsOver", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.surveyed()
		b.Reply(p, "12")
		got := b.ticket(p)
		require.Equal(t, []string{"hand_over", "big_table", "12", r.ID}, []string{got.GetReason(), got.GetDetail(), got.GetLastText(), got.GetSessionId()})
		b.closes(p, "resume")
		b.Work()
		require.Contains(t, b.said(p), "A table for 12 is booked.")
		require.Equal(t, session.Closed, b.Session(r.ID).Status)
	})

	t.Run("AnAnswerThatStaysUnclear", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, _ := b.surveyed()
		b.Reply(p, "some")
		b.Reply(p, "a few")
		require.Equal(t, "unclear", b.ticket(p).GetReason())
	})

	t.Run("TheFlowsOwnWords", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, _ := b.surveyed()
		b.Reply(p, "give me the front desk")
		require.Equal(t, "asked", b.ticket(p).GetReason())
	})

	t.Run("WordsOfDistressHold", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, err := b.Current().Server.UpdateSettings(b.as("ada"), &onboardingv1.UpdateSettingsRequest{Settings: &onboardingv1.Settings{
			QuietHours: &onboardingv1.QuietHours{}, DistressWords: &onboardingv1.DistressWords{Words: []string{"want to die"}},
		}})
		require.NoError(t, err)
		p, _ := b.Activated()
		b.Reply(p, "I want to die")
		require.Equal(t, "distress", b.ticket(p).GetReason())
		asker, _ := b.Activated()
		b.Reply(asker, asking)
		found, err := b.Current().Inbox.ListTickets(b.as("ada"), &onboardingv1.ListTicketsRequest{Reason: "distress"})
		require.NoError(t, err)
		require.Len(t, found.GetTickets(), 1)
		_, err = b.Current().Inbox.ListTickets(b.as("ada"), &onboardingv1.ListTicketsRequest{Reason: "sadness"})
		require.ErrorContains(t, err, "reason must be one of asked, ")
		held, err := b.Store.Profile(t.Context(), onboardingtest.OrgID, p.ID)
		require.NoError(t, err)
		require.True(t, held.Hold)
		out := b.answers(p, "ada", "a-1", "We are here for you.")
		require.Equal(t, "safety_hold", out.GetAnswer().GetReason())
		b.Release(p)
		require.Equal(t, "sent", b.answers(p, "ada", "a-2", "We are here for you.").GetAnswer().GetStatus())
	})

	t.Run("WordsOfDistressAreHeardInWhatMayBeAnOptOut", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, _ := b.Activated()
		sid := b.Reply(p, "please stop texting me, I want to die")
		require.True(t, b.Messaging.Inbound(sid).GetDistressed(), "they are not asked whether we are to stop")
		got := b.ticket(p)
		require.Equal(t, "distress", got.GetReason())
		require.EqualValues(t, 1, got.GetTexts())
		held, err := b.Store.Profile(t.Context(), onboardingtest.OrgID, p.ID)
		require.NoError(t, err)
		require.True(t, held.Hold)
	})
}

// TestTwoAnswerAtOnce has two people answer a ticket that nobody has, with other words and keys. Both answers go out once, and the ticket has
// one of them.
func TestTwoAnswerAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for n := range 8 {
		p := b.Person()
		b.Reply(p, asking)
		var next atomic.Int64
		require.NoError(t, onboardingtest.AtOnce(4, func() error {
			of := next.Add(1) % 2 // each presses twice
			by := []string{"ada", "bo"}[of]
			_, err := b.Current().Inbox.SendAnswer(b.as(by), &onboardingv1.SendAnswerRequest{
				ProfileId: p.ID, Body: "This is " + by, IdempotencyKey: fmt.Sprintf("%s-%d", by, n),
			})
			return err
		}))
		b.Work()
		require.ElementsMatch(t, []string{"This is ada", "This is bo"}, b.said(p))
		is := b.ticket(p)
		require.Equal(t, []any{"assigned", int32(2)}, []any{is.GetStatus(), is.GetAnswers()})
		require.Equal(t, 1, b.Count(`select count(*) from tickets where profile_id = $1`, p.ID))
		require.Contains(t, []string{"ada", "bo"}, is.GetAssignee())
	}
}

// TestClose is about how a conversation goes on.
func TestClose(t *testing.T) {
	t.Parallel()

	t.Run("ADueStepIsSent", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.InBurst(2)
		b.Unmute()
		b.Reply(p, asking)
		b.Pass(time.Hour)
		require.Len(t, b.said(p), 3, "while the ticket is open no step is sent")
		b.closes(p, "resume")
		b.Pass(time.Minute)
		b.Completes(p)
		require.Equal(t, session.AwaitingInterviewStart, b.Session(r.ID).Token)
	})

	t.Run("ATextThatIsBeingRecordedOpensNoOther", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.Person()
		b.Reply(p, asking)
		var opened session.Record
		b.Current().Ports.WhileRecording = func() {
			b.closes(p, "resume")
			opened = b.Activate(p)
		}
		b.Reply(p, "is it still on?")
		b.Quiet()
		require.Empty(t, b.tickets(p))
		require.Equal(t, session.Active, b.Session(opened.ID).Status, "its opening does not wait for anybody")
	})

	t.Run("TheStepAsksAgain", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.surveyed()
		b.Reply(p, asking)
		b.closes(p, "restart")
		b.Work()
		require.Equal(t, []string{"How many of you will come?", "How many of you will come?"}, b.said(p))
		b.Reply(p, "4")
		b.Work()
		require.Equal(t, session.Closed, b.Session(r.ID).Status)
		require.Contains(t, b.said(p), "A table for 4 is booked.")
	})

	t.Run("OnboardingAsksAgain", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.Explained()
		b.Reply(p, asking)
		b.closes(p, "restart")
		texts := b.said(p)
		require.Len(t, texts, 3)
		require.Equal(t, texts[1], texts[2])
		require.Equal(t, session.AwaitingExplanationResponse, b.Session(r.ID).Token)
	})

	t.Run("TheClockOfASilenceStands", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, _ := b.surveyed()
		b.Clock.Advance(23 * time.Hour)
		b.Reply(p, asking)
		b.Clock.Advance(5 * time.Hour)
		b.Work()
		require.Len(t, b.said(p), 1)
		b.closes(p, "resume")
		b.Clock.Advance(2 * time.Hour)
		b.Work()
		require.Len(t, b.said(p), 1, "it begins anew")
		b.Clock.Advance(22 * time.Hour)
		b.Work()
		require.Len(t, b.said(p), 2)
	})

	t.Run("ItEnds", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.Activated()
		b.Reply(p, asking)
		b.closes(p, "end")
		require.Equal(t, session.Closed, b.Session(r.ID).Status)
	})

	t.Run("ResumingTheSessionClosesIt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.Activated()
		b.Reply(p, asking)
		b.Resumed(b.Session(r.ID))
		require.Empty(t, b.tickets(p))
	})

	t.Run("NoConversationBeginsMeanwhile", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.Person()
		b.Reply(p, asking)
		_, err := b.Activates(p, nil)
		require.Equal(t, onboardingv1.Reason_REASON_TICKET_OPEN.String(), reason(err))
	})
}

// reason is the one that a caller gets.
func reason(err error) string {
	found, _ := rpc.ErrorFrom(onboarding.Answer(err))
	if found == nil {
		return ""
	}
	return found.Reason
}

// TestAssign has two operators take a ticket at the same time.
func TestAssign(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.Activated()
	b.Reply(p, asking)
	id := b.ticket(p).GetTicketId()
	failures := make(chan error, 2)
	for _, by := range []string{"ada", "bob"} {
		go func() {
			_, err := b.Current().Inbox.AssignTicket(b.as(by), &onboardingv1.AssignTicketRequest{TicketId: id, Assignee: by})
			failures <- err
		}()
	}
	first, second := <-failures, <-failures
	if first != nil {
		first, second = second, first
	}
	require.NoError(t, first)
	require.Error(t, second)
	has := b.ticket(p).GetAssignee()
	full, _ := rpc.ErrorFrom(onboarding.Answer(second))
	require.Equal(t, codes.Aborted, full.Code)
	require.Equal(t, onboardingv1.Reason_REASON_TICKET_ASSIGNED.String(), full.Reason)
	require.Equal(t, has, full.Meta["assignee"])
	require.Contains(t, full.Message, has)

	assign := func(from, to string) (*onboardingv1.AssignTicketResponse, error) {
		return b.Current().Inbox.AssignTicket(b.as("ada"), &onboardingv1.AssignTicketRequest{TicketId: id, Assignee: to, From: from})
	}
	out, err := assign(has, "eve")
	require.NoError(t, err)
	require.Equal(t, "eve", out.GetTicket().GetAssignee())
	out, err = assign("eve", "")
	require.NoError(t, err)
	require.Equal(t, "open", out.GetTicket().GetStatus())
	b.closes(p, "resume")
	_, err = assign("", "ada")
	require.Equal(t, onboardingv1.Reason_REASON_TICKET_CLOSED.String(), reason(err))
}

// TestAnswer is about a text by hand.
func TestAnswer(t *testing.T) {
	t.Parallel()

	t.Run("IsSentOnceForItsKey", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, _ := b.Activated()
		b.Reply(p, asking)
		b.Clock.Advance(time.Minute)
		out := b.answers(p, "ada", "a-1", "Hi, this is Ada.")
		require.Equal(t, "sent", out.GetAnswer().GetStatus())
		require.NotEmpty(t, out.GetAnswer().GetMessageId())
		require.Equal(t, []string{"assigned", "ada"}, []string{out.GetTicket().GetStatus(), out.GetTicket().GetAssignee()})
		require.EqualValues(t, 1, out.GetTicket().GetAnswers())
		require.Nil(t, out.GetTicket().GetWaitsSince())
		again := b.answers(p, "ada", "a-1", "Hi, this is Ada.")
		require.True(t, again.GetDuplicate())
		require.Equal(t, out.GetAnswer().GetAnswerId(), again.GetAnswer().GetAnswerId())
		_, err := b.Current().Inbox.SendAnswer(b.as("ada"), &onboardingv1.SendAnswerRequest{ProfileId: p.ID, Body: "Other", IdempotencyKey: "a-1"})
		require.Equal(t, onboardingv1.Reason_REASON_IDEMPOTENCY_KEY_REUSED.String(), reason(err))
		b.answers(p, "bob", "b-1", "And Bob.") // both may answer, each key once
		require.Equal(t, "ada", b.ticket(p).GetAssignee())
		require.Equal(t, []string{"Hi, this is Ada.", "And Bob."}, b.said(p)[1:])
	})

	t.Run("AfterAStopSaysWhy", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, _ := b.Activated()
		b.Reply(p, asking)
		b.Reply(p, "STOP")
		sent := len(b.said(p))
		out := b.answers(p, "ada", "a-1", "Hi, this is Ada.")
		require.Equal(t, []string{"not_sent", "opted_out"}, []string{out.GetAnswer().GetStatus(), out.GetAnswer().GetReason()})
		require.Len(t, b.said(p), sent)
		listed, err := b.Current().Inbox.ListAnswers(b.as("ada"), &onboardingv1.ListAnswersRequest{ProfileId: p.ID})
		require.NoError(t, err)
		require.Equal(t, "opted_out", listed.GetAnswers()[0].GetReason())
	})

	t.Run("AtNight", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.SleepsAtNight()
		p, _ := b.Activated()
		b.Turns(20, 0)
		b.Reply(p, asking)
		b.Turns(23, 0)
		require.Equal(t, "sent", b.answers(p, "ada", "a-1", "Good evening.").GetAnswer().GetStatus(), "they wrote today")
		b.Clock.Advance(24 * time.Hour)
		out := b.answers(p, "ada", "a-2", "Good evening.")
		require.Equal(t, []string{"not_sent", "quiet_hours"}, []string{out.GetAnswer().GetStatus(), out.GetAnswer().GetReason()})
		require.True(t, out.GetAnswer().GetRetryAt().AsTime().After(b.Clock.Now()))
		b.Turns(12, 0)
		require.Equal(t, "sent", b.answers(p, "ada", "a-3", "Good morning.").GetAnswer().GetStatus())
	})

	t.Run("AtNightWhileMessagingIsAway", func(t *testing.T) {
		t.Parallel()
		for _, calls := range [][]string{{"Fate"}, {"Explain"}, {"Fate", "Explain"}, {"Send", "Fate"}} {
			b := setup(t)
			b.SleepsAtNight()
			p, _ := b.Activated()
			b.Reply(p, asking)
			b.Clock.Advance(25 * time.Hour)
			b.Turns(20, 59)
			if calls[0] != "Send" { // which fails before the night begins
				b.Turns(23, 0)
			}
			away := &unavailable{port: b.Current().Inbox.Tickets.Carrier, calls: calls}
			b.Current().Inbox.Tickets.Carrier = away
			b.answers(p, "ada", "a-1", "Good evening.")
			b.Turns(23, 0)
			for range 3 {
				b.Clock.Advance(time.Minute)
				b.Work()
			}
			require.Empty(t, away.calls)
			require.Len(t, b.said(p), 1, "nothing goes out at night: %v", calls)
			out := b.answers(p, "ada", "a-1", "Good evening.").GetAnswer()
			require.Equal(t, []string{"not_sent", "quiet_hours"}, []string{out.GetStatus(), out.GetReason()}, calls)
		}
	})

	t.Run("AStopIsTheReasonBeforeNightAndHold", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.SleepsAtNight()
		p, _ := b.Activated()
		b.Reply(p, asking)
		b.Reply(p, "STOP")
		b.Clock.Advance(25 * time.Hour)
		b.Turns(23, 0)
		for i, key := range []string{"a-1", "a-2"} {
			out := b.answers(p, "ada", key, "Hi, this is Ada.").GetAnswer()
			require.Equal(t, []string{"not_sent", "opted_out"}, []string{out.GetStatus(), out.GetReason()})
			require.Nil(t, out.GetRetryAt())
			if i == 0 {
				b.Turns(12, 0)
				b.hold(p)
			}
		}
	})

	t.Run("AtNightToOneWhoWroteToTheFlow", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.SleepsAtNight()
		p, _ := b.surveyed()
		b.Turns(22, 30)
		b.Reply(p, "what?")
		require.Equal(t, "sent", b.answers(p, "ada", "a-1", "Good evening.").GetAnswer().GetStatus())
	})

	t.Run("WhileMessagingIsAway", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, _ := b.Activated()
		b.Reply(p, asking)
		b.Messaging.SetDown(true)
		out := b.answers(p, "ada", "a-1", "Hi, this is Ada.")
		require.Equal(t, []string{"sending", "unavailable"}, []string{out.GetAnswer().GetStatus(), out.GetAnswer().GetReason()})
		b.Messaging.SetDown(false)
		b.Clock.Advance(time.Minute)
		b.Work()
		require.Equal(t, "sent", b.answers(p, "ada", "a-1", "Hi, this is Ada.").GetAnswer().GetStatus())
	})

	t.Run("OneThatWentOutIsSentWhateverCameBeforeItWasRecorded", func(t *testing.T) {
		t.Parallel()
		for _, since := range []func(*bundle, people.Profile){
			func(b *bundle, _ people.Profile) { b.Clock.Advance(24 * time.Hour); b.Turns(23, 0) },
			func(b *bundle, p people.Profile) { b.hold(p) },
		} {
			b := setup(t)
			b.SleepsAtNight()
			p, _ := b.Activated()
			b.Reply(p, asking)
			sent := b.answers(p, "ada", "a-1", "Hi, this is Ada.").GetAnswer()
			require.Equal(t, "sent", sent.GetStatus())
			b.killedBeforeItWasRecorded(sent.GetAnswerId())
			since(b, p)
			b.Work()
			require.Equal(t, "sent", b.answers(p, "ada", "a-1", "Hi, this is Ada.").GetAnswer().GetStatus())
			require.Len(t, b.said(p), 2)
		}
	})

	t.Run("MessagingThatIsAwayForLongerThanAnHourSendsNothingAfterwards", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, _ := b.Activated()
		b.Reply(p, asking)
		b.Messaging.SetDown(true)
		b.answers(p, "ada", "a-1", "Hi, this is Ada.")
		b.Clock.Advance(2 * time.Hour)
		b.Work()
		require.Equal(t, "unavailable", b.answers(p, "ada", "a-1", "Hi, this is Ada.").GetAnswer().GetReason())
		b.Messaging.SetDown(false)
		b.Clock.Advance(time.Minute)
		b.Work()
		out := b.answers(p, "ada", "a-1", "Hi, this is Ada.").GetAnswer()
		require.Equal(t, []string{"not_sent", "expired"}, []string{out.GetStatus(), out.GetReason()})
		require.Len(t, b.said(p), 1)
	})

	t.Run("OpensATicket", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.Activated()
		out := b.answers(p, "ada", "a-1", "May I help?")
		require.Equal(t, []string{"operator", "ada"}, []string{out.GetTicket().GetReason(), out.GetTicket().GetAssignee()})
		require.Equal(t, session.Stuck, b.Session(r.ID).Status)
	})

	t.Run("OfASavedReply", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, _ := b.Activated()
		made, err := b.Current().Inbox.CreateSavedReply(b.as("ada"), &onboardingv1.CreateSavedReplyRequest{
			Title: "Hello", Body: "Hi {first_name|there}, {guests|some} of you?",
		})
		require.NoError(t, err)
		listed, err := b.Current().Inbox.ListSavedReplies(b.as("ada"), &onboardingv1.ListSavedRepliesRequest{ProfileId: p.ID})
		require.NoError(t, err)
		want := "Hi " + p.FirstName + ", some of you?"
		require.Equal(t, want, listed.GetSavedReplies()[0].GetText())
		out, err := b.Current().Inbox.SendAnswer(b.as("ada"), &onboardingv1.SendAnswerRequest{
			ProfileId: p.ID, SavedReplyId: made.GetSavedReply().GetSavedReplyId(), IdempotencyKey: "a-1",
		})
		require.NoError(t, err)
		require.Equal(t, want, out.GetAnswer().GetBody())
		_, err = b.Pool.Exec(t.Context(), `insert into profile_fields (profile_id, org_id, name, value, private, updated_at)
			values ($1, $2, 'guests', '1e300', false, $3)`, p.ID, onboardingtest.OrgID, b.Clock.Now())
		require.NoError(t, err)
		listed, err = b.Current().Inbox.ListSavedReplies(b.as("ada"), &onboardingv1.ListSavedRepliesRequest{ProfileId: p.ID})
		require.NoError(t, err)
		require.Equal(t, want, listed.GetSavedReplies()[0].GetText(), "a number that is too long is as good as none")
		_, err = b.Current().Inbox.CreateSavedReply(b.as("bob"), &onboardingv1.CreateSavedReplyRequest{Title: "HELLO", Body: "x"})
		require.Equal(t, onboardingv1.Reason_REASON_SAVED_REPLY_EXISTS.String(), reason(err))
		_, err = b.Current().Inbox.CreateSavedReply(b.as("bob"), &onboardingv1.CreateSavedReplyRequest{Title: "Bad", Body: "Hi {first_name}"})
		require.ErrorContains(t, err, "has no fallback")
	})
}

// TestTextsThatCannotBeSent are refused before anything is stored, by the rules of messaging: it would refuse them later.
func TestTextsThatCannotBeSent(t *testing.T) {
	t.Parallel()
	emoji := func(n int) string { return strings.Repeat("\U0001f44b", n) }
	for _, tt := range []struct{ name, body, want string }{
		{"Emoji", emoji(801), "an emoji is two or more; these are 1602"},
		{"LongestOfEmoji", emoji(800), ""},
		{"Long", strings.Repeat("a", 1601), "must be 1 to 1600 characters"},
		{"ZeroWidth", "\u200b \ufeff\u2060", "a character that can be seen"},
		{"SoftHyphen", "\u00ad", "a character that can be seen"},
		{"VariationSelectors", "\ufe0f\U000e0100", "a character that can be seen"},
		{"EmojiWithJoiners", "\U0001f469\u200d\U0001f467 \u2764\ufe0f", ""},
		{"CombiningMark", "q\u0303", ""},
		{"EmptyReply", "", "body"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p, _ := b.Activated()
			inbox := b.Current().Inbox
			answer := &onboardingv1.SendAnswerRequest{ProfileId: p.ID, Body: tt.body, IdempotencyKey: tt.name}
			reply := &onboardingv1.CreateSavedReplyRequest{Title: tt.name, Body: tt.body}
			if tt.want == "" {
				out, err := inbox.SendAnswer(b.as("ada"), answer)
				require.NoError(t, err)
				require.Equal(t, "sent", out.GetAnswer().GetStatus())
				_, err = inbox.CreateSavedReply(b.as("ada"), reply)
				require.NoError(t, err)
				return
			}
			_, err := inbox.SendAnswer(b.as("ada"), answer)
			require.ErrorContains(t, err, tt.want)
			require.Equal(t, onboardingv1.Reason_REASON_INVALID.String(), reason(err))
			kept, err := inbox.ListAnswers(b.as("ada"), &onboardingv1.ListAnswersRequest{ProfileId: p.ID})
			require.NoError(t, err)
			require.Empty(t, kept.GetAnswers())
			require.Empty(t, b.tickets(p))
			_, err = inbox.CreateSavedReply(b.as("ada"), reply)
			require.ErrorContains(t, err, tt.want)
		})
	}

	t.Run("ASavedReplyWithAFallbackThatNobodySees", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, err := b.Current().Inbox.CreateSavedReply(b.as("ada"), &onboardingv1.CreateSavedReplyRequest{Title: "f", Body: "{first_name|\u200b}"})
		require.ErrorContains(t, err, "has no fallback")
	})

	t.Run("ASavedReplyThatPlainPunctuationMakesTooLong", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, err := b.Current().Inbox.CreateSavedReply(b.as("ada"), &onboardingv1.CreateSavedReplyRequest{
			Title: "p", Body: strings.Repeat("…", 534),
		})
		require.ErrorContains(t, err, "these are 1602")
		require.Equal(t, onboardingv1.Reason_REASON_INVALID.String(), reason(err))
	})

	t.Run("ASavedReplyThatTheValuesMakeTooLong", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, _ := b.Activated()
		inbox := b.Current().Inbox
		made, err := inbox.CreateSavedReply(b.as("ada"), &onboardingv1.CreateSavedReplyRequest{
			Title: "v", Body: emoji(793) + "{first_name|x}",
		})
		require.NoError(t, err)
		_, err = b.Pool.Exec(t.Context(), `update profiles set first_name = 'Wilhelmina Josefina' where id = $1`, p.ID)
		require.NoError(t, err)
		_, err = inbox.SendAnswer(b.as("ada"), &onboardingv1.SendAnswerRequest{
			ProfileId: p.ID, SavedReplyId: made.GetSavedReply().GetSavedReplyId(), IdempotencyKey: "v",
		})
		require.ErrorContains(t, err, "an emoji counts as two or more")
	})
}

// TestGiveUp is about jobs that fail for good: what they leave undone is seen.
func TestGiveUp(t *testing.T) {
	t.Parallel()

	t.Run("AnAnswerWasNotSent", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, _ := b.Activated()
		b.Reply(p, asking)
		b.Messaging.SetDown(true)
		b.answers(p, "ada", "a-1", "Hi, this is Ada.")
		j := b.claimed(conversation.EventAnswer)
		require.ErrorIs(t, b.Current().Inbound.GiveUp(t.Context(), j, onboardingtest.ErrMishap), people.ErrUnavailable, "whether it went out is not known")
		b.Messaging.SetDown(false)
		require.NoError(t, b.Current().Inbound.GiveUp(t.Context(), j, onboardingtest.ErrMishap))
		out := b.answers(p, "ada", "a-1", "Hi, this is Ada.").GetAnswer()
		require.Equal(t, []string{"not_sent", "rejected"}, []string{out.GetStatus(), out.GetReason()})
	})

	t.Run("AnAnswerWithACancelledJobWasNotSent", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, _ := b.Activated()
		b.Reply(p, asking)
		b.Messaging.SetDown(true)
		b.answers(p, "ada", "a-1", "Hi, this is Ada.")
		var id string
		require.NoError(t, b.Pool.QueryRow(t.Context(), `select id::text from webhook_jobs where event_type = $1`, conversation.EventAnswer).Scan(&id))
		_, err := b.Current().Inbound.Cancel(t.Context(), onboardingtest.OrgID, id)
		require.ErrorIs(t, err, people.ErrUnavailable, "whether it went out is not known")
		b.Messaging.SetDown(false)
		row, err := b.Current().Inbound.Cancel(t.Context(), onboardingtest.OrgID, id)
		require.NoError(t, err)
		require.Equal(t, queue.StatusCancelled, row.Status)
		out := b.answers(p, "ada", "a-1", "Hi, this is Ada.").GetAnswer()
		require.Equal(t, []string{"not_sent", "rejected"}, []string{out.GetStatus(), out.GetReason()})
		require.Equal(t, "an operator has cancelled its job "+id+"; send it anew if it is still wanted", out.GetExplanation())
		b.Clock.Advance(time.Hour)
		b.Work()
		require.NotContains(t, b.said(p), "Hi, this is Ada.")
	})

	t.Run("ASessionWaitsForAnOperator", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.Activated()
		b.Reply(p, asking)
		b.hold(p)
		b.closes(p, "restart") // which waits for the release
		require.NoError(t, b.Current().Inbound.GiveUp(t.Context(), b.claimed(conversation.EventTicket), onboardingtest.ErrMishap))
		b.RequireParked(r, "failed for good")
		require.False(t, session.WaitsForTicket(b.Session(r.ID), ""))
	})
}

// TestNotes is about remarks that the person never sees.
func TestNotes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.Activated()
	b.Reply(p, asking)
	id := b.ticket(p).GetTicketId()
	add := func(key, body string) (*onboardingv1.AddNoteResponse, error) {
		return b.Current().Inbox.AddNote(b.as("ada"), &onboardingv1.AddNoteRequest{TicketId: id, Body: body, IdempotencyKey: key})
	}
	for _, end := range []string{"\r\n", "\n"} { // as a browser submits a line's end, and as a program does
		_, err := add("n-1", "Called the school."+end+"Nobody there.")
		require.NoError(t, err)
	}
	_, err := add("n-1", "Other words.")
	require.Equal(t, onboardingv1.Reason_REASON_IDEMPOTENCY_KEY_REUSED.String(), reason(err))
	listed, err := b.Current().Inbox.ListNotes(b.as("bob"), &onboardingv1.ListNotesRequest{TicketId: id})
	require.NoError(t, err)
	require.Len(t, listed.GetNotes(), 1)
	require.Equal(t, "ada", listed.GetNotes()[0].GetAuthor())
	require.EqualValues(t, 1, b.ticket(p).GetNotes())
}

// TestList pages through tickets, the one with the newest text first.
func TestList(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var all []people.Profile
	for range 5 {
		p := b.Person()
		b.Reply(p, asking)
		b.Clock.Advance(time.Minute)
		all = append(all, p)
	}
	b.Reply(all[0], "still here")
	var found []string
	in := &onboardingv1.ListTicketsRequest{PageSize: 2}
	for {
		out, err := b.Current().Inbox.ListTickets(b.as("ada"), in)
		require.NoError(t, err)
		require.EqualValues(t, 5, out.GetCounts().GetOpen())
		for _, ticket := range out.GetTickets() {
			found = append(found, ticket.GetProfileId())
		}
		if in.PageToken = out.GetNextPageToken(); in.GetPageToken() == "" {
			break
		}
	}
	require.Equal(t, []string{all[0].ID, all[4].ID, all[3].ID, all[2].ID, all[1].ID}, found)
	b.closes(all[2], "resume")
	out, err := b.Current().Inbox.ListTickets(b.as("ada"), &onboardingv1.ListTicketsRequest{Status: []string{"closed", "open"}})
	require.NoError(t, err)
	require.Len(t, out.GetTickets(), 5)
	out, err = b.Current().Inbox.ListTickets(b.as("ada"), &onboardingv1.ListTicketsRequest{Status: []string{"closed"}})
	require.NoError(t, err)
	require.Len(t, out.GetTickets(), 1)
}

// TestUnclaimedNoMore: a text that nobody answered when it was read is about the session that was activated since, and does not park it.
func TestUnclaimedNoMore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, begun := b.surveyed()
	late := conversation.Heard{OrgID: p.OrgID, MessageID: uuid.NewString(), Body: "Sounds good!", At: b.Clock.Now()}
	inbox := b.Current().Inbox.Tickets
	require.ErrorIs(t, inbox.Take(t.Context(), late, p.ID, session.Unclaimed, "session_inactive", ""), people.ErrConflict)
	require.Empty(t, b.tickets(p))
	require.Equal(t, session.Active, b.Session(begun.ID).Status)

	require.NoError(t, inbox.Take(t.Context(), late, p.ID, session.Asked, "asks for a person", ""))
	require.Len(t, b.tickets(p), 1)
}
