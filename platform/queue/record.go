package queue

import (
	"context"
	"errors"
	"time"
)

const (
	// recordFirstPause and recordLastPause bound the wait between two tries to record while the database is away; it doubles.
	recordFirstPause = 50 * time.Millisecond
	recordLastPause  = time.Second
)

// record writes how jobs ended, in one statement, within a quarter of the lease, even when the caller has gone meanwhile. An
// outage is waited for that long; a batch that is refused is recorded one by one, so that a bad row spoils only itself. What cannot be
// recorded is taken over when its lease runs out, and until then nobody else does it.
func (r *Runner) record(ctx context.Context, batch []ending) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.Lease/4)
	defer cancel()
	err := r.recordPatiently(ctx, batch)
	if err != nil && len(batch) > 1 && !r.cfg.Transient(err) {
		err = nil
		for i := range batch {
			err = errors.Join(err, r.recordPatiently(ctx, batch[i:i+1]))
		}
	}
	return err
}

func (r *Runner) recordPatiently(ctx context.Context, batch []ending) error {
	var ends []Finish
	for _, b := range batch {
		if !b.verdict.ended {
			ends = append(ends, b.end)
		}
	}
	if len(ends) == 0 {
		r.recorded(ctx, batch)
		return nil
	}
	for wait := recordFirstPause; ; wait = min(2*wait, recordLastPause) {
		_, err := r.cfg.Store.Finish(ctx, ends) // a fenced one was taken over
		if err == nil {
			r.recorded(ctx, batch)
			return nil
		}
		if !r.cfg.Transient(err) || !pause(ctx, wait) {
			return err
		}
	}
}

// pause waits for d and reports whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// recorded reports jobs that are recorded, and wakes the loop for the next ones of their subjects, whose own requests found these
// in their way. If that fails, the loop finds them when they are due.
func (r *Runner) recorded(ctx context.Context, batch []ending) {
	var done []Job
	for _, b := range batch {
		r.report(ctx, b.end, b.verdict)
		if b.end.Status != StatusPending && b.end.Job.Subject != "" {
			done = append(done, b.end.Job)
		}
	}
	if len(done) == 0 {
		return
	}
	waiting, err := r.cfg.Store.Expedite(ctx, done, r.cfg.Now())
	if err != nil {
		r.cfg.Log.WarnContext(ctx, "worker.not_hurried", "queue", r.cfg.Name, "jobs", len(done), "error", err)
	}
	if waiting {
		Wake(r.cfg.Wake)
	}
}
