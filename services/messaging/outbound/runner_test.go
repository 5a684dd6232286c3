package outbound_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	emulator "paceline.internal/emulators/twilio"
	"paceline.internal/platform/hours"
	"paceline.internal/platform/phone"
	"paceline.internal/platform/process"
	"paceline.internal/platform/queue"
	"paceline.internal/services/messaging/outbound"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/messaging/sendtest"
	"paceline.internal/services/messaging/sms"
)

func TestSending(t *testing.T) {
	t.Parallel()
	messageIsSentAtItsTime(t)
	heldMessagesWait(t)
	whatTwilioDoesNotTake(t)
}

func messageIsSentAtItsTime(t *testing.T) {
	t.Helper()
	t.Run("TextIsSentAtItsTimeAndOnce", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		at := b.Clock.Now().Add(time.Hour)
		stored := b.enqueue(func(r *outbound.Request) { r.SendAt = at })
		require.Equal(t, outbound.Pending, stored.Status)
		require.Equal(t, at, stored.NextAt)
		b.pass(59*time.Minute, 10*time.Minute)
		require.Empty(t, b.sent())
		b.Clock.Advance(time.Minute)
		require.Equal(t, 1, b.drain())
		require.Equal(t, []string{"See you at noon."}, b.sent())
		done := b.queued(stored.ID)
		require.Equal(t, outbound.Completed, done.Status)
		require.Equal(t, at, done.EndedAt)
		require.NotEqual(t, uuid.Nil, done.MessageID)
		require.Equal(t, sms.Queued, done.MessageStatus)
		b.pass(time.Hour, 10*time.Minute)
		require.Len(t, b.sent(), 1)
	})

	t.Run("LogsHoldNeitherTheNumberNorTheText", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.enqueue(nil)
		b.enqueue(func(r *outbound.Request) { r.To = sendtest.Phone(t, "+15005550009") })
		b.drain()
		require.NotContains(t, b.Logged.String(), theirs)
		require.NotContains(t, b.Logged.String(), "noon")
		require.Contains(t, b.Logged.String(), "messaging.text_queued")
	})

	t.Run("NothingIsSentToAPersonWhoSaidStopNotEvenACode", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.enqueue(nil)
		b.drain()
		stored := b.enqueue(func(r *outbound.Request) { r.Purpose = outbound.OTP })
		b.say("STOP")
		b.drain()
		require.Len(t, b.sent(), 1)
		failed := b.queued(stored.ID)
		require.Equal(t, outbound.Failed, failed.Status)
		require.Equal(t, outbound.OptedOut, failed.Failure)
		require.Contains(t, failed.Explanation, "opted out")
	})
}

func heldMessagesWait(t *testing.T) {
	t.Helper()
	t.Run("R_08_NothingIsSentToAPersonOnASafetyHoldBeforeTheRelease", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Hold(true, 1)
		stored := b.enqueue(nil)
		code := b.enqueue(func(r *outbound.Request) { r.Purpose, r.ExpiresAt = outbound.OTP, b.Clock.Now().Add(time.Hour) })
		b.pass(10*time.Minute, 10*time.Second)
		require.Empty(t, b.sent())
		for _, id := range []uuid.UUID{stored.ID, code.ID} {
			waiting := b.queued(id)
			require.Equal(t, outbound.Pending, waiting.Status)
			require.Zero(t, waiting.Attempts)
			require.Contains(t, waiting.Explanation, "safety hold")
		}
		b.Hold(false, 2)
		b.pass(30*time.Second, 10*time.Second)
		require.Len(t, b.sent(), 2)
		require.Equal(t, outbound.Completed, b.queued(stored.ID).Status)
	})

	t.Run("R_08_WordsThatMayBeAnOptOutHoldItUntilTheyAreJudgedAndAreNamed", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		words := b.Receive("SM1", "leave me alone")
		stored := b.enqueue(nil)
		b.pass(time.Minute, 10*time.Second)
		require.Empty(t, b.sent())
		waiting := b.queued(stored.ID)
		require.Equal(t, outbound.Pending, waiting.Status)
		require.Contains(t, waiting.Explanation, "GET /v1/messages/"+words.ID.String())
		require.NotContains(t, waiting.Explanation, ":release", "which judges no words that a session or a job waits for")
		require.NoError(t, b.Store.JudgeWords(t.Context(), b.sender.OrgID, sendtest.Phone(t, theirs)))
		b.pass(30*time.Second, 10*time.Second)
		require.Len(t, b.sent(), 1)
	})

	t.Run("R_08_HeldTextExpiresAsItWouldAndTheHoldIsNamed", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Hold(true, 1)
		stored := b.enqueue(func(r *outbound.Request) { r.Purpose = outbound.OTP })
		b.pass(6*time.Minute, 30*time.Second)
		failed := b.queued(stored.ID)
		require.Equal(t, outbound.Failed, failed.Status)
		require.Equal(t, outbound.Expired, failed.Failure)
		require.Contains(t, failed.Explanation, "safety hold")
		require.Empty(t, b.sent())
	})

	t.Run("R_08_HeldTextsDoNotUseUpTheRateOfOthers", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.rate = 1
		b.Hold(true, 1)
		for range 20 {
			b.enqueue(nil)
		}
		other := b.enqueue(func(r *outbound.Request) { r.To = sendtest.Phone(t, "+14155550177") })
		b.pass(2*time.Second, 100*time.Millisecond)
		require.Equal(t, outbound.Completed, b.queued(other.ID).Status)
	})

	t.Run("TextsAboveACapDoNotUseUpTheRateOfOthers", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.rate = 1
		b.Config.Caps = send.Caps{PhoneHour: send.Cap{Messages: 1, Segments: 3}}
		b.send = b.Service(nil)
		b.enqueue(nil)
		b.pass(2*time.Second, 100*time.Millisecond)
		for range 20 {
			b.enqueue(nil)
		}
		other := b.enqueue(func(r *outbound.Request) { r.To = sendtest.Phone(t, "+14155550177") })
		b.pass(5*time.Second, 100*time.Millisecond)
		require.Equal(t, outbound.Completed, b.queued(other.ID).Status)
		require.Len(t, b.sent(), 2)
	})
	t.Run("R_08_TextThatIsHeldBetweenItsTurnAndItsSendWaits", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		stored := b.enqueue(nil)
		_, err := b.runner(func(c *outbound.Config) {
			c.Send = b.claiming(func(ctx context.Context, a send.Attempt) (send.Claim, error) {
				b.Hold(true, 1)
				return b.Store.Claim(ctx, a)
			})
		}).Drain(t.Context())
		require.NoError(t, err)
		require.Empty(t, b.sent())
		waiting := b.queued(stored.ID)
		require.Equal(t, outbound.Pending, waiting.Status)
		require.Zero(t, waiting.Attempts)
	})
}

func TestQuietHours(t *testing.T) {
	t.Parallel()
	// night is a bundle with a clock that shows 22:30 in the recipient's zone, and the instant at which it shows 08:00.
	night := func(t *testing.T) (b *bundle, quiet hours.Quiet, morning time.Time) {
		t.Helper()
		b = setup(t)
		tokyo, _ := hours.Stored("Asia/Tokyo")
		quiet = hours.Quiet{Window: hours.DefaultWindow(), Zone: tokyo}
		now := b.Clock.Now().In(quiet.Zone)
		evening := time.Date(now.Year(), now.Month(), now.Day()+1, 22, 30, 0, 0, quiet.Zone)
		b.Clock.Advance(evening.Sub(now))
		return b, quiet, evening.Add(9*time.Hour + 30*time.Minute)
	}

	t.Run("TextWaitsForTheirEndAndSaysSo", func(t *testing.T) {
		t.Parallel()
		b, quiet, morning := night(t)
		stored := b.enqueue(func(r *outbound.Request) { r.Purpose, r.Hours = outbound.Transactional, quiet })
		b.drain()
		waiting := b.queued(stored.ID)
		require.Equal(t, morning.UTC(), waiting.NextAt)
		require.Zero(t, waiting.Attempts)
		require.Contains(t, waiting.Explanation, "quiet hours, at "+morning.UTC().Format(time.RFC3339))
		require.NotContains(t, waiting.Explanation, "again in", "it is as true when it is read later")
		b.Clock.Advance(morning.Add(-time.Second).Sub(b.Clock.Now()))
		b.drain()
		require.Empty(t, b.sent())
		b.pass(time.Second, time.Second)
		require.Len(t, b.sent(), 1)
	})

	t.Run("OneTimeCodeIsSentAtNight", func(t *testing.T) {
		t.Parallel()
		b, quiet, _ := night(t)
		b.enqueue(func(r *outbound.Request) { r.Purpose, r.Hours = outbound.OTP, quiet })
		b.drain()
		require.Len(t, b.sent(), 1)
	})

	t.Run("TextThatEndsWithThemIsNotPromised", func(t *testing.T) {
		t.Parallel()
		b, quiet, morning := night(t)
		stored := b.enqueue(func(r *outbound.Request) { r.Hours, r.ExpiresAt = quiet, morning })
		b.drain()
		require.Contains(t, b.queued(stored.ID).Explanation, "it will not be sent")
		b.Clock.Advance(morning.Sub(b.Clock.Now()))
		b.drain()
		require.Equal(t, outbound.Expired, b.queued(stored.ID).Failure)
		require.Empty(t, b.sent())
	})

	t.Run("TextThatEndsBeforeThemFailsAtItsTime", func(t *testing.T) {
		t.Parallel()
		b, quiet, morning := night(t)
		stored := b.enqueue(func(r *outbound.Request) { r.Hours = quiet }) // a reminder: 6 hours
		b.drain()
		expires := stored.ExpiresAt.Format(time.RFC3339)
		explained := b.queued(stored.ID).Explanation
		require.Contains(t, explained, "it will not be sent: it expires at "+expires)
		require.Contains(t, explained, "quiet hours end at "+morning.UTC().Format(time.RFC3339))
		require.Contains(t, explained, "a later expires_at")
		b.pass(6*time.Hour, 6*time.Hour)
		failed := b.queued(stored.ID)
		require.Equal(t, outbound.Expired, failed.Failure)
		require.Contains(t, failed.Explanation, "quiet hours")
		require.Empty(t, b.sent())
	})

	t.Run("RepeatUnderOtherHoursIsTheSameText", func(t *testing.T) {
		t.Parallel()
		b, quiet, _ := night(t)
		r := b.request()
		r.Hours = quiet
		first, _, err := b.intake.Enqueue(t.Context(), r)
		require.NoError(t, err)
		r.Hours = hours.Quiet{}
		again, duplicate, err := b.intake.Enqueue(t.Context(), r)
		require.NoError(t, err)
		require.True(t, duplicate)
		require.Equal(t, first, again, "the hours are those that came first")
		r.Body = "something else"
		_, _, err = b.intake.Enqueue(t.Context(), r)
		require.ErrorIs(t, err, outbound.ErrKeyReused)
	})
}

func whatTwilioDoesNotTake(t *testing.T) {
	t.Helper()
	t.Run("RefusalOfTwilioFailsAtOnceWithItsCode", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		stored := b.enqueue(func(r *outbound.Request) { r.To = mustStored(t, "+15005550001") })
		b.drain()
		failed := b.queued(stored.ID)
		require.Equal(t, outbound.Failed, failed.Status, "%+v", failed)
		require.Equal(t, outbound.Rejected, failed.Failure)
		require.Equal(t, 21211, failed.ErrorCode)
		require.Contains(t, failed.Explanation, "to do:")
	})

	t.Run("ThrottledOneComesAgainWhenTwilioSays", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(sendtest.Lose(emulator.AnswerTooMany, false))
		stored := b.enqueue(nil)
		b.drain()
		waiting := b.queued(stored.ID)
		require.Equal(t, outbound.Pending, waiting.Status)
		require.Equal(t, b.Clock.Now().Add(time.Second), waiting.NextAt)
		require.Zero(t, waiting.Attempts, "a throttled send uses no attempt")
		b.pass(time.Second, time.Second)
		require.Len(t, b.sent(), 1)
		require.Equal(t, outbound.Completed, b.queued(stored.ID).Status)
	})

	t.Run("OneInDoubtIsNotSentAgainUntilItIsSettled", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(sendtest.Lose(emulator.AnswerReset, true))
		stored := b.enqueue(nil)
		b.drain()
		require.Equal(t, outbound.Pending, b.queued(stored.ID).Status)
		require.Equal(t, sms.Unknown, b.queued(stored.ID).MessageStatus)
		b.pass(2*time.Minute, 10*time.Second)
		require.Len(t, b.sent(), 1)
		m := b.Emulator.Messages()[0]
		b.Report(send.Receipt{MessageID: b.queued(stored.ID).MessageID, SID: m.SID, Status: "delivered"})
		b.pass(time.Minute, 10*time.Second)
		require.Equal(t, outbound.Completed, b.queued(stored.ID).Status)
		require.Len(t, b.sent(), 1)
	})
}

// mustStored is a number that only Twilio knows to be wrong.
func mustStored(t *testing.T, e164 string) sms.Phone {
	t.Helper()
	p, err := sms.StoredPhone(e164)
	require.NoError(t, err)
	return p
}

func TestExpiry(t *testing.T) {
	t.Parallel()

	t.Run("LateCodeFailsVisiblyInsteadOfBeingSent", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		stored := b.enqueue(func(r *outbound.Request) { r.Purpose = outbound.OTP })
		require.Equal(t, b.Clock.Now().Add(5*time.Minute), stored.ExpiresAt)
		b.Clock.Advance(5 * time.Minute)
		b.drain()
		require.Empty(t, b.sent())
		failed := b.queued(stored.ID)
		require.Equal(t, outbound.Failed, failed.Status)
		require.Equal(t, outbound.Expired, failed.Failure)
		require.Contains(t, failed.Explanation, "2026-11-20T12:05:00Z")
	})

	t.Run("LastInstantIsNotLate", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		stored := b.enqueue(func(r *outbound.Request) { r.ExpiresAt = b.Clock.Now().Add(time.Minute) })
		b.Clock.Advance(time.Minute - time.Microsecond)
		b.drain()
		require.Equal(t, outbound.Completed, b.queued(stored.ID).Status)
	})

	t.Run("ThrottledOneIsNotSentAfterItsTime", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(sendtest.Lose(emulator.AnswerTooMany, false))
		stored := b.enqueue(func(r *outbound.Request) { r.ExpiresAt = b.Clock.Now().Add(500 * time.Millisecond) })
		b.drain()
		b.pass(2*time.Second, time.Second)
		require.Empty(t, b.sent())
		require.Equal(t, outbound.Expired, b.queued(stored.ID).Failure)
	})

	t.Run("OneThatMayBeAtTwilioIsNotSaidToHaveExpired", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(sendtest.Lose(emulator.AnswerReset, true))
		stored := b.enqueue(func(r *outbound.Request) { r.ExpiresAt = b.Clock.Now().Add(time.Second) })
		b.drain()
		b.pass(2*time.Minute, 30*time.Second)
		require.Equal(t, outbound.Pending, b.queued(stored.ID).Status)
		m := b.Emulator.Messages()[0]
		b.Report(send.Receipt{MessageID: b.queued(stored.ID).MessageID, SID: m.SID, Status: "sent"})
		b.pass(time.Minute, 30*time.Second)
		require.Equal(t, outbound.Completed, b.queued(stored.ID).Status)
		require.Len(t, b.sent(), 1)
	})
}

// TestUndecided is about a message that is still in doubt when it expires: it does not fail as expired.
func TestUndecided(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Emulator.SetScript(sendtest.Lose(emulator.AnswerReset, true))
	stored := b.enqueue(func(r *outbound.Request) {
		r.ExpiresAt, r.UnknownPolicy = b.Clock.Now().Add(time.Hour), send.NeverDuplicate
	})
	b.drain()
	_, err := b.Pool.Exec(t.Context(), `update sms_messages set status = 'parked', next_look_at = null`)
	require.NoError(t, err)
	b.pass(2*time.Minute, time.Minute)
	require.Equal(t, outbound.Pending, b.queued(stored.ID).Status, "it waits for an operator")
	b.pass(time.Hour, 20*time.Minute)
	failed := b.queued(stored.ID)
	require.Equal(t, outbound.Failed, failed.Status)
	require.Equal(t, outbound.Undecided, failed.Failure)
	require.Contains(t, failed.Explanation, failed.MessageID.String()+":resolve")
	require.Len(t, b.sent(), 1)
}

// TestCrash lets a process die at every point of a text's way, leaving its lease behind. The next one sends it, or finds that it was
// sent: Twilio has it once.
func TestCrash(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	for _, c := range []struct {
		name string
		die  func(b *bundle, r send.Request)
	}{
		{name: "BeforeTheSend", die: func(*bundle, send.Request) {}},
		{name: "BetweenTheSendAndItsRecord", die: func(b *bundle, r send.Request) {
			result, err := b.send.Send(b.T.Context(), r)
			require.NoError(b.T, err)
			require.Equal(b.T, send.Accepted, result.Outcome)
		}},
		{name: "AfterATwilioThatTookNothing", die: func(b *bundle, r send.Request) {
			b.Emulator.SetScript(sendtest.Lose(emulator.AnswerTooMany, false))
			result, err := b.send.Send(b.T.Context(), r)
			require.NoError(b.T, err)
			require.Equal(b.T, send.Throttled, result.Outcome)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			stored := b.enqueue(nil)
			now := b.Clock.Now()
			claimed, err := b.store.Jobs().Claim(t.Context(), queue.Claim{Limit: 1, Now: now, Until: now.Add(32 * time.Second)})
			require.NoError(t, err)
			require.Len(t, claimed.Jobs, 1)
			c.die(b, send.Request{
				OrgID: b.sender.OrgID, To: stored.To, Body: stored.Body, Key: outbound.MessageKey(claimed.Jobs[0].ID),
			})
			require.Zero(t, b.drain(), "no worker claims it before its lease has expired")
			b.pass(time.Minute, 10*time.Second)
			require.Equal(t, outbound.Completed, b.queued(stored.ID).Status)
			require.Len(t, b.sent(), 1)
			fenced, err := b.store.Jobs().Finish(t.Context(), []queue.Finish{{Job: claimed.Jobs[0], Status: queue.StatusFailed, At: now}})
			require.NoError(t, err)
			require.Len(t, fenced, 1, "a worker that lost its lease finishes nothing")
		})
	}
}

// TestPanicOfASendIsNoEndOfTheText lets the send itself blow up once.
func TestPanicOfASendIsNoEndOfTheText(t *testing.T) {
	t.Parallel()
	b := setup(t)
	stored := b.enqueue(nil)
	_, err := b.runner(func(c *outbound.Config) {
		c.Send = b.claiming(func(context.Context, send.Attempt) (send.Claim, error) { panic("no") })
	}).Drain(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, b.queued(stored.ID).Attempts)
	b.pass(30*time.Second, 30*time.Second)
	require.Len(t, b.sent(), 1)
	require.Equal(t, outbound.Completed, b.queued(stored.ID).Status)
}

// TestErrorOfOursEndsVisibly fails every attempt.
func TestErrorOfOursEndsVisibly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	stored := b.enqueue(nil)
	broken := b.runner(func(c *outbound.Config) {
		c.Send = b.claiming(func(context.Context, send.Attempt) (send.Claim, error) {
			return send.Claim{}, errors.New("broken")
		})
	})
	for range 3 {
		_, err := broken.Drain(t.Context())
		require.NoError(t, err)
		b.Clock.Advance(10 * time.Minute)
	}
	failed := b.queued(stored.ID)
	require.Equal(t, outbound.Failed, failed.Status)
	require.Equal(t, outbound.Broken, failed.Failure)
	require.Equal(t, 3, failed.Attempts)
	require.Equal(t, "claim the send: broken", failed.Explanation)
}

// TestRunnersCompete lets four processes send the same queue: each text once.
func TestRunnersCompete(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.rate = 1000
	const texts = 60
	var want []string
	for i := range texts {
		body := fmt.Sprintf("text %02d", i)
		want = append(want, body)
		b.enqueue(func(r *outbound.Request) { r.Body = sms.Body(body) })
	}
	var processes errgroup.Group
	for range 4 {
		runner := b.runner(nil)
		processes.Go(func() error { _, err := runner.Drain(t.Context()); return err })
	}
	require.NoError(t, processes.Wait())
	b.pass(time.Minute, time.Second) // what waited for its turn
	got := b.sent()
	slices.Sort(got)
	require.Equal(t, want, got)
}

func TestCancel(t *testing.T) {
	t.Parallel()

	t.Run("CancelledOneIsNeverSent", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		stored := b.enqueue(func(r *outbound.Request) { r.SendAt = b.Clock.Now().Add(time.Minute) })
		for range 2 { // a second time changes nothing
			cancelled, err := b.intake.Cancel(t.Context(), b.sender.OrgID, stored.ID)
			require.NoError(t, err)
			require.Equal(t, outbound.Cancelled, cancelled.Status)
			require.Equal(t, b.Clock.Now(), cancelled.EndedAt)
		}
		b.pass(2*time.Minute, time.Minute)
		require.Empty(t, b.sent())
	})

	t.Run("ThrottledOneCanBeTakenBack", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(sendtest.Lose(emulator.AnswerTooMany, false))
		stored := b.enqueue(nil)
		b.drain()
		_, err := b.intake.Cancel(t.Context(), b.sender.OrgID, stored.ID)
		require.NoError(t, err)
		b.pass(time.Minute, 10*time.Second)
		require.Empty(t, b.sent())
	})

	t.Run("OneThatMayHaveBeenSentCannot", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(sendtest.Lose(emulator.AnswerReset, true))
		stored := b.enqueue(nil)
		b.drain()
		_, err := b.intake.Cancel(t.Context(), b.sender.OrgID, stored.ID)
		require.ErrorIs(t, err, outbound.ErrNotCancellable)
		require.ErrorContains(t, err, "may have been sent")
		require.Equal(t, outbound.Pending, b.queued(stored.ID).Status)
	})

	t.Run("OneThatIsSentCannot", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		stored := b.enqueue(nil)
		b.drain()
		_, err := b.intake.Cancel(t.Context(), b.sender.OrgID, stored.ID)
		require.ErrorIs(t, err, outbound.ErrNotCancellable)
		require.ErrorContains(t, err, "completed")
	})

	t.Run("OneOfAnotherOrganisationOrAnUnknownOneIsNotFound", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		stored := b.enqueue(nil)
		_, err := b.intake.Cancel(t.Context(), uuid.New(), stored.ID)
		require.ErrorIs(t, err, outbound.ErrNotFound)
		_, err = b.intake.Cancel(t.Context(), b.sender.OrgID, uuid.New())
		require.ErrorIs(t, err, outbound.ErrNotFound)
	})

	t.Run("RacesTheClaimAndOneOfThemWins", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.rate = 1000
		cancelled, sent := 0, 0
		for range 25 {
			before := len(b.sent())
			stored := b.enqueue(nil)
			var race errgroup.Group
			var refused error
			race.Go(func() error { _, refused = b.intake.Cancel(t.Context(), b.sender.OrgID, stored.ID); return nil })
			race.Go(func() error { _, err := b.runner(nil).Drain(t.Context()); return err })
			require.NoError(t, race.Wait())
			b.drain() // the claim passes a row that is locked by
			switch now := b.queued(stored.ID); {
			case refused == nil:
				require.Equal(t, outbound.Cancelled, now.Status)
				require.Len(t, b.sent(), before)
				cancelled++
			default:
				require.ErrorIs(t, refused, outbound.ErrNotCancellable)
				require.Equal(t, outbound.Completed, now.Status)
				require.Len(t, b.sent(), before+1)
				sent++
			}
		}
		t.Logf("%d cancelled, %d sent", cancelled, sent)
	})
}

// TestLoop runs the loop as a process does.
func TestLoop(t *testing.T) {
	t.Parallel()

	t.Run("EnqueueWakesItAndSIGTERMLetsItFinish", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		wake, sending, proceed := make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
		b.intake.Wake = wake
		runner := b.runner(func(c *outbound.Config) {
			c.Wake, c.Poll = wake, time.Hour
			c.Send = b.claiming(func(ctx context.Context, a send.Attempt) (send.Claim, error) {
				close(sending)
				<-proceed
				return b.Store.Claim(ctx, a)
			})
		})
		ctx, stop := context.WithCancel(t.Context())
		var loop errgroup.Group
		loop.Go(func() error { return runner.Loop(process.RestOnMachineClock).Run(ctx) })
		stored := b.enqueue(nil)
		<-sending
		stop()
		close(proceed)
		require.NoError(t, loop.Wait())
		require.Equal(t, outbound.Completed, b.queued(stored.ID).Status)
		require.Len(t, b.sent(), 1)
	})

	t.Run("RestsUntilTheNextTextFallsDue", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.enqueue(func(r *outbound.Request) { r.SendAt = b.Clock.Now().Add(1500 * time.Millisecond) })
		b.enqueue(func(r *outbound.Request) { r.SendAt, r.Purpose = b.Clock.Now().Add(time.Hour), outbound.OTP })
		var mu sync.Mutex
		var rests []time.Duration
		err := b.runner(nil).Loop(func(_ context.Context, d time.Duration, _ <-chan struct{}) bool {
			mu.Lock()
			defer mu.Unlock()
			rests = append(rests, d)
			if len(rests) > 1 { // the first one is before it begins
				b.Clock.Advance(d)
			}
			return len(rests) < 4
		}).Run(t.Context())
		require.NoError(t, err)
		require.Equal(t, []time.Duration{1500 * time.Millisecond, 5 * time.Second, 5 * time.Second}, rests[1:])
		require.Len(t, b.sent(), 1)
	})
}

func TestEnqueue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.Clock.Now()

	t.Run("SameRequestIsTheSameTextAlsoLater", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		r := b.request()
		first, duplicate, err := b.intake.Enqueue(t.Context(), r)
		require.NoError(t, err)
		require.False(t, duplicate)
		b.Clock.Advance(time.Minute)
		b.drain()
		again, duplicate, err := b.intake.Enqueue(t.Context(), r)
		require.NoError(t, err)
		require.True(t, duplicate)
		require.Equal(t, first.ID, again.ID)
		require.Equal(t, outbound.Completed, again.Status)
		b.drain()
		require.Len(t, b.sent(), 1)
	})

	for _, c := range []struct {
		name   string
		ask    func(r *outbound.Request)
		passes time.Duration
		after  func(b *bundle)
		want   string // what a new text is told then
	}{
		{
			name: "ItsExpiry", passes: time.Hour, want: "expires_at must be after",
			ask: func(r *outbound.Request) { r.ExpiresAt = now.Add(time.Minute) },
		},
		{
			name: "TheDefaultValidity", passes: 7 * time.Hour, want: "would have expired",
			ask: func(r *outbound.Request) { r.SendAt = now.Add(time.Minute) },
		},
		{
			name: "ItsCountryWasClosed", want: phone.ErrRefused.Error(),
			after: func(b *bundle) {
				b.Config.Numbers = phone.Policy{Countries: phone.Countries{"BR"}}
				b.intake.Send = b.Service(nil)
			},
		},
		{
			name: "TheSenderIsGone", want: senders.ErrNoSender.Error(),
			after: func(b *bundle) {
				cfg := b.Senders.Config
				cfg.Environment = senders.Sender{}
				b.intake.Senders = senders.New(cfg)
			},
		},
	} {
		t.Run("RepeatIsTheSameTextAfter"+c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			r := b.request()
			if c.ask != nil {
				c.ask(&r)
			}
			first, _, err := b.intake.Enqueue(t.Context(), r)
			require.NoError(t, err)
			b.pass(2*time.Minute, 30*time.Second)
			require.Len(t, b.sent(), 1)
			b.Clock.Advance(c.passes)
			if c.after != nil {
				c.after(b)
			}
			again, duplicate, err := b.intake.Enqueue(t.Context(), r)
			require.NoError(t, err)
			require.True(t, duplicate)
			require.Equal(t, first.ID, again.ID)
			require.Equal(t, outbound.Completed, again.Status)

			other := r
			other.Body = "something else"
			_, _, err = b.intake.Enqueue(t.Context(), other)
			require.ErrorContains(t, err, c.want, "another request under the key is no repeat")
			r.Key = uuid.NewString()
			_, _, err = b.intake.Enqueue(t.Context(), r)
			require.ErrorContains(t, err, c.want, "a new key is no repeat")
			b.drain()
			require.Len(t, b.sent(), 1)
		})
	}

	for _, c := range []struct {
		name   string
		change func(r *outbound.Request)
	}{
		{name: "Body", change: func(r *outbound.Request) { r.Body = "something else" }},
		{name: "Recipient", change: func(r *outbound.Request) { r.To = sendtest.Phone(t, "+14155550188") }},
		{name: "Purpose", change: func(r *outbound.Request) { r.Purpose = outbound.Invite }},
		{name: "Time", change: func(r *outbound.Request) { r.SendAt = now.Add(time.Hour) }},
		{name: "Expiry", change: func(r *outbound.Request) { r.ExpiresAt = now.Add(2 * time.Hour) }},
		{name: "Profile", change: func(r *outbound.Request) { r.ProfileID = uuid.New() }},
	} {
		t.Run("SameKeyWithAnother"+c.name+"IsAnError", func(t *testing.T) {
			t.Parallel()
			r := b.request()
			_, _, err := b.intake.Enqueue(t.Context(), r)
			require.NoError(t, err)
			c.change(&r)
			_, _, err = b.intake.Enqueue(t.Context(), r)
			require.ErrorIs(t, err, outbound.ErrKeyReused)
		})
	}

	for _, c := range []struct {
		name, want string
		change     func(r *outbound.Request)
	}{
		{name: "NoKey", want: "idempotency_key", change: func(r *outbound.Request) { r.Key = "" }},
		{name: "LongKey", want: "idempotency_key", change: func(r *outbound.Request) { r.Key = strings.Repeat("k", 201) }},
		{name: "NULInTheKey", want: "idempotency_key", change: func(r *outbound.Request) { r.Key = "a\x00" }},
		{name: "NoRecipient", want: "to is missing", change: func(r *outbound.Request) { r.To = sms.Phone{} }},
		{name: "NoBody", want: "body is missing", change: func(r *outbound.Request) { r.Body = "" }},
		{name: "UnknownPurpose", want: "purpose must be one of", change: func(r *outbound.Request) { r.Purpose = "onboarding" }},
		{name: "PastItsValidity", want: "would have expired", change: func(r *outbound.Request) { r.SendAt = now.Add(-36 * time.Hour) }},
		{name: "TooFarAhead", want: "35 days ahead", change: func(r *outbound.Request) { r.SendAt = now.Add(35*24*time.Hour + time.Second) }},
		{name: "ExpiryBeforeItsTime", want: "expires_at must be after", change: func(r *outbound.Request) {
			r.SendAt, r.ExpiresAt = now.Add(time.Hour), now.Add(time.Hour)
		}},
		{name: "ExpiryInThePast", want: "expires_at must be after", change: func(r *outbound.Request) { r.ExpiresAt = now }},
		{name: "ExpiryTooLate", want: "at most 35 days after", change: func(r *outbound.Request) { r.ExpiresAt = now.Add(36 * 24 * time.Hour) }},
	} {
		t.Run(c.name+"IsRefused", func(t *testing.T) {
			t.Parallel()
			r := b.request()
			c.change(&r)
			_, _, err := b.intake.Enqueue(t.Context(), r)
			require.ErrorIs(t, err, sms.ErrInvalid)
			require.ErrorContains(t, err, c.want)
		})
	}

	t.Run("OrganisationWithoutASenderIsRefused", func(t *testing.T) {
		t.Parallel()
		r := b.request()
		r.OrgID = uuid.New()
		_, _, err := b.intake.Enqueue(t.Context(), r)
		require.ErrorIs(t, err, senders.ErrNoSender)
	})
}

func TestList(t *testing.T) {
	t.Parallel()
	b := setup(t)
	profile := uuid.Must(uuid.NewV7())
	sent := b.enqueue(nil)
	b.drain()
	code := b.enqueue(func(r *outbound.Request) { r.Purpose, r.ProfileID = outbound.OTP, profile })
	later := b.enqueue(func(r *outbound.Request) { r.SendAt = b.Clock.Now().Add(time.Hour) })
	for _, c := range []struct {
		name  string
		query outbound.Query
		want  []uuid.UUID
	}{
		{name: "All", want: []uuid.UUID{later.ID, code.ID, sent.ID}},
		{name: "Page", query: outbound.Query{Before: later.ID, Limit: 1}, want: []uuid.UUID{code.ID}},
		{name: "Pending", query: outbound.Query{Status: outbound.Pending}, want: []uuid.UUID{later.ID, code.ID}},
		{name: "Completed", query: outbound.Query{Status: outbound.Completed}, want: []uuid.UUID{sent.ID}},
		{name: "Failed", query: outbound.Query{Status: outbound.Failed}},
		{name: "Processing", query: outbound.Query{Status: outbound.Processing}},
		{name: "Purpose", query: outbound.Query{Purpose: outbound.OTP}, want: []uuid.UUID{code.ID}},
		{name: "Profile", query: outbound.Query{ProfileID: profile}, want: []uuid.UUID{code.ID}},
		{name: "Key", query: outbound.Query{Key: sent.Key}, want: []uuid.UUID{sent.ID}},
		{name: "KeyAndAnotherProfile", query: outbound.Query{Key: sent.Key, ProfileID: profile}},
		{name: "AnotherOrganisation", query: outbound.Query{OrgID: uuid.New()}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			q := c.query
			if q.OrgID == uuid.Nil {
				q.OrgID = b.sender.OrgID
			}
			if q.Limit == 0 {
				q.Limit = 10
			}
			if q.Before == uuid.Nil {
				q.Before = uuid.Max
			}
			found, err := b.store.List(t.Context(), q)
			require.NoError(t, err)
			var ids []uuid.UUID
			for _, text := range found {
				ids = append(ids, text.ID)
			}
			require.Equal(t, c.want, ids)
		})
	}
}
