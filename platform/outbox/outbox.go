// Package outbox hands to QStash the alarms that were committed together with the change that they follow from. There is one outbox in
// code, and one table for each kind of aggregate.
//
// The request that commits an alarm publishes it right after the commit. The relay publishes what a crash, an outage or the kill switch
// leaves in the table, and the sweeper sets an alarm again that brought nothing. None of them does the work that an alarm asks for.
package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"paceline.internal/platform/process"
	"paceline.internal/platform/qstash"
)

// ErrDisabled is a publish while scheduling is disabled. The alarm stays in the outbox.
var ErrDisabled = errors.New("outbox: scheduling is disabled; the alarm stays in the outbox")

const (
	// publishTimeout bounds the publish inside a request. The relay takes over what is not done by then.
	publishTimeout = 4 * time.Second
	// recordTimeout bounds the record of the publish's result, which is made even if the caller is gone.
	recordTimeout = 4 * time.Second
	// retryPause is the time that the relay waits before it tries a failed publish.
	retryPause = time.Second

	relayBatch   = 64
	relayWorkers = 8
	relayLease   = 30 * time.Second
)

// Rows are the rows of an outbox; Store implements it, and the crash tests put one in its place that fails.
type Rows[A any] interface {
	Claim(ctx context.Context, limit int, now, leaseUntil time.Time) ([]A, error)
	Published(ctx context.Context, a A, qstashMessageID string, at time.Time) error
	Release(ctx context.Context, a A, cause string, retryAt time.Time) error
	NotifyUnpublished(ctx context.Context, before, now time.Time) (n int, since time.Time, err error)
}

// Publisher publishes to QStash; qstash.Publisher implements it, and the crash tests put one in its place that fails.
type Publisher interface {
	Publish(ctx context.Context, job qstash.Job) (qstash.Receipt, error)
}

// Outbox publishes the alarms of one table, each an A.
type Outbox[A any] struct {
	Name   string // of the table, in logs
	Rows   Rows[A]
	QStash Publisher
	// Job is the one place that turns an alarm into what QStash is asked for: route, identity, body and due time.
	Job func(a A) (qstash.Job, error)
	// Attrs name what an alarm is about in logs and errors.
	Attrs func(a A) []any
	// Begin starts the span of a publish: the relay comes without a trace.
	Begin func(ctx context.Context, a A) (context.Context, func())
	// Rings reports whether this process rings an alarm itself, which stays in the outbox under its lease meanwhile; nil where none does.
	Rings func(a A) bool
	// Scheduled is called for every alarm that an engine has taken; may be nil.
	Scheduled func(ctx context.Context, a A)
	// Reach bounds how far ahead QStash's plan takes a message; 0 is any time. An alarm that is due later stays in the outbox until then.
	Reach time.Duration
	// Disabled is the kill switch: alarms stay in the outbox, and are published once it is lifted.
	Disabled bool
	Log      *slog.Logger
	Now      func() time.Time
}

// Publish asks QStash to deliver an alarm when it is due, and records that it has it. The alarm is committed, and leased to the caller.
// After an error the relay publishes it, and one that is beyond QStash's reach it publishes once it is within.
func (o *Outbox[A]) Publish(ctx context.Context, a A) error {
	if o.Rings != nil && o.Rings(a) {
		o.scheduled(ctx, a)
		return nil
	}
	if o.Disabled {
		o.Log.InfoContext(ctx, "outbox.scheduling_disabled", o.Attrs(a)...)
		return ErrDisabled
	}
	ctx, end := o.Begin(ctx, a)
	defer end()
	receipt, err := o.schedule(ctx, a)
	record, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	if far, is := errors.AsType[*farError](err); is {
		return o.Rows.Release(record, a, "", far.within)
	}
	if err != nil {
		err = fmt.Errorf("publish: %w", err)
		if failed := o.Rows.Release(record, a, err.Error(), o.Now().Add(retryPause)); failed != nil {
			return fmt.Errorf("%w; and the outbox: %w", err, failed)
		}
		return err
	}
	if err := o.Rows.Published(record, a, receipt.MessageID, o.Now()); err != nil {
		return err
	}
	o.scheduled(ctx, a)
	return nil
}

func (o *Outbox[A]) scheduled(ctx context.Context, a A) {
	if o.Scheduled != nil {
		o.Scheduled(ctx, a)
	}
}

// farError is an alarm that QStash does not take before an instant.
type farError struct{ within time.Time }

func (e *farError) Error() string { return "outbox: it is due beyond what QStash's plan takes" }

// PublishOrLeave is Publish for a caller that need not know of a failure: the alarm is in the outbox, and the relay publishes it.
func (o *Outbox[A]) PublishOrLeave(ctx context.Context, a A) {
	if err := o.Publish(ctx, a); err != nil && !errors.Is(err, ErrDisabled) {
		o.Log.WarnContext(ctx, "outbox.alarm_left_to_relay", append(o.Attrs(a), "error", err)...)
	}
}

// schedule is the one place where QStash is asked for anything. How often it retries is the policy of its publisher.
func (o *Outbox[A]) schedule(ctx context.Context, a A) (qstash.Receipt, error) {
	job, err := o.Job(a)
	if err != nil {
		return qstash.Receipt{}, err
	}
	if within := job.Due.Add(-o.Reach); o.Reach > 0 && within.After(o.Now()) {
		return qstash.Receipt{}, &farError{within}
	}
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	return o.QStash.Publish(ctx, job)
}

// RelayLoop repeats Relay: at the latest every poll, and when wake signals that an alarm was released.
func (o *Outbox[A]) RelayLoop(rest process.Rest, poll time.Duration, wake <-chan struct{}) process.Repetition {
	return process.Repetition{
		Once: func(ctx context.Context) (bool, error) {
			n, err := o.Relay(ctx)
			return n == relayBatch, err
		},
		Failed: func(ctx context.Context, err error) {
			o.Log.WarnContext(ctx, "outbox.relay_failed", "outbox", o.Name, "error", err)
		},
		Rest: rest, Every: poll, Wake: wake,
	}
}

// Relay claims one batch of unpublished alarms, publishes it, and reports how many there were. The errors of single publishes are
// joined; each of those alarms is back in the outbox.
func (o *Outbox[A]) Relay(ctx context.Context) (int, error) {
	now := o.Now()
	alarms, err := o.Rows.Claim(ctx, relayBatch, now, now.Add(relayLease))
	if err != nil {
		return 0, err
	}
	failures := make([]error, len(alarms)) // each its own place: one failure must not hide or stop the others
	var group errgroup.Group
	group.SetLimit(relayWorkers)
	for i, a := range alarms {
		group.Go(func() error {
			if err := o.Publish(ctx, a); err != nil {
				failures[i] = fmt.Errorf("%v: %w", o.Attrs(a), err)
			}
			process.Progress(ctx)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return len(alarms), err
	}
	return len(alarms), errors.Join(failures...)
}
