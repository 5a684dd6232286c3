package stack_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/twilio"
	"paceline.internal/platform/postgres/pgtest"
)

// shouts is a person writing while the gateway takes nothing: Twilio tries until it may not any more.
func (p *person) shouts(t *testing.T, text string) {
	t.Helper()
	delivery, err := p.b.vendors.Twilio.Receive(t.Context(), p.phone, stack.FromNumber, text)
	require.NoError(t, err)
	require.NotEqual(t, http.StatusOK, delivery.StatusCode)
	require.Len(t, delivery.Attempts, 4, "every attempt that the callback's URL asks for")
}

// TestInboundOutage is an outage that outlasts every attempt of Twilio's: what was said during it is found in Twilio's record after it.
func TestInboundOutage(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	const stranger = "+14155559999"
	b := setup(t, "INBOUND_SWEEP_INTERVAL", "1s")
	stops, replies := b.enrol(t, "en"), b.enrol(t, "pt-BR")
	stops.activate(t)
	replies.activate(t)
	b.stop(t)
	b.clock.Advance(time.Minute)
	stops.shouts(t, "STOP")
	replies.shouts(t, replies.greets)
	for _, in := range []twilio.Incoming{
		{From: stranger, To: stack.FromNumber, Body: "Pare!"},
		{From: "ACMEBANK", To: stack.FromNumber, Body: "Your statement has arrived"},
	} {
		delivery, err := b.vendors.Twilio.ReceiveText(t.Context(), in)
		require.NoError(t, err)
		require.Zero(t, delivery.StatusCode)
	}
	b.clock.Advance(30 * time.Minute)
	b.start(t)
	b.until(t, "the STOP ends the session", func() bool {
		return count(t, b.onboarding, `select count(*) from conversation_sessions where profile_id = $1 and status = 'stopped'`, stops.id) == 1
	})
	replies.reaches(t, atExplanation)
	replies.hears(t, 2)
	b.until(t, "every job has ended", func() bool {
		return count(t, b.onboarding, `select count(*) from webhook_jobs where payload ? 'received_at' and status in ('completed', 'failed')`) == 4
	})
	require.Equal(t, 1, count(t, b.onboarding, `
		select count(*) from webhook_jobs where status = 'failed' and error_message like '%not in E.164%' and attempts = 1`))
	require.Equal(t, 1, count(t, b.messaging, `
		select count(*) from consent_events where phone = $1 and state = 'opted_out' and source = 'inbound' and words = 'STOP'
			and at = $2`, stops.phone, noon.Add(time.Minute)), "from when it was said")
	require.Equal(t, 2, count(t, b.onboarding, `
		select count(*) from session_transitions where kind in ('stopped', 'replied') and detail like 'late by 3%'`))
	require.Equal(t, 2, count(t, b.messaging, `select count(*) from consents where phone = any($1) and state = 'opted_out'`,
		[]string{stops.phone, stranger}))
	missed := b.log.events(t, "onboarding.missed_stop")
	require.NotEmpty(t, missed)
	require.Equal(t, "opt_out", missed[0]["consent_effect"])

	// A new activation sends nothing to the person who said STOP.
	b.try(t, b.operator, http.MethodPost, "/v1/profiles/"+stops.id+":activate", struct{}{})
	b.rest(t)
	stops.requireHeard(t, opening)
	replies.says(t, replies.begins)
	replies.hears(t, 6)
	for _, m := range b.vendors.Twilio.Messages() {
		require.False(t, m.To == stranger && m.Direction == twilio.DirectionAPI, "a STOP of half an hour ago is not confirmed any more")
	}
}

// TestStopWithoutOnboardingsDatabase checks that a STOP is in force while onboarding's database takes no connection, and that onboarding
// follows it afterwards.
func TestStopWithoutOnboardingsDatabase(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	b := setup(t, "INBOUND_SWEEP_INTERVAL", "1s")
	p := b.begin(t)
	p.hears(t, 3)
	database := pgx.Identifier{b.onboarding.Config().ConnConfig.Database}.Sanitize()
	owner := open(t, pgtest.OwnerURL(t, b.config.MessagingDatabaseURL)) // of both
	admit := func(yes bool) {
		_, err := owner.Exec(t.Context(), fmt.Sprintf("alter database %s allow_connections %t", database, yes))
		require.NoError(t, err)
	}
	admit(false)
	_, err := b.messaging.Exec(t.Context(), `select pg_terminate_backend(pid) from pg_stat_activity where datname = $1`,
		b.onboarding.Config().ConnConfig.Database)
	require.NoError(t, err)
	p.shouts(t, "stop please")
	require.Equal(t, 1, count(t, b.messaging, `select count(*) from consents where phone = $1 and state = 'opted_out'`, p.phone))
	require.Eventually(t, func() bool { return len(p.heard()) == 4 }, patience, 10*time.Millisecond, "the confirmation")
	admit(true)
	b.clock.Advance(30 * time.Minute)
	b.until(t, "onboarding has the STOP recorded, too", func() bool {
		return count(t, b.messaging, `
			select count(*) from sms_messages
			where direction = 'inbound' and body = 'stop please' and profile_id = $1 and awaits_onboarding is null`, p.id) == 1
	})
	b.until(t, "its job has ended", func() bool {
		return count(t, b.onboarding, `select count(*) from webhook_jobs where status = 'completed' and payload ? 'received_at'`) == 1
	})
	require.Equal(t, "stopped", p.session(t).Status)
	b.rest(t)
	p.requireHeard(t, opening, explanation, message1, confirmed)
}
