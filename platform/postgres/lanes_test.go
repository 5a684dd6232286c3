package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
)

const sqlSettings = `select u.place, concat_ws(' ', current_setting('plan_cache_mode'), current_setting('enable_hashjoin'),
	current_setting('enable_mergejoin'), current_setting('lock_timeout'), current_setting('enable_seqscan'),
	(select source = 'session' from pg_settings where name = 'synchronous_commit'))
from unnest(@n::int[]) with ordinality u (n, place)`

// TestLanes checks that combiners run with the same settings on every kind of pool, and that other statements run without them.
func TestLanes(t *testing.T) {
	t.Parallel()
	direct := pgtest.URL(t, notes)
	for name, tt := range map[string]struct {
		cfg         postgres.Config
		connections []int32 // of each pool
		seqscan     string
	}{
		"OfAPoolThatIsSplit":           {postgres.Config{URL: direct, MaxConns: 8}, []int32{4, 4}, "off"},
		"OfTheSmallestThatIsSplit":     {postgres.Config{URL: direct, MaxConns: 4}, []int32{2, 2}, "off"},
		"OfOneThatIsTooSmallToBeSplit": {postgres.Config{URL: direct, MaxConns: 3}, []int32{3}, "off"},
		"OfALargeOne":                  {postgres.Config{URL: direct, MaxConns: 40}, []int32{36, 4}, "off"},
		"BehindAPooler":                {postgres.Config{URL: pgtest.Pooler(t, direct, 3), DirectURL: direct, MaxConns: 8}, []int32{8}, "on"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.cfg.Timeouts = usual
			pool, err := postgres.OpenFor(t.Context(), "notes", tt.cfg)
			require.NoError(t, err)
			t.Cleanup(pool.Close)
			var connections []int32
			for _, s := range pool.Stats() {
				connections = append(connections, s.MaxConns())
			}
			require.Equal(t, tt.connections, connections)

			ctx := postgres.AcrossOrganisations(t.Context())
			var before, after string
			sql := `select concat_ws(' ', current_setting('enable_hashjoin'), current_setting('enable_mergejoin'), current_setting('lock_timeout'))`
			require.NoError(t, pool.QueryRow(ctx, sql).Scan(&before))
			require.Contains(t, before, "on on ")
			require.NotContains(t, before, "200ms")
			settings := func(c *postgres.Combiner) (found string) {
				require.NoError(t, c.Do(ctx, "", postgres.Statement{
					SQL: sqlSettings, Args: postgres.Args{"n": 1}, Read: func(row pgx.CollectableRow) error { return row.Scan(&found) },
				}))
				return found
			}
			prompt, lazy := postgres.NewCombiner(pool), postgres.NewLazyCombiner(pool)
			for range 2 {
				require.Equal(t, "force_generic_plan off off 200ms "+tt.seqscan+" t", settings(lazy))
				require.Equal(t, "force_generic_plan off off 200ms "+tt.seqscan+" f", settings(prompt))
			}
			require.NoError(t, pool.QueryRow(ctx, sql).Scan(&after))
			require.Equal(t, before, after)
		})
	}
}
