// Command onboarding is the onboarding service: onboarding [serve | migrate | doctor | health].
package main

import (
	"context"
	_ "time/tzdata" // profiles name time zones, and a minimal image has none

	"paceline.internal/platform/config"
	"paceline.internal/platform/service"
	"paceline.internal/services/onboarding"
)

func main() {
	service.Main("onboarding", service.Verbs[onboarding.Config]{
		Load: onboarding.LoadConfig,
		Serve: func(ctx context.Context, cfg onboarding.Config) error {
			return onboarding.Run(ctx, cfg, service.Deps{})
		},
		Migrate: onboarding.Migrate,
		Doctor:  onboarding.Doctor,
		OpsAddr: func(cfg onboarding.Config) config.Addr { return cfg.OpsAddr },
	})
}
