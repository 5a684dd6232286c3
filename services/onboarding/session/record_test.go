package session_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/onboarding/session"
)

func TestMove(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	r := session.Record{
		ID: "s", ProfileID: "p", Mode: session.Onboarding, Token: session.AwaitingBurst, NextStep: "onboarding_message_2", Status: session.Active, Paused: true, Turn: 5,
	}

	t.Run("StayChangesNothing", func(t *testing.T) {
		t.Parallel()
		m := session.Stay(r, now)
		require.Equal(t, session.Move{From: r, Token: r.Token, NextStep: r.NextStep, Mode: r.Mode, Status: r.Status, Paused: true, At: now}, m)
	})
	t.Run("StopKeepsWhereItStoodAndSaysSo", func(t *testing.T) {
		t.Parallel()
		m := session.Stop(r, now, session.TriggerStop, "m1")
		require.Equal(t, session.Stopped, m.Status)
		require.Equal(t, r.NextStep, m.NextStep)
		require.Equal(t, []session.Entry{{At: now, Kind: session.KindStopped, From: r.Token, To: r.Token, Trigger: session.TriggerStop, Step: r.NextStep, MessageID: "m1"}}, m.Entries)
		require.Nil(t, m.Alarm)
	})
	t.Run("ParkSaysWhyOnTheSessionAndInTheTimeline", func(t *testing.T) {
		t.Parallel()
		m := session.Park(r, now, session.Undeliverable, session.TriggerStep, "m1", "Twilio 21211")
		require.Equal(t, []any{session.Undeliverable, "Twilio 21211"}, []any{m.Status, m.Reason})
		require.Equal(t, []session.Entry{{
			At: now, Kind: session.KindParked, From: r.Token, To: r.Token, Trigger: session.TriggerStep, Step: r.NextStep, MessageID: "m1", Detail: "Twilio 21211",
		}}, m.Entries)
	})
	t.Run("ResumeTakesItBackToWhereItStood", func(t *testing.T) {
		t.Parallel()
		parked := r
		parked.Status, parked.Reason, parked.Turn, parked.Detours = session.Stuck, "why", 6, 1
		m := session.Resume(parked, session.TriggerOperator, now)
		require.Equal(t, []any{parked, session.Active, "", r.Token, r.NextStep}, []any{m.From, m.Status, m.Reason, m.Token, m.NextStep})
		require.Equal(t, []session.Entry{{At: now, Kind: session.KindResumed, From: r.Token, To: r.Token, Trigger: session.TriggerOperator, Step: r.NextStep}}, m.Entries)
		require.Equal(t, r.Place(), parked.Place(), "what is said there again has the key that it had")
	})
	t.Run("SnapshotHoldsWhatDecisionsNeed", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, session.Snapshot{Status: session.Active, Mode: session.Onboarding, Token: session.AwaitingBurst, NextStep: r.NextStep, Paused: true, Held: true}, r.Snapshot(true))
	})
}

func TestAlarmNamesItsStep(t *testing.T) {
	t.Parallel()
	a := session.Alarm{
		SessionID: "0190a0b0-0000-7000-8000-000000000002", ProfileID: "0190a0b0-0000-7000-8000-000000000001", StepID: "onboarding_message_2", Generation: 3,
	}
	body, err := a.Payload().Encode()
	require.NoError(t, err)
	var again session.StepPayload
	require.NoError(t, json.Unmarshal(body, &again))
	require.Equal(t, a.Payload(), again)
	require.Equal(t, session.AwaitingBurst, again.ExpectedToken)
}

func TestNextRead(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	end := now.Add(20 * time.Second)
	for waits, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 20 * time.Second, 20 * time.Second} {
		require.Equal(t, want, session.NextRead(now, end, waits).Sub(now))
	}
	require.Equal(t, end, session.NextRead(now, end, 1000), "it never runs over")
}
