package messaging_test

import (
	"bytes"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/messaging"
	"paceline.internal/services/messaging/consent"
)

// doctored returns what the doctor says of a database, which its owner has changed by these statements.
func doctored(t *testing.T, settings map[string]string, statements ...string) (report string, err error) {
	t.Helper()
	database := pgtest.URL(t, messaging.Migrations())
	owner, err := postgres.Open(t.Context(), postgres.Config{URL: pgtest.OwnerURL(t, database), MaxConns: 1})
	require.NoError(t, err)
	t.Cleanup(owner.Close)
	for _, statement := range statements {
		_, err := owner.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	env := environ(database, startCarrier(t))
	maps.Copy(env, settings)
	cfg, err := messaging.LoadConfig(env)
	require.NoError(t, err)
	var said bytes.Buffer
	err = messaging.Doctor(t.Context(), cfg).Report(&said, false)
	return said.String(), err
}

func TestDoctorOnTheDatabase(t *testing.T) {
	t.Parallel()
	first, other := strings.Repeat("1", 64), strings.Repeat("2", 64)
	erased := `set role messaging_worker; insert into suppressions (org_id, pseudonym, key_id, created_at)
		values ('` + org + `', 'erased:1', '` + consent.NewPseudonyms(first).KeyID() + `', now())`

	for name, tt := range map[string]struct{ key, want string }{
		"TheKeyOfThoseWhoWereErased": {key: first, want: `(?m)^ok +erasure +people can be erased`},
		"AnotherKey":                 {key: other, want: `(?m)^failed +erasure +PSEUDONYM_KEY is not the key .* of 1 organisations .*\n +to mend: give messaging the PSEUDONYM_KEY that it had`},
		"NoKey":                      {want: `(?m)^failed +erasure +PSEUDONYM_KEY is not the key .*\n +to mend: give messaging the PSEUDONYM_KEY that it had`},
	} {
		t.Run("Knows"+name, func(t *testing.T) {
			t.Parallel()
			report, err := doctored(t, map[string]string{"PSEUDONYM_KEY": tt.key}, erased)
			require.Equal(t, tt.key != first, err != nil)
			require.Regexp(t, tt.want, report)
		})
	}

	t.Run("NamesTheTablesThatAreOutOfReach", func(t *testing.T) {
		t.Parallel()
		report, err := doctored(t, nil)
		require.NoError(t, err)
		require.Regexp(t, `(?m)^ok +rights `, report)
		report, err = doctored(t, nil, `revoke insert on consents, sms_messages from messaging_tenant`)
		require.ErrorContains(t, err, "rights")
		require.Regexp(t, `(?m)^failed +rights +messaging_tenant has no insert on consents, sms_messages\n +to mend: restore the database`, report)
	})

	t.Run("SaysOnceThatItCannotBeOpened", func(t *testing.T) {
		t.Parallel()
		report, err := doctored(t, map[string]string{"MESSAGING_DATABASE_URL": "postgres://ada@127.0.0.1:1/messaging"})
		require.ErrorContains(t, err, "database")
		require.Equal(t, 1, strings.Count(report, "failed to connect"), report)
		require.Equal(t, 6, strings.Count(report, "not looked at: the database cannot be opened"), report)
	})
}
