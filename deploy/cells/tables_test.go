package cells_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/cells"
	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/messaging"
	"paceline.internal/services/onboarding"
)

func TestMain(m *testing.M) { pgtest.Run(m) }

const sqlColumns = `
select c.relname::text, array_agg(a.attname::text), coalesce(array_agg(a.attname::text) filter (where a.attidentity <> ''), '{}')
from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition and c.relname <> 'goose_db_version'
group by c.relname`

// TestTables: a new table is decided upon before anybody moves an organisation. An identity column, of which both cells have the same
// numbers, is shifted.
func TestTables(t *testing.T) {
	t.Parallel()
	for name, service := range map[string]struct {
		migrations postgres.Migrations
		move       []cells.Table
		stay       map[string]string
	}{
		"Onboarding": {onboarding.Migrations(), cells.Onboarding(), cells.OnboardingStays()},
		"Messaging":  {messaging.Migrations(), cells.Messaging(), cells.MessagingStays()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rows, err := pgtest.New(t, service.migrations).Query(t.Context(), sqlColumns)
			require.NoError(t, err)
			type table struct {
				Name              string
				Columns, Identity []string
			}
			found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[table])
			require.NoError(t, err)
			tables := map[string]table{}
			for _, f := range found {
				tables[f.Name] = f
			}
			var decided []string
			for _, m := range service.move {
				decided = append(decided, m.Name)
				has := tables[m.Name].Columns
				require.True(t, m.Of != "" || slices.Contains(has, "org_id"), "%s has no org_id: say how its rows are found", m.Name)
				named := slices.Concat(slices.Collect(maps.Keys(m.Shift)), slices.Collect(maps.Keys(m.Reset)), m.Sealed)
				require.Subset(t, has, named, m.Name)
				require.Subset(t, slices.Collect(maps.Keys(m.Shift)), tables[m.Name].Identity, "%s: both cells have these numbers", m.Name)
				if name == "Onboarding" {
					events := slices.DeleteFunc(slices.Clone(has), func(c string) bool { return !strings.HasSuffix(c, "seq") })
					require.Subset(t, slices.Collect(maps.Keys(m.Shift)), events, "%s: both cells have these numbers of events", m.Name)
				}
			}
			decided = append(decided, slices.Collect(maps.Keys(service.stay))...)
			require.ElementsMatch(t, slices.Collect(maps.Keys(tables)), decided,
				"tables.go must say of each table, once, whether it moves with its organisation")
		})
	}
}
