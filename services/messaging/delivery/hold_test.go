package delivery_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	emulator "paceline.internal/emulators/twilio"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/delivery"
)

func (b *bundle) setHold(held bool, version int64) {
	b.t.Helper()
	require.NoError(b.t, b.service(nil).SetHold(b.t.Context(), b.holdOf(held, version)))
}

func (b *bundle) holdOf(held bool, version int64) delivery.Hold {
	return delivery.Hold{OrgID: b.config.Sender.OrgID, Phone: phone(b.t, theirs), Held: held, Version: version}
}

func TestSafetyHold(t *testing.T) {
	t.Parallel()

	send := func(b *bundle, change func(*delivery.Request)) delivery.Result {
		b.t.Helper()
		r := b.request()
		if change != nil {
			change(&r)
		}
		result, err := b.service(nil).Send(b.t.Context(), r)
		require.NoError(b.t, err)
		return result
	}

	t.Run("R_08_NothingIsSentBeforeTheReleaseAlsoOfWhatWasAskedForBefore", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.emulator.SetScript(lose(emulator.AnswerTooMany, false))
		require.Equal(t, delivery.Throttled, send(b, nil).Outcome)
		b.setHold(true, 1)
		b.clock.Advance(time.Minute)
		held := send(b, nil)
		require.Equal(t, delivery.Held, held.Outcome)
		require.NotNil(t, held.Message)
		require.Positive(t, held.RetryAfter)
		fresh := send(b, func(r *delivery.Request) { r.Key = "fresh" })
		require.Equal(t, delivery.Held, fresh.Outcome)
		require.Nil(t, fresh.Message)
		require.Empty(t, b.sent())
		b.setHold(false, 2)
		require.Equal(t, delivery.Accepted, send(b, nil).Outcome)
		require.Equal(t, delivery.Accepted, send(b, func(r *delivery.Request) { r.Key = "fresh" }).Outcome)
		b.setHold(true, 3)
		require.Equal(t, delivery.AlreadyAccepted, send(b, nil).Outcome)
	})

	t.Run("R_08_HoldOfANumberThatNobodyHasTextedLeavesNoWordOfConsent", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.setHold(true, 1)
		require.Equal(t, delivery.Held, send(b, nil).Outcome)
		_, err := b.store.Consent(t.Context(), b.config.Sender.OrgID, phone(t, theirs), delivery.LedgerPage{Limit: 1})
		require.ErrorIs(t, err, delivery.ErrConsentNotFound)
	})

	t.Run("R_08_OptOutIsToldBeforeTheHold", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.setHold(true, 1)
		_, err := b.service(nil).RecordInbound(t.Context(), b.text("SM1", "STOP"))
		require.NoError(t, err)
		require.Equal(t, delivery.OptedOut, send(b, nil).Outcome)
	})

	t.Run("R_08_LaterVersionCountsWhicheverIsToldLast", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.setHold(false, 2)
		b.setHold(true, 1)
		require.Equal(t, delivery.Accepted, send(b, nil).Outcome)
		b.setHold(true, 3)
		b.setHold(false, 2)
		require.Equal(t, delivery.Held, send(b, func(r *delivery.Request) { r.Key = "2" }).Outcome)
	})

	t.Run("R_08_CallerWhoHasReadTheReleaseIsNotHeldByWhatCameBeforeIt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.setHold(true, 3)
		require.Equal(t, delivery.Held, send(b, func(r *delivery.Request) { r.HoldVersion = 2 }).Outcome)
		require.Equal(t, delivery.Accepted, send(b, func(r *delivery.Request) { r.HoldVersion = 4 }).Outcome)
	})

	t.Run("R_08_AnswersToWordsAboutConsentPass", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		require.Equal(t, delivery.Accepted, send(b, nil).Outcome)
		b.setHold(true, 1)
		require.Equal(t, consent.Help, b.says("SM1", "ajuda").ConsentEffect)
		b.respond()
		require.Len(t, b.sent(), 2)
		require.Equal(t, consent.OptOut, b.says("SM2", "please stop texting me").ConsentEffect)
		b.respond()
		require.Len(t, b.sent(), 3)
	})

	t.Run("R_08_HoldIsAnsweredAfterWhatIsOnItsWay", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		h := b.hold(b.service)
		service := b.service(func(c *delivery.Config) { c.StopWait = 50 * time.Millisecond })
		require.ErrorIs(t, service.SetHold(t.Context(), b.holdOf(true, 1)), delivery.ErrUnavailable)
		require.Equal(t, delivery.Held, send(b, func(r *delivery.Request) { r.Key = "in force" }).Outcome)
		h.letThrough()
		require.Equal(t, delivery.Accepted, (<-h.result).Outcome)
		require.NoError(t, service.SetHold(t.Context(), b.holdOf(true, 1)), "told again")
	})

	// A claim that has begun, and looked for a hold before there was one, is waited for: its row cannot be seen yet.
	t.Run("R_08_HoldThatCommitsDuringAClaimIsAnsweredAfterIt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		require.Equal(t, delivery.Accepted, send(b, nil).Outcome)
		tx, err := b.pool.Begin(t.Context())
		require.NoError(t, err)
		t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
		_, err = tx.Exec(t.Context(), "select from consents for update")
		require.NoError(t, err)
		claimed, answered := make(chan delivery.Result, 1), make(chan int, 1)
		go func() {
			r := b.request()
			r.Key = "racing"
			result, _ := b.service(nil).Send(t.Context(), r)
			claimed <- result
		}()
		b.awaitBlocked()
		go func() {
			if b.service(nil).SetHold(t.Context(), b.holdOf(true, 1)) == nil {
				answered <- len(b.sent())
			}
			close(answered)
		}()
		require.Eventually(t, func() bool { // either it waits, too, or it was answered too soon
			var waiting int
			err := b.pool.QueryRow(t.Context(), "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'").Scan(&waiting)
			return err == nil && (waiting == 2 || len(answered) == 1)
		}, 10*time.Second, 2*time.Millisecond)
		require.NoError(t, tx.Rollback(t.Context()))
		require.Equal(t, delivery.Accepted, (<-claimed).Outcome)
		require.Equal(t, len(b.sent()), <-answered, "nothing reached Twilio after the answer")
	})
}
