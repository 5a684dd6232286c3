// Package rpc is gRPC as every Paceline process speaks it: one server chain and one client chain, short-lived service
// tokens, errors with a machine-readable reason, and mutual TLS.
package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"paceline.internal/platform/telemetry"
)

// Role is the kind of a caller; policies are lists of roles.
type Role string

// The roles. The zero Role is none of them and is allowed nothing.
const (
	RoleService  Role = "service"  // another Paceline process
	RoleOperator Role = "operator" // a person or a program that acts for a whole organisation
	RoleUser     Role = "user"     // one person, who sees only their own profile
	RoleApp      Role = "app"      // the host application of an organisation
	RolePlatform Role = "platform" // a person or a program that runs the deployment
)

// Roles lists all roles.
func Roles() []Role { return []Role{RoleService, RoleOperator, RoleUser, RoleApp, RolePlatform} }

// Principal is the maker of a call.
type Principal struct {
	Subject string // the name of a service, an operator's id, or a user's profile_id
	OrgID   string // UUID of the organisation; a service may have none, and the platform has none
	Role    Role
	// Client is the address that the call came from: what the gateway saw, or, of a call that did not come through it, the peer's. Empty
	// when it is not known, and of a service.
	Client string
}

// longestSubject bounds what a row and a log line keep of a caller.
const longestSubject = 200

// Validate reports everything that is wrong with the principal.
func (p Principal) Validate() error {
	var problems []error
	if err := CheckSubject(p.Subject); err != nil {
		problems = append(problems, fmt.Errorf("subject %w", err))
	}
	if !slices.Contains(Roles(), p.Role) {
		problems = append(problems, fmt.Errorf("role %q is unknown", p.Role))
	}
	if p.Role == RolePlatform {
		if p.OrgID != "" {
			problems = append(problems, errors.New("org_id must be empty: the platform belongs to no organisation"))
		}
	} else if err := uuid.Validate(p.OrgID); err != nil && (p.OrgID != "" || p.Role != RoleService) {
		problems = append(problems, errors.New("org_id is not a UUID"))
	}
	return errors.Join(problems...)
}

// CheckSubject refuses what cannot be kept as the name of a caller.
func CheckSubject(subject string) error {
	switch {
	case subject == "":
		return errors.New("is empty")
	case len(subject) > longestSubject || !utf8.ValidString(subject) || strings.ContainsFunc(subject, unicode.IsControl):
		return fmt.Errorf("must be text of at most %d bytes, without control characters", longestSubject)
	}
	return nil
}

// LogSubject is the subject as a log line shows it: it should be an id, and if it is a phone number all the same, that is masked.
func (p Principal) LogSubject() slog.Attr {
	if looksLikePhone(p.Subject) {
		return slog.Any("subject", telemetry.Masked(p.Subject))
	}
	return slog.String("subject", p.Subject)
}

type (
	callerKey struct{} // who called us, as authenticated by the server
	actsAsKey struct{} // the person that we call for, set by WithPrincipal
)

// WithPrincipal makes the calls of a Dial connection with this context act on behalf of p instead of the connection's
// own caller. The gateway does so for the person with the JWT that it checked. The server chain does not: a service calls its
// neighbours as itself and not as its caller, unless it says otherwise.
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
