package dedup_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/onboarding/inbound/dedup"
	"paceline.internal/services/onboarding/schema"
)

// TestReservations is about the table; TestConformance has the contract of a store.
func TestReservations(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	claim := func(key string, now time.Time, lease time.Duration) dedup.Claim {
		return dedup.Claim{Key: key, Owner: "owner of " + key, Now: now, Until: now.Add(lease)}
	}

	t.Run("TableHoldsADayOfDeliveriesAndNotMore", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t, schema.Migrations())
		store := &dedup.Postgres{Pool: pool}
		const perDay = 48
		most := 0
		for i := range 4 * perDay {
			now, key := start.Add(time.Duration(i)*24*time.Hour/perDay), fmt.Sprint("done ", i)
			for _, k := range []string{key, fmt.Sprint("abandoned ", i)} {
				_, err := store.Reserve(t.Context(), claim(k, now, time.Minute))
				require.NoError(t, err)
			}
			require.NoError(t, store.Finish(t.Context(), claim(key, now, 24*time.Hour), true))
			var rows int
			require.NoError(t, pool.QueryRow(t.Context(), `select count(*) from delivery_reservations`).Scan(&rows))
			most = max(most, rows)
		}
		require.GreaterOrEqual(t, most, perDay)
		require.LessOrEqual(t, most, perDay+8)
	})

	t.Run("CompletionSweepsOnlySomeAndOnlyWhatHasLongExpired", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t, schema.Migrations())
		store := &dedup.Postgres{Pool: pool}
		_, err := pool.Exec(t.Context(), `insert into delivery_reservations
			select 'old ' || n, 'done', 'x', $1::timestamptz - interval '1 hour' from generate_series(1, 40) n
			union all select 'late ' || n, 'in_flight', 'x', $1::timestamptz - interval '59 minutes' from generate_series(1, 40) n`, start)
		require.NoError(t, err)
		for _, left := range []int{24, 8, 0} {
			_, err := store.Reserve(t.Context(), claim("k", start, time.Minute))
			require.NoError(t, err)
			require.NoError(t, store.Finish(t.Context(), claim("k", start, time.Minute), true))
			var old, late int
			require.NoError(t, pool.QueryRow(t.Context(), `select count(*) filter (where key like 'old%'), count(*) filter (where key like 'late%')
				from delivery_reservations`).Scan(&old, &late))
			require.Equal(t, []int{left, 40}, []int{old, late})
		}
	})

	t.Run("CompletionsAndReservationsAtOnceNeverDeadlock", func(t *testing.T) {
		t.Parallel()
		store := &dedup.Postgres{Pool: pgtest.New(t, schema.Migrations())}
		const workers, keys = 8, 6
		failures := make(chan error, workers)
		for w := range workers {
			go func() {
				failures <- func() error {
					for i := range 150 { // everything that is not held has long expired, and is swept while it is reserved again
						c := claim(fmt.Sprint("k", (i*(w+1))%keys), start.Add(time.Duration(i)*2*time.Hour), time.Minute)
						c.Owner = fmt.Sprint(w)
						got, err := store.Reserve(t.Context(), c)
						if err != nil {
							return err
						}
						if !got.Done && got.Owner == c.Owner {
							if err := store.Finish(t.Context(), c, true); err != nil && !errors.Is(err, dedup.ErrLost) {
								return err
							}
						}
					}
					return nil
				}()
			}()
		}
		for range workers {
			require.NoError(t, <-failures)
		}
	})
}
