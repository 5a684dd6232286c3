package events

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/metric"

	"paceline.internal/platform/process"
	"paceline.internal/platform/retention"
)

const (
	// feedEvery is the interval at which the sequencer looks: an event is in the log half as long after its commit, and a busy conversation
	// does not pay for one look per event.
	feedEvery = 500 * time.Millisecond
	// feedLease is the time that a sequencer that vanished keeps the others from going on.
	feedLease = 10 * time.Second
	// feedBatch is the number of events that one statement moves.
	feedBatch = 500
	// MaxOpen bounds the deliveries of a subscription that wait: the others wait in the log.
	MaxOpen = 1000
	// KeptForSubscribers is the time that an event is kept for a subscription that has not come so far, and how long one may fail.
	KeptForSubscribers = 72 * time.Hour
)

// log keeps the events. Each method is one guarded statement, or one transaction.
type log interface { //nolint:interfacebloat // each is one step that a crash may come after
	// Lead extends the lease of the sequencer, or takes it over once it has ended, and returns the rows of messaging that are stored.
	Lead(ctx context.Context, token string, now, until time.Time) (done []int64, leads bool, err error)
	// Want has the types be written that are kept or subscribed to, and returns all that are; known are all that this release knows.
	Want(ctx context.Context, known []string, keepAll bool) ([]string, error)
	// Record moves committed rows of the outbox to the log, and reports how many. ErrLost.
	Record(ctx context.Context, token string, now time.Time, limit int) (int, error)
	// RecordIncoming adds events of messaging to the log, once. ErrLost.
	RecordIncoming(ctx context.Context, token string, incoming []Incoming, now time.Time) error
	// Behind are the subscriptions that are served, and for which there is something in the log.
	Behind(ctx context.Context) ([]string, error)
	// FanOut takes what is next for a subscription from the log, as long as no more than open deliveries of it wait, and makes deliveries
	// of it; more says that there is more to take.
	FanOut(ctx context.Context, subscriptionID string, limit, open int, now time.Time) (n int, more bool, err error)
	// Parts are those of a pass over what is old.
	Parts(ctx context.Context, own retention.Own, kept time.Duration, now time.Time) ([]retention.Part, error)
	// Late are the active subscriptions for which there are events in the log that were recorded before an instant.
	Late(ctx context.Context, part retention.Part, before time.Time) ([]string, error)
	// Pause pauses an active subscription: what waits for it goes back to the log. It reports whether it was active.
	Pause(ctx context.Context, subscriptionID, reason string, now time.Time) (bool, error)
	// Forget deletes a batch of events that were recorded before an instant, and those that a subscription has yet to take only before
	// the other. It begins behind after, and reports where to go on; 0 at the end.
	Forget(
		ctx context.Context, part retention.Part, beforeForSubscribers time.Time, after int64, limit int,
	) (next int64, n int, err error)
}

// messaging hands over its events.
type messaging interface {
	Events(ctx context.Context, done []int64, types []string, limit int) ([]Incoming, error)
	// Text is the body of a message; empty when the organisation has no such message.
	Text(ctx context.Context, orgID, messageID string) (string, error)
}

// FeedConfig configures a Feed.
type FeedConfig struct {
	Log       log
	Messaging messaging
	Retention time.Duration                                    // how long an event is kept; 0 keeps it until all subscriptions have it
	Own       func(ctx context.Context) (retention.Own, error) // where an organisation has decided that; nil for nowhere
	Wake      func()                                           // of deliveries
	Waited    func() int                                       // how many conversations have had to wait for the database so far
	Recorded  metric.Int64Counter
	Logger    *slog.Logger
	Now       func() time.Time
}

// Feed is the sequencer: of all processes one at a time moves what is committed to the log, numbers it, and takes it from there for the
// subscriptions.
type Feed struct {
	FeedConfig

	token string
	crowd crowd
}

// NewFeed returns the sequencer of a process.
func NewFeed(cfg FeedConfig) *Feed {
	return &Feed{FeedConfig: cfg, token: uuid.NewString(), crowd: crowd{waited: cfg.Waited}}
}

// Loop moves what there is, and rests.
func (f *Feed) Loop(rest process.Rest) process.Repetition {
	return process.Repetition{
		Once: f.Move,
		Failed: func(ctx context.Context, err error) {
			f.Logger.WarnContext(ctx, "events.feed_failed", "error", err)
		},
		Rest: rest, Every: feedEvery,
	}
}

// Move makes one pass, and reports whether there is more to do at once. That messaging cannot be reached does not hold up our own events.
func (f *Feed) Move(ctx context.Context) (more bool, err error) {
	now := f.Now()
	done, leads, err := f.Log.Lead(ctx, f.token, now, now.Add(feedLease))
	if err != nil || !leads {
		return false, err
	}
	wanted, err := f.Log.Want(ctx, types, f.Retention > 0)
	if err != nil {
		return false, err
	}
	n, err := f.Log.Record(ctx, f.token, now, feedBatch)
	if err != nil {
		return false, err
	}
	process.Progress(ctx)
	m, failed := f.moveIncoming(ctx, done, wanted, now)
	process.Progress(ctx)
	f.Recorded.Add(ctx, int64(n+m))
	rest, err := f.fanOut(ctx)
	return rest || n == feedBatch || m == feedBatch, errors.Join(failed, err)
}

// moveIncoming fetches what messaging has to tell.
func (f *Feed) moveIncoming(ctx context.Context, done []int64, wanted []string, now time.Time) (int, error) {
	var theirs []string
	for _, t := range wanted {
		if strings.HasPrefix(t, "message.") || strings.HasPrefix(t, "consent.") {
			theirs = append(theirs, t)
		}
	}
	incoming, err := f.Messaging.Events(ctx, done, theirs, feedBatch)
	if err != nil || len(incoming) == 0 && len(done) == 0 {
		return 0, err
	}
	return len(incoming), f.Log.RecordIncoming(ctx, f.token, incoming, now)
}

// fanOut makes deliveries for each subscription that is behind, a batch each, so that none waits for another; few while conversations wait.
func (f *Feed) fanOut(ctx context.Context) (more bool, err error) {
	behind, err := f.Log.Behind(ctx)
	made, open := 0, MaxOpen
	if f.crowd.grown() {
		open = yieldOpen
	}
	for _, id := range behind {
		n, rest, failed := f.Log.FanOut(ctx, id, feedBatch, open, f.Now())
		if failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		process.Progress(ctx)
		made, more = made+n, more || rest
	}
	if made > 0 {
		f.Wake()
	}
	return more, err
}

// Forget pauses the subscriptions that have fallen behind, and deletes the events that need not be kept.
func (f *Feed) Forget(ctx context.Context) error {
	var own retention.Own
	if f.Own != nil {
		var err error
		if own, err = f.Own(ctx); err != nil {
			return err
		}
	}
	parts, err := f.Log.Parts(ctx, own, f.Retention, f.Now())
	if err != nil {
		return err
	}
	for _, part := range parts {
		if err := f.forget(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

func (f *Feed) forget(ctx context.Context, part retention.Part) error {
	forSubscribers := part.Before
	if least := f.Now().Add(-KeptForSubscribers); least.Before(forSubscribers) {
		forSubscribers = least
	}
	late, err := f.Log.Late(ctx, part, forSubscribers)
	if err != nil {
		return err
	}
	for _, id := range late {
		if err := f.pause(ctx, id, pausedBehind); err != nil {
			return err
		}
	}
	var after int64
	for ctx.Err() == nil {
		next, n, err := f.Log.Forget(ctx, part, forSubscribers, after, feedBatch)
		if err != nil || next == 0 {
			return err
		}
		process.Progress(ctx)
		if n > 0 {
			f.Logger.DebugContext(ctx, "events.forgotten", "events", n)
		}
		after = next
	}
	return nil
}

// pause pauses a subscription and says so.
func (f *Feed) pause(ctx context.Context, id, reason string) error {
	paused, err := f.Log.Pause(ctx, id, reason, f.Now())
	if paused {
		f.Logger.WarnContext(ctx, "events.subscription_paused", "subscription_id", id, "reason", reason)
	}
	return err
}
