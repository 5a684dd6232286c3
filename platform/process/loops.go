package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// PassBound bounds the time for which a pass of a loop may go on without a sign of progress, unless its Repetition says more. It is longer
// than any one statement or call takes that a loop waits for: what takes longer will never answer.
const PassBound = 30 * time.Second

var (
	// ErrSilent is a pass that was ended because it showed no progress for as long as its bound.
	ErrSilent      = errors.New("the pass was silent for as long as its bound and was ended")
	errStandsStill = errors.New("a loop has not finished a pass within its bound")
)

// Loops watches the loops of one process: it counts, logs and names those that stand still.
type Loops struct {
	log     *slog.Logger
	bound   time.Duration
	overdue metric.Int64Counter
	locked  metric.Int64Counter

	mu  sync.Mutex
	all []*loop
}

// loop is one that is watched.
type loop struct {
	*Loops

	name   string
	labels metric.MeasurementOption
	still  atomic.Bool // a pass was overdue, and none has shown progress since
}

// NewLoops registers the metrics. Bound is the time for which a pass may be silent; production's is PassBound.
func NewLoops(meter metric.Meter, log *slog.Logger, bound time.Duration) (*Loops, error) {
	overdue, overdueErr := meter.Int64Counter("paceline_loop_timeouts_total",
		metric.WithDescription("How often a pass of a loop showed no progress for as long as its bound; one that goes on is counted again."))
	locked, lockedErr := meter.Int64Counter("paceline_loop_rows_lock_skipped_total",
		metric.WithDescription("Rows that a loop passed over because another transaction had locked them."))
	still, stillErr := meter.Int64ObservableGauge("paceline_loop_stalled",
		metric.WithDescription("1 while a loop has not finished a pass within its bound, else 0."))
	if err := errors.Join(overdueErr, lockedErr, stillErr); err != nil {
		return nil, err
	}
	l := &Loops{log: log, bound: bound, overdue: overdue, locked: locked}
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, one := range l.all {
			value := int64(0)
			if one.still.Load() {
				value = 1
			}
			o.ObserveInt64(still, value, one.labels)
		}
		return nil
	}, still)
	return l, err
}

// Loop is a component that runs f until the group stops, and is watched. f returns when its context ends; an error that is only this end
// is a clean one. Its counters begin at zero: to Prometheus a counter that appears has not increased.
func (l *Loops) Loop(name string, f func(ctx context.Context) error) Component {
	w := &loop{Loops: l, name: name, labels: metric.WithAttributes(attribute.String("loop", name))}
	l.overdue.Add(context.Background(), 0, w.labels)
	l.locked.Add(context.Background(), 0, w.labels)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, w)
	return Component{Name: name, Run: func(ctx context.Context) error { return f(context.WithValue(ctx, loopKey{}, w)) }}
}

// Ready is nil unless a loop stands still; the error names each that does.
func (l *Loops) Ready() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var still []string
	for _, one := range l.all {
		if one.still.Load() {
			still = append(still, one.name)
		}
	}
	if len(still) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", errStandsStill, strings.Join(still, ", "))
}

// standsStill counts and logs a pass that is silent, once for every bound that it goes on.
func (w *loop) standsStill(ctx context.Context, bound time.Duration) {
	w.still.Store(true)
	w.overdue.Add(ctx, 1, w.labels)
	w.log.ErrorContext(ctx, "process.loop_stalled", "loop", w.name, "bound", bound.String())
}

type (
	loopKey struct{}
	passKey struct{}
)

// pass is one turn of a loop.
type pass struct {
	loop  *loop // nil when it is not watched
	bound time.Duration

	mu    sync.Mutex
	timer *time.Timer
	over  bool // it was silent for too long
	ended bool
}

// Bounded runs one pass of a loop. Its context ends when there was no Progress for as long as the bound, which is the watch's, or
// PassBound, or what is given if that is more. The bound is one of silence: a pass may work for hours. It runs on the machine's
// clock, like every deadline of a connection. An overdue pass is an ErrSilent, whatever it returned.
func Bounded(ctx context.Context, atLeast time.Duration, do func(ctx context.Context) error) error {
	p := &pass{bound: PassBound}
	if p.loop, _ = ctx.Value(loopKey{}).(*loop); p.loop != nil {
		p.bound = p.loop.bound
	}
	p.bound = max(p.bound, atLeast)
	work, cancel := context.WithCancelCause(context.WithValue(ctx, passKey{}, p))
	defer cancel(nil)
	p.mu.Lock()
	p.timer = time.AfterFunc(p.bound, func() {
		p.expire(ctx)
		cancel(ErrSilent)
	})
	p.mu.Unlock()
	err := do(work)
	if p.end() && ctx.Err() == nil {
		return errors.Join(fmt.Errorf("%w (%s)", ErrSilent, p.bound), err)
	}
	return err
}

// expire ends the pass, and goes on counting for as long as it does not return. A process that is being stopped has its own bounds.
func (p *pass) expire(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || ctx.Err() != nil {
		return
	}
	p.over = true
	if p.loop != nil {
		p.loop.standsStill(ctx, p.bound)
	}
	p.timer.Reset(p.bound)
}

// end reports whether the pass was silent for too long.
func (p *pass) end() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.timer.Stop()
	p.works()
	return p.over
}

// works notes that the loop does, unless this pass was overdue: only the next one shows that.
func (p *pass) works() {
	if !p.over && p.loop != nil {
		p.loop.still.Store(false)
	}
}

// Progress says that the pass under ctx has come further: a statement or a call was answered. Its bound begins anew.
func Progress(ctx context.Context) {
	p, ok := ctx.Value(passKey{}).(*pass)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over && !p.ended {
		p.timer.Reset(p.bound)
		p.works()
	}
}

// PassedOver counts a row that the pass under ctx left alone because another transaction had locked it.
func PassedOver(ctx context.Context) {
	if w, ok := ctx.Value(loopKey{}).(*loop); ok {
		w.locked.Add(ctx, 1, w.labels)
	}
}

// Rest waits until d has passed, or wake has something, or ctx has ended, and reports whether to go on: false once ctx has
// ended. It is an argument of every loop, as the clock is, so that a simulation can tell a loop that rests from one that works.
type Rest func(ctx context.Context, d time.Duration, wake <-chan struct{}) bool

// RestOnMachineClock is production's Rest.
func RestOnMachineClock(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-timer.C:
	}
	return ctx.Err() == nil
}

// Repetition is work that is done again and again: at once, whenever something wakes it, and at the latest every so often.
type Repetition struct {
	// Once does what is due, and reports whether there may be more of it right away.
	Once func(ctx context.Context) (more bool, err error)
	// Failed gets an error of Once, unless it only says that the context has ended. The work goes on after the next rest.
	Failed func(ctx context.Context, err error)
	Rest   Rest
	Every  time.Duration
	Next   func() time.Duration // instead of Every, where the rest depends on what there is to do
	Wake   <-chan struct{}      // may be nil
	// Bound is the time that Once may rightly take between two calls of Progress, if that may be more than PassBound.
	Bound time.Duration
}

// Run repeats until ctx ends; Once then finishes what it is doing. The start is a wake-up like any other, so that Rest
// decides about the first work as well. After a pass that was ended for its silence the next one
// begins at once: it gets another connection.
func (r Repetition) Run(ctx context.Context) error {
	started := make(chan struct{})
	close(started)
	if r.Next == nil {
		r.Next = func() time.Duration { return r.Every }
	}
	if !r.Rest(ctx, r.Next(), started) {
		return nil
	}
	for {
		more := false
		err := Bounded(ctx, r.Bound, func(ctx context.Context) (err error) {
			more, err = r.Once(ctx)
			return err
		})
		if err != nil && ctx.Err() == nil {
			r.Failed(ctx, err)
		}
		if (more && err == nil || errors.Is(err, ErrSilent)) && ctx.Err() == nil {
			continue
		}
		if !r.Rest(ctx, r.Next(), r.Wake) {
			return nil
		}
	}
}
