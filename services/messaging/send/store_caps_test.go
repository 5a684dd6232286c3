package send_test

import (
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	platform "paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/messaging/schema"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sendtest"
)

// TestMessagesToOnePhoneThatAreClaimedInOneStatementCountEachOther has both lanes wait for the lock of another phone while so many come
// that one statement claims them all.
func TestMessagesToOnePhoneThatAreClaimedInOneStatementCountEachOther(t *testing.T) {
	t.Parallel()
	ctx, pool, org := platform.AcrossOrganisations(t.Context()), pgtest.New(t, schema.Migrations()), uuid.Must(uuid.NewV7())
	store, other := sendtest.NewStore(pool), sendtest.Phone(t, "+14155550100")
	_, err := pgtest.Owner(t, pool).Exec(ctx,
		`insert into consents (org_id, phone, state, updated_at) select $1, p, 'opted_in', now() from unnest($2::text[]) p`, org,
		[]string{other.String(), "+14155550123", "+14155550124"})
	require.NoError(t, err)
	tx, err := pool.Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, "select pg_advisory_xact_lock(hashtextextended($1::text || $2, 0))", org.String(), other.String())
	require.NoError(t, err)

	var group errgroup.Group
	var answered atomic.Int32
	claim := func(a send.Attempt, won *atomic.Int32) {
		group.Go(func() error {
			found, err := store.Claim(ctx, a)
			answered.Add(1)
			if found.Won {
				won.Add(1)
			}
			return err
		})
	}
	var first, byMessages, bySegments atomic.Int32
	for i := range 2 {
		claim(sendtest.Attempt(t, org, other, "other "+strconv.Itoa(i)), &first)
	}
	require.Eventually(t, func() bool { // Postgres has no signal for a backend that waits
		var waiting int
		err := pool.QueryRow(ctx, `select count(*) from pg_locks
			where locktype = 'advisory' and not granted and database = (select oid from pg_database where datname = current_database())`).Scan(&waiting)
		return err == nil && waiting == 2
	}, 10*time.Second, time.Millisecond)
	for i := range 12 {
		a := sendtest.Attempt(t, org, sendtest.Phone(t, "+14155550123"), "messages "+strconv.Itoa(i))
		a.Limits.PhoneHour = send.Cap{Messages: 3, Segments: 90}
		claim(a, &byMessages)
		a = sendtest.Attempt(t, org, sendtest.Phone(t, "+14155550124"), "segments "+strconv.Itoa(i))
		a.Segments, a.Limits.PhoneDay = 4, send.Cap{Messages: 30, Segments: 8}
		claim(a, &bySegments)
	}
	require.Eventually(t, func() bool { return store.Waited()+int(answered.Load()) >= 24 }, 10*time.Second, time.Millisecond)
	require.NoError(t, tx.Rollback(ctx))
	require.NoError(t, group.Wait())
	require.Equal(t, []int32{2, 3, 2}, []int32{first.Load(), byMessages.Load(), bySegments.Load()})
}
