// Package burst performs scheduled steps: one message per execution, one alarm for the next, nothing twice.
package burst

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"paceline.internal/platform/telemetry"
	"paceline.internal/services/onboarding/dispatch"
	"paceline.internal/services/onboarding/session"
)

// Outcome is what an execution did.
type Outcome int

// The outcomes.
const (
	Sent    Outcome = iota + 1 // the message was taken now
	Skipped                    // nothing was sent now; Result.Skip says why
)

// Result is a finished execution. Executing the step again changes nothing.
type Result struct {
	Outcome   Outcome
	Skip      session.SkipReason
	MessageID string
	Next      session.StepID // due next; empty after the last step or when nothing was advanced
}

// Parked is a step that cannot be sent. The session waits for an operator, with this reason.
type Parked struct {
	Status    session.Status
	Reason    string
	KeyReused bool // because the step's key was used with another text
}

func (p *Parked) Error() string {
	return "the session is parked as " + string(p.Status) + ": " + p.Reason
}

// Early says what becomes of an execution before its step is due.
type Early int

// What becomes of one.
const (
	EarlyRuns     Early = iota // it is an alarm's, which rings when it was set for, by whatever clock
	EarlyRefused               // it is an operator's, who gets *NotDue
	EarlyRecorded              // it is an operator's who means it: the step is sent, and the timeline tells of it
)

// NotDue is an execution before its step is due, by somebody who may not have meant that. Nothing was changed.
type NotDue struct{ Left time.Duration }

func (n *NotDue) Error() string {
	return fmt.Sprintf("the step is due in %s and is sent then by itself; to have it sent now say before_due", max(n.Left.Round(tenth), tenth))
}

const tenth = 100 * time.Millisecond

type loader interface {
	LoadSession(ctx context.Context, id string) (dispatch.View, error)
	// StepDueAt is when a step was due by the step before; zero when none set its alarm.
	StepDueAt(ctx context.Context, sessionID string, step session.StepID) (time.Time, error)
	// NextDueAt is when a step is due by now, whatever has set or moved that; zero when it has no alarm.
	NextDueAt(ctx context.Context, sessionID string, step session.StepID) (time.Time, error)
	Note(ctx context.Context, sessionID string, entries []session.Entry, cause *dispatch.Cause, at time.Time) error
}

type outages interface {
	// Unavailable notes that a step of a session could not be done because messaging cannot be reached.
	Unavailable(ctx context.Context, sessionID string, at time.Time) error
}

type deliverer interface {
	Deliver(ctx context.Context, o dispatch.Order) (dispatch.Done, error)
}

type publisher interface {
	Publish(ctx context.Context, a session.Alarm) error
}

// Executor performs steps.
type Executor struct {
	Sessions loader
	Delivery deliverer
	Receipts receipts
	Waits    waiting
	Outages  outages
	Alarms   publisher
	Flow     session.Flow
	Metrics  *Metrics
	Threads  telemetry.Threads
	Log      *slog.Logger
	Now      func() time.Time
}

// Execute performs one step, in the order of docs/architecture.md. Errors: session.ErrUnknownStep, *NotDue, *Parked, *dispatch.Wait,
// dispatch.ErrMessageMissing, and what the ports return; after any of them the step may be executed again.
func (e *Executor) Execute(ctx context.Context, p session.StepPayload, correlationID string, early Early) (Result, error) {
	ctx, end := e.Threads.Begin(ctx, "onboarding.step", p.SessionID)
	defer end()
	e.Log.InfoContext(ctx, "onboarding.step_handler_invoked",
		"step_id", string(p.StepID), "session_id", p.SessionID, "correlation_id", correlationID)
	step, ok := e.Flow.Step(p.StepID)
	if !ok {
		return Result{}, fmt.Errorf("%w: %s", session.ErrUnknownStep, p.StepID)
	}
	result, err := e.perform(ctx, p, step, correlationID, early)
	if errors.Is(err, dispatch.ErrUnavailable) {
		e.unavailable(ctx, p)
	}
	return result, err
}

// unavailable notes an outage of messaging, so that the sweeper does not count it against the session. The caller may have gone by
// now, for the call that failed may have taken all of its time.
func (e *Executor) unavailable(ctx context.Context, p session.StepPayload) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	if err := e.Outages.Unavailable(ctx, p.SessionID, e.Now()); err != nil {
		e.Log.WarnContext(ctx, "onboarding.outage_not_noted", "step_id", string(p.StepID), "session_id", p.SessionID, "error", err)
	}
}

// perform is Execute for a step that the flow has.
func (e *Executor) perform(
	ctx context.Context, p session.StepPayload, step session.Step, correlationID string, early Early,
) (Result, error) {
	view, ok, reason, err := e.load(ctx, p)
	if err != nil {
		return Result{}, err
	}
	if !ok {
		return e.skip(ctx, p, reason, ""), nil
	}
	if waits, err := e.awaitWindow(ctx, view.Session, step); waits || err != nil {
		return e.waited(ctx, p, session.SkipQuietHours, err)
	}
	hurried, err := e.beforeDue(ctx, view.Session, early)
	if err != nil {
		return Result{}, err
	}
	if waits, err := e.awaitDelivery(ctx, view.Session, step); waits || err != nil {
		return e.waited(ctx, p, session.SkipAwaitingDelivery, err)
	}
	token, next, err := session.AfterStep(e.Flow, step.ID)
	if err != nil {
		return Result{}, err
	}
	done, err := e.Delivery.Deliver(ctx, dispatch.Order{
		View: view, Text: step.Text, Key: p.IdempotencyKey, CorrelationID: correlationID, Trigger: session.TriggerStep,
		Then: func(s dispatch.Sent) session.Move { return e.advance(view.Session, token, next, s) },
	})
	if done.Sent.Outcome == dispatch.Accepted && !hurried {
		e.measure(ctx, view.Session, step, done.Sent.AcceptedAt)
	}
	e.logSent(ctx, p, done.Sent)
	if errors.Is(err, dispatch.ErrConflict) {
		return e.overtaken(ctx, p, done.Sent)
	}
	if err != nil {
		return Result{}, err
	}
	return e.conclude(ctx, p, done)
}

// beforeDue reports whether an operator has a step sent before it is due, and if so tells the timeline, before anything is sent.
func (e *Executor) beforeDue(ctx context.Context, r session.Record, early Early) (bool, error) {
	if early == EarlyRuns {
		return false, nil
	}
	due, err := e.Sessions.NextDueAt(ctx, r.ID, r.NextStep)
	now := e.Now()
	left := due.Sub(now)
	switch {
	case err != nil || left <= 0:
		return false, err
	case early == EarlyRefused:
		return false, &NotDue{Left: left}
	}
	return true, e.Sessions.Note(ctx, r.ID, []session.Entry{{
		At: now, Kind: session.KindReplayed, Trigger: session.TriggerOperator, Step: r.NextStep,
		Detail: fmt.Sprintf("before_due: %s before it was due", left.Round(tenth)),
	}}, nil, now)
}

// measure records by how much a text that was taken now came too late or too early. What cannot be measured is left out.
func (e *Executor) measure(ctx context.Context, r session.Record, step session.Step, at time.Time) {
	if _, follows := e.Flow.Previous(step.ID); e.Metrics == nil || !follows || r.Detours > 0 {
		return // the first step follows a reply; a session that was resumed was moved by an operator last
	}
	due, err := e.Sessions.StepDueAt(ctx, r.ID, step.ID)
	if err != nil {
		e.Log.WarnContext(ctx, "onboarding.spacing_unknown", "step_id", string(step.ID), "session_id", r.ID, "error", err)
		return
	}
	if !due.IsZero() {
		e.Metrics.spacing.Record(ctx, at.Sub(due).Seconds())
	}
}

// load reads the session and says whether the step may be executed now. The payload decides nothing: a session that
// belongs to somebody else than the payload says does not exist.
func (e *Executor) load(ctx context.Context, p session.StepPayload) (dispatch.View, bool, session.SkipReason, error) {
	view, err := e.Sessions.LoadSession(ctx, p.SessionID)
	if errors.Is(err, dispatch.ErrNoSession) {
		return dispatch.View{}, false, session.SkipSessionNotFound, nil
	}
	if err != nil {
		return dispatch.View{}, false, "", err
	}
	ok, reason := session.MayExecute(session.StepView{Found: true, ProfileID: view.Session.ProfileID, Snapshot: view.Snapshot()}, p)
	return view, ok, reason, nil
}

// advance is the move after a step's message was taken. The next step is due its delay after Twilio took this one; after
// the last, a reply that came since is the answer to it.
func (e *Executor) advance(r session.Record, to session.Token, next *session.Step, s dispatch.Sent) session.Move {
	m := session.Stay(r, e.Now())
	m.Token, m.NextStep = to, ""
	changed := session.Entry{
		At: m.At, Kind: session.KindAdvanced, From: r.Token, To: to, Trigger: session.TriggerBurstFinished, Step: r.NextStep,
	}
	if next != nil {
		changed.Trigger = session.TriggerStepSent
		m.NextStep = next.ID
		m.Alarm = NewAlarm(r, next.ID, 1, s.AcceptedAt.Add(next.Delay))
	} else {
		m.AnswerHeldSince = s.AskedAt
	}
	m.Entries = []session.Entry{changed}
	return m
}

// conclude answers for a session that was moved, and sets the next alarm.
func (e *Executor) conclude(ctx context.Context, p session.StepPayload, done dispatch.Done) (Result, error) {
	switch done.Move.Status {
	case session.Active:
	case session.Stopped:
		return e.skip(ctx, p, session.SkipOptedOut, done.Sent.MessageID), nil
	case session.Stuck, session.Undeliverable, session.Closed:
		return Result{}, &Parked{
			Status: done.Move.Status, Reason: done.Move.Reason, KeyReused: done.Sent.Outcome == dispatch.KeyReused,
		}
	}
	if a := done.Move.Alarm; a != nil {
		e.setAlarm(ctx, *a)
	}
	if done.Sent.Outcome == dispatch.AlreadyAccepted {
		r := e.skip(ctx, p, session.SkipAlreadySent, done.Sent.MessageID)
		r.Next = done.Move.NextStep
		return r, nil
	}
	return Result{Outcome: Sent, MessageID: done.Sent.MessageID, Next: done.Move.NextStep}, nil
}

// setAlarm publishes the next alarm. A failure changes nothing: the alarm is in the outbox and the relay publishes it.
func (e *Executor) setAlarm(ctx context.Context, a session.Alarm) {
	if err := e.Alarms.Publish(ctx, a); err != nil && !errors.Is(err, ErrDisabled) {
		e.Log.WarnContext(ctx, "onboarding.alarm_left_to_relay", "step_id", string(a.StepID), "session_id", a.SessionID, "error", err)
	}
}

// overtaken answers for an execution that lost the race to move the session: the winner has set the next alarm.
func (e *Executor) overtaken(ctx context.Context, p session.StepPayload, s dispatch.Sent) (Result, error) {
	if s.Outcome == dispatch.Accepted {
		return Result{Outcome: Sent, MessageID: s.MessageID}, nil
	}
	_, ok, reason, err := e.load(ctx, p)
	if err != nil {
		return Result{}, err
	}
	if ok { // moved and still due: an operator has resumed it meanwhile; come back
		return Result{}, dispatch.ErrConflict
	}
	return e.skip(ctx, p, reason, s.MessageID), nil
}

func (e *Executor) skip(ctx context.Context, p session.StepPayload, reason session.SkipReason, messageID string) Result {
	e.Log.InfoContext(ctx, "onboarding.step_skipped", "step_id", string(p.StepID), "session_id", p.SessionID, "reason", string(reason))
	return Result{Outcome: Skipped, Skip: reason, MessageID: messageID}
}

func (e *Executor) logSent(ctx context.Context, p session.StepPayload, s dispatch.Sent) {
	if s.Outcome == dispatch.Accepted {
		e.Log.InfoContext(ctx, "onboarding.step_sent",
			"step_id", string(p.StepID), "session_id", p.SessionID, "idempotency_key", p.IdempotencyKey)
	}
}

// NewAlarm is the alarm for a step of a session in the burst that is due, leased to the caller who is about to publish it.
func NewAlarm(r session.Record, step session.StepID, generation int, due time.Time) *session.Alarm {
	return &session.Alarm{
		ID: uuid.Must(uuid.NewV7()).String(), OrgID: r.OrgID, SessionID: r.ID, ProfileID: r.ProfileID, StepID: step,
		ExpectedToken: session.AwaitingBurst, Generation: generation, Cause: session.CauseDue, DueAt: due,
		LeaseToken: uuid.Must(uuid.NewRandom()).String(),
	}
}
