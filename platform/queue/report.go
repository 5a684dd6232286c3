package queue

import (
	"context"
	"log/slog"
)

// reporter tells the log and the metrics how attempts ended.
type reporter struct {
	queue   string
	log     *slog.Logger
	metrics *Metrics
	handled bool // the job's type has a handler
}

// unhandled is the label of event types that have no handler: who stores a job chooses its type.
const unhandled = "unhandled"

func (r reporter) report(ctx context.Context, end Finish, v verdict) {
	j := end.Job
	counted := j.EventType
	if !r.handled {
		counted = unhandled
	}
	r.metrics.ended(ctx, r.queue, counted, end)
	level := slog.LevelDebug
	switch v.status {
	case StatusCompleted:
	case StatusFailed:
		level = slog.LevelError
	default:
		level = slog.LevelWarn
	}
	if !r.log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("queue", r.queue), slog.String("job_id", j.ID), slog.String("event_type", j.EventType),
		slog.String("status", v.status), slog.Int("attempts", v.attempts),
	}
	if v.message != "" {
		attrs = append(attrs, slog.String("error", v.message))
	}
	if v.status == StatusPending {
		attrs = append(attrs, slog.Int64("again_in_ms", v.after.Milliseconds()))
	}
	r.log.LogAttrs(ctx, level, "worker.job", attrs...)
}
