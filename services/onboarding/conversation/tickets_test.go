package conversation_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/messagingtest"
	"paceline.internal/platform/queue"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
	"paceline.internal/services/onboarding/tickets"
)

// asking is a text that asks for a person.
const asking = "I want to talk to a human please"

func (b *bundle) operator() context.Context {
	return rpc.WithPrincipal(b.T.Context(), rpc.Principal{Subject: "ada", Role: rpc.RoleOperator, OrgID: onboardingtest.OrgID})
}

// takesOver opens a ticket by hand.
func (b *bundle) takesOver(p people.Profile) string {
	b.T.Helper()
	out, err := b.Current().Inbox.OpenTicket(b.operator(), &onboardingv1.OpenTicketRequest{ProfileId: p.ID})
	require.NoError(b.T, err)
	return out.GetTicket().GetTicketId()
}

// ticket is the id of the one ticket of a person that is not closed.
func (b *bundle) ticket(p people.Profile) string {
	b.T.Helper()
	found := onboardingtest.List[string](b.Bundle, `select id::text from tickets where profile_id = $1 and status <> 'closed'`, p.ID)
	require.Len(b.T, found, 1)
	return found[0]
}

// closes closes a ticket, and the conversation goes on.
func (b *bundle) closes(id, outcome string) {
	b.T.Helper()
	_, err := b.Current().Inbox.CloseTicket(b.operator(), &onboardingv1.CloseTicketRequest{TicketId: id, Outcome: outcome})
	require.NoError(b.T, err)
}

// closesOnly closes a ticket as a process does that dies right behind it, and returns the job that is left.
func (b *bundle) closesOnly(id, outcome string) queue.Job {
	b.T.Helper()
	t, job, err := b.Store.Tickets().Close(b.T.Context(), tickets.Closing{
		OrgID: onboardingtest.OrgID, ID: id, Outcome: tickets.Outcome(outcome), At: b.Clock.Now(),
	})
	require.NoError(b.T, err)
	require.NotEmpty(b.T, job)
	payload, err := json.Marshal(conversation.TicketClosed{
		TicketID: t.ID, SessionID: t.SessionID, ProfileID: t.ProfileID, How: flow.Resumption(t.Outcome), At: b.Clock.Now(),
	})
	require.NoError(b.T, err)
	return queue.Job{ID: job, OrgID: t.OrgID, EventType: conversation.EventTicket, Payload: payload, CreatedAt: b.Clock.Now()}
}

// meanwhile has something happen while the next message is on its way to the carrier.
func (b *bundle) meanwhile(do func()) { b.Current().Ports.Meanwhile = do }

// TestTicketKeepsThePlace is about a session that goes on where it stood, whatever was under way when its ticket was opened.
func TestTicketKeepsThePlace(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "AnAnswerUnderWayIsSentOnce", setup, func(t *testing.T, b *bundle) { // S0
		p, r := b.Activated()
		b.meanwhile(func() { b.takesOver(p) })
		b.Reply(p, "yes")
		require.Equal(t, session.Stuck, b.Session(r.ID).Status)
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation}, b.Sequence(p))
		b.closes(b.ticket(p), "resume")
		b.Pass(time.Second)
		require.Equal(t, []any{session.Active, session.AwaitingExplanationResponse}, []any{b.Session(r.ID).Status, b.Session(r.ID).Token})
		b.Reply(p, "ok")
		b.Pass(time.Minute)
		b.Completes(p)
	})

	onboardingtest.Subtest(t, "AnAnswerIsThatOfItsQuestion", setup, func(t *testing.T, b *bundle) {
		publish(b, "two", "  first: {ask: ONE, expect: {text: {limit: 300}}, unclear: {send: ONE, then: done}, save: one, then: second}\n"+
			"  second: {ask: TWO, expect: {text: {limit: 300}}, unclear: {send: TWO, then: done}, save: two, then: done}\n"+
			"  done: {end: told}\n", "  ONE: First?\n  TWO: Second?\n")
		p := b.Person()
		require.NoError(t, begin(b, p, "two"))
		b.meanwhile(func() { b.takesOver(p) })
		b.Reply(p, "red")
		b.Clock.Advance(time.Minute)
		b.closes(b.ticket(p), "resume")
		b.Pass(time.Second)
		b.Reply(p, "blue")
		b.Pass(time.Second)
		fields, err := b.Store.Fields(t.Context(), onboardingtest.OrgID, p.ID)
		require.NoError(t, err)
		require.Equal(t, map[string]any{"one": "red", "two": "blue"}, fields)
		require.Equal(t, []string{"First?", "Second?"}, said(b, p))
	})

	onboardingtest.Subtest(t, "ASilenceBeginsAnew", setup, func(t *testing.T, b *bundle) {
		p, r := visited(b)
		b.Reply(p, "sure")
		place := b.Session(r.ID).Place()
		for range 2 { // of one place
			b.Clock.Advance(20 * time.Hour)
			b.closes(b.takesOver(p), "resume")
			b.Pass(time.Second)
		}
		require.Equal(t, place, b.Session(r.ID).Place())
		require.Len(t, said(b, p), 2)
		b.Clock.Advance(23 * time.Hour)
		b.Pass(time.Second)
		require.Len(t, said(b, p), 2)
		b.Clock.Advance(time.Hour)
		b.Pass(time.Second)
		require.Len(t, said(b, p), 3)
	})

	onboardingtest.Subtest(t, "ATicketAfterATicket", setup, func(t *testing.T, b *bundle) {
		b.SleepsAtNight()
		b.Turns(22, 30)
		p, r := b.Activated() // its opening waits for the morning
		b.closesOnly(b.takesOver(p), "resume")
		second := b.takesOver(p)
		require.Zero(t, b.Session(r.ID).Place())
		b.Clock.Advance(onboardingtest.Morning.Sub(b.Clock.Now()))
		b.closes(second, "resume")
		b.Pass(time.Minute)
		require.Equal(t, []string{onboardingtest.Opening}, b.Sequence(p))
	})

	onboardingtest.Subtest(t, "AQuestionThatCouldNotBeAskedAgain", setup, func(t *testing.T, b *bundle) {
		p, r := visited(b)
		b.Reply(p, "sure")
		b.takesOver(p)
		b.Messaging.Script(messagingtest.First(messagingtest.Reject))
		b.closes(b.ticket(p), "restart")
		require.Equal(t, session.Undeliverable, b.Session(r.ID).Status)
		b.Messaging.Script(nil)
		b.Resumed(b.Session(r.ID))
		b.Pass(time.Second)
		require.Zero(t, b.Count(`select count(*) from webhook_jobs where status = 'failed'`))
		b.Host.Answer = free(`{"field": 3}`)
		b.Reply(p, "Monday")
		b.Pass(time.Minute)
		require.Equal(t, session.Closed, b.Session(r.ID).Status)
	})
}

// TestOtherTicket is about tickets that a session does not wait for, or not any more.
func TestOtherTicket(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "HoldsASessionThatIsResumed", setup, func(t *testing.T, b *bundle) {
		p, r, _ := b.ParkedAtStep(messagingtest.Reject)
		b.Reply(p, asking)
		id := b.ticket(p)
		out, err := b.Resume(r)
		require.NoError(t, err)
		require.Equal(t, []string{"stuck", session.ForTicket(id)}, []string{out.GetStatus(), out.GetReason()})
		b.closes(id, "resume")
		require.Equal(t, []any{session.Active, r.NextStep, r.Place()}, []any{b.Session(r.ID).Status, b.Session(r.ID).NextStep, b.Session(r.ID).Place()})
	})

	onboardingtest.Subtest(t, "IsClosedByNoResumeOfMany", setup, func(t *testing.T, b *bundle) {
		p, _ := b.Activated()
		b.Reply(p, asking)
		out, err := onboardingtest.Ask(b.Bundle, b.Current().Server.ResumeSessions, &onboardingv1.ResumeSessionsRequest{ReasonContains: "person"})
		require.NoError(t, err)
		require.Zero(t, out.GetMatched())
		_, left, err := b.Current().Service.ResumeAll(t.Context(), onboardingtest.OrgID, []string{b.Newest(p).ID}, false) // opened since they were chosen
		require.NoError(t, err)
		require.ErrorIs(t, left[0].Cause, conversation.ErrTicketOpen)
		b.ticket(p)
	})

	onboardingtest.Subtest(t, "IsClosedByNoReplay", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(2)
		letter := b.GivesUp(r, nil)
		b.Reply(p, asking)
		require.False(t, b.Replay(letter).GetAlarmSet())
		b.ticket(p)
		require.Equal(t, session.Stuck, b.Session(r.ID).Status)
	})

	onboardingtest.Subtest(t, "DecidesInsteadOfOneThatWasClosed", setup, func(t *testing.T, b *bundle) {
		publish(b, "passed", "  first: {ask: ONE, expect: {text: {limit: 300}}, unclear: {send: ONE, then: done}, save: one, then: human}\n"+
			"  human: {hand_over: look, then: bye}\n"+
			"  bye: {send: BYE, then: done}\n  done: {end: told}\n", "  ONE: First?\n  BYE: Bye.\n")
		p := b.Person()
		require.NoError(t, begin(b, p, "passed"))
		b.Reply(p, "red")
		late := b.closesOnly(b.ticket(p), "resume")
		b.Reply(p, asking)
		second := b.ticket(p)
		require.NoError(t, b.Current().Service.AfterTicket(t.Context(), late))
		b.Pass(time.Minute)
		require.Equal(t, []string{"First?"}, said(b, p))
		b.closes(second, "end")
		b.Pass(time.Minute)
		require.Equal(t, []string{"First?"}, said(b, p))
		require.Equal(t, session.Closed, b.Newest(p).Status)
	})

	onboardingtest.Subtest(t, "IsOpenedWhileASessionGoesOn", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(2)
		first := b.takesOver(p)
		seen := b.Session(r.ID)
		job := b.closesOnly(first, "resume")
		second := b.takesOver(p)
		var payload conversation.TicketClosed
		require.NoError(t, json.Unmarshal(job.Payload, &payload))
		err := b.Store.Conversations().ResumeAfterTicket(t.Context(), seen, payload, false, time.Time{}, conversation.Cause{Job: job}, b.Clock.Now())
		require.ErrorIs(t, err, people.ErrConflict)
		require.Equal(t, second, b.ticket(p))
		require.Equal(t, session.Stuck, b.Session(r.ID).Status)
	})

	onboardingtest.Subtest(t, "StartsWhatFollowsOnceItIsClosed", setup, func(t *testing.T, b *bundle) {
		publish(b, "before", "  first: {send: READY, wait: reply, then: next}\n  next: {start: short}\n", "  READY: Ready?\n")
		publish(b, "short", "  first: {send: BYE, then: done}\n  done: {end: over}\n", "  BYE: Bye.\n")
		p := b.Person()
		require.NoError(t, begin(b, p, "before"))
		b.Reply(p, "yes")
		b.Reply(p, asking)
		b.Pass(5 * time.Minute)
		require.Zero(t, b.Count(`select count(*) from webhook_jobs where status = 'failed'`))
		require.Equal(t, []string{"Ready?"}, said(b, p))
		b.closes(b.ticket(p), "resume")
		b.Pass(5 * time.Minute)
		require.Equal(t, []string{"Ready?", "Bye."}, said(b, p))
	})
}

// TestFlowIsOverAfterATicket has a ticket closed behind which nothing follows: the host application gets what it gets of any other end.
func TestFlowIsOverAfterATicket(t *testing.T) {
	t.Parallel()
	const completed, closed = "session.completed", "session.closed"
	for _, tt := range []struct {
		name, end, outcome string
		want               []string // events, with the flow that follows and the outcome
		timeline           string   // the detail of the last entry
	}{
		{name: "Host", end: "{end: booked, host: true}", outcome: "resume", want: []string{"session.resumed", completed + " = booked"}, timeline: "ended: booked"},
		{name: "End", end: "{end: booked}", outcome: "resume", want: []string{"session.resumed", completed + " = booked"}, timeline: "ended: booked"},
		{name: "Start", end: "{start: short}", outcome: "resume", want: []string{"session.resumed", completed + " short"}, timeline: "short"},
		{name: "Closed", end: "{end: booked}", outcome: "end", want: []string{closed}, timeline: "the ticket was closed"},
	} {
		for _, by := range []string{"ticket", "resume"} {
			if by == "resume" && tt.outcome == "end" {
				continue
			}
			t.Run(tt.name+"/"+by, func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				publish(b, "short", "  first: {send: BYE, then: done}\n  done: {end: over}\n", "  BYE: Bye.\n")
				publish(b, "handed", "  first: {ask: ONE, expect: reply, save: one, then: human}\n  human: {hand_over: look, then: after}\n  after: "+
					tt.end+"\n", "  ONE: First?\n")
				p := b.Person()
				require.NoError(t, begin(b, p, "handed"))
				r := b.Newest(p)
				b.Reply(p, "red")
				before := b.Count(`select max(id) from event_outbox`)
				if by == "ticket" {
					b.closes(b.ticket(p), tt.outcome)
				} else {
					b.Resumed(b.Session(r.ID))
				}
				b.Pass(time.Second)
				require.Equal(t, tt.want, onboardingtest.List[string](b.Bundle, `
					select type || coalesce(' ' || (data ->> 'next_flow'), '') || coalesce(' = ' || (data ->> 'outcome'), '') from event_outbox
					where id > $1 and data ->> 'session_id' = $2 and type like 'session.%' order by id`, before, r.ID))
				for _, role := range []rpc.Role{rpc.RoleOperator, rpc.RoleApp} {
					got, err := b.Current().Server.GetSession(rpc.WithPrincipal(t.Context(), rpc.Principal{Role: role, OrgID: onboardingtest.OrgID}),
						&onboardingv1.GetSessionRequest{SessionId: r.ID})
					require.NoError(t, err)
					want := tt.timeline
					if role == rpc.RoleApp && tt.outcome == "end" {
						want = ""
					}
					require.Equal(t, want, got.GetTimeline()[len(got.GetTimeline())-1].GetDetail())
				}
			})
		}
	}
}

// TestStrandedByATicket is about the job of a closed ticket that does not have its session go on.
func TestStrandedByATicket(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"cancelled", "failed"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p, r := b.Activated()
			id := b.takesOver(p)
			b.Messaging.SetDown(true) // whatever the call tries
			b.closes(id, "resume")
			b.Exec(`update webhook_jobs set status = $1, next_retry_at = null, lease_token = null, lease_until = null, processed_at = $2
				where event_type = 'ticket.closed'`, how, b.Clock.Now())
			b.Exec(`update conversation_sessions set status = 'stuck', status_reason = $2 where id = $1`, r.ID, session.ForTicket(id))
			b.Messaging.SetDown(false)
			b.Pass(time.Minute)
			require.Equal(t, session.Active, b.Session(r.ID).Status)
			b.Reply(p, "yes")
			require.Equal(t, session.AwaitingExplanationResponse, b.Session(r.ID).Token)
		})
	}
}

// TestTicketIsExplained is about what an operator reads of a person who waits.
func TestTicketIsExplained(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, r := b.Activated()
	b.Reply(p, asking)
	id := b.ticket(p)
	gate := func() (found conversation.Gate) {
		e, _, err := b.Current().Service.ExplainPerson(t.Context(), onboardingtest.OrgID, p.ID)
		require.NoError(t, err)
		for _, g := range e.Gates {
			if g.Name == "ticket" {
				found = g
			}
		}
		return found
	}
	require.Equal(t, "the flow waits until ticket "+id+" is closed", gate().Fact)
	require.Equal(t, "answer the person, then POST /v1/tickets/"+id+":close", gate().Change)
	err := begin(b, p, "")
	require.ErrorContains(t, err, "read their ticket and answer, then close it")
	require.NotContains(t, err.Error(), "end it with POST /v1/sessions")
	b.closes(id, "resume")
	require.True(t, gate().Passed)
	require.Equal(t, session.Active, b.Session(r.ID).Status)
}

// TestTicketOfALateText has a flow hand over for a text that was worked on long after it came: the person waits since they wrote.
func TestTicketOfALateText(t *testing.T) {
	t.Parallel()
	b := setup(t)
	publish(b, "late", "  first: {ask: ONE, expect: {text: {limit: 300}}, unclear: {send: ONE, then: done}, save: one, then: human}\n"+
		"  human: {hand_over: look, then: done}\n  done: {end: told}\n", "  ONE: First?\n")
	p := b.Person()
	require.NoError(t, begin(b, p, "late"))
	b.Clock.Advance(time.Minute)
	wrote := b.Clock.Now()
	b.Unrecorded(p, "red")
	b.Clock.Advance(10 * time.Minute)
	b.Pass(time.Minute)
	b.ticket(p)
	require.Equal(t, 1, b.Count(`select count(*) from tickets where last_text_at = $1 and person_wrote_at = $1 and waits_since = $1`, wrote))
}

// TestNotedTicket is about a ticket that somebody has read.
func TestNotedTicket(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.Person()
	b.Reply(p, "is this the clinic? my child is sick")
	_, err := b.Current().Inbox.AddNote(b.operator(), &onboardingv1.AddNoteRequest{TicketId: b.ticket(p), Body: "I call them.", IdempotencyKey: "n-1"})
	require.NoError(t, err)
	require.ErrorIs(t, begin(b, p, ""), conversation.ErrTicketOpen)
	b.ticket(p)
}

// TestTextThatMeetsATicket is about texts that a session has parked for while they were read.
func TestTextThatMeetsATicket(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "BelongsToIt", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.meanwhile(func() { b.takesOver(p) })
		b.Reply(p, "my child is sick")
		require.Equal(t, 1, b.Count(`select texts from tickets where profile_id = $1`, p.ID))
		require.Zero(t, b.Count(`select count(*) from held_replies`))
		require.Equal(t, session.Stuck, b.Session(r.ID).Status)
	})

	onboardingtest.Subtest(t, "IsConsideredOnceTheTicketIsClosed", setup, func(t *testing.T, b *bundle) { // as a release before this reads it
		p, r := b.Activated()
		id := b.takesOver(p)
		b.Unrecorded(p, "yes")
		b.Exec(`insert into held_replies (job_id, session_id, turn, received_at) select id, $1, $2, created_at from webhook_jobs where event_type = 'twilio.message.received' and status = 'pending'`,
			r.ID, b.Session(r.ID).Place())
		b.Exec(`update webhook_jobs set status = 'completed', next_retry_at = null, processed_at = created_at where event_type = 'twilio.message.received'`)
		b.Clock.Advance(time.Minute)
		b.closes(id, "resume")
		b.Pass(time.Second)
		require.Equal(t, session.AwaitingExplanationResponse, b.Session(r.ID).Token)
	})
}
