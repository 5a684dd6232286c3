package session_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	script "paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/session"
)

// onReply returns a decision, or in words the move that follows one of the flow once its text was taken.
func onReply(flow session.Flow, s session.Snapshot, intent session.Intent) (any, error) {
	r := session.Record{Status: s.Status, Mode: s.Mode, Token: s.Token, NextStep: s.NextStep, Paused: s.Paused}
	decision, err := session.OnReply(flow.Script(), r, s.Held, script.Person{}, script.Said{}, intent)
	follow, follows := decision.(session.Follow)
	if err != nil || !follows {
		return decision, err
	}
	if text, sends := follow.Do.(script.SendText); sends && text.Direct {
		move := session.AfterText(flow.Script(), r, script.Person{}, follow.Decision, time.Time{}, time.Time{})
		return fmt.Sprintf("sends %s, then %s, paused %t", text.Text, move.Token, move.Paused), nil
	}
	move := session.Proceed(flow.Script(), r, follow.Decision, time.Time{}, time.Time{})
	return fmt.Sprintf("moves to %s, %s, due %s", move.Token, move.Mode, move.NextStep), nil
}

func TestOnReply(t *testing.T) {
	t.Parallel()
	flow := session.DefaultFlow()
	at := func(token session.Token) session.Snapshot {
		return session.Snapshot{Status: session.Active, Mode: session.Onboarding, Token: token}
	}
	with := func(s session.Snapshot, change func(*session.Snapshot)) session.Snapshot {
		change(&s)
		return s
	}
	sends := func(text session.TextKey, to session.Token, paused bool) string {
		return fmt.Sprintf("sends %s, then %s, paused %t", text, to, paused)
	}
	later := func(to session.Token) string { return sends(session.TextLater, to, true) }
	tests := []struct {
		name   string
		s      session.Snapshot
		intent session.Intent
		want   any // a decision, or what follows it
	}{
		{
			name: "OpeningAdvanceSendsTheExplanation", s: at(session.AwaitingOpeningResponse), intent: session.Advance,
			want: sends(session.TextExplanation, session.AwaitingExplanationResponse, false),
		},
		{
			name: "OpeningNegativeSendsLaterAndStays", s: at(session.AwaitingOpeningResponse), intent: session.Pause,
			want: later(session.AwaitingOpeningResponse),
		},
		{
			name: "PausedSessionIsUnpausedByTheNextAdvance", intent: session.Advance,
			s:    with(at(session.AwaitingOpeningResponse), func(s *session.Snapshot) { s.Paused = true }),
			want: sends(session.TextExplanation, session.AwaitingExplanationResponse, false),
		},
		{
			name: "ExplanationAdvanceStartsTheBurstAndSendsNothing", s: at(session.AwaitingExplanationResponse), intent: session.Advance,
			want: "moves to onboarding:awaiting_burst, onboarding, due onboarding_message_1",
		},
		{
			name: "ExplanationNegativeSendsLaterAndGoesBack", s: at(session.AwaitingExplanationResponse), intent: session.Pause,
			want: later(session.AwaitingOpeningResponse),
		},
		{name: "BurstHoldsAnAdvance", s: at(session.AwaitingBurst), intent: session.Advance, want: session.Defer{}},
		{name: "BurstHoldsANegative", s: at(session.AwaitingBurst), intent: session.Pause, want: session.Defer{}},
		{
			name: "InterviewStartAdvanceBeginsTheInterview", s: at(session.AwaitingInterviewStart), intent: session.Advance,
			want: "moves to interview:activity_01, interviewing, due ",
		},
		{
			name: "InterviewStartNegativeSendsLaterAndStays", s: at(session.AwaitingInterviewStart), intent: session.Pause,
			want: later(session.AwaitingInterviewStart),
		},
		{
			name: "InterviewingIsNotOurs",
			s:    with(at(session.InterviewActivity01), func(s *session.Snapshot) { s.Mode = session.Interviewing }),
			want: session.Ignore{Reason: session.SkipInterviewing},
		},
		{
			name: "InterviewTokenIsNotOursEvenInTheWrongMode", s: at(session.InterviewActivity01),
			want: session.Ignore{Reason: session.SkipInterviewing},
		},
		{
			name: "SafetyHoldOutranksTheBurstHold",
			s:    with(at(session.AwaitingBurst), func(s *session.Snapshot) { s.Held = true }),
			want: session.Ignore{Reason: session.SkipSafetyHold},
		},
		{
			name: "StoppedSessionAnswersNothing",
			s:    with(at(session.AwaitingOpeningResponse), func(s *session.Snapshot) { s.Status = session.Stopped; s.Held = true }),
			want: session.Ignore{Reason: session.SkipOptedOut},
		},
	}
	for _, tt := range []struct {
		status session.Status
		want   any // a decision, or what follows it
	}{
		{status: session.Closed, want: session.Ignore{Reason: session.SkipSessionInactive}},
		{status: session.Stuck, want: session.Defer{}}, // considered when it is resumed
		{status: session.Undeliverable, want: session.Defer{}},
	} {
		tests = append(tests, struct {
			name   string
			s      session.Snapshot
			intent session.Intent
			want   any // a decision, or what follows it
		}{
			name: "InactiveSessionAnswersNothing/" + string(tt.status),
			s:    with(at(session.AwaitingOpeningResponse), func(s *session.Snapshot) { s.Status = tt.status; s.Held = true }),
			want: tt.want,
		})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := onReply(flow, tt.s, tt.intent)
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}

	t.Run("UnknownTokenIsAnError", func(t *testing.T) {
		t.Parallel()
		for _, token := range []session.Token{"", "onboarding:awaiting_lunch"} {
			_, err := onReply(flow, at(token), session.Advance)
			require.ErrorIs(t, err, session.ErrUnknownToken)
		}
	})
}
