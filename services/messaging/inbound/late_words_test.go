package inbound_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/consent/ledger"
	"paceline.internal/services/messaging/inbound"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sendtest"
)

// TestLateKind: the recording of a text can fail, and its job records it later. The last words of the person count.
// say records the words, which reached us at the given time, now.
func say(t *testing.T, b *bundle, sid, words string, received time.Time) consent.Effect {
	t.Helper()
	text := b.Inbound(sid, words)
	text.ReceivedAt = received
	m, err := b.inbox(nil).RecordInbound(t.Context(), text)
	require.NoError(t, err)
	return m.ConsentEffect
}

func TestLateWord(t *testing.T) {
	t.Parallel()
	laterWordOfThePersonCounts(t)
	wordsThatRace(t)
	wordsOfOthers(t)
}

func laterWordOfThePersonCounts(t *testing.T) {
	t.Helper()
	for _, tt := range []struct {
		name, earlier, later string
		effect               consent.Effect
		want                 consent.State
	}{
		{"S0_69_STARTThatIsRecordedAfterALaterSTOPChangesNothing", "START", "STOP", consent.OptOut, consent.OptedOut},
		{"S0_69_STOPThatIsRecordedAfterALaterSTARTChangesNothing", "STOP", "START", consent.OptIn, consent.OptedIn},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			said := b.Clock.Now()
			b.Clock.Advance(time.Second)
			require.Equal(t, tt.effect, say(t, b, "SM2", tt.later, b.Clock.Now()))
			b.Clock.Advance(time.Minute)
			events := len(b.Ledger().Events)
			require.Equal(t, consent.Overtaken, say(t, b, "SM1", tt.earlier, said))
			require.Equal(t, tt.want, b.Ledger().State)
			require.Len(t, b.Ledger().Events, events)
			require.Equal(t, consent.Overtaken, say(t, b, "SM1", tt.earlier, b.Clock.Now()), "a repeat gets the same answer")
		})
	}
}

func wordsThatRace(t *testing.T) {
	t.Helper()
	t.Run("R_04_AnEarlierSTARTDoesNotUndoAnAnsweredSTOPOfAPhoneNothingIsRecordedOf", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		service, said := b.inbox(nil), b.Clock.Now()
		b.Clock.Advance(time.Minute)
		for i := range 300 {
			from := sendtest.Phone(t, fmt.Sprintf("+1415555%04d", 2000+i))
			var both errgroup.Group
			for n, words := range []string{"START", "STOP"} {
				text := b.Inbound(fmt.Sprintf("SM%d-%s", i, words), words)
				text.From, text.ReceivedAt = from, said.Add(time.Duration(n)*time.Second)
				both.Go(func() error {
					_, err := service.RecordInbound(t.Context(), text)
					return err
				})
			}
			require.NoError(t, both.Wait())
			state, err := b.Store.State(t.Context(), b.Config.Senders.Environment.OrgID, from.String())
			require.NoError(t, err)
			require.Equal(t, consent.OptedOut, state, "race %d", i)
		}
	})
	t.Run("R_04_AnEarlierSTARTDoesNotUndoAnOperatorsOptOutOfAPhoneNothingIsRecordedOf", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		service, said := b.inbox(nil), b.Clock.Now()
		b.Clock.Advance(time.Minute)
		for i := range 300 {
			from := sendtest.Phone(t, fmt.Sprintf("+1415555%04d", 2000+i))
			text := b.Inbound(fmt.Sprintf("SM%d", i), "START")
			text.From, text.ReceivedAt = from, said
			var both errgroup.Group
			both.Go(func() error {
				_, err := service.RecordInbound(t.Context(), text)
				return err
			})
			both.Go(func() error {
				_, err := service.SetConsent(t.Context(), ledger.Note{
					OrgID: b.Config.Senders.Environment.OrgID, Phone: from, State: consent.OptedOut, Reason: "by telephone", At: b.Clock.Now(),
				})
				return err
			})
			require.NoError(t, both.Wait())
			state, err := b.Store.State(t.Context(), b.Config.Senders.Environment.OrgID, from.String())
			require.NoError(t, err)
			require.Equal(t, consent.OptedOut, state, "race %d", i)
		}
	})
}

func wordsOfOthers(t *testing.T) {
	t.Helper()
	for _, words := range []string{"YES", "START"} {
		t.Run("S0_69_"+words+"FromBeforeTwiliosRefusalDoesNotUndoIt", func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.Emulator.SetScript(sendtest.Silent)
			result := b.Send("")
			said := b.Clock.Now()
			b.Clock.Advance(time.Second)
			refusal := send.Receipt{MessageID: result.Message.ID, SID: result.Message.SID, Status: "failed", ErrorCode: 21610}
			b.Report(refusal)
			require.Equal(t, consent.OptedOut, b.Ledger().State)
			b.Clock.Advance(time.Minute)
			require.Equal(t, consent.Overtaken, say(t, b, "SM1", words, said))
			require.Equal(t, consent.OptedOut, b.Ledger().State)
		})
	}
	t.Run("S0_69_STARTThatChangedNothingIsTheLastWordAllTheSame", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, err := b.Service(nil).Send(t.Context(), b.Request()) // opted in by the first send, without words of the person
		require.NoError(t, err)
		said := b.Clock.Now()
		b.Clock.Advance(time.Second)
		require.Equal(t, consent.OptIn, say(t, b, "SM2", "START", b.Clock.Now()))
		require.Equal(t, consent.Overtaken, say(t, b, "SM1", "STOP", said))
		require.Equal(t, consent.OptedIn, b.Ledger().State)
	})
	t.Run("S0_41_STOPFromBeforeTheFirstTextIsNotOvertakenByIt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		said := b.Clock.Now()
		b.Clock.Advance(time.Second)
		b.Send("")
		require.Equal(t, consent.OptOut, say(t, b, "SM1", "STOP", said))
		require.Equal(t, consent.OptedOut, b.Ledger().State)
		require.Equal(t, said, b.Ledger().Events[1].At, "the ledger says when it was said")
	})
	t.Run("OperatorsWordIsNotUndoneByAnOlderText", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		said := b.Clock.Now()
		b.Clock.Advance(time.Second)
		request := b.Request()
		_, err := b.inbox(nil).SetConsent(t.Context(), ledger.Note{
			OrgID: request.OrgID, Phone: request.To, State: consent.OptedOut, Reason: "by telephone", At: b.Clock.Now(),
		})
		require.NoError(t, err)
		require.Equal(t, consent.Overtaken, say(t, b, "SM1", "START", said))
		require.Equal(t, consent.OptedOut, b.Ledger().State)
	})
	for _, tt := range []struct {
		name  string
		words [2]string     // the one that was missed, and one that reached us
		after time.Duration // how much later the second one reached us than the carrier got the first one
		want  consent.Effect
	}{
		{"MissedSTOPIsNotUndoneBySTARTThatMayBeOlder", [2]string{"STOP", "START"}, 20 * time.Second, consent.OptOut},
		{"MissedSTOPIsUndoneBySTARTThatIsCertainlyNewer", [2]string{"STOP", "START"}, 21 * time.Second, consent.Overtaken},
		{"MissedSTARTDoesNotUndoSTOPThatMayBeOlder", [2]string{"START", "STOP"}, time.Second, consent.Overtaken},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			said := b.Clock.Now()
			b.Clock.Advance(tt.after)
			say(t, b, "SM2", tt.words[1], b.Clock.Now())
			b.Clock.Advance(time.Minute)
			text := b.Inbound("SM1", tt.words[0])
			text.ReceivedAt, text.DatedByCarrier = said, true
			m, err := b.inbox(nil).RecordInbound(t.Context(), text)
			require.NoError(t, err)
			require.Equal(t, tt.want, m.ConsentEffect)
		})
	}
	t.Run("ACarriersOrderSaysNothingOfWhatOthersNoted", func(t *testing.T) {
		t.Parallel()
		said := time.Date(2024, 11, 20, 12, 0, 0, 0, time.UTC)
		text := inbound.Entry{Inbound: inbound.Inbound{Body: "START", ReceivedAt: said.Add(time.Minute), CarrierAt: said}}
		last := inbound.LastWords{Others: said.Add(30 * time.Second)}
		require.Equal(t, consent.Overtaken, text.Decide(consent.OptedOut, last, consent.Asked{}).Effect)
		last = inbound.LastWords{Person: said.Add(30 * time.Second)}
		require.Equal(t, consent.OptIn, text.Decide(consent.OptedOut, last, consent.Asked{}).Effect)
	})
	t.Run("TimeInTheFutureIsNow", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		require.Equal(t, consent.OptOut, say(t, b, "SM1", "STOP", b.Clock.Now().Add(time.Hour)))
		b.Clock.Advance(time.Second)
		require.Equal(t, consent.OptIn, say(t, b, "SM2", "START", b.Clock.Now()))
	})
}

// TestOrderOfTheCarrier records a word that was found in Twilio's list, next to another one that reached us: Twilio's order says which one
// was the last, whatever the clocks say and whichever is recorded first.
func TestOrderOfTheCarrier(t *testing.T) {
	t.Parallel()
	for name, words := range map[string]struct {
		first, last string
		want        consent.State
	}{"STOPThenSTART": {"STOP", "START", consent.OptedIn}, "STARTThenSTOP": {"START", "STOP", consent.OptedOut}} {
		for clocks, skew := range map[string]time.Duration{"Agree": 0, "TwilioIsAhead": time.Minute, "TwilioIsBehind": -time.Minute} {
			for _, found := range []string{"first", "last"} {
				t.Run(name+clocks+"Found"+found, func(t *testing.T) {
					t.Parallel()
					b := setup(t)
					said := b.Clock.Now()
					b.Clock.Advance(10 * time.Minute)
					missed, heard := b.Inbound("SM1", words.first), b.Inbound("SM2", words.last)
					missed.ReceivedAt, heard.ReceivedAt = said.Add(skew), said.Add(5*time.Second)
					if missed.DatedByCarrier, missed.After = true, []string{"SM2"}; found == "last" {
						missed, heard = b.Inbound("SM2", words.last), b.Inbound("SM1", words.first)
						missed.ReceivedAt, heard.ReceivedAt = said.Add(5*time.Second+skew), said
						missed.DatedByCarrier, missed.Before = true, []string{"SM1"}
					}
					for _, text := range []inbound.Inbound{heard, missed} { // the one that is retried first
						_, err := b.inbox(nil).RecordInbound(t.Context(), text)
						require.NoError(t, err)
					}
					require.Equal(t, words.want, b.Ledger().State)
				})
			}
		}
	}
}
