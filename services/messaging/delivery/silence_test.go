package delivery_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/delivery"
	"paceline.internal/services/messaging/postgres"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

// held is a send that is claimed and waits at Twilio's door until it is let through.
type held struct {
	letThrough func()
	result     chan delivery.Result
}

func (b *bundle) hold(service func(func(*delivery.Config)) *delivery.Service) held {
	b.t.Helper()
	inside, release := make(chan struct{}), make(chan struct{})
	slow := service(func(c *delivery.Config) {
		c.Carrier = carrierFunc(func(ctx context.Context, out twilio.Outgoing) twilio.Outcome {
			close(inside)
			<-release
			return b.carrier.Send(context.WithoutCancel(ctx), out)
		})
	})
	h := held{letThrough: sync.OnceFunc(func() { close(release) }), result: make(chan delivery.Result, 1)}
	b.t.Cleanup(h.letThrough) // or a failure would wait for it
	go func() {
		result, _ := slow.Send(b.t.Context(), b.request())
		h.result <- result
	}()
	<-inside
	return h
}

func TestStopIsAnsweredAfterWhatIsOnItsWay(t *testing.T) {
	t.Parallel()
	type answer struct {
		m   delivery.Message
		err error
	}
	stop := func(b *bundle, s *delivery.Service, sid string) chan answer {
		answered := make(chan answer, 1)
		go func() {
			m, err := s.RecordInbound(b.t.Context(), b.text(sid, "STOP"))
			answered <- answer{m, err}
		}()
		return answered
	}
	// looks counts the looks for what is on its way, which show that somebody waits.
	looking := func(b *bundle, wait time.Duration) (*delivery.Service, chan struct{}) {
		looked := make(chan struct{}, 1000)
		return b.service(func(c *delivery.Config) {
			c.StopWait = wait
			c.Inbox = inbox{Store: b.store, looked: looked}
		}), looked
	}

	t.Run("S0_41_STOPIsAnsweredOnlyAfterTheSendIsSettled", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		h := b.hold(b.service)
		service, looked := looking(b, 10*time.Second)
		answered := stop(b, service, "SM1")
		for range 2 { // it has waited once and looks again
			select {
			case <-looked:
			case a := <-answered:
				require.Fail(t, "answered before the send was settled", "%v", a.err)
			}
		}
		require.Equal(t, consent.OptedOut, b.ledger().State, "in force long before the answer")
		require.Empty(t, answered)
		require.Empty(t, b.sent())
		h.letThrough()
		a := <-answered
		require.NoError(t, a.err)
		require.Equal(t, consent.OptOut, a.m.ConsentEffect)
		require.Equal(t, delivery.Accepted, (<-h.result).Outcome, "claimed before the STOP, accepted before its answer")
		require.Equal(t, sms.Queued, b.stored().Status)
	})

	t.Run("OneServiceWakesItsOwnWaitersBeforeThePoll", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		woken := func(who string) bool {
			looked := make(chan struct{}, 1000)
			inside, release := make(chan struct{}), make(chan struct{})
			service := b.service(func(c *delivery.Config) {
				c.StopWait = 45 * time.Millisecond // less than the poll
				c.Inbox = inbox{Store: b.store, looked: looked}
				c.Carrier = carrierFunc(func(context.Context, twilio.Outgoing) twilio.Outcome {
					close(inside)
					<-release
					return twilio.Outcome{Kind: twilio.Throttled}
				})
			})
			r, said := b.request(), b.text("SM"+who, "STOP")
			r.To, r.Key, said.From = phone(t, who), who, phone(t, who)
			sent := make(chan error, 1)
			go func() {
				_, err := service.Send(t.Context(), r)
				sent <- err
			}()
			<-inside
			answered := make(chan error, 1)
			go func() {
				_, err := service.RecordInbound(t.Context(), said)
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
		h := b.hold(b.service)
		hasty := b.service(func(c *delivery.Config) { c.StopWait = 20 * time.Millisecond })
		for range 2 { // the repeat of the SID waits as well
			_, err := hasty.RecordInbound(t.Context(), b.text("SM1", "STOP"))
			require.ErrorIs(t, err, delivery.ErrUnavailable)
			require.NotContains(t, err.Error(), theirs)
		}
		require.Equal(t, consent.OptedOut, b.ledger().State)
		h.letThrough()
		<-h.result
		m, err := hasty.RecordInbound(t.Context(), b.text("SM1", "STOP"))
		require.NoError(t, err)
		require.Equal(t, consent.OptOut, m.ConsentEffect)
		require.Len(t, b.ledger().Events, 2, "one STOP, however often it came")
	})

	t.Run("OperatorsOptOutWaitsAsWell", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		h := b.hold(b.service)
		hasty := b.service(func(c *delivery.Config) { c.StopWait = 20 * time.Millisecond })
		note := delivery.Note{
			OrgID: b.config.Sender.OrgID, Phone: phone(t, theirs), State: consent.OptedOut, Reason: "asked on the phone", At: b.clock.Now(),
		}
		_, err := hasty.SetConsent(t.Context(), note)
		require.ErrorIs(t, err, delivery.ErrUnavailable)
		require.Equal(t, consent.OptedOut, b.ledger().State)
		h.letThrough()
		<-h.result
		ledger, err := hasty.SetConsent(t.Context(), note)
		require.NoError(t, err)
		require.Equal(t, consent.OptedOut, ledger.State)
	})

	t.Run("AbandonedAttemptIsWaitedForUntilNothingOfItCanCome", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		within(func() { _, _ = b.on(&process{at: 2, mishap: dieBefore}).Send(t.Context(), b.request()) })
		hasty := b.service(func(c *delivery.Config) { c.StopWait = 20 * time.Millisecond })
		b.clock.Advance(lease + b.config.Timeout - time.Nanosecond)
		_, err := hasty.RecordInbound(t.Context(), b.text("SM1", "STOP"))
		require.ErrorIs(t, err, delivery.ErrUnavailable)
		b.clock.Advance(time.Microsecond)
		_, err = hasty.RecordInbound(t.Context(), b.text("SM1", "STOP"))
		require.NoError(t, err)
	})

	t.Run("S0_41_NobodyEndsTheWaitByCallingTheAttemptUnknown", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		within(func() { _, _ = b.on(&process{at: 2, mishap: dieBefore}).Send(t.Context(), b.request()) })
		hasty := b.service(func(c *delivery.Config) { c.StopWait = 20 * time.Millisecond })
		b.clock.Advance(lease + b.config.Timeout - time.Nanosecond)
		b.reconcile()
		require.Equal(t, delivery.InFlight, b.send("").Outcome)
		current, err := b.store.Expire(t.Context(), b.stored(), b.clock.Now(), b.config.Timeout)
		require.NoError(t, err)
		require.Equal(t, sms.Sending, current.Status)
		_, err = hasty.RecordInbound(t.Context(), b.text("SM1", "STOP"))
		require.ErrorIs(t, err, delivery.ErrUnavailable)
	})

	t.Run("OthersAndOtherWordsDoNotWait", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		h := b.hold(b.service)
		hasty := b.service(func(c *delivery.Config) { c.StopWait = 20 * time.Millisecond })
		_, err := hasty.RecordInbound(t.Context(), b.text("SM1", "hello"))
		require.NoError(t, err)
		other := b.text("SM2", "STOP")
		other.From = phone(t, "+14155550124")
		_, err = hasty.RecordInbound(t.Context(), other)
		require.NoError(t, err)
		h.letThrough()
		<-h.result
	})
}

// inbox is the store that says when somebody looks for what is on its way.
type inbox struct {
	*postgres.Store

	looked chan struct{}
}

func (i inbox) OnItsWay(ctx context.Context, orgID uuid.UUID, phone string, after time.Time) (bool, error) {
	busy, err := i.Store.OnItsWay(ctx, orgID, phone, after)
	i.looked <- struct{}{}
	return busy, err
}
