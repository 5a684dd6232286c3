package inbound_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"paceline.internal/services/messaging/consent"
	ledgers "paceline.internal/services/messaging/consent/ledger"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sendtest"
	"paceline.internal/services/messaging/sms"
)

// TestOperatorsOptIn: only the person lifts what they said themselves; everything else an operator lifts with evidence.
func TestOperatorsOptIn(t *testing.T) {
	t.Parallel()

	// note takes down a state as an operator does now; an opt-in with evidence of the given age.
	note := func(b *bundle, state consent.State, age time.Duration) error {
		n := ledgers.Note{OrgID: b.Config.Senders.Environment.OrgID, Phone: sendtest.Phone(b.T, theirs), State: state, Reason: "x", At: b.Clock.Now()}
		if state == consent.OptedIn && age >= 0 {
			n.Evidence = &consent.Evidence{Method: "phone call", CollectedAt: b.Clock.Now().Add(-age), Reference: "call 815"}
		}
		_, err := b.inbox(nil).SetConsent(b.T.Context(), n)
		return err
	}
	const without = -1 // evidence

	says := func(words, optOutType string, ago time.Duration) func(t *testing.T, b *bundle) {
		return func(t *testing.T, b *bundle) {
			t.Helper()
			text := b.Inbound("SM"+words+optOutType, words)
			text.OptOutType, text.ReceivedAt = optOutType, b.Clock.Now().Add(-ago)
			_, err := b.inbox(nil).RecordInbound(t.Context(), text)
			require.NoError(t, err)
		}
	}
	operatorOptsOut := func(t *testing.T, b *bundle) {
		t.Helper()
		require.NoError(t, note(b, consent.OptedOut, 0))
	}
	twilioRefuses := func(t *testing.T, b *bundle) {
		t.Helper()
		_, err := b.Emulator.Receive(t.Context(), theirs, ours, "STOP") // its webhook is lost
		require.NoError(t, err)
		require.Equal(t, send.OptedOut, b.Send("refused by Twilio").Outcome)
	}
	for _, tt := range []struct {
		name string
		said []func(t *testing.T, b *bundle) // one a second
	}{
		{"STOP", []func(*testing.T, *bundle){says("STOP", "", 0)}},
		{"FreeWords", []func(*testing.T, *bundle){says("please stop texting me", "", 0)}},
		{"TwiliosReading", []func(*testing.T, *bundle){says("basta", "STOP", 0)}},
		{"TwiliosRefusal", []func(*testing.T, *bundle){twilioRefuses}},
		{"DoubtfulWordsThatAnOperatorHasJudged", []func(*testing.T, *bundle){says("leave me alone", "", 0), operatorOptsOut}},
		{"STOPThatAnOperatorHasNotedAsWell", []func(*testing.T, *bundle){says("STOP", "", 0), operatorOptsOut}},
		{"STOPAfterAnOperatorsOptOut", []func(*testing.T, *bundle){operatorOptsOut, says("PARAR", "", 0)}},
		{"STOPFromBeforeAnOperatorsOptOutThatIsRecordedAfterIt", []func(*testing.T, *bundle){operatorOptsOut, says("PARAR", "", time.Minute)}},
		{"STOPAfterSTART", []func(*testing.T, *bundle){says("PARAR", "", 0), says("START", "", 0), says("SAIR", "", 0)}},
	} {
		t.Run("R_07_IsRefusedAfter"+tt.name, func(t *testing.T) {
			t.Parallel()
			b := enrolled(t)
			for _, say := range tt.said {
				b.Clock.Advance(time.Second)
				say(t, b)
			}
			lines := len(b.Ledger().Events)
			b.Clock.Advance(time.Hour)
			require.ErrorIs(t, note(b, consent.OptedIn, 0), ledgers.ErrOwnOptOut)
			require.ErrorIs(t, note(b, consent.OptedIn, without), ledgers.ErrOwnOptOut, "no evidence is asked for in vain")
			require.Equal(t, consent.OptedOut, b.Ledger().State)
			require.Len(t, b.Ledger().Events, lines)
			says("START ", "", 0)(t, b)
			require.Equal(t, consent.OptedIn, b.Ledger().State)
			require.NoError(t, note(b, consent.OptedIn, 0), "which only confirms it")
			b.Clock.Advance(time.Second)
			operatorOptsOut(t, b)
			b.Clock.Advance(time.Second)
			require.NoError(t, note(b, consent.OptedIn, 0), "the person has come back since")
		})
	}

	t.Run("R_07_OfAPersonWhoNeverOptedOutTakesEvidenceAndSealsIt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		require.ErrorIs(t, note(b, consent.OptedIn, without), sms.ErrInvalid)
		require.NoError(t, note(b, consent.OptedIn, time.Hour))
		require.Equal(t, "x\nmethod: phone call\ncollected_at: 2026-11-20T11:00:00Z\nreference: call 815", b.Ledger().Events[0].Words)
		require.Nil(t, b.Ledger().Broken)
	})

	t.Run("R_07_AnOperatorsOptOutIsLiftedWithLaterEvidenceOnly", func(t *testing.T) {
		t.Parallel()
		b := enrolled(t)
		b.Clock.Advance(time.Minute)
		operatorOptsOut(t, b)
		b.Clock.Advance(time.Minute)
		require.ErrorIs(t, note(b, consent.OptedIn, without), sms.ErrInvalid)
		require.ErrorIs(t, note(b, consent.OptedIn, time.Minute), ledgers.ErrOldEvidence)
		require.Equal(t, consent.OptedOut, b.Ledger().State)
		require.NoError(t, note(b, consent.OptedIn, time.Minute-time.Second))
		require.Equal(t, consent.OptedIn, b.Ledger().State)
	})

	t.Run("R_07_DoesNotOvertakeASTOPThatIsRecordedAfterIt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Clock.Advance(time.Hour)
		require.NoError(t, note(b, consent.OptedIn, 0))
		b.Clock.Advance(time.Hour)
		says("STOP", "", 90*time.Minute)(t, b)
		require.Equal(t, consent.OptedOut, b.Ledger().State)
	})

	t.Run("R_07_BesideASTOPOfTheSameMomentLeavesThePersonOptedOut", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		require.NoError(t, note(b, consent.OptedOut, 0))
		b.Clock.Advance(time.Minute)
		var both sync.WaitGroup
		both.Go(func() { says("PARAR", "", 0)(t, b) })
		both.Go(func() { _ = note(b, consent.OptedIn, 0) })
		both.Wait()
		require.Equal(t, consent.OptedOut, b.Ledger().State)
	})
}

func TestAnOptOutThatIsSentTwiceAtOnceIsOneLine(t *testing.T) {
	t.Parallel()
	b := setup(t)
	note := func(reason string) ledgers.Note {
		return ledgers.Note{
			OrgID: b.Config.Senders.Environment.OrgID, Phone: sendtest.Phone(t, theirs), State: consent.OptedOut, Reason: reason, At: b.Clock.Now(),
		}
	}
	service := b.inbox(nil)
	var group errgroup.Group
	heads := make([]string, 4)
	for i := range heads {
		group.Go(func() error {
			ledger, err := service.SetConsent(t.Context(), note("asked by mail"))
			heads[i] = ledger.Chain.Head
			return err
		})
	}
	require.NoError(t, group.Wait())
	require.Len(t, b.Ledger().Events, 1)
	require.Equal(t, slices.Repeat(heads[:1], len(heads)), heads, "each is answered with that line")
	_, err := service.SetConsent(t.Context(), note("asked by phone, too"))
	require.NoError(t, err)
	require.Len(t, b.Ledger().Events, 2, "other words are another line")
}
