package outbound

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"paceline.internal/platform/phone"
	"paceline.internal/platform/process"
	"paceline.internal/platform/queue"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/messaging/sms"
)

// Queue is the name of the queue in logs and metrics.
const Queue = "outbound"

const (
	// claimBound sets how long a handler takes at most next to the call to Twilio and writing its answer down.
	claimBound = 5 * time.Second
	// unknownWait sets how long an expired message in doubt waits until its next check: the reconciler settles it.
	unknownWait = 30 * time.Second
	// heldWait sets how long a message waits for a held recipient: a release lets it go within that time.
	heldWait = 30 * time.Second
	// parkedWait sets how long a message waits for an operator.
	parkedWait = time.Minute
	// fewestWorkers and mostWorkers bound how many messages are sent at a time.
	fewestWorkers = 4
	mostWorkers   = 32
)

// Config configures a Runner. Every field is needed but Metrics.
type Config struct {
	Store   *Store
	Send    *send.Service
	Senders *senders.Directory
	Tally   *Tally
	Timeout time.Duration // of one call to Twilio
	Poll    time.Duration // how often to look without a wake-up
	Wake    chan struct{} // of one
	Log     *slog.Logger
	Now     func() time.Time
	Metrics *queue.Metrics
	// Transient reports an outage, which says nothing about a message: its expiry is all that bounds how long it is tried for.
	Transient func(err error) bool
}

// Progress holds the facts that are known of a queued message before it is sent.
type Progress struct {
	Message *send.Message // what Send has made of it so far; nil before the first attempt
	Held    bool          // the recipient is on a safety hold
	// Unjudged is the recipient's last text that may be an opt-out and that no operator has judged, which holds them too; uuid.Nil for none.
	Unjudged uuid.UUID
}

// Runner sends what is due, at the pace of each sender.
type Runner struct {
	Config

	jobs *queue.Runner

	// reserving is held for reading while a message reserves its segments, so that none is counted both as begun and as reserved.
	reserving sync.RWMutex

	mu      sync.Mutex
	asked   time.Time            // when was last looked for what is due
	refused time.Time            // when the first of those may be sent that have been put back since; zero for none
	begun   map[string]string    // by id: the organisation of what is claimed, and nothing reserved yet
	running map[string]string    // by id: the organisation of what is claimed and has not ended
	after   uuid.UUID            // the organisation that was looked at last
	seen    []uuid.UUID          // the organisations with pending messages, at the last look
	except  []string             // those that have no turn
	paused  map[string]time.Time // by organisation with several senders: until when it has no turn, for one was put back
}

// NewRunner makes the runner.
func NewRunner(cfg Config) *Runner {
	r := &Runner{Config: cfg, begun: map[string]string{}, running: map[string]string{}, paused: map[string]time.Time{}}
	handlers := map[string]queue.Handler{}
	for _, p := range Purposes() {
		handlers[string(p)] = r.Handle
	}
	r.jobs = queue.NewRunner(queue.Config{
		Name: Queue, Store: counted{Queue: cfg.Store.Jobs(), r: r}, Handlers: handlers, GiveUp: r.giveUp,
		Transient: cfg.Transient, Admit: r.admit, Log: cfg.Log, Now: cfg.Now, Metrics: cfg.Metrics, Wake: cfg.Wake, Poll: cfg.Poll,
		Workers: cfg.workers(), Lease: 2 * r.Bound(), Timeout: r.Bound(),
	})
	return r
}

// workers returns the number of messages that are sent at a time: as many as the environment's sender may send in a second, or the most
// where others may be stored.
func (c Config) workers() int {
	if c.Senders.Keyset != nil {
		return mostWorkers
	}
	return min(max(paceOf(c.Senders.Environment).burst, fewestWorkers), mostWorkers)
}

// mostOfOne returns how many workers one organisation may have at a time. A quarter is left to the others: however slow its messages are,
// theirs find a worker.
func (c Config) mostOfOne() int {
	if c.Senders.Keyset != nil {
		return c.workers() - c.workers()/4
	}
	return c.workers() // there is no other
}

// Bound returns how long one message takes at most; the end of the loop waits for it.
func (r *Runner) Bound() time.Duration { return r.Timeout + send.SettleBound + claimBound }

// Health returns how the queue is doing, in all organisations that the context may see.
func (r *Runner) Health(ctx context.Context) (queue.Health, error) {
	return r.jobs.Health(ctx, r.Store.Jobs(), r.Now())
}

// Loop sends until it is told to end. It rests until the next message falls due, if that is sooner than the poll.
func (r *Runner) Loop(rest process.Rest) process.Repetition {
	return r.jobs.Loop(func(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
		return rest(ctx, r.untilNext(ctx, d), wake)
	})
}

func (r *Runner) untilNext(ctx context.Context, d time.Duration) time.Duration {
	r.mu.Lock()
	asked, refused, seen := r.asked, r.refused, r.seen
	r.mu.Unlock()
	if !refused.IsZero() {
		d = min(d, max(refused.Sub(r.Now()), time.Millisecond))
	}
	asking, cancel := context.WithTimeout(ctx, admitTimeout)
	defer cancel()
	next, err := r.Store.Next(asking, seen, asked)
	switch {
	case err != nil && ctx.Err() == nil:
		r.Log.WarnContext(ctx, "messaging.next_text_unknown", "error", err)
	case err == nil && !next.IsZero():
		d = min(d, max(next.Sub(r.Now()), time.Millisecond))
	}
	return d
}

// counted is the queue, with an eye on what was claimed of it and will ask for its segments in a moment.
type counted struct {
	*queue.Queue

	r *Runner
}

// Claim notes what is begun.
func (c counted) Claim(ctx context.Context, which queue.Claim) (queue.Claimed, error) {
	c.r.mu.Lock()
	which.Except = c.r.except
	c.r.mu.Unlock()
	claimed, err := c.Queue.Claim(ctx, which)
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	for _, j := range claimed.Jobs {
		c.r.begun[j.ID], c.r.running[j.ID] = j.OrgID, j.OrgID
	}
	return claimed, err
}

// Finish forgets what came to its end without having paid.
func (c counted) Finish(ctx context.Context, ends []queue.Finish) ([]string, error) {
	for _, e := range ends {
		c.r.forget(e.Job.ID)
		c.r.ended(e.Job.ID)
	}
	return c.Queue.Finish(ctx, ends)
}

func (r *Runner) ended(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.running, id)
}

func (r *Runner) forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.begun, id)
}

// reserve takes a message's segments off the sender's rate. One that may not be sent yet, because another process was quicker, goes back to
// its old place in the queue.
func (r *Runner) reserve(ctx context.Context, j queue.Job, t Request, from senders.Sender, now time.Time) error {
	pace := paceOf(from)
	r.reserving.RLock()
	wait, err := r.Store.Reserve(ctx, from.From(), costOf(from, t), pace.Slack(t.Purpose.Urgent()), now)
	r.forget(j.ID)
	r.reserving.RUnlock()
	if err != nil || wait == 0 {
		return err
	}
	several, err := r.several(ctx, t.OrgID)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := now.Add(min(wait, longestWait)); r.refused.IsZero() || at.Before(r.refused) {
		r.refused = at
	}
	if several { // at its old place it would stand before the messages of the other senders
		r.paused[j.OrgID] = now.Add(otherPause)
		return &queue.Snooze{After: max(wait, longestWait), Cause: errPace}
	}
	return &queue.Snooze{After: min(t.SendAt.Sub(now), 0), Cause: errPace}
}

// several reports whether an organisation has more than one sender.
func (r *Runner) several(ctx context.Context, orgID uuid.UUID) (bool, error) {
	active, err := r.Senders.Active(ctx, orgID)
	return len(active) > 1, err
}

// costOf is by how much a message moves its sender's arrival on.
func costOf(from senders.Sender, t Request) time.Duration {
	return paceOf(from).Cost(sms.Segments(string(t.Body)).Count)
}

// Handle brings one message on by one step. Whatever dies between the steps, the next one begins at what Send has recorded under the
// message's own key, so Twilio gets it once.
func (r *Runner) Handle(ctx context.Context, j queue.Job) error {
	t, err := ReadPayload(j.Payload, j.CreatedAt)
	if err != nil {
		return &queue.Permanent{Cause: err}
	}
	if t.OrgID, err = uuid.Parse(j.OrgID); err != nil {
		return &queue.Permanent{Cause: fmt.Errorf("organisation: %w", err)}
	}
	t.Key = MessageKey(j.ID)
	progress, err := r.Store.Progress(ctx, t.OrgID, t.Key, t.To)
	if err != nil {
		return err
	}
	var from senders.Sender // of the segments that are reserved
	switch now := r.Now(); {
	case !now.Before(t.ExpiresAt):
		if end := late(t, progress.Message); end != nil {
			return end
		}
	case progress.Message != nil && !progress.Message.Retryable(now): // Send only reads it
	case progress.Unjudged != uuid.Nil: // it does not pay: it would keep others from being sent
		return awaitJudgement(progress.Unjudged)
	case progress.Held: // nor does it
		return after(send.Result{Outcome: send.Held})
	default:
		if until, quiet := t.quiet(now); quiet { // nor does it in quiet hours
			return awaitHours(t, until, now)
		}
		country := phone.Classify(t.To.String()).Country // who may not be texted is refused below
		if from, err = r.Senders.For(ctx, t.OrgID, t.To.String(), country); err != nil {
			return withoutSender(err)
		}
		if err := r.reserve(ctx, j, t, from, now); err != nil {
			return err
		}
	}
	result, err := r.Send.Send(ctx, send.Request{
		OrgID: t.OrgID, ProfileID: t.ProfileID, To: t.To, Body: t.Body, Key: t.Key, CorrelationID: j.ID, UnknownPolicy: t.UnknownPolicy,
		Purpose: string(t.Purpose),
	})
	if err != nil {
		return withoutSender(err)
	}
	if result.Outcome == send.Capped || result.Outcome == send.Suspended { // nor do these: their texts would keep all others from being sent
		if err := r.Store.CancelReservation(ctx, from.From(), costOf(from, t)); err != nil {
			return err
		}
	}
	return after(result)
}

// withoutSender has a message of an organisation without a sender wait, until there is one or its time is over.
func withoutSender(err error) error {
	if errors.Is(err, senders.ErrNoSender) {
		return &queue.Snooze{After: heldWait, Cause: err}
	}
	return err
}

var (
	errPace    = errors.New("waits for its turn: the sender's rate is used up (SMS_SEGMENTS_PER_SECOND)")
	errUnknown = errors.New("it may have been sent; the reconciler is finding out")
	errNotTook = errors.New("not taken yet by Twilio")
	errHeld    = errors.New("the recipient is on a safety hold; it is sent when that is lifted, unless it expires before; " +
		"to do: POST /v1/profiles/{profile_id}:release when the person may be texted again, or cancel it")
)

// awaitJudgement has a message wait until an operator has judged words of the recipient, or for its own end.
func awaitJudgement(words uuid.UUID) error {
	return &queue.Snooze{After: heldWait, Cause: fmt.Errorf("words of the recipient may be an opt-out, and no operator has judged them; "+
		"it is sent if they are none, unless it expires before; to do: GET /v1/messages/%s, then as docs/runbooks/consent-request.md says, "+
		"or cancel it", words)}
}

// awaitHours has a message wait for the end of quiet hours. If it expires before, it waits for that and says so, while there is time to
// enqueue another.
func awaitHours(t Request, until, now time.Time) error {
	if !until.Before(t.ExpiresAt) {
		return &queue.Snooze{After: t.ExpiresAt.Sub(now), Cause: fmt.Errorf("it will not be sent: it expires at %s, and the recipient's "+
			"quiet hours end at %s; to do: if it is wanted after them, cancel it and enqueue it under another key with a later expires_at",
			t.ExpiresAt.UTC().Format(time.RFC3339), until.UTC().Format(time.RFC3339))}
	}
	return &queue.Snooze{After: until.Sub(now), Cause: fmt.Errorf("waits for the end of the recipient's quiet hours, at %s; "+
		"to do: nothing, or cancel it; it is sent then unless it expires before", until.UTC().Format(time.RFC3339))}
}

func after(result send.Result) error {
	wait := result.RetryAfter
	switch result.Outcome {
	case send.Accepted, send.AlreadyAccepted:
		return nil
	case send.Throttled, send.Paced:
		cause := errNotTook
		if result.Explanation != "" {
			cause = fmt.Errorf("%w: %s", errNotTook, result.Explanation)
		}
		return &queue.Snooze{After: wait, Cause: cause}
	case send.Held:
		return &queue.Snooze{After: heldWait, Cause: errHeld}
	case send.Capped, send.Suspended:
		return &queue.Snooze{After: wait, Cause: errors.New(result.Explanation)}
	case send.OptedOut:
		return failed(OptedOut, "the recipient has opted out; nothing is sent until they write START")
	case send.RemindersOff:
		return failed(RemindersOff, "the recipient wants no reminders; none is sent until they write \"start reminders\"")
	case send.Rejected:
		return failed(Rejected, result.Explanation)
	case send.Parked:
		return &queue.Snooze{After: parkedWait, Cause: fmt.Errorf("waits for an operator: %s", result.Explanation)}
	case send.GivenUp:
		return failed(GivenUp, result.Explanation)
	case send.InFlight, send.Unknown:
	}
	return &queue.Snooze{After: max(wait, time.Second), Cause: errUnknown}
}

// late ends a message after its time. It is not sent any more; but one that may be at Twilio is not said to have
// failed. It is nil when Send has settled the message, and only reads it.
func late(t Request, m *send.Message) error {
	switch {
	case m == nil || m.Status == sms.Throttled:
		return failed(Expired, "it could not be sent before "+t.ExpiresAt.UTC().Format(time.RFC3339)+
			"; to do: if it is still wanted, enqueue it under another key, and see whether the recipient was on a safety hold "+
			"or in quiet hours, or why the queue was behind")
	case m.Status == sms.Sending || m.Status == sms.Unknown:
		return &queue.Snooze{After: unknownWait, Cause: errUnknown}
	case m.Status == sms.Parked:
		return failed(Undecided, fmt.Sprintf("whether Twilio has it was not known when its time was over; "+
			"to do: see GET /v1/messages/%s/evidence, then POST /v1/messages/%s:resolve", m.ID, m.ID))
	default:
		return nil
	}
}

func failed(why Why, words string) error {
	return &queue.Permanent{Cause: &Failure{Why: why, Words: words}}
}

func (r *Runner) giveUp(ctx context.Context, j queue.Job, cause error) error {
	failure := Failure{Why: Broken, Words: cause.Error()}
	if known, ok := errors.AsType[*Failure](cause); ok {
		failure = *known
	}
	err := r.Store.Fail(ctx, j, failure, r.Now())
	if errors.Is(err, queue.ErrFenced) { // the worker that has the lease now decides how it ends
		return nil
	}
	return err
}
