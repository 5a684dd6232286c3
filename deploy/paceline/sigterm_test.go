package main

import (
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	platform "paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/people"
)

// TestTermination sends a real SIGTERM to a real onboarding process while a job of it waits for an answer of messaging.
func TestTermination(t *testing.T) {
	t.Parallel()

	t.Run("S2_22_SIGTERMLeavesNoJobHalfDone", func(t *testing.T) {
		t.Parallel()
		var network net.ListenConfig
		messaging, err := network.Listen(t.Context(), "tcp", "127.0.0.1:0") // takes calls and never answers
		require.NoError(t, err)
		defer func() { _ = messaging.Close() }()
		database := pgtest.URL(t, onboarding.Migrations())
		pool, err := platform.Open(t.Context(), platform.Config{URL: database, MaxConns: 2})
		require.NoError(t, err)
		defer pool.Close()
		store, now, org := conversation.NewStore(pool, people.NewStore(pool)), time.Now(), uuid.NewString()
		enqueue := func(at time.Time) string {
			id := uuid.Must(uuid.NewV7()).String()
			_, err := store.Enqueue(t.Context(), queue.New{
				ID: id, OrgID: org, Key: id, Extra: []string{conversation.SourceKapso}, EventType: "kapso.message.delivered",
				Payload: []byte(`{"message_id":"wamid.1","status":"delivered"}`), At: at, DueAt: at,
			})
			require.NoError(t, err)
			return id
		}
		begun := enqueue(now)

		cmd := command(t, "serve", "onboarding")
		cmd.Env = append(cmd.Env, "ONBOARDING_DATABASE_URL="+database, "ONBOARDING_ADDR=127.0.0.1:0", "ONBOARDING_OPS_ADDR=127.0.0.1:0",
			"MESSAGING_ADDR="+messaging.Addr().String(), "PUBLIC_BASE_URL=https://paceline.example", "QSTASH_URL=http://127.0.0.1:1", "QSTASH_TOKEN=none",
			"SERVICE_AUTH_SECRET=a secret of the tests with over 32 bytes")
		require.NoError(t, cmd.Start())
		call, err := messaging.Accept()
		require.NoError(t, err)
		status := func(id string) string {
			found, err := store.Jobs().Get(t.Context(), org, id)
			require.NoError(t, err)
			return found.Status
		}
		require.Eventually(t, func() bool { return status(begun) == queue.StatusProcessing }, 20*time.Second, 10*time.Millisecond)
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		after := enqueue(time.Now())
		require.NoError(t, call.Close())
		require.NoError(t, messaging.Close())
		require.NoError(t, cmd.Wait(), "it ended in order")
		require.Equal(t, 0, cmd.ProcessState.ExitCode())
		require.Equal(t, queue.StatusPending, status(begun), "released or snoozed, and not left to its lease")
		require.Equal(t, queue.StatusPending, status(after))
	})
}
