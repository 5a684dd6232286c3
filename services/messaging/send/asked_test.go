package send_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	emulator "paceline.internal/emulators/twilio"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sendtest"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

// TestAskedSince returns since when the person may have read a message: since the attempt began that Twilio took.
func TestAskedSince(t *testing.T) {
	t.Parallel()
	const slow = 900 * time.Millisecond
	// during is a carrier that does something between Twilio's taking of the message and its answer.
	during := func(b *bundle, do func(out twilio.Outgoing, o *twilio.Outcome)) *send.Service {
		return b.Service(func(c *send.Config) {
			c.Carrier = sendtest.CarrierFunc(func(ctx context.Context, out twilio.Outgoing) twilio.Outcome {
				o := b.Carrier.Send(ctx, out)
				do(out, &o)
				return o
			})
		})
	}
	// receipt makes Twilio report that the row is sent, whether an attempt waits for its answer or not.
	receipt := func(b *bundle, sid string) {
		b.Report(send.Receipt{MessageID: b.Stored().ID, SID: sid, Status: "sent"})
	}

	for _, c := range []struct {
		name     string
		attempts []twilio.Outcome // before the one that Twilio takes
		answered func(b *bundle, sid string, o *twilio.Outcome)
		first    bool // counts since the first attempt
	}{
		{name: "R_09_CountsFromTheAttemptAndNotFromItsSlowAnswer", answered: func(*bundle, string, *twilio.Outcome) {}},
		{name: "R_09_CountsFromTheAttemptThatAFasterReceiptTellsOf", answered: receiptOf(receipt)},
		{
			name: "R_09_AttemptThatTwilioDidNotProcessDoesNotCount", attempts: []twilio.Outcome{{Status: sms.Throttled}},
			answered: func(*bundle, string, *twilio.Outcome) {},
		},
		{
			name: "R_09_AnswerSaysWhichAttemptAFasterReceiptMeant", attempts: []twilio.Outcome{{Status: sms.Throttled}},
			answered: receiptOf(receipt),
		},
		{
			name: "R_09_ReceiptWithoutAnAnswerMayBeOfTheFirstAttempt", attempts: []twilio.Outcome{{Status: sms.Throttled}}, first: true,
			answered: func(b *bundle, sid string, o *twilio.Outcome) {
				receipt(b, sid)
				*o = twilio.Outcome{}
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.Emulator.SetScript(sendtest.Silent)
			began := b.Clock.Now()
			for _, outcome := range c.attempts {
				_, err := b.Service(func(cfg *send.Config) {
					cfg.Carrier = sendtest.CarrierFunc(func(context.Context, twilio.Outgoing) twilio.Outcome { return outcome })
				}).Send(t.Context(), b.Request())
				require.NoError(t, err)
				b.Clock.Advance(5 * time.Second)
				if !c.first {
					began = b.Clock.Now()
				}
			}
			_, err := during(b, func(_ twilio.Outgoing, o *twilio.Outcome) {
				sid := o.SID
				b.Clock.Advance(slow)
				c.answered(b, sid, o)
			}).Send(t.Context(), b.Request())
			require.NoError(t, err)
			require.Equal(t, began, b.Stored().AskedSince())
			require.True(t, b.Stored().Accepted())
		})
	}

	t.Run("R_09_AttemptThatWasConfirmedAbsentDoesNotCount", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(sendtest.Lose(emulator.AnswerServerError, false))
		b.Send("")
		for range 3 {
			b.Clock.Advance(lease + time.Second)
			b.Reconcile()
		}
		require.Equal(t, sms.Throttled, b.Stored().Status)
		require.Equal(t, send.Accepted, b.Send("").Outcome)
		require.Equal(t, b.Clock.Now(), b.Stored().AskedSince())
	})

	t.Run("R_09_OneThatTwiliosListHasCountsFromItsAttempt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		began := b.Clock.Now()
		b.Emulator.SetScript(sendtest.Mute(emulator.AnswerReset, true))
		b.Send("")
		b.Clock.Advance(lease + time.Second)
		b.Reconcile()
		require.True(t, b.Stored().Accepted())
		require.Equal(t, began, b.Stored().AskedSince())
	})

	t.Run("R_09_RowOfAnOlderReleaseCountsFromItsFirstAttempt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		began := b.Clock.Now()
		b.Send("")
		_, err := b.Pool.Exec(t.Context(), `update sms_messages set asked_at = null`)
		require.NoError(t, err)
		b.Clock.Advance(time.Minute)
		require.Equal(t, began, b.Stored().AskedSince())
	})
}

func receiptOf(receipt func(b *bundle, sid string)) func(b *bundle, sid string, o *twilio.Outcome) {
	return func(b *bundle, sid string, _ *twilio.Outcome) { receipt(b, sid) }
}

// TestListingThatAlwaysFails is about a message in doubt of which Twilio's list cannot be had.
func TestListingThatAlwaysFails(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	failing := func(b *bundle) *send.Reconciler {
		return b.Reconciler(func(c *send.ReconcilerConfig) {
			c.Carrier = directory{list: func(context.Context, string, time.Time) ([]twilio.Stored, error) {
				return nil, errors.New("twilio: more than 2000 messages to one recipient")
			}}
		})
	}
	// for d, a listing that fails every pause.
	fail := func(b *bundle, d, pause time.Duration) {
		down := failing(b)
		for ; d > 0; d -= pause {
			_, err := down.Once(b.T.Context())
			require.NoError(b.T, err)
			b.Clock.Advance(pause)
		}
	}
	doubt := func(t *testing.T) *bundle {
		b := setup(t)
		b.Emulator.SetScript(sendtest.Mute(emulator.AnswerReset, true))
		require.Equal(t, send.Unknown, b.Send("").Outcome)
		return b
	}

	t.Run("R_12_IsParkedForAnOperatorWithItsReason", func(t *testing.T) {
		t.Parallel()
		b := doubt(t)
		fail(b, 2*time.Hour, interval)
		require.Equal(t, send.Unknown, b.Send("").Outcome, "an outage of Twilio may last as long")
		fail(b, interval, interval)
		parked := b.Send("")
		require.Equal(t, send.Parked, parked.Outcome)
		require.Contains(t, parked.Explanation, "could not be had in 241 tries over 2h0m0s")
		require.Contains(t, parked.Explanation, "more than 2000 messages to one recipient")
		require.Contains(t, parked.Explanation, ":resolve")
		require.True(t, b.Stored().NextCheckAt.IsZero())
		require.Equal(t, []send.EvidenceKind{send.Failed, send.Failed}, findings(b.evidence(b.Stored().ID)), "the first one, and the one that parked it")
		require.Contains(t, b.Logged.String(), `"as":"parked"`)
	})

	t.Run("R_12_FewTriesAreNotEnoughHoweverLongAgoTheFirstWas", func(t *testing.T) {
		t.Parallel()
		b := doubt(t)
		fail(b, 19*time.Hour, time.Hour) // a process that is mostly away
		require.Equal(t, send.Unknown, b.Send("").Outcome)
		fail(b, time.Hour, time.Hour)
		require.Equal(t, send.Parked, b.Send("").Outcome)
	})

	t.Run("R_12_ListingThatSucceedsBeginsTheCountAnew", func(t *testing.T) {
		t.Parallel()
		b := doubt(t)
		fail(b, time.Hour+59*time.Minute, interval)
		empty := b.Reconciler(func(c *send.ReconcilerConfig) {
			c.Carrier = directory{list: func(context.Context, string, time.Time) ([]twilio.Stored, error) { return []twilio.Stored{}, nil }}
		})
		_, err := empty.Once(t.Context())
		require.NoError(t, err)
		b.Clock.Advance(interval)
		fail(b, time.Hour, interval)
		require.Equal(t, sms.Unknown, b.Stored().Status)
		require.Equal(t, []send.EvidenceKind{send.Failed, send.Absent, send.Failed}, findings(b.evidence(b.Stored().ID)))
	})
}
