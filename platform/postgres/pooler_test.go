package postgres_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/embeddedpg"
	"paceline.internal/platform/postgres/pgtest"
)

// usual are timeouts that no test meets.
var usual = postgres.Timeouts{Statement: time.Minute, Lock: 30 * time.Second, IdleInTransaction: time.Minute}

func TestPooler(t *testing.T) {
	t.Parallel()

	t.Run("R_20_TenantsShareConnectionsOfAPoolerAndSeeOnlyTheirOwn", func(t *testing.T) {
		t.Parallel()
		direct := pgtest.URL(t, notes)
		pool, err := postgres.OpenFor(t.Context(), "notes", postgres.Config{
			URL: pgtest.Pooler(t, direct, 3), DirectURL: direct, MaxConns: 20, Timeouts: usual,
		})
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		const sql = "insert into notes values ($1, $2)"
		var tenants errgroup.Group
		for i := range 20 {
			tenants.Go(func() error {
				org := fmt.Sprintf("00000000-0000-7000-8000-0000000001%02d", i)
				ctx := postgres.ForOrganisation(t.Context(), org)
				if err := postgres.InTx(ctx, pool, func(tx pgx.Tx) error {
					_, err := tx.Exec(ctx, sql, org, org)
					return err
				}); err != nil {
					return err
				}
				for range 24 {
					rows, _ := pool.Query(ctx, "select text from notes") // Collect returns its error
					if got, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[string]); err != nil || got != org {
						return fmt.Errorf("%s read %q: %w", org, got, err)
					}
					var all int
					if err := pool.QueryRow(postgres.AcrossOrganisations(ctx), "select count(*) from notes").Scan(&all); err != nil || all < 3 {
						return fmt.Errorf("the worker saw %d: %w", all, err)
					}
				}
				return nil
			})
		}
		require.NoError(t, tenants.Wait())
	})

	t.Run("R_20_WhoListensHearsOnlyWithADirectURL", func(t *testing.T) {
		t.Parallel()
		direct := pgtest.URL(t, notes)
		pooled := pgtest.Pooler(t, direct, 3)
		for name, tt := range map[string]struct {
			url, direct, want string
		}{
			"PoolerAlone":     {pooled, "", "NOTES_DATABASE_DIRECT_URL"},
			"PoolerTwice":     {pooled, pooled, "NOTES_DATABASE_DIRECT_URL"},
			"PoolerAndDirect": {pooled, direct, ""},
			"Direct":          {direct, "", ""},
		} {
			pool, err := postgres.OpenFor(t.Context(), "notes", postgres.Config{URL: tt.url, DirectURL: tt.direct})
			require.NoError(t, err, name)
			t.Cleanup(pool.Close)
			err = pool.Sound(t.Context())
			if tt.want != "" {
				require.ErrorContains(t, err, tt.want, name)
				continue
			}
			require.NoError(t, err, name)
			ctx, cancel := context.WithCancel(t.Context())
			woken, ended := make(chan struct{}, 8), make(chan struct{})
			go func() {
				defer close(ended)
				postgres.Listen(ctx, pool.Direct(), "notes", func() { woken <- struct{}{} })
			}()
			<-woken // it is connected
			_, err = pool.Exec(postgres.AcrossOrganisations(t.Context()), "select pg_notify('notes', '')")
			require.NoError(t, err)
			<-woken
			cancel()
			<-ended
		}
	})

	t.Run("R_20_MigratingThroughAPoolerIsRefused", func(t *testing.T) {
		t.Parallel()
		direct := pgtest.URL(t, postgres.Migrations{})
		require.ErrorIs(t, accounts().Up(t.Context(), pgtest.Pooler(t, direct, 3)), postgres.ErrPooled)
		require.NoError(t, accounts().Up(t.Context(), direct))
	})
}

func TestKindsOfPoolers(t *testing.T) {
	t.Parallel()

	t.Run("R_20_PoolerThatTakesTurnsIsFoundOut", func(t *testing.T) {
		t.Parallel()
		pool, err := postgres.OpenFor(t.Context(), "notes", postgres.Config{
			URL: pgtest.Pooler(t, pgtest.URL(t, notes), 2, "server_round_robin = 1"),
		})
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		require.ErrorContains(t, pool.Sound(t.Context()), "NOTES_DATABASE_DIRECT_URL")
	})

	t.Run("R_20_PoolerOfSessionsNeedsNeitherADirectURLNorTimeoutsOfTheLogin", func(t *testing.T) {
		t.Parallel()
		pooled := pgtest.Pooler(t, pgtest.URL(t, notes), 5, "pool_mode = session")
		pool, err := postgres.OpenFor(t.Context(), "notes", postgres.Config{
			URL: pooled, Timeouts: usual,
		})
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		require.NoError(t, pool.Sound(t.Context()))
		require.NoError(t, notes.Up(t.Context(), pooled))
	})

	t.Run("R_02_TimeoutsBehindAPoolerAreAskedOfTheLogin", func(t *testing.T) {
		t.Parallel()
		direct, role := pgtest.URL(t, notes), newLogin(t, "inherit")
		grant(t, direct, "grant notes_tenant, notes_worker to "+role.name)
		sound := func() error {
			pool, err := postgres.OpenFor(t.Context(), "notes", postgres.Config{
				URL: pgtest.Pooler(t, role.url(t, direct), 3), DirectURL: direct, Timeouts: usual,
			})
			require.NoError(t, err)
			defer pool.Close()
			return pool.Sound(t.Context())
		}
		mend := strings.ReplaceAll(`alter role "X" set statement_timeout = 60000; alter role "X" set lock_timeout = 30000; `+
			`alter role "X" set idle_in_transaction_session_timeout = 60000;`, "X", role.name)
		require.ErrorContains(t, sound(), mend)
		grant(t, role.url(t, direct), mend)
		require.NoError(t, sound())
	})
}

// TestSound tries the rights that a login needs.
func TestSound(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		inherits string
		roles    []string
		want     string // with the login as %[1]s
	}{
		"R_20_MemberOfBoth":         {"inherit", []string{"notes_tenant", "notes_worker"}, ""},
		"R_20_NoWorker":             {"inherit", []string{"notes_tenant"}, `grant "notes_worker" to "%[1]s";`},
		"R_20_NoTenant":             {"inherit", []string{"notes_worker"}, `grant "notes_tenant" to "%[1]s";`},
		"R_20_WithoutTheirOwnRight": {"noinherit", []string{"notes_tenant", "notes_worker"}, `alter role "%[1]s" inherit; grant "notes_worker" to "%[1]s";`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			direct, role := pgtest.URL(t, notes), newLogin(t, tt.inherits)
			for _, of := range tt.roles {
				grant(t, direct, "grant "+of+" to "+role.name)
			}
			pool, err := postgres.OpenFor(t.Context(), "notes", postgres.Config{URL: role.url(t, direct), Timeouts: usual})
			require.NoError(t, err)
			t.Cleanup(pool.Close)
			err = pool.Sound(t.Context())
			if tt.want == "" {
				require.NoError(t, err)
				require.Equal(t, "ours theirs", read(postgres.AcrossOrganisations(t.Context()), t, pool))
				require.Equal(t, "ours", read(postgres.ForOrganisation(t.Context(), ours), t, pool))
				return
			}
			require.ErrorIs(t, err, postgres.ErrLogin)
			var version int
			require.NoError(t, pool.QueryRow(postgres.AcrossOrganisations(t.Context()), "select current_setting('server_version_num')::int").Scan(&version))
			if version < 160000 { // from then on a grant says more
				require.ErrorContains(t, err, fmt.Sprintf(tt.want, role.name))
			}
		})
	}
}

type restricted struct{ name, password string }

// newLogin is a role that owns nothing.
func newLogin(t *testing.T, inherits string) restricted {
	t.Helper()
	role, maker := restricted{name: "login_" + strings.ToLower(rand.Text()), password: rand.Text()}, pgtest.URL(t, postgres.Migrations{})
	grant(t, maker, "create role "+role.name+" login "+inherits+" password '"+role.password+"'")
	t.Cleanup(func() { grant(t, maker, "drop role "+role.name) })
	return role
}

func (r restricted) url(t *testing.T, to string) string {
	t.Helper()
	u, err := url.Parse(to)
	require.NoError(t, err)
	u.User = url.UserPassword(r.name, r.password)
	return u.String()
}

func grant(t *testing.T, to, sql string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	conn, err := pgx.Connect(ctx, to)
	require.NoError(t, err)
	_, err = conn.Exec(ctx, sql)
	require.NoError(t, err)
	require.NoError(t, conn.Close(ctx))
}

// TestOtherService names a database with another service's tables before it asks for rights, which would break their separation.
func TestOtherService(t *testing.T) {
	t.Parallel()
	direct, role := pgtest.URL(t, notes), newLogin(t, "inherit")
	letters := postgres.Migrations{FS: notes.FS, Service: "letters", Table: "letters"}
	require.ErrorIs(t, letters.Up(t.Context(), role.url(t, direct)), postgres.ErrOtherService)
	pool, err := postgres.OpenFor(t.Context(), "letters", postgres.Config{URL: role.url(t, direct), Timeouts: usual})
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	require.ErrorIs(t, pool.Ready(t.Context(), letters), postgres.ErrOtherService)
	letters.Table = "notes"
	require.NotErrorIs(t, letters.Up(t.Context(), role.url(t, direct)), postgres.ErrOtherService)
}

// TestDirectURL refuses a direct URL that leads to another database: no notification would arrive there.
func TestDirectURL(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t, notes)
	_, err := postgres.OpenFor(t.Context(), "notes", postgres.Config{URL: url, DirectURL: pgtest.URL(t, notes)})
	require.ErrorIs(t, err, postgres.ErrOtherService)
	require.ErrorContains(t, err, "NOTES_DATABASE_DIRECT_URL leads to another database than NOTES_DATABASE_URL")
	elsewhere, err := embeddedpg.Start(t.Context(), embeddedpg.Config{Throwaway: true, Seed: embeddedpg.Seed{Name: "empty"}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, elsewhere.Stop(context.WithoutCancel(t.Context()))) })
	here, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	grant(t, elsewhere.URL("postgres", "postgres"), "create database "+pgx.Identifier{here.Database}.Sanitize())
	_, err = postgres.OpenFor(t.Context(), "notes", postgres.Config{URL: url, DirectURL: elsewhere.URL(here.Database, "postgres")})
	require.ErrorIs(t, err, postgres.ErrOtherService, "a database of the same name on another server")
}

// TestMigrateWithoutTheOwner names the variable that is to have the owner's login.
func TestMigrateWithoutTheOwner(t *testing.T) {
	t.Parallel()
	direct, role := pgtest.URL(t, notes), newLogin(t, "inherit")
	grant(t, direct, "grant notes_tenant, notes_worker to "+role.name)
	schema := postgres.Migrations{FS: notes.FS, Service: "notes"}
	err := schema.Up(t.Context(), role.url(t, pgtest.URL(t, postgres.Migrations{})))
	require.ErrorContains(t, err, "set NOTES_DATABASE_MIGRATE_URL to the owner's login")
}
