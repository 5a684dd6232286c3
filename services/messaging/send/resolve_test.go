package send_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	emulator "paceline.internal/emulators/twilio"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sendtest"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

func (b *bundle) resolution(m send.Message, kind send.ResolutionKind, sid string) send.ResolveRequest {
	return send.ResolveRequest{
		OrgID: b.Config.Senders.Environment.OrgID, MessageID: m.ID, Kind: kind, SID: sid, Reason: "seen in Twilio's console",
	}
}

// doubled leaves the one row parked next to two texts at Twilio, of which the first is ours.
func (b *bundle) doubled() (m send.Message, ours, other string) {
	b.T.Helper()
	b.Emulator.SetScript(sendtest.Mute(emulator.AnswerReset, true))
	b.Send("")
	other = b.Carrier.Send(b.T.Context(), twilio.Outgoing{To: theirs, Body: body}).SID
	b.Clock.Advance(lease + time.Second)
	b.Reconcile()
	m = b.Stored()
	require.Equal(b.T, sms.Parked, m.Status)
	return m, b.Sent()[0].SID, other
}

// TestResolveAsksTheAccountOfTheSender, not that of the environment.
func TestResolveAsksTheAccountOfTheSender(t *testing.T) {
	t.Parallel()
	b := setup(t)
	org := uuid.Must(uuid.NewV7())
	sender := b.AddSender(org, sendtest.Seconds, nil)
	b.Emulator.SetScript(sendtest.Mute(emulator.AnswerReset, true))
	r := b.Request()
	r.OrgID = org
	result, err := b.Service(nil).Send(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, send.Unknown, result.Outcome)
	resolution := b.resolution(*result.Message, send.Sent, b.Sent()[0].SID)
	resolution.OrgID = org
	resolved, err := b.Service(nil).Resolve(t.Context(), resolution)
	require.NoError(t, err)
	require.Equal(t, []any{sender.ID, resolution.SID}, []any{resolved.SenderID, resolved.SID})
}

func TestResolve(t *testing.T) {
	t.Parallel()
	sentIsConfirmedByTwilio(t)
	notSentAndGivenUp(t)
	resolutionsThatAreRefused(t)
}

func sentIsConfirmedByTwilio(t *testing.T) {
	t.Helper()
	t.Run("SentAdoptsWhatTwilioConfirms", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m, ours, _ := b.doubled()
		for range 2 { // the same word again is fine
			resolved, err := b.Service(nil).Resolve(t.Context(), b.resolution(m, send.Sent, ours))
			require.NoError(t, err)
			require.Equal(t, ours, resolved.SID)
			require.Equal(t, sms.Delivered, resolved.Status)
		}
		evidence := b.evidence(m.ID)
		require.Equal(t, []send.EvidenceKind{send.Ambiguous, send.Resolved}, findings(evidence))
		require.Contains(t, evidence.Items[1].Detail, "seen in Twilio's console")
		require.Len(t, evidence.Items[1].Candidates, 1)
		require.Equal(t, send.AlreadyAccepted, b.Send("").Outcome)
		require.Contains(t, b.Logged.String(), `"as":"said_sent"`)
	})

	t.Run("SentIsRefusedWhenTwilioContradictsIt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m, _, _ := b.doubled()
		words := b.Carrier.Send(t.Context(), twilio.Outgoing{To: theirs, Body: "something else"}).SID
		person := b.Carrier.Send(t.Context(), twilio.Outgoing{To: "+14155550124", Body: body}).SID
		b.Report(send.Receipt{MessageID: m.ID, SID: "SM1", Status: "unheard of"})
		taken := b.Request()
		taken.Key, taken.Body = "another", "taken"
		result, err := b.Service(nil).Send(t.Context(), taken)
		require.NoError(t, err)
		for sid, why := range map[string]string{
			"SM" + strings.Repeat("0", 32): "Twilio has no message",
			words:                          "says something else",
			person:                         "went to another number",
			result.Message.SID:             "another message has this SID",
		} {
			_, err := b.Service(nil).Resolve(t.Context(), b.resolution(m, send.Sent, sid))
			require.ErrorIs(t, err, send.ErrNotResolvable)
			require.ErrorContains(t, err, why)
			require.NotContains(t, err.Error(), theirs)
		}
		require.Equal(t, sms.Parked, b.Stored().Status)
	})

	t.Run("SentIsUnavailableWhileTwilioIsDown", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m, ours, _ := b.doubled()
		down := b.Service(func(c *send.Config) { c.Carrier = unreachable{} })
		_, err := down.Resolve(t.Context(), b.resolution(m, send.Sent, ours))
		require.ErrorIs(t, err, sms.ErrUnavailable)
		require.Equal(t, sms.Parked, b.Stored().Status)
	})

	t.Run("SentIsWhatTwilioPutItsTrialNoticeBefore", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m := b.parked()
		trial := b.Carrier.Send(t.Context(), twilio.Outgoing{To: theirs, Body: "Sent from your Twilio trial account - " + body}).SID
		created := b.Clock.Now()
		b.Clock.Advance(time.Hour)
		resolved, err := b.Service(nil).Resolve(t.Context(), b.resolution(m, send.Sent, trial))
		require.NoError(t, err)
		require.Equal(t, trial, resolved.SID)
		require.Equal(t, created.Add(time.Second), resolved.AcceptedAt)
		require.Equal(t, b.Clock.Now(), resolved.UpdatedAt)
	})
}

func notSentAndGivenUp(t *testing.T) {
	t.Helper()
	t.Run("S1_35_LateRepeatOfNotSentReleasesNoLaterAttempt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m := b.parked()
		first := b.resolution(m, send.NotSent, "")
		first.Attempt = b.evidence(m.ID).Message.Attempts
		_, err := b.Service(nil).Resolve(t.Context(), first)
		require.NoError(t, err)
		b.Emulator.SetScript(emulator.Script{OnCreate: func(int, emulator.Message) emulator.CreateFault {
			return emulator.CreateFault{Answer: emulator.AnswerServerError}
		}})
		require.Equal(t, send.Unknown, b.Send("").Outcome)
		b.Clock.Advance(lease + time.Second)
		_, err = b.Service(nil).Resolve(t.Context(), first)
		require.ErrorIs(t, err, send.ErrNotResolvable)
		require.ErrorContains(t, err, "attempt 1 is not the last one")
		unnamed := first
		unnamed.Attempt = 0
		_, err = b.Service(nil).Resolve(t.Context(), unnamed)
		require.ErrorIs(t, err, send.ErrNotResolvable)
		require.ErrorContains(t, err, "2 attempts")
		require.Equal(t, sms.Unknown, b.Stored().Status)
		first.Attempt = 2
		_, err = b.Service(nil).Resolve(t.Context(), first)
		require.NoError(t, err)
		require.Equal(t, sms.Throttled, b.Stored().Status)
	})

	t.Run("NotSentIsSentAgainByTheNextCall", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m := b.parked()
		for range 2 {
			resolved, err := b.Service(nil).Resolve(t.Context(), b.resolution(m, send.NotSent, ""))
			require.NoError(t, err)
			require.Equal(t, sms.Throttled, resolved.Status)
		}
		require.Empty(t, b.Sent(), "a word sends nothing itself")
		require.Equal(t, send.Accepted, b.Send("").Outcome)
		require.Len(t, b.Sent(), 1)
	})

	t.Run("NotSentAlsoMendsARefusal", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		service := b.Service(func(c *send.Config) {
			c.Carrier = sendtest.CarrierFunc(func(context.Context, twilio.Outgoing) twilio.Outcome {
				return twilio.Outcome{Status: sms.Rejected, Code: 21408}
			})
		})
		_, err := service.Send(t.Context(), b.Request())
		require.NoError(t, err)
		_, err = service.Resolve(t.Context(), b.resolution(b.Stored(), send.GiveUp, ""))
		require.ErrorIs(t, err, send.ErrNotResolvable)
		_, err = service.Resolve(t.Context(), b.resolution(b.Stored(), send.NotSent, ""))
		require.NoError(t, err)
		require.Equal(t, send.Accepted, b.Send("").Outcome)
	})

	t.Run("GivenUpIsNeverSentUnlessTheOperatorThinksAgain", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m := b.parked()
		for range 2 {
			resolved, err := b.Service(nil).Resolve(t.Context(), b.resolution(m, send.GiveUp, ""))
			require.NoError(t, err)
			require.Equal(t, sms.GivenUp, resolved.Status)
		}
		b.Clock.Advance(time.Hour)
		b.Reconcile()
		result := b.Send("")
		require.Equal(t, send.GivenUp, result.Outcome)
		require.Zero(t, result.RetryAfter)
		require.Contains(t, result.Explanation, ":resolve")
		require.Empty(t, b.Sent())
		_, err := b.Service(nil).Resolve(t.Context(), b.resolution(m, send.NotSent, ""))
		require.NoError(t, err)
		require.Equal(t, send.Accepted, b.Send("").Outcome)
	})
}

func resolutionsThatAreRefused(t *testing.T) {
	t.Helper()
	t.Run("WhatIsBeingSentIsRefusedUntilNothingOfItCanCome", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		sendtest.Within(func() {
			_, _ = b.On(&sendtest.Process{At: 2, Mishap: sendtest.DieBefore}).Send(t.Context(), b.Request())
		})
		m := b.Stored()
		for _, word := range []send.ResolutionKind{send.NotSent, send.GiveUp} {
			_, err := b.Service(nil).Resolve(t.Context(), b.resolution(m, word, ""))
			require.ErrorIs(t, err, send.ErrNotResolvable)
			require.ErrorContains(t, err, "ask again in 31s")
		}
		b.Clock.Advance(lease)
		for _, word := range []send.ResolutionKind{send.NotSent, send.GiveUp} {
			_, err := b.Service(nil).Resolve(t.Context(), b.resolution(m, word, ""))
			require.ErrorContains(t, err, "ask again in 1s")
		}
		b.Clock.Advance(b.Config.Timeout)
		_, err := b.Service(nil).Resolve(t.Context(), b.resolution(m, send.NotSent, ""))
		require.NoError(t, err)
		require.Equal(t, send.Accepted, b.Send("").Outcome)
	})

	t.Run("S1_35_WordAboutAnEarlierAttemptIsNotTaken", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m := b.parked()
		_, _, err := b.Store.Resolve(t.Context(), send.Resolution{
			ResolveRequest: b.resolution(m, send.GiveUp, ""), Token: uuid.New(), At: b.Clock.Now(),
		})
		require.ErrorIs(t, err, send.ErrNotResolvable)
		require.Equal(t, sms.Parked, b.Stored().Status)
	})

	t.Run("WhatIsInNoDoubtNeedsNoWord", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Send("")
		for _, word := range []send.ResolutionKind{send.NotSent, send.GiveUp} {
			_, err := b.Service(nil).Resolve(t.Context(), b.resolution(b.Stored(), word, ""))
			require.ErrorIs(t, err, send.ErrNotResolvable)
			require.ErrorContains(t, err, "Twilio has it")
		}
		said := b.Receive("SM1", "hello")
		_, err := b.Service(nil).Resolve(t.Context(), b.resolution(said, send.GiveUp, ""))
		require.ErrorIs(t, err, send.ErrNotResolvable)
	})

	t.Run("MalformedWordIsInvalid", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m := b.parked()
		for name, edit := range map[string]func(*send.ResolveRequest){
			"no word":       func(r *send.ResolveRequest) { r.Kind = "" },
			"no attempt":    func(r *send.ResolveRequest) { r.Attempt = -1 },
			"no reason":     func(r *send.ResolveRequest) { r.Reason = " " },
			"long reason":   func(r *send.ResolveRequest) { r.Reason = strings.Repeat("é", 501) },
			"no SID":        func(r *send.ResolveRequest) { r.Kind = send.Sent },
			"unshapely SID": func(r *send.ResolveRequest) { r.Kind, r.SID = send.Sent, "../CA1" },
			"SID too many":  func(r *send.ResolveRequest) { r.SID = "SM" + strings.Repeat("0", 32) },
		} {
			r := b.resolution(m, send.GiveUp, "")
			edit(&r)
			_, err := b.Service(nil).Resolve(t.Context(), r)
			require.ErrorIs(t, err, sms.ErrInvalid, name)
		}
	})

	t.Run("AnotherOrganisationHasNoSuchMessage", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		r := b.resolution(b.parked(), send.GiveUp, "")
		r.OrgID = uuid.Must(uuid.NewV7())
		_, err := b.Service(nil).Resolve(t.Context(), r)
		require.ErrorIs(t, err, send.ErrMessageNotFound)
		_, _, err = b.Store.Resolve(t.Context(), send.Resolution{ResolveRequest: r})
		require.ErrorIs(t, err, send.ErrMessageNotFound)
	})
}

// unreachable is a Twilio that does not answer.
type unreachable struct{}

func (unreachable) Send(context.Context, twilio.Outgoing) twilio.Outcome { return twilio.Outcome{} }

func (unreachable) Fetch(context.Context, string) (twilio.Stored, error) {
	return twilio.Stored{}, errors.New("twilio: fetch a message: timed out")
}

func (unreachable) List(context.Context, string, time.Time) ([]twilio.Stored, error) {
	return nil, errors.New("twilio: list messages: timed out")
}

// TestCrashMatrixOfResolve repeats an operator's word until it is taken. It takes effect once, and at most one text is sent.
func TestCrashMatrixOfResolve(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	for _, word := range []send.ResolutionKind{send.Sent, send.NotSent} {
		t.Run(string(word), func(t *testing.T) {
			t.Parallel()
			sendtest.Matrix(t, func(t *testing.T, p *sendtest.Process) {
				b := setup(t)
				want, sid := 1, ""
				var m send.Message
				if word == send.Sent {
					m, sid, _ = b.doubled()
					want = 2 // one of them is another program's
				} else {
					m = b.parked()
				}
				sick, healthy := b.On(p), b.Service(nil)
				taken := false
				for round := 0; round < 3 && !taken; round++ {
					service := sick
					if p.Over() {
						service = healthy
					}
					sendtest.Within(func() {
						_, err := service.Resolve(t.Context(), b.resolution(m, word, sid))
						taken = taken || err == nil
					})
				}
				require.True(t, taken)
				result := b.Send("")
				require.True(t, b.Stored().Accepted(), result.Outcome)
				require.Len(t, b.Sent(), want)
				resolved := 0
				for _, f := range findings(b.evidence(m.ID)) {
					if f == send.Resolved {
						resolved++
					}
				}
				require.Equal(t, 1, resolved)
			})
		})
	}
}
