// Package rpc is gRPC as every Paceline process speaks it: one server chain and one client chain, short-lived service
// tokens, errors with a machine-readable reason, and mutual TLS.
package rpc

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
)

// Role is what a caller may be allowed by; policies are lists of roles.
type Role string

// The roles. The zero Role is none of them and is allowed nothing.
const (
	RoleService  Role = "service"  // another Paceline process
	RoleOperator Role = "operator" // a person or a program that acts for a whole organisation
	RoleUser     Role = "user"     // one person, who sees only their own profile
	RoleApp      Role = "app"      // the host application of an organisation
)

// Roles lists all roles.
func Roles() []Role { return []Role{RoleService, RoleOperator, RoleUser, RoleApp} }

// Principal is who makes a call.
type Principal struct {
	Subject string // the name of a service, an operator's id, or a user's profile_id
	OrgID   string // UUID of the organisation; only a service may have none
	Role    Role
}

// Validate reports everything that is wrong with the principal.
func (p Principal) Validate() error {
	var problems []error
	if p.Subject == "" {
		problems = append(problems, errors.New("subject is empty"))
	}
	if !slices.Contains(Roles(), p.Role) {
		problems = append(problems, fmt.Errorf("role %q is unknown", p.Role))
	}
	if err := uuid.Validate(p.OrgID); err != nil && (p.OrgID != "" || p.Role != RoleService) {
		problems = append(problems, errors.New("org_id is not a UUID"))
	}
	return errors.Join(problems...)
}

type (
	callerKey struct{} // who called us, as authenticated by the server
	actsAsKey struct{} // on whose behalf we call, set by WithPrincipal
)

// WithPrincipal makes the calls of a Dial connection with this context act on behalf of p instead of the connection's
// own caller. The gateway does so for the person whose JWT it checked. The server chain does not: a service calls its
// neighbours as itself, whoever called it, unless it says otherwise.
func WithPrincipal(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, actsAsKey{}, p)
}

// PrincipalFrom is the authenticated caller of the RPC that the context belongs to, or the principal that WithPrincipal
// put there, which takes precedence.
func PrincipalFrom(ctx context.Context) (Principal, bool) {
	if p, ok := ctx.Value(actsAsKey{}).(Principal); ok {
		return p, true
	}
	p, ok := ctx.Value(callerKey{}).(Principal)
	return p, ok
}
