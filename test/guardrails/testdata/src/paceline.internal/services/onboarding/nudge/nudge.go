package nudge

import (
	"context"

	"paceline.internal/platform/qstash"
)

type alarms interface {
	Ring(ctx context.Context, jobs ...qstash.Job)
}

func publish(ctx context.Context, c *qstash.Client, p *qstash.Publisher, a alarms, f func(qstash.Job)) {
	p.Publish(ctx, qstash.Job{}) // want `second publisher of steps detected`
	a.Ring(ctx, qstash.Job{})    // want `second publisher of steps detected`
	f(qstash.Job{})              // want `a function that takes a job of QStash`
	later := p.Publish           // want `second publisher of steps detected`
	_ = later
	_ = c.Keys(ctx)
}

const origin = "https://qstash.upstash.io"

var byHand = origin + "/v2/publish/https://example.com/api/onboarding/step" // want `a request to /v2/publish`

const batch = origin + "/v2" + "/batch" // want `a request to /v2/batch`

const keys = origin + "/v2/keys"
