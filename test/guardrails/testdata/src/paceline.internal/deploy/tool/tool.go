package tool

import (
	"context"

	"paceline.internal/platform/qstash"
)

func retry(ctx context.Context, c *qstash.Client) {
	c.Publish(ctx, qstash.Message{}) // want `second publisher of steps detected`
}
