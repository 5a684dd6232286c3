package send_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	emulator "paceline.internal/emulators/twilio"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sendtest"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

// TestExplain holds an explanation to what happens: in any state that a person and a key can be in, it is asked for, and then the message
// is sent.
func TestExplain(t *testing.T) {
	t.Parallel()
	t.Run("EachOutcomeIsWhatSendThenSays", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		tooMany, lost := sendtest.Lose(emulator.AnswerTooMany, false), sendtest.Mute(emulator.AnswerReset, false)
		nothing := func() {}
		for _, step := range []struct {
			before  func()
			key     string
			change  func(*send.Request)
			fate    emulator.Script
			perHour int // the cap of the phone; 0 is none
			want    send.Outcome
		}{
			{before: nothing, key: "1", want: send.WouldSend},
			{before: nothing, key: "1", want: send.AlreadyAccepted},
			{before: nothing, key: "1", change: func(r *send.Request) { r.Body = "other words" }, want: send.OtherText},
			{before: nothing, key: "2", fate: tooMany, want: send.WouldSend},
			{before: nothing, key: "2", want: send.Throttled},
			{before: nothing, key: "3", fate: lost, want: send.WouldSend},
			{before: nothing, key: "3", want: send.Unknown},
			{before: nothing, key: "4", perHour: 2, want: send.Capped},
			{
				before: func() { b.Receive("SM1", "stop reminders") }, key: "5",
				change: func(r *send.Request) { r.Purpose = "goodbye" }, want: send.RemindersOff,
			},
			{before: func() { b.Hold(true, 1) }, key: "6", want: send.Held},
			{before: func() { b.Receive("SM2", "STOP") }, key: "7", want: send.OptedOut},
		} {
			step.before()
			r := b.Request()
			r.Key = step.key
			if step.change != nil {
				step.change(&r)
			}
			require.Equal(t, step.want, b.explainsThenSends(t, r, step.fate, step.perHour), step.key)
		}
	})

	t.Run("SoItIsInAnyState", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		said, version := 0, int64(0)
		rapid.Check(t, func(rt *rapid.T) {
			said++
			prefix := fmt.Sprint("explain:", said, ":")
			for range rapid.IntRange(1, 12).Draw(rt, "steps") {
				said++
				what := []string{"hold", "release", "stop", "start", "ambiguous", "silent", "spoken", "time", "settle", "nothing"}
				switch rapid.SampledFrom(what).Draw(rt, "what") {
				case "hold", "release":
					version++
					b.Hold(rapid.Bool().Draw(rt, "held"), version)
				case "stop":
					b.Receive(fmt.Sprint("SM", said), "STOP")
				case "start":
					b.Receive(fmt.Sprint("SM", said), "START")
				case "ambiguous":
					b.Receive(fmt.Sprint("SM", said), "leave me alone")
				case "silent":
					b.Receive(fmt.Sprint("SM", said), "stop reminders")
				case "spoken":
					b.Receive(fmt.Sprint("SM", said), "start reminders")
				case "time":
					b.Clock.Advance(time.Duration(rapid.IntRange(1, 90).Draw(rt, "seconds")) * time.Second)
				case "settle":
					b.Reconcile()
				}
				r := b.Request()
				r.Key = prefix + rapid.SampledFrom([]string{"1", "2"}).Draw(rt, "key")
				r.Purpose = rapid.SampledFrom([]string{"", "goodbye"}).Draw(rt, "purpose")
				if rapid.IntRange(0, 9).Draw(rt, "other words") == 0 {
					r.Body = "other words"
				}
				fate := rapid.SampledFrom([]emulator.Script{
					{}, sendtest.Lose(emulator.AnswerTooMany, false), sendtest.Mute(emulator.AnswerReset, true), sendtest.Mute(emulator.AnswerReset, false),
				}).Draw(rt, "fate")
				b.explainsThenSends(rt, r, fate, rapid.SampledFrom([]int{0, 0, 0, 2}).Draw(rt, "cap"))
			}
		})
	})
}

// explainsThenSends asks for an explanation of a send that meets a fate at Twilio, has it compared with the send, and returns its outcome.
func (b *bundle) explainsThenSends(t require.TestingT, r send.Request, fate emulator.Script, perHour int) send.Outcome {
	require.NoError(t, b.Emulator.Idle(b.T.Context())) // a receipt between the two would change the answer
	service := b.Service(func(c *send.Config) { c.Caps = send.Caps{PhoneHour: send.Cap{Messages: perHour, Segments: 99}} })
	explained, err := service.Explain(b.T.Context(), r)
	require.NoError(t, err)
	calls := len(b.Sent())
	var asked atomic.Bool
	b.Emulator.SetScript(emulator.Script{OnCallback: fate.OnCallback, OnCreate: func(_ int, m emulator.Message) emulator.CreateFault {
		asked.Store(true)
		if fate.OnCreate == nil {
			return emulator.CreateFault{}
		}
		return fate.OnCreate(1, m)
	}})
	result, err := service.Send(b.T.Context(), r)
	switch {
	case errors.Is(err, send.ErrKeyReused):
		require.EqualValues(t, send.OtherText, explained.Outcome)
	case asked.Load():
		require.NoError(t, err)
		require.EqualValues(t, send.WouldSend, explained.Outcome, "%+v", explained)
	default:
		require.NoError(t, err)
		require.Equal(t, result.Outcome, explained.Outcome, "%+v", explained)
		require.Len(t, b.Sent(), calls)
	}
	for _, g := range explained.Gates {
		require.Equal(t, g.Passed, g.Change == "", "%+v", g)
		require.NotEmpty(t, g.Fact)
		require.NotContains(t, g.Fact, sendtest.Theirs)
	}
	return explained.Outcome
}

func TestExplainWhatIsOnItsWay(t *testing.T) {
	t.Parallel()
	explain := func(b *bundle) (e send.Explanation, fact string) {
		e, err := b.Service(nil).ExplainMessage(b.T.Context(), b.Stored())
		require.NoError(b.T, err)
		for _, g := range e.Gates {
			if !g.Passed {
				return e, g.Fact
			}
		}
		return e, ""
	}
	t.Run("InDoubtItSaysSinceWhenAndWhenTwilioIsAskedNext", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		asked := b.Clock.Now()
		b.Emulator.SetScript(sendtest.Mute(emulator.AnswerUnavailable, false))
		require.Equal(t, send.Unknown, b.Send("").Outcome)
		e, fact := explain(b)
		require.Contains(t, fact, "in doubt: Twilio was asked at "+asked.UTC().Format(time.RFC3339)+", attempt 1, and no usable answer is recorded")
		require.Contains(t, e.Advice, "its receipt, or Twilio's list of messages, which is asked at ")

		failing := directory{list: func(context.Context, string, time.Time) ([]twilio.Stored, error) {
			return nil, errors.New("HTTP status 503")
		}}
		_, err := b.Reconciler(func(cfg *send.ReconcilerConfig) { cfg.Carrier = failing }).Once(t.Context())
		require.NoError(t, err)
		e, fact = explain(b)
		require.Contains(t, fact, "Twilio's list of messages could not be had since "+b.Clock.Now().UTC().Format(time.RFC3339)+", tries: 1")
		require.Contains(t, e.Next, "which is asked at "+b.Stored().NextCheckAt.UTC().Format(time.RFC3339))
	})
	t.Run("ThrottledItSaysWhenItMayBeTriedAgain", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(sendtest.Lose(emulator.AnswerTooMany, false))
		require.Equal(t, send.Throttled, b.Send("").Outcome)
		e, fact := explain(b)
		require.Contains(t, fact, "Twilio did not process the last attempt, number 1, of ")
		require.Equal(t, "time: it may be tried again at "+b.Stored().LeaseUntil.UTC().Format(time.RFC3339), e.Advice)
	})
	t.Run("NotDeliveredItSaysWhyAndHowToBeginAnew", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		const session = "01900000-0000-7000-8000-0000000000b1"
		r := b.Request()
		r.Key = "onboarding:" + r.ProfileID.String() + ":" + session + ":opening"
		explain := func(code int) (e send.Explanation, g send.Gate) {
			b.Emulator.SetScript(emulator.Script{OnFate: func(emulator.Message) emulator.Fate {
				return emulator.Fate{Final: emulator.StatusUndelivered, Code: code}
			}})
			r.Key += "x"
			_, err := b.Service(nil).Send(t.Context(), r)
			require.NoError(t, err)
			b.Pass(time.Second)
			e, err = b.Service(nil).Explain(t.Context(), r)
			require.NoError(t, err)
			require.Equal(t, send.AlreadyAccepted, e.Outcome)
			return e, e.Gates[len(e.Gates)-1]
		}
		e, g := explain(30005)
		require.Equal(t, send.Delivered, g.Name)
		require.Equal(t, "it did not reach the person, code 30005: the handset is unknown or no longer in service", g.Fact)
		require.Equal(t, "ask the person for another number; then POST /v1/sessions/"+session+":reset; /v1/profiles/"+r.ProfileID.String()+
			" takes the new number; POST /v1/profiles/"+r.ProfileID.String()+":activate begins anew", e.Advice)
		e, _ = explain(30004)
		require.Equal(t, "nothing: the person can text START", e.Advice, "no new session is advised for a person who blocks us")
		e, _ = explain(39999)
		require.Contains(t, e.Advice, "https://www.twilio.com/docs/api/errors/39999")
	})
	t.Run("RefusedItNamesTheResolutionWithoutWhichItIsRefusedAgain", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		result, err := b.Service(func(c *send.Config) {
			c.Carrier = sendtest.CarrierFunc(func(context.Context, twilio.Outgoing) twilio.Outcome {
				return twilio.Outcome{Status: sms.Rejected, Code: 21211}
			})
		}).Send(t.Context(), b.Request())
		require.NoError(t, err)
		require.Equal(t, send.Rejected, result.Outcome)
		e, _ := explain(b)
		require.Contains(t, e.Advice, "POST /v1/messages/"+b.Stored().ID.String()+":resolve with RESOLUTION_NOT_SENT")
	})
}
