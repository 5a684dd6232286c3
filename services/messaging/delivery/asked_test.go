package delivery_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	emulator "paceline.internal/emulators/twilio"
	"paceline.internal/services/messaging/delivery"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

// TestAskedSince is since when the person may have read a message: since the attempt began that Twilio took.
func TestAskedSince(t *testing.T) {
	t.Parallel()
	const slow = 900 * time.Millisecond
	// during is a carrier that does something between Twilio's taking of the message and its answer.
	during := func(b *bundle, do func(out twilio.Outgoing, o *twilio.Outcome)) *delivery.Service {
		return b.service(func(c *delivery.Config) {
			c.Carrier = carrierFunc(func(ctx context.Context, out twilio.Outgoing) twilio.Outcome {
				o := b.carrier.Send(ctx, out)
				do(out, &o)
				return o
			})
		})
	}
	// receipt is what Twilio reports of the row, whoever waits for its answer.
	receipt := func(b *bundle, sid string) {
		_, err := b.service(nil).RecordStatus(b.t.Context(), delivery.Receipt{MessageID: b.stored().ID, SID: sid, Status: "sent"})
		require.NoError(b.t, err)
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
			name: "R_09_AttemptThatTwilioDidNotProcessDoesNotCount", attempts: []twilio.Outcome{{Kind: twilio.Throttled}},
			answered: func(*bundle, string, *twilio.Outcome) {},
		},
		{
			name: "R_09_AnswerSaysWhichAttemptAFasterReceiptMeant", attempts: []twilio.Outcome{{Kind: twilio.Throttled}},
			answered: receiptOf(receipt),
		},
		{
			name: "R_09_ReceiptWithoutAnAnswerMayBeOfTheFirstAttempt", attempts: []twilio.Outcome{{Kind: twilio.Throttled}}, first: true,
			answered: func(b *bundle, sid string, o *twilio.Outcome) {
				receipt(b, sid)
				*o = twilio.Outcome{}
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.emulator.SetScript(silent)
			began := b.clock.Now()
			for _, outcome := range c.attempts {
				_, err := b.service(func(cfg *delivery.Config) {
					cfg.Carrier = carrierFunc(func(context.Context, twilio.Outgoing) twilio.Outcome { return outcome })
				}).Send(t.Context(), b.request())
				require.NoError(t, err)
				b.clock.Advance(5 * time.Second)
				if !c.first {
					began = b.clock.Now()
				}
			}
			_, err := during(b, func(_ twilio.Outgoing, o *twilio.Outcome) {
				sid := o.SID
				b.clock.Advance(slow)
				c.answered(b, sid, o)
			}).Send(t.Context(), b.request())
			require.NoError(t, err)
			require.Equal(t, began, b.stored().AskedSince())
			require.True(t, b.stored().Accepted())
		})
	}

	t.Run("R_09_AttemptThatWasConfirmedAbsentDoesNotCount", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.emulator.SetScript(lose(emulator.AnswerServerError, false))
		b.send("")
		for range 3 {
			b.clock.Advance(lease + time.Second)
			b.reconcile()
		}
		require.Equal(t, sms.Throttled, b.stored().Status)
		require.Equal(t, delivery.Accepted, b.send("").Outcome)
		require.Equal(t, b.clock.Now(), b.stored().AskedSince())
	})

	t.Run("R_09_OneThatTwiliosListHasCountsFromItsAttempt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		began := b.clock.Now()
		b.emulator.SetScript(mute(emulator.AnswerReset, true))
		b.send("")
		b.clock.Advance(lease + time.Second)
		b.reconcile()
		require.True(t, b.stored().Accepted())
		require.Equal(t, began, b.stored().AskedSince())
	})

	t.Run("R_09_RowOfAnOlderReleaseCountsFromItsFirstAttempt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		began := b.clock.Now()
		b.send("")
		_, err := b.pool.Exec(t.Context(), `update sms_messages set asked_at = null`)
		require.NoError(t, err)
		b.clock.Advance(time.Minute)
		require.Equal(t, began, b.stored().AskedSince())
	})
}

func receiptOf(receipt func(b *bundle, sid string)) func(b *bundle, sid string, o *twilio.Outcome) {
	return func(b *bundle, sid string, _ *twilio.Outcome) { receipt(b, sid) }
}

// TestListingThatAlwaysFails is about a message in doubt of which Twilio's list cannot be had.
func TestListingThatAlwaysFails(t *testing.T) {
	t.Parallel()
	failing := func(b *bundle) *delivery.Reconciler {
		return b.reconciler(func(c *delivery.ReconcilerConfig) {
			c.Twilio = directory{list: func(context.Context, string, time.Time) ([]twilio.Stored, error) {
				return nil, errors.New("twilio: more than 2000 messages to one recipient")
			}}
		})
	}
	// for d, a listing that fails every pause.
	fail := func(b *bundle, d, pause time.Duration) {
		down := failing(b)
		for ; d > 0; d -= pause {
			_, err := down.Once(b.t.Context())
			require.NoError(b.t, err)
			b.clock.Advance(pause)
		}
	}
	doubt := func(t *testing.T) *bundle {
		b := setup(t)
		b.emulator.SetScript(mute(emulator.AnswerReset, true))
		require.Equal(t, delivery.Unknown, b.send("").Outcome)
		return b
	}

	t.Run("R_12_IsParkedForAnOperatorWithItsReason", func(t *testing.T) {
		t.Parallel()
		b := doubt(t)
		fail(b, 2*time.Hour, interval)
		require.Equal(t, delivery.Unknown, b.send("").Outcome, "an outage of Twilio may last as long")
		fail(b, interval, interval)
		parked := b.send("")
		require.Equal(t, delivery.Parked, parked.Outcome)
		require.Contains(t, parked.Explanation, "could not be had in 241 tries over 2h0m0s")
		require.Contains(t, parked.Explanation, "more than 2000 messages to one recipient")
		require.Contains(t, parked.Explanation, ":resolve")
		require.True(t, b.stored().NextLookAt.IsZero())
		require.Equal(t, []delivery.Finding{delivery.Failed, delivery.Failed}, findings(b.evidence(b.stored().ID)), "the first one, and the one that parked it")
		require.Contains(t, b.logged.String(), `"as":"parked"`)
	})

	t.Run("R_12_FewTriesAreNotEnoughHoweverLongAgoTheFirstWas", func(t *testing.T) {
		t.Parallel()
		b := doubt(t)
		fail(b, 19*time.Hour, time.Hour) // a process that is mostly away
		require.Equal(t, delivery.Unknown, b.send("").Outcome)
		fail(b, time.Hour, time.Hour)
		require.Equal(t, delivery.Parked, b.send("").Outcome)
	})

	t.Run("R_12_ListingThatSucceedsBeginsTheCountAnew", func(t *testing.T) {
		t.Parallel()
		b := doubt(t)
		fail(b, time.Hour+59*time.Minute, interval)
		empty := b.reconciler(func(c *delivery.ReconcilerConfig) {
			c.Twilio = directory{list: func(context.Context, string, time.Time) ([]twilio.Stored, error) { return []twilio.Stored{}, nil }}
		})
		_, err := empty.Once(t.Context())
		require.NoError(t, err)
		b.clock.Advance(interval)
		fail(b, time.Hour, interval)
		require.Equal(t, sms.Unknown, b.stored().Status)
		require.Equal(t, []delivery.Finding{delivery.Failed, delivery.Absent, delivery.Failed}, findings(b.evidence(b.stored().ID)))
	})
}
