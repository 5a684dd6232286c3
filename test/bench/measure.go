package bench

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"paceline.internal/platform/process"
)

// Spec is one measurement, for a process of its own.
type Spec struct {
	Contender string `json:"contender"`
	Measure   string `json:"measure"`
	URL       string `json:"url"`
	Jobs      int    `json:"jobs"`
	Churn     int    `json:"churn"` // jobs that are done before
	Out       string `json:"out"`   // the file of the result
}

func (s Spec) encode() (string, error) {
	text, err := json.Marshal(s)
	return string(text), err
}

// Result is the result of a measurement.
type Result struct {
	Rate     float64 `json:"rate,omitempty"` // jobs a second
	P50MS    float64 `json:"p50_ms,omitempty"`
	P99MS    float64 `json:"p99_ms,omitempty"`
	Jobs     int     `json:"jobs"`
	StartMB  float64 `json:"start_mb"` // memory before it began
	MemoryMB float64 `json:"memory_mb"`
}

// String is for people.
func (r Result) String() string {
	if r.Rate > 0 {
		return fmt.Sprintf("%9.0f jobs/s, %4.0f MB", r.Rate, r.MemoryMB)
	}
	return fmt.Sprintf("p50 %6.2f ms, p99 %6.2f ms, %4.0f MB", r.P50MS, r.P99MS, r.MemoryMB)
}

func readResult(path string) (r Result, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	err = json.Unmarshal(content, &r)
	return r, errors.Join(err, os.Remove(path)) // the next one must not find it
}

// Measure does what an encoded Spec says and leaves the Result in its file.
func Measure(ctx context.Context, text string, now func() time.Time) (err error) {
	var spec Spec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		return fmt.Errorf("the spec of a measurement: %w", err)
	}
	started := memoryMB()
	c, err := openContender(ctx, spec.Contender, spec.URL, rand.Text(), now)
	if err != nil {
		return err
	}
	defer c.pool.Close()
	before, err := c.count(ctx)
	if err != nil {
		return err
	}
	t := &trial{c: c, spec: spec, now: now, effects: newEffects(warmUp + spec.Churn + spec.Jobs)}
	result, err := t.run(ctx)
	if err != nil {
		return err
	}
	if err := t.examine(ctx, before); err != nil {
		return err
	}
	result.StartMB, result.MemoryMB, result.Jobs = started, memoryMB(), spec.Jobs
	encoded, err := json.Marshal(result)
	if err != nil {
		return err
	}
	return os.WriteFile(spec.Out, encoded, 0o600)
}

// trial is one measurement.
type trial struct {
	c       *contender
	spec    Spec
	now     func() time.Time
	effects *effects
	stored  int // jobs so far; they are numbered
	worked  int // of them
	stop    func() error
}

const (
	// warmUp is how many jobs are done before any is measured: connections, statements, plans.
	warmUp = 64
	// producers store at the same time, storeBatch jobs to a statement.
	producers  = 2
	storeBatch = 1000
	// callers store one job at a time each.
	callers = 256
	// samples of the pick-up, one to a sampleRest.
	samples    = 100
	sampleRest = 25 * time.Millisecond
)

func (t *trial) run(ctx context.Context) (Result, error) {
	switch t.spec.Measure {
	case endToEnd:
		return t.whole(ctx, t.endToEnd)
	case work:
		return t.whole(ctx, t.work)
	case enqueueOne:
		return t.whole(ctx, func(ctx context.Context) (Result, error) { return t.enqueue(ctx, t.oneByOne) })
	case enqueueMany:
		return t.whole(ctx, func(ctx context.Context) (Result, error) { return t.enqueue(ctx, t.inBulk) })
	case pickUp:
		return t.whole(ctx, t.pickUp)
	}
	return Result{}, fmt.Errorf("there is no measure %q", t.spec.Measure)
}

// whole works some jobs before, and stops the workers in the end.
func (t *trial) whole(ctx context.Context, measured func(ctx context.Context) (Result, error)) (_ Result, err error) {
	defer func() {
		if t.stop != nil {
			err = errors.Join(err, t.stop())
		}
	}()
	if err := t.startWork(ctx); err != nil {
		return Result{}, err
	}
	if err := t.through(ctx, warmUp+t.spec.Churn); err != nil {
		return Result{}, fmt.Errorf("before the measurement: %w", err)
	}
	return measured(ctx)
}

func (t *trial) startWork(ctx context.Context) (err error) {
	t.stop, err = t.c.start(ctx, t.effects.add)
	return err
}

func (t *trial) stopWork() error {
	stop := t.stop
	t.stop = nil
	return stop()
}

// through stores n jobs and waits until their ends are recorded.
func (t *trial) through(ctx context.Context, n int) error {
	t.effects.expect(t.worked + n)
	if err := t.store(ctx, n); err != nil {
		return err
	}
	return t.done(ctx, n)
}

// done waits until n jobs that were stored have been done, and that is recorded.
func (t *trial) done(ctx context.Context, n int) error {
	if err := t.effects.wait(ctx); err != nil {
		return err
	}
	t.worked += n
	for {
		busy, err := t.c.busy(ctx)
		if err != nil || !busy {
			return err
		}
		if !process.RestOnMachineClock(ctx, time.Millisecond, nil) {
			return context.Cause(ctx)
		}
	}
}

// store stores n jobs as fast as the contender can: in bulk, or one by one when it has no bulk insert.
func (t *trial) store(ctx context.Context, n int) error {
	if t.c.oneByOne {
		return t.oneByOne(ctx, n)
	}
	return t.inBulk(ctx, n)
}

// inBulk stores n jobs by a few producers at once.
func (t *trial) inBulk(ctx context.Context, n int) error {
	next := t.numbers(n, storeBatch)
	return together(producers, func(int) error {
		for first, size := next(); size > 0; first, size = next() {
			if err := t.c.storeMany(ctx, first, size); err != nil {
				return err
			}
		}
		return nil
	})
}

// oneByOne stores n jobs by many callers at once.
func (t *trial) oneByOne(ctx context.Context, n int) error {
	next := t.numbers(n, 1)
	return together(callers, func(int) error {
		for first, size := next(); size > 0; first, size = next() {
			if err := t.c.storeOne(ctx, first); err != nil {
				return err
			}
		}
		return nil
	})
}

// numbers hands out the numbers of n new jobs, in batches; an empty batch is the end.
func (t *trial) numbers(n, batch int) func() (first, size int) {
	var dealt atomic.Int64
	begin := t.stored
	t.stored += n
	return func() (int, int) {
		to := int(dealt.Add(int64(batch)))
		from := to - batch
		return begin + from, max(0, min(to, n)-from)
	}
}

func (t *trial) rate(began time.Time) Result {
	return Result{Rate: float64(t.spec.Jobs) / t.now().Sub(began).Seconds()}
}

// endToEnd is from the first job that is stored to the last whose end is recorded.
func (t *trial) endToEnd(ctx context.Context) (Result, error) {
	began := t.now()
	if err := t.through(ctx, t.spec.Jobs); err != nil {
		return Result{}, err
	}
	return t.rate(began), nil
}

// work is the same with jobs that are all there when the work begins, which is when the first of them is begun.
func (t *trial) work(ctx context.Context) (Result, error) {
	if err := t.stopWork(); err != nil {
		return Result{}, err
	}
	if err := t.inBulk(ctx, t.spec.Jobs); err != nil {
		return Result{}, err
	}
	t.effects.expect(t.worked + t.spec.Jobs)
	first := t.effects.first()
	if err := t.startWork(ctx); err != nil {
		return Result{}, err
	}
	var began time.Time
	select {
	case <-first:
		began = t.now()
	case <-ctx.Done():
		return Result{}, context.Cause(ctx)
	}
	if err := t.done(ctx, t.spec.Jobs); err != nil {
		return Result{}, err
	}
	return t.rate(began), nil
}

// enqueue is storing alone: no worker runs meanwhile.
func (t *trial) enqueue(ctx context.Context, store func(ctx context.Context, n int) error) (Result, error) {
	if err := t.stopWork(); err != nil {
		return Result{}, err
	}
	began := t.now()
	if err := store(ctx, t.spec.Jobs); err != nil {
		return Result{}, err
	}
	return t.rate(began), nil
}

// pickUp is how long a job waits for its handler when there is nothing else to do, from before it is stored.
func (t *trial) pickUp(ctx context.Context) (Result, error) {
	waits := make([]float64, 0, samples)
	for range min(samples, t.spec.Jobs) {
		if !process.RestOnMachineClock(ctx, sampleRest, nil) {
			return Result{}, context.Cause(ctx)
		}
		t.effects.expect(t.worked + 1)
		began := t.now()
		if err := t.oneJob(ctx); err != nil {
			return Result{}, err
		}
		waits = append(waits, float64(t.now().Sub(began).Microseconds())/1000)
		t.worked++
	}
	return Result{P50MS: quantile(waits, 0.5), P99MS: quantile(waits, 0.99)}, nil
}

func (t *trial) oneJob(ctx context.Context) error {
	first, _ := t.numbers(1, 1)()
	if err := t.c.storeOne(ctx, first); err != nil {
		return err
	}
	return t.effects.wait(ctx)
}

// examine is an error unless every job that was stored is there, and each that was to be done was done exactly once and is
// recorded as such.
func (t *trial) examine(ctx context.Context, before tally) error {
	if err := t.effects.check(t.worked); err != nil {
		return err
	}
	for { // the end of the last one may be on its way
		after, err := t.c.count(ctx)
		if err != nil {
			return err
		}
		finished, open := after.finished-before.finished, after.open-before.open
		if finished == t.worked && open == t.stored-t.worked {
			return nil
		}
		if finished > t.worked || finished+open != t.stored || !process.RestOnMachineClock(ctx, 10*time.Millisecond, nil) {
			return fmt.Errorf("of %d jobs that were stored, of which %d were to be done, the table holds %d finished and %d others",
				t.stored, t.worked, finished, open)
		}
	}
}
