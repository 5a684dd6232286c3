package conversation_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"paceline.internal/emulators/messagingtest"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// TestExplain holds explanations to what happens: a person is explained, and then the step is executed, or the person activated.
func TestExplain(t *testing.T) {
	t.Parallel()
	inBurst := func(bend func(o *history, r session.Record)) func(o *history) {
		return func(o *history) {
			var r session.Record
			o.p, r = o.b.InBurst(2)
			bend(o, r)
		}
	}
	for _, tt := range []struct {
		name string
		bend func(o *history)
		want string
	}{
		{name: "DueStepWouldBeSent", bend: inBurst(func(o *history, _ session.Record) { o.b.Clock.Advance(8 * time.Second) }), want: "sent"},
		{name: "StepThatIsNotDue", bend: inBurst(func(*history, session.Record) {}), want: "not_due"},
		{name: "SessionThatWaitsForAReply", bend: func(o *history) { o.p, _ = o.b.Activated() }, want: "stale"},
		{name: "PersonOnHold", bend: inBurst(func(o *history, _ session.Record) { o.b.Hold(o.p) }), want: "safety_hold"},
		{name: "StepInQuietHours", bend: func(o *history) {
			o.p, _ = o.b.InBurst(1)
			o.b.sets(true, o.b.Clock.Now().Add(time.Hour))
		}, want: "quiet_hours"},
		{name: "OrganisationIsPaused", bend: inBurst(func(o *history, _ session.Record) { o.b.Pauses("") }), want: "scheduling_paused"},
		{name: "MessageInDoubt", bend: inBurst(func(o *history, r session.Record) {
			o.b.Clock.Advance(8 * time.Second)
			o.b.Fails(r, messagingtest.UnknownForever)
		}), want: "unknown"},
		{name: "MessageThatWasTakenUnnoticed", bend: inBurst(func(o *history, r session.Record) {
			o.b.Clock.Advance(8 * time.Second)
			o.b.Fails(r, messagingtest.AcceptLost)
		}), want: "already_sent"},
		{name: "PersonOptedOut", bend: inBurst(func(o *history, _ session.Record) { o.b.Reply(o.p, "STOP") }), want: "opted_out"},
		{name: "SessionParked", bend: func(o *history) { o.p, _, _ = o.b.ParkedAtStep(messagingtest.ParkMissed) }, want: "session_inactive"},
		{name: "PersonNotWrittenToYet", bend: func(o *history) { o.p = o.b.Person() }, want: "opened"},
		{name: "HeldPersonIsNotActivated", bend: func(o *history) {
			o.p = o.b.Person()
			o.b.Hold(o.p)
		}, want: "safety_hold"},
		{name: "ConsentRecordIsRequired", bend: func(o *history) {
			o.p = o.b.Person()
			o.b.sets(false, o.b.Clock.Now())
			o.b.Exec(`update organisation_settings set require_consent_record = true`)
		}, want: "consent_record_required"},
		{name: "AmbiguousWordsWait", bend: func(o *history) {
			o.p = o.b.Person()
			o.b.Reply(o.p, "leave me alone")
		}, want: "awaits_operator"},
	} {
		onboardingtest.Subtest(t, tt.name, setup, func(t *testing.T, b *bundle) {
			o := &history{b: b}
			tt.bend(o)
			require.Equal(t, tt.want, o.explains(t))
		})
	}
	onboardingtest.Subtest(t, "InAnyState", setup, func(t *testing.T, b *bundle) {
		rapid.Check(t, func(t *rapid.T) {
			b.Unmute()
			b.Exec(`delete from organisation_settings`)
			b.Unpauses()
			o := &history{b: b, p: b.Person()}
			_, _ = b.Current().Service.Begin(b.T.Context(), onboardingtest.OrgID, conversation.Start{ProfileID: o.p.ID})
			for range rapid.IntRange(1, 6).Draw(t, "steps") {
				o.anything(t)
				b.Idle()
				b.Messaging.Script(nil) // what the carrier will do next, nothing can explain
				o.explains(t)
			}
		})
	})
}

// TestExplainAWait holds the explanation of a session in which no step is due to what keeps the person's reply away.
func TestExplainAWait(t *testing.T) {
	t.Parallel()
	explain := func(b *bundle, r session.Record) conversation.Explanation {
		e, err := b.Current().Service.ExplainStep(b.T.Context(), onboardingtest.OrgID, r.ID)
		require.NoError(b.T, err)
		require.Equal(b.T, "stale", e.Outcome)
		return e
	}
	fact := func(e conversation.Explanation, name string) string {
		at := slices.IndexFunc(e.Gates, func(g conversation.Gate) bool { return g.Name == name })
		return e.Gates[at].Fact
	}
	onboardingtest.Subtest(t, "NamesTheOpeningThatIsInDoubt", setup, func(t *testing.T, b *bundle) {
		b.Messaging.Script(messagingtest.First(messagingtest.UnknownTaken))
		_, r := b.Activated()
		e := explain(b, r)
		require.Contains(t, fact(e, "step"), "the opening has not reached the person: it would be unknown")
		require.Equal(t, "something else; then the person replies", e.Advice)
		require.Contains(t, e.Next, "First the opening has to reach the person.")
		b.Messaging.Settle()
		b.Quiet()
		require.Equal(t, "the person replies", explain(b, r).Advice)
	})
	onboardingtest.Subtest(t, "NamesTheAnswerThatIsInDoubt", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Messaging.Script(messagingtest.First(messagingtest.UnknownTaken))
		b.Reply(p, "yes")
		b.Work()
		require.Contains(t, fact(explain(b, r), "step"), "the explanation has not reached the person")
	})
	onboardingtest.Subtest(t, "NamesTheTextThatDidNotReachThePerson", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Messaging.SetLost(true)
		e := explain(b, r)
		require.Contains(t, fact(e, "step"), "the opening has not reached the person: code 30005")
		require.Equal(t, "another number; then the person replies", e.Advice)
		require.Equal(t, "First the opening has to reach the person.", e.Next)
		b.Reply(p, "yes")
		b.Work()
		require.Contains(t, fact(explain(b, b.Newest(p)), "step"), "the explanation has not reached the person: code 30005")
	})
	onboardingtest.Subtest(t, "NamesTheTextOfAFlowThatDidNotReachThePerson", setup, func(t *testing.T, b *bundle) {
		p, r := visited(b)
		b.Pass(time.Second)
		require.NotContains(t, fact(explain(b, r), "step"), "has not reached the person")
		b.Messaging.SetLost(true)
		for _, step := range []struct{ says, text string }{
			{"", "HELLO"}, {"not now", "LATER"}, {"yes", "ASK_DAY"}, {"what?", "CHOOSE"}, {"", "NUDGE"},
		} {
			if step.says != "" {
				b.Reply(p, step.says)
			} else if step.text == "NUDGE" {
				b.Clock.Advance(24 * time.Hour)
			}
			b.Pass(time.Minute)
			e := explain(b, b.Newest(p))
			require.Contains(t, fact(e, "step"), step.text+" has not reached the person: code 30005")
			require.Equal(t, "First "+step.text+" has to reach the person.", e.Next)
		}
	})
	onboardingtest.Subtest(t, "SaysThatAPersonHasToActBeforeTheTextPasses", setup, func(t *testing.T, b *bundle) {
		b.Messaging.Script(messagingtest.First(messagingtest.Throttle))
		_, r := b.Activated()
		require.False(t, explain(b, r).NeedsPerson)
		b.Messaging.SetBarred(true)
		e := explain(b, r)
		require.True(t, e.NeedsPerson)
		require.Contains(t, fact(e, "step"), "has not reached the person: code 30034")
		require.Equal(t, "register the number; then the person replies", e.Advice)
		_, r = b.InBurst(2)
		b.Clock.Advance(8 * time.Second)
		due, err := b.Current().Service.ExplainStep(t.Context(), onboardingtest.OrgID, r.ID)
		require.NoError(t, err)
		require.True(t, due.NeedsPerson)
		require.Equal(t, "register the number", due.Advice)
		require.Contains(t, due.Next, "Twilio refuses it again.")
	})
	onboardingtest.Subtest(t, "CountsTheRepliesThatAHoldKeeps", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Hold(p)
		require.Equal(t, "the person is on a safety hold", fact(explain(b, r), "hold"))
		b.Reply(p, "yes")
		b.Reply(p, "yes, please")
		b.Work()
		e := explain(b, r)
		require.Equal(t, "the person is on a safety hold; replies that wait for its end: 2", fact(e, "hold"))
		require.Equal(t, "POST /v1/profiles/"+p.ID+":release", e.Advice)
		b.Release(p)
		b.Quiet()
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation}, b.Sequence(p), "the release did what was said")
		require.Equal(t, "the person replies", explain(b, r).Advice)
	})
	onboardingtest.Subtest(t, "SaysThatMessagingDoesNotAnswer", setup, func(t *testing.T, b *bundle) {
		_, r := b.Activated()
		b.Messaging.SetDown(true)
		require.Contains(t, fact(explain(b, r), "step"), "messaging does not answer")
	})
}

// explains explains the person, and the step that is due.
func (o *history) explains(t require.TestingT) string {
	outcome := o.explainsPerson(t)
	if r := o.b.Newest(o.p); r.NextStep != "" {
		return o.explainsStep(t, r)
	}
	return outcome
}

// anything is step, and what else decides.
func (o *history) anything(t *rapid.T) {
	b := o.b
	switch rapid.SampledFrom([]string{"history", "history", "history", "STOP", "START", "quiet", "loud", "record", "no record", "reset", "pause", "go on"}).Draw(t, "what else") {
	case "history":
		if at := b.Newest(o.p).Status; at != session.Stopped && at != session.Closed { // which no operator can resume
			o.step(t)
		}
	case "STOP", "START":
		b.Reply(o.p, rapid.SampledFrom([]string{"STOP", "START"}).Draw(t, "word"))
	case "quiet":
		b.sets(true, b.Clock.Now().Add(time.Hour))
	case "loud":
		b.sets(false, b.Clock.Now())
	case "record":
		b.Exec(`insert into organisation_settings (org_id, quiet_hours, quiet_until, quiet_from, require_consent_record, updated_at)
			values ($1, false, '08:00', '21:00', true, now()) on conflict (org_id) do update set require_consent_record = true`, onboardingtest.OrgID)
	case "no record":
		b.Exec(`update organisation_settings set require_consent_record = false`)
	case "pause":
		b.Pauses("")
	case "go on":
		b.Unpauses()
	case "reset":
		b.Resets(b.Newest(o.p))
	}
}

// sets gives the organisation quiet hours that end then, or none.
func (b *bundle) sets(quiet bool, until time.Time) {
	b.Exec(`insert into organisation_settings (org_id, quiet_hours, quiet_until, quiet_from, require_consent_record, updated_at)
		values ($1, $2, $3, $4, false, now()) on conflict (org_id) do update set quiet_hours = $2, quiet_until = $3, quiet_from = $4`,
		onboardingtest.OrgID, quiet, until.Format("15:04"), until.Add(-2*time.Hour).Format("15:04"))
}

// explainsStep explains a step, and executes it as an operator does.
func (o *history) explainsStep(t require.TestingT, r session.Record) string {
	b := o.b
	e, err := b.Current().Service.ExplainStep(b.T.Context(), onboardingtest.OrgID, r.ID)
	require.NoError(t, err)
	o.saysNothingPersonal(t, e)
	p := onboardingtest.Payload(r)
	result, err := b.Current().Service.ExecuteStep(b.T.Context(), session.StepPayload{
		ProfileID: p.GetProfileId(), SessionID: p.GetSessionId(), StepID: session.StepID(p.GetStepId()),
		ExpectedToken: session.Token(p.GetExpectedStateToken()), IdempotencyKey: p.GetIdempotencyKey(),
	}, "explained", conversation.EarlyRefused)
	var early *conversation.NotDue
	var pending *conversation.Pending
	var parked *conversation.StepParked
	switch {
	case errors.As(err, &early):
		require.Equal(t, "not_due", e.Outcome)
	case errors.As(err, &pending):
		require.Equal(t, map[conversation.Outcome]string{
			conversation.InFlight: "in_flight", conversation.Unknown: "unknown", conversation.Throttled: "throttled",
		}[pending.Outcome], e.Outcome)
	case errors.As(err, &parked):
		require.Contains(t, []string{"parked", "given_up", "rejected", "key_reused"}, e.Outcome)
	default:
		require.NoError(t, err)
		want := "sent"
		if result.Skip != "" {
			want = string(result.Skip)
		}
		require.Equal(t, want, e.Outcome, "%+v", e)
	}
	return e.Outcome
}

// explainsPerson explains a person, and activates them unless a session is open.
func (o *history) explainsPerson(t require.TestingT) string {
	b := o.b
	e, sessionID, err := b.Current().Service.ExplainPerson(b.T.Context(), onboardingtest.OrgID, o.p.ID)
	require.NoError(t, err)
	o.saysNothingPersonal(t, e)
	if r := b.Newest(o.p); r.Status == session.Active {
		require.Equal(t, r.ID, sessionID)
		return e.Outcome
	}
	require.Empty(t, sessionID)
	_, err = b.Current().Service.Begin(b.T.Context(), onboardingtest.OrgID, conversation.Start{ProfileID: o.p.ID})
	var parked *conversation.SessionParked
	switch e.Outcome {
	case "opened":
		require.NoError(t, err)
	case "opted_out":
		require.ErrorIs(t, err, people.ErrOptedOut)
	case "safety_hold":
		require.ErrorIs(t, err, people.ErrOnHold)
	case "session_parked":
		require.ErrorAs(t, err, &parked)
	case "awaits_operator":
		require.ErrorIs(t, err, people.ErrAwaitsOperator)
	case "consent_record_required":
		require.ErrorIs(t, err, conversation.ErrConsentRequired)
	default:
		require.Fail(t, "an outcome that an activation does not have", "%+v: %v", e, err)
	}
	return e.Outcome
}

func (o *history) saysNothingPersonal(t require.TestingT, e conversation.Explanation) {
	failed := false
	for _, g := range e.Gates {
		failed = failed || !g.Passed
		require.Equal(t, g.Passed, g.Change == "", "%+v", g)
		require.NotEmpty(t, g.Fact)
		require.NotContains(t, strings.Join([]string{g.Fact, g.Change, e.Next, e.Advice}, " "), o.p.Phone)
	}
	require.Equal(t, failed, e.Outcome != "sent" && e.Outcome != "opened", "%+v", e)
}
