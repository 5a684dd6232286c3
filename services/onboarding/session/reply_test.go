package session_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/onboarding/session"
)

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
	later := func(to session.Token) session.Decision {
		return session.SendAndMove{Text: session.TextLater, To: to, Pause: true}
	}
	tests := []struct {
		name   string
		s      session.Snapshot
		intent session.Intent
		want   session.Decision
	}{
		{
			name: "OpeningAdvanceSendsTheExplanation", s: at(session.AwaitingOpeningResponse), intent: session.Advance,
			want: session.SendAndMove{Text: session.TextExplanation, To: session.AwaitingExplanationResponse},
		},
		{
			name: "OpeningNegativeSendsLaterAndStays", s: at(session.AwaitingOpeningResponse), intent: session.Pause,
			want: later(session.AwaitingOpeningResponse),
		},
		{
			name: "PausedSessionIsUnpausedByTheNextAdvance", intent: session.Advance,
			s:    with(at(session.AwaitingOpeningResponse), func(s *session.Snapshot) { s.Paused = true }),
			want: session.SendAndMove{Text: session.TextExplanation, To: session.AwaitingExplanationResponse, Pause: false},
		},
		{
			name: "ExplanationAdvanceStartsTheBurstAndSendsNothing", s: at(session.AwaitingExplanationResponse), intent: session.Advance,
			want: session.StartBurst{Step: flow.First(), To: session.AwaitingBurst},
		},
		{
			name: "ExplanationNegativeSendsLaterAndGoesBack", s: at(session.AwaitingExplanationResponse), intent: session.Pause,
			want: later(session.AwaitingOpeningResponse),
		},
		{name: "BurstHoldsAnAdvance", s: at(session.AwaitingBurst), intent: session.Advance, want: session.Hold{}},
		{name: "BurstHoldsANegative", s: at(session.AwaitingBurst), intent: session.Pause, want: session.Hold{}},
		{
			name: "InterviewStartAdvanceBeginsTheInterview", s: at(session.AwaitingInterviewStart), intent: session.Advance,
			want: session.BeginInterview{To: session.InterviewActivity01, Mode: session.Interviewing},
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
		want   session.Decision
	}{
		{status: session.Closed, want: session.Ignore{Reason: session.SkipSessionInactive}},
		{status: session.Stuck, want: session.Hold{}}, // considered when it is resumed
		{status: session.Undeliverable, want: session.Hold{}},
	} {
		tests = append(tests, struct {
			name   string
			s      session.Snapshot
			intent session.Intent
			want   session.Decision
		}{
			name: "InactiveSessionAnswersNothing/" + string(tt.status),
			s:    with(at(session.AwaitingOpeningResponse), func(s *session.Snapshot) { s.Status = tt.status; s.Held = true }),
			want: tt.want,
		})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := session.OnReply(flow, tt.s, tt.intent)
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}

	t.Run("UnknownTokenIsAnError", func(t *testing.T) {
		t.Parallel()
		for _, token := range []session.Token{"", "onboarding:awaiting_lunch"} {
			got, err := session.OnReply(flow, at(token), session.Advance)
			require.ErrorIs(t, err, session.ErrUnknownToken)
			require.Nil(t, got)
		}
	})
}
