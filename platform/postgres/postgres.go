// Package postgres connects a process of Paceline to its database: the pool, transactions, migrations and LISTEN.
package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/trace"
)

const (
	// connectTimeout bounds one attempt to connect, TLS and authentication included.
	connectTimeout = 5 * time.Second
	// openTimeout bounds the check that Open makes, which may try several hosts.
	openTimeout = 10 * time.Second
	// pingTimeout bounds the check of a connection that has been idle before it is handed out again.
	pingTimeout = 2 * time.Second
)

// sqlByIndex has the planner take an index wherever there is one. A connection keeps the plan of a statement that it made when a table was
// empty, and one that reads the whole of an empty table is the cheapest there is: an hour later it reads a million rows for each step.
// What the services ask is made for the indexes. A statement of a few rows is never worth compiling either.
const sqlByIndex = `set enable_seqscan = off; set jit = off; `

// Config names the database to use, and sets how it is used.
type Config struct {
	// URL is a libpq connection URL. Settings of the server may ride in its query, for example
	// plan_cache_mode=force_generic_plan, which pays where small arrays are unnested all day.
	URL string
	// DirectURL is the URL that a service listens by when URL leads through a pooler. Default URL.
	DirectURL string
	// MaxConns is the most connections held at once. Default as DATABASE_CONNECTIONS says.
	MaxConns int32
	// Timeouts are set on every connection, unless the URL says otherwise. The zero value leaves them as the server has them.
	Timeouts Timeouts
	// TracerProvider gets a span per query and per connect, without their arguments. Nil traces nothing.
	TracerProvider trace.TracerProvider
	// Watch has OpenFor give up a server that falls silent, within 2.5 s, and gets a line when it does and when the server answers again.
	// Nil watches nothing.
	Watch *slog.Logger
}

// Open connects as the login of the URL and returns the pool once the database has answered, within ten seconds or as ctx says. The
// caller closes the pool. No error shows the password. A service opens its database by OpenFor.
func Open(ctx context.Context, cfg Config) (*pgxpool.Pool, error) {
	poolConfig, err := cfg.pool(cfg.URL)
	if err != nil {
		return nil, err
	}
	return open(ctx, poolConfig)
}

// OpenFor opens the database of a service: its statements are bounded to the scope of their context by the roles of the service, as Pool
// says. Behind a pooler that gives connections away by the transaction nothing is set on a connection and no statement is prepared on one;
// Pool.Sound says what has to be done there instead.
func OpenFor(ctx context.Context, service string, cfg Config) (*Pool, error) {
	poolConfig, err := cfg.pool(cfg.URL)
	if err != nil {
		return nil, err
	}
	listen, err := cfg.pool(cmp.Or(cfg.DirectURL, cfg.URL))
	if err != nil {
		return nil, err
	}
	dialer := newDialer()
	poolConfig.ConnConfig.DialFunc, listen.ConnConfig.DialFunc = dialer.Dial, dialer.Dial
	probing, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	pooled, err := throughPooler(probing, poolConfig.ConnConfig)
	if err == nil && pooled {
		poolConfig.AfterConnect = registerUUIDs // what is set in the server is another client's the next moment
		withoutPrepared(poolConfig.ConnConfig)
	}
	pooler := pooled
	if err == nil && cfg.DirectURL != "" {
		if err = sameDatabase(probing, service, poolConfig.ConnConfig, listen.ConnConfig); err == nil {
			pooled, err = throughPooler(probing, listen.ConnConfig)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("postgres: open: %w", err)
	}
	var lanes *pgxpool.Pool
	if !pooler {
		if lanes, err = openLanes(ctx, poolConfig); err != nil {
			return nil, err
		}
	}
	pool, err := open(ctx, poolConfig)
	if err != nil {
		if lanes != nil {
			lanes.Close()
		}
		return nil, err
	}
	opened := &Pool{
		login: pool, lanes: lanes, service: service, timeouts: cfg.Timeouts, listen: listen.ConnConfig, dialer: dialer,
		pooler: pooler, pooled: pooled, stop: func() {},
	}
	if cfg.Watch != nil {
		opened.stop = opened.watch(cfg.Watch)
	}
	return opened, nil
}

// pool reads a URL with everything else that the configuration says of a connection.
func (cfg *Config) pool(url string) (*pgxpool.Config, error) {
	poolConfig, err := read(url)
	if err != nil {
		return nil, err
	}
	poolConfig.MaxConns = cmp.Or(cfg.MaxConns, defaultConns(runtime.GOMAXPROCS(0)))
	poolConfig.PingTimeout = pingTimeout
	poolConfig.ConnConfig.ConnectTimeout = connectTimeout
	sql := cfg.Timeouts.set(poolConfig.ConnConfig.RuntimeParams) + sqlByIndex
	poolConfig.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sql)
		return errors.Join(err, registerUUIDs(ctx, conn))
	}
	if cfg.TracerProvider != nil {
		poolConfig.ConnConfig.Tracer = otelpgx.NewTracer(otelpgx.WithTracerProvider(cfg.TracerProvider))
	}
	return poolConfig, nil
}

func open(ctx context.Context, poolConfig *pgxpool.Config) (*pgxpool.Pool, error) {
	pool, err := pgxpool.NewWithConfig(ctx, poolConfig)
	if err != nil {
		return nil, fmt.Errorf("postgres: open: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("postgres: open: %w", err)
	}
	return pool, nil
}
