// Command messaging is the messaging service: messaging [serve | migrate | doctor | health | version | keyset | promote | reseal].
package main

import (
	"context"
	_ "time/tzdata" // texts wait for the morning of their recipient, and a minimal image has no zones

	"paceline.internal/platform/config"
	"paceline.internal/platform/process"
	"paceline.internal/services/messaging"
)

func main() {
	process.Main("messaging", process.Verbs[messaging.Config]{
		Load: messaging.LoadConfig,
		Serve: func(ctx context.Context, cfg messaging.Config) error {
			return messaging.Run(ctx, cfg, process.Deps{})
		},
		Migrate: messaging.Migrate,
		Doctor:  messaging.Doctor,
		OpsAddr: func(cfg messaging.Config) config.Addr { return cfg.OpsAddr },
		Own:     messaging.Own(),
	})
}
