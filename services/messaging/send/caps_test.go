package send_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	emulator "paceline.internal/emulators/twilio"
	"paceline.internal/platform/config"
	"paceline.internal/platform/phone"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sendtest"
	"paceline.internal/services/messaging/sms"
)

// capped is a bundle with caps.
func capped(t *testing.T, caps send.Caps) *bundle {
	t.Helper()
	b := setup(t)
	b.Config.Caps = caps
	return b
}

// sendTo asks for a message to a phone under a key.
func (b *bundle) sendTo(to, key string, change func(*send.Request)) send.Result {
	b.T.Helper()
	r := b.Request()
	r.To, r.Key = sendtest.Phone(b.T, to), key
	if change != nil {
		change(&r)
	}
	result, err := b.Service(nil).Send(b.T.Context(), r)
	require.NoError(b.T, err)
	return result
}

func long(segments int) func(*send.Request) {
	return func(r *send.Request) { r.Body = sms.Body(strings.Repeat("a", 153*segments)) }
}

func TestCapsOfAPhone(t *testing.T) {
	t.Parallel()

	t.Run("FortyOpeningsAtOnceFromTwoProcessesAreThirty", func(t *testing.T) {
		t.Parallel()
		b := capped(t, send.Caps{PhoneHour: send.Cap{Messages: 30, Segments: 90}})
		b.Emulator.SetScript(sendtest.Silent)
		other := sendtest.NewStore(b.Pool)
		services := []*send.Service{b.Service(nil), b.Service(func(c *send.Config) { c.Store = other })}
		var mu sync.Mutex
		count := map[send.Outcome]int{}
		var all errgroup.Group
		for i := range 40 {
			all.Go(func() error {
				r := b.Request()
				r.Key = fmt.Sprint("onboarding:opening:", i)
				result, err := services[i%2].Send(t.Context(), r)
				mu.Lock()
				defer mu.Unlock()
				count[result.Outcome]++
				return err
			})
		}
		require.NoError(t, all.Wait())
		require.Equal(t, map[send.Outcome]int{send.Accepted: 30, send.Capped: 10}, count)
		require.Len(t, b.Sent(), 30)
		require.Equal(t, send.Accepted, b.sendTo("+14155550199", "of another", nil).Outcome)
		b.Clock.Advance(time.Hour)
		require.Equal(t, send.Accepted, b.Send("later").Outcome)
	})

	t.Run("ItSaysWhyAndUntilWhenAndSendsThen", func(t *testing.T) {
		t.Parallel()
		b := capped(t, send.Caps{PhoneHour: send.Cap{Messages: 2, Segments: 90}, PhoneDay: send.Cap{Messages: 3, Segments: 90}})
		began := b.Clock.Now()
		require.Equal(t, send.Accepted, b.Send("1").Outcome)
		b.Clock.Advance(50 * time.Minute)
		require.Equal(t, send.Accepted, b.Send("2").Outcome)
		full := b.Send("3")
		require.Equal(t, send.Capped, full.Outcome)
		require.Nil(t, full.Message)
		require.Equal(t, 10*time.Minute, full.RetryAfter)
		require.Contains(t, full.Explanation, "2 messages or 90 segments to this phone within an hour (SMS_CAP_PHONE_HOUR or the organisation's settings); it may be sent at 2026-11-20T13:00:00Z")
		b.Clock.Advance(full.RetryAfter)
		require.Equal(t, send.Accepted, b.Send("3").Outcome)
		b.Clock.Advance(2 * time.Hour)
		full = b.Send("4")
		require.Equal(t, send.Capped, full.Outcome)
		require.Equal(t, 15*time.Minute, full.RetryAfter, "a cap may be raised before")
		require.Contains(t, full.Explanation, "24 hours (SMS_CAP_PHONE_DAY or the organisation's settings)")
		require.Equal(t, send.AlreadyAccepted, b.Send("3").Outcome)
		b.Clock.Advance(began.Add(24 * time.Hour).Sub(b.Clock.Now()))
		require.Equal(t, send.Accepted, b.Send("4").Outcome)
	})

	t.Run("SegmentsCountAndAMessageLongerThanTheCapGoesAlone", func(t *testing.T) {
		t.Parallel()
		b := capped(t, send.Caps{PhoneHour: send.Cap{Messages: 30, Segments: 4}})
		require.Equal(t, send.Accepted, b.sendTo(theirs, "1", long(3)).Outcome)
		require.Equal(t, send.Capped, b.sendTo(theirs, "2", long(2)).Outcome)
		require.Equal(t, send.Accepted, b.sendTo(theirs, "3", nil).Outcome)
		require.Equal(t, send.Accepted, b.sendTo("+14155550199", "4", long(5)).Outcome)
		require.Equal(t, send.Capped, b.sendTo("+14155550199", "5", nil).Outcome)
	})

	t.Run("CodesHaveRoomBeyondAFullCap", func(t *testing.T) {
		t.Parallel()
		b := capped(t, send.Caps{
			PhoneHour: send.Cap{Messages: 2, Segments: 90}, PhoneDay: send.Cap{Messages: 3, Segments: 90}, OrgHour: send.Cap{Messages: 20, Segments: 90},
		})
		code := func(r *send.Request) { r.Purpose = "otp" }
		for i := range 2 {
			require.Equal(t, send.Accepted, b.Send(fmt.Sprint(i)).Outcome)
		}
		require.Equal(t, send.Capped, b.Send("3").Outcome)
		for i := range 5 {
			require.Equal(t, send.Accepted, b.sendTo(theirs, fmt.Sprint("code ", i), code).Outcome)
		}
		full := b.sendTo(theirs, "another code", code)
		require.Equal(t, send.Capped, full.Outcome)
		require.Contains(t, full.Explanation, "SMS_CAP_PHONE_HOUR")

		for i := range 13 {
			require.Equal(t, send.Accepted, b.sendTo(fmt.Sprintf("+141555501%02d", i), fmt.Sprint("of others ", i), nil).Outcome)
		}
		require.Equal(t, send.Capped, b.sendTo("+14155550150", "above the organisation's", nil).Outcome)
		for i := range 3 {
			require.Equal(t, send.Accepted, b.sendTo("+14155550150", fmt.Sprint("their code ", i), code).Outcome)
		}
		require.Contains(t, b.sendTo("+14155550150", "their last code", code).Explanation, "SMS_CAP_ORG_HOUR")
	})

	t.Run("AnswersToStopAndHelpPass", func(t *testing.T) {
		t.Parallel()
		b := capped(t, send.Caps{PhoneHour: send.Cap{Messages: 1, Segments: 1}})
		require.Equal(t, send.Accepted, b.Send("1").Outcome)
		require.Equal(t, send.Capped, b.Send("2").Outcome)
		answer := func(r *send.Request) { r.DespiteHold = true }
		require.Equal(t, send.Accepted, b.sendTo(theirs, send.AnswerKeys+"help:SM1", answer).Outcome)
	})

	t.Run("MessageThatTwilioDidNotProcessIsNotInItsOwnWay", func(t *testing.T) {
		t.Parallel()
		b := capped(t, send.Caps{PhoneHour: send.Cap{Messages: 1, Segments: 9}})
		b.Emulator.SetScript(sendtest.Lose(emulator.AnswerTooMany, false))
		throttled := b.Send("1")
		require.Equal(t, send.Throttled, throttled.Outcome)
		require.Equal(t, send.Capped, b.Send("2").Outcome)
		b.Clock.Advance(throttled.RetryAfter)
		require.Equal(t, send.Accepted, b.Send("1").Outcome)
	})
}

func TestCapsOfAnOrganisationAndAPrefix(t *testing.T) {
	t.Parallel()
	b := capped(t, send.Caps{
		OrgHour:    send.Cap{Messages: 5, Segments: 9},
		PrefixHour: send.PrefixCaps{{Prefix: "+1415", Cap: send.Cap{Messages: 9, Segments: 2}}, {Prefix: "+1", Cap: send.Cap{Messages: 1, Segments: 9}}},
	})
	b.Clock.Advance(50 * time.Minute)
	var all errgroup.Group
	outcomes := make(chan send.Outcome, 8)
	for i := range 8 {
		all.Go(func() error {
			r := b.Request()
			r.To, r.Key = sendtest.Phone(t, fmt.Sprint("+1415555010", i)), fmt.Sprint(i)
			result, err := b.Service(nil).Send(t.Context(), r)
			outcomes <- result.Outcome
			return err
		})
	}
	require.NoError(t, all.Wait())
	close(outcomes)
	count := map[send.Outcome]int{}
	for o := range outcomes {
		count[o]++
	}
	require.Equal(t, map[send.Outcome]int{send.Accepted: 2, send.Capped: 6}, count)
	require.Equal(t, send.Accepted, b.sendTo("+12125550123", "by the shorter prefix", nil).Outcome)
	full := b.sendTo("+12125550124", "no more", nil)
	require.Equal(t, send.Capped, full.Outcome)
	require.Equal(t, 10*time.Minute, full.RetryAfter, "the hour of the clock ends")
	require.Contains(t, full.Explanation, "to +1 in this hour (SMS_CAP_PREFIX_HOUR)")
	for i := range 2 {
		require.Equal(t, send.Accepted, b.sendTo(fmt.Sprint("+551198765432", i), fmt.Sprint("br", i), nil).Outcome)
	}
	full = b.sendTo("+5511987654329", "br", nil)
	require.Contains(t, full.Explanation, "5 messages or 9 segments by the organisation in this hour (SMS_CAP_ORG_HOUR or the organisation's settings)")
	b.Clock.Advance(full.RetryAfter)
	require.Equal(t, send.Accepted, b.sendTo("+5511987654329", "br", nil).Outcome)
}

func TestNumbersThatMayNotBeTexted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Config.Numbers = phone.Policy{Countries: phone.Countries{"US"}}
	for i, to := range []string{
		"+19002345678", "+449098790123", "+33891123456", "+34803123456", "+448431234567", "+443331234567", "+447012345678", "+15002345678",
		"+447640123456", "+870773123456", "+881612345678", "+882161234567", "+883510012345678", "+979123456789", "+80012345678", "+447400123456",
	} {
		result := b.sendTo(to, fmt.Sprint(i), nil)
		require.Equal(t, send.Rejected, result.Outcome, to)
		require.ErrorContains(t, fmt.Errorf("%s", result.Explanation), phone.ErrRefused.Error())
		require.NotContains(t, result.Explanation, to)
		r := b.Request()
		r.To, r.Key = sendtest.Phone(t, to), fmt.Sprint(i)
		explained, err := b.Service(nil).Explain(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, send.Rejected, explained.Outcome)
		require.Contains(t, explained.Advice, "SMS_")
	}
	require.Empty(t, b.Sent())
	answer := func(r *send.Request) { r.DespiteHold = true }
	require.Equal(t, send.Accepted, b.sendTo("+447400123456", send.AnswerKeys+"help:SM1", answer).Outcome, "a person who writes to us gets an answer")
	b.Config.Numbers = phone.Policy{}
	require.Equal(t, send.Accepted, b.sendTo("+447400123456", "1", nil).Outcome)
	b.Config.Numbers = phone.Policy{Countries: phone.Countries{"US"}}
	require.Equal(t, send.AlreadyAccepted, b.sendTo("+447400123456", "1", nil).Outcome)
}

func TestSettingsOfCapsAreRead(t *testing.T) {
	t.Parallel()
	var caps send.Caps
	require.NoError(t, config.Load(map[string]string{"SMS_CAP_PHONE_DAY": "0", "SMS_CAP_PREFIX_HOUR": "+1=9:9, +1415=1:2"}, &caps))
	require.Equal(t, send.Caps{
		PhoneHour:  send.Cap{Messages: 30, Segments: 90},
		PrefixHour: send.PrefixCaps{{Prefix: "+1415", Cap: send.Cap{Messages: 1, Segments: 2}}, {Prefix: "+1", Cap: send.Cap{Messages: 9, Segments: 9}}},
	}, caps)
	for variable, value := range map[string]string{
		"SMS_CAP_PHONE_HOUR": "30", "SMS_CAP_PHONE_DAY": "0:9", "SMS_CAP_ORG_HOUR": "-1:1", "SMS_CAP_PREFIX_HOUR": "44=1:1",
	} {
		require.ErrorContains(t, config.Load(map[string]string{variable: value}, new(send.Caps)), variable+" is malformed: it must ")
	}
}
