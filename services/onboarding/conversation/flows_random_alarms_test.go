package conversation_test

import (
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/session"
)

// late delivers an alarm that was due before, of any session of the person, any step and any visit.
func (w *walk) late(t *rapid.T) {
	b := w.b
	b.Idle()
	set := onboardingtest.List[string](b.Bundle, `select distinct session_id || ' ' || step_id from step_alarms
		where profile_id = $1 and due_at <= $2 order by 1`, w.p.ID, b.Clock.Now())
	if len(set) == 0 {
		return
	}
	id, step, _ := strings.Cut(pick(t, "alarm", set...), " ")
	r := b.Session(id)
	w.rings(t, r, session.NewStepPayload(r.ProfileID, r.ID, session.StepID(step)))
}

// overdue has QStash lose the alarms of the steps that follow an answer, until they are due.
func (w *walk) overdue(t *rapid.T) {
	b := w.b
	b.Idle()
	b.Mute()
	w.says(t, w.answer(t, pick(t, "answer", "alpha", "beta")))
	b.Clock.Advance(longestAfter)
	b.Idle()
	b.Unmute()
}

// probes delivers alarms of the very step that a session waits for, against which one thing alone stands: another token, a safety
// hold, or the delay, where an earlier visit of the step has left an alarm behind.
func (w *walk) probes(t *rapid.T, r session.Record) {
	alarm := session.NewStepPayload(r.ProfileID, r.ID, r.NextStep)
	if w.held || w.early(r) {
		w.rings(t, r, alarm)
	}
	alarm.ExpectedToken = session.AwaitingInterviewStart
	w.rings(t, r, alarm)
}

// rings delivers an alarm. Where the session waits for something else, that is said, and nothing changes.
func (w *walk) rings(t *rapid.T, r session.Record, alarm session.StepPayload) {
	b := w.b
	want := w.refusal(r, alarm)
	texts := len(b.Messaging.Attempts())
	out, err := b.Execute(&onboardingv1.ExecuteStepRequest{
		ProfileId: alarm.ProfileID, SessionId: alarm.SessionID, StepId: string(alarm.StepID),
		ExpectedStateToken: string(alarm.ExpectedToken), IdempotencyKey: alarm.IdempotencyKey,
	})
	if want == "" { // it is due, or was of an earlier visit: judge holds the text to its delay
		return
	}
	if err == nil {
		require.Equal(t, string(want), out.GetSkipReason(), "the alarm of %s in %+v", alarm.StepID, r)
	}
	require.Len(t, b.Messaging.Attempts(), texts, "the alarm of %s sent a text in %+v", alarm.StepID, r)
	require.Equal(t, r, b.Session(r.ID), "the alarm of %s changed a session that does not wait for it", alarm.StepID)
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
	case w.early(r):
		return session.SkipStale
	}
	return ""
}

// early reports whether the step of a session is due later than the lead that a clock may have.
func (w *walk) early(r session.Record) bool {
	return w.b.Count(`select count(*) from (select due_at from step_alarms where session_id = $1 and step_id = $2 and cause = 'due'
		order by generation desc limit 1) a where a.due_at > $3`, r.ID, string(r.NextStep), w.b.Clock.Now().Add(5*time.Second)) > 0
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
	if pick(t, "hold a due step", true, false) {
		w.overdue(t)
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
