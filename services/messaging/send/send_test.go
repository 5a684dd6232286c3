package send_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	emulator "paceline.internal/emulators/twilio"
	"paceline.internal/services/messaging/consent"
	ledgers "paceline.internal/services/messaging/consent/ledger"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/messaging/sendtest"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

func TestSend(t *testing.T) {
	t.Parallel()
	messageIsWrittenAndAnswered(t)
	repeatedSendsAreOne(t)
	waitsGrowWithTheAgeOfTheSend(t)
	refusalsAreThrottledOrFinal(t)
	hangUpsLoseNothing(t)
	answersAndReceiptsAreKept(t)
}

func messageIsWrittenAndAnswered(t *testing.T) {
	t.Helper()
	t.Run("S0_20_S1_04_MessageRowIsWrittenBeforeTheProviderCall", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		var during send.Message
		service := b.Service(func(c *send.Config) {
			c.Carrier = sendtest.CarrierFunc(func(ctx context.Context, out twilio.Outgoing) twilio.Outcome {
				during = b.Stored()
				require.Equal(t, b.Config.PublicURL+"/api/webhooks/twilio/status?message_id="+during.ID.String()+"#rt=4000&rc=3&rp=all", out.StatusCallback)
				return b.Carrier.Send(ctx, out)
			})
		})
		result, err := service.Send(t.Context(), b.Request())
		require.NoError(t, err)
		require.Equal(t, send.Accepted, result.Outcome)
		require.Equal(t, sms.Sending, during.Status)
		require.Empty(t, during.SID)
		require.Equal(t, b.Clock.Now().Add(lease), during.LeaseUntil)
		require.Equal(t, during.ID, result.Message.ID)
	})

	t.Run("S0_22_AcceptedAnswerCarriesTheConfirmedRow", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		result := b.Send("")
		require.Equal(t, b.Stored(), *result.Message)
		require.Equal(t, b.Sent()[0].SID, result.Message.SID)
		require.Equal(t, sms.Queued, result.Message.Status)
		require.Equal(t, b.Clock.Now(), result.Message.AcceptedAt)
		require.Equal(t, ours, result.Message.From)
		require.Equal(t, 1, result.Message.Segments)
		require.Equal(t, "c-1", result.Message.CorrelationID)
	})

	t.Run("S0_19_DeliveredRowWithTheKeySendsNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Send("")
		b.Pass(time.Second)
		result := b.Send("")
		require.Equal(t, send.AlreadyAccepted, result.Outcome)
		require.Equal(t, sms.Delivered, result.Message.Status)
		require.Len(t, b.Sent(), 1)
	})

	t.Run("S0_19_FailedRowWithAProviderIDSendsNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(emulator.Script{OnFate: func(emulator.Message) emulator.Fate {
			return emulator.Fate{Final: emulator.StatusUndelivered, Code: 30003}
		}})
		b.Send("")
		b.Pass(time.Second)
		result := b.Send("")
		require.Equal(t, send.AlreadyAccepted, result.Outcome)
		require.Equal(t, sms.Undelivered, result.Message.Status)
		require.Equal(t, 30003, result.Message.ErrorCode)
		require.Len(t, b.Sent(), 1)
	})
}

func repeatedSendsAreOne(t *testing.T) {
	t.Helper()
	t.Run("S0_30_SamePayloadTwiceIsOneRowAndOneProviderSend", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		first := b.Send("")
		second := b.Send("")
		require.Equal(t, send.Accepted, first.Outcome)
		require.Equal(t, send.AlreadyAccepted, second.Outcome)
		require.Equal(t, first.Message, second.Message)
		require.Len(t, b.Sent(), 1)
	})

	t.Run("S0_32_S1_05_ConcurrentIdenticalSendsAreOneSMS", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		service, start := b.Service(nil), make(chan struct{})
		outcomes := make([]send.Outcome, 16)
		var all sync.WaitGroup
		for i := range outcomes {
			all.Go(func() {
				<-start
				result, err := service.Send(t.Context(), b.Request())
				if err == nil {
					outcomes[i] = result.Outcome
				}
			})
		}
		close(start)
		all.Wait()
		counts := map[send.Outcome]int{}
		for _, o := range outcomes {
			counts[o]++
		}
		require.Equal(t, 1, counts[send.Accepted], counts)
		require.Equal(t, 15, counts[send.InFlight]+counts[send.AlreadyAccepted], counts)
		require.Len(t, b.Sent(), 1)
		require.Len(t, b.Ledger().Events, 1)
	})

	t.Run("SameKeyWithAnotherRecipientOrBodyIsRefused", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Send("")
		other := b.Request()
		other.To = sendtest.Phone(t, "+14155550199")
		_, err := b.Service(nil).Send(t.Context(), other)
		require.ErrorIs(t, err, send.ErrKeyReused)
		other = b.Request()
		other.Body += "!"
		_, err = b.Service(nil).Send(t.Context(), other)
		require.ErrorIs(t, err, send.ErrKeyReused)
		require.Len(t, b.Sent(), 1)
	})

	t.Run("SameKeyInAnotherOrganisationHasNoSender", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		r := b.Request()
		r.OrgID = uuid.Must(uuid.NewV7())
		_, err := b.Service(nil).Send(t.Context(), r)
		require.ErrorIs(t, err, senders.ErrNoSender)
	})

	t.Run("S1_05_LiveLeaseIsInFlight", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		slow := b.SlowSend(nil)
		second := b.Send("")
		require.Equal(t, send.InFlight, second.Outcome)
		require.Positive(t, second.RetryAfter)
		slow.LetThrough()
		require.Equal(t, send.Accepted, (<-slow.Result).Outcome)
		require.Len(t, b.Sent(), 1)
	})
}

func waitsGrowWithTheAgeOfTheSend(t *testing.T) {
	t.Helper()
	t.Run("InFlightWaitGrowsWithItsAge", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		slow := b.SlowSend(nil)
		asked := 0
		for age := time.Duration(0); age < lease; asked++ {
			result := b.Send("")
			require.Equal(t, send.InFlight, result.Outcome)
			require.Equal(t, max(age, 2*time.Second), result.RetryAfter)
			b.Clock.Advance(result.RetryAfter)
			age += result.RetryAfter
		}
		require.LessOrEqual(t, asked, 5, "QStash has a retry left when the lease is over")
		slow.LetThrough()
		require.Equal(t, send.Accepted, (<-slow.Result).Outcome)
	})

	t.Run("ExpiredLeaseBecomesUnknownAndTheLateTruthIsRecorded", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		slow := b.SlowSend(func(c *send.Config) { c.Timeout = time.Minute })
		b.Clock.Advance(lease)
		second := b.Send("")
		require.Equal(t, send.InFlight, second.Outcome, "a STOP waits for it until nothing of it can come")
		b.Clock.Advance(b.Config.Timeout)
		for range 2 {
			second := b.Send("")
			require.Equal(t, send.Unknown, second.Outcome)
			require.Equal(t, 2*time.Second, second.RetryAfter)
		}
		require.Empty(t, b.Sent())
		slow.LetThrough()
		require.Equal(t, send.Accepted, (<-slow.Result).Outcome)
		require.Equal(t, b.Sent()[0].SID, b.Stored().SID)
		require.Len(t, b.Sent(), 1)
	})

	t.Run("UnknownWaitGrowsWithItsAge", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(sendtest.Lose(emulator.AnswerServerError, false))
		result := b.Send("")
		require.Equal(t, send.Unknown, result.Outcome)
		require.Equal(t, 2*time.Second, result.RetryAfter)
		for _, wait := range []struct{ pass, want time.Duration }{{10 * time.Second, 10 * time.Second}, {time.Hour, 30 * time.Second}} {
			b.Clock.Advance(wait.pass)
			result = b.Send("")
			require.Equal(t, send.Unknown, result.Outcome)
			require.Equal(t, wait.want, result.RetryAfter)
		}
		require.Empty(t, b.Sent(), "an unknown send is never repeated")
	})
}

func refusalsAreThrottledOrFinal(t *testing.T) {
	t.Helper()
	t.Run("S1_06_ThrottledIsSentAfterItsWaitAndNotBefore", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(sendtest.Lose(emulator.AnswerTooMany, false))
		result := b.Send("")
		require.Equal(t, send.Throttled, result.Outcome)
		require.Equal(t, time.Second, result.RetryAfter)
		result = b.Send("")
		require.Equal(t, send.Throttled, result.Outcome)
		require.Equal(t, 1, b.Stored().Attempts)
		b.Clock.Advance(time.Second)
		result = b.Send("")
		require.Equal(t, send.Accepted, result.Outcome)
		require.Equal(t, 2, result.Message.Attempts)
		require.Zero(t, result.Message.ErrorCode)
		require.Len(t, b.Sent(), 1)
	})

	t.Run("RejectedStaysRejectedWithItsExplanation", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		service := b.Service(func(c *send.Config) {
			c.Carrier = sendtest.CarrierFunc(func(context.Context, twilio.Outgoing) twilio.Outcome {
				return twilio.Outcome{Status: sms.Rejected, Code: 21614}
			})
		})
		for _, s := range []*send.Service{service, b.Service(nil)} {
			result, err := s.Send(t.Context(), b.Request())
			require.NoError(t, err)
			require.Equal(t, send.Rejected, result.Outcome)
			require.Equal(t, 21614, result.Message.ErrorCode)
			require.NotEmpty(t, result.Explanation)
		}
		require.Empty(t, b.Sent())
	})

	t.Run("RefusalForOurOwnSetUpIsSentOnceThatIsMended", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		misconfigured := b.Service(func(c *send.Config) {
			c.Carrier = sendtest.CarrierFunc(func(context.Context, twilio.Outgoing) twilio.Outcome {
				return twilio.Outcome{Status: sms.Rejected, Code: 20003}
			})
		})
		result, err := misconfigured.Send(t.Context(), b.Request())
		require.NoError(t, err)
		require.Equal(t, send.Throttled, result.Outcome, "the fault is not the recipient's")
		require.Equal(t, 20003, result.Message.ErrorCode)
		require.NotEmpty(t, result.Explanation)
		require.Equal(t, 30*time.Second, result.RetryAfter)

		b.Clock.Advance(30 * time.Second)
		result = b.Send("")
		require.Equal(t, send.Accepted, result.Outcome)
		require.Len(t, b.Sent(), 1)
	})
}

func hangUpsLoseNothing(t *testing.T) {
	t.Helper()
	t.Run("CallerWhoHangsUpLosesNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		ctx, hangUp := context.WithCancel(t.Context())
		service := b.Service(func(c *send.Config) {
			c.Carrier = sendtest.CarrierFunc(func(ctx context.Context, out twilio.Outgoing) twilio.Outcome {
				hangUp()
				return b.Carrier.Send(ctx, out)
			})
		})
		_, _ = service.Send(ctx, b.Request()) // the caller does not wait for the answer
		require.True(t, b.Stored().Accepted())
		require.Len(t, b.Sent(), 1)
	})

	t.Run("S0_65_CallerWhoHangsUpDuringTheClaimLosesNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		ctx, hangUp := context.WithCancel(t.Context())
		service := b.Service(func(c *send.Config) {
			c.Store = sendtest.Claims{Store: b.Store, Around: func(ctx context.Context, a send.Attempt) (send.Claim, error) {
				hangUp() // the claim is on its way to the database
				return b.Store.Claim(ctx, a)
			}}
		})
		_, _ = service.Send(ctx, b.Request())
		require.True(t, b.Stored().Accepted(), "the attempt that claimed the row sends it; no other attempt would")
		require.Len(t, b.Sent(), 1)
	})

	t.Run("S0_65_ClaimWhoseAnswerIsLostIsStillOurs", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		asked := 0
		service := b.Service(func(c *send.Config) {
			c.Store = sendtest.Claims{Store: b.Store, Around: func(ctx context.Context, a send.Attempt) (send.Claim, error) {
				claim, err := b.Store.Claim(ctx, a)
				if asked++; asked == 1 {
					return send.Claim{}, sms.ErrUnavailable
				}
				return claim, err
			}}
		})
		result, err := service.Send(t.Context(), b.Request())
		require.NoError(t, err)
		require.Equal(t, send.Accepted, result.Outcome)
		require.Len(t, b.Sent(), 1)
	})

	t.Run("S0_65_ClaimThatIsCommittedUnansweredIsSentOnceTheDatabaseAnswers", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		asked := 0
		service := b.Service(func(c *send.Config) {
			c.Store = sendtest.Claims{Store: b.Store, Around: func(ctx context.Context, a send.Attempt) (send.Claim, error) {
				switch asked++; asked {
				case 1:
					_, err := b.Store.Claim(ctx, a)
					return send.Claim{}, errors.Join(err, sms.ErrUnavailable, sms.ErrUnanswered)
				case 2, 3, 4: // it cannot be reached
					return send.Claim{}, sms.ErrUnavailable
				}
				return b.Store.Claim(ctx, a)
			}}
		})
		result, err := service.Send(t.Context(), b.Request())
		require.NoError(t, err)
		require.Equal(t, send.Accepted, result.Outcome)
		require.Len(t, b.Sent(), 1)
	})

	t.Run("ClaimThatNeverReachedTheDatabaseIsAskedForTwice", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		asked := 0
		service := b.Service(func(c *send.Config) {
			c.Store = sendtest.Claims{Store: b.Store, Around: func(context.Context, send.Attempt) (send.Claim, error) {
				asked++
				return send.Claim{}, sms.ErrUnavailable
			}}
		})
		_, err := service.Send(t.Context(), b.Request())
		require.ErrorIs(t, err, sms.ErrUnavailable)
		require.Equal(t, 2, asked, "its caller asks again; nothing is in doubt")
	})

	t.Run("S1_35_ClaimThatIsFoundTooLateForACallIsGivenUp", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		asked := 0
		service := b.Service(func(c *send.Config) {
			c.Store = sendtest.Claims{Store: b.Store, Around: func(ctx context.Context, a send.Attempt) (send.Claim, error) {
				claim, err := b.Store.Claim(ctx, a)
				if asked++; asked == 1 {
					b.Clock.Advance(lease - c.Timeout + time.Millisecond) // so long it was silent
					return send.Claim{}, errors.Join(err, sms.ErrUnavailable, sms.ErrUnanswered)
				}
				return claim, err
			}}
		})
		result, err := service.Send(t.Context(), b.Request())
		require.NoError(t, err)
		require.Equal(t, send.Throttled, result.Outcome)
		require.Empty(t, b.Sent(), "a call that is cut short leaves us not knowing")
		b.Clock.Advance(time.Minute)
		require.Equal(t, send.Accepted, b.Send("").Outcome)
	})

	t.Run("S0_65_ClaimThatComesLateIsNoSecondOne", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		var late *send.Attempt
		service := b.Service(func(c *send.Config) {
			c.Store = sendtest.Claims{Store: b.Store, Around: func(ctx context.Context, a send.Attempt) (send.Claim, error) {
				if late == nil { // the connection is lost, the statement still on its way
					late = &a
					return send.Claim{}, sms.ErrUnavailable
				}
				require.NotEqual(t, late.MessageID, a.MessageID, "two inserts at once must collide by their key and not by their id")
				require.Equal(t, late.Token, a.Token)
				return b.Store.Claim(ctx, a)
			}}
		})
		result, err := service.Send(t.Context(), b.Request())
		require.NoError(t, err)
		require.Equal(t, send.Accepted, result.Outcome)
		claim, err := b.Store.Claim(t.Context(), *late)
		require.NoError(t, err)
		require.False(t, claim.Won)
		require.Equal(t, result.Message.ID, claim.Message.ID)
		require.Len(t, b.Sent(), 1)
	})

	t.Run("S1_35_AttemptThatWakesUpAfterItsLeaseCallsNobody", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		asleep := b.Service(func(c *send.Config) {
			c.Store = sendtest.Claims{Store: b.Store, Around: func(ctx context.Context, a send.Attempt) (send.Claim, error) {
				claim, err := b.Store.Claim(ctx, a)
				b.Clock.Advance(lease) // the machine was suspended
				return claim, err
			}}
		})
		result, err := asleep.Send(t.Context(), b.Request())
		require.NoError(t, err)
		require.Equal(t, send.Throttled, result.Outcome)
		require.Empty(t, b.Sent(), "others take the text for lost by then, and a STOP may have come between")
		b.Clock.Advance(time.Second)
		result = b.Send("")
		require.Equal(t, send.Accepted, result.Outcome)
		require.Len(t, b.Sent(), 1)
	})
}

func answersAndReceiptsAreKept(t *testing.T) {
	t.Helper()
	t.Run("S0_65_AnswerThatCannotBeWrittenDownIsSettledByItsReceipt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(sendtest.Silent)
		tries := 0
		service := b.Service(func(c *send.Config) { c.Store = unsettling{Store: b.Store, tries: &tries} })
		_, err := service.Send(t.Context(), b.Request())
		require.ErrorIs(t, err, sendtest.ErrMishap)
		require.ErrorContains(t, err, b.Sent()[0].SID, "an operator can find it in the log")
		require.Equal(t, 3, tries)
		require.Equal(t, send.InFlight, b.Send("").Outcome)
		b.Clock.Advance(lease + time.Second)
		require.Equal(t, send.Unknown, b.Send("").Outcome)
		b.Report(send.Receipt{MessageID: b.Stored().ID, SID: b.Sent()[0].SID, Status: "delivered"})
		require.Equal(t, send.AlreadyAccepted, b.Send("").Outcome)
		require.Len(t, b.Sent(), 1)
	})

	t.Run("ReceiptFasterThanTheAnswerIsKept", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		service := b.Service(func(c *send.Config) {
			c.Carrier = sendtest.CarrierFunc(func(ctx context.Context, out twilio.Outgoing) twilio.Outcome {
				outcome := b.Carrier.Send(ctx, out)
				b.Pass(time.Second)
				return outcome
			})
		})
		result, err := service.Send(t.Context(), b.Request())
		require.NoError(t, err)
		require.Equal(t, send.Accepted, result.Outcome)
		require.Equal(t, sms.Delivered, result.Message.Status)
		require.True(t, result.Message.AcceptedAt.Before(b.Clock.Now()), "accepted when the first receipt came")
	})

	t.Run("NothingPersonalIsLogged", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		service := b.Service(nil)
		_, err := service.Send(t.Context(), b.Request())
		require.NoError(t, err)
		b.Pass(time.Second)
		b.Receive("SM1", "leave me alone, STOP")
		logged := b.Logged.String()
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
	consentIsRecordedWithTheSend(t)
	nothingIsSentAfterSTOP(t)
	optOutsThatRaceWithTheSend(t)
}

func consentIsRecordedWithTheSend(t *testing.T) {
	t.Helper()
	t.Run("R_07_FirstSendWithoutARecordSaysThatConsentWasCollectedElsewhere", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Send("")
		require.Equal(t, []ledgers.Line{
			{
				Event: ledgers.Event{At: b.Clock.Now(), State: consent.OptedIn, Source: ledgers.FromElsewhere, Sender: ours},
				Seq:   1, PrevHash: consent.NoHash, Hash: b.Ledger().Chain.Head,
			},
		}, b.Ledger().Events)
	})

	t.Run("R_07_ConsentRecordIsKeptOnceAndNeverBesideAnOptOut", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		words := func() (all []string) {
			for _, e := range b.Ledger().Events {
				if e.Source == ledgers.FromFirstSend {
					require.Equal(t, consent.OptedIn, e.State)
					all = append(all, e.Words)
				}
			}
			return all
		}
		ask := func(key, shown string) send.Outcome {
			r := b.Request()
			r.Key, r.Consent = key, consent.Given{Source: "web_form", WordsShown: shown, CollectedAt: b.Clock.Now().Add(-time.Hour)}
			result, err := b.Service(nil).Send(t.Context(), r)
			require.NoError(t, err)
			return result.Outcome
		}
		said := func(shown string) string { return shown + "\nsource: web_form\ncollected_at: 2026-11-20T11:00:00Z" }
		require.Equal(t, send.Accepted, ask("a", "Text me"))
		require.Equal(t, []string{said("Text me")}, words())
		require.Len(t, b.Ledger().Events, 1)
		require.Equal(t, send.AlreadyAccepted, ask("a", "Text me"))
		require.Equal(t, []string{said("Text me")}, words(), "a repeat adds nothing")
		require.Equal(t, send.Accepted, ask("b", "Text me again"))
		require.Equal(t, []string{said("Text me"), said("Text me again")}, words())
		b.Receive("SM1", "STOP")
		require.Equal(t, send.OptedOut, ask("c", "Text me after all"))
		require.Len(t, words(), 2)
		require.Equal(t, consent.OptedOut, b.Ledger().State)
		require.Nil(t, b.Ledger().Broken)
	})
}

func nothingIsSentAfterSTOP(t *testing.T) {
	t.Helper()
	t.Run("S0_41_OptedOutBeforeTheFirstAttemptStoresAndSendsNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Receive("SM1", "STOP")
		result := b.Send("")
		require.Equal(t, send.Result{Outcome: send.OptedOut}, result)
		require.Empty(t, b.Sent())
	})

	t.Run("S0_41_OptedOutAfterAThrottledAttemptSendsNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(sendtest.Lose(emulator.AnswerTooMany, false))
		b.Send("")
		b.Receive("SM1", "STOP")
		b.Clock.Advance(time.Minute)
		result := b.Send("")
		require.Equal(t, send.OptedOut, result.Outcome)
		require.Empty(t, b.Sent())
	})

	t.Run("AcceptedStaysAlreadyAcceptedAfterSTOP", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Send("")
		b.Receive("SM1", "STOP")
		result := b.Send("")
		require.Equal(t, send.AlreadyAccepted, result.Outcome)
	})

	t.Run("S0_69_STARTRestoresConsentAndSTOPOutlivesTheEpisode", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		service := b.Service(nil)
		b.Receive("SM1", "STOP")
		next := b.Request()
		next.Key = "onboarding:p:another-session:1"
		result, err := service.Send(t.Context(), next)
		require.NoError(t, err)
		require.Equal(t, send.OptedOut, result.Outcome)
		m := b.Receive("SM2", "START")
		require.Equal(t, consent.OptIn, m.ConsentEffect)
		result, err = service.Send(t.Context(), next)
		require.NoError(t, err)
		require.Equal(t, send.Accepted, result.Outcome)
	})
}

func optOutsThatRaceWithTheSend(t *testing.T) {
	t.Helper()
	t.Run("RefusalForAnOptOutAtTwilioIsRecorded", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Send("")
		_, err := b.Emulator.Receive(t.Context(), theirs, ours, "STOP") // we get no webhook of it
		require.NoError(t, err)
		next := b.Request()
		next.Key = "another"
		for range 2 {
			result, err := b.Service(nil).Send(t.Context(), next)
			require.NoError(t, err)
			require.Equal(t, send.OptedOut, result.Outcome)
			require.Equal(t, sms.Rejected, result.Message.Status)
			require.Equal(t, 21610, result.Message.ErrorCode)
		}
		ledger := b.Ledger()
		require.Equal(t, consent.OptedOut, ledger.State)
		require.Equal(t, ledgers.FromTwilio, ledger.Events[1].Source)
		require.Len(t, ledger.Events, 2)
	})

	t.Run("STOPThatCommitsDuringTheClaimWins", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		first := b.Request()
		first.Key = "before"
		_, err := b.Service(nil).Send(t.Context(), first)
		require.NoError(t, err)
		for _, stop := range []bool{false, true} { // the rollback shows that the claim waited for the lock, not for luck
			tx, err := b.Pool.Begin(t.Context())
			require.NoError(t, err)
			t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }) // or a failure would wait for the pool
			_, err = tx.Exec(t.Context(), `with stopped as (update consents set state = 'opted_out' returning org_id, phone)
				insert into consent_events (org_id, phone, at, state, source, words, sender)
				select org_id, phone, $1, 'opted_out', 'operator', 'letter', '' from stopped`, b.Clock.Now())
			require.NoError(t, err)
			r := b.Request()
			r.Key = map[bool]string{true: "stopped", false: "sent"}[stop]
			done := make(chan send.Result, 1)
			go func() {
				result, _ := b.Service(nil).Send(t.Context(), r)
				done <- result
			}()
			b.AwaitBlocked()
			want := send.Accepted
			if stop {
				require.NoError(t, tx.Commit(t.Context()))
				want = send.OptedOut
			} else {
				require.NoError(t, tx.Rollback(t.Context()))
			}
			require.Equal(t, want, (<-done).Outcome)
		}
		require.Len(t, b.Sent(), 2)
	})

	t.Run("SendsRacingWithSTOPNeverFollowIt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		service := b.Service(nil)
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				r := b.Request()
				r.Key = string(rune('a' + i))
				_, _ = service.Send(t.Context(), r)
			})
		}
		b.Receive("SM1", "STOP")
		stopped := b.claimed()
		r := b.Request()
		r.Key = "after"
		result, err := service.Send(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, send.OptedOut, result.Outcome)
		all.Wait()
		require.Equal(t, stopped, b.claimed(), "no send was claimed after STOP had been acknowledged")
	})
}

func (b *bundle) claimed() int {
	b.T.Helper()
	rows, err := b.Pool.Query(b.T.Context(), "select count(*) from sms_messages where direction = 'outbound'")
	require.NoError(b.T, err)
	n, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
	require.NoError(b.T, err)
	return n
}

// unsettling is a store that cannot write an answer down.
type unsettling struct {
	sendtest.Store

	tries *int
}

func (u unsettling) Settle(context.Context, send.Message, send.Answer) (send.Message, error) {
	*u.tries++
	return send.Message{}, sendtest.ErrMishap
}
