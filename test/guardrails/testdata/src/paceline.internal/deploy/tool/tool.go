package tool

import (
	"context"

	"paceline.internal/platform/qstash"
)

func retry(ctx context.Context, c *qstash.Client) {
	c.RetryDeadLetter(ctx, "dlq_1") // want `second publisher of steps detected`
}
