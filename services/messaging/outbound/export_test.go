package outbound

import "context"

// Drain sends everything that is due and that the pace allows.
func (r *Runner) Drain(ctx context.Context) (int, error) { return r.jobs.Drain(ctx) }
