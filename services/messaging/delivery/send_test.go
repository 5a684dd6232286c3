package delivery_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	emulator "paceline.internal/emulators/twilio"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/delivery"
	"paceline.internal/services/messaging/postgres"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

func TestSend(t *testing.T) {
	t.Parallel()

	t.Run("S0_20_S1_04_MessageRowIsWrittenBeforeTheProviderCall", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		var during delivery.Message
		service := b.service(func(c *delivery.Config) {
			c.Carrier = carrierFunc(func(ctx context.Context, out twilio.Outgoing) twilio.Outcome {
				during = b.stored()
				require.Equal(t, b.config.PublicURL+"/api/webhooks/twilio/status?message_id="+during.ID.String()+"#rt=4000&rc=3&rp=all", out.StatusCallback)
				return b.carrier.Send(ctx, out)
			})
		})
		result, err := service.Send(t.Context(), b.request())
		require.NoError(t, err)
		require.Equal(t, delivery.Accepted, result.Outcome)
		require.Equal(t, sms.Sending, during.Status)
		require.Empty(t, during.SID)
		require.Equal(t, b.clock.Now().Add(lease), during.LeaseUntil)
		require.Equal(t, during.ID, result.Message.ID)
	})

	t.Run("S0_22_AcceptedAnswerCarriesTheConfirmedRow", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		result, err := b.service(nil).Send(t.Context(), b.request())
		require.NoError(t, err)
		require.Equal(t, b.stored(), *result.Message)
		require.Equal(t, b.sent()[0].SID, result.Message.SID)
		require.Equal(t, sms.Queued, result.Message.Status)
		require.Equal(t, b.clock.Now(), result.Message.AcceptedAt)
		require.Equal(t, ours, result.Message.From)
		require.Equal(t, 1, result.Message.Segments)
		require.Equal(t, "c-1", result.Message.CorrelationID)
	})

	t.Run("S0_19_DeliveredRowWithTheKeySendsNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, err := b.service(nil).Send(t.Context(), b.request())
		require.NoError(t, err)
		b.pass(time.Second)
		result, err := b.service(nil).Send(t.Context(), b.request())
		require.NoError(t, err)
		require.Equal(t, delivery.AlreadyAccepted, result.Outcome)
		require.Equal(t, sms.Delivered, result.Message.Status)
		require.Len(t, b.sent(), 1)
	})

	t.Run("S0_19_FailedRowWithAProviderIDSendsNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.emulator.SetScript(emulator.Script{OnFate: func(emulator.Message) emulator.Fate {
			return emulator.Fate{Final: emulator.StatusUndelivered, Code: 30003}
		}})
		_, err := b.service(nil).Send(t.Context(), b.request())
		require.NoError(t, err)
		b.pass(time.Second)
		result, err := b.service(nil).Send(t.Context(), b.request())
		require.NoError(t, err)
		require.Equal(t, delivery.AlreadyAccepted, result.Outcome)
		require.Equal(t, sms.Undelivered, result.Message.Status)
		require.Equal(t, 30003, result.Message.ErrorCode)
		require.Len(t, b.sent(), 1)
	})

	t.Run("S0_30_SamePayloadTwiceIsOneRowAndOneProviderSend", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		first, err := b.service(nil).Send(t.Context(), b.request())
		require.NoError(t, err)
		second, err := b.service(nil).Send(t.Context(), b.request())
		require.NoError(t, err)
		require.Equal(t, delivery.Accepted, first.Outcome)
		require.Equal(t, delivery.AlreadyAccepted, second.Outcome)
		require.Equal(t, first.Message, second.Message)
		require.Len(t, b.sent(), 1)
	})

	t.Run("S0_32_S1_05_ConcurrentIdenticalSendsAreOneSMS", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		service, start := b.service(nil), make(chan struct{})
		outcomes := make([]delivery.Outcome, 16)
		var all sync.WaitGroup
		for i := range outcomes {
			all.Go(func() {
				<-start
				result, err := service.Send(t.Context(), b.request())
				if err == nil {
					outcomes[i] = result.Outcome
				}
			})
		}
		close(start)
		all.Wait()
		counts := map[delivery.Outcome]int{}
		for _, o := range outcomes {
			counts[o]++
		}
		require.Equal(t, 1, counts[delivery.Accepted], counts)
		require.Equal(t, 15, counts[delivery.InFlight]+counts[delivery.AlreadyAccepted], counts)
		require.Len(t, b.sent(), 1)
		require.Len(t, b.ledger().Events, 1)
	})

	t.Run("SameKeyWithAnotherRecipientOrBodyIsRefused", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, err := b.service(nil).Send(t.Context(), b.request())
		require.NoError(t, err)
		other := b.request()
		other.To = phone(t, "+14155550199")
		_, err = b.service(nil).Send(t.Context(), other)
		require.ErrorIs(t, err, delivery.ErrKeyReused)
		other = b.request()
		other.Body += "!"
		_, err = b.service(nil).Send(t.Context(), other)
		require.ErrorIs(t, err, delivery.ErrKeyReused)
		require.Len(t, b.sent(), 1)
	})

	t.Run("SameKeyInAnotherOrganisationHasNoSender", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		r := b.request()
		r.OrgID = uuid.Must(uuid.NewV7())
		_, err := b.service(nil).Send(t.Context(), r)
		require.ErrorIs(t, err, delivery.ErrNoSender)
	})

	t.Run("S1_05_LiveLeaseIsInFlight", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		inside, release := make(chan struct{}), make(chan struct{})
		slow := b.service(func(c *delivery.Config) {
			c.Carrier = carrierFunc(func(ctx context.Context, out twilio.Outgoing) twilio.Outcome {
				close(inside)
				<-release
				return b.carrier.Send(ctx, out)
			})
		})
		done := make(chan delivery.Result, 1)
		go func() {
			result, _ := slow.Send(t.Context(), b.request())
			done <- result
		}()
		<-inside
		second, err := b.service(nil).Send(t.Context(), b.request())
		require.NoError(t, err)
		require.Equal(t, delivery.InFlight, second.Outcome)
		require.Positive(t, second.RetryAfter)
		close(release)
		require.Equal(t, delivery.Accepted, (<-done).Outcome)
		require.Len(t, b.sent(), 1)
	})

	t.Run("InFlightWaitGrowsWithItsAge", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		inside, release := make(chan struct{}), make(chan struct{})
		slow := b.service(func(c *delivery.Config) {
			c.Carrier = carrierFunc(func(ctx context.Context, out twilio.Outgoing) twilio.Outcome {
				close(inside)
				<-release
				return b.carrier.Send(ctx, out)
			})
		})
		done := make(chan error, 1)
		go func() {
			_, err := slow.Send(t.Context(), b.request())
			done <- err
		}()
		<-inside
		asked := 0
		for age := time.Duration(0); age < lease; asked++ {
			result, err := b.service(nil).Send(t.Context(), b.request())
			require.NoError(t, err)
			require.Equal(t, delivery.InFlight, result.Outcome)
			require.Equal(t, max(age, 2*time.Second), result.RetryAfter)
			b.clock.Advance(result.RetryAfter)
			age += result.RetryAfter
		}
		require.LessOrEqual(t, asked, 5, "QStash has a retry left when the lease is over")
		close(release)
		require.NoError(t, <-done)
	})

	t.Run("ExpiredLeaseBecomesUnknownAndTheLateTruthIsRecorded", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		inside, release := make(chan struct{}), make(chan struct{})
		slow := b.service(func(c *delivery.Config) {
			c.Carrier = carrierFunc(func(ctx context.Context, out twilio.Outgoing) twilio.Outcome {
				close(inside)
				<-release
				return b.carrier.Send(ctx, out)
			})
			c.Timeout = time.Minute
		})
		done := make(chan delivery.Result, 1)
		go func() {
			result, _ := slow.Send(t.Context(), b.request())
			done <- result
		}()
		<-inside
		b.clock.Advance(lease)
		second, err := b.service(nil).Send(t.Context(), b.request())
		require.NoError(t, err)
		require.Equal(t, delivery.InFlight, second.Outcome, "a STOP waits for it until nothing of it can come")
		b.clock.Advance(b.config.Timeout)
		for range 2 {
			second, err := b.service(nil).Send(t.Context(), b.request())
			require.NoError(t, err)
			require.Equal(t, delivery.Unknown, second.Outcome)
			require.Equal(t, 2*time.Second, second.RetryAfter)
		}
		require.Empty(t, b.sent())
		close(release)
		require.Equal(t, delivery.Accepted, (<-done).Outcome)
		require.Equal(t, b.sent()[0].SID, b.stored().SID)
		require.Len(t, b.sent(), 1)
	})

	t.Run("UnknownWaitGrowsWithItsAge", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.emulator.SetScript(lose(emulator.AnswerServerError, false))
		result, err := b.service(nil).Send(t.Context(), b.request())
		require.NoError(t, err)
		require.Equal(t, delivery.Unknown, result.Outcome)
		require.Equal(t, 2*time.Second, result.RetryAfter)
		for _, wait := range []struct{ pass, want time.Duration }{{10 * time.Second, 10 * time.Second}, {time.Hour, 30 * time.Second}} {
			b.clock.Advance(wait.pass)
			result, err = b.service(nil).Send(t.Context(), b.request())
			require.NoError(t, err)
			require.Equal(t, delivery.Unknown, result.Outcome)
			require.Equal(t, wait.want, result.RetryAfter)
		}
		require.Empty(t, b.sent(), "an unknown send is never repeated")
	})

	t.Run("S1_06_ThrottledIsSentAfterItsWaitAndNotBefore", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.emulator.SetScript(lose(emulator.AnswerTooMany, false))
		result, err := b.service(nil).Send(t.Context(), b.request())
		require.NoError(t, err)
		require.Equal(t, delivery.Throttled, result.Outcome)
		require.Equal(t, time.Second, result.RetryAfter)
		result, err = b.service(nil).Send(t.Context(), b.request())
		require.NoError(t, err)
		require.Equal(t, delivery.Throttled, result.Outcome)
		require.Equal(t, 1, b.stored().Attempts)
		b.clock.Advance(time.Second)
		result, err = b.service(nil).Send(t.Context(), b.request())
		require.NoError(t, err)
		require.Equal(t, delivery.Accepted, result.Outcome)
		require.Equal(t, 2, result.Message.Attempts)
		require.Zero(t, result.Message.ErrorCode)
		require.Len(t, b.sent(), 1)
	})

	t.Run("RejectedStaysRejectedWithItsExplanation", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		service := b.service(func(c *delivery.Config) {
			c.Carrier = carrierFunc(func(context.Context, twilio.Outgoing) twilio.Outcome {
				return twilio.Outcome{Kind: twilio.Rejected, Code: 21614}
			})
		})
		for _, s := range []*delivery.Service{service, b.service(nil)} {
			result, err := s.Send(t.Context(), b.request())
			require.NoError(t, err)
			require.Equal(t, delivery.Rejected, result.Outcome)
			require.Equal(t, 21614, result.Message.ErrorCode)
			require.NotEmpty(t, result.Explanation)
		}
		require.Empty(t, b.sent())
	})

	t.Run("RefusalForOurOwnSetUpIsSentOnceThatIsMended", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		misconfigured := b.service(func(c *delivery.Config) {
			c.Carrier = carrierFunc(func(context.Context, twilio.Outgoing) twilio.Outcome {
				return twilio.Outcome{Kind: twilio.Rejected, Code: 20003}
			})
		})
		result, err := misconfigured.Send(t.Context(), b.request())
		require.NoError(t, err)
		require.Equal(t, delivery.Throttled, result.Outcome, "nobody's phone is at fault")
		require.Equal(t, 20003, result.Message.ErrorCode)
		require.NotEmpty(t, result.Explanation)
		require.Equal(t, 30*time.Second, result.RetryAfter)

		b.clock.Advance(30 * time.Second)
		result, err = b.service(nil).Send(t.Context(), b.request())
		require.NoError(t, err)
		require.Equal(t, delivery.Accepted, result.Outcome)
		require.Len(t, b.sent(), 1)
	})

	t.Run("CallerWhoHangsUpLosesNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		ctx, hangUp := context.WithCancel(t.Context())
		service := b.service(func(c *delivery.Config) {
			c.Carrier = carrierFunc(func(ctx context.Context, out twilio.Outgoing) twilio.Outcome {
				hangUp()
				return b.carrier.Send(ctx, out)
			})
		})
		_, _ = service.Send(ctx, b.request()) // nobody is there to hear the answer
		require.True(t, b.stored().Accepted())
		require.Len(t, b.sent(), 1)
	})

	t.Run("S0_65_CallerWhoHangsUpDuringTheClaimLosesNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		ctx, hangUp := context.WithCancel(t.Context())
		service := b.service(func(c *delivery.Config) {
			c.Store = claims{Store: b.store, around: func(ctx context.Context, a delivery.Attempt) (delivery.Claim, error) {
				hangUp() // the claim is on its way to the database
				return b.store.Claim(ctx, a)
			}}
		})
		_, _ = service.Send(ctx, b.request())
		require.True(t, b.stored().Accepted(), "a row that is claimed is sent, or nobody would send it")
		require.Len(t, b.sent(), 1)
	})

	t.Run("S0_65_ClaimWhoseAnswerIsLostIsStillOurs", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		asked := 0
		service := b.service(func(c *delivery.Config) {
			c.Store = claims{Store: b.store, around: func(ctx context.Context, a delivery.Attempt) (delivery.Claim, error) {
				claim, err := b.store.Claim(ctx, a)
				if asked++; asked == 1 {
					return delivery.Claim{}, delivery.ErrUnavailable
				}
				return claim, err
			}}
		})
		result, err := service.Send(t.Context(), b.request())
		require.NoError(t, err)
		require.Equal(t, delivery.Accepted, result.Outcome)
		require.Len(t, b.sent(), 1)
	})

	t.Run("S0_65_ClaimThatComesLateIsNoSecondOne", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		var late *delivery.Attempt
		service := b.service(func(c *delivery.Config) {
			c.Store = claims{Store: b.store, around: func(ctx context.Context, a delivery.Attempt) (delivery.Claim, error) {
				if late == nil { // the connection is lost, the statement still on its way
					late = &a
					return delivery.Claim{}, delivery.ErrUnavailable
				}
				require.NotEqual(t, late.MessageID, a.MessageID, "two inserts at once must collide by their key and not by their id")
				require.Equal(t, late.Token, a.Token)
				return b.store.Claim(ctx, a)
			}}
		})
		result, err := service.Send(t.Context(), b.request())
		require.NoError(t, err)
		require.Equal(t, delivery.Accepted, result.Outcome)
		claim, err := b.store.Claim(t.Context(), *late)
		require.NoError(t, err)
		require.False(t, claim.Won)
		require.Equal(t, result.Message.ID, claim.Message.ID)
		require.Len(t, b.sent(), 1)
	})

	t.Run("S1_35_AttemptThatWakesUpAfterItsLeaseCallsNobody", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		asleep := b.service(func(c *delivery.Config) {
			c.Store = claims{Store: b.store, around: func(ctx context.Context, a delivery.Attempt) (delivery.Claim, error) {
				claim, err := b.store.Claim(ctx, a)
				b.clock.Advance(lease) // the machine was suspended
				return claim, err
			}}
		})
		result, err := asleep.Send(t.Context(), b.request())
		require.NoError(t, err)
		require.Equal(t, delivery.Throttled, result.Outcome)
		require.Empty(t, b.sent(), "others take the text for lost by then, and a STOP may have come between")
		b.clock.Advance(time.Second)
		result, err = b.service(nil).Send(t.Context(), b.request())
		require.NoError(t, err)
		require.Equal(t, delivery.Accepted, result.Outcome)
		require.Len(t, b.sent(), 1)
	})

	t.Run("ReceiptFasterThanTheAnswerIsKept", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		service := b.service(func(c *delivery.Config) {
			c.Carrier = carrierFunc(func(ctx context.Context, out twilio.Outgoing) twilio.Outcome {
				outcome := b.carrier.Send(ctx, out)
				b.pass(time.Second)
				return outcome
			})
		})
		result, err := service.Send(t.Context(), b.request())
		require.NoError(t, err)
		require.Equal(t, delivery.Accepted, result.Outcome)
		require.Equal(t, sms.Delivered, result.Message.Status)
		require.True(t, result.Message.AcceptedAt.Before(b.clock.Now()), "accepted when the first receipt came")
	})

	t.Run("NothingPersonalIsLogged", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		service := b.service(nil)
		_, err := service.Send(t.Context(), b.request())
		require.NoError(t, err)
		b.pass(time.Second)
		_, err = service.RecordInbound(t.Context(), b.text("SM1", "leave me alone, STOP"))
		require.NoError(t, err)
		logged := b.logged.String()
		require.Contains(t, logged, "messaging.sms_send_answered")
		require.Contains(t, logged, "messaging.sms_receipt_recorded")
		require.Contains(t, logged, "messaging.sms_inbound_recorded")
		for _, secret := range []string{theirs, theirs[1:], ours, body, "leave me alone"} {
			require.NotContains(t, logged, secret)
		}
	})
}

func TestSendAndConsent(t *testing.T) {
	t.Parallel()

	t.Run("R_07_FirstSendWithoutARecordSaysThatConsentWasCollectedElsewhere", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, err := b.service(nil).Send(t.Context(), b.request())
		require.NoError(t, err)
		require.Equal(t, []delivery.LedgerEvent{
			{
				At: b.clock.Now(), State: consent.OptedIn, Source: delivery.FromElsewhere, Sender: ours,
				Seq: 1, PrevHash: consent.NoHash, Hash: b.ledger().Chain.Head,
			},
		}, b.ledger().Events)
	})

	t.Run("R_07_ConsentRecordIsKeptOnceAndNeverBesideAnOptOut", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		words := func() (all []string) {
			for _, e := range b.ledger().Events {
				if e.Source == delivery.FromFirstSend {
					require.Equal(t, consent.OptedIn, e.State)
					all = append(all, e.Words)
				}
			}
			return all
		}
		send := func(key, shown string) delivery.Outcome {
			r := b.request()
			r.Key, r.Consent = key, consent.Given{Source: "web_form", WordsShown: shown, CollectedAt: b.clock.Now().Add(-time.Hour)}
			result, err := b.service(nil).Send(t.Context(), r)
			require.NoError(t, err)
			return result.Outcome
		}
		said := func(shown string) string { return shown + "\nsource: web_form\ncollected_at: 2026-11-20T11:00:00Z" }
		require.Equal(t, delivery.Accepted, send("a", "Text me"))
		require.Equal(t, []string{said("Text me")}, words())
		require.Len(t, b.ledger().Events, 1)
		require.Equal(t, delivery.AlreadyAccepted, send("a", "Text me"))
		require.Equal(t, []string{said("Text me")}, words(), "a repeat adds nothing")
		require.Equal(t, delivery.Accepted, send("b", "Text me again"))
		require.Equal(t, []string{said("Text me"), said("Text me again")}, words())
		_, err := b.service(nil).RecordInbound(t.Context(), b.text("SM1", "STOP"))
		require.NoError(t, err)
		require.Equal(t, delivery.OptedOut, send("c", "Text me after all"))
		require.Len(t, words(), 2)
		require.Equal(t, consent.OptedOut, b.ledger().State)
		require.Nil(t, b.ledger().Broken)
	})

	t.Run("S0_41_OptedOutBeforeTheFirstAttemptStoresAndSendsNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, err := b.service(nil).RecordInbound(t.Context(), b.text("SM1", "STOP"))
		require.NoError(t, err)
		result, err := b.service(nil).Send(t.Context(), b.request())
		require.NoError(t, err)
		require.Equal(t, delivery.Result{Outcome: delivery.OptedOut}, result)
		require.Empty(t, b.sent())
	})

	t.Run("S0_41_OptedOutAfterAThrottledAttemptSendsNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.emulator.SetScript(lose(emulator.AnswerTooMany, false))
		_, err := b.service(nil).Send(t.Context(), b.request())
		require.NoError(t, err)
		_, err = b.service(nil).RecordInbound(t.Context(), b.text("SM1", "STOP"))
		require.NoError(t, err)
		b.clock.Advance(time.Minute)
		result, err := b.service(nil).Send(t.Context(), b.request())
		require.NoError(t, err)
		require.Equal(t, delivery.OptedOut, result.Outcome)
		require.Empty(t, b.sent())
	})

	t.Run("AcceptedStaysAlreadyAcceptedAfterSTOP", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, err := b.service(nil).Send(t.Context(), b.request())
		require.NoError(t, err)
		_, err = b.service(nil).RecordInbound(t.Context(), b.text("SM1", "STOP"))
		require.NoError(t, err)
		result, err := b.service(nil).Send(t.Context(), b.request())
		require.NoError(t, err)
		require.Equal(t, delivery.AlreadyAccepted, result.Outcome)
	})

	t.Run("S0_69_STARTRestoresConsentAndSTOPOutlivesTheEpisode", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		service := b.service(nil)
		_, err := service.RecordInbound(t.Context(), b.text("SM1", "STOP"))
		require.NoError(t, err)
		next := b.request()
		next.Key = "onboarding:p:another-session:1"
		result, err := service.Send(t.Context(), next)
		require.NoError(t, err)
		require.Equal(t, delivery.OptedOut, result.Outcome)
		m, err := service.RecordInbound(t.Context(), b.text("SM2", "START"))
		require.NoError(t, err)
		require.Equal(t, consent.OptIn, m.ConsentEffect)
		result, err = service.Send(t.Context(), next)
		require.NoError(t, err)
		require.Equal(t, delivery.Accepted, result.Outcome)
	})

	t.Run("RefusalForAnOptOutAtTwilioIsRecorded", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, err := b.service(nil).Send(t.Context(), b.request())
		require.NoError(t, err)
		_, err = b.emulator.Receive(t.Context(), theirs, ours, "STOP") // nobody told us
		require.NoError(t, err)
		next := b.request()
		next.Key = "another"
		for range 2 {
			result, err := b.service(nil).Send(t.Context(), next)
			require.NoError(t, err)
			require.Equal(t, delivery.OptedOut, result.Outcome)
			require.Equal(t, sms.Rejected, result.Message.Status)
			require.Equal(t, 21610, result.Message.ErrorCode)
		}
		ledger := b.ledger()
		require.Equal(t, consent.OptedOut, ledger.State)
		require.Equal(t, delivery.FromTwilio, ledger.Events[1].Source)
		require.Len(t, ledger.Events, 2)
	})

	t.Run("STOPThatCommitsDuringTheClaimWins", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		first := b.request()
		first.Key = "before"
		_, err := b.service(nil).Send(t.Context(), first)
		require.NoError(t, err)
		for _, stop := range []bool{false, true} { // the rollback shows that the claim waited for the lock, not for luck
			tx, err := b.pool.Begin(t.Context())
			require.NoError(t, err)
			t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }) // or a failure would wait for the pool
			_, err = tx.Exec(t.Context(), "update consents set state = 'opted_out'")
			require.NoError(t, err)
			r := b.request()
			r.Key = map[bool]string{true: "stopped", false: "sent"}[stop]
			done := make(chan delivery.Result, 1)
			go func() {
				result, _ := b.service(nil).Send(t.Context(), r)
				done <- result
			}()
			b.awaitBlocked()
			want := delivery.Accepted
			if stop {
				require.NoError(t, tx.Commit(t.Context()))
				want = delivery.OptedOut
			} else {
				require.NoError(t, tx.Rollback(t.Context()))
			}
			require.Equal(t, want, (<-done).Outcome)
		}
		require.Len(t, b.sent(), 2)
	})

	t.Run("SendsRacingWithSTOPNeverFollowIt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		service := b.service(nil)
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				r := b.request()
				r.Key = string(rune('a' + i))
				_, _ = service.Send(t.Context(), r)
			})
		}
		_, err := service.RecordInbound(t.Context(), b.text("SM1", "STOP"))
		require.NoError(t, err)
		stopped := b.claimed()
		r := b.request()
		r.Key = "after"
		result, err := service.Send(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, delivery.OptedOut, result.Outcome)
		all.Wait()
		require.Equal(t, stopped, b.claimed(), "no send was claimed after STOP had been acknowledged")
	})
}

// awaitBlocked waits until a backend of the database waits for a lock; Postgres has no signal for that.
func (b *bundle) awaitBlocked() {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		var waiting bool
		err := b.pool.QueryRow(b.t.Context(),
			"select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')").Scan(&waiting)
		return err == nil && waiting
	}, 10*time.Second, 2*time.Millisecond)
}

func (b *bundle) claimed() int {
	b.t.Helper()
	rows, err := b.pool.Query(b.t.Context(), "select count(*) from sms_messages where direction = 'outbound'")
	require.NoError(b.t, err)
	n, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
	require.NoError(b.t, err)
	return n
}

// claims is the store with something around its claims.
type claims struct {
	*postgres.Store

	around func(ctx context.Context, a delivery.Attempt) (delivery.Claim, error)
}

func (c claims) Claim(ctx context.Context, a delivery.Attempt) (delivery.Claim, error) {
	return c.around(ctx, a)
}

// lose makes the first answer of Twilio something else than its own.
func lose(answer emulator.Answer, commit bool) emulator.Script {
	return emulator.Script{OnCreate: func(n int, _ emulator.Message) emulator.CreateFault {
		if n > 1 {
			return emulator.CreateFault{}
		}
		return emulator.CreateFault{Answer: answer, Commit: commit}
	}}
}
