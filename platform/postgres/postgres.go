// Package postgres is how a process of Paceline reaches its database: the pool, transactions, migrations and LISTEN.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/trace"
)

const (
	// defaultMaxConns is four connections per core of the two-core box the product is sized for; measured, twice and
	// four times as many never gained more than the noise and often lost.
	defaultMaxConns = 8
	// connectTimeout bounds one attempt to connect, TLS and authentication included.
	connectTimeout = 5 * time.Second
	// openTimeout bounds the check that Open makes, which may try several hosts.
	openTimeout = 10 * time.Second
	// pingTimeout bounds the check of a connection that has been idle before it is handed out again.
	pingTimeout = 2 * time.Second
)

// ErrURL is a database URL that cannot be parsed. Its text never repeats the URL, which holds a password.
var ErrURL = errors.New("postgres: the database URL cannot be parsed, want postgres://user:password@host:port/database")

// Config says which database to use and how.
type Config struct {
	// URL is a libpq connection URL. Settings of the server may ride in its query, for example
	// plan_cache_mode=force_generic_plan, which pays where small arrays are unnested all day.
	URL string
	// MaxConns is the most connections held at once. Default 8.
	MaxConns int32
	// Roles, when set, are taken on by every statement, as its context says: see ForOrganisation. Nil stays the role of the URL.
	Roles *Roles
	// TracerProvider gets a span per query and per connect, without their arguments. Nil traces nothing.
	TracerProvider trace.TracerProvider
}

// Open connects and returns the pool once the database has answered, within ten seconds or as ctx says. The caller
// closes the pool. No error shows the password.
func Open(ctx context.Context, cfg Config) (*pgxpool.Pool, error) {
	poolConfig, err := pgxpool.ParseConfig(cfg.URL)
	if err != nil {
		return nil, ErrURL // the cause quotes the URL
	}
	poolConfig.MaxConns = defaultMaxConns
	if cfg.MaxConns > 0 {
		poolConfig.MaxConns = cfg.MaxConns
	}
	poolConfig.PingTimeout = pingTimeout
	poolConfig.ConnConfig.ConnectTimeout = connectTimeout
	if cfg.Roles != nil {
		poolConfig.PrepareConn = cfg.Roles.takeOn
	}
	if cfg.TracerProvider != nil {
		poolConfig.ConnConfig.Tracer = otelpgx.NewTracer(otelpgx.WithTracerProvider(cfg.TracerProvider))
	}

	pool, err := pgxpool.NewWithConfig(ctx, poolConfig)
	if err != nil {
		return nil, fmt.Errorf("postgres: open: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	if err := pool.Ping(asItself(ctx)); err != nil {
		pool.Close()
		return nil, fmt.Errorf("postgres: open: %w", err)
	}
	return pool, nil
}

// parse reads a URL for a single connection, with the same bounds and the same silence as Open.
func parse(url string) (*pgx.ConnConfig, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, ErrURL
	}
	cfg.ConnectTimeout = connectTimeout
	return cfg, nil
}
