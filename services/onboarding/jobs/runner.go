package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"paceline.internal/platform/process"
)

// store is where jobs are kept. Every finish is fenced by the job's lease and answers ErrFenced when it was lost.
type store interface {
	ClaimJob(ctx context.Context, id string, now, leaseUntil time.Time) (Job, bool, error)
	ClaimDueJobs(ctx context.Context, limit int, now, leaseUntil time.Time) ([]Job, error)
	FinishJob(ctx context.Context, f Finish) error
	HurrySubject(ctx context.Context, orgID, subject string, now time.Time) (bool, error)
}

// Finish is the end of one attempt.
type Finish struct {
	Job      Job
	Status   string
	Attempts int
	Message  string
	DueAt    time.Time // of a job that is pending again
	At       time.Time
}

// Handler does one job. Returning nil completes it; a handler that completes it in its own transaction returns nil too.
type Handler func(ctx context.Context, j Job) error

// Config is what a Runner needs.
type Config struct {
	Store    store
	Handlers map[string]Handler // by event type
	// GiveUp makes visible what a job that failed for good leaves undone. It may end the job as failed in the transaction
	// that does so; else the runner does after it, so a crash in between repeats it. An error keeps the job for later.
	GiveUp func(ctx context.Context, j Job, cause error) error
	// Transient reports an error that says nothing about the job, such as a database that is failing over: it uses up no
	// attempt. Default: none.
	Transient func(err error) bool
	Log       *slog.Logger
	Now       func() time.Time
	Wake      chan struct{} // of one: something may have become due, by others or by the end of a job here; default: only the latter
	Workers   int           // jobs at a time; default 4
	Poll      time.Duration // how often to look without a wake-up; default 5 s
	Lease     time.Duration // how long a claim lives: half for the handler, a quarter to record; default 40 s
}

// Runner claims due jobs and runs them.
type Runner struct {
	cfg Config
}

// NewRunner fills in the defaults.
func NewRunner(cfg Config) *Runner {
	if cfg.Transient == nil {
		cfg.Transient = func(error) bool { return false }
	}
	if cfg.Workers == 0 {
		cfg.Workers = 4
	}
	if cfg.Poll == 0 {
		cfg.Poll = 5 * time.Second
	}
	if cfg.Lease == 0 {
		cfg.Lease = 40 * time.Second
	}
	if cfg.Wake == nil {
		cfg.Wake = make(chan struct{}, 1)
	}
	return &Runner{cfg: cfg}
}

// Loop works all that is due, then rests until the next wake-up or the poll. A job that is running when the loop ends is
// finished first.
func (r *Runner) Loop(rest process.Rest) process.Repetition {
	return process.Repetition{
		Once: func(ctx context.Context) (bool, error) {
			n, err := r.Drain(ctx)
			return n > 0, err
		},
		Failed: func(ctx context.Context, err error) {
			r.cfg.Log.ErrorContext(ctx, "onboarding.jobs_unreachable", "error", err)
		},
		Rest: rest, Every: r.cfg.Poll, Wake: r.cfg.Wake,
	}
}

// Drain claims one batch of due jobs, runs it, and reports how many there were.
func (r *Runner) Drain(ctx context.Context) (int, error) {
	now := r.cfg.Now()
	claimed, err := r.cfg.Store.ClaimDueJobs(ctx, r.cfg.Workers, now, now.Add(r.cfg.Lease))
	if err != nil {
		return 0, fmt.Errorf("claim jobs: %w", err)
	}
	var group errgroup.Group
	for _, j := range claimed {
		group.Go(func() error { return r.finish(ctx, j, r.handle) })
	}
	return len(claimed), group.Wait()
}

// Try runs one job now, in the caller's time, if it is free: not done, not claimed, and no older job of its subject is
// open. A job that is not free is left to whoever has it, and one that failed to the loop; the error is of claiming or
// recording, never the handler's.
func (r *Runner) Try(ctx context.Context, id string, handle Handler) error {
	now := r.cfg.Now()
	j, ok, err := r.cfg.Store.ClaimJob(ctx, id, now, now.Add(r.cfg.Lease))
	if err != nil || !ok {
		return err
	}
	return r.finish(ctx, j, handle)
}

// againSoon is the pause after a failure that says nothing about the job.
const againSoon = time.Second

// finish runs a claimed job and records the outcome, even when the caller has gone meanwhile.
func (r *Runner) finish(ctx context.Context, j Job, handle Handler) error {
	work, cancel := bounded(ctx, r.cfg.Lease/2)
	defer cancel()
	err := guarded(work, j, handle)
	if _, snoozed := errors.AsType[*Snooze](err); err != nil && !snoozed && (r.cfg.Transient(err) || outOfTime(ctx, work)) {
		err = &Snooze{After: againSoon, Cause: err}
	}

	record, cancelRecord := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.Lease/4)
	defer cancelRecord()
	v := judge(j, err)
	if v.status == StatusFailed {
		if undone := r.cfg.GiveUp(record, j, err); undone != nil {
			v = judge(j, &Snooze{After: backoffLimit, Cause: errors.Join(err, undone)})
		}
	}
	now := r.cfg.Now()
	recorded := r.cfg.Store.FinishJob(record, Finish{
		Job: j, Status: v.status, Attempts: v.attempts, Message: v.message, DueAt: now.Add(v.after), At: now,
	})
	if errors.Is(recorded, ErrFenced) {
		recorded = nil // ended by the handler's own transaction, or taken over: either way not ours to finish
	}
	r.report(ctx, j, v)
	if v.status != StatusPending {
		r.hurry(record, j)
	}
	return recorded
}

// hurry wakes the loop for the next job of a subject, whose own request found this one in its way. If that fails, the
// loop finds it when it is due.
func (r *Runner) hurry(ctx context.Context, done Job) {
	waiting, err := r.cfg.Store.HurrySubject(ctx, done.OrgID, done.Subject, r.cfg.Now())
	if err != nil {
		r.cfg.Log.WarnContext(ctx, "onboarding.job_not_hurried", "job_id", done.ID, "error", err)
	}
	if !waiting {
		return
	}
	select {
	case r.cfg.Wake <- struct{}{}:
	default: // a wake-up is waiting to be heard already
	}
}

// outOfTime reports whether it was the caller's own deadline that ended the work.
func outOfTime(caller, work context.Context) bool {
	_, impatient := caller.Deadline()
	return impatient && work.Err() != nil
}

// bounded outlives the cancellation of ctx, for a caller who hangs up must not leave work half done, but not its deadline.
func bounded(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	work, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	deadline, ok := ctx.Deadline()
	if !ok {
		return work, cancel
	}
	work, cancelEarly := context.WithDeadline(work, deadline)
	return work, func() { cancelEarly(); cancel() }
}

// guarded turns a handler's panic into a failed attempt: one poisoned job must not take the process down for ever.
func guarded(ctx context.Context, j Job, handle Handler) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in the handler of %s: %v", j.EventType, p)
		}
	}()
	return handle(ctx, j)
}

func (r *Runner) handle(ctx context.Context, j Job) error {
	handler, ok := r.cfg.Handlers[j.EventType]
	if !ok {
		return &Permanent{Cause: fmt.Errorf("no handler for event type %q", j.EventType)}
	}
	return handler(ctx, j)
}

func (r *Runner) report(ctx context.Context, j Job, v verdict) {
	attrs := []any{"job_id", j.ID, "event_type", j.EventType, "status", v.status, "attempts", v.attempts}
	switch v.status {
	case StatusCompleted:
		r.cfg.Log.DebugContext(ctx, "onboarding.job", attrs...)
	case StatusFailed:
		r.cfg.Log.ErrorContext(ctx, "onboarding.job", append(attrs, "error", v.message)...)
	default:
		r.cfg.Log.WarnContext(ctx, "onboarding.job", append(attrs, "error", v.message, "again_in_ms", v.after.Milliseconds())...)
	}
}
