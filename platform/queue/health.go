package queue

import (
	"context"
	"time"
)

// Health is how a queue is doing and whether this process works it, for people. Counts stop at CountLimit.
type Health struct {
	Processor        string  `json:"processor"` // running, or stopped
	Running          int     `json:"running"`   // by all processes, as are the others
	Backlog          int     `json:"backlog"`
	Scheduled        int     `json:"scheduled"`
	Failed           int     `json:"failed"`
	OldestDueSeconds float64 `json:"oldest_due_seconds"`
}

// Health asks the queue, and says whether the runner's loop is running.
func (r *Runner) Health(ctx context.Context, queue *Queue, now time.Time) (Health, error) {
	s, err := queue.Stats(ctx, now)
	if err != nil {
		return Health{}, err
	}
	h := Health{
		Processor: "stopped", Running: s.Running, Backlog: s.Backlog, Scheduled: s.Scheduled, Failed: s.Failed,
		OldestDueSeconds: s.OldestDue.Seconds(),
	}
	if r.looping.Load() {
		h.Processor = "running"
	}
	return h, nil
}
