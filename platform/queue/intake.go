package queue

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"paceline.internal/platform/postgres"
)

const (
	// intakeLanes statements may be under way at once, so that one waits for its commit while the next is filled.
	intakeLanes = 2
	// maxIntake bounds the jobs that one statement stores.
	maxIntake = 256
	// maxIntakeBytes bounds the payload that it takes besides the first job's, of which there are several copies on the way.
	maxIntakeBytes = 4 << 20
	// intakeTimeout bounds a statement, which none of its callers may break off for the others.
	intakeTimeout = 10 * time.Second
)

// Intake stores jobs that many callers bring one at a time: what has come together while one statement was under way goes into
// the next. A caller alone has its own statement, and a crowd shares a commit. No caller is answered before its job is committed.
//
// A statement is stored under the context of the first caller. Its jobs are of one organisation, for who may store a job of that
// organisation may do so for the others, or of callers who all may do so across organisations.
type Intake struct {
	queue *Queue

	mu      sync.Mutex
	lanes   int // in use
	waiting []*arrival
}

// arrival is one job and where its answer goes.
type arrival struct {
	ctx    context.Context //nolint:containedctx // of the caller who waits for the answer
	job    New
	answer chan answered // of one
}

type answered struct {
	stored Enqueued
	err    error
}

// NewIntake returns the intake of a queue.
func NewIntake(queue *Queue) *Intake { return &Intake{queue: queue} }

// Enqueue is Queue.Enqueue in its own transaction. When ctx ends first the job may be stored all the same; the same key then finds
// it.
func (i *Intake) Enqueue(ctx context.Context, n New) (Enqueued, error) {
	n.actor = postgres.Actor(ctx)
	if !postgres.Across(ctx) {
		n.Until = time.Time{} // a claim looks across organisations, see Queue.Claim
	}
	a := &arrival{ctx: ctx, job: n, answer: make(chan answered, 1)}
	i.mu.Lock()
	i.waiting = append(i.waiting, a)
	if i.lanes < intakeLanes {
		i.lanes++
		go i.lane()
	}
	i.mu.Unlock()
	select {
	case got := <-a.answer:
		if got.err == nil && got.stored.Claimed != nil {
			got.stored = i.queue.confirm(ctx, got.stored, n)
		}
		return got.stored, got.err
	case <-ctx.Done():
		return Enqueued{}, context.Cause(ctx)
	}
}

// lane stores until none waits.
func (i *Intake) lane() {
	for batch := i.next(); len(batch) > 0; batch = i.next() {
		i.store(batch)
	}
}

// next takes the first that waits and, in their order, others of its organisation. None means that the lane is free again.
func (i *Intake) next() []*arrival {
	i.mu.Lock()
	defer i.mu.Unlock()
	var batch []*arrival
	size := 0
	i.waiting = slices.DeleteFunc(i.waiting, func(a *arrival) bool {
		if a.ctx.Err() != nil { // the caller has gone, and will try again
			return true
		}
		takes := len(batch) == 0 ||
			len(batch) < maxIntake && size+len(a.job.Payload) <= maxIntakeBytes && together(a, batch[0])
		if takes {
			batch, size = append(batch, a), size+len(a.job.Payload)
		}
		return takes
	})
	if len(batch) == 0 {
		i.lanes--
	}
	return batch
}

// together reports whether two jobs may be stored by one statement. Its scope is that of the first: under row security a claim does not
// use the index of subjects.
func together(a, b *arrival) bool {
	return postgres.Across(a.ctx) == postgres.Across(b.ctx) && (postgres.Across(a.ctx) || a.job.OrgID == b.job.OrgID)
}

// store answers all callers of the batch. A job that is refused does not spoil the others: then each half is tried by itself.
func (i *Intake) store(batch []*arrival) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(batch[0].ctx), intakeTimeout)
	defer cancel()
	ctx = postgres.WithActor(ctx, "") // each job has its own
	// Two statements that hold the same keys meet them in the same order, and so never wait for each other in a circle.
	slices.SortStableFunc(batch, func(a, b *arrival) int { return cmp.Compare(a.job.Key, b.job.Key) })
	jobs, claims := make([]New, len(batch)), false
	for n, a := range batch {
		jobs[n], claims = a.job, claims || !a.job.Until.IsZero()
	}
	var stored []Enqueued
	var err error
	if claims {
		stored, err = i.queue.enqueueClaimed(ctx, jobs)
	} else {
		stored, err = i.queue.EnqueueMany(ctx, i.queue.pool, jobs)
	}
	if err != nil && len(batch) > 1 && !postgres.Outage(err) {
		i.store(batch[:len(batch)/2])
		i.store(batch[len(batch)/2:])
		return
	}
	for n, a := range batch {
		if err != nil {
			a.answer <- answered{err: err}
			continue
		}
		a.answer <- answered{stored: stored[n], err: stored[n].Err()}
	}
}
