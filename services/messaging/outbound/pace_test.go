package outbound_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	emulator "paceline.internal/emulators/twilio"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/messaging/outbound"
	"paceline.internal/services/messaging/schema"
	"paceline.internal/services/messaging/sendtest"
	"paceline.internal/services/messaging/sms"
)

// take is a text that was let through.
type take struct {
	at          time.Time
	cost, slack time.Duration
}

// TestPaceHoldsInEveryWindow asks for texts of any length at any times, urgent ones among them and onboarding next to them, from a sender
// of any rate. Whatever window one looks at: what was let through in it before its last text is worth no more time than the window has,
// plus the slack that the last one was allowed.
func TestPaceHoldsInEveryWindow(t *testing.T) {
	t.Parallel()
	store := outbound.NewStore(pgtest.New(t, schema.Migrations()))
	rapid.Check(t, func(rt *rapid.T) {
		pace := outbound.NewPace(rapid.SampledFrom([]float64{0.1, 0.25, 1, 3, 7.5, 100}).Draw(rt, "rate"))
		sender, now := uuid.NewString(), time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
		var taken []take
		ahead := time.Duration(0) // the model: how far the sender is ahead
		for range rapid.IntRange(1, 40).Draw(rt, "texts") {
			passed := time.Duration(rapid.IntRange(0, 3_000_000).Draw(rt, "us")) * time.Microsecond
			now, ahead = now.Add(passed), max(0, ahead-passed)
			cost := pace.Cost(rapid.IntRange(1, 10).Draw(rt, "segments"))
			if rapid.IntRange(0, 5).Draw(rt, "beside") == 0 {
				require.NoError(rt, store.Charge(t.Context(), sender, cost, pace.Limit(), now))
				ahead = max(ahead, min(ahead+cost, pace.Limit()))
				continue
			}
			slack := pace.Slack(rapid.IntRange(0, 3).Draw(rt, "urgent") == 0)
			wait, err := store.Reserve(t.Context(), sender, cost, slack, now)
			require.NoError(rt, err)
			if ahead > slack {
				require.Equal(rt, max(ahead-slack, time.Millisecond), wait, "it is told how long it waits")
				continue
			}
			require.Zero(rt, wait, "no message waits without need")
			ahead += cost
			taken = append(taken, take{at: now, cost: cost, slack: slack})
		}
		for first := range taken {
			spent := time.Duration(0)
			for last := first + 1; last < len(taken); last++ {
				spent += taken[last-1].cost
				require.LessOrEqual(rt, spent, taken[last].at.Sub(taken[first].at)+taken[last].slack)
			}
		}
	})
}

// sentAt returns when Twilio got each text, in order.
func (b *bundle) sentAt() (at []time.Duration) {
	for _, m := range b.Emulator.Messages() {
		if m.Direction == emulator.DirectionAPI {
			at = append(at, m.CreatedAt.Sub(began))
		}
	}
	return at
}

var began = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func TestPaceOfTheQueue(t *testing.T) {
	t.Parallel()
	queueKeepsTheRate(t)
	queueYields(t)
}

func queueKeepsTheRate(t *testing.T) {
	t.Helper()
	t.Run("FloodIsSentAtTheRateOfTheSender", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.rate = 2
		for range 8 {
			b.enqueue(nil)
		}
		b.drain()
		b.pass(3*time.Second, 250*time.Millisecond)
		require.Equal(t, []time.Duration{0, 0, 500e6, 1000e6, 1500e6, 2000e6, 2500e6, 3000e6}, b.sentAt())
	})

	t.Run("LongTextPaysForAllOfItsSegments", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.rate = 1
		for range 3 {
			b.enqueue(func(r *outbound.Request) { r.Body = sms.Body(strings.Repeat("a", 400)) })
		}
		b.drain()
		b.pass(7*time.Second, 500*time.Millisecond)
		require.Equal(t, []time.Duration{0, 3e9, 6e9}, b.sentAt())
	})

	t.Run("CodeOvertakesAFloodOfInvitations", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.rate = 1
		for i := range 50 {
			b.enqueue(func(r *outbound.Request) {
				r.Purpose, r.Body = outbound.Invite, sms.Body(fmt.Sprintf("%02d ", i)+strings.Repeat("a", 400))
			})
		}
		b.drain()
		require.Len(t, b.sent(), 1)
		b.pass(10*time.Second+100*time.Millisecond, 100*time.Millisecond)
		require.Less(t, len(b.sent()), 10)
		for range 3 {
			b.enqueue(func(r *outbound.Request) { r.Purpose, r.Body = outbound.OTP, "Your code is 123456." })
		}
		b.drain()
		sent := b.sent()
		for i, invitation := range sent[:4] {
			require.Equal(t, fmt.Sprintf("%02d", i), invitation[:2], "in the order in which they came")
		}
		require.Equal(t, slices.Repeat([]string{"Your code is 123456."}, 3), sent[len(sent)-3:], "at once, ahead of the rate")
		b.pass(4800*time.Millisecond, 100*time.Millisecond)
		require.Len(t, b.sent(), len(sent), "which everything else pays back")
	})

	t.Run("FloodOfCodesIsHeldToTheRateToo", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.rate = 1
		for range 30 {
			b.enqueue(func(r *outbound.Request) { r.Purpose = outbound.OTP })
		}
		b.drain()
		require.Len(t, b.sent(), 11, "ten seconds ahead, and the one that is due")
		b.pass(5*time.Second, 500*time.Millisecond)
		require.Len(t, b.sent(), 16)
	})
}

func queueYields(t *testing.T) {
	t.Helper()
	t.Run("QueueYieldsToOnboardingAndCodesDoNot", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.rate = 1
		b.tally.Add(b.sender.OrgID, uuid.Nil, 4)
		b.enqueue(nil)
		b.drain()
		b.pass(3500*time.Millisecond, 500*time.Millisecond)
		require.Empty(t, b.sent())
		b.tally.Add(b.sender.OrgID, uuid.Nil, 1)
		b.enqueue(func(r *outbound.Request) { r.Purpose, r.Body = outbound.OTP, "code" })
		b.drain()
		require.Equal(t, []string{"code"}, b.sent())
		b.pass(10*time.Second, 500*time.Millisecond)
		require.Equal(t, []string{"code", "See you at noon."}, b.sent())
	})

	t.Run("OnboardingAloneCannotStopTheQueueForLong", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.rate = 1
		b.tally.Add(b.sender.OrgID, uuid.Nil, 10_000)
		b.enqueue(nil)
		b.drain()
		b.pass(10*time.Second, time.Second)
		require.Len(t, b.sent(), 1)
	})

	t.Run("LookingAfterATextInDoubtCostsNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.rate = 0.1
		b.Emulator.SetScript(sendtest.Lose(emulator.AnswerReset, true))
		b.enqueue(nil)
		b.drain()
		b.pass(12*time.Second, time.Second)
		b.enqueue(func(r *outbound.Request) { r.Body = "next" })
		b.drain()
		require.Equal(t, []string{"See you at noon.", "next"}, b.sent())
	})

	t.Run("TwoProcessesShareOneRate", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.rate = 1
		for range 10 {
			b.enqueue(nil)
		}
		one, other := b.runner(nil), b.runner(nil)
		for range 20 {
			for _, process := range []*outbound.Runner{one, other} {
				_, err := process.Drain(t.Context())
				require.NoError(t, err)
			}
			b.Clock.Advance(250 * time.Millisecond)
		}
		require.Equal(t, []time.Duration{0, 1e9, 2e9, 3e9, 4e9}, b.sentAt())
	})
}
