package onboarding

import (
	"context"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/process"
)

// withConfig makes a Look at the database out of one that also needs the configuration.
func withConfig(
	cfg Config, look func(context.Context, Config, *postgres.Pool) (string, error),
) func(context.Context, *postgres.Pool) (string, error) {
	return func(ctx context.Context, pool *postgres.Pool) (string, error) { return look(ctx, cfg, pool) }
}

// The tables of which the roles may not change rows, and those of which they may not delete any, as the migrations have it.
var (
	appended = []string{"engagement_state_transitions", "flow_publications", "flow_versions", "session_transitions"}
	keptRows = []string{"erasures", "flow_publications", "flow_versions", "organisations"}
)

// lookAtRights finds tables that the service may not use, as after a restore without rights: every call that needs them fails.
func lookAtRights(ctx context.Context, pool *postgres.Pool) (string, error) {
	if err := Migrations().Ready(ctx, pool); err != nil {
		return "", process.AfterDatabase(err)
	}
	return process.LookAtRights(ctx, pool, name, appended, keptRows)
}
