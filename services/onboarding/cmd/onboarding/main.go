// Command onboarding is the onboarding service: onboarding [serve | migrate | doctor | health | version].
package main

import (
	"context"
	_ "time/tzdata" // profiles name time zones, and a minimal image has none

	"paceline.internal/platform/config"
	"paceline.internal/platform/process"
	"paceline.internal/services/onboarding"
)

func main() {
	process.Main("onboarding", process.Verbs[onboarding.Config]{
		Load: onboarding.LoadConfig,
		Serve: func(ctx context.Context, cfg onboarding.Config) error {
			return onboarding.Run(ctx, cfg, process.Deps{})
		},
		Migrate: onboarding.Migrate,
		Doctor:  onboarding.Doctor,
		OpsAddr: func(cfg onboarding.Config) config.Addr { return cfg.OpsAddr },
	})
}
