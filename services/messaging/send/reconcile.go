package send

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"paceline.internal/platform/process"
	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

const (
	// reconcileBatch sets how many rows one round takes, and reconcileCalls how many calls to Twilio it makes at once: few, for
	// sends share the account's concurrency with them.
	reconcileBatch = 64
	reconcileCalls = 8
)

// ReconcilerConfig configures a Reconciler. Every field is needed.
type ReconcilerConfig struct {
	Store    reconcileStore
	Carrier  carrier // of the environment's account
	Senders  *senders.Directory
	Interval time.Duration // how often it checks, and the least time between two listings that confirm an absence
	Timeout  time.Duration // of one call to Twilio
	Now      func() time.Time
	Log      *slog.Logger
	Metrics  *Metrics
}

// Reconciler asks Twilio for what did not arrive: whether Twilio has a message after its answer was lost, and how a message ended after its
// receipts were lost. It never sends. Any number of them share the work.
type Reconciler struct {
	ReconcilerConfig
}

// reconcileStore keeps what is found out. Every method is one transaction, and none waits for a row that another one has locked:
// ErrLocked. Store implements it.
type reconcileStore interface {
	// ExpireAbandoned makes at most limit rows of abandoned attempts unknown, once nothing of those can reach Twilio any more,
	// and reports how many.
	ExpireAbandoned(ctx context.Context, now time.Time, timeout time.Duration, limit int) (int, error)
	// ClaimDue takes at most limit rows with a check that is due, counts it, and puts the next one at until, when the row is due
	// again should this process die over it. Of those that this release cannot read it says why.
	ClaimDue(ctx context.Context, now, until time.Time, limit int) (due []Message, unread []error, err error)
	// RecordListing applies Message.Decide to the stored row and keeps the evidence.
	RecordListing(ctx context.Context, l Listing) (Decision, error)
	// RecordPoll applies Message.Poll to the stored row.
	RecordPoll(ctx context.Context, p Poll) (Recorded, error)
}

// NewReconciler makes a Reconciler.
func NewReconciler(cfg ReconcilerConfig) *Reconciler { return &Reconciler{ReconcilerConfig: cfg} }

// Loop repeats Once every interval.
func (r *Reconciler) Loop(rest process.Rest) process.Repetition {
	return process.Repetition{
		Once:   r.Once,
		Failed: func(ctx context.Context, err error) { r.Log.WarnContext(ctx, "messaging.reconcile", "error", err) },
		Rest:   rest, Every: r.Interval, Bound: r.Timeout + SettleBound,
	}
}

// Once makes abandoned attempts unknown, takes one batch of what is due, asks Twilio about each, and reports whether there may
// be more. The errors of single messages are joined; each of those messages is checked again an interval later, like one with a
// row that another transaction has locked, such as that of a process that is frozen.
func (r *Reconciler) Once(ctx context.Context) (more bool, err error) {
	now := r.Now()
	expired, err := r.Store.ExpireAbandoned(ctx, now, r.Timeout, reconcileBatch)
	if err != nil {
		return false, fmt.Errorf("expire abandoned sends: %w", err)
	}
	process.Progress(ctx)
	due, unread, err := r.Store.ClaimDue(ctx, now, now.Add(r.Interval), reconcileBatch)
	if err != nil {
		return false, fmt.Errorf("claim what is due: %w", err)
	}
	r.Metrics.passedOver(ctx, r.Log, "messages", unread)
	failures := make([]error, len(due)) // each its own place: one failure must not hide or stop the others
	var group errgroup.Group
	group.SetLimit(reconcileCalls)
	for i, m := range due {
		group.Go(func() error {
			switch err := r.check(ctx, m); {
			case errors.Is(err, sms.ErrLocked):
				process.PassedOver(ctx)
				r.Log.WarnContext(ctx, "messaging.message_locked", "message_id", m.ID)
			case err != nil:
				failures[i] = fmt.Errorf("message %s: %w", m.ID, err)
			}
			process.Progress(ctx)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return false, err
	}
	return expired == reconcileBatch || len(due)+len(unread) == reconcileBatch, errors.Join(failures...)
}

func (r *Reconciler) check(ctx context.Context, m Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	switch {
	case m.Status == sms.Unknown:
		return r.list(ctx, m)
	case m.Accepted():
		return r.poll(ctx, m)
	default:
		_, err := r.Store.RecordPoll(ctx, Poll{MessageID: m.ID, At: r.Now()})
		return err
	}
}

// list looks for a message in doubt in Twilio's list.
func (r *Reconciler) list(ctx context.Context, m Message) error {
	l := Listing{MessageID: m.ID, Token: m.AttemptToken, Began: r.Now(), Interval: r.Interval, Timeout: r.Timeout}
	through, err := carrierOf(ctx, r.Senders, r.Carrier, m)
	if err == nil {
		l.Senders, err = r.Senders.Mates(ctx, m.OrgID, m.SenderID)
	}
	var listed []twilio.Stored
	if err == nil {
		listed, err = through.List(ctx, m.To, m.AttemptedAt.Add(-clockTolerance))
	}
	switch {
	case ctx.Err() != nil: // we are the ones who stopped
		return ctx.Err()
	case err != nil:
		l.Failure = Storable(err.Error())
	}
	l.Listed, l.At = listed, r.Now()
	decision, err := r.Store.RecordListing(ctx, l)
	if err != nil {
		return fmt.Errorf("record what Twilio's list had: %w", err)
	}
	if decision.Settled != "" {
		r.Log.LogAttrs(ctx, slog.LevelInfo, "messaging.sms_doubt_settled", slog.String("as", string(decision.Settled)),
			slog.String("detail", decision.Item.Detail), decision.Message.Attr())
		r.Metrics.settled(ctx, decision.Settled)
	}
	return nil
}

// poll asks how a message ended that Twilio has. The next poll is set in any case.
func (r *Reconciler) poll(ctx context.Context, m Message) error {
	p := Poll{MessageID: m.ID, SID: m.SID}
	var stored twilio.Stored
	through, err := carrierOf(ctx, r.Senders, r.Carrier, m)
	if err == nil {
		stored, err = through.Fetch(ctx, m.SID)
	}
	effect := "nothing_new"
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, twilio.ErrNotFound), errors.Is(err, senders.ErrGone):
		p.Gone, effect = true, "gone"
	case err != nil:
		effect = "failed"
	}
	p.At = r.Now()
	if err == nil {
		p.Receipt = fetched(m, stored, p.At)
	}
	recorded, err := r.Store.RecordPoll(ctx, p)
	if err != nil {
		return fmt.Errorf("record what Twilio says of it: %w", err)
	}
	if recorded.Changed {
		effect = "merged"
		r.Log.LogAttrs(ctx, slog.LevelInfo, "messaging.sms_status_fetched", recorded.Message.Attr())
	}
	r.Metrics.fetched(ctx, effect)
	return nil
}

// A receipt that is lost is lost for good: Twilio repeats it for fifteen seconds. So a message without a final status is asked
// about: firstPoll after its acceptance, then after twice as long each time, and never later than pollFor after it. Twilio
// itself gives a message up after ten hours; carriers without receipts leave it at sent.
const (
	firstPoll = time.Minute
	pollFor   = 24 * time.Hour
)

// Poll is Twilio's answer when it was asked about a message that it has.
type Poll struct {
	MessageID uuid.UUID
	SID       string
	Receipt   *Receipt // its answer, as if Twilio had reported it; nil when nothing was learnt
	Gone      bool     // Twilio says that it has no such message
	At        time.Time
}

// fetched is a message as Twilio has it, as if Twilio had reported it.
func fetched(m Message, stored twilio.Stored, at time.Time) *Receipt {
	return &Receipt{
		MessageID: m.ID, SID: m.SID, Status: Storable(stored.Status), ErrorCode: stored.ErrorCode, At: at,
		Raw: map[string]string{"paceline_source": "fetched"},
	}
}

// Poll merges what Twilio said and sets when it is asked again. Checks counts the polls, this one included. Changed says that the
// answer said anything new.
func (m Message) Poll(p Poll) (polled Message, changed bool) {
	switch {
	case m.SID != p.SID:
		return m, false
	case !m.Accepted():
		if m.Status != sms.Unknown { // an older release has settled it and left the check behind
			m.NextCheckAt, m.Checks = time.Time{}, 0
		}
		return m, false
	}
	if p.Receipt != nil {
		m, changed = m.Receive(*p.Receipt)
	}
	last := m.AcceptedAt.Add(pollFor)
	switch {
	case m.Status.Final() || p.Gone || !p.At.Before(last): // a final row may have a check that another release left behind
		m.NextCheckAt, m.Checks = time.Time{}, 0
	default:
		m.NextCheckAt = p.At.Add(firstPoll << min(m.Checks, 10))
		if m.NextCheckAt.After(last) {
			m.NextCheckAt = last
		}
	}
	return m, changed
}
