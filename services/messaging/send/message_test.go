package send_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

func noon() time.Time { return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) }

func TestMessageSettle(t *testing.T) {
	t.Parallel()
	mine, other := uuid.New(), uuid.New()
	held := send.Message{
		Status: sms.Sending, AttemptToken: mine, Attempts: 3, LeaseUntil: noon().Add(lease), From: "MG1", Segments: 1,
	}
	doubtful := held
	doubtful.Status = sms.Unknown
	adopted := held
	adopted.Status, adopted.SID, adopted.AcceptedAt = sms.Sent, "SM1", noon()
	throttled, rejected := held, held
	throttled.Status, rejected.Status = sms.Throttled, sms.Rejected
	parked, givenUp := held, held
	parked.Status, givenUp.Status = sms.Parked, sms.GivenUp
	accepted := twilio.Outcome{Status: sms.Accepted, SID: "SM1", Reported: "queued", From: "+14155550100", Segments: 2}

	for _, c := range []struct {
		name    string
		row     send.Message
		token   uuid.UUID
		outcome twilio.Outcome
		status  sms.Status
		sid     string
		want    bool
	}{
		{name: "AcceptedTakesTheSID", row: held, token: mine, outcome: accepted, status: sms.Queued, sid: "SM1", want: true},
		{name: "LateTruthAboutAnUnknownRowIsTaken", row: doubtful, token: mine, outcome: accepted, status: sms.Queued, sid: "SM1", want: true},
		{
			name: "LateRefusalOfAnUnknownRowIsTaken", row: doubtful, token: mine,
			outcome: twilio.Outcome{Status: sms.Rejected, Code: 21614}, status: sms.Rejected, want: true,
		},
		{
			name: "LateThrottleOfAnUnknownRowIsTaken", row: doubtful, token: mine,
			outcome: twilio.Outcome{Status: sms.Throttled}, status: sms.Throttled, want: true,
		},
		{name: "LostAnswerIsUnknown", row: held, token: mine, outcome: twilio.Outcome{}, status: sms.Unknown, want: true},
		{name: "LostAnswerTellsAnUnknownRowNothing", row: doubtful, token: mine, outcome: twilio.Outcome{}, status: sms.Unknown},
		{name: "S1_35_AnotherAttemptMaySayNothing", row: held, token: other, outcome: accepted, status: sms.Sending},
		{name: "LateTruthAfterTwoAbsencesIsTaken", row: throttled, token: mine, outcome: accepted, status: sms.Queued, sid: "SM1", want: true},
		{name: "LateTruthAboutAParkedRowIsTaken", row: parked, token: mine, outcome: accepted, status: sms.Queued, sid: "SM1", want: true},
		{name: "LateTruthOutranksGivingUp", row: givenUp, token: mine, outcome: accepted, status: sms.Queued, sid: "SM1", want: true},
		{
			name: "LateRefusalOfAParkedRowIsTaken", row: parked, token: mine,
			outcome: twilio.Outcome{Status: sms.Rejected, Code: 21614}, status: sms.Rejected, want: true,
		},
		{
			name: "LateRefusalDoesNotOverruleGivingUp", row: givenUp, token: mine,
			outcome: twilio.Outcome{Status: sms.Throttled}, status: sms.GivenUp,
		},
		{name: "LostAnswerTellsAParkedRowNothing", row: parked, token: mine, outcome: twilio.Outcome{}, status: sms.Parked},
		{
			name: "ThrottledRowIsThrottledOnce", row: throttled, token: mine,
			outcome: twilio.Outcome{Status: sms.Throttled}, status: sms.Throttled,
		},
		{
			name: "S1_35_StaleAttemptReleasesNobodyElsesRow", row: held, token: other,
			outcome: twilio.Outcome{Status: sms.Throttled}, status: sms.Sending,
		},
		{
			name: "RejectedRowIsRejectedOnce", row: rejected, token: mine,
			outcome: twilio.Outcome{Status: sms.Throttled}, status: sms.Rejected,
		},
		{name: "FasterReceiptIsMerged", row: adopted, token: mine, outcome: accepted, status: sms.Sent, sid: "SM1", want: true},
		{
			name: "AnotherSIDNeverReplacesTheFirst", row: adopted, token: mine,
			outcome: twilio.Outcome{Status: sms.Accepted, SID: "SM2", Reported: "queued"}, status: sms.Sent, sid: "SM1",
		},
		{
			name: "RefusalDoesNotUndoAReceipt", row: adopted, token: mine,
			outcome: twilio.Outcome{Status: sms.Rejected, Code: 1}, status: sms.Sent, sid: "SM1",
		},
		{
			name: "UnreadableStatusWithASIDIsAccepted", row: held, token: mine,
			outcome: twilio.Outcome{Status: sms.Accepted, SID: "SM1", Reported: "teleported"}, status: sms.Accepted, sid: "SM1", want: true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			settled, changed := c.row.Settle(send.Answer{Token: c.token, Outcome: c.outcome, At: noon()})
			require.Equal(t, c.want, changed)
			require.Equal(t, c.status, settled.Status)
			require.Equal(t, c.sid, settled.SID)
			if !changed {
				require.Equal(t, c.row, settled)
			}
			if settled.Accepted() && changed {
				require.False(t, settled.AcceptedAt.IsZero())
			}
		})
	}

	t.Run("WaitOfThrottledDoublesWithEveryAttemptOrIsWhatTwilioAsks", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			attempts    int
			asked, want time.Duration
		}{{1, 0, time.Second}, {3, 0, 4 * time.Second}, {99, 0, time.Minute}, {9, 7 * time.Second, 7 * time.Second}, {1, time.Hour, time.Minute}} {
			row := held
			row.Attempts = c.attempts
			settled, _ := row.Settle(send.Answer{
				Token: mine, Outcome: twilio.Outcome{Status: sms.Throttled, RetryAfter: c.asked}, At: noon(),
			})
			require.Equal(t, noon().Add(c.want), settled.LeaseUntil)
		}
	})
}

// TestMessageReceive lets receipts come in every order and number: the row must not show in which.
func TestMessageReceive(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SampledFrom([]string{"accepted", "queued", "sending", "sent", "delivered", "undelivered", "failed", "teleported"})
		receipts := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) send.Receipt {
			return send.Receipt{
				SID: "SM1", Status: words.Draw(t, "status"), At: noon(),
				ErrorCode: rapid.SampledFrom([]int{0, 30003, 30008}).Draw(t, "code"),
			}
		}), 0, 8).Draw(t, "receipts")
		other := rapid.Permutation(receipts).Draw(t, "permuted")
		row := send.Message{Status: rapid.SampledFrom([]sms.Status{sms.Sending, sms.Unknown, sms.Throttled, sms.Parked, sms.GivenUp}).Draw(t, "row")}
		row.UpdatedAt = noon()
		one, two := merge(row, receipts), merge(row, append(other, other...))
		if one != two {
			t.Fatalf("%+v\nis not\n%+v", one, two)
		}
		if one.Accepted() == (one.Status == row.Status) {
			t.Fatalf("a SID and the status %s", one.Status)
		}
	})
}

func merge(m send.Message, receipts []send.Receipt) send.Message {
	for _, r := range receipts {
		m, _ = m.Receive(r)
	}
	return m
}
