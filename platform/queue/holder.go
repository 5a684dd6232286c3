package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/process"
)

// HeldHandler does one job inside the transaction that also records its end: what it writes through tx is there if and only if
// the job is completed. It may be called again after all of that was rolled back, so it does nothing outside of tx, and it takes
// milliseconds: until its batch is committed, old rows of the whole database cannot be cleared away.
type HeldHandler func(ctx context.Context, tx pgx.Tx, j Job) error

// HolderConfig is what a Holder needs. What it has in common with Config means the same.
type HolderConfig struct {
	Name      string
	Queue     *Queue
	Handlers  map[string]HeldHandler
	Transient func(err error) bool
	Backoff   func(failed int) time.Duration
	Log       *slog.Logger
	Now       func() time.Time
	Metrics   *Metrics
	Wake      chan struct{}
	Lanes     int           // transactions at a time; default 2
	Batch     int           // jobs to a transaction, at the most; default 500
	Poll      time.Duration // default 5 s
	Timeout   time.Duration // how long a transaction may take; default 5 s
}

// Holder works a queue whose handlers write nothing but this database. It locks due jobs, does them one after the other in the
// transaction that holds the locks, and ends them with it: one update to a job, where a Runner makes two, and effects that happen
// exactly once. A batch with a job that fails is rolled back and done again one job to a transaction.
//
// An attempt that the process did not survive is not counted, so a job that takes its process down does so again: such work
// wants a Runner. Jobs of one subject are done in the order of their ids, as far as they are stored in it. A queue is worked by
// Holders or by Runners; after a change from one to the other what is left over is taken up.
type Holder struct {
	cfg HolderConfig
}

// NewHolder fills in the defaults.
func NewHolder(cfg HolderConfig) *Holder {
	if cfg.Transient == nil {
		cfg.Transient = func(error) bool { return false }
	}
	if cfg.Backoff == nil {
		cfg.Backoff = Backoff
	}
	if cfg.Wake == nil {
		cfg.Wake = make(chan struct{}, 1)
	}
	setDefault(&cfg.Lanes, 2)
	setDefault(&cfg.Batch, 500)
	setDefault(&cfg.Poll, 5*time.Second)
	setDefault(&cfg.Timeout, 5*time.Second)
	return &Holder{cfg: cfg}
}

// Loop works all that is due, then rests until the next wake-up or the poll. When ctx ends, what is held is done first.
func (h *Holder) Loop(rest process.Rest) process.Repetition {
	return process.Repetition{
		Once: func(ctx context.Context) (bool, error) {
			_, err := h.Drain(ctx)
			return false, err
		},
		Failed: func(ctx context.Context, err error) {
			h.cfg.Log.ErrorContext(ctx, "worker.unreachable", "queue", h.cfg.Name, "error", err)
		},
		Rest: rest, Every: h.cfg.Poll, Wake: h.cfg.Wake,
	}
}

// Drain works until nothing is due that may be begun, and reports how many jobs it completed. It begins with one lane; a full batch
// calls the next.
func (h *Holder) Drain(ctx context.Context) (int, error) {
	if err := h.cfg.Queue.takeBack(ctx, h.cfg.Now()); err != nil {
		return 0, err
	}
	d := &holding{h: h, ctx: ctx, free: h.cfg.Lanes}
	d.open()
	d.lanes.Wait()
	return d.done, errors.Join(d.errs...)
}

// holding is one drain.
type holding struct {
	h     *Holder
	ctx   context.Context //nolint:containedctx // a drain is one call
	lanes sync.WaitGroup

	mu   sync.Mutex
	free int // lanes that may still be opened
	done int
	errs []error
}

// open begins another lane if there is one.
func (d *holding) open() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.free == 0 {
		return
	}
	d.free--
	d.lanes.Go(func() {
		err := d.lane()
		d.mu.Lock()
		defer d.mu.Unlock()
		d.free++
		if err != nil {
			d.errs = append(d.errs, err)
		}
	})
}

// lane does batch after batch until one is empty.
func (d *holding) lane() error {
	c := Claim{Limit: d.h.cfg.Batch}
	for idle, since := 0, 0; d.ctx.Err() == nil; {
		c.Now = d.h.cfg.Now()
		held, err := d.batch(c)
		if err != nil {
			return err
		}
		process.Progress(d.ctx)
		if len(held.Jobs) == c.Limit {
			d.open()
		}
		if len(held.Jobs) == 0 && c.From.IsZero() {
			if idle++; !held.More || idle > maxIdle {
				return nil
			}
		}
		if len(held.Jobs) > 0 {
			idle = 0
		}
		if since++; c.From.IsZero() {
			since = 0
		}
		c.After, c.From = held.Last, nextFloor(held, c.Limit, since)
	}
	return nil
}

// batch does what one claim holds: together, and when that fails, each by itself.
func (d *holding) batch(c Claim) (Claimed, error) {
	held, err := d.h.together(d.ctx, c)
	switch {
	case err == nil:
		d.count(len(held.Jobs))
		return held, nil
	case len(held.Jobs) == 0: // nothing was held yet
		return Claimed{}, err
	default:
		d.h.cfg.Log.WarnContext(d.ctx, "worker.batch_failed", "queue", d.h.cfg.Name, "jobs", len(held.Jobs), "error", err)
		return held, d.oneByOne(held.Jobs)
	}
}

// oneByOne does jobs that are not held any more, each by itself.
func (d *holding) oneByOne(jobs []Job) error {
	for i := 0; i < len(jobs) && d.ctx.Err() == nil; i++ { // when it is stopped the rest is left to whoever comes
		done, err := d.h.alone(d.ctx, jobs[i])
		if err != nil {
			return err
		}
		d.count(done)
	}
	return nil
}

func (d *holding) count(n int) {
	d.mu.Lock()
	d.done += n
	d.mu.Unlock()
}

// together does the jobs of one claim in one transaction. After an error those that were held are returned with it: none of them is
// done, unless the answer to the commit was lost, and then all are.
func (h *Holder) together(ctx context.Context, c Claim) (held Claimed, err error) {
	err = h.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		held, err = h.cfg.Queue.hold(ctx, tx, c, h.cfg.Timeout)
		if err != nil || len(held.Jobs) == 0 {
			return err
		}
		for _, j := range held.Jobs {
			if err := h.handle(ctx, tx, j); err != nil {
				return err
			}
		}
		return h.cfg.Queue.done(ctx, tx, held.Jobs, h.cfg.Now())
	})
	if err == nil {
		h.completed(ctx, held.Jobs)
	}
	return held, err
}

// alone does one job, if it is still free, in a transaction of its own, and records its failure when that had to be rolled back.
func (h *Holder) alone(ctx context.Context, j Job) (done int, err error) {
	held, cause := h.together(ctx, Claim{ID: j.ID, Now: h.cfg.Now()})
	if len(held.Jobs) == 0 || cause == nil {
		return len(held.Jobs), cause
	}
	if h.cfg.Transient(cause) {
		cause = &Snooze{After: againSoon, Cause: cause}
	}
	v := judge(held.Jobs[0], cause, h.cfg.Backoff)
	now := h.cfg.Now()
	end := Finish{Job: held.Jobs[0], Status: v.status, Attempts: v.attempts, Message: v.message, DueAt: now.Add(v.after), At: now}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.cfg.Timeout)
	defer cancel()
	recorded, err := h.cfg.Queue.notDone(ctx, end)
	if recorded {
		h.reporter().report(ctx, end, v)
	}
	return 0, err
}

// inTx runs do in a transaction that is committed unless do fails, and goes on when the caller ends: a batch takes
// milliseconds.
func (h *Holder) inTx(ctx context.Context, do func(ctx context.Context, tx pgx.Tx) error) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.cfg.Timeout)
	defer cancel()
	return pgx.BeginFunc(ctx, h.cfg.Queue.pool, func(tx pgx.Tx) error { return do(ctx, tx) })
}

// handle calls the job's handler. What a panic leaves undone is rolled back like any failure.
func (h *Holder) handle(ctx context.Context, tx pgx.Tx, j Job) error {
	handle, ok := h.cfg.Handlers[j.EventType]
	if !ok {
		return &Permanent{Cause: fmt.Errorf("no handler for event type %q", j.EventType)}
	}
	if err := safely(func() error { return handle(ctx, tx, j) }, j.EventType); err != nil {
		return err
	}
	if tx.Conn().PgConn().TxStatus() != inTransaction {
		return fmt.Errorf("the handler of %q ended the transaction, or ignored an error in it", j.EventType)
	}
	return nil
}

// inTransaction is the indicator of a transaction in which nothing has failed, from the message ReadyForQuery of Postgres's protocol.
const inTransaction = 'T'

func (h *Holder) completed(ctx context.Context, jobs []Job) {
	report, now := h.reporter(), h.cfg.Now()
	for _, j := range jobs {
		v := judge(j, nil, h.cfg.Backoff)
		report.report(ctx, Finish{Job: j, Status: v.status, Attempts: v.attempts, At: now}, v)
	}
}

func (h *Holder) reporter() reporter {
	return reporter{queue: h.cfg.Name, log: h.cfg.Log, metrics: h.cfg.Metrics, handled: true}
}
