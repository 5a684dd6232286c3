package delivery_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	emulator "paceline.internal/emulators/twilio"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/delivery"
	"paceline.internal/services/messaging/sms"
)

func TestRecordStatus(t *testing.T) {
	t.Parallel()

	t.Run("SettlesASendWhoseAnswerWasLost", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.emulator.SetScript(lose(emulator.AnswerReset, true))
		result, err := b.service(nil).Send(t.Context(), b.request())
		require.NoError(t, err)
		require.Equal(t, delivery.Unknown, result.Outcome)
		b.pass(time.Second)
		result, err = b.service(nil).Send(t.Context(), b.request())
		require.NoError(t, err)
		require.Equal(t, delivery.AlreadyAccepted, result.Outcome)
		require.Equal(t, sms.Delivered, result.Message.Status)
		require.Equal(t, b.sent()[0].SID, result.Message.SID)
		require.False(t, result.Message.AcceptedAt.IsZero())
		require.Len(t, b.sent(), 1)
	})

	t.Run("LateAndRepeatedReceiptsChangeNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, err := b.service(nil).Send(t.Context(), b.request())
		require.NoError(t, err)
		b.pass(time.Second)
		delivered := b.stored()
		for _, status := range []string{"delivered", "sent", "queued", "sending"} {
			matched, err := b.service(nil).RecordStatus(t.Context(), delivery.Receipt{MessageID: delivered.ID, SID: delivered.SID, Status: status})
			require.NoError(t, err)
			require.True(t, matched)
		}
		require.Equal(t, delivered, b.stored())
	})

	t.Run("IsFoundByItsSIDAlone", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		result, err := b.service(nil).Send(t.Context(), b.request())
		require.NoError(t, err)
		matched, err := b.service(nil).RecordStatus(t.Context(), delivery.Receipt{SID: result.Message.SID, Status: "failed", ErrorCode: 30001})
		require.NoError(t, err)
		require.True(t, matched)
		require.Equal(t, sms.Failed, b.stored().Status)
		require.Equal(t, 30001, b.stored().ErrorCode)
	})

	t.Run("ForeignSIDAndUnknownWordsAreKeptAndChangeNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		result, err := b.service(nil).Send(t.Context(), b.request())
		require.NoError(t, err)
		before := b.stored()
		for _, r := range []delivery.Receipt{
			{MessageID: before.ID, SID: "SMforeign", Status: "delivered"},
			{MessageID: before.ID, SID: result.Message.SID, Status: "teleported", Raw: map[string]string{"Odd": "a\x00b"}},
		} {
			matched, err := b.service(nil).RecordStatus(t.Context(), r)
			require.NoError(t, err)
			require.True(t, matched)
		}
		require.Equal(t, before, b.stored())
		require.Equal(t, 2, b.receipts())
	})

	t.Run("SIDOfAnotherMessageIsNotAdopted", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		first, err := b.service(nil).Send(t.Context(), b.request())
		require.NoError(t, err)
		b.emulator.SetScript(emulator.Script{OnCreate: func(int, emulator.Message) emulator.CreateFault {
			return emulator.CreateFault{Answer: emulator.AnswerServerError}
		}})
		r := b.request()
		r.Key = "another"
		second, err := b.service(nil).Send(t.Context(), r)
		require.NoError(t, err)
		_, err = b.service(nil).RecordStatus(t.Context(), delivery.Receipt{MessageID: second.Message.ID, SID: first.Message.SID, Status: "sent"})
		require.NoError(t, err)
		after, err := b.store.Message(t.Context(), r.OrgID, second.Message.ID)
		require.NoError(t, err)
		require.Equal(t, sms.Unknown, after.Status)
		require.Equal(t, sms.Queued, b.stored().Status)
	})

	t.Run("ReceiptOfNobodysMessageIsKept", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		for range 2 {
			matched, err := b.service(nil).RecordStatus(t.Context(), delivery.Receipt{MessageID: uuid.Must(uuid.NewV7()), SID: "SM1", Status: "sent"})
			require.NoError(t, err)
			require.False(t, matched)
		}
		require.Equal(t, 1, b.receipts())
	})

	t.Run("WithoutSIDOrStatusIsInvalid", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, err := b.service(nil).RecordStatus(t.Context(), delivery.Receipt{SID: "SM1"})
		require.ErrorIs(t, err, delivery.ErrInvalid)
	})

	t.Run("LateRefusalForAnOptOutIsRecordedButNotOverANewerSTART", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.emulator.SetScript(silent)
		service := b.service(nil)
		result, err := service.Send(t.Context(), b.request())
		require.NoError(t, err)
		refusal := delivery.Receipt{MessageID: result.Message.ID, SID: result.Message.SID, Status: "failed", ErrorCode: 21610}
		_, err = service.RecordStatus(t.Context(), refusal)
		require.NoError(t, err)
		require.Equal(t, consent.OptedOut, b.ledger().State)

		b.clock.Advance(time.Second)
		_, err = service.RecordInbound(t.Context(), b.text("SM1", "START"))
		require.NoError(t, err)
		_, err = service.RecordStatus(t.Context(), refusal)
		require.NoError(t, err)
		older := b.request()
		older.Key = "another"
		result, err = service.Send(t.Context(), older)
		require.NoError(t, err)
		b.clock.Advance(time.Second)
		_, err = service.RecordInbound(t.Context(), b.text("SM2", "STOP"))
		require.NoError(t, err)
		_, err = service.RecordInbound(t.Context(), b.text("SM3", "START"))
		require.NoError(t, err)
		refusal.MessageID, refusal.SID = result.Message.ID, result.Message.SID
		_, err = service.RecordStatus(t.Context(), refusal)
		require.NoError(t, err)
		require.Equal(t, consent.OptedIn, b.ledger().State)
	})
}

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
		{name: "TwiliosReadingWins", words: "arret", optOutType: "STOP", want: consent.OptOut, state: consent.OptedOut},
		{name: "TwiliosReadingWinsOverOurs", words: "stop", optOutType: "HELP", want: consent.Help, state: consent.OptedIn},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			_, err := b.service(nil).Send(t.Context(), b.request())
			require.NoError(t, err)
			text := b.text("SM1", c.words)
			text.OptOutType = c.optOutType
			m, err := b.service(nil).RecordInbound(t.Context(), text)
			require.NoError(t, err)
			require.Equal(t, c.want, m.ConsentEffect)
			require.Equal(t, sms.Received, m.Status)
			require.Equal(t, c.state, b.ledger().State)
		})
	}

	t.Run("LedgerSaysWhoWhatWordsWhichSenderAndWhen", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m, err := b.service(nil).RecordInbound(t.Context(), b.text("SM1", "Stop please"))
		require.NoError(t, err)
		ledger := b.ledger()
		require.Equal(t, []delivery.LedgerEvent{{
			At: b.clock.Now(), State: consent.OptedOut, Source: delivery.FromText, Words: "Stop please", Sender: ours, MessageID: m.ID,
			KeywordPack: consent.Version, ConfirmedBy: delivery.ByUs,
			Confirmation: "You are unsubscribed and will get no more texts from this number. Reply START to get them again.",
			Seq:          1, PrevHash: consent.NoHash, Hash: ledger.Chain.Head,
		}}, ledger.Events)
		require.Nil(t, ledger.Broken)
	})

	t.Run("EveryRepeatGetsTheSameAnswerAndNothingTwice", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		service := b.service(nil)
		stop, err := service.RecordInbound(t.Context(), b.text("SM1", "STOP"))
		require.NoError(t, err)
		_, err = service.RecordInbound(t.Context(), b.text("SM2", "START"))
		require.NoError(t, err)
		again, err := service.RecordInbound(t.Context(), b.text("SM1", "STOP"))
		require.NoError(t, err)
		require.Equal(t, stop, again)
		require.Equal(t, consent.OptedIn, b.ledger().State, "the repeated STOP is older than START")
		require.Len(t, b.ledger().Events, 2)
	})

	t.Run("ConcurrentRepeatsAreOneText", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		service, start := b.service(nil), make(chan struct{})
		ids := make([]uuid.UUID, 8)
		var all sync.WaitGroup
		for i := range ids {
			all.Go(func() {
				<-start
				if m, err := service.RecordInbound(t.Context(), b.text("SM1", "STOP")); err == nil {
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
		require.Len(t, b.ledger().Events, 1)
	})

	t.Run("TextToANumberThatNobodyOwnsIsRefused", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		text := b.text("SM1", "hello")
		text.To = "+14155550777"
		_, err := b.service(nil).RecordInbound(t.Context(), text)
		require.ErrorIs(t, err, delivery.ErrUnknownSender)
	})

	t.Run("TextThroughOurServiceIsOurs", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		service := b.service(func(c *delivery.Config) { c.Sender = delivery.Sender{OrgID: c.Sender.OrgID, ServiceSID: "MG1"} })
		text := b.text("SM1", "hello\x00")
		text.ServiceSID = "MG1"
		m, err := service.RecordInbound(t.Context(), text)
		require.NoError(t, err)
		require.Equal(t, b.config.Sender.OrgID, m.OrgID)
		require.Equal(t, "hello", m.Body)
		text.SID, text.ServiceSID = "SM2", ""
		_, err = service.RecordInbound(t.Context(), text)
		require.ErrorIs(t, err, delivery.ErrUnknownSender)
	})
}

func (b *bundle) receipts() int {
	b.t.Helper()
	var n int
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), "select count(*) from sms_receipts").Scan(&n))
	return n
}
