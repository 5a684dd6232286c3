package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/cluster"
	"paceline.internal/services/messaging"
	"paceline.internal/services/onboarding"
)

// server is the Postgres that all worlds of a run share, each with two databases of its own.
type server struct {
	cluster *cluster.Cluster
	admin   *pgxpool.Pool
	worlds  atomic.Int64
}

// openServer starts a private server and migrates the two databases that every world's are copied from.
func openServer(ctx context.Context) (_ *server, err error) {
	s := &server{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close(context.WithoutCancel(ctx)))
		}
	}()
	if s.cluster, err = cluster.Start(ctx, cluster.Config{Throwaway: true}); err != nil {
		return nil, err
	}
	if s.admin, err = postgres.Open(ctx, postgres.Config{URL: s.cluster.URL("postgres", "postgres")}); err != nil {
		return nil, err
	}
	for name, schema := range map[string]postgres.Migrations{"onboarding": onboarding.Migrations(), "messaging": messaging.Migrations()} {
		if err := s.cluster.EnsureService(ctx, name); err != nil {
			return nil, err
		}
		if err := schema.Up(ctx, s.cluster.URL(name, name)); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *server) close(ctx context.Context) error {
	if s.admin != nil {
		s.admin.Close()
	}
	if s.cluster == nil {
		return nil
	}
	return s.cluster.Stop(ctx)
}

// worldData is the two databases of one world.
type worldData struct {
	server                *server
	names                 [2]string
	closed                map[string]bool // by service
	onboarding, messaging string          // URLs
}

func (s *server) world(ctx context.Context) (*worldData, error) {
	d := &worldData{server: s, closed: map[string]bool{}}
	n := s.worlds.Add(1)
	for i, service := range []string{"onboarding", "messaging"} {
		d.names[i] = fmt.Sprintf("world_%d_%s", n, service)
		sql := "create database " + pgx.Identifier{d.names[i]}.Sanitize() + " owner " + service + " template " + service
		if _, err := s.admin.Exec(ctx, sql); err != nil {
			return nil, fmt.Errorf("make a world's database: %w", err)
		}
	}
	d.onboarding, d.messaging = s.cluster.URL(d.names[0], "onboarding"), s.cluster.URL(d.names[1], "messaging")
	return d, nil
}

func (d *worldData) drop(ctx context.Context) error {
	var problems []error
	for _, name := range d.names {
		_, err := d.server.admin.Exec(ctx, "drop database if exists "+pgx.Identifier{name}.Sanitize()+" with (force)")
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// shut breaks every connection to the databases of a service and lets nobody in until open is called.
func (d *worldData) shut(ctx context.Context, service string) error {
	return d.allow(ctx, service, false)
}

func (d *worldData) open(ctx context.Context, service string) error {
	return d.allow(ctx, service, true)
}

// away reports whether the database of a service is shut.
func (d *worldData) away(service string) bool { return d.closed[service] }

func (d *worldData) allow(ctx context.Context, service string, allowed bool) error {
	d.closed[service] = !allowed
	for _, name := range d.names {
		if !strings.HasSuffix(name, service) {
			continue
		}
		sql := fmt.Sprintf("alter database %s allow_connections %t", pgx.Identifier{name}.Sanitize(), allowed)
		if _, err := d.server.admin.Exec(ctx, sql); err != nil {
			return fmt.Errorf("shut a database: %w", err)
		}
		if !allowed {
			if _, err := d.server.admin.Exec(ctx, "select pg_terminate_backend(pid) from pg_stat_activity where datname = $1", name); err != nil {
				return fmt.Errorf("shut a database: %w", err)
			}
		}
	}
	return nil
}
