package inbound_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"paceline.internal/services/messaging/consent"
	ledgers "paceline.internal/services/messaging/consent/ledger"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sendtest"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

type answer struct {
	m   send.Message
	err error
}

// stop records a STOP, and answers when that is answered.
func (b *bundle) stop(s listener, sid string) chan answer {
	answered := make(chan answer, 1)
	go func() {
		m, err := s.RecordInbound(b.T.Context(), b.Inbound(sid, "STOP"))
		answered <- answer{m, err}
	}()
	return answered
}

// looking is an inbox that tells of every query for what is on its way, which shows that it waits.
func (b *bundle) looking(wait time.Duration) (listener, chan struct{}) {
	looked := make(chan struct{}, 1000)
	return b.inbox(func(c *send.Config) {
		c.StopWait = wait
		c.Store = looks{Store: b.Store, looked: looked}
	}), looked
}

func TestStopIsAnsweredAfterWhatIsOnItsWay(t *testing.T) {
	t.Parallel()
	stopWaits(t)
	whatStopWaitsFor(t)
}

func stopWaits(t *testing.T) {
	t.Helper()
	t.Run("S0_41_STOPIsAnsweredOnlyAfterTheSendIsSettled", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		h := b.SlowSend(nil)
		service, looked := b.looking(10 * time.Second)
		answered := b.stop(service, "SM1")
		for range 2 { // it has waited once and looks again
			select {
			case <-looked:
			case a := <-answered:
				require.Fail(t, "answered before the send was settled", "%v", a.err)
			}
		}
		require.Equal(t, consent.OptedOut, b.Ledger().State, "in force long before the answer")
		require.Empty(t, answered)
		require.Empty(t, b.Sent())
		h.LetThrough()
		a := <-answered
		require.NoError(t, a.err)
		require.Equal(t, consent.OptOut, a.m.ConsentEffect)
		require.Equal(t, send.Accepted, (<-h.Result).Outcome, "claimed before the STOP, accepted before its answer")
		require.Equal(t, sms.Queued, b.Stored().Status)
	})

	t.Run("OneServiceWakesItsOwnWaitersBeforeThePoll", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		woken := func(who string) bool {
			looked := make(chan struct{}, 1000)
			inside, release := make(chan struct{}), make(chan struct{})
			service := b.Service(func(c *send.Config) {
				c.StopWait = 45 * time.Millisecond // less than the poll
				c.Store = looks{Store: b.Store, looked: looked}
				c.Carrier = sendtest.CarrierFunc(func(context.Context, twilio.Outgoing) twilio.Outcome {
					close(inside)
					<-release
					return twilio.Outcome{Status: sms.Throttled}
				})
			})
			r, said := b.Request(), b.Inbound("SM"+who, "STOP")
			r.To, r.Key, said.From = sendtest.Phone(t, who), who, sendtest.Phone(t, who)
			sent := make(chan error, 1)
			go func() {
				_, err := service.Send(t.Context(), r)
				sent <- err
			}()
			<-inside
			answered := make(chan error, 1)
			go func() {
				_, err := b.Inbox(service, nil).RecordInbound(t.Context(), said)
				answered <- err
			}()
			select {
			case <-looked:
			case err := <-answered:
				require.Fail(t, "answered before the send was settled", "%v", err)
			}
			close(release)
			require.NoError(t, <-sent)
			return <-answered == nil
		}
		for i := 0; !woken(fmt.Sprint("+141555501", 10+i)); i++ { // a busy machine may be too slow for one of them, not for all
			require.Less(t, i, 40)
		}
	})

	t.Run("S0_41_STOPDuringASendThatHangsComesAgain", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		h := b.SlowSend(nil)
		hasty := b.inbox(func(c *send.Config) { c.StopWait = 20 * time.Millisecond })
		for range 2 { // the repeat of the SID waits as well
			_, err := hasty.RecordInbound(t.Context(), b.Inbound("SM1", "STOP"))
			require.ErrorIs(t, err, sms.ErrUnavailable)
			require.NotContains(t, err.Error(), theirs)
		}
		require.Equal(t, consent.OptedOut, b.Ledger().State)
		h.LetThrough()
		<-h.Result
		m, err := b.inbox(nil).RecordInbound(t.Context(), b.Inbound("SM1", "STOP"))
		require.NoError(t, err)
		require.Equal(t, consent.OptOut, m.ConsentEffect)
		require.Len(t, b.Ledger().Events, 2, "one STOP, however often it came")
	})
}

func whatStopWaitsFor(t *testing.T) {
	t.Helper()
	t.Run("OperatorsOptOutWaitsAsWell", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		h := b.SlowSend(nil)
		hasty := b.inbox(func(c *send.Config) { c.StopWait = 20 * time.Millisecond })
		note := ledgers.Note{
			OrgID: b.Config.Senders.Environment.OrgID, Phone: sendtest.Phone(t, theirs), State: consent.OptedOut, Reason: "asked on the phone", At: b.Clock.Now(),
		}
		_, err := hasty.SetConsent(t.Context(), note)
		require.ErrorIs(t, err, sms.ErrUnavailable)
		require.Equal(t, consent.OptedOut, b.Ledger().State)
		h.LetThrough()
		<-h.Result
		ledger, err := b.inbox(nil).SetConsent(t.Context(), note)
		require.NoError(t, err)
		require.Equal(t, consent.OptedOut, ledger.State)
	})

	t.Run("AbandonedAttemptIsWaitedForUntilNothingOfItCanCome", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		sendtest.Within(func() {
			_, _ = b.On(&sendtest.Process{At: 2, Mishap: sendtest.DieBefore}).Send(t.Context(), b.Request())
		})
		hasty := b.inbox(func(c *send.Config) { c.StopWait = 20 * time.Millisecond })
		b.Clock.Advance(lease + b.Config.Timeout - time.Nanosecond)
		_, err := hasty.RecordInbound(t.Context(), b.Inbound("SM1", "STOP"))
		require.ErrorIs(t, err, sms.ErrUnavailable)
		b.Clock.Advance(time.Microsecond)
		_, err = b.inbox(nil).RecordInbound(t.Context(), b.Inbound("SM1", "STOP"))
		require.NoError(t, err)
	})

	t.Run("S0_41_WaitIsNotEndedByCallingTheAttemptUnknown", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		sendtest.Within(func() {
			_, _ = b.On(&sendtest.Process{At: 2, Mishap: sendtest.DieBefore}).Send(t.Context(), b.Request())
		})
		hasty := b.inbox(func(c *send.Config) { c.StopWait = 20 * time.Millisecond })
		b.Clock.Advance(lease + b.Config.Timeout - time.Nanosecond)
		b.Reconcile()
		require.Equal(t, send.InFlight, b.Send("").Outcome)
		require.Equal(t, sms.Sending, b.Stored().Status)
		_, err := hasty.RecordInbound(t.Context(), b.Inbound("SM1", "STOP"))
		require.ErrorIs(t, err, sms.ErrUnavailable)
	})

	t.Run("OthersAndOtherWordsDoNotWait", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		h := b.SlowSend(nil)
		patient := b.inbox(nil)
		_, err := patient.RecordInbound(t.Context(), b.Inbound("SM1", "hello"))
		require.NoError(t, err)
		other := b.Inbound("SM2", "STOP")
		other.From = sendtest.Phone(t, "+14155550124")
		_, err = patient.RecordInbound(t.Context(), other)
		require.NoError(t, err)
		h.LetThrough()
		<-h.Result
	})
}

// looks is the store that says when it was asked for what is on its way.
type looks struct {
	sendtest.Store

	looked chan struct{}
}

func (l looks) HasInFlight(ctx context.Context, orgID uuid.UUID, phone string, after time.Time) (bool, error) {
	busy, err := l.Store.HasInFlight(ctx, orgID, phone, after)
	l.looked <- struct{}{}
	return busy, err
}
