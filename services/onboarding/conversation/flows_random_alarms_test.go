package conversation_test

import (
	"strings"
	"sync"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/session"
)

// late delivers an alarm that was due before, of any session of the person, any step and any visit, or one that is forged by its token.
// Where the session waits for something else, that is said, and nothing changes.
func (w *walk) late(t *rapid.T) {
	b := w.b
	b.Idle()
	token := pick(t, "token", session.AwaitingBurst, session.AwaitingBurst, session.AwaitingInterviewStart)
	forged := token != session.AwaitingBurst // which comes at any time
	set := onboardingtest.List[string](b.Bundle, `select distinct session_id || ' ' || step_id from step_alarms
		where profile_id = $1 and (due_at <= $2 or $3) order by 1`, w.p.ID, b.Clock.Now(), forged)
	if len(set) == 0 {
		return
	}
	id, step, _ := strings.Cut(pick(t, "alarm", set...), " ")
	r := b.Session(id)
	payload := session.NewStepPayload(r.ProfileID, r.ID, session.StepID(step))
	payload.ExpectedToken = token
	want := w.refusal(r, payload)
	texts := len(b.Messaging.Attempts())
	out, err := b.Execute(&onboardingv1.ExecuteStepRequest{
		ProfileId: payload.ProfileID, SessionId: payload.SessionID, StepId: string(payload.StepID),
		ExpectedStateToken: string(payload.ExpectedToken), IdempotencyKey: payload.IdempotencyKey,
	})
	if want == "" { // it is due, or was of an earlier visit: judge holds the text to its delay
		return
	}
	if err == nil {
		require.Equal(t, string(want), out.GetSkipReason(), "the alarm of %s in %+v", step, r)
	}
	require.Len(t, b.Messaging.Attempts(), texts, "the alarm of %s sent a text in %+v", step, r)
	require.Equal(t, r, b.Session(id), "the alarm of %s changed a session that does not wait for it", step)
}

// refusal is the reason for which an alarm may do nothing to a session; empty where its step is due.
func (w *walk) refusal(r session.Record, alarm session.StepPayload) session.SkipReason {
	switch {
	case r.Status == session.Stopped:
		return session.SkipOptedOut
	case r.Status != session.Active || r.Mode != session.Onboarding:
		return session.SkipSessionInactive
	case r.Token != alarm.ExpectedToken || r.NextStep != alarm.StepID:
		return session.SkipStale
	case w.held:
		return session.SkipSafetyHold
	}
	return ""
}

// hold puts a safety hold on the person, or lifts it.
func (w *walk) hold(t *rapid.T) {
	b := w.b
	b.Idle()
	if w.held {
		w.until(t, "release", func() error {
			_, err := b.Current().Persons.Release(b.T.Context(), onboardingtest.OrgID, w.p.ID)
			return err
		})
		w.held = false
		return
	}
	w.until(t, "hold", func() error {
		_, err := b.Current().Persons.Hold(b.T.Context(), onboardingtest.OrgID, w.p.ID, "under review")
		return err
	})
	w.held, w.quiet = true, len(b.Messaging.Taken(w.p.Phone))
}

// stopAmid has the person write STOP while the next text is being sent: before messaging claims it, or while Twilio is asked. In the second
// case that one still comes to them; no other does.
func (w *walk) stopAmid(t *rapid.T) {
	b, stop := w.b, w.b.Posts(w.p, "STOP")
	b.Idle()
	var once sync.Once
	asked, heard, most := false, false, 0
	write := func(underWay int) {
		once.Do(func() {
			asked, most = true, len(b.Messaging.Taken(w.p.Phone))+underWay
			heard = stop() == nil
		})
	}
	if pick(t, "amid", "before the claim", "after the claim") == "before the claim" {
		b.Current().Ports.Meanwhile = func() { write(0) }
	} else {
		b.Messaging.Gate(func(*messagingv1.SendRequest) { write(1) })
	}
	w.says(t, w.answer(t, "alpha"))
	b.Pass(onboardingtest.Grace)
	b.Current().Ports.Meanwhile = nil
	b.Messaging.Gate(nil)
	once.Do(func() {}) // it is over
	if !asked {        // no text was sent
		return
	}
	w.until(t, "STOP", stop) // as Twilio does until it is answered
	w.stopped = len(b.Messaging.Taken(w.p.Phone))
	if heard {
		require.LessOrEqual(t, w.stopped, most, "a text after a STOP amid a send")
	}
}
