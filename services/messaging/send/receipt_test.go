package send_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	emulator "paceline.internal/emulators/twilio"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sendtest"
	"paceline.internal/services/messaging/sms"
)

func TestRecordStatus(t *testing.T) {
	t.Parallel()
	receiptsAreMerged(t)
	receiptsOfOthers(t)
}

func receiptsAreMerged(t *testing.T) {
	t.Helper()
	t.Run("SettlesASendWhoseAnswerWasLost", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(sendtest.Lose(emulator.AnswerReset, true))
		result := b.Send("")
		require.Equal(t, send.Unknown, result.Outcome)
		b.Pass(time.Second)
		result = b.Send("")
		require.Equal(t, send.AlreadyAccepted, result.Outcome)
		require.Equal(t, sms.Delivered, result.Message.Status)
		require.Equal(t, b.Sent()[0].SID, result.Message.SID)
		require.False(t, result.Message.AcceptedAt.IsZero())
		require.Len(t, b.Sent(), 1)
	})

	t.Run("LateAndRepeatedReceiptsChangeNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Send("")
		b.Pass(time.Second)
		delivered := b.Stored()
		for _, status := range []string{"delivered", "sent", "queued", "sending"} {
			matched := b.Report(send.Receipt{MessageID: delivered.ID, SID: delivered.SID, Status: status})
			require.True(t, matched)
		}
		require.Equal(t, delivered, b.Stored())
	})

	// Between its reading and its writing the message has come to more: what was read does not count any more.
	t.Run("OlderReportDoesNotOverwriteOneThatCommitsMeanwhile", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(sendtest.Silent)
		sent := b.Send("").Message
		tx, err := b.Pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), "update sms_messages set status = 'delivered'")
		require.NoError(t, err)
		matched := make(chan bool, 1)
		go func() {
			known, err := b.Service(nil).RecordStatus(t.Context(), send.Receipt{MessageID: sent.ID, SID: sent.SID, Status: "sent", At: b.Clock.Now()})
			matched <- known && err == nil
		}()
		b.AwaitBlocked()
		require.NoError(t, tx.Commit(t.Context()))
		require.True(t, <-matched)
		require.Equal(t, sms.Delivered, b.Stored().Status)
		require.Equal(t, 1, b.receipts())
	})

	t.Run("EachIsKeptOnceOfManyAtOnce", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(sendtest.Silent)
		sent := b.Send("").Message
		service, at := b.Service(nil), b.Clock.Now()
		statuses := []string{"queued", "sent", "delivered"}
		answers := make(chan error, 24)
		for n := range cap(answers) {
			r := send.Receipt{MessageID: sent.ID, SID: sent.SID, Status: statuses[n%len(statuses)], At: at}
			go func() {
				_, err := service.RecordStatus(t.Context(), r)
				answers <- err
			}()
		}
		for range cap(answers) {
			require.NoError(t, <-answers)
		}
		require.Equal(t, sms.Delivered, b.Stored().Status)
		require.Equal(t, len(statuses), b.receipts())
	})

	t.Run("IsFoundByItsSIDAlone", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		result := b.Send("")
		matched := b.Report(send.Receipt{SID: result.Message.SID, Status: "failed", ErrorCode: 30001})
		require.True(t, matched)
		require.Equal(t, sms.Failed, b.Stored().Status)
		require.Equal(t, 30001, b.Stored().ErrorCode)
	})
}

func receiptsOfOthers(t *testing.T) {
	t.Helper()
	t.Run("ForeignSIDAndUnknownWordsAreKeptAndChangeNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		result := b.Send("")
		before := b.Stored()
		for _, r := range []send.Receipt{
			{MessageID: before.ID, SID: "SMforeign", Status: "delivered"},
			{MessageID: before.ID, SID: result.Message.SID, Status: "teleported", Raw: map[string]string{"Odd": "a\x00b"}},
		} {
			require.True(t, b.Report(r))
		}
		require.Equal(t, before, b.Stored())
		require.Equal(t, 2, b.receipts())
	})

	t.Run("SIDOfAnotherMessageIsNotAdopted", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		first := b.Send("")
		b.Emulator.SetScript(emulator.Script{OnCreate: func(int, emulator.Message) emulator.CreateFault {
			return emulator.CreateFault{Answer: emulator.AnswerServerError}
		}})
		r := b.Request()
		r.Key = "another"
		second, err := b.Service(nil).Send(t.Context(), r)
		require.NoError(t, err)
		b.Report(send.Receipt{MessageID: second.Message.ID, SID: first.Message.SID, Status: "sent"})
		after, err := b.Store.Message(t.Context(), r.OrgID, second.Message.ID)
		require.NoError(t, err)
		require.Equal(t, sms.Unknown, after.Status)
		require.Equal(t, sms.Queued, b.Stored().Status)
	})

	t.Run("ReceiptOfAnUnknownMessageIsKept", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		for range 2 {
			matched := b.Report(send.Receipt{MessageID: uuid.Must(uuid.NewV7()), SID: "SM1", Status: "sent"})
			require.False(t, matched)
		}
		require.Equal(t, 1, b.receipts())
	})

	t.Run("WithoutSIDOrStatusIsInvalid", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, err := b.Service(nil).RecordStatus(t.Context(), send.Receipt{SID: "SM1"})
		require.ErrorIs(t, err, sms.ErrInvalid)
	})

	t.Run("LateRefusalForAnOptOutIsRecordedButNotOverANewerSTART", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(sendtest.Silent)
		service := b.Service(nil)
		result, err := service.Send(t.Context(), b.Request())
		require.NoError(t, err)
		refusal := send.Receipt{MessageID: result.Message.ID, SID: result.Message.SID, Status: "failed", ErrorCode: 21610}
		b.Report(refusal)
		require.Equal(t, consent.OptedOut, b.Ledger().State)

		b.Clock.Advance(time.Second)
		b.Receive("SM1", "START")
		b.Report(refusal)
		older := b.Request()
		older.Key = "another"
		result, err = service.Send(t.Context(), older)
		require.NoError(t, err)
		b.Clock.Advance(time.Second)
		b.Receive("SM2", "STOP")
		b.Receive("SM3", "START")
		refusal.MessageID, refusal.SID = result.Message.ID, result.Message.SID
		b.Report(refusal)
		require.Equal(t, consent.OptedIn, b.Ledger().State)
	})
}

func (b *bundle) receipts() int {
	b.T.Helper()
	var n int
	require.NoError(b.T, b.Pool.QueryRow(b.T.Context(), "select count(*) from sms_receipts").Scan(&n))
	return n
}
