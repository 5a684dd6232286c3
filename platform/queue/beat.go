package queue

import (
	"context"
	"time"
)

// minBeat bounds a heartbeat that comes when the leases are over: nobody may have claimed the jobs yet.
const minBeat = time.Second

// heartbeat extends the leases of running jobs, and ends the context of a job that lost its lease: another runner has it. A beat has for as
// long as the leases last: broken off before, it would only have to queue anew at a database that stands still.
func (r *Runner) heartbeat(ctx context.Context) {
	beat := time.NewTicker(r.cfg.Lease / 4)
	defer beat.Stop()
	extended := time.Now() //nolint:forbidigo // with a timer of the machine
	for {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
		}
		began := time.Now() //nolint:forbidigo // the same
		if r.beat(ctx, max(r.cfg.Lease-began.Sub(extended), minBeat)) {
			extended = began
		}
	}
}

// beat extends the leases within a bound, and reports whether it did.
func (r *Runner) beat(ctx context.Context, bound time.Duration) bool {
	r.mu.Lock()
	leased, asked := make([]Job, 0, len(r.running)), make(map[string]string, len(r.running))
	for id, b := range r.running {
		leased, asked[id] = append(leased, b.job), b.job.LeaseToken
	}
	r.mu.Unlock()
	if len(leased) == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	lost, err := r.cfg.Store.Extend(ctx, leased, r.cfg.Now().Add(r.cfg.Ahead+r.cfg.Lease))
	if err != nil {
		if ctx.Err() == nil {
			r.cfg.Log.WarnContext(ctx, "queue.heartbeat_failed", "queue", r.cfg.Name, "jobs", len(leased), "error", err)
		}
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range lost {
		if b, running := r.running[id]; running && asked[id] == b.job.LeaseToken { // else it was claimed again meanwhile
			b.cancel(ErrFenced)
		}
	}
	return true
}
