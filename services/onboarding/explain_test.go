package onboarding_test

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
	"paceline.internal/services/onboarding/session"
)

// TestExplain holds explanations to what happens: a person is explained, and then the step is executed, or the person activated.
func TestExplain(t *testing.T) {
	t.Parallel()
	inBurst := func(bend func(o *history, r session.Record)) func(o *history) {
		return func(o *history) {
			var r session.Record
			o.p, r = o.b.inBurst(2)
			bend(o, r)
		}
	}
	for _, tt := range []struct {
		name string
		bend func(o *history)
		want string
	}{
		{name: "DueStepWouldBeSent", bend: inBurst(func(o *history, _ session.Record) { o.b.clock.Advance(8 * time.Second) }), want: "sent"},
		{name: "StepThatIsNotDue", bend: inBurst(func(*history, session.Record) {}), want: "not_due"},
		{name: "SessionThatWaitsForAReply", bend: func(o *history) { o.p, _ = o.b.activated() }, want: "stale"},
		{name: "PersonOnHold", bend: inBurst(func(o *history, _ session.Record) { o.b.hold(o.p) }), want: "safety_hold"},
		{name: "StepInQuietHours", bend: func(o *history) {
			o.p, _ = o.b.inBurst(1)
			o.b.sets(true, o.b.clock.Now().Add(time.Hour))
		}, want: "quiet_hours"},
		{name: "OrganisationIsPaused", bend: inBurst(func(o *history, _ session.Record) { o.b.pauses("") }), want: "scheduling_paused"},
		{name: "MessageInDoubt", bend: inBurst(func(o *history, r session.Record) {
			o.b.clock.Advance(8 * time.Second)
			o.b.fails(r, messagingtest.UnknownForever)
		}), want: "unknown"},
		{name: "MessageThatWasTakenUnnoticed", bend: inBurst(func(o *history, r session.Record) {
			o.b.clock.Advance(8 * time.Second)
			o.b.fails(r, messagingtest.AcceptLost)
		}), want: "already_sent"},
		{name: "PersonOptedOut", bend: inBurst(func(o *history, _ session.Record) { o.b.reply(o.p, "STOP") }), want: "opted_out"},
		{name: "SessionParked", bend: func(o *history) { o.p, _, _ = o.b.parkedAtStep(messagingtest.ParkMissed) }, want: "session_inactive"},
		{name: "PersonNotWrittenToYet", bend: func(o *history) { o.p = o.b.person() }, want: "opened"},
		{name: "HeldPersonIsNotActivated", bend: func(o *history) {
			o.p = o.b.person()
			o.b.hold(o.p)
		}, want: "safety_hold"},
		{name: "ConsentRecordIsRequired", bend: func(o *history) {
			o.p = o.b.person()
			o.b.sets(false, o.b.clock.Now())
			o.b.exec(`update organisation_settings set require_consent_record = true`)
		}, want: "consent_record_required"},
		{name: "AmbiguousWordsWait", bend: func(o *history) {
			o.p = o.b.person()
			o.b.reply(o.p, "leave me alone")
		}, want: "awaits_operator"},
	} {
		subtest(t, tt.name, setup, func(t *testing.T, b *bundle) {
			o := &history{b: b}
			tt.bend(o)
			require.Equal(t, tt.want, o.explains(t))
		})
	}
	subtest(t, "InAnyState", setup, func(t *testing.T, b *bundle) {
		rapid.Check(t, func(t *rapid.T) {
			b.unmute()
			b.exec(`delete from organisation_settings`)
			b.unpauses()
			o := &history{b: b, p: b.person()}
			_, _ = b.current().service.Activate(b.t.Context(), orgID, o.p.ID, nil)
			for range rapid.IntRange(1, 6).Draw(t, "steps") {
				o.anything(t)
				b.idle()
				b.messaging.Script(nil) // what the carrier will do next, nothing can explain
				o.explains(t)
			}
		})
	})
}

// TestExplainAWait holds the explanation of a session in which no step is due to what keeps the person's reply away.
func TestExplainAWait(t *testing.T) {
	t.Parallel()
	explain := func(b *bundle, r session.Record) conversation.Explanation {
		e, err := b.current().service.ExplainStep(b.t.Context(), orgID, r.ID)
		require.NoError(b.t, err)
		require.Equal(b.t, "stale", e.Outcome)
		return e
	}
	fact := func(e conversation.Explanation, name string) string {
		at := slices.IndexFunc(e.Gates, func(g conversation.Gate) bool { return g.Name == name })
		return e.Gates[at].Fact
	}
	subtest(t, "NamesTheOpeningThatIsInDoubt", setup, func(t *testing.T, b *bundle) {
		b.messaging.Script(messagingtest.First(messagingtest.UnknownTaken))
		_, r := b.activated()
		e := explain(b, r)
		require.Contains(t, fact(e, "step"), "the opening has not reached the person: it would be unknown")
		require.Equal(t, "something else; then the person replies", e.Advice)
		require.Contains(t, e.Next, "First the opening has to reach the person.")
		b.messaging.Settle()
		b.quiet()
		require.Equal(t, "the person replies", explain(b, r).Advice)
	})
	subtest(t, "NamesTheAnswerThatIsInDoubt", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.messaging.Script(messagingtest.First(messagingtest.UnknownTaken))
		b.reply(p, "yes")
		b.work()
		require.Contains(t, fact(explain(b, r), "step"), "the explanation has not reached the person")
	})
	subtest(t, "NamesTheTextThatDidNotReachThePerson", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.messaging.SetLost(true)
		e := explain(b, r)
		require.Contains(t, fact(e, "step"), "the opening has not reached the person: code 30005")
		require.Equal(t, "another number; then the person replies", e.Advice)
		require.Equal(t, "First the opening has to reach the person.", e.Next)
		b.reply(p, "yes")
		b.work()
		require.Contains(t, fact(explain(b, b.newest(p)), "step"), "the explanation has not reached the person: code 30005")
	})
	subtest(t, "SaysThatAPersonHasToActBeforeTheTextPasses", setup, func(t *testing.T, b *bundle) {
		b.messaging.Script(messagingtest.First(messagingtest.Throttle))
		_, r := b.activated()
		require.False(t, explain(b, r).NeedsPerson)
		b.messaging.SetBarred(true)
		e := explain(b, r)
		require.True(t, e.NeedsPerson)
		require.Contains(t, fact(e, "step"), "has not reached the person: code 30034")
		require.Equal(t, "register the number; then the person replies", e.Advice)
		_, r = b.inBurst(2)
		b.clock.Advance(8 * time.Second)
		due, err := b.current().service.ExplainStep(t.Context(), orgID, r.ID)
		require.NoError(t, err)
		require.True(t, due.NeedsPerson)
		require.Equal(t, "register the number", due.Advice)
		require.Contains(t, due.Next, "Twilio refuses it again.")
	})
	subtest(t, "CountsTheRepliesThatAHoldKeeps", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.hold(p)
		require.Equal(t, "the person is on a safety hold", fact(explain(b, r), "hold"))
		b.reply(p, "yes")
		b.reply(p, "yes, please")
		b.work()
		e := explain(b, r)
		require.Equal(t, "the person is on a safety hold; replies that wait for its end: 2", fact(e, "hold"))
		require.Equal(t, "POST /v1/profiles/"+p.ID+":release", e.Advice)
		b.release(p)
		b.quiet()
		require.Equal(t, []string{opening, explanation}, b.sequence(p), "the release did what was said")
		require.Equal(t, "the person replies", explain(b, r).Advice)
	})
	subtest(t, "SaysThatMessagingDoesNotAnswer", setup, func(t *testing.T, b *bundle) {
		_, r := b.activated()
		b.messaging.SetDown(true)
		require.Contains(t, fact(explain(b, r), "step"), "messaging does not answer")
	})
}

// explains explains the person, and the step that is due.
func (o *history) explains(t require.TestingT) string {
	outcome := o.explainsPerson(t)
	if r := o.b.newest(o.p); r.NextStep != "" {
		return o.explainsStep(t, r)
	}
	return outcome
}

// anything is step, and what else decides.
func (o *history) anything(t *rapid.T) {
	b := o.b
	switch rapid.SampledFrom([]string{"history", "history", "history", "STOP", "START", "quiet", "loud", "record", "no record", "reset", "pause", "go on"}).Draw(t, "what else") {
	case "history":
		if at := b.newest(o.p).Status; at != session.Stopped && at != session.Closed { // which no operator can resume
			o.step(t)
		}
	case "STOP", "START":
		b.reply(o.p, rapid.SampledFrom([]string{"STOP", "START"}).Draw(t, "word"))
	case "quiet":
		b.sets(true, b.clock.Now().Add(time.Hour))
	case "loud":
		b.sets(false, b.clock.Now())
	case "record":
		b.exec(`insert into organisation_settings (org_id, quiet_hours, quiet_until, quiet_from, require_consent_record, updated_at)
			values ($1, false, '08:00', '21:00', true, now()) on conflict (org_id) do update set require_consent_record = true`, orgID)
	case "no record":
		b.exec(`update organisation_settings set require_consent_record = false`)
	case "pause":
		b.pauses("")
	case "go on":
		b.unpauses()
	case "reset":
		b.resets(b.newest(o.p))
	}
}

// sets gives the organisation quiet hours that end then, or none.
func (b *bundle) sets(quiet bool, until time.Time) {
	b.exec(`insert into organisation_settings (org_id, quiet_hours, quiet_until, quiet_from, require_consent_record, updated_at)
		values ($1, $2, $3, $4, false, now()) on conflict (org_id) do update set quiet_hours = $2, quiet_until = $3, quiet_from = $4`,
		orgID, quiet, until.Format("15:04"), until.Add(-2*time.Hour).Format("15:04"))
}

// explainsStep explains a step, and executes it as an operator does.
func (o *history) explainsStep(t require.TestingT, r session.Record) string {
	b := o.b
	e, err := b.current().service.ExplainStep(b.t.Context(), orgID, r.ID)
	require.NoError(t, err)
	o.saysNothingPersonal(t, e)
	p := payload(r)
	result, err := b.current().service.ExecuteStep(b.t.Context(), session.StepPayload{
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
	e, sessionID, err := b.current().service.ExplainPerson(b.t.Context(), orgID, o.p.ID)
	require.NoError(t, err)
	o.saysNothingPersonal(t, e)
	if r := b.newest(o.p); r.Status == session.Active {
		require.Equal(t, r.ID, sessionID)
		return e.Outcome
	}
	require.Empty(t, sessionID)
	_, err = b.current().service.Activate(b.t.Context(), orgID, o.p.ID, nil)
	var parked *conversation.SessionParked
	switch e.Outcome {
	case "opened":
		require.NoError(t, err)
	case "opted_out":
		require.ErrorIs(t, err, conversation.ErrOptedOut)
	case "safety_hold":
		require.ErrorIs(t, err, conversation.ErrOnHold)
	case "session_parked":
		require.ErrorAs(t, err, &parked)
	case "awaits_operator":
		require.ErrorIs(t, err, conversation.ErrAwaitsOperator)
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
