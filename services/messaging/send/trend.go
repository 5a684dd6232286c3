package send

import (
	"context"
	"log/slog"
	"time"

	"paceline.internal/platform/process"
)

// countInterval is the pause between two counts of the present quarter: how far an overview may be behind.
const countInterval = 30 * time.Second

// Counter counts messages for GetMessagingTrend.
type Counter struct {
	Store *Store
	Now   func() time.Time
	Log   *slog.Logger
}

// Loop repeats the count.
func (c *Counter) Loop(rest process.Rest) process.Repetition {
	return process.Repetition{
		Once:   func(ctx context.Context) (bool, error) { return c.Store.CountQuarters(ctx, c.Now()) },
		Failed: func(ctx context.Context, err error) { c.Log.WarnContext(ctx, "messaging.not_counted", "error", err) },
		Rest:   rest, Every: countInterval,
	}
}
