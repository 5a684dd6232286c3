package chaos

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func TestPrivatePostgres(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()

	t.Run("S0_65_ComesBackFromAKillWithWhatItAcknowledged", func(t *testing.T) {
		t.Parallel()
		dir, err := os.MkdirTemp("/var/tmp", "paceline-chaos-test-") //nolint:usetesting // its folders are too long for a socket
		require.NoError(t, err)
		require.NoError(t, os.Chmod(dir, 0o711))
		t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
		p, err := startPostgres(t.Context(), filepath.Join(dir, "pg"))
		require.NoError(t, err)
		defer func() { require.NoError(t, p.stop(t.Context())) }()
		conn, err := pgx.Connect(t.Context(), p.onboarding)
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), "create table kept (n int); insert into kept values (1)")
		require.NoError(t, err)
		first, err := p.postmaster()
		require.NoError(t, err)
		children := childrenOf(first)
		require.NotEmpty(t, children)
		require.NoError(t, p.kill())
		for _, child := range children {
			require.Eventually(t, func() bool {
				stat, err := os.ReadFile("/proc/" + strconv.Itoa(child) + "/stat")
				return err != nil || strings.Contains(string(stat), ") Z ") // its parent has not asked how it ended
			}, 10*time.Second, time.Millisecond)
		}
		require.Error(t, conn.Ping(t.Context()))
		require.NoError(t, p.revive(t.Context()))
		again, err := pgx.Connect(t.Context(), p.onboarding)
		require.NoError(t, err)
		defer func() { require.NoError(t, again.Close(t.Context())) }()
		var n int
		require.NoError(t, again.QueryRow(t.Context(), "select n from kept").Scan(&n))
		require.Equal(t, 1, n)
	})
}
