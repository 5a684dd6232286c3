// Command gateway is Paceline's public HTTP surface: gateway [serve | migrate | doctor | health | version].
package main

import (
	"context"

	"paceline.internal/gateway"
	"paceline.internal/platform/config"
	"paceline.internal/platform/process"
)

func main() {
	process.Main("gateway", process.Verbs[gateway.Config]{
		Load: gateway.LoadConfig,
		Serve: func(ctx context.Context, cfg gateway.Config) error {
			return gateway.Run(ctx, cfg, process.Deps{})
		},
		Doctor:  gateway.Doctor,
		OpsAddr: func(cfg gateway.Config) config.Addr { return cfg.OpsAddr },
	})
}
