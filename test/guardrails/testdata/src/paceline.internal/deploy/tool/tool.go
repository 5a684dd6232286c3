package tool

import (
	"context"

	"paceline.internal/platform/qstash"
)

func retry(ctx context.Context, p *qstash.Publisher) {
	p.Publish(ctx, qstash.Job{}) // want `second publisher of steps detected`
}
