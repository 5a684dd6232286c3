package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Roles are the two database roles that a service takes on, one of them for every statement. Neither can log in; the role
// that the service logs in as is a member of both. Row-level security tells them apart: the tenant sees the rows of one organisation,
// the worker those of all.
type Roles struct {
	Tenant string
	Worker string
}

// RolesOf are the roles of a service by their names in the database: onboarding_tenant and onboarding_worker, say.
func RolesOf(service string) *Roles {
	return &Roles{Tenant: service + "_tenant", Worker: service + "_worker"}
}

// scope is whose rows the statements under a context may see. The zero one is nobody's.
type scope struct {
	itself bool // the role of the login
	across bool
	orgID  string
}

type scopeKey struct{}

// ForOrganisation bounds every statement under the context to the rows of one organisation, whatever its where clause says.
func ForOrganisation(ctx context.Context, orgID string) context.Context {
	return context.WithValue(ctx, scopeKey{}, scope{orgID: orgID})
}

// AcrossOrganisations lets the statements under the context see every organisation. It is for the loops, which work for all of
// them, and for calls that learn only from a row whose it is.
func AcrossOrganisations(ctx context.Context) context.Context {
	return context.WithValue(ctx, scopeKey{}, scope{across: true})
}

// asItself is for what is asked about the database itself, of which the roles may not be there yet.
func asItself(ctx context.Context) context.Context {
	return context.WithValue(ctx, scopeKey{}, scope{itself: true})
}

// organisationSetting is what the policies compare a row's organisation with.
const organisationSetting = "app.current_org_id"

const sqlTakeOn = `select set_config('role', $1, false), set_config('` + organisationSetting + `', $2, false)`

// takenOn is where a connection remembers its scope, so that only a change of it costs a round trip.
const takenOn = "paceline scope"

// takeOn is the pool's PrepareConn: it gives the connection the role of the context that acquires it. A context that says nothing gets
// the tenant's role with no organisation, which sees no row.
func (r *Roles) takeOn(ctx context.Context, conn *pgx.Conn) (bool, error) {
	wanted, _ := ctx.Value(scopeKey{}).(scope)
	about := conn.PgConn().CustomData()
	had, ok := about[takenOn].(scope)
	if ok && had == wanted || !ok && wanted.itself {
		return true, nil
	}
	role := r.role(wanted)
	if _, err := conn.Exec(ctx, sqlTakeOn, role, wanted.orgID); err != nil {
		if conn.IsClosed() && ctx.Err() == nil {
			return false, nil // it had died while it was idle: the pool tries another one
		}
		return !conn.IsClosed(), fmt.Errorf("postgres: take on the role %s: %w", role, err)
	}
	about[takenOn] = wanted
	return true, nil
}

func (r *Roles) role(s scope) string {
	switch {
	case s.itself:
		return "none"
	case s.across:
		return r.Worker
	}
	return r.Tenant
}
