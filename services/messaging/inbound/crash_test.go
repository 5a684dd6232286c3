package inbound_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/consent/ledger"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sendtest"
)

// TestCrashMatrixOfRecordInbound delivers a STOP until it is answered. It is stored once and is in the ledger once, and
// nothing is sent afterwards.
func TestCrashMatrixOfRecordInbound(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	sendtest.Matrix(t, func(t *testing.T, p *sendtest.Process) {
		b := setup(t)
		sick, healthy := listener{Service: b.InboxOn(p)}, b.inbox(nil)
		answered := false
		for range 3 {
			service := sick
			if p.Over() {
				service = healthy
			}
			sendtest.Within(func() {
				m, err := service.RecordInbound(t.Context(), b.Inbound("SM1", "STOP"))
				if err == nil {
					require.Equal(t, consent.OptOut, m.ConsentEffect)
					answered = true
				}
			})
		}
		require.True(t, answered)
		require.Equal(t, consent.OptedOut, b.Ledger().State)
		require.Len(t, b.Ledger().Events, 1)
		result := b.Send("")
		require.Equal(t, send.OptedOut, result.Outcome)
		require.Empty(t, b.Sent())
	})
}

// TestCrashMatrixOfReminders delivers a message that wants no reminders, and says the same on the web, until both are answered. Whatever
// happened, the message has its preference and no goodbye is sent.
func TestCrashMatrixOfReminders(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	sendtest.Matrix(t, func(t *testing.T, p *sendtest.Process) {
		b := setup(t)
		sick, healthy := listener{b.InboxOn(p), noted{b.Consents(b.On(p))}}, b.inbox(nil)
		written, set := false, false
		for range 4 {
			service := sick
			if p.Over() {
				service = healthy
			}
			sendtest.Within(func() {
				m, err := service.RecordInbound(t.Context(), b.Inbound("SM1", "stop reminders"))
				if err == nil {
					written = true
					require.Equal(t, consent.Off, m.Preferences.Reminders)
				}
				inForce, err := service.SetReminders(t.Context(), b.wish(true, ledger.SaidByPerson, b.Clock.Now().Add(time.Second)))
				set = set || err == nil && inForce.Off
			})
		}
		require.True(t, written && set)
		require.Equal(t, send.RemindersOff, b.ask(purpose("goodbye")).Outcome)
		require.Empty(t, b.Sent())
	})
}
