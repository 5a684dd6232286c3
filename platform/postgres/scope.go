package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Roles are the two database roles of a service. Neither can log in; the role that the service logs in as is a member of both.
// Row-level security tells them apart: the tenant sees the rows of one organisation, the worker, and so the login that has its rights,
// those of all.
type Roles struct {
	Tenant string
	Worker string
}

// RolesOf are the roles of a service by their names in the database: onboarding_tenant and onboarding_worker, say.
func RolesOf(service string) *Roles {
	return &Roles{Tenant: service + "_tenant", Worker: service + "_worker"}
}

// scope bounds the rows that the statements under a context may see. The zero one sees none.
type scope struct {
	across    bool
	orgID     string
	profileID string
}

type scopeKey struct{}

// ForOrganisation bounds every statement under the context to the rows of one organisation, whatever its where clause says.
func ForOrganisation(ctx context.Context, orgID string) context.Context {
	return context.WithValue(ctx, scopeKey{}, scope{orgID: orgID})
}

// ForProfile bounds every statement under the context to the rows of one person of an organisation, as far as a row has a person.
func ForProfile(ctx context.Context, orgID string, profileID uuid.UUID) context.Context {
	return context.WithValue(ctx, scopeKey{}, scope{orgID: orgID, profileID: profileID.String()})
}

// AcrossOrganisations lets the statements under the context see every organisation. It is for the loops, which work for all of
// them, and for calls that learn the owner only from a row.
func AcrossOrganisations(ctx context.Context) context.Context {
	return context.WithValue(ctx, scopeKey{}, scope{across: true})
}

type actorKey struct{}

// WithActor has every transaction under the context that is bounded to an organisation know who causes it, as a JSON object: a column with
// the default current_actor() keeps it, whatever statement writes the row. Under AcrossOrganisations, by which the product works by itself,
// nothing is known.
func WithActor(ctx context.Context, actor string) context.Context {
	return context.WithValue(ctx, actorKey{}, actor)
}

// Actor is the JSON object of WithActor, empty without one.
func Actor(ctx context.Context) string {
	actor, _ := ctx.Value(actorKey{}).(string)
	return actor
}

// DB runs statements: a Pool; in tests a pgxpool.Pool, which asks nothing about scopes; or a transaction.
type DB interface { //nolint:interfacebloat // what pgx has of a pool and of a transaction
	Begin(ctx context.Context) (pgx.Tx, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// Pool is a service's pool. A statement under AcrossOrganisations is the login's own and goes out as it is. Any other becomes a
// transaction that first takes on the tenant's role with the organisation of its context, in the same round trip; a context that says
// nothing has none, and sees no row. A scope ends with its transaction, so nothing of it stays on a connection that a pooler may give
// to another client. There is no way to a connection around it.
type Pool struct {
	login    *pgxpool.Pool
	lanes    *pgxpool.Pool // of combiners: set for their statements, and never bounded to an organisation; nil to use login
	service  string
	timeouts Timeouts
	listen   *pgx.ConnConfig
	dialer   *dialer
	stop     func() // ends the watch
	pooler   bool   // one that gives connections away by the transaction is between
	pooled   bool   // who listens does so through a pooler that gives connections away by the transaction
}

var _ DB = (*Pool)(nil)

// The policies compare a row's organisation and person with organisationSetting and profileSetting. An empty person bounds
// nothing. current_actor() reads actorSetting.
const (
	organisationSetting = "app.current_org_id"
	profileSetting      = "app.current_profile_id"
	actorSetting        = "app.current_actor"
)

const sqlTakeOn = `select set_config('role', $1, true), set_config('` + organisationSetting + `', $2, true),
    set_config('` + profileSetting + `', $3, true), set_config('` + actorSetting + `', $4, true)`

// Query is pgxpool's, in the scope of the context.
func (p *Pool) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if across(ctx) {
		return p.login.Query(ctx, sql, args...)
	}
	results := p.one(ctx, sql, args)
	rows, err := results.Query()
	scoped := &scopedRows{Rows: rows, results: results}
	if err != nil {
		scoped.Close()
	}
	return scoped, err
}

// QueryRow is pgxpool's, in the scope of the context.
func (p *Pool) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if across(ctx) {
		return p.login.QueryRow(ctx, sql, args...)
	}
	rows, _ := p.Query(ctx, sql, args...) // Scan closes them, and returns the error that they carry
	return scopedRow{rows}
}

// Exec is pgxpool's, in the scope of the context.
func (p *Pool) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if across(ctx) {
		return p.login.Exec(ctx, sql, args...)
	}
	results := p.one(ctx, sql, args)
	tag, err := results.Exec()
	if closing := results.Close(); err == nil { // it has not happened before the commit
		err = closing
	}
	return tag, err
}

// SendBatch is pgxpool's, in the scope of the context.
func (p *Pool) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if across(ctx) {
		return p.login.SendBatch(ctx, b)
	}
	// What a batch sends without a begin is one transaction.
	b.QueuedQueries = append([]*pgx.QueuedQuery{p.takeOn(ctx)}, b.QueuedQueries...)
	results := p.login.SendBatch(ctx, b)
	_, _ = results.Exec() // every later result carries the error of an earlier one
	return results
}

// Begin is pgxpool's, in the scope of the context, which the transaction keeps.
func (p *Pool) Begin(ctx context.Context) (pgx.Tx, error) {
	if across(ctx) {
		return p.login.Begin(ctx)
	}
	var b pgx.Batch
	b.BeginTx(pgx.TxOptions{})
	b.QueuedQueries = append(b.QueuedQueries, p.takeOn(ctx))
	results := p.login.SendBatch(ctx, &b)
	tx, err := results.Tx(), results.Close()
	if err == nil {
		return tx, nil
	}
	err = fmt.Errorf("postgres: begin as a tenant: %w", err)
	if tx != nil {
		err = errors.Join(err, rollback(ctx, tx))
	}
	return nil, err
}

// Direct returns the configuration that reaches the server for Listen.
func (p *Pool) Direct() *pgx.ConnConfig { return p.listen }

// Stats are of the pools beneath.
func (p *Pool) Stats() []*pgxpool.Stat {
	if p.lanes == nil {
		return []*pgxpool.Stat{p.login.Stat()}
	}
	return []*pgxpool.Stat{p.login.Stat(), p.lanes.Stat()}
}

// Close closes all connections, once they are given back.
func (p *Pool) Close() {
	p.stop()
	p.login.Close()
	if p.lanes != nil {
		p.lanes.Close()
	}
}

// one sends one statement.
func (p *Pool) one(ctx context.Context, sql string, args []any) pgx.BatchResults {
	var b pgx.Batch
	b.Queue(sql, args...)
	return p.SendBatch(ctx, &b)
}

// takeOn is the statement with which a tenant's transaction begins.
func (p *Pool) takeOn(ctx context.Context) *pgx.QueuedQuery {
	wanted, _ := ctx.Value(scopeKey{}).(scope)
	return &pgx.QueuedQuery{SQL: sqlTakeOn, Arguments: []any{RolesOf(p.service).Tenant, wanted.orgID, wanted.profileID, Actor(ctx)}}
}

// Across reports whether a context is of AcrossOrganisations.
func Across(ctx context.Context) bool { return across(ctx) }

// Bounded reports whether a context is of ForOrganisation or ForProfile.
func Bounded(ctx context.Context) bool {
	_, scoped := ctx.Value(scopeKey{}).(scope)
	return scoped && !across(ctx)
}

func across(ctx context.Context) bool {
	wanted, _ := ctx.Value(scopeKey{}).(scope)
	return wanted.across
}

// scopedRows close the batch that they are the last result of: that commits, and gives the connection back.
type scopedRows struct {
	pgx.Rows

	results pgx.BatchResults
	closed  bool
	err     error
}

// Next implements pgx.Rows.
func (r *scopedRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

// Close implements pgx.Rows.
func (r *scopedRows) Close() {
	if r.closed {
		return // the connection may be in other use by now
	}
	r.closed = true
	r.Rows.Close()
	r.err = r.results.Close()
}

// Err implements pgx.Rows.
func (r *scopedRows) Err() error {
	if err := r.Rows.Err(); err != nil {
		return err
	}
	return r.err
}

// scopedRow is the first of rows.
type scopedRow struct{ rows pgx.Rows }

// Scan implements pgx.Row.
func (r scopedRow) Scan(dest ...any) error {
	defer r.rows.Close()
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	r.rows.Close()
	return r.rows.Err()
}
