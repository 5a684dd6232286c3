package alarmclock

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"paceline.internal/platform/alarms"
	"paceline.internal/platform/outbox"
	"paceline.internal/platform/process"
	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/session"
)

const (
	// soon limits how far ahead a Timer takes an alarm. It is longer than the pause between the messages of a burst, and short, because the
	// alarms of a process that dies ring late.
	soon = 10 * time.Second
	// mostSet bounds the alarms that a Timer has.
	mostSet = 10_000
	// recordTimeout bounds the record of how a ring ended.
	recordTimeout = 4 * time.Second
	// againSoon is the wait after a failure that says nothing about the alarm.
	againSoon = time.Second
)

// Timer rings the alarms of steps that are due soon in the process that set them: one row each, which is deleted when the step moves its
// session. The row stays in the outbox under the lease of this process. What a process leaves that dies, and what fails, the relay
// publishes to alarm_jobs, where it rings until it succeeds or is given up.
type Timer struct {
	Rows      rows
	Clock     *Clock
	Transient func(error) bool // an error that says nothing about the alarm, such as of a database that is failing over
	Log       *slog.Logger
	Now       func() time.Time

	wake    chan struct{}
	ringing sync.WaitGroup

	mu      sync.Mutex
	open    bool   // the loop runs
	set     byTime // not due yet
	due     turns
	workers int
}

// rows are the alarms in the outbox; outbox.Store implements it.
type rows interface {
	Published(ctx context.Context, a session.Alarm, messageID string, at time.Time) error
	Release(ctx context.Context, a session.Alarm, cause string, retryAt time.Time) error
	Return(ctx context.Context, alarms []session.Alarm, at time.Time) error
}

// NewTimer returns a Timer. Its Clock is still to be set.
func NewTimer(rows rows, log *slog.Logger, now func() time.Time) *Timer {
	return &Timer{Rows: rows, Transient: func(error) bool { return false }, Log: log, Now: now, wake: make(chan struct{}, 1)}
}

// Lease returns until when an alarm that is due then is leased to this process; zero for one that the timer does not take.
func (t *Timer) Lease(due time.Time) time.Time {
	now := t.Now()
	switch {
	case due.Sub(now) > soon:
		return time.Time{}
	case due.Before(now):
		due = now
	}
	return due.Add(outbox.PublishLease)
}

// Set takes an alarm that is stored under such a lease. It takes none while its loop does not run, and no more than it has room for.
func (t *Timer) Set(a session.Alarm) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.open || len(t.set)+t.due.n >= mostSet {
		return false
	}
	heap.Push(&t.set, a)
	if t.set[0].ID == a.ID { // else the loop wakes earlier anyway
		queue.Wake(t.wake)
	}
	return true
}

// Loop rings each alarm when it is due. At its end it waits for those that are ringing, and returns the others to the relays.
func (t *Timer) Loop(rest process.Rest) process.Repetition {
	return process.Repetition{
		Once: func(ctx context.Context) (bool, error) {
			t.begin(ctx)
			return false, nil
		},
		Failed: func(context.Context, error) {},
		Rest: func(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
			goOn := rest(ctx, d, wake)
			if !goOn {
				t.stop(ctx)
			}
			return goOn
		},
		Next: t.next, Wake: t.wake,
	}
}

// Drain rings what is due, and waits for its end.
func (t *Timer) Drain(ctx context.Context) {
	t.begin(ctx)
	t.ringing.Wait()
}

// NextDue returns when the next alarm is due.
func (t *Timer) NextDue() (at time.Time, found bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.set) == 0 {
		return time.Time{}, false
	}
	return t.set[0].DueAt, true
}

// next is the rest until the next alarm is due; without one until it is set.
func (t *Timer) next() time.Duration {
	if at, found := t.NextDue(); found {
		return max(0, at.Sub(t.Now()))
	}
	return time.Minute
}

// begin has workers ring what is due.
func (t *Timer) begin(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open = true
	for now := t.Now(); len(t.set) > 0 && !t.set[0].DueAt.After(now); {
		a, _ := heap.Pop(&t.set).(session.Alarm)
		t.due.add(a)
	}
	for t.workers < Workers {
		a, found := t.due.take()
		if !found {
			return
		}
		t.workers++
		t.ringing.Go(func() { t.work(ctx, a) })
	}
}

// work rings an alarm, and then others while any are due.
func (t *Timer) work(ctx context.Context, a session.Alarm) {
	for found := true; found; {
		t.ring(ctx, a)
		t.mu.Lock()
		if a, found = t.due.take(); !found {
			t.workers--
		}
		t.mu.Unlock()
	}
}

// ring executes the step of an alarm, which ends although the process is asked to stop. After its lease it is the relay's.
func (t *Timer) ring(ctx context.Context, a session.Alarm) {
	if !t.Now().Before(a.LeaseUntil) {
		return
	}
	moved, err := t.execute(ctx, a)
	if moved {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	if err := t.record(ctx, a, err); err != nil { // the relay publishes it: it rings again
		t.Log.WarnContext(ctx, "onboarding.alarm_not_recorded", "step_id", string(a.StepID), "session_id", a.SessionID, "error", err)
	}
}

func (t *Timer) execute(ctx context.Context, a session.Alarm) (moved bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), Timeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil { // one alarm must not take the process down for ever
			err = fmt.Errorf("panic in a step: %v", p)
		}
	}()
	result, err := t.Clock.Conversations.Ring(ctx, a)
	return result.Moved && err == nil, t.Clock.ended(ctx, a.DueAt, result, err)
}

// record ends an alarm that did not move its session, or has the relay publish it after a failure. An alarm that no repeat can help
// becomes a dead letter.
func (t *Timer) record(ctx context.Context, a session.Alarm, failure error) error {
	now := t.Now()
	if failure == nil {
		return t.Rows.Published(ctx, a, "", now)
	}
	t.Log.WarnContext(ctx, "onboarding.alarm_failed", "step_id", string(a.StepID), "session_id", a.SessionID, "error", failure)
	if _, final := errors.AsType[*queue.Permanent](failure); final {
		if err := t.bury(ctx, a, failure); err != nil {
			return err
		}
		return t.Rows.Published(ctx, a, "", now)
	}
	wait := alarms.Backoff(1)
	if later, told := errors.AsType[*queue.Later](failure); told {
		wait = later.After
	} else if t.Transient(failure) {
		wait = againSoon
	}
	return t.Rows.Release(ctx, a, t.Clock.told(failure), now.Add(wait))
}

// bury keeps the dead letter of an alarm.
func (t *Timer) bury(ctx context.Context, a session.Alarm, cause error) error {
	body, err := a.Payload().Encode()
	if err != nil {
		return err
	}
	failed := t.Clock.letter(a.ID, body, cause)
	failed.SessionID, failed.StepID = a.SessionID, string(a.StepID)
	return t.Clock.Letters.AddDeadLetter(ctx, failed)
}

// stop waits for what is ringing, and returns the rest to the relays of other processes.
func (t *Timer) stop(ctx context.Context) {
	t.mu.Lock()
	t.open = false
	left := append(t.due.all(), t.set...)
	t.set, t.due = nil, turns{}
	t.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	if len(left) > 0 {
		if err := t.Rows.Return(ctx, left, t.Now()); err != nil { // their leases end
			t.Log.WarnContext(ctx, "onboarding.alarms_not_returned", "alarms", len(left), "error", err)
		}
	}
	t.ringing.Wait()
}

// byTime is a heap of alarms, the first to be due on top.
type byTime []session.Alarm

func (h byTime) Len() int           { return len(h) }
func (h byTime) Less(i, j int) bool { return h[i].DueAt.Before(h[j].DueAt) }
func (h byTime) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push adds an alarm.
func (h *byTime) Push(a any) {
	alarm, _ := a.(session.Alarm)
	*h = append(*h, alarm)
}

// Pop takes the last one.
func (h *byTime) Pop() any {
	last := len(*h) - 1
	a := (*h)[last]
	(*h)[last] = session.Alarm{}
	*h = (*h)[:last]
	return a
}

// turns are due alarms. Their organisations take turns.
type turns struct {
	n    int
	of   map[string][]session.Alarm
	next []string // organisations, each once
}

func (t *turns) add(a session.Alarm) {
	if t.of == nil {
		t.of = map[string][]session.Alarm{}
	}
	if len(t.of[a.OrgID]) == 0 {
		t.next = append(t.next, a.OrgID)
	}
	t.of[a.OrgID] = append(t.of[a.OrgID], a)
	t.n++
}

func (t *turns) take() (a session.Alarm, found bool) {
	if t.n == 0 {
		return a, false
	}
	org := t.next[0]
	t.next = t.next[1:]
	a, t.of[org] = t.of[org][0], t.of[org][1:]
	t.n--
	if len(t.of[org]) > 0 {
		t.next = append(t.next, org)
	} else {
		delete(t.of, org)
	}
	return a, true
}

func (t *turns) all() (all []session.Alarm) {
	for a, found := t.take(); found; a, found = t.take() {
		all = append(all, a)
	}
	return all
}
