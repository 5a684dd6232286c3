package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// lockPolls times lockPeriod is the time that a migrator waits for another one: five minutes. One second is the shortest
// period that goose knows; the first try is made at once.
const (
	lockPeriod = 1
	lockPolls  = 300
)

// codeNotPermitted is the SQLSTATE of a login without a right.
const codeNotPermitted = "42501"

const (
	// sqlMigrationTimeouts bounds how long a migration waits for a table: a later statement queues behind the migration. It takes
	// off the login's other timeouts: a migration takes as long as it takes.
	sqlMigrationTimeouts = `set lock_timeout = '1s'; set statement_timeout = 0; set idle_in_transaction_session_timeout = 0`
	// migrationTries bounds the tries of a migration that did not get its locks, with a pause that doubles from the first to the last
	// in which those that queued get on: five minutes.
	migrationTries      = 30
	migrationFirstPause = time.Second
	migrationLastPause  = 10 * time.Second
)

// ErrSchemaBehind is a database below the schema version that this binary needs.
var ErrSchemaBehind = errors.New("postgres: the database schema is behind this binary")

// ErrPooled is a URL to migrate by that leads through a pooler, where the lock that keeps two migrators apart does not hold.
var ErrPooled = errors.New("postgres: migrate: the URL leads through a pooler that gives connections away by the transaction; " +
	"give the URL of the server itself as *_DATABASE_DIRECT_URL")

// Migrations is the schema of one service: numbered .sql files with `-- +goose Up` and `-- +goose Down` parts at the root
// of FS. They are applied by the verb migrate, never by serve.
type Migrations struct {
	FS fs.FS
	// Service names the service of the roles that the schema gives its tables to, as RolesOf says. Empty is a schema without.
	Service string
	// Table is one that the first migration makes, and that no other service has; empty where nothing else may be there.
	Table string
	// Log is told of migrations that wait for a lock; nil logs nothing.
	Log *slog.Logger
}

// Up brings the database to the newest version. Any number of processes may call it at once: one migrates under an
// advisory lock and the others find the work done. A migration that does not get a lock within a second lets go and tries
// again, for five minutes: a transaction that is open for long must not have all others queue behind the migration.
//
// The URL leads to the server itself, by a login that owns the database. When that may neither make the roles of the service nor has them,
// the error says what an administrator has to run, and nothing has been changed.
func (m Migrations) Up(ctx context.Context, url string) error {
	if err := m.mayRun(ctx, url); err != nil {
		return err
	}
	wait := migrationFirstPause
	for try := 1; ; try++ {
		err := m.run(url, func(p *goose.Provider) error {
			_, err := p.Up(ctx)
			return err
		})
		if refused, is := errors.AsType[*pgconn.PgError](err); is && refused.Code == codeNotPermitted && m.Service != "" {
			return fmt.Errorf("%w; set %s_DATABASE_MIGRATE_URL to the owner's login", err, strings.ToUpper(m.Service))
		}
		if !lockedOut(err) {
			return err
		}
		if try == migrationTries {
			return fmt.Errorf("%w: a transaction holds a lock that it needs; end it "+
				"(docs/runbooks/work-stands-still.md#who-holds-a-row) and migrate again", err)
		}
		if m.Log != nil {
			m.Log.WarnContext(ctx, "postgres.migration_waits_for_lock", "try", try, "of", migrationTries, "again_in", wait.String(), "error", err)
		}
		if !pause(ctx, wait) {
			return errors.Join(ctx.Err(), err)
		}
		wait = min(2*wait, migrationLastPause)
	}
}

// Down undoes every migration, newest first. It exists for the test that goes up, down and up again.
func (m Migrations) Down(ctx context.Context, url string) error {
	return m.run(url, func(p *goose.Provider) error {
		_, err := p.DownTo(ctx, 0)
		return err
	})
}

// mayRun looks at what stands in the way before anything is begun.
func (m Migrations) mayRun(ctx context.Context, url string) (err error) {
	cfg, err := Parse(url)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	pooled, err := throughPooler(ctx, cfg)
	if err != nil {
		return fmt.Errorf("postgres: migrate: %w", err)
	}
	if pooled {
		return ErrPooled
	}
	if m.Service == "" {
		return nil
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	if err := m.own(ctx, conn); err != nil {
		return err
	}
	return mayMigrate(ctx, conn, RolesOf(m.Service))
}

// ErrOtherService is a database with the schema of another service, as when two URLs were swapped.
var ErrOtherService = errors.New("the database is another service's")

// sqlForeign is true where something was migrated, and the table of this service is not there.
const sqlForeign = `select to_regclass('public.goose_db_version') is not null and to_regclass($1) is null and
    exists (select 1 from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and relname <> 'goose_db_version')`

// own returns ErrOtherService where the tables are another service's.
func (m Migrations) own(ctx context.Context, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
},
) error {
	if m.Table == "" {
		return nil
	}
	foreign := false
	if err := db.QueryRow(AcrossOrganisations(ctx), sqlForeign, m.Table).Scan(&foreign); err != nil {
		return fmt.Errorf("postgres: look for the table %s: %w", m.Table, err)
	}
	if foreign {
		return fmt.Errorf("%w: it has no table %s; %s", ErrOtherService, m.Table, "check the database URLs of "+m.Service)
	}
	return nil
}

func setForMigrations(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, sqlMigrationTimeouts)
	return err
}

func (m Migrations) run(url string, do func(*goose.Provider) error) (err error) {
	cfg, err := Parse(url)
	if err != nil {
		return err
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(lockPeriod, lockPolls))
	if err != nil {
		return fmt.Errorf("postgres: migrate: %w", err)
	}
	db := stdlib.OpenDB(*cfg, stdlib.OptionAfterConnect(setForMigrations))
	defer func() { err = errors.Join(err, db.Close()) }()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, m.FS,
		goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("postgres: migrate: %w", err)
	}
	if err := do(provider); err != nil {
		return fmt.Errorf("postgres: migrate: %w", err)
	}
	return nil
}

// Required is the schema version that this binary needs: the highest number among the files.
func (m Migrations) Required() (int64, error) {
	names, err := fs.Glob(m.FS, "*.sql")
	if err != nil {
		return 0, fmt.Errorf("postgres: list migrations: %w", err)
	}
	if len(names) == 0 {
		return 0, errors.New("postgres: there are no migrations")
	}
	var required int64
	for _, name := range names {
		version, err := goose.NumericComponent(name)
		if err != nil {
			return 0, fmt.Errorf("postgres: migration %s: %w", name, err)
		}
		required = max(required, version)
	}
	return required, nil
}

const sqlCurrentVersion = `select coalesce(max(version_id), 0) from goose_db_version where is_applied`

// Current is the schema version of the database, 0 when nothing has been migrated yet.
func (m Migrations) Current(ctx context.Context, db DB) (int64, error) {
	rows, _ := db.Query(AcrossOrganisations(ctx), sqlCurrentVersion) // CollectExactlyOneRow returns the error that rows carry
	version, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[int64])
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && pgErr.Code == codeUndefinedTable {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("postgres: read the schema version: %w", err)
	}
	return version, nil
}

// Ready is nil when the database has at least the version that this binary needs. A newer one is fine, because a
// release expands the schema before it contracts it; an older one is ErrSchemaBehind.
func (m Migrations) Ready(ctx context.Context, db DB) error {
	if err := m.own(ctx, db); err != nil {
		return err
	}
	required, err := m.Required()
	if err != nil {
		return err
	}
	current, err := m.Current(ctx, db)
	if err != nil {
		return err
	}
	if current < required {
		return fmt.Errorf("%w: it is at version %d, %d is needed: run migrate", ErrSchemaBehind, current, required)
	}
	return nil
}
