package messaging_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/platform/process"
	"paceline.internal/services/messaging"
)

// TestStartWithoutTheKeysetOfStoredSenders fails and says what to do, whether there is none or another one.
func TestStartWithoutTheKeysetOfStoredSenders(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t, messaging.Migrations())
	db, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close(t.Context())) }()
	_, err = db.Exec(t.Context(), `insert into senders (id, org_id, name, account_sid, api_key_sid, number, segments_per_second, countries, status,
		api_key_secret, auth_token, version, created_at, updated_at)
	values (gen_random_uuid(), gen_random_uuid(), 'n', 'AC' || repeat('0', 32), 'SK' || repeat('0', 32), '+14155550123', 1, '{}', 'active',
		'sealed', 'sealed', 1, now(), now())`)
	require.NoError(t, err)
	env := environ(url, "")
	var made bytes.Buffer
	cfg, err := messaging.LoadConfig(env)
	require.NoError(t, err)
	require.NoError(t, messaging.Keyset(t.Context(), cfg, &made))
	for name, keyset := range map[string]string{"None": "", "AnotherOne": strings.TrimSpace(made.String())} {
		env["SENDER_KEYSET"] = keyset
		cfg, err := messaging.LoadConfig(env)
		require.NoError(t, err)
		require.ErrorContains(t, messaging.Run(t.Context(), cfg, process.Deps{}), "start with the keyset that they were sealed with", name)
		require.ErrorContains(t, messaging.Reseal(t.Context(), cfg, &made), "SENDER_KEYSET", name)
	}
	env["SENDER_KEYSET"] = "no keyset"
	_, err = messaging.LoadConfig(env)
	require.ErrorContains(t, err, "messaging keyset prints one")
	require.NotContains(t, err.Error(), "no keyset")
}
