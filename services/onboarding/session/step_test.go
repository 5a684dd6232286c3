package session_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	script "paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/session"
)

const (
	profileID = "01980000-0000-7000-8000-00000000000a"
	sessionID = "01980000-0000-7000-8000-00000000000b"
)

func TestMayExecute(t *testing.T) {
	t.Parallel()
	alarm := session.NewStepPayload(profileID, sessionID, "onboarding_message_2")
	due := func(changes ...func(*stepView)) stepView {
		view := stepView{ProfileID: profileID, Snapshot: session.Snapshot{
			Status: session.Active, Mode: session.Onboarding, Token: session.AwaitingBurst, NextStep: "onboarding_message_2",
		}}
		for _, change := range changes {
			change(&view)
		}
		return view
	}
	paused := func(v *stepView) { v.Paused = true }
	held := func(v *stepView) { v.Held = true; paused(v) }
	otherStep := func(v *stepView) { v.NextStep = "onboarding_message_3"; held(v) }
	otherToken := func(v *stepView) { v.Token = session.AwaitingInterviewStart; held(v) }
	status := func(s session.Status) func(*stepView) {
		return func(v *stepView) { v.Status = s; otherStep(v) }
	}
	interviewing := func(v *stepView) { v.Mode = session.Interviewing; otherStep(v) }
	otherProfile := func(v *stepView) { v.ProfileID = sessionID; status(session.Closed)(v) }

	// Each case fails every later check too, so the table is the order.
	tests := []struct {
		name string
		view stepView
		want session.SkipReason
	}{
		{name: "NoSuchSession", view: stepView{}, want: "session_not_found"},
		{name: "SessionOfAnotherProfile", view: due(otherProfile), want: "session_not_found"},
		{name: "StoppedByThePerson", view: due(status(session.Stopped)), want: "opted_out"},
		{name: "Closed", view: due(status(session.Closed)), want: "session_inactive"},
		{name: "Stuck", view: due(status(session.Stuck)), want: "session_inactive"},
		{name: "Undeliverable", view: due(status(session.Undeliverable)), want: "session_inactive"},
		{name: "UnknownStatus", view: due(status("")), want: "session_inactive"},
		{name: "Interviewing", view: due(interviewing), want: "session_inactive"},
		{name: "AnotherStepIsDue", view: due(otherStep), want: "stale"},
		{name: "AnotherTokenIsWaitedFor", view: due(otherToken), want: "stale"},
		{name: "NoStepIsDue", view: due(func(v *stepView) { v.NextStep = "" }), want: "stale"},
		{name: "SafetyHold", view: due(held), want: "safety_hold"},
		{name: "Paused", view: due(paused), want: "paused"},
		{name: "Due", view: due(), want: ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ok, reason := session.MayExecute(tt.view.ProfileID, tt.view.Snapshot, alarm)
			require.Equal(t, tt.want, reason)
			require.Equal(t, tt.want == "", ok)
		})
	}
}

func TestMayReplay(t *testing.T) {
	t.Parallel()
	alarm := session.NewStepPayload(profileID, sessionID, "onboarding_message_2")
	view := func(status session.Status, step session.StepID, held bool) stepView {
		token := session.AwaitingBurst
		if step == "" {
			token = session.AwaitingExplanationResponse
		}
		return stepView{ProfileID: profileID, Snapshot: session.Snapshot{
			Status: status, Mode: session.Onboarding, Token: token, NextStep: step, Held: held,
		}}
	}
	for _, tt := range []struct {
		name   string
		view   stepView
		resume bool
		want   session.SkipReason
	}{
		{name: "Due", view: view(session.Active, alarm.StepID, false)},
		{name: "StuckAtTheStepIsResumedWithIt", view: view(session.Stuck, alarm.StepID, false), resume: true},
		{name: "StuckAtAnotherStep", view: view(session.Stuck, "onboarding_message_3", false), want: "session_inactive"},
		{name: "StuckElsewhere", view: view(session.Stuck, "", false), want: "session_inactive"},
		{name: "StuckAndHeld", view: view(session.Stuck, alarm.StepID, true), want: "safety_hold"},
		{name: "Undeliverable", view: view(session.Undeliverable, alarm.StepID, false), want: "session_inactive"},
		{name: "MovedOn", view: view(session.Active, "onboarding_message_3", false), want: "stale"},
		{name: "Held", view: view(session.Active, alarm.StepID, true), want: "safety_hold"},
		{name: "Stopped", view: view(session.Stopped, alarm.StepID, false), want: "opted_out"},
		{name: "Closed", view: view(session.Closed, alarm.StepID, false), want: "session_inactive"},
		{name: "NoSuchSession", want: "session_not_found"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ok, resume, reason := session.MayReplay(tt.view.ProfileID, tt.view.Snapshot, alarm)
			require.Equal(t, []any{tt.want == "", tt.resume, tt.want}, []any{ok, resume, reason})
		})
	}
}

func TestAfterStep(t *testing.T) {
	t.Parallel()
	accepted := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	asked, now := accepted.Add(-time.Second), accepted.Add(time.Minute)
	tests := []struct {
		name      string
		sent      session.StepID
		wantToken session.Token
		wantNext  session.StepID
	}{
		{name: "Message1", sent: "onboarding_message_1", wantToken: session.AwaitingBurst, wantNext: "onboarding_message_2"},
		{name: "Message2", sent: "onboarding_message_2", wantToken: session.AwaitingBurst, wantNext: "onboarding_message_3"},
		{name: "Message3", sent: "onboarding_message_3", wantToken: session.AwaitingBurst, wantNext: "onboarding_message_4"},
		{name: "Message4EndsTheBurst", sent: "onboarding_message_4", wantToken: session.AwaitingInterviewStart},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			flow := session.DefaultFlow()
			r := session.Record{ID: sessionID, ProfileID: profileID, Token: session.AwaitingBurst, NextStep: tt.sent, Status: session.Active}
			at, err := session.Position(flow.Script(), r)
			require.NoError(t, err)

			want := session.Stay(r, now)
			want.Token, want.NextStep = tt.wantToken, tt.wantNext
			changed := session.Entry{At: now, Kind: session.KindAdvanced, From: session.AwaitingBurst, To: tt.wantToken, Step: tt.sent}
			if next, more := flow.Step(tt.wantNext); more {
				changed.Trigger = session.TriggerStepSent
				alarm := session.NewAlarm("", r, next.ID, 1, session.CauseDue, accepted.Add(next.Delay))
				want.Alarm = &alarm
			} else {
				changed.Trigger, want.AnswerHeldSince = session.TriggerBurstFinished, asked
			}
			want.Entries = []session.Entry{changed}
			got := session.AfterStep(flow.Script(), r, script.Person{}, at, accepted, asked, now)
			got.Position = want.Position // of published flows
			require.Equal(t, want, got)
		})
	}
}

// stepView is a session as an alarm meets it.
type stepView struct {
	ProfileID string
	session.Snapshot
}
