package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"

	"paceline.internal/deploy/stack"
	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/embeddedpg"
	"paceline.internal/services/messaging"
	"paceline.internal/services/onboarding"
)

// server is the Postgres that all worlds of a run share, each with two databases.
type server struct {
	cluster *embeddedpg.Server
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
	if s.cluster, err = embeddedpg.Start(ctx, embeddedpg.Config{Throwaway: true}); err != nil {
		return nil, err
	}
	if s.admin, err = postgres.Open(ctx, postgres.Config{URL: s.cluster.URL("postgres", "postgres")}); err != nil {
		return nil, err
	}
	for name, schema := range map[string]postgres.Migrations{
		stack.Onboarding: onboarding.Migrations(), stack.Messaging: messaging.Migrations(),
	} {
		err := errors.Join(s.cluster.EnsureService(ctx, name), schema.Up(ctx, s.cluster.URL(name, name)),
			s.allow(ctx, name, false)) // PostgreSQL does not copy a database that is in use, also by an extension such as Citus
		if err != nil {
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
	number                int64
	closed                map[string]bool // by service
	onboarding, messaging string          // URLs
}

var databases = []string{stack.Onboarding, stack.Messaging}

// name returns what the database of a service is called in SQL.
func (d *worldData) name(service string) string { return fmt.Sprintf("world_%d_%s", d.number, service) }

func (s *server) world(ctx context.Context) (*worldData, error) {
	d := &worldData{server: s, number: s.worlds.Add(1), closed: map[string]bool{}}
	for _, service := range databases {
		if _, err := s.admin.Exec(ctx, "create database "+d.name(service)+" owner "+service+" template "+service); err != nil {
			return nil, fmt.Errorf("make a world's database: %w", err)
		}
	}
	d.onboarding = s.cluster.URL(d.name(stack.Onboarding), embeddedpg.Serving(stack.Onboarding))
	d.messaging = s.cluster.URL(d.name(stack.Messaging), embeddedpg.Serving(stack.Messaging))
	return d, nil
}

func (d *worldData) drop(ctx context.Context) error {
	var problems []error
	for _, service := range databases {
		_, err := d.server.admin.Exec(ctx, "drop database if exists "+d.name(service)+" with (force)")
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// allow lets a service into its database, or breaks every connection and refuses new ones until it is allowed again.
func (d *worldData) allow(ctx context.Context, service string, allowed bool) error {
	d.closed[service] = !allowed
	return d.server.allow(ctx, d.name(service), allowed)
}

func (s *server) allow(ctx context.Context, database string, allowed bool) error {
	_, err := s.admin.Exec(ctx, fmt.Sprintf("alter database %s allow_connections %t", database, allowed))
	if err == nil && !allowed {
		_, err = s.admin.Exec(ctx, "select pg_terminate_backend(pid) from pg_stat_activity where datname = $1", database)
	}
	if err != nil {
		return fmt.Errorf("shut a database: %w", err)
	}
	return nil
}
