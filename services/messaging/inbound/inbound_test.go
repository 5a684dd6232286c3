package inbound_test

import (
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"paceline.internal/services/messaging/consent"
	ledgers "paceline.internal/services/messaging/consent/ledger"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/messaging/sendtest"
	"paceline.internal/services/messaging/sms"
)

func TestRecordInbound(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		name       string
		words      string
		optOutType string
		want       consent.Effect
		state      consent.State
	}{
		{name: "S0_40_STOPOptsOut", words: " Stop. ", want: consent.OptOut, state: consent.OptedOut},
		{name: "S0_40_HELPChangesNothing", words: "help", want: consent.Help, state: consent.OptedIn},
		{name: "OrdinaryTextChangesNothing", words: "yes", want: consent.None, state: consent.OptedIn},
		{name: "EmptyTextChangesNothing", want: consent.None, state: consent.OptedIn},
		{name: "TextWithoutWordsChangesNothing", words: " \n\u200b\u200d", want: consent.None, state: consent.OptedIn},
		{name: "TwiliosReadingWins", words: "arret", optOutType: "STOP", want: consent.OptOut, state: consent.OptedOut},
		{name: "TwiliosReadingWinsOverOurs", words: "stop", optOutType: "HELP", want: consent.Help, state: consent.OptedIn},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.Send("")
			text := b.Inbound("SM1", c.words)
			text.OptOutType, text.Segments = c.optOutType, 3
			m, err := b.inbox(nil).RecordInbound(t.Context(), text)
			require.NoError(t, err)
			require.Equal(t, c.want, m.ConsentEffect)
			require.Equal(t, sms.Received, m.Status)
			require.Equal(t, c.words, m.Body)
			require.Equal(t, 3, m.Segments)
			require.Equal(t, c.state, b.Ledger().State)
		})
	}

	t.Run("LedgerSaysWhoWhatWordsWhichSenderAndWhen", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m := b.Receive("SM1", "Stop please")
		ledger := b.Ledger()
		require.Equal(t, []ledgers.Line{{
			Event: ledgers.Event{
				At: b.Clock.Now(), State: consent.OptedOut, Source: ledgers.FromPerson, Words: "Stop please", Sender: ours, MessageID: m.ID,
				KeywordPack: consent.Version, ConfirmedBy: ledgers.ByUs,
				Confirmation: "You are unsubscribed and will get no more texts from this number. Reply START to get them again.",
			},
			Seq: 1, PrevHash: consent.NoHash, Hash: ledger.Chain.Head,
		}}, ledger.Events)
		require.Nil(t, ledger.Broken)
	})

	t.Run("EveryRepeatGetsTheSameAnswerAndNothingTwice", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		service := b.inbox(nil)
		stop, err := service.RecordInbound(t.Context(), b.Inbound("SM1", "STOP"))
		require.NoError(t, err)
		_, err = service.RecordInbound(t.Context(), b.Inbound("SM2", "START"))
		require.NoError(t, err)
		again, err := service.RecordInbound(t.Context(), b.Inbound("SM1", "STOP"))
		require.NoError(t, err)
		require.Equal(t, stop, again)
		require.Equal(t, consent.OptedIn, b.Ledger().State, "the repeated STOP is older than START")
		require.Len(t, b.Ledger().Events, 2)
	})

	t.Run("RepeatSaysWhoseItIsOnceTheWriterHasAProfile", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		service, joining := b.inbox(nil), b.Inbound("SM1", "JOIN")
		joined, other := uuid.New(), uuid.New()
		for _, by := range []uuid.UUID{{}, joined, other, {}} {
			joining.ProfileID = by
			_, err := service.RecordInbound(t.Context(), joining)
			require.NoError(t, err)
		}
		joining.From, joining.ProfileID = sendtest.Phone(t, "+12025550199"), other
		_, err := service.RecordInbound(t.Context(), joining)
		require.NoError(t, err)
		var writer uuid.UUID
		require.NoError(t, b.Pool.QueryRow(t.Context(), `select profile_id from sms_messages`).Scan(&writer)) // of one row
		require.Equal(t, joined, writer)
	})

	t.Run("ConcurrentRepeatsAreOneText", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		service, start := b.inbox(nil), make(chan struct{})
		ids := make([]uuid.UUID, 8)
		var all sync.WaitGroup
		for i := range ids {
			all.Go(func() {
				<-start
				if m, err := service.RecordInbound(t.Context(), b.Inbound("SM1", "STOP")); err == nil {
					ids[i] = m.ID
				}
			})
		}
		close(start)
		all.Wait()
		require.NotEqual(t, uuid.Nil, ids[0])
		for _, id := range ids {
			require.Equal(t, ids[0], id)
		}
		require.Len(t, b.Ledger().Events, 1)
	})

	t.Run("TextToAnUnknownNumberIsRefused", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		text := b.Inbound("SM1", "hello")
		text.To, text.Body = "+14155550777", "STOP"
		_, err := b.inbox(nil).RecordInbound(t.Context(), text)
		require.ErrorIs(t, err, senders.ErrUnknownSender)
		var kept int
		require.NoError(t, b.Pool.QueryRow(t.Context(), `select (select count(*) from sms_messages) + (select count(*) from consents)`).Scan(&kept))
		require.Zero(t, kept, "the word reached no organisation")
	})

	t.Run("TextThroughOurServiceIsOurs", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		service := b.inbox(func(c *send.Config) {
			c.Senders = sendtest.Only(senders.Sender{OrgID: c.Senders.Environment.OrgID, ServiceSID: "MG1"})
		})
		text := b.Inbound("SM1", "hello\x00")
		text.ServiceSID = "MG1"
		m, err := service.RecordInbound(t.Context(), text)
		require.NoError(t, err)
		require.Equal(t, b.Config.Senders.Environment.OrgID, m.OrgID)
		require.Equal(t, "hello", m.Body)
		text.SID, text.ServiceSID = "SM2", ""
		_, err = service.RecordInbound(t.Context(), text)
		require.ErrorIs(t, err, senders.ErrUnknownSender)
	})
}
