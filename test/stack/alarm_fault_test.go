package stack_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/qstash"
	"paceline.internal/emulators/twilio"
)

// TestAlarmFaults is QStash at its worst, over real HTTP. The person must not notice.
func TestAlarmFaults(t *testing.T) {
	t.Parallel()

	// Also: S0-32, S0-63
	t.Run("S0_31_EveryAlarmRingsThreeTimesAtOnce", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.vendors.QStash.SetFaults(qstash.Script{OnDeliver: qstash.Every(qstash.DeliverFault{Copies: 2})})
		p := b.begin(t)
		p.requireWhole(t)
		p.requireTimeline(t)
		require.Len(t, b.vendors.QStash.Record().Of(qstash.Published), 4, "one alarm per step")
		for _, answered := range b.vendors.QStash.Record().Of(qstash.Answered) {
			require.Contains(t, []int{http.StatusOK, http.StatusServiceUnavailable}, answered.Status, "done, or in the middle of it")
		}
		require.Equal(t, 8*time.Second, p.at(t, message2).Sub(p.at(t, message1)))
		require.Equal(t, 8*time.Second, p.at(t, message3).Sub(p.at(t, message2)))
	})
	// Also: S0-66
	t.Run("S0_30_EveryAlarmRingsAgainLater", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.vendors.QStash.SetFaults(qstash.Script{OnDeliver: qstash.Every(qstash.DeliverFault{Repeats: 2, RepeatAfter: 9 * time.Second})})
		p := b.begin(t)
		p.requireWhole(t)
		skipped := b.log.events(t, "onboarding.step_skipped")
		require.Len(t, skipped, 8)
		for i, line := range skipped { // those of message 1 come before message 3, the others when the interview has begun
			require.Equal(t, []string{"stale", "session_inactive"}[min(i/2, 1)], line["reason"])
		}
		require.Equal(t, 8*time.Second, p.at(t, message3).Sub(p.at(t, message2)))
	})
	// Also: S0-65
	t.Run("S0_44_APublishThatFailsIsMadeGoodByTheRelay", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		failed := map[string]int{}
		b.vendors.QStash.SetFaults(qstash.Script{OnPublish: func(_ int, m qstash.Message) qstash.PublishFault {
			failed[m.DeduplicationID]++
			switch failed[m.DeduplicationID] {
			case 1:
				return qstash.PublishFault{Status: http.StatusInternalServerError}
			case 2:
				return qstash.PublishFault{Reset: true}
			default:
				return qstash.PublishFault{}
			}
		}})
		p := b.begin(t)
		p.requireWhole(t)
		require.Len(t, b.vendors.QStash.Record().Of(qstash.Refused), 8)
		require.Len(t, b.vendors.QStash.Record().Of(qstash.Published), 4)
		require.Less(t, p.at(t, message3).Sub(p.at(t, message2)), 20*time.Second, "the relay is quick")
	})
	t.Run("S0_65_APublishWhoseAnswerIsLostIsOneAlarm", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		lost := map[string]bool{}
		b.vendors.QStash.SetFaults(qstash.Script{OnPublish: func(_ int, m qstash.Message) qstash.PublishFault {
			first := !lost[m.DeduplicationID]
			lost[m.DeduplicationID] = true
			return qstash.PublishFault{LoseAnswer: first}
		}})
		p := b.begin(t)
		p.requireWhole(t)
		require.Len(t, b.vendors.QStash.Record().Of(qstash.Published), 4)
		require.Zero(t, count(t, b.onboarding, `select count(*) from step_alarms where published_at is null`))
		require.Equal(t, 8*time.Second, p.at(t, message2).Sub(p.at(t, message1)), "the alarm that was taken keeps the time")
	})
	t.Run("S0_65_QStashCrashesWhileAnAlarmRings", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.enrol(t, "en")
		rang := map[string]bool{}
		b.vendors.Twilio.SetScript(twilio.Script{OnCreate: func(_ int, m twilio.Message) twilio.CreateFault {
			if !rang[m.Body] {
				rang[m.Body] = true
				b.vendors.QStash.Restart() // drops the attempt that this text is sent for, and makes it again
			}
			return twilio.CreateFault{}
		}})
		p.activate(t)
		p.says(t, p.greets)
		p.says(t, p.begins)
		p.requireWhole(t)
		require.Len(t, rang, 6)
		require.Greater(t, len(b.vendors.QStash.Record().Of(qstash.Attempted)), 4)
	})
	alarmsThatBringNothing(t)
}

// alarmsThatBringNothing are lost, in vain, switched off or refused.
func alarmsThatBringNothing(t *testing.T) {
	t.Helper()
	t.Run("S0_65_AnAlarmThatQStashLosesIsSetAgain", func(t *testing.T) {
		t.Parallel()
		b := setup(t, "ALARM_OVERDUE_GRACE", "1s")
		lost := map[string]bool{}
		b.vendors.QStash.SetFaults(qstash.Script{OnDeliver: func(d qstash.Delivery) qstash.DeliverFault {
			first := !lost[string(d.Message.Body)]
			lost[string(d.Message.Body)] = true
			return qstash.DeliverFault{Lose: first}
		}})
		p := b.begin(t)
		p.requireWhole(t)
		require.Len(t, b.vendors.QStash.Record().Of(qstash.Lost), 4)
	})
	t.Run("S0_65_ASequenceThatCannotGoOnIsVisiblyStuck", func(t *testing.T) {
		t.Parallel()
		b := setup(t, "ALARM_OVERDUE_GRACE", "1s", "ALARM_MAX_GENERATIONS", "2")
		b.vendors.QStash.SetFaults(qstash.Script{OnDeliver: qstash.Every(qstash.DeliverFault{Lose: true})})
		p := b.begin(t)
		b.until(t, "the session is parked", func() bool { return p.session(t).Status == "stuck" })
		b.rest(t)
		p.requireHeard(t, opening, explanation)
		var stuck struct {
			Sessions []sessionJSON `json:"sessions"`
		}
		b.call(t, http.MethodGet, "/v1/sessions?stuck=true", nil, &stuck)
		require.Equal(t, []sessionJSON{p.session(t)}, stuck.Sessions)
		timeline := p.timeline(t)
		require.Equal(t, "parked", timeline[len(timeline)-1].Kind)
		require.NotEmpty(t, timeline[len(timeline)-1].Detail)
		require.Len(t, b.vendors.QStash.Record().Of(qstash.Lost), 2)
	})
	t.Run("S0_58_SwitchedOffSchedulingLosesNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t, "ONBOARDING_SCHEDULING_DISABLED", "1")
		p := b.begin(t)
		require.Equal(t, "onboarding_message_1", p.reaches(t, inBurst).NextStepID)
		b.clock.Advance(time.Hour)
		b.wake(t)
		b.rest(t)
		require.Empty(t, b.vendors.QStash.Record(), "nothing is published")
		require.Equal(t, 1, count(t, b.onboarding, `select count(*) from step_alarms where published_at is null`))
		p.requireHeard(t, opening, explanation)

		b.restart(t, "ONBOARDING_SCHEDULING_DISABLED", "0")
		p.requireWhole(t)
		require.Len(t, b.vendors.QStash.Record().Of(qstash.Published), 4)
	})
	// Also: S0-10, S0-11
	t.Run("S0_09_WhatNobodyMayAskIsRefusedAndChangesNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.begin(t)
		b.idle(t)
		before := p.session(t)
		genuine := p.payload(t, before.SessionID, "onboarding_message_2")
		for _, attempt := range []struct {
			name      string
			body      string
			key       string
			want      int
			wantFinal string
		}{
			{name: "Forged", body: genuine, key: "sig_forged", want: http.StatusUnauthorized},
			{name: "Unsigned", body: genuine, want: http.StatusUnauthorized},
			{name: "Malformed", body: genuine[1:], key: qstash.DevCurrentKey, want: 489, wantFinal: "true"},
			{name: "WithoutAField", body: strings.Replace(genuine, `"step_id":"onboarding_message_2",`, "", 1), key: qstash.DevCurrentKey, want: 489, wantFinal: "true"},
			{name: "UnknownStep", body: strings.ReplaceAll(genuine, "onboarding_message_2", "onboarding_message_9"), key: qstash.DevCurrentKey, want: 489, wantFinal: "true"},
			{name: "KeyOfAnotherStep", body: strings.Replace(genuine, ":onboarding_message_2", ":onboarding_message_3", 1), key: qstash.DevCurrentKey, want: 489, wantFinal: "true"},
			{name: "Oversized", body: genuine + strings.Repeat(" ", 64<<10), key: qstash.DevCurrentKey, want: 489, wantFinal: "true"},
			{name: "SignedWithTheNextKeyButEarly", body: strings.Replace(genuine, inBurst, atInterview, 1), key: qstash.DevNextKey, want: http.StatusOK},
		} {
			status, header, answer := b.ring(t, attempt.body, attempt.key)
			require.Equal(t, attempt.want, status, "%s: %s", attempt.name, answer)
			require.Equal(t, attempt.wantFinal, header.Get("Upstash-NonRetryable-Error"), attempt.name)
		}
		require.Equal(t, before, p.session(t))
		p.requireHeard(t, opening, explanation, message1)
		p.requireWhole(t)
	})
}
