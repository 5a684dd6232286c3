package process

import (
	"context"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/rpc"
)

// Scope bounds a call of an operator or a user to the rows of their organisation, in the database itself. A service's call names
// sessions and messages by ids that say nothing of an organisation, so it sees them all.
func Scope(ctx context.Context, caller rpc.Principal) context.Context {
	if caller.Role == rpc.RoleService {
		return postgres.AcrossOrganisations(ctx)
	}
	return postgres.ForOrganisation(ctx, caller.OrgID)
}
