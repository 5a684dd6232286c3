package embeddedpg

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"paceline.internal/platform/postgres"
)

// EnsureService gives a service its database and its roles, unless they are there already. The role called name, as the
// database is, may log in and owns the database; Serving(name) may log in and owns nothing. Both are members of the two roles of
// the service's statements (postgres.RolesOf), and no other role but the superuser can connect to that database. URL(name, name)
// reaches it to migrate, URL(name, Serving(name)) to serve.
func (c *Server) EnsureService(ctx context.Context, name string) error {
	return EnsureServiceAt(ctx, func(database string) string { return c.URL(database, superuser) }, name)
}

// EnsureServiceAt is EnsureService at a server of others; at is the URL by which its superuser reaches a database.
func EnsureServiceAt(ctx context.Context, at func(database string) string, name string) error {
	quoted, serving, roles := pgx.Identifier{name}.Sanitize(), pgx.Identifier{Serving(name)}.Sanitize(), postgres.RolesOf(name)
	tenant, worker := pgx.Identifier{roles.Tenant}.Sanitize(), pgx.Identifier{roles.Worker}.Sanitize()
	err := run(ctx, at(superuser), []statement{
		{sql: "create role " + quoted + " login nosuperuser nocreatedb nocreaterole", unless: codeDuplicateObject},
		{sql: "create role " + serving + " login nosuperuser nocreatedb nocreaterole", unless: codeDuplicateObject},
		{sql: "create role " + tenant + " nologin", unless: codeDuplicateObject},
		{sql: "create role " + worker + " nologin", unless: codeDuplicateObject},
		{sql: "grant " + tenant + ", " + worker + " to " + quoted + ", " + serving},
		{sql: "create database " + quoted + " owner " + quoted, unless: codeDuplicateDatabase},
		{sql: "revoke all on database " + quoted + ", postgres, template1 from public"},
		{sql: "grant connect on database " + quoted + " to " + serving},
	})
	if err != nil {
		return fmt.Errorf("embedded postgres: service %s: %w", name, err)
	}
	err = run(ctx, at(name), []statement{ // before version 15 every role may create tables in the schema public
		{sql: "revoke all on schema public from public"},
		{sql: "grant all on schema public to " + quoted},
	})
	if err != nil {
		return fmt.Errorf("embedded postgres: service %s: %w", name, err)
	}
	return nil
}

// Serving is the login by which a service serves.
func Serving(name string) string { return name + "_serve" }

// SQLSTATEs of "it is there already".
const (
	codeDuplicateObject   = "42710"
	codeDuplicateDatabase = "42P04"
	codeUniqueViolation   = "23505" // two sessions created the same at once
)

type statement struct {
	sql    string
	unless string // the SQLSTATE that means there is nothing to do
}

// run runs the statements on one connection, each in its own transaction.
func run(ctx context.Context, url string, statements []statement) (err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	for _, s := range statements {
		_, err := conn.Exec(ctx, s.sql)
		pgErr, refused := errors.AsType[*pgconn.PgError](err)
		if refused && s.unless != "" && (pgErr.Code == s.unless || pgErr.Code == codeUniqueViolation) {
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}
