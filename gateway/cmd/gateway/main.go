// Command gateway is Paceline's public HTTP surface: gateway [serve | migrate | doctor | health].
package main

import (
	"context"

	"paceline.internal/gateway"
	"paceline.internal/platform/config"
	"paceline.internal/platform/service"
)

func main() {
	service.Main("gateway", service.Verbs[gateway.Config]{
		Load: gateway.LoadConfig,
		Serve: func(ctx context.Context, cfg gateway.Config) error {
			return gateway.Run(ctx, cfg, service.Deps{})
		},
		Doctor:  gateway.Doctor,
		OpsAddr: func(cfg gateway.Config) config.Addr { return cfg.OpsAddr },
	})
}
