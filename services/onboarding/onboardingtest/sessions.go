package onboardingtest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/messagingtest"
	"paceline.internal/platform/rpc"
	"paceline.internal/platform/telemetry"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// Activates activates a person as an operator.
func (b *Bundle) Activates(p people.Profile, consent *onboardingv1.ConsentRecord) (*onboardingv1.Session, error) {
	b.T.Helper()
	out, err := Ask(b, b.Current().Server.ActivateProfile, &onboardingv1.ActivateProfileRequest{ProfileId: p.ID, Consent: consent})
	return out.GetSession(), err
}

// Resets closes a session.
func (b *Bundle) Resets(r session.Record) session.Record {
	b.T.Helper()
	closed, err := b.Current().Service.Reset(b.T.Context(), OrgID, r.ID)
	require.NoError(b.T, err)
	return closed
}

// Sessions counts all sessions.
func (b *Bundle) Sessions() int {
	b.T.Helper()
	return b.Count(`select count(*) from conversation_sessions`)
}

// Newest returns the newest session of a person.
func (b *Bundle) Newest(p people.Profile) session.Record {
	b.T.Helper()
	v, err := b.Store.Conversation(b.T.Context(), OrgID, p.Phone)
	require.NoError(b.T, err)
	return v.Session
}

// KeepsPace asserts that no step came before its delay was over.
func (b *Bundle) KeepsPace(p people.Profile) {
	b.T.Helper()
	at := map[string]time.Time{}
	for i, key := range b.Sequence(p) {
		at[key] = b.Messaging.Taken(p.Phone)[i].At
	}
	steps := session.DefaultFlow().Steps()
	for i, s := range steps[1:] {
		before, after := at[string(steps[i].Text)], at[string(s.Text)]
		if !after.IsZero() {
			require.GreaterOrEqual(b.T, after.Sub(before), s.Delay)
		}
	}
}

// Asking has a new person answer the opening while every attempt at the explanation meets an outcome.
func (b *Bundle) Asking(outcome messagingtest.Outcome) (people.Profile, session.Record) {
	b.T.Helper()
	p, r := b.Activated()
	b.Messaging.Script(func(int, *messagingv1.SendRequest) messagingtest.Outcome { return outcome })
	b.Reply(p, "yes")
	return p, b.At(r.ID, session.AwaitingOpeningResponse, "")
}

const (
	WasSent    = messagingv1.Resolution_RESOLUTION_SENT
	WasNotSent = messagingv1.Resolution_RESOLUTION_NOT_SENT
	GiveUp     = messagingv1.Resolution_RESOLUTION_GIVE_UP
)

// Resume resumes a session as an operator.
func (b *Bundle) Resume(r session.Record) (*onboardingv1.Session, error) {
	out, err := Ask(b, b.Current().Server.ResumeSession, &onboardingv1.ResumeSessionRequest{SessionId: r.ID})
	return out.GetSession(), err
}

// Resumed resumes a session and asserts that it is active.
func (b *Bundle) Resumed(r session.Record) {
	b.T.Helper()
	s, err := b.Resume(r)
	require.NoError(b.T, err)
	require.Equal(b.T, []string{"active", ""}, []string{s.GetStatus(), s.GetReason()})
}

// Entry returns the last timeline entry of a kind.
func (b *Bundle) Entry(id string, kind session.Kind) session.Entry {
	b.T.Helper()
	story, err := b.Store.Session(b.T.Context(), OrgID, id)
	require.NoError(b.T, err)
	var last session.Entry
	for _, e := range story.Entries {
		if e.Kind == kind {
			last = e
		}
	}
	require.NotEmpty(b.T, last.Kind, "no %s in the timeline", kind)
	return last
}

// Shown returns a session as operators see it.
func (b *Bundle) Shown(id string) *onboardingv1.Session {
	b.T.Helper()
	out, err := Ask(b, b.Current().Server.GetSession, &onboardingv1.GetSessionRequest{SessionId: id})
	require.NoError(b.T, err)
	return out.GetSession()
}

// ParkedAtStep has the second step of a new person meet an outcome that parks the session, while QStash is mute.
func (b *Bundle) ParkedAtStep(outcome messagingtest.Outcome) (people.Profile, session.Record, error) {
	b.T.Helper()
	p, r := b.InBurst(2)
	b.Clock.Advance(8 * time.Second)
	b.Messaging.Script(messagingtest.First(outcome))
	_, err := b.Execute(Payload(r))
	require.Error(b.T, err)
	b.Messaging.Script(nil)
	return p, b.Session(r.ID), err
}

// StepKey returns the idempotency key of the n-th step.
func StepKey(r session.Record, n int) string { return session.Key(r.ProfileID, r.ID, Step(n)) }

// The messages in the order in which a person gets them, as Sequence names them.
const (
	Opening     = string(session.TextOpening)
	Explanation = string(session.TextExplanation)
	Later       = string(session.TextLater)
	First       = "ONBOARDING_MESSAGE_1"
	Second      = "ONBOARDING_MESSAGE_2"
	Third       = "ONBOARDING_MESSAGE_3"
	Fourth      = "ONBOARDING_MESSAGE_4"
)

// Whole lists the messages of a conversation until its last step.
var Whole = []string{Opening, Explanation, First, Second, Third, Fourth}

// Step returns the n-th step of the built-in flow.
func Step(n int) session.StepID { return session.DefaultFlow().Steps()[n-1].ID }

// Activate opens a session.
func (b *Bundle) Activate(p people.Profile) session.Record {
	b.T.Helper()
	r, err := b.Current().Service.Begin(b.T.Context(), OrgID, conversation.Start{ProfileID: p.ID})
	require.NoError(b.T, err)
	return r.Record
}

// Activated opens a session of a new person.
func (b *Bundle) Activated() (people.Profile, session.Record) {
	b.T.Helper()
	p := b.Person()
	return p, b.Activate(p)
}

// Unscripted lets messaging take every message while do runs. The next message after it meets b.Outcome.
func (b *Bundle) Unscripted(do func()) {
	b.Messaging.Script(nil)
	do()
	b.Messaging.Script(messagingtest.First(b.Outcome))
}

// Message returns a text of a person as Twilio posts it.
func (b *Bundle) Message(p people.Profile, body string) *onboardingv1.ReceiveMessageRequest {
	return &onboardingv1.ReceiveMessageRequest{
		TwilioSid: fmt.Sprintf("SM%032d", b.Serial.Add(1)), From: p.Phone, To: Ours, Body: body, Segments: 1,
	}
}

// Reply posts a text of a person and returns its SID.
func (b *Bundle) Reply(p people.Profile, body string) string {
	b.T.Helper()
	m := b.Message(p, body)
	b.Receives(m)
	return m.GetTwilioSid()
}

// Receives posts a text and reports whether it was a repeat.
func (b *Bundle) Receives(m *onboardingv1.ReceiveMessageRequest) (duplicate bool) {
	b.T.Helper()
	out, err := b.Current().Server.ReceiveMessage(b.T.Context(), m)
	require.NoError(b.T, err)
	return out.GetDuplicate()
}

// Unrecorded posts a text while messaging is down, so that the text stays a job.
func (b *Bundle) Unrecorded(p people.Profile, body string) {
	b.T.Helper()
	b.Messaging.SetDown(true)
	_, err := b.Current().Server.ReceiveMessage(b.T.Context(), b.Message(p, body))
	require.Error(b.T, err)
	b.Messaging.SetDown(false)
}

// Explained brings a new person to the explanation.
func (b *Bundle) Explained() (people.Profile, session.Record) {
	b.T.Helper()
	p, r := b.Activated()
	b.Reply(p, "Sure")
	return p, b.At(r.ID, session.AwaitingExplanationResponse, "")
}

// InBurst brings a new person to the n-th step, which is due. QStash is mute.
func (b *Bundle) InBurst(n int) (people.Profile, session.Record) {
	b.T.Helper()
	b.Mute()
	p, r := b.Explained()
	b.Reply(p, "ok")
	for sent := 1; sent < n; sent++ {
		b.Clock.Advance(10 * time.Second)
		out, err := b.Execute(Payload(b.Session(r.ID)))
		require.NoError(b.T, err)
		require.Equal(b.T, onboardingv1.StepOutcome_STEP_OUTCOME_SENT, out.GetOutcome())
	}
	b.Idle()
	return p, b.At(r.ID, session.AwaitingBurst, Step(n))
}

// FailedAtLast has the last step of a new person meet these outcomes, a second after the step before it.
func (b *Bundle) FailedAtLast(outcomes ...messagingtest.Outcome) (people.Profile, session.Record) {
	b.T.Helper()
	p, r := b.InBurst(4)
	b.Clock.Advance(time.Second)
	b.Fails(r, outcomes...)
	return p, r
}

// Finished sends all steps to a new person.
func (b *Bundle) Finished() (people.Profile, session.Record) {
	b.T.Helper()
	p, r := b.InBurst(4)
	b.Clock.Advance(time.Second)
	_, err := b.Execute(Payload(r))
	require.NoError(b.T, err)
	return p, b.At(r.ID, session.AwaitingInterviewStart, "")
}

// Payload returns the alarm of the step that is due.
func Payload(r session.Record) *onboardingv1.ExecuteStepRequest {
	p := session.NewStepPayload(r.ProfileID, r.ID, r.NextStep)
	return &onboardingv1.ExecuteStepRequest{
		ProfileId: p.ProfileID, SessionId: p.SessionID, StepId: string(p.StepID),
		ExpectedStateToken: string(p.ExpectedToken), IdempotencyKey: p.IdempotencyKey,
	}
}

// Execute executes a step as QStash's callback does.
func (b *Bundle) Execute(in *onboardingv1.ExecuteStepRequest) (*onboardingv1.ExecuteStepResponse, error) {
	ctx := rpc.WithPrincipal(b.T.Context(), rpc.Principal{Subject: "gateway", Role: rpc.RoleService})
	return b.Current().Server.ExecuteStep(telemetry.WithRequestID(ctx, "request-7"), in)
}

// Executes executes the step that is due and asserts that it does not fail.
func (b *Bundle) Executes(r session.Record) {
	b.T.Helper()
	_, err := b.Execute(Payload(r))
	require.NoError(b.T, err)
}

// Fails executes the step that is due while messaging meets these outcomes, and asserts that it fails.
func (b *Bundle) Fails(r session.Record, outcomes ...messagingtest.Outcome) {
	b.T.Helper()
	b.Messaging.Script(messagingtest.First(outcomes...))
	_, err := b.Execute(Payload(r))
	require.Error(b.T, err)
}

// Skips executes a step and asserts that it sends nothing, for this reason.
func (b *Bundle) Skips(reason session.SkipReason, in *onboardingv1.ExecuteStepRequest) {
	b.T.Helper()
	before := len(b.Messaging.Attempts())
	out, err := b.Execute(in)
	require.NoError(b.T, err)
	require.Equal(b.T, onboardingv1.StepOutcome_STEP_OUTCOME_SKIPPED, out.GetOutcome())
	require.Equal(b.T, string(reason), out.GetSkipReason())
	require.Len(b.T, b.Messaging.Attempts(), before)
}

// Session reads a session.
func (b *Bundle) Session(id string) session.Record {
	b.T.Helper()
	v, err := b.Store.LoadSession(b.T.Context(), id)
	require.NoError(b.T, err)
	return v.Session
}

// At asserts the token and the next step of a session.
func (b *Bundle) At(id string, token session.Token, next session.StepID) session.Record {
	b.T.Helper()
	r := b.Session(id)
	require.Equal(b.T, token, r.Token)
	require.Equal(b.T, next, r.NextStep)
	return r
}

// Story lists the kinds of a session's timeline entries.
func (b *Bundle) Story(id string) []session.Kind {
	b.T.Helper()
	story, err := b.Store.Session(b.T.Context(), OrgID, id)
	require.NoError(b.T, err)
	var kinds []session.Kind
	for _, e := range story.Entries {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

// Sequence lists the texts that a person got, by their keys in the catalog.
func (b *Bundle) Sequence(p people.Profile) []string {
	b.T.Helper()
	copies, keys := catalog.Default(), []string{Opening, Explanation, Later, First, Second, Third, Fourth}
	var got []string
	for _, sent := range b.Messaging.Taken(p.Phone) {
		for _, key := range keys {
			rendered, err := copies.Render(copies.Current(), p.Locale, key, p.FirstName)
			require.NoError(b.T, err)
			if rendered == sent.Body {
				got = append(got, key)
			}
		}
	}
	require.Len(b.T, got, len(b.Messaging.Taken(p.Phone)), "a message that is none of ours")
	return got
}

// Completes lets the conversation go on, and asserts that each message came once until the last step.
func (b *Bundle) Completes(p people.Profile) {
	b.T.Helper()
	b.Quiet()
	require.Equal(b.T, Whole, b.Sequence(p))
}

// RequireParked asserts that an operator finds a session parked with a reason, and what to do.
func (b *Bundle) RequireParked(r session.Record, reason string) {
	b.T.Helper()
	parked := b.Shown(r.ID)
	require.Equal(b.T, "stuck", parked.GetStatus())
	require.Contains(b.T, parked.GetReason(), reason)
	require.Contains(b.T, parked.GetReason(), "POST /v1/sessions/"+r.ID+":resume")
	require.Zero(b.T, b.Count(`select count(*) from webhook_jobs where status in ('pending', 'processing')`))
}

// Posts returns a call that posts a text of a person, the same one each time.
func (b *Bundle) Posts(p people.Profile, body string) func() error {
	m := b.Message(p, body)
	return func() error {
		_, err := b.Current().Server.ReceiveMessage(b.T.Context(), m)
		return err
	}
}
