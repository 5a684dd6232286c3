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
	"paceline.internal/services/messaging/twilio"
)

// TestExplain holds an explanation to what happens: in any state that a person and a key can be in, it is asked for, and then the message
// is sent.
func TestExplain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	said, version, seen := 0, int64(0), map[send.Outcome]bool{}
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
			require.NoError(rt, b.Emulator.Idle(t.Context())) // a receipt between the two would change the answer
			caps := send.Caps{PhoneHour: send.Cap{Messages: rapid.SampledFrom([]int{0, 0, 0, 2}).Draw(rt, "cap"), Segments: 99}}
			service := b.Service(func(c *send.Config) { c.Caps = caps })
			explained, err := service.Explain(t.Context(), r)
			require.NoError(rt, err)
			calls := len(b.Sent())
			var asked atomic.Bool
			b.Emulator.SetScript(emulator.Script{OnCallback: fate.OnCallback, OnCreate: func(_ int, m emulator.Message) emulator.CreateFault {
				asked.Store(true)
				if fate.OnCreate == nil {
					return emulator.CreateFault{}
				}
				return fate.OnCreate(1, m)
			}})
			result, err := service.Send(t.Context(), r)
			seen[explained.Outcome] = true
			switch {
			case errors.Is(err, send.ErrKeyReused):
				require.EqualValues(rt, send.OtherText, explained.Outcome)
			case asked.Load():
				require.NoError(rt, err)
				require.EqualValues(rt, send.WouldSend, explained.Outcome, "%+v", explained)
			default:
				require.NoError(rt, err)
				require.Equal(rt, result.Outcome, explained.Outcome, "%+v", explained)
				require.Len(rt, b.Sent(), calls)
			}
			for _, g := range explained.Gates {
				require.Equal(rt, g.Passed, g.Change == "", "%+v", g)
				require.NotEmpty(rt, g.Fact)
				require.NotContains(rt, g.Fact, sendtest.Theirs)
			}
		}
	})
	for _, o := range []send.Outcome{
		send.WouldSend, send.AlreadyAccepted, send.OptedOut, send.Held, send.RemindersOff, send.Throttled, send.Unknown, send.OtherText, send.Capped,
	} {
		require.True(t, seen[o], "never met: %s", o)
	}
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
				return twilio.Outcome{Kind: twilio.Rejected, Code: 21211}
			})
		}).Send(t.Context(), b.Request())
		require.NoError(t, err)
		require.Equal(t, send.Rejected, result.Outcome)
		e, _ := explain(b)
		require.Contains(t, e.Advice, "POST /v1/messages/"+b.Stored().ID.String()+":resolve with RESOLUTION_NOT_SENT")
	})
}
