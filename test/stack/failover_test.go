package stack_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres/embeddedpg"
	"paceline.internal/platform/postgres/pgtest"
)

// TestFailover promotes an asynchronous standby that lacks the last commits under running services, or starts everything anew on an older
// copy of the data, of one database or of both. Nobody gets a text twice or after their opt-out, and every conversation goes on.
func TestFailover(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	for name, behind := range map[string][]string{
		"MessagingIsBehind": {"messaging"}, "OnboardingIsBehind": {"onboarding"}, "BothAreBehind": {"messaging", "onboarding"},
	} {
		for by, way := range map[string]way{
			"Promoted": {pair: pgtest.Pair, part: partStandby, takeOver: promote}, "Copied": {pair: pgtest.Spare, part: copyData, takeOver: startCopy},
		} {
			t.Run(name+by, func(t *testing.T) {
				t.Parallel()
				failOver(t, behind, way)
			})
		}
	}
}

// way has a database go back: the servers, from when on the second one gets nothing, and what makes it take over.
type way struct {
	pair     func(testing.TB) (first, second *embeddedpg.Server)
	part     func(t *testing.T, first, second *embeddedpg.Server)
	takeOver func(t *testing.T, b *bundle, behind []string, first, second *embeddedpg.Server)
}

func partStandby(t *testing.T, primary, standby *embeddedpg.Server) {
	t.Helper()
	require.NoError(t, standby.CaughtUp(t.Context(), primary))
	require.NoError(t, standby.Unfollow(t.Context()))
}

func promote(t *testing.T, _ *bundle, _ []string, primary, standby *embeddedpg.Server) {
	t.Helper()
	dead, kill := context.WithCancel(t.Context())
	kill()
	require.NoError(t, primary.Stop(dead))
	require.NoError(t, standby.Promote(t.Context()))
}

func copyData(t *testing.T, server, spare *embeddedpg.Server) {
	t.Helper()
	require.NoError(t, spare.Backup(t.Context(), server))
}

// startCopy stops all and starts it on the copy, as old as if that had taken a minute: nothing tells it from what was stopped.
func startCopy(t *testing.T, b *bundle, behind []string, server, spare *embeddedpg.Server) {
	t.Helper()
	b.stop(t)
	b.onboarding.Close()
	b.messaging.Close()
	require.NoError(t, server.Stop(t.Context()))
	require.NoError(t, spare.Begin(t.Context()))
	for _, service := range behind {
		owner := open(t, spare.URL(service, "postgres"))
		_, err := owner.Exec(t.Context(), `update beats set written = written - interval '1 minute'`)
		require.NoError(t, err)
		require.Equal(t, 1, count(t, owner, `select count(*) from histories where name = current_history()`))
	}
	b.start(t)
}

func failOver(t *testing.T, behind []string, by way) {
	t.Helper()
	first, second := by.pair(t)
	b := prepare(t)
	for _, service := range behind {
		require.NoError(t, first.EnsureService(t.Context(), service))
		url, owner := either(first, second, service, embeddedpg.Serving(service)), either(first, second, service, service)
		if service == "messaging" {
			b.config.MessagingDatabaseURL, b.config.MessagingMigrateURL = url, owner
		} else {
			b.config.OnboardingDatabaseURL, b.config.OnboardingMigrateURL = url, owner
		}
	}
	b.start(t, "INBOUND_SWEEP_INTERVAL", "1s", "ALARM_OVERDUE_GRACE", "10s")
	b.onboarding, b.messaging = open(t, b.config.OnboardingDatabaseURL), open(t, b.config.MessagingDatabaseURL)
	burst, replies, stops := b.begin(t), b.enrol(t, "en"), b.enrol(t, "en")
	replies.activate(t)
	stops.activate(t)
	replies.reaches(t, atOpening)
	stops.reaches(t, atOpening)
	b.idle(t)
	by.part(t, first, second)

	burst.hears(t, 4)
	replies.says(t, replies.greets)
	replies.reaches(t, atExplanation)
	stops.says(t, "please stop texting me")
	stops.hears(t, 2)
	b.idle(t)
	by.takeOver(t, b, behind, first, second)

	b.onboarding, b.messaging = open(t, b.config.OnboardingDatabaseURL), open(t, b.config.MessagingDatabaseURL)
	b.clock.Advance(2 * time.Minute)
	b.until(t, "the opt-out is in force again", func() bool {
		return count(t, b.messaging, `select count(*) from consents where phone = $1 and state = 'opted_out'`, stops.phone) == 1
	})
	b.until(t, "its session has ended again", func() bool {
		return count(t, b.onboarding, `select count(*) from conversation_sessions where profile_id = $1 and status = 'stopped'`, stops.id) == 1
	})
	b.until(t, "the reply is answered again", func() bool {
		return count(t, b.onboarding, `select count(*) from conversation_sessions where profile_id = $1 and state_token = $2`, replies.id, atExplanation) == 1
	})
	b.until(t, "sending goes on", func() bool {
		return count(t, b.messaging, `select count(*) from readbacks where ended_at is null`) == 0
	})
	burst.requireWhole(t)
	replies.says(t, replies.begins)
	replies.requireWhole(t)
	stops.requireHeard(t, opening, confirmed)
	for _, m := range b.vendors.Twilio.Messages() {
		require.Equal(t, 1, count(t, b.messaging, `select count(*) from sms_messages where twilio_sid = $1`, m.SID), "each text is known")
	}
}

// either is a URL of both servers, of which the one that takes writes is used.
func either(primary, standby *embeddedpg.Server, database, login string) string {
	hosts := "," + standby.Host() + "&port=5432,5432&target_session_attrs=read-write"
	return strings.Replace(primary.URL(database, login), "&port=5432", hosts, 1)
}
