package stack_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/twilio"
	"paceline.internal/test/stack"
)

// shouts is a person writing while nobody takes it: Twilio tries until it may not any more.
func (p *person) shouts(t *testing.T, text string) {
	t.Helper()
	delivery, err := p.b.vendors.Twilio.Receive(t.Context(), p.phone, stack.FromNumber, text)
	require.NoError(t, err)
	require.NotEqual(t, http.StatusOK, delivery.StatusCode)
	require.Len(t, delivery.Attempts, 4, "every attempt that the callback's URL asks for")
}

// sentTo is how many texts of ours the carrier has for a person.
func (p *person) sentTo() (n int) {
	for _, m := range p.b.vendors.Twilio.Messages() {
		if m.To == p.phone && m.Direction == twilio.DirectionAPI {
			n++
		}
	}
	return n
}

// TestInboundOutage is an outage that outlasts every attempt of Twilio's.
func TestInboundOutage(t *testing.T) {
	t.Parallel()

	t.Run("WhatWasSaidDuringItIsHeardAfterIt", func(t *testing.T) {
		t.Parallel()
		b := setup(t, "INBOUND_AUDIT_INTERVAL", "1s")
		stops, replies := b.enrol(t, "en"), b.enrol(t, "pt-BR")
		stops.activate(t)
		replies.activate(t)
		b.stop(t)
		b.clock.Advance(time.Minute)
		stops.shouts(t, "STOP")
		replies.shouts(t, replies.greets)
		before := stops.sentTo()
		b.clock.Advance(30 * time.Minute)
		b.start(t)
		b.until(t, "the STOP ends the session", func() bool {
			return count(t, b.onboarding, `select count(*) from conversation_sessions where profile_id = $1 and status = 'stopped'`, stops.id) == 1
		})
		replies.reaches(t, atExplanation)
		replies.hears(t, 2)
		require.Equal(t, 1, count(t, b.messaging, `select count(*) from consents where phone = $1 and state = 'opted_out'`, stops.phone))
		require.Equal(t, 1, count(t, b.messaging, `
			select count(*) from consent_events where phone = $1 and state = 'opted_out' and source = 'inbound' and words = 'STOP'
				and at = $2`, stops.phone, noon.Add(time.Minute)), "from when it was said")
		require.Equal(t, 2, count(t, b.onboarding, `
			select count(*) from session_transitions where kind in ('stopped', 'replied') and detail like 'late by 3%'`))
		require.Equal(t, 2, count(t, b.onboarding, `select count(*)::int from webhook_jobs where payload ? 'received_at' and status = 'completed'`))

		// Whoever activates them again gets nothing through to the one who said STOP.
		b.try(t, b.operator, http.MethodPost, "/v1/profiles/"+stops.id+":activate", struct{}{})
		b.rest(t)
		require.Equal(t, before, stops.sentTo())
		replies.says(t, replies.begins)
		replies.hears(t, 6)
	})

	t.Run("LastWordCountsWhateverIsHeardFirst", func(t *testing.T) {
		t.Parallel()
		b := setup(t, "INBOUND_AUDIT_INTERVAL", "0")
		p := b.enrol(t, "en")
		p.activate(t)
		b.stop(t)
		b.clock.Advance(time.Minute)
		p.shouts(t, "STOP")
		b.clock.Advance(time.Minute)
		b.start(t)
		p.says(t, "START") // heard at once, and said after the STOP that nobody has heard yet
		b.clock.Advance(2 * time.Minute)
		b.restart(t, "INBOUND_AUDIT_INTERVAL", "1s")
		b.until(t, "the STOP is recorded", func() bool {
			return count(t, b.messaging, `select count(*) from sms_messages where direction = 'inbound' and consent_effect = 'overtaken'`) == 1
		})
		require.Zero(t, count(t, b.messaging, `select count(*) from consents where phone = $1 and state = 'opted_out'`, p.phone))
		p.says(t, p.greets)
		p.reaches(t, atExplanation)
	})

	t.Run("AnOptOutThatMayBeTheLastWordIsTheLastWord", func(t *testing.T) {
		t.Parallel()
		b := setup(t, "INBOUND_AUDIT_INTERVAL", "0")
		p := b.enrol(t, "en")
		p.activate(t)
		b.stop(t)
		b.clock.Advance(time.Minute)
		p.shouts(t, "STOP")
		b.clock.Advance(5 * time.Second)
		b.start(t)
		p.says(t, "START") // reached us seconds after the carrier got the STOP: which was said first cannot be told
		b.clock.Advance(2 * time.Minute)
		b.restart(t, "INBOUND_AUDIT_INTERVAL", "1s")
		b.until(t, "the STOP counts", func() bool {
			return count(t, b.messaging, `select count(*) from consents where phone = $1 and state = 'opted_out'`, p.phone) == 1
		})
	})
}
