package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"paceline.internal/platform/process"
)

// store keeps jobs: a *Queue. Every finish is fenced by the job's lease.
type store interface {
	Claim(ctx context.Context, c Claim) (Claimed, error)
	Finish(ctx context.Context, ends []Finish) (fenced []string, err error)
	Extend(ctx context.Context, jobs []Job, until time.Time) (lost []string, err error)
	Expedite(ctx context.Context, done []Job, now time.Time) (bool, error)
}

// Handler does one job. Returning nil completes it; a handler that completes it in its own transaction (Queue.FinishIn) returns
// ErrEnded. A *Snooze, a *Permanent, and any other error say what happens to it. Its context ends after Config.Timeout, and when the
// lease was lost; it does not end when the process is asked to stop, for a job that has begun is finished.
type Handler func(ctx context.Context, j Job) error

// Config holds the settings of a Runner.
type Config struct {
	Name  string // of the queue, in logs and metrics
	Store store
	// Handlers by event type. A job of another type fails at once, and says so.
	Handlers map[string]Handler
	// GiveUp makes visible what a job that failed for good leaves undone. It may end the job as failed in the transaction
	// that does so; else the runner does after it, so a crash in between repeats it. An error keeps the job for later.
	// Default: the job is only recorded as failed.
	GiveUp func(ctx context.Context, j Job, cause error) error
	// Transient reports an error that says nothing about the job, such as a database that is failing over: it uses up no
	// attempt. Default: none.
	Transient func(err error) bool
	// Admit, when set, is asked before every claim how many of the jobs that there is room for may be begun now, and when none may,
	// how long until it is to be asked again. What it admitted and the claim did not find is lost to it.
	Admit    func(ctx context.Context, want int) (n int, wait time.Duration, err error)
	Log      *slog.Logger
	Now      func() time.Time
	Metrics  *Metrics      // nil counts nothing
	Wake     chan struct{} // of one: something may have become due, by others or by the end of a job here; default: only the latter
	Workers  int           // jobs at a time; default 4
	Batch    int           // jobs to a claim, at the most; default 500, and never more than there is room for
	Fetchers int           // claims at a time; default 1; 2 pay where handlers take less than a millisecond
	Poll     time.Duration // how often to look without a wake-up; default 5 s
	// Ahead has jobs claimed so long before they are due: each waits here, as one of Workers, and begins when it is due, by a timer of the
	// machine. A claim takes what becomes due meanwhile along, and no job waits for its claim. Jobs of one subject wait for each other all
	// the while. Default: only what is due is claimed.
	Ahead time.Duration
	// Linger has the end of a job wait so long to be recorded with others. A process that dies meanwhile leaves the job to be done again,
	// as it may at any time. Default: none, for the next job of a subject waits for the record.
	Linger time.Duration
	Lease  time.Duration // how long a claim lives between two heartbeats; default 40 s
	// Backoff returns the wait after the n-th failed attempt; default 30 s, 2 min, then 8 min.
	Backoff func(n int) time.Duration
	Timeout time.Duration // how long a handler may take; default half the lease. Beyond the lease it is extended by heartbeats.
	// MaxLost is after how many leases in a row that ran out a job is given up instead of begun; default 5. While the database stands
	// still leases run out though no process died: MaxLost leases are to last for longer than that.
	MaxLost int
}

// Runner claims due jobs and runs them. Several runners, in as many processes, share a queue.
type Runner struct {
	cfg     Config
	looping atomic.Bool

	mu      sync.Mutex
	running map[string]*begun // by id: what the heartbeat keeps
	last    string            // the organisation that was served last, in this pass or one before
}

// begun is a job that a handler is at.
type begun struct {
	job    Job
	cancel context.CancelCauseFunc
}

func (r *Runner) servedLast() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

func (r *Runner) serves(org string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = org
}

// NewRunner fills in the defaults.
func NewRunner(cfg Config) *Runner {
	if cfg.Transient == nil {
		cfg.Transient = func(error) bool { return false }
	}
	if cfg.GiveUp == nil {
		cfg.GiveUp = func(context.Context, Job, error) error { return nil }
	}
	if cfg.Backoff == nil {
		cfg.Backoff = backoff
	}
	if cfg.Wake == nil {
		cfg.Wake = make(chan struct{}, 1)
	}
	setDefault(&cfg.Workers, 4)
	setDefault(&cfg.Batch, 500)
	setDefault(&cfg.Fetchers, 1)
	setDefault(&cfg.Poll, 5*time.Second)
	setDefault(&cfg.Lease, 40*time.Second)
	setDefault(&cfg.Timeout, cfg.Lease/2)
	setDefault(&cfg.MaxLost, 5)
	return &Runner{cfg: cfg, running: map[string]*begun{}}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Loop works all that is due, then rests until the next wake-up or the poll. While a handler is at work the loop does not rest, and
// claims more as soon as there is room and reason. When ctx ends, jobs that are running are finished first.
func (r *Runner) Loop(rest process.Rest) process.Repetition {
	var wait time.Duration
	return process.Repetition{
		Once: func(ctx context.Context) (_ bool, err error) {
			if !r.looping.Swap(true) {
				r.cfg.Log.InfoContext(ctx, "queue.started", "queue", r.cfg.Name, "workers", r.cfg.Workers)
			}
			_, wait, err = r.drain(ctx)
			return false, err
		},
		Failed: func(ctx context.Context, err error) {
			r.cfg.Log.ErrorContext(ctx, "queue.unreachable", "queue", r.cfg.Name, "error", err)
		},
		Rest: func(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
			if wait > 0 { // Admit returns when
				d = min(d, wait)
			}
			goOn := rest(ctx, d, wake)
			if !goOn {
				r.looping.Store(false)
				r.cfg.Log.InfoContext(ctx, "queue.stopped", "queue", r.cfg.Name)
			}
			return goOn
		},
		Every: r.cfg.Poll, Wake: r.cfg.Wake,
		// A job that takes all of its time, and then has to be given up and recorded.
		Bound: r.cfg.Timeout + r.cfg.Lease,
	}
}

// Drain works until nothing is due that may be begun, and reports how many jobs it ran.
func (r *Runner) Drain(ctx context.Context) (int, error) {
	n, _, err := r.drain(ctx)
	return n, err
}

// Try runs one job now, in the caller's time, if it is free: not done, not claimed, and no older job of its subject is
// open. A job that is not free is left to the runner that has it, and one that failed to the loop; the error is of claiming or
// recording, never the handler's.
func (r *Runner) Try(ctx context.Context, id string, handle Handler) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	now := r.cfg.Now()
	// Broken off, the claim might be committed all the same, and the job would wait for its lease to expire.
	detached, done := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.Lease/4)
	defer done()
	claimed, err := r.cfg.Store.Claim(detached, Claim{ID: id, Limit: 1, Now: now, Until: now.Add(r.cfg.Lease)})
	if err != nil || len(claimed.Jobs) == 0 {
		if claimed.More {
			Wake(r.cfg.Wake)
		}
		return err
	}
	return r.Do(ctx, claimed.Jobs[0], handle)
}

// Do runs a job that the caller has claimed, in the caller's time, and records how it ended. The error is of recording.
func (r *Runner) Do(ctx context.Context, j Job, handle Handler) error {
	work, cancel := bounded(ctx, r.cfg.Timeout)
	defer cancel()
	end, v := r.run(ctx, work, j, handle)
	return r.record(ctx, []ending{{end: end, verdict: v}})
}

// ending is a job that was run and is to be recorded.
type ending struct {
	end     Finish
	verdict verdict
}

// againSoon is the pause after a failure that says nothing about the job.
const againSoon = time.Second

// run does a claimed job, and says how it ended.
func (r *Runner) run(caller, work context.Context, j Job, handle Handler) (Finish, verdict) {
	err := r.attempt(work, j, handle)
	if err != nil && !errors.Is(err, ErrEnded) {
		_, snoozed := errors.AsType[*Snooze](err)
		if !snoozed && (r.cfg.Transient(err) || outOfTime(caller, work)) {
			err = &Snooze{After: againSoon, Cause: err}
		}
	}
	v := judge(j, err, r.cfg.Backoff)
	if v.status == StatusFailed {
		v = r.giveUp(caller, j, err, v)
	}
	now := r.cfg.Now()
	return Finish{Job: j, Status: v.status, Attempts: v.attempts, Message: v.message, DueAt: now.Add(v.after), At: now}, v
}

// attempt runs the handler, unless the runners that did so before are likely to have died of it. A panic is a failed attempt: one
// poisoned job must not take the process down for ever.
func (r *Runner) attempt(work context.Context, j Job, handle Handler) error {
	if j.Lost >= r.cfg.MaxLost {
		return &Permanent{Cause: fmt.Errorf("worker: the lease of this job ran out too often: %d times in a row", j.Lost)}
	}
	return safely(func() error { return handle(work, j) }, j.EventType)
}

// giveUp has the owner make a final failure visible. It has its own time, for the handler may have used up all of its.
func (r *Runner) giveUp(caller context.Context, j Job, cause error, v verdict) verdict {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(caller), r.cfg.Lease/4)
	defer cancel()
	undone := safely(func() error { return r.cfg.GiveUp(ctx, j, cause) }, j.EventType)
	if undone == nil {
		return v
	}
	return judge(j, &Snooze{After: backoffLimit, Cause: errors.Join(cause, undone)}, r.cfg.Backoff)
}

// outOfTime reports whether it was the caller's own deadline that ended the work.
func outOfTime(caller, work context.Context) bool {
	_, limited := caller.Deadline()
	return limited && work.Err() != nil
}

// bounded outlives the cancellation of ctx, for a caller that hangs up must not leave work half done, but not its deadline.
func bounded(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	work, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	deadline, ok := ctx.Deadline()
	if !ok {
		return work, cancel
	}
	work, cancelEarly := context.WithDeadline(work, deadline)
	return work, func() { cancelEarly(); cancel() }
}

func safely(do func() error, eventType string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in the handler of [%s]: %v", eventType, p)
		}
	}()
	return do()
}

// handler of an event type.
func (r *Runner) handler(eventType string) Handler {
	if handle, ok := r.cfg.Handlers[eventType]; ok {
		return handle
	}
	return func(context.Context, Job) error {
		return &Permanent{Cause: fmt.Errorf("no handler for event type %q", eventType)}
	}
}
