package conversation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// StepResult is a finished execution. Executing the step again changes nothing.
type StepResult struct {
	Skip      session.SkipReason // why nothing was sent now; empty when the message was
	MessageID string
	Next      session.StepID // due next; empty after the last step or when nothing was advanced
	Moved     bool           // this execution moved the session
}

// StepParked is a step that cannot be sent. The session waits for an operator, with this reason.
type StepParked struct {
	Status    session.Status
	Reason    string
	KeyReused bool // because the step's key was used with another message
}

func (p *StepParked) Error() string {
	return "the session is parked as " + string(p.Status) + ": " + p.Reason
}

// Early tells ExecuteStep what to do when it is called before the step is due.
type Early int

// Policies for an early execution.
const (
	EarlyRuns     Early = iota // it is an alarm's, which is delivered when it was set for, by whatever clock
	EarlyRefused               // it is an operator's, who gets *NotDue
	EarlyRecorded              // it is an operator's with before_due: the step is sent, after an entry in the timeline
)

// NotDue is an execution by an operator before its step is due, without before_due. Nothing was changed.
type NotDue struct{ Left time.Duration }

func (n *NotDue) Error() string {
	return fmt.Sprintf("the step is due in %s and is sent then by itself; to have it sent now say before_due", max(n.Left.Round(tenth), tenth))
}

const tenth = 100 * time.Millisecond

// StepDue has the times at which a step was to be sent. Both are zero when no alarm says so.
type StepDue struct {
	First time.Time // by the step before it, which is the flow's delay after Twilio took that one's message
	Now   time.Time // by its newest alarm, whatever has set that, but for those that only read a receipt again
}

// execution has the reason for which a step is executed.
type execution struct {
	CorrelationID string
	Early         Early
	Rang          *session.Alarm // that this process kept; nil for a call
}

// ExecuteStep performs one step, in the order of docs/architecture.md. Errors: session.ErrUnknownStep, ErrNoSession for an operator,
// *NotDue, *StepParked, *Pending, ErrMessageMissing, and what the ports return; after any of them the step may be executed again.
func (c *Service) ExecuteStep(ctx context.Context, p session.StepPayload, correlationID string, early Early) (StepResult, error) {
	return c.execute(ctx, p, execution{CorrelationID: correlationID, Early: early})
}

// Ring is ExecuteStep for an alarm that this process kept. Where the session moves, the alarm is deleted with it.
func (c *Service) Ring(ctx context.Context, a session.Alarm) (StepResult, error) {
	return c.execute(ctx, a.Payload(), execution{CorrelationID: a.ID, Early: EarlyRuns, Rang: &a})
}

func (c *Service) execute(ctx context.Context, p session.StepPayload, e execution) (StepResult, error) {
	ctx, end := c.Spans.Begin(ctx, "onboarding.step", p.SessionID)
	defer end()
	c.lastStep.Store(c.Now().UnixNano())
	c.Log.LogAttrs(ctx, slog.LevelInfo, "onboarding.step_handler_invoked",
		slog.String("step_id", string(p.StepID)), slog.String("session_id", p.SessionID), slog.String("correlation_id", e.CorrelationID))
	view, due, err := c.Store.LoadStep(ctx, p.SessionID)
	none := errors.Is(err, ErrNoSession)
	if err != nil && !none {
		return StepResult{}, err
	}
	f, unread := c.flowOf(ctx, view.Session) // without a session, the deployment's own
	switch {
	case unread != nil:
		return StepResult{}, unread
	case !c.schedules(f, view.Session, p.StepID):
		return StepResult{}, fmt.Errorf("%w: %s", session.ErrUnknownStep, p.StepID)
	case none && e.Early == EarlyRuns:
		return c.skip(ctx, p, session.SkipSessionNotFound, ""), nil
	case none:
		return StepResult{}, err
	}
	if ok, reason := session.MayExecute(view.Session.ProfileID, view.Snapshot(), p); !ok {
		return c.skip(ctx, p, reason, ""), nil
	}
	if view.Session.Flow != "" && e.Early == EarlyRuns && due.First.After(c.Now().Add(alarmSkew)) { // of an earlier visit of the step
		return c.skip(ctx, p, session.SkipStale, ""), nil
	}
	result, err := c.sendStep(ctx, p, f, view, due, e)
	switch {
	case errors.Is(err, people.ErrConflict):
		return c.overtaken(ctx, p, result.MessageID)
	case errors.Is(err, people.ErrUnavailable):
		c.unavailable(ctx, p)
	}
	return result, err
}

// Busy reports whether a step began in this process within the last quarter of a second: what can wait gives way then.
func (c *Service) Busy() bool {
	return c.Now().UnixNano()-c.lastStep.Load() < int64(250*time.Millisecond)
}

const alarmSkew = 5 * time.Second // bounds the lead of the clock that rings over our clock

// schedules reports whether the flow of a session has a step that an alarm may be for.
func (c *Service) schedules(f *flow.Flow, r session.Record, step session.StepID) bool {
	if r.Flow == "" {
		_, known := c.Flow.Step(step)
		return known
	}
	return f.Steps[string(step)].Text != ""
}

// sendStep sends the step of a session that waits for it, unless it has to wait itself.
func (c *Service) sendStep(
	ctx context.Context, p session.StepPayload, f *flow.Flow, view View, due StepDue, e execution,
) (StepResult, error) {
	r, now, ahead := view.Session, c.Now(), false
	at, err := session.Position(f, r)
	if err != nil {
		return StepResult{}, err
	}
	if view.SchedulingPaused {
		return c.skipUnless(ctx, p, session.SkipSchedulingPaused, c.putBack(ctx, r, now))
	}
	if until, quiet := r.QuietUntil(now); quiet {
		if waits, err := c.afterQuiet(ctx, f, r, at, due, until); err != nil || waits {
			return c.skipUnless(ctx, p, session.SkipQuietHours, err)
		}
	}
	if e.Early != EarlyRuns && due.Now.After(now) {
		if err := c.beforeDue(ctx, r, due.Now.Sub(now), e.Early); err != nil {
			return StepResult{}, err
		}
		ahead = true
	}
	if f.Due(at).AfterDelivery > 0 && at.Before != "" {
		if waits, err := c.awaitDelivery(ctx, f, r, at); err != nil || waits {
			return c.skipUnless(ctx, p, session.SkipAwaitingDelivery, err)
		}
	}
	sent, move, err := c.deliver(ctx, order{
		View: view, Flow: f, Text: session.TextKey(f.Due(at).Text), Key: stepKey(r, at.Key),
		CorrelationID: e.CorrelationID, Trigger: session.TriggerStep, Rang: e.Rang,
		Then: func(ctx context.Context, s Sent) (session.Move, error) {
			move := session.AfterStep(f, r, view.person(f), at, s.AcceptedAt, s.AskedAt, c.Now())
			return move, c.armed(ctx, view, &move)
		},
	})
	if sent.Outcome == Accepted {
		c.Log.LogAttrs(ctx, slog.LevelInfo, "onboarding.step_sent",
			slog.String("step_id", string(p.StepID)), slog.String("session_id", p.SessionID), slog.String("idempotency_key", stepKey(r, at.Key)))
	}
	if move.Alarm != nil {
		c.Alarms.PublishOrLeave(ctx, *move.Alarm)
	}
	if sent.Outcome == Accepted && !ahead {
		c.Metrics.spaced(ctx, r, at.Before != "", due.First, sent.AcceptedAt)
	}
	if errors.Is(err, people.ErrConflict) && sent.Outcome == Accepted { // the process that moved the session has set the next alarm
		return StepResult{MessageID: sent.MessageID}, nil
	}
	if wait := capped(err); wait != nil {
		return c.skipUnless(ctx, p, session.SkipCapped, c.awaitRoom(ctx, r, wait.RetryAfter))
	}
	if err != nil {
		return StepResult{MessageID: sent.MessageID}, err // of interest to an execution that was overtaken
	}
	return c.conclude(ctx, p, sent, move)
}

// beforeDue refuses an operator who has a step sent before it is due, unless they said before_due: the timeline has that before the step
// is sent.
func (c *Service) beforeDue(ctx context.Context, r session.Record, left time.Duration, early Early) error {
	if early == EarlyRefused {
		return &NotDue{Left: left}
	}
	now := c.Now()
	return c.Store.Note(ctx, r, []session.Entry{{
		At: now, Kind: session.KindReplayed, Trigger: session.TriggerOperator, Step: r.NextStep,
		Detail: fmt.Sprintf("before_due: %s before it was due", left.Round(tenth)),
	}}, nil, now)
}

// conclude answers for a session that was moved.
func (c *Service) conclude(ctx context.Context, p session.StepPayload, sent Sent, move session.Move) (StepResult, error) {
	taken := sent.Outcome == Accepted || sent.Outcome == AlreadyAccepted
	switch {
	case taken: // also where the flow ends then, or hands the person over
	case move.Status == session.Stopped:
		return c.skip(ctx, p, session.SkipOptedOut, sent.MessageID), nil
	default:
		return StepResult{}, &StepParked{Status: move.Status, Reason: move.Reason, KeyReused: sent.Outcome == KeyReused}
	}
	result := StepResult{MessageID: sent.MessageID}
	if sent.Outcome == AlreadyAccepted {
		result = c.skip(ctx, p, session.SkipAlreadySent, sent.MessageID)
	}
	result.Next, result.Moved = move.NextStep, true
	return result, nil
}

// overtaken answers for an execution that lost the race to move the session: the winner has set the next alarm.
func (c *Service) overtaken(ctx context.Context, p session.StepPayload, messageID string) (StepResult, error) {
	view, err := c.Store.LoadSession(ctx, p.SessionID)
	if errors.Is(err, ErrNoSession) {
		return c.skip(ctx, p, session.SkipSessionNotFound, messageID), nil
	}
	if err != nil {
		return StepResult{}, err
	}
	ok, reason := session.MayExecute(view.Session.ProfileID, view.Snapshot(), p)
	if ok { // moved and still due: an operator has resumed it meanwhile; come back
		return StepResult{}, people.ErrConflict
	}
	return c.skip(ctx, p, reason, messageID), nil
}

// skip says why nothing was sent.
func (c *Service) skip(ctx context.Context, p session.StepPayload, reason session.SkipReason, messageID string) StepResult {
	c.Log.LogAttrs(ctx, slog.LevelInfo, "onboarding.step_skipped",
		slog.String("step_id", string(p.StepID)), slog.String("session_id", p.SessionID), slog.String("reason", string(reason)))
	return StepResult{Skip: reason, MessageID: messageID}
}

// skipUnless skips a step after its alarm was set again, unless that failed.
func (c *Service) skipUnless(ctx context.Context, p session.StepPayload, reason session.SkipReason, err error) (StepResult, error) {
	if err != nil {
		return StepResult{}, err
	}
	return c.skip(ctx, p, reason, ""), nil
}

// noteTimeout bounds the note of an outage, which is made even if the caller is gone: the call that failed may have taken all of
// its time.
const noteTimeout = 4 * time.Second

// capped is the wait for room beneath a cap, if an error is one.
func capped(err error) *Pending {
	if wait, ok := errors.AsType[*Pending](err); ok && wait.Outcome == Capped {
		return wait
	}
	return nil
}

// unavailable notes an outage of messaging, so that the sweeper does not count it against the session.
func (c *Service) unavailable(ctx context.Context, p session.StepPayload) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer cancel()
	if err := c.Store.Unavailable(ctx, p.SessionID, c.Now()); err != nil {
		c.Log.WarnContext(ctx, "onboarding.outage_not_noted", "step_id", string(p.StepID), "session_id", p.SessionID, "error", err)
	}
}

// stepKey is the idempotency key of a text of a session, by the key that it has in the flow.
func stepKey(r session.Record, key string) string {
	return session.Key(r.ProfileID, r.ID, session.StepID(key))
}

// armed gives the alarm of a move its id and its lease, and a new generation where the session was at the step before.
func (c *Service) armed(ctx context.Context, view View, move *session.Move) error {
	if move.Alarm == nil {
		return nil
	}
	if move.From.Flow != "" && move.Position.Visits[string(move.NextStep)] > 1 {
		newest, err := c.Store.Generation(ctx, move.From.ID, move.NextStep)
		if err != nil {
			return err
		}
		move.Alarm.Generation = newest + 1
	}
	move.Alarm = leased(*move.Alarm)
	if c.Timer != nil && !view.SchedulingPaused {
		move.Alarm.LeaseUntil = c.Timer.Lease(move.Alarm.DueAt)
	}
	return nil
}

// leased gives an alarm its id and leases it to the caller, who publishes it after the commit.
func leased(a session.Alarm) *session.Alarm {
	a.ID, a.LeaseToken = uuid.Must(uuid.NewV7()).String(), uuid.Must(uuid.NewRandom()).String()
	return &a
}
