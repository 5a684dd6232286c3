package stack_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/qstash"
)

// TestAlarmFaults is QStash at its worst, over real HTTP. The person must not notice.
func TestAlarmFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()

	// Also: S0-30, S0-32, S0-63, S0-66
	t.Run("S0_31_EveryAlarmIsDeliveredThreeTimesAtOnceAndAgainLater", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.vendors.QStash.SetFaults(qstash.Script{OnDeliver: qstash.Every(qstash.DeliverFault{Copies: 2, Repeats: 2, RepeatAfter: 9 * time.Second})})
		p := b.begin(t)
		p.requireWhole(t)
		p.requireTimeline(t)
		require.Len(t, b.vendors.QStash.Record().Of(qstash.Published), 4, "one alarm per step")
		for _, answered := range b.vendors.QStash.Record().Of(qstash.Answered) {
			require.Contains(t, []int{http.StatusOK, http.StatusServiceUnavailable}, answered.Status, "done, or in the middle of it")
		}
		for _, skipped := range b.log.events(t, "onboarding.step_skipped") {
			require.Contains(t, []any{"already_sent", "stale", "session_inactive"}, skipped["reason"])
		}
		require.Equal(t, 8*time.Second, p.at(t, message2).Sub(p.at(t, message1)))
		require.Equal(t, 8*time.Second, p.at(t, message3).Sub(p.at(t, message2)))
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
