package delivery_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	emulator "paceline.internal/emulators/twilio"
	"paceline.internal/services/messaging/delivery"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

func (b *bundle) resolution(m delivery.Message, word delivery.Word, sid string) delivery.Resolution {
	return delivery.Resolution{
		OrgID: b.config.Sender.OrgID, MessageID: m.ID, Word: word, SID: sid, Reason: "seen in Twilio's console",
	}
}

// doubled leaves the one row parked beside two texts at Twilio, of which the first is ours.
func (b *bundle) doubled() (m delivery.Message, ours, other string) {
	b.t.Helper()
	b.emulator.SetScript(mute(emulator.AnswerReset, true))
	b.send("")
	other = b.carrier.Send(b.t.Context(), twilio.Outgoing{To: theirs, Body: body}).SID
	b.clock.Advance(lease + time.Second)
	b.reconcile()
	m = b.stored()
	require.Equal(b.t, sms.Parked, m.Status)
	return m, b.sent()[0].SID, other
}

func TestResolve(t *testing.T) {
	t.Parallel()

	t.Run("SentAdoptsWhatTwilioConfirms", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m, ours, _ := b.doubled()
		for range 2 { // the same word again is fine
			resolved, err := b.service(nil).Resolve(t.Context(), b.resolution(m, delivery.Sent, ours))
			require.NoError(t, err)
			require.Equal(t, ours, resolved.SID)
			require.Equal(t, sms.Delivered, resolved.Status)
		}
		evidence := b.evidence(m.ID)
		require.Equal(t, []delivery.Finding{delivery.Ambiguous, delivery.Resolved}, findings(evidence))
		require.Contains(t, evidence.Looks[1].Detail, "seen in Twilio's console")
		require.Len(t, evidence.Looks[1].Candidates, 1)
		require.Equal(t, delivery.AlreadyAccepted, b.send("").Outcome)
		require.Contains(t, b.logged.String(), `"as":"said_sent"`)
	})

	t.Run("SentIsRefusedWhenTwilioContradictsIt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m, _, _ := b.doubled()
		words := b.carrier.Send(t.Context(), twilio.Outgoing{To: theirs, Body: "something else"}).SID
		person := b.carrier.Send(t.Context(), twilio.Outgoing{To: "+14155550124", Body: body}).SID
		_, err := b.service(nil).RecordStatus(t.Context(), delivery.Receipt{MessageID: m.ID, SID: "SM1", Status: "unheard of"})
		require.NoError(t, err)
		taken := b.request()
		taken.Key, taken.Body = "another", "taken"
		result, err := b.service(nil).Send(t.Context(), taken)
		require.NoError(t, err)
		for sid, why := range map[string]string{
			"SM" + strings.Repeat("0", 32): "Twilio has no message",
			words:                          "says something else",
			person:                         "went to somebody else",
			result.Message.SID:             "another message has this SID",
		} {
			_, err := b.service(nil).Resolve(t.Context(), b.resolution(m, delivery.Sent, sid))
			require.ErrorIs(t, err, delivery.ErrNotResolvable)
			require.ErrorContains(t, err, why)
			require.NotContains(t, err.Error(), theirs)
		}
		require.Equal(t, sms.Parked, b.stored().Status)
	})

	t.Run("SentIsUnavailableWhileTwilioIsDown", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m, ours, _ := b.doubled()
		down := b.service(func(c *delivery.Config) { c.Carrier = unreachable{} })
		_, err := down.Resolve(t.Context(), b.resolution(m, delivery.Sent, ours))
		require.ErrorIs(t, err, delivery.ErrUnavailable)
		require.Equal(t, sms.Parked, b.stored().Status)
	})

	t.Run("SentIsWhatTwilioPutItsTrialNoticeBefore", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m := b.parked()
		trial := b.carrier.Send(t.Context(), twilio.Outgoing{To: theirs, Body: "Sent from your Twilio trial account - " + body}).SID
		created := b.clock.Now()
		b.clock.Advance(time.Hour)
		resolved, err := b.service(nil).Resolve(t.Context(), b.resolution(m, delivery.Sent, trial))
		require.NoError(t, err)
		require.Equal(t, trial, resolved.SID)
		require.Equal(t, created.Add(time.Second), resolved.AcceptedAt)
		require.Equal(t, b.clock.Now(), resolved.UpdatedAt)
	})

	t.Run("S1_35_LateRepeatOfNotSentReleasesNoLaterAttempt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m := b.parked()
		first := b.resolution(m, delivery.NotSent, "")
		first.Attempt = b.evidence(m.ID).Message.Attempts
		_, err := b.service(nil).Resolve(t.Context(), first)
		require.NoError(t, err)
		b.emulator.SetScript(emulator.Script{OnCreate: func(int, emulator.Message) emulator.CreateFault {
			return emulator.CreateFault{Answer: emulator.AnswerServerError}
		}})
		require.Equal(t, delivery.Unknown, b.send("").Outcome)
		b.clock.Advance(lease + time.Second)
		_, err = b.service(nil).Resolve(t.Context(), first)
		require.ErrorIs(t, err, delivery.ErrNotResolvable)
		require.ErrorContains(t, err, "attempt 1 is not the last one")
		unnamed := first
		unnamed.Attempt = 0
		_, err = b.service(nil).Resolve(t.Context(), unnamed)
		require.ErrorIs(t, err, delivery.ErrNotResolvable)
		require.ErrorContains(t, err, "2 attempts")
		require.Equal(t, sms.Unknown, b.stored().Status)
		first.Attempt = 2
		_, err = b.service(nil).Resolve(t.Context(), first)
		require.NoError(t, err)
		require.Equal(t, sms.Throttled, b.stored().Status)
	})

	t.Run("NotSentIsSentAgainByWhoeverAsks", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m := b.parked()
		for range 2 {
			resolved, err := b.service(nil).Resolve(t.Context(), b.resolution(m, delivery.NotSent, ""))
			require.NoError(t, err)
			require.Equal(t, sms.Throttled, resolved.Status)
		}
		require.Empty(t, b.sent(), "a word sends nothing itself")
		require.Equal(t, delivery.Accepted, b.send("").Outcome)
		require.Len(t, b.sent(), 1)
	})

	t.Run("NotSentAlsoMendsARefusal", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		service := b.service(func(c *delivery.Config) {
			c.Carrier = carrierFunc(func(context.Context, twilio.Outgoing) twilio.Outcome {
				return twilio.Outcome{Kind: twilio.Rejected, Code: 21408}
			})
		})
		_, err := service.Send(t.Context(), b.request())
		require.NoError(t, err)
		_, err = service.Resolve(t.Context(), b.resolution(b.stored(), delivery.GiveUp, ""))
		require.ErrorIs(t, err, delivery.ErrNotResolvable)
		_, err = service.Resolve(t.Context(), b.resolution(b.stored(), delivery.NotSent, ""))
		require.NoError(t, err)
		require.Equal(t, delivery.Accepted, b.send("").Outcome)
	})

	t.Run("GivenUpIsNeverSentUnlessTheOperatorThinksAgain", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m := b.parked()
		for range 2 {
			resolved, err := b.service(nil).Resolve(t.Context(), b.resolution(m, delivery.GiveUp, ""))
			require.NoError(t, err)
			require.Equal(t, sms.GivenUp, resolved.Status)
		}
		b.clock.Advance(time.Hour)
		b.reconcile()
		result := b.send("")
		require.Equal(t, delivery.GivenUp, result.Outcome)
		require.Zero(t, result.RetryAfter)
		require.Contains(t, result.Explanation, ":resolve")
		require.Empty(t, b.sent())
		_, err := b.service(nil).Resolve(t.Context(), b.resolution(m, delivery.NotSent, ""))
		require.NoError(t, err)
		require.Equal(t, delivery.Accepted, b.send("").Outcome)
	})

	t.Run("WhatIsBeingSentIsRefusedUntilNothingOfItCanCome", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		within(func() { _, _ = b.on(&process{at: 2, mishap: dieBefore}).Send(t.Context(), b.request()) })
		m := b.stored()
		for _, word := range []delivery.Word{delivery.NotSent, delivery.GiveUp} {
			_, err := b.service(nil).Resolve(t.Context(), b.resolution(m, word, ""))
			require.ErrorIs(t, err, delivery.ErrNotResolvable)
			require.ErrorContains(t, err, "ask again in 31s")
		}
		b.clock.Advance(lease)
		for _, word := range []delivery.Word{delivery.NotSent, delivery.GiveUp} {
			_, err := b.service(nil).Resolve(t.Context(), b.resolution(m, word, ""))
			require.ErrorContains(t, err, "ask again in 1s")
		}
		b.clock.Advance(b.config.Timeout)
		_, err := b.service(nil).Resolve(t.Context(), b.resolution(m, delivery.NotSent, ""))
		require.NoError(t, err)
		require.Equal(t, delivery.Accepted, b.send("").Outcome)
	})

	t.Run("S1_35_WordAboutAnEarlierAttemptIsNotTaken", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m := b.parked()
		r := b.resolution(m, delivery.GiveUp, "")
		r.Token, r.At = uuid.New(), b.clock.Now()
		_, _, err := b.store.Resolve(t.Context(), r)
		require.ErrorIs(t, err, delivery.ErrNotResolvable)
		require.Equal(t, sms.Parked, b.stored().Status)
	})

	t.Run("WhatIsInNoDoubtNeedsNoWord", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.send("")
		for _, word := range []delivery.Word{delivery.NotSent, delivery.GiveUp} {
			_, err := b.service(nil).Resolve(t.Context(), b.resolution(b.stored(), word, ""))
			require.ErrorIs(t, err, delivery.ErrNotResolvable)
			require.ErrorContains(t, err, "Twilio has it")
		}
		said, err := b.service(nil).RecordInbound(t.Context(), b.text("SM1", "hello"))
		require.NoError(t, err)
		_, err = b.service(nil).Resolve(t.Context(), b.resolution(said, delivery.GiveUp, ""))
		require.ErrorIs(t, err, delivery.ErrNotResolvable)
	})

	t.Run("MalformedWordIsInvalid", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m := b.parked()
		for name, edit := range map[string]func(*delivery.Resolution){
			"no word":       func(r *delivery.Resolution) { r.Word = "" },
			"no attempt":    func(r *delivery.Resolution) { r.Attempt = -1 },
			"no reason":     func(r *delivery.Resolution) { r.Reason = " " },
			"long reason":   func(r *delivery.Resolution) { r.Reason = strings.Repeat("é", 501) },
			"no SID":        func(r *delivery.Resolution) { r.Word = delivery.Sent },
			"unshapely SID": func(r *delivery.Resolution) { r.Word, r.SID = delivery.Sent, "../CA1" },
			"SID too many":  func(r *delivery.Resolution) { r.SID = "SM" + strings.Repeat("0", 32) },
		} {
			r := b.resolution(m, delivery.GiveUp, "")
			edit(&r)
			_, err := b.service(nil).Resolve(t.Context(), r)
			require.ErrorIs(t, err, delivery.ErrInvalid, name)
		}
	})

	t.Run("AnotherOrganisationHasNoSuchMessage", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		r := b.resolution(b.parked(), delivery.GiveUp, "")
		r.OrgID = uuid.Must(uuid.NewV7())
		_, err := b.service(nil).Resolve(t.Context(), r)
		require.ErrorIs(t, err, delivery.ErrMessageNotFound)
		_, _, err = b.store.Resolve(t.Context(), r)
		require.ErrorIs(t, err, delivery.ErrMessageNotFound)
	})
}

// unreachable is a Twilio that does not answer.
type unreachable struct{}

func (unreachable) Send(context.Context, twilio.Outgoing) twilio.Outcome { return twilio.Outcome{} }

func (unreachable) Fetch(context.Context, string) (twilio.Stored, error) {
	return twilio.Stored{}, errors.New("twilio: fetch a message: timed out")
}

// TestCrashMatrixOfResolve repeats an operator's word until it is taken. It takes effect once, and at most one text is sent.
func TestCrashMatrixOfResolve(t *testing.T) {
	t.Parallel()
	for _, word := range []delivery.Word{delivery.Sent, delivery.NotSent} {
		t.Run(string(word), func(t *testing.T) {
			t.Parallel()
			matrix(t, func(t *testing.T, p *process) {
				b := setup(t)
				want, sid := 1, ""
				var m delivery.Message
				if word == delivery.Sent {
					m, sid, _ = b.doubled()
					want = 2 // one of them is somebody else's
				} else {
					m = b.parked()
				}
				sick, healthy := b.on(p), b.service(nil)
				taken := false
				for round := 0; round < 3 && !taken; round++ {
					service := sick
					if p.over() {
						service = healthy
					}
					within(func() {
						_, err := service.Resolve(t.Context(), b.resolution(m, word, sid))
						taken = taken || err == nil
					})
				}
				require.True(t, taken)
				result := b.send("")
				require.True(t, b.stored().Accepted(), result.Outcome)
				require.Len(t, b.sent(), want)
				resolved := 0
				for _, f := range findings(b.evidence(m.ID)) {
					if f == delivery.Resolved {
						resolved++
					}
				}
				require.Equal(t, 1, resolved)
			})
		})
	}
}
