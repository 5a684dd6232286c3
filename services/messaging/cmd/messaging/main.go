// Command messaging is the messaging service: messaging [serve | migrate | doctor].
package main

import (
	"context"

	"paceline.internal/platform/service"
	"paceline.internal/services/messaging"
)

func main() {
	service.Main("messaging", service.Verbs[messaging.Config]{
		Load: messaging.LoadConfig,
		Serve: func(ctx context.Context, cfg messaging.Config) error {
			return messaging.Run(ctx, cfg, service.Deps{})
		},
		Migrate: messaging.Migrate,
		Doctor:  messaging.Doctor,
	})
}
