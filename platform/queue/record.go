package queue

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"paceline.internal/platform/process"
)

const (
	// recordFirstPause and recordLastPause bound the wait between two tries to record while the database is away; it doubles.
	recordFirstPause = 50 * time.Millisecond
	recordLastPause  = time.Second
)

// record writes how jobs ended, in one statement, within a quarter of the lease, even when the caller has gone meanwhile. An
// outage is waited for that long; a batch that is refused is recorded one by one, so that a bad row spoils only itself. What cannot be
// recorded is claimed again when its lease expires, and not before.
func (r *Runner) record(ctx context.Context, batch []ending) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.Lease/4)
	defer cancel()
	err := r.recordRetrying(ctx, batch)
	if err != nil && len(batch) > 1 && !r.cfg.Transient(err) {
		err = nil
		for i := range batch {
			err = errors.Join(err, r.recordRetrying(ctx, batch[i:i+1]))
		}
	}
	return err
}

func (r *Runner) recordRetrying(ctx context.Context, batch []ending) error {
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
		_, err := r.cfg.Store.Finish(ctx, ends) // a fenced one was claimed again
		if err == nil {
			r.recorded(ctx, batch)
			return nil
		}
		if !r.cfg.Transient(err) || !process.RestOnMachineClock(ctx, wait, nil) {
			return err
		}
	}
}

// recorded reports jobs that are recorded, and wakes the loop for the next ones of their subjects: their requests found these
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
		r.cfg.Log.WarnContext(ctx, "queue.not_expedited", "queue", r.cfg.Name, "jobs", len(done), "error", err)
	}
	if waiting {
		Wake(r.cfg.Wake)
	}
}

// unhandled is the label of event types that have no handler: who stores a job chooses its type.
const unhandled = "unhandled"

// report tells the log and the metrics how an attempt ended.
func (r *Runner) report(ctx context.Context, end Finish, v verdict) {
	j := end.Job
	counted := j.EventType
	if _, handled := r.cfg.Handlers[j.EventType]; !handled {
		counted = unhandled
	}
	r.cfg.Metrics.ended(ctx, r.cfg.Name, counted, end)
	level := slog.LevelDebug
	switch v.status {
	case StatusCompleted:
	case StatusFailed:
		level = slog.LevelError
	default:
		level = slog.LevelWarn
	}
	if !r.cfg.Log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("queue", r.cfg.Name), slog.String("job_id", j.ID), slog.String("event_type", j.EventType),
		slog.String("status", v.status), slog.Int("attempts", v.attempts),
	}
	if v.message != "" {
		attrs = append(attrs, slog.String("error", v.message))
	}
	if v.status == StatusPending {
		attrs = append(attrs, slog.Int64("again_in_ms", v.after.Milliseconds()))
	}
	r.cfg.Log.LogAttrs(ctx, level, "queue.job", attrs...)
}

// end hands a job over to be recorded.
func (p *pass) end(e ending) {
	p.mu.Lock()
	p.ending = append(p.ending, e)
	p.mu.Unlock()
	Wake(p.some)
}

// maxRecord bounds the jobs that one statement records.
const maxRecord = 1000

// recordAll records in batches that grow with the load: each has the jobs that ended while the one before was recorded.
func (p *pass) recordAll(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.some:
			if p.r.cfg.Linger > 0 && p.ends() {
				process.RestOnMachineClock(p.ctx, p.r.cfg.Linger, nil) // until the process is asked to stop
			}
		}
		for {
			p.mu.Lock()
			n := min(len(p.ending), maxRecord)
			batch := p.ending[:n:n]
			if p.ending = p.ending[n:]; len(p.ending) == 0 {
				p.ending = nil
			}
			p.mu.Unlock()
			if n == 0 {
				break
			}
			err := p.r.record(ctx, batch)
			p.ended <- recordedBatch{jobs: n, subjects: withSubject(batch), err: err}
		}
	}
}

// ends reports whether a job has ended that is not recorded.
func (p *pass) ends() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.ending) > 0
}

func withSubject(batch []ending) bool {
	for _, b := range batch {
		if b.end.Job.Subject != "" {
			return true
		}
	}
	return false
}
