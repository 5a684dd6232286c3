package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
)

// counted counts the transactions of a pool.
type counted struct {
	postgres.DB

	sent atomic.Int64
}

func (c *counted) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	c.sent.Add(1)
	return c.DB.SendBatch(ctx, b)
}

const sqlAdd = `
with added as (insert into numbers (n) select u.n from unnest(@n::int[]) u (n) returning n)
select u.place, added.n from unnest(@n::int[]) with ordinality u (n, place) join added using (n)`

func numbers(t *testing.T) *counted {
	t.Helper()
	pool := pgtest.New(t, postgres.Migrations{})
	_, err := pool.Exec(t.Context(), `create table numbers (n int primary key check (n >= 0))`)
	require.NoError(t, err)
	return &counted{DB: pool}
}

// add stores a number, and reads it back.
func add(ctx context.Context, c *postgres.Combiner, n int) (stored int, err error) {
	err = c.Do(ctx, fmt.Sprintf("%06d", n), postgres.Statement{
		SQL: sqlAdd, Args: postgres.Args{"n": n}, Read: func(row pgx.CollectableRow) error { return row.Scan(&stored) },
	})
	return stored, err
}

func TestCombinedStatementsShareTransactionsAndEachKeepsItsOwnOutcome(t *testing.T) {
	t.Parallel()
	db := numbers(t)
	c := postgres.NewCombiner(db)
	ctx := postgres.AcrossOrganisations(t.Context())
	_, err := db.Exec(ctx, `insert into numbers select n * 50 from generate_series(1, 10) n`)
	require.NoError(t, err)

	var group errgroup.Group
	for n := range 600 {
		group.Go(func() error {
			if n%7 == 3 { // poison
				_, err := add(ctx, c, -n)
				if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != "23514" {
					return fmt.Errorf("%d: %w", -n, err)
				}
				return nil
			}
			stored, err := add(ctx, c, n)
			taken := n > 0 && n <= 500 && n%50 == 0
			switch {
			case taken && !postgres.IsUniqueViolation(err, "numbers_pkey"):
				return fmt.Errorf("%d is there already: %w", n, err)
			case !taken && (err != nil || stored != n):
				return fmt.Errorf("%d answered %d: %w", n, stored, err)
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	var there, good int
	require.NoError(t, db.QueryRow(ctx, `select count(*), count(*) filter (where n >= 0) from numbers`).Scan(&there, &good))
	wanted := 10
	for n := range 600 {
		if n%7 != 3 && (n == 0 || n > 500 || n%50 != 0) {
			wanted++
		}
	}
	require.Equal(t, wanted, there)
	require.Equal(t, wanted, good)
}

func TestACrowdSharesCommitsAndALoneCallerWaitsForNone(t *testing.T) {
	t.Parallel()
	db := numbers(t)
	c := postgres.NewCombiner(db)
	ctx := postgres.AcrossOrganisations(t.Context())
	for n := range 3 {
		_, err := add(ctx, c, n)
		require.NoError(t, err)
	}
	require.EqualValues(t, 3, db.sent.Load())
	require.Zero(t, c.Waited())

	db.sent.Store(0)
	var group errgroup.Group
	for n := range 300 {
		group.Go(func() error { _, err := add(ctx, c, 1000+n); return err })
	}
	require.NoError(t, group.Wait())
	require.Less(t, db.sent.Load(), int64(150))
	require.Greater(t, c.Waited(), 150)
}

func TestOneWhoWaitsForALockHoldsUpNoneOfTheOthers(t *testing.T) {
	t.Parallel()
	db := numbers(t)
	c := postgres.NewCombiner(db)
	ctx := postgres.AcrossOrganisations(t.Context())
	holder, err := db.Begin(ctx)
	require.NoError(t, err)
	_, err = holder.Exec(ctx, `insert into numbers values (7)`)
	require.NoError(t, err)

	blocked := make(chan error, 4) // the pool has eight connections
	for range cap(blocked) {
		go func() { _, err := add(ctx, c, 7); blocked <- err }()
	}
	var group errgroup.Group
	for n := range 50 {
		group.Go(func() error { _, err := add(ctx, c, 100+n); return err })
	}
	require.NoError(t, group.Wait(), "while the other transaction holds its row")
	require.Empty(t, blocked)
	require.NoError(t, holder.Commit(ctx))
	for range cap(blocked) {
		require.True(t, postgres.IsUniqueViolation(<-blocked, "numbers_pkey"))
	}
}

func TestACallerWhoIsGoneIsNotServed(t *testing.T) {
	t.Parallel()
	db := numbers(t)
	c := postgres.NewCombiner(db)
	ctx, cancel := context.WithTimeout(postgres.AcrossOrganisations(t.Context()), time.Minute)
	cancel()
	_, err := add(ctx, c, 1)
	require.ErrorIs(t, err, context.Canceled)
}

func TestAReaderThatFailsUndoesNothingAndIsItsCallersAlone(t *testing.T) {
	t.Parallel()
	db := numbers(t)
	c := postgres.NewCombiner(db)
	illegible := errors.New("a row of a newer release")
	ctx := postgres.AcrossOrganisations(t.Context())
	err := c.Do(ctx, "", postgres.Statement{SQL: sqlAdd, Args: postgres.Args{"n": 1}, Read: func(pgx.CollectableRow) error { return illegible }},
		postgres.Statement{SQL: sqlAdd, Args: postgres.Args{"n": 2}})
	require.ErrorIs(t, err, illegible)
	var there int
	require.NoError(t, db.QueryRow(ctx, `select count(*) from numbers`).Scan(&there))
	require.Equal(t, 2, there)
}

// undone has the server undo the first transaction at its end, as one that lost a deadlock, and then does something.
type undone struct {
	postgres.DB

	tries int
	then  func()
}

func (u *undone) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if u.tries++; u.tries > 1 {
		return u.DB.SendBatch(ctx, b)
	}
	b.Queue(`do $$ begin raise sqlstate '40P01'; end $$`)
	return &undoneResults{BatchResults: u.DB.SendBatch(ctx, b), then: u.then}
}

type undoneResults struct {
	pgx.BatchResults

	then func()
}

func (r *undoneResults) Close() error {
	defer r.then()
	return r.BatchResults.Close()
}

func TestWhatAnUndoneTryHasFoundDoesNotCount(t *testing.T) {
	t.Parallel()
	pool := numbers(t).DB
	_, err := pool.Exec(t.Context(), `insert into numbers values (1)`)
	require.NoError(t, err)
	db := &undone{DB: pool, then: func() { // meanwhile another process changes the row
		_, err := pool.Exec(t.Context(), `update numbers set n = 100`)
		require.NoError(t, err)
	}}
	rows := 0
	err = postgres.NewCombiner(db).Do(postgres.AcrossOrganisations(t.Context()), "", postgres.Statement{
		SQL:  `update numbers m set n = u.b from unnest(@a::int[], @b::int[]) with ordinality u (a, b, place) where m.n = u.a returning u.place`,
		Args: postgres.Args{"a": 1, "b": 11}, Rows: &rows,
	})
	require.NoError(t, err)
	require.Equal(t, 2, db.tries)
	require.Zero(t, rows)
}

func TestLazyCombinerWaitsForNoDisk(t *testing.T) {
	t.Parallel()
	db := numbers(t)
	ctx := postgres.AcrossOrganisations(t.Context())
	by := func(c *postgres.Combiner) (source string) { // a server of tests waits for no disk at all, so who says so tells
		require.NoError(t, c.Do(ctx, "k", postgres.Statement{
			SQL: `select u.place, (select s.setting || ' by ' || s.source from pg_settings s where s.name = 'synchronous_commit')
				from unnest(@n::int[]) with ordinality u (n, place)`,
			Args: postgres.Args{"n": 1}, Read: func(row pgx.CollectableRow) error { return row.Scan(&source) },
		}))
		return source
	}
	require.Equal(t, "off by session", by(postgres.NewLazyCombiner(db)))
	require.NotContains(t, by(postgres.NewCombiner(db)), "by session", "it ends with its transaction")
}

// stuck is a pool of which the first transaction hangs until it is let go.
type stuck struct {
	postgres.DB

	asked        atomic.Bool
	hangs, letGo chan struct{}
}

func (s *stuck) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if !s.asked.Swap(true) {
		close(s.hangs)
		<-s.letGo
	}
	return s.DB.SendBatch(ctx, b)
}

func TestASlowTransactionHoldsUpNoneOfTheOthers(t *testing.T) {
	t.Parallel()
	db := &stuck{DB: numbers(t), hangs: make(chan struct{}), letGo: make(chan struct{})}
	c := postgres.NewCombiner(db)
	ctx := postgres.AcrossOrganisations(t.Context())
	slow := make(chan error, 1)
	go func() { _, err := add(ctx, c, 1); slow <- err }()
	<-db.hangs
	for n := range 3 {
		_, err := add(ctx, c, 10+n)
		require.NoError(t, err)
	}
	require.Empty(t, slow)
	close(db.letGo)
	require.NoError(t, <-slow)
}

func TestPiecesOfOneKeyShareNoTransaction(t *testing.T) {
	t.Parallel()
	db := numbers(t)
	c := postgres.NewCombiner(db)
	ctx := postgres.AcrossOrganisations(t.Context())
	_, err := db.Exec(ctx, `alter table numbers add column tx xid8 not null default pg_current_xact_id()`)
	require.NoError(t, err)
	const each = 60
	var group errgroup.Group
	for n := range 2 * each {
		key := "the same"
		if n >= each {
			key = fmt.Sprint(n)
		}
		group.Go(func() error {
			return c.Do(ctx, key, postgres.Statement{SQL: sqlAdd, Args: postgres.Args{"n": n}})
		})
	}
	require.NoError(t, group.Wait())
	var same, others int
	require.NoError(t, db.QueryRow(ctx, `select count(distinct tx) filter (where n < $1), count(distinct tx) filter (where n >= $1) from numbers`, each).
		Scan(&same, &others))
	require.Equal(t, each, same)
	require.Less(t, others, each)
}
