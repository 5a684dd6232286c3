package backup

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/onboarding"
)

// TestLookThroughAPooler repeats the questions on connections that a pooler gives away by the transaction, all of them the same one.
func TestLookThroughAPooler(t *testing.T) {
	t.Parallel()
	pooled := pgtest.Pooler(t, pgtest.URL(t, onboarding.Migrations()), 1)
	for range 2 {
		f, err := Backup{Now: time.Now}.look(t.Context(), Onboarding, pooled, "", onboarding.Migrations())
		require.NoError(t, err)
		require.NotEmpty(t, f.server.SystemIdentifier)
		_, err = timeAt(t.Context(), pooled)
		require.NoError(t, err)
	}
}

func TestNothingOfABadLoginIsShown(t *testing.T) {
	t.Parallel()
	err := mayReplicate(t.Context(), "postgres://ada:top@s3cret@127.0.0.1:1/db", "")
	require.ErrorContains(t, err, "percent-encoded")
	require.NotContains(t, err.Error(), "s3cret")
}
