package send_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	emulator "paceline.internal/emulators/twilio"
	"paceline.internal/services/messaging/consent/ledger"
	"paceline.internal/services/messaging/outbound"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/messaging/sendtest"
)

// outreach asks for a message of outreach under a key.
func (b *bundle) outreach(key string) send.Result {
	b.T.Helper()
	r := b.Request()
	r.Key, r.Outreach = key, true
	result, err := b.Service(nil).Send(b.T.Context(), r)
	require.NoError(b.T, err)
	return result
}

// turnsFunc are turns that a test hands out.
type turnsFunc func() time.Duration

// Reserve implements the port.
func (f turnsFunc) Reserve(context.Context, senders.Sender, int, time.Time) (time.Duration, error) {
	return f(), nil
}

// ReserveSends implements the port.
func (turnsFunc) ReserveSends(context.Context, uuid.UUID, []int, time.Time) (int, time.Duration, error) {
	panic("of runs")
}

// Cancel implements the port.
func (turnsFunc) Cancel(context.Context, senders.Sender, int) error { return nil }

// overtaken are turns between which and the claim something happens.
type overtaken struct {
	*outbound.Outreach

	meanwhile func()
}

// Reserve implements the port.
func (o overtaken) Reserve(ctx context.Context, from senders.Sender, segments int, now time.Time) (time.Duration, error) {
	defer o.meanwhile()
	return o.Outreach.Reserve(ctx, from, segments, now)
}

func TestOutreach(t *testing.T) {
	t.Parallel()
	outreachWaitsForItsTurn(t)
	onlyAnAttemptTakesATurn(t)
}

func outreachWaitsForItsTurn(t *testing.T) {
	t.Helper()
	t.Run("S4_61_TwoOfAnOrganisationAreAnIntervalApartAndAConversationWaitsForNone", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		require.Equal(t, send.Accepted, b.outreach("1").Outcome)
		b.Clock.Advance(100 * time.Millisecond)
		paced := b.outreach("2")
		require.Equal(t, send.Paced, paced.Outcome)
		require.Nil(t, paced.Message, "nothing was claimed")
		require.Equal(t, sendtest.OutreachInterval-100*time.Millisecond, paced.RetryAfter)
		require.Equal(t, send.Accepted, b.Send("an answer").Outcome)
		b.Clock.Advance(paced.RetryAfter)
		require.Equal(t, send.Accepted, b.outreach("2").Outcome)
		require.Equal(t, send.Paced, b.outreach("3").Outcome)
		require.Len(t, b.Sent(), 3)
	})

	t.Run("WhatTwilioDidNotTakeTakesAnotherTurn", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(sendtest.Lose(emulator.AnswerTooMany, false))
		require.Equal(t, send.Throttled, b.outreach("1").Outcome)
		b.Clock.Advance(time.Minute)
		require.Equal(t, send.Accepted, b.outreach("other").Outcome)
		paced := b.outreach("1")
		require.Equal(t, send.Paced, paced.Outcome)
		require.NotNil(t, paced.Message)
		b.Clock.Advance(paced.RetryAfter)
		require.Equal(t, send.Accepted, b.outreach("1").Outcome)
	})
}

// onlyAnAttemptTakesATurn: an answer that needs no attempt is given at once, however far the turns are ahead, and takes none.
func onlyAnAttemptTakesATurn(t *testing.T) {
	t.Helper()
	for _, tt := range []struct {
		name    string
		prepare func(b *bundle)
		purpose string
		want    send.Outcome
	}{
		{"AlreadyAccepted", func(b *bundle) { b.Send("") }, "", send.AlreadyAccepted},
		{"Unknown", func(b *bundle) {
			b.Emulator.SetScript(sendtest.Mute(emulator.AnswerReset, true))
			b.Send("")
		}, "", send.Unknown},
		{"ThrottledStill", func(b *bundle) {
			b.Emulator.SetScript(sendtest.Lose(emulator.AnswerTooMany, false))
			b.Send("")
		}, "", send.Throttled},
		{"OptedOut", func(b *bundle) { b.Receive("SM1", "STOP") }, "", send.OptedOut},
		{"Held", func(b *bundle) { b.Hold(true, 1) }, "", send.Held},
		{"Capped", func(b *bundle) {
			b.Config.Caps.PhoneHour = send.Cap{Messages: 1, Segments: 9}
			b.Send("another")
		}, "", send.Capped},
		{"RemindersOff", func(b *bundle) { b.Receive("SM1", "stop reminders") }, "goodbye", send.RemindersOff},
	} {
		t.Run(tt.name+"TakesNoTurn", func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			tt.prepare(b)
			r := b.Request()
			r.Outreach, r.Purpose = true, tt.purpose
			result, err := b.Service(func(c *send.Config) {
				c.Limiter = turnsFunc(func() time.Duration { panic("no turn is asked for") })
			}).Send(t.Context(), r)
			require.NoError(t, err)
			require.Equal(t, tt.want, result.Outcome)
		})
	}

	t.Run("OptOutBetweenTheTurnAndTheClaimCounts", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		r := b.Request()
		r.Outreach, r.Purpose = true, "goodbye"
		result, err := b.Service(func(c *send.Config) {
			c.Limiter = turnsFunc(func() time.Duration {
				_, err := b.Consents(b.Service(nil)).SetReminders(t.Context(), ledger.Reminders{
					OrgID: r.OrgID, Phone: r.To, Off: true, Source: ledger.SaidByPerson, SaidAt: b.Clock.Now(), At: b.Clock.Now(),
				})
				require.NoError(t, err)
				return 0
			})
		}).Send(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, send.RemindersOff, result.Outcome)
		require.Empty(t, b.Sent())
	})

	t.Run("OneThatACapRefusesAfterItsTurnGivesTheTurnBack", func(t *testing.T) {
		t.Parallel()
		b := capped(t, send.Caps{PhoneHour: send.Cap{Messages: 1, Segments: 9}})
		turns := b.Limiter()
		slow := b.Senders.Environment
		slow.Rate = 1
		b.Config.Senders = sendtest.Only(slow)
		b.Config.Limiter = overtaken{turns, func() { b.Send("quicker") }}
		require.Equal(t, send.Capped, b.outreach("1").Outcome)
		b.Config.Limiter = turns
		require.Equal(t, send.Accepted, b.sendTo("+14155550199", "2", func(r *send.Request) { r.Outreach = true }).Outcome)
	})

	t.Run("ReusedKeyIsRefusedAndTakesNoTurn", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Send("")
		r := b.Request()
		r.Outreach, r.Body = true, "other words"
		_, err := b.Service(func(c *send.Config) {
			c.Limiter = turnsFunc(func() time.Duration { panic("no turn is asked for") })
		}).Send(t.Context(), r)
		require.ErrorIs(t, err, send.ErrKeyReused)
	})
}
