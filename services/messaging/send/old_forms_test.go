package send_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	numbers "paceline.internal/platform/phone"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/messaging/schema"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sendtest"
)

// TestOldFormsOfNumbers runs the migration on rows of the release before, which kept what a carrier called a person.
func TestOldFormsOfNumbers(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t, schema.Migrations())
	owner := pgtest.Owner(t, pool)
	content, err := os.ReadFile("../schema/migrations/0027_one_form_of_a_number.sql")
	require.NoError(t, err)
	up, down, found := strings.Cut(string(content), "-- +goose Down")
	require.True(t, found)

	org, at := uuid.Must(uuid.NewV7()), time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	olds := []string{"+551187654321", "+5215512345678", "+541123456789", "+22997123456"}
	for _, old := range olds {
		_, err := owner.Exec(t.Context(), "insert into consents (org_id, phone, state, updated_at) values ($1, $2, 'opted_out', $3)", org, old, at)
		require.NoError(t, err)
		_, err = owner.Exec(t.Context(), `insert into consent_events (org_id, phone, at, state, source, words, sender)
			values ($1, $2, $3, 'opted_out', 'operator', 'STOP', '')`, org, old, at)
		require.NoError(t, err)
		_, err = owner.Exec(t.Context(), "insert into holds (org_id, phone, held, version, updated_at) values ($1, $2, true, 3, $3)", org, old, at)
		require.NoError(t, err)
	}
	for range 2 { // it may be run again
		_, err = owner.Exec(t.Context(), down+up)
		require.NoError(t, err)
	}
	store := sendtest.NewStore(pool)
	for _, old := range olds {
		now := numbers.Canonical(old)
		var same string
		require.NoError(t, owner.QueryRow(t.Context(), "select stored_form($1)", old).Scan(&same))
		require.Equal(t, now, same, "the database and the code have one rule")
		claim, err := store.Claim(t.Context(), sendtest.Attempt(t, org, sendtest.Phone(t, now), "key:"+now))
		require.NoError(t, err)
		require.Equal(t, send.Claim{OptedOut: true, Held: true}, claim, now)
		var lines int
		require.NoError(t, owner.QueryRow(t.Context(), "select count(*) from consent_events where org_id = $1 and phone = $2", org, now).Scan(&lines))
		require.Equal(t, 1, lines)
	}
}
