package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKeepSecrets(t *testing.T) {
	t.Parallel()

	t.Run("TheSameEveryTimeAndForTheirOwnerOnly", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		made, err := keepSecrets(dir)
		require.NoError(t, err)
		kept, err := keepSecrets(dir)
		require.NoError(t, err)
		require.Equal(t, made, kept)
		require.NotEqual(t, made.ServiceAuth, made.APIJWT)
		stat, err := os.Stat(filepath.Join(dir, secretsFile))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), stat.Mode().Perm())
	})

	t.Run("ThoseThatAnOlderReleaseDidNotHaveAreAdded", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		old := `{"service_auth_secret":"mine","api_jwt_secret":"mine too"}`
		require.NoError(t, os.WriteFile(filepath.Join(dir, secretsFile), []byte(old), 0o600))
		made, err := keepSecrets(dir)
		require.NoError(t, err)
		require.Equal(t, []string{"mine", "mine too"}, []string{made.ServiceAuth, made.APIJWT})
		require.NotEmpty(t, made.Pseudonym)
		require.NotEmpty(t, made.Ledger)
		kept, err := loadSecrets(dir)
		require.NoError(t, err)
		require.Equal(t, made, kept)
	})

	t.Run("ThoseThatOthersCanReadAreRefused", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		_, err := keepSecrets(dir)
		require.NoError(t, err)
		require.NoError(t, os.Chmod(filepath.Join(dir, secretsFile), 0o644))
		_, err = keepSecrets(dir)
		require.ErrorContains(t, err, "closed to all other users")
	})

	t.Run("ThoseOfAnotherUserAreRefused", func(t *testing.T) {
		t.Parallel()
		if os.Geteuid() != 0 {
			t.Skip("only root can give a file away")
		}
		dir := t.TempDir()
		_, err := keepSecrets(dir)
		require.NoError(t, err)
		require.NoError(t, os.Chown(filepath.Join(dir, secretsFile), 65534, -1))
		_, err = loadSecrets(dir)
		require.ErrorContains(t, err, "must belong to the user")
	})
}
