package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/config"
)

func TestSecretFile(t *testing.T) {
	t.Parallel()
	type secrets struct {
		Token config.Secret `env:"TOKEN,required" help:"publishes alarms"`
		Key   config.Secret `env:"KEY"            help:"verifies webhooks"`
		Cert  string        `env:"CERT_FILE"      help:"a path of its own"`
		Name  string        `env:"NAME"           help:"no secret"`
	}
	file := func(t *testing.T, content string) string {
		t.Helper()
		path := filepath.Join(t.TempDir(), "hunter2")
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}

	t.Run("ItsContentIsTheValueWithoutTheSpaceAround", func(t *testing.T) {
		t.Parallel()
		var c secrets
		require.NoError(t, config.Load(map[string]string{"TOKEN_FILE": " " + file(t, "abc\n") + " ", "CERT_FILE": "/x.pem"}, &c))
		require.Equal(t, "abc", c.Token.Reveal())
		require.Equal(t, "/x.pem", c.Cert, "a variable that is called so is itself")
	})

	t.Run("AnEmptyFileIsAnAbsentSecret", func(t *testing.T) {
		t.Parallel()
		var c secrets
		err := config.Load(map[string]string{"TOKEN_FILE": file(t, "\n"), "KEY_FILE": file(t, "")}, &c)
		require.EqualError(t, err, "TOKEN is missing (publishes alarms)")
		require.True(t, c.Key.IsZero())
	})

	t.Run("OnlySecretsAreReadFromFiles", func(t *testing.T) {
		t.Parallel()
		var c secrets
		require.NoError(t, config.Load(map[string]string{"TOKEN": "abc", "NAME_FILE": file(t, "hunter2")}, &c))
		require.Empty(t, c.Name)
	})

	for _, tc := range []struct {
		name    string
		environ func(t *testing.T) map[string]string
		want    string
	}{
		{
			name: "BothAreOneTooMany",
			environ: func(t *testing.T) map[string]string {
				return map[string]string{"TOKEN": "hunter2", "TOKEN_FILE": file(t, "hunter2")}
			},
			want: "TOKEN and TOKEN_FILE are both set: keep one of them (publishes alarms)",
		},
		{
			name: "AFileThatIsNotThere",
			environ: func(t *testing.T) map[string]string {
				return map[string]string{"TOKEN_FILE": filepath.Join(t.TempDir(), "hunter2")}
			},
			want: "TOKEN_FILE names a file that cannot be read: no such file or directory (publishes alarms)",
		},
		{
			name:    "AFolder",
			environ: func(t *testing.T) map[string]string { return map[string]string{"TOKEN_FILE": t.TempDir()} },
			want:    "TOKEN_FILE names a file that is not a regular file (publishes alarms)",
		},
		{
			name: "APipeDoesNotBlock",
			environ: func(t *testing.T) map[string]string {
				path := filepath.Join(t.TempDir(), "hunter2")
				require.NoError(t, syscall.Mkfifo(path, 0o600))
				return map[string]string{"TOKEN_FILE": path}
			},
			want: "TOKEN_FILE names a file that is not a regular file (publishes alarms)",
		},
		{
			name: "AFileThatIsNoKey",
			environ: func(t *testing.T) map[string]string {
				return map[string]string{"TOKEN_FILE": file(t, strings.Repeat("hunter2", 10_000))}
			},
			want: "TOKEN_FILE names a file that is larger than 64 KiB (publishes alarms)",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.EqualError(t, config.Load(tc.environ(t), new(secrets)), tc.want, "and neither the path nor the value")
		})
	}
}
