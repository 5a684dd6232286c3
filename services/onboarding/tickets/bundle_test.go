package tickets_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/queue"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

func TestMain(m *testing.M) { onboardingtest.Main(m) }

// bundle adds the helpers of these tests to the service.
type bundle struct{ *onboardingtest.Bundle }

func setup(t *testing.T) *bundle {
	t.Helper()
	return &bundle{onboardingtest.New(t)}
}

// asking is a text that asks for a person.
const asking = "I want to talk to a human please"

// as is the context of an operator.
func (b *bundle) as(subject string) context.Context {
	return rpc.WithPrincipal(b.T.Context(), rpc.Principal{Subject: subject, Role: rpc.RoleOperator, OrgID: onboardingtest.OrgID})
}

// tickets lists the tickets of a person that are not closed.
func (b *bundle) tickets(p people.Profile) []*onboardingv1.Ticket {
	b.T.Helper()
	out, err := b.Current().Inbox.ListTickets(b.as("ada"), &onboardingv1.ListTicketsRequest{ProfileId: p.ID})
	require.NoError(b.T, err)
	return out.GetTickets()
}

// ticket is the only one of a person that is not closed.
func (b *bundle) ticket(p people.Profile) *onboardingv1.Ticket {
	b.T.Helper()
	found := b.tickets(p)
	require.Len(b.T, found, 1)
	return found[0]
}

// answers sends a text by hand.
func (b *bundle) answers(p people.Profile, by, key, body string) *onboardingv1.SendAnswerResponse {
	b.T.Helper()
	out, err := b.Current().Inbox.SendAnswer(b.as(by), &onboardingv1.SendAnswerRequest{ProfileId: p.ID, Body: body, IdempotencyKey: key})
	require.NoError(b.T, err)
	return out
}

// closes closes the ticket of a person.
func (b *bundle) closes(p people.Profile, outcome string) {
	b.T.Helper()
	out, err := b.Current().Inbox.CloseTicket(b.as("ada"), &onboardingv1.CloseTicketRequest{TicketId: b.ticket(p).GetTicketId(), Outcome: outcome})
	require.NoError(b.T, err)
	require.Equal(b.T, "closed", out.GetTicket().GetStatus())
}

// said lists the texts that a person got.
func (b *bundle) said(p people.Profile) (bodies []string) {
	for _, sent := range b.Messaging.Taken(p.Phone) {
		bodies = append(bodies, sent.Body)
	}
	return bodies
}

// survey asks, waits a day, and hands over.
var survey = map[string]string{
	"flow.yaml": `
flow: survey
languages: [en]
start: ask
steps:
  ask:
    ask: HOW_MANY
    expect: {number: {min: 1, max: 20, whole: true}}
    save: guests
    unclear: {send: NUMBER_PLEASE, times: 1, then: person}
    silence: {after: 24h, send: NUDGE, times: 1, then: done}
    then: big
  big: {if: "person.fields.guests > 8", then: person, else: thanks}
  thanks: {send: THANKS, then: done}
  person: {hand_over: big_table, then: thanks}
  done: {end: booked}
`,
	"en.yaml": `
texts:
  HOW_MANY: How many of you will come?
  NUMBER_PLEASE: A number is enough, such as 4.
  NUDGE: How many will come? A number is enough.
  THANKS: "A table for {guests|you} is booked."
person: [the front desk]
`,
}

// surveyed starts the survey with a new person.
func (b *bundle) surveyed() (people.Profile, session.Record) { return b.begun("survey", survey) }

// begun starts a flow with a new person.
func (b *bundle) begun(flow string, files map[string]string) (people.Profile, session.Record) {
	b.T.Helper()
	_, err := b.Store.Flows().Publish(b.T.Context(), onboardingtest.OrgID, files, b.Clock.Now())
	require.NoError(b.T, err)
	p := b.Person()
	started, err := b.Current().Service.Begin(b.T.Context(), onboardingtest.OrgID, conversation.Start{ProfileID: p.ID, Flow: flow})
	require.NoError(b.T, err)
	b.Work()
	return p, b.Session(started.Record.ID)
}

// killedBeforeItWasRecorded has an answer and its job as a process leaves them that was killed after the carrier took the message.
func (b *bundle) killedBeforeItWasRecorded(answerID string) {
	b.T.Helper()
	for _, sql := range []string{
		`update ticket_answers set status = 'sending', reason = '', settled_at = null, message_id = null where id = $1::uuid`,
		`update webhook_jobs set status = 'pending', next_retry_at = updated_at, processed_at = null where subject = 'answer:' || $1::text`,
	} {
		tag, err := b.Pool.Exec(b.T.Context(), sql, answerID)
		require.NoError(b.T, err)
		require.EqualValues(b.T, 1, tag.RowsAffected())
	}
}

func (b *bundle) hold(p people.Profile) {
	b.T.Helper()
	_, err := b.Current().Persons.Hold(b.T.Context(), p.OrgID, p.ID, "an operator looks")
	require.NoError(b.T, err)
}

// claimed is the only job that is due soon, begun.
func (b *bundle) claimed(event string) queue.Job {
	b.T.Helper()
	b.Clock.Advance(15 * time.Minute)
	now := b.Clock.Now()
	found, err := b.Store.Jobs().Claim(b.T.Context(), queue.Claim{Limit: 1, Now: now, Until: now.Add(time.Minute)})
	require.NoError(b.T, err)
	require.Len(b.T, found.Jobs, 1)
	require.Equal(b.T, event, found.Jobs[0].EventType)
	return found.Jobs[0]
}

// port is messaging, as a service of tickets has it.
type port interface {
	Send(ctx context.Context, m conversation.Message) (conversation.Sent, error)
	Fate(ctx context.Context, orgID, key string) (engagement.Fate, error)
	Explain(ctx context.Context, m conversation.Message) (conversation.Explanation, error)
}

// unavailable fails each of the calls once, in their order.
type unavailable struct {
	port

	calls []string
}

func (u *unavailable) fails(call string) error {
	if len(u.calls) > 0 && u.calls[0] == call {
		u.calls = u.calls[1:]
		return people.ErrUnavailable
	}
	return nil
}

func (u *unavailable) Send(ctx context.Context, m conversation.Message) (conversation.Sent, error) {
	if err := u.fails("Send"); err != nil {
		return conversation.Sent{}, err
	}
	return u.port.Send(ctx, m)
}

func (u *unavailable) Fate(ctx context.Context, orgID, key string) (engagement.Fate, error) {
	if err := u.fails("Fate"); err != nil {
		return engagement.Fate{}, err
	}
	return u.port.Fate(ctx, orgID, key)
}

func (u *unavailable) Explain(ctx context.Context, m conversation.Message) (conversation.Explanation, error) {
	if err := u.fails("Explain"); err != nil {
		return conversation.Explanation{}, err
	}
	return u.port.Explain(ctx, m)
}
