package consent_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"paceline.internal/services/messaging/consent"
)

func TestRecord(t *testing.T) {
	t.Parallel()
	const nothing = consent.State("")
	tests := []struct {
		name    string
		current consent.State
		effect  consent.Effect
		want    *consent.Event
	}{
		{name: "StopIsRecorded", current: consent.OptedIn, effect: consent.OptOut, want: &consent.Event{From: consent.OptedIn, To: consent.OptedOut}},
		{name: "RepeatedStopIsNot", current: consent.OptedOut, effect: consent.OptOut},
		{name: "FirstStopOfAnEnrolledPerson", current: nothing, effect: consent.OptOut, want: &consent.Event{To: consent.OptedOut}},
		{name: "StartRestores", current: consent.OptedOut, effect: consent.OptIn, want: &consent.Event{From: consent.OptedOut, To: consent.OptedIn}},
		{name: "RepeatedStartIsNot", current: consent.OptedIn, effect: consent.OptIn},
		{name: "FirstExplicitConsent", current: nothing, effect: consent.OptIn, want: &consent.Event{To: consent.OptedIn}},
		{name: "HelpChangesNothing", current: consent.OptedOut, effect: consent.Help},
		{name: "OrdinaryTextChangesNothing", current: nothing, effect: consent.None},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			event, changed := consent.Record(tt.current, tt.effect)
			require.Equal(t, tt.want != nil, changed)
			if changed {
				require.Equal(t, *tt.want, event)
			}
		})
	}
}

// Whatever is said in whatever order, the last explicit word decides and the ledger is an unbroken chain of changes.
func TestRecordLedgerIsAChain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		effects := rapid.SliceOf(rapid.SampledFrom(consent.Effects())).Draw(t, "effects")
		var current, want consent.State
		for _, effect := range effects {
			event, changed := consent.Record(current, effect)
			require.Equal(t, current, event.From)
			require.Equal(t, changed, event.From != event.To)
			current = event.To
			switch effect {
			case consent.OptOut:
				want = consent.OptedOut
			case consent.OptIn:
				want = consent.OptedIn
			case consent.None, consent.Help, consent.Overtaken, consent.Ambiguous:
			}
		}
		require.Equal(t, want, current)
	})
}

func TestParseState(t *testing.T) {
	t.Parallel()
	for _, want := range []consent.State{consent.OptedIn, consent.OptedOut} {
		got, err := consent.ParseState(string(want))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, stored := range []string{"", "OPTED_IN", "paused"} {
		_, err := consent.ParseState(stored)
		require.ErrorIs(t, err, consent.ErrState)
	}
}

func TestEffectString(t *testing.T) {
	t.Parallel()
	require.Equal(t, "none", consent.None.String())
	require.Equal(t, "opt_out", consent.OptOut.String())
	require.Equal(t, "opt_in", consent.OptIn.String())
	require.Equal(t, "help", consent.Help.String())
	require.Equal(t, "overtaken", consent.Overtaken.String())
	require.Equal(t, "doubtful", consent.Ambiguous.String())
	require.Equal(t, "effect(9)", consent.Effect(9).String())
}
