package inbound_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	emulator "paceline.internal/emulators/twilio"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/messaging/sendtest"
)

// says has a person write to a number of the second account, where Twilio obeys first, and records it.
func (o *organisations) says(t *testing.T, to, sid, words string) {
	t.Helper()
	o.Pass(time.Second)
	_, err := o.Emulator.Receive(t.Context(), theirs, to, words)
	require.NoError(t, err)
	_, err = o.hears(t, sendtest.SecondAccount, to, sid, words)
	require.NoError(t, err)
	o.Pass(time.Second)
}

func (o *organisations) state(t *testing.T) consent.State {
	t.Helper()
	state, err := o.Store.Consents.State(t.Context(), o.other, theirs)
	require.NoError(t, err)
	return state
}

// TestStartToAnotherSender: Twilio blocks a number for the one that was stopped, and lifts that by a START to it alone. The consent of the
// organisation goes on all the same, with the number that the START was written to.
func TestStartToAnotherSender(t *testing.T) {
	t.Parallel()
	o := two(t)
	first, second := o.stored, o.AddSender(o.other, "+14155550111", nil)
	_, err := o.sends(t, o.other, "1", nil)
	require.NoError(t, err)
	require.Equal(t, first.Number, o.last().From)
	o.says(t, first.Number, "SM1", "STOP")
	require.Equal(t, consent.OptedOut, o.state(t))
	o.says(t, second.Number, "SM2", "START")
	require.Equal(t, consent.OptedIn, o.state(t))

	result, err := o.sends(t, o.other, "2", nil)
	require.NoError(t, err)
	require.Equal(t, []any{send.Accepted, second.Number}, []any{result.Outcome, o.last().From})
	disabled := senders.Disabled
	_, err = o.Senders.Update(t.Context(), o.other, second.ID, senders.Change{Status: &disabled})
	require.NoError(t, err)
	result, err = o.sends(t, o.other, "3", nil)
	require.NoError(t, err)
	require.Equal(t, send.OptedOut, result.Outcome, "the first one is blocked as before")
	require.Equal(t, consent.OptedIn, o.state(t), "which is not news")

	active := senders.Active
	_, err = o.Senders.Update(t.Context(), o.other, second.ID, senders.Change{Status: &active})
	require.NoError(t, err)
	o.says(t, first.Number, "SM3", "START")
	_, err = o.sends(t, o.other, "4", nil)
	require.NoError(t, err)
	require.Equal(t, first.Number, o.last().From, "the one that they know, as it is blocked no more")

	o.Pass(time.Second)
	o.Emulator.SetScript(emulator.Script{OnInbound: func(emulator.Message) emulator.InboundFault { return emulator.InboundFault{Drop: true} }})
	_, err = o.Emulator.Receive(t.Context(), theirs, first.Number, "STOP") // of which we do not hear
	require.NoError(t, err)
	result, err = o.sends(t, o.other, "5", nil)
	require.NoError(t, err)
	require.Equal(t, []any{send.OptedOut, consent.OptedOut}, []any{result.Outcome, o.state(t)}, "a refusal that is news counts")
}
