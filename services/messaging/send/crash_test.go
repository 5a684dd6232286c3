package send_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	emulator "paceline.internal/emulators/twilio"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sendtest"
	"paceline.internal/services/messaging/sms"
)

// TestCrashMatrixOfSend asks again and again, as QStash does, and lets receipts arrive in between. Whatever happened at
// whichever call, Twilio takes at most one text, and once its receipts have come the row says so.
func TestCrashMatrixOfSend(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	for _, scenario := range []struct {
		name   string
		change func(*send.Request)
		first  sendtest.Mishap // of a process that claimed the send before, and left the row behind
		script emulator.Script
	}{
		{name: "S0_31_FirstAttemptFailsAndARetryIsOneSMS"},
		{name: "ThrottledFirst", script: sendtest.Lose(emulator.AnswerTooMany, false)},
		{name: "AnswerLost", script: sendtest.Lose(emulator.AnswerReset, true)},
		{name: "S1_36_AbandonedBeforeTheCall", first: sendtest.DieBefore},
		{name: "OutreachInItsTurn", change: func(r *send.Request) { r.Outreach = true }},
		{name: "RequestLost", script: sendtest.Lose(emulator.AnswerServerError, false)},
	} {
		t.Run(scenario.name, func(t *testing.T) {
			t.Parallel()
			sendtest.Matrix(t, func(t *testing.T, p *sendtest.Process) {
				b := setup(t)
				request := b.Request()
				if scenario.change != nil {
					scenario.change(&request)
				}
				b.Emulator.SetScript(scenario.script)
				if scenario.first != "" {
					sendtest.Within(func() {
						_, _ = b.On(&sendtest.Process{At: 2, Mishap: scenario.first}).Send(t.Context(), request)
					})
					b.Clock.Advance(lease)
				}
				sick, healthy := b.On(p), b.Service(nil)
				for range 6 {
					service := sick
					if p.Over() {
						service = healthy
					}
					sendtest.Within(func() { _, _ = service.Send(t.Context(), request) })
					b.passOn(p, sick, healthy)
				}
				last, err := healthy.Send(t.Context(), request)
				require.NoError(t, err)
				b.judge(last)
			})
		})
	}
}

// passOn lets ten seconds pass; the receipts go to the sick process until its mishap.
func (b *bundle) passOn(p *sendtest.Process, sick, healthy *send.Service) {
	b.T.Helper()
	receiver := healthy
	if !p.Over() {
		receiver = sick
	}
	b.TakeReceipts(receiver)
	b.Pass(time.Second)
	b.Clock.Advance(9 * time.Second)
	require.NoError(b.T, b.Emulator.Idle(b.T.Context()))
}

// judge is the promise: at most one text, and a row that tells the truth about it.
func (b *bundle) judge(last send.Result) {
	b.T.Helper()
	sent, row := b.Sent(), b.Stored()
	require.LessOrEqual(b.T, len(sent), 1)
	require.Len(b.T, b.Ledger().Events, 1)
	if len(sent) == 0 {
		require.Equal(b.T, send.Unknown, last.Outcome, "Twilio has nothing, and we cannot know: visible, never sent again")
		require.Equal(b.T, sms.Unknown, row.Status)
		return
	}
	require.Equal(b.T, send.AlreadyAccepted, last.Outcome)
	require.Equal(b.T, sent[0].SID, row.SID)
	require.Equal(b.T, sms.Delivered, row.Status)
}
