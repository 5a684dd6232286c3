package request

import (
	"context"

	"paceline.internal/platform/audit"
	"paceline.internal/platform/rpc"
	auditv1 "paceline.internal/proto/gen/paceline/audit/v1"
)

// Actor returns who caused a row, for an operator to see: where their colleagues call from is not for others.
func Actor(ctx context.Context, row *string) *auditv1.Actor {
	if caller, _ := rpc.PrincipalFrom(ctx); caller.Role != rpc.RoleOperator {
		return nil
	}
	return audit.Read(row)
}
