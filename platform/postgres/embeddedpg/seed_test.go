package embeddedpg

import (
	"context"
	"crypto/rand"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// TestSeed starts two servers from one seed: it is made once, and each has what it holds.
func TestSeed(t *testing.T) {
	t.Parallel()
	fills := 0
	seed := Seed{Name: rand.Text(), Fill: func(ctx context.Context, on *Server) error {
		fills++
		return run(ctx, on.URL(superuser, superuser), []statement{{sql: "create table grown as select 7 as n"}})
	}}
	for range 2 {
		c, err := Start(t.Context(), Config{Throwaway: true, Seed: seed})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Stop(context.WithoutCancel(t.Context()))) })
		file, err := c.seedFile(seed.Name)
		require.NoError(t, err)
		t.Cleanup(func() { _ = os.Remove(file) })
		conn, err := pgx.Connect(t.Context(), c.URL(superuser, superuser))
		require.NoError(t, err)
		var n int
		require.NoError(t, conn.QueryRow(t.Context(), "select n from grown").Scan(&n))
		require.Equal(t, 7, n)
		require.NoError(t, conn.Close(t.Context()))
	}
	require.Equal(t, 1, fills)
}
