package pgtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/embeddedpg"
)

const (
	// owner owns the test databases, and may make the roles that a schema grants its tables to.
	owner = "paceline_test"
	// serving is a member of those roles, and owns nothing.
	serving = "paceline_test_serve"
	// setupLock is the advisory lock under which the roles and the templates are made, for test binaries may share a server.
	setupLock = 7223372036854775
	// fileCopySince is the first version that has to be told to clone by copying files, which takes half the time for
	// databases as small as these.
	fileCopySince = 150000
	// dropPolls is the number of looks at a database before it is dropped by force; each look takes a fraction of a millisecond.
	dropPolls = 50
	// quietPolls is the number of looks at a database until its test's connections have ended: on a busy machine that takes a while.
	quietPolls = 1000
)

// server is the database server that the tests of one binary share.
type server struct {
	admin   *pgxpool.Pool // as superuser
	private *embeddedpg.Server
	version int
	base    *url.URL // of the admin

	mu        sync.Mutex
	templates map[string]bool     // those known to exist
	idle      map[string][]*lease // by template
}

// One server per test binary is the point: starting it takes half a second.
var (
	shared    *server
	errShared error
	startOnce sync.Once
)

// running starts the server at its first use, for migrations that the test will ask for.
func running(m postgres.Migrations) (*server, error) {
	startOnce.Do(func() { shared, errShared = start(context.Background(), os.Getenv("PACELINE_TEST_DATABASE_URL"), m) })
	return shared, errShared
}

// stop ends the server if there is one; none can be started afterwards.
func stop() error {
	startOnce.Do(func() { errShared = errors.New("pgtest: stopped") })
	if shared == nil {
		return nil
	}
	return shared.stop(context.Background())
}

// seedVersion is a part of a seed's name: raise it with every change of what template makes.
const seedVersion = 1

// seed returns the data of a server with the template of a service's migrations, or of an empty one.
func seed(m postgres.Migrations) (embeddedpg.Seed, error) {
	if m.Service == "" {
		return embeddedpg.Seed{Name: "empty"}, nil
	}
	sum, err := content(m.FS)
	name := fmt.Sprintf("%s %s %d", m.Service, sum, seedVersion)
	return embeddedpg.Seed{Name: name, Fill: func(ctx context.Context, on *embeddedpg.Server) error {
		s, err := connect(ctx, on.URL("postgres", "postgres"))
		if err != nil {
			return err
		}
		_, err = s.template(ctx, m)
		return errors.Join(err, s.stop(ctx))
	}}, err
}

// start connects to the given server as a superuser, or starts a private one when the URL is empty.
func start(ctx context.Context, adminURL string, m postgres.Migrations) (*server, error) {
	if adminURL != "" {
		return connect(ctx, adminURL)
	}
	from, err := seed(m)
	if err != nil {
		return nil, err
	}
	private, err := embeddedpg.Start(ctx, embeddedpg.Config{Throwaway: true, Seed: from})
	if err != nil {
		return nil, err
	}
	s, err := connect(ctx, private.URL("postgres", "postgres"))
	if err != nil {
		return nil, errors.Join(err, private.Stop(ctx))
	}
	s.private = private
	return s, nil
}

func connect(ctx context.Context, adminURL string) (_ *server, err error) {
	s := &server{templates: map[string]bool{}, idle: map[string][]*lease{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop(ctx))
		}
	}()
	if s.admin, err = postgres.Open(ctx, postgres.Config{URL: adminURL}); err != nil {
		return nil, err
	}
	if s.base, err = url.Parse(adminURL); err != nil {
		return nil, postgres.ErrURL
	}
	if err := s.admin.QueryRow(ctx, "select current_setting('server_version_num')::int").Scan(&s.version); err != nil {
		return nil, err
	}
	return s, s.locked(ctx, func(conn *pgx.Conn) error {
		return errors.Join(s.makeLogin(ctx, conn, owner, "createrole"), s.makeLogin(ctx, conn, serving, "nocreaterole"))
	})
}

func (s *server) makeLogin(ctx context.Context, conn *pgx.Conn, name, may string) error {
	_, err := conn.Exec(ctx, "create role "+name+" login")
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && pgErr.Code == "42710" { // it is there already
		err = nil
	}
	if err != nil {
		return err
	}
	for _, sql := range []string{
		"alter role " + name + " " + may + " password '" + s.password(name) + "'",
		"alter role " + name + " set jit = off",
		// Every test has new sessions, which would plan each statement anew for its first five executions: a third of all that tests cost.
		"alter role " + name + " set plan_cache_mode = force_generic_plan",
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

func (s *server) stop(ctx context.Context) error {
	for _, leases := range s.idle {
		for _, l := range leases {
			l.close(ctx)
		}
	}
	if s.admin != nil {
		s.admin.Close()
	}
	if s.private == nil {
		return nil
	}
	return s.private.Stop(ctx)
}

// password of a login follows from the superuser's, so that every test binary on a shared server knows it.
func (s *server) password(login string) string {
	secret, _ := s.base.User.Password()
	sum := sha256.Sum256([]byte(login + secret))
	return hex.EncodeToString(sum[:])
}

// url returns the URL by which a login reaches a database.
func (s *server) url(database, login string) string {
	u := *s.base
	u.Path = "/" + database
	query := u.Query()
	query.Del("user")
	u.User = url.UserPassword(login, s.password(login))
	u.RawQuery = query.Encode()
	return u.String()
}

// clone makes a database from the template, owned by the owner of all.
func (s *server) clone(ctx context.Context, template, name string) error {
	sql := "create database " + pgx.Identifier{name}.Sanitize() + " owner " + owner + " template " + pgx.Identifier{template}.Sanitize()
	if s.version >= fileCopySince {
		sql += " strategy file_copy"
	}
	if _, err := s.admin.Exec(ctx, sql); err != nil {
		return fmt.Errorf("pgtest: clone: %w", err)
	}
	return nil
}

// drop removes a database as soon as its connections, which the test has closed, are gone; those that remain are cut. The
// wait is our own because the server's, in the same case, is a tenth of a second.
func (s *server) drop(ctx context.Context, name string) error {
	for range dropPolls {
		var gone bool
		if err := s.admin.QueryRow(ctx, "select not exists (select from pg_stat_activity where datname = $1)", name).Scan(&gone); err != nil {
			return fmt.Errorf("pgtest: drop: %w", err)
		}
		if gone {
			break
		}
	}
	if _, err := s.admin.Exec(ctx, "drop database "+pgx.Identifier{name}.Sanitize()+" with (force)"); err != nil {
		return fmt.Errorf("pgtest: drop: %w", err)
	}
	return nil
}

// template returns a database with exactly these migrations, named after their content. It gets that name when it is whole,
// and no client can connect to it afterwards, because PostgreSQL does not clone a database that is in use.
func (s *server) template(ctx context.Context, m postgres.Migrations) (string, error) {
	if m.FS == nil {
		return "template0", nil
	}
	sum, err := content(m.FS)
	if err != nil {
		return "", err
	}
	name, building := "template_"+sum, "building_"+sum
	s.mu.Lock() // one lock for all templates: a second one would wait for the server's lock anyway
	defer s.mu.Unlock()
	if s.templates[name] {
		return name, nil
	}
	err = s.locked(ctx, func(conn *pgx.Conn) error {
		var exists bool
		if err := conn.QueryRow(ctx, "select exists (select from pg_database where datname = $1)", name).Scan(&exists); err != nil || exists {
			return err
		}
		if _, err := conn.Exec(ctx, "drop database if exists "+building+" with (force)"); err != nil {
			return err
		}
		if err := s.clone(ctx, "template0", building); err != nil {
			return err
		}
		if err := m.Up(ctx, s.url(building, owner)); err != nil {
			return err
		}
		if m.Service != "" {
			roles := postgres.RolesOf(m.Service)
			if _, err := conn.Exec(ctx, "grant "+roles.Tenant+", "+roles.Worker+" to "+serving); err != nil {
				return err
			}
		}
		if _, err := conn.Exec(ctx, "alter database "+building+" allow_connections false"); err != nil {
			return err
		}
		// An extension such as Citus has a process in the database, which the rename would wait for.
		if _, err := conn.Exec(ctx, "select pg_terminate_backend(pid) from pg_stat_activity where datname = $1", building); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, "alter database "+building+" rename to "+name)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("pgtest: template: %w", err)
	}
	s.templates[name] = true
	return name, nil
}

// locked runs do on a connection that holds the advisory lock of all test binaries.
func (s *server) locked(ctx context.Context, do func(*pgx.Conn) error) error {
	return s.admin.AcquireFunc(ctx, func(conn *pgxpool.Conn) (err error) {
		if _, err := conn.Exec(ctx, "select pg_advisory_lock($1)", int64(setupLock)); err != nil {
			return err
		}
		defer func() {
			_, unlockErr := conn.Exec(context.WithoutCancel(ctx), "select pg_advisory_unlock($1)", int64(setupLock))
			err = errors.Join(err, unlockErr)
		}()
		return do(conn.Conn())
	})
}

// content is a short hash of the names and the contents of all files.
func content(files fs.FS) (string, error) {
	hash := sha256.New()
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(hash, "%s %d\n%s", name, len(text), text)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("pgtest: read migrations: %w", err)
	}
	return hex.EncodeToString(hash.Sum(nil)[:12]), nil
}
