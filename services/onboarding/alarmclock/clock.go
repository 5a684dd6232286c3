// Package alarmclock rings the alarms that our own database keeps, with ALARMS=postgres: steps and goals that are due.
package alarmclock

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"google.golang.org/grpc/codes"

	"paceline.internal/platform/alarms"
	"paceline.internal/platform/qstash"
	"paceline.internal/platform/queue"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/proto/payload"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/goals"
)

const (
	// Workers limits how many alarms are at work at a time: each spends most of its time waiting for messaging and Twilio.
	Workers = 256
	// Timeout bounds the work of one alarm, as the gateway bounds that of a callback of QStash.
	Timeout = 25 * time.Second
)

// Clock does with the alarms of our database what the gateway does with QStash's callbacks.
type Clock struct {
	Conversations *conversation.Service
	Goals         *goals.Service
	Letters       letters
	Answer        func(err error) error // turns an error into what a caller is told
	Lateness      *qstash.Lateness      // nil measures nothing
	Now           func() time.Time
}

// letters keeps alarms that were given up; conversation.Store implements it.
type letters interface {
	AddDeadLetter(ctx context.Context, d conversation.DeadLetter) error
}

// Handlers returns those of the queue, by the label of the alarm's route.
func (r *Clock) Handlers() map[string]queue.Handler {
	return map[string]queue.Handler{conversation.StepRoute.Label: r.step, goals.Route.Label: r.goal}
}

// errPayload refuses an alarm that no release wrote.
var errPayload = &queue.Permanent{Cause: errors.New("the payload of the alarm cannot be read")}

// step runs one due step.
func (r *Clock) step(ctx context.Context, j queue.Job) error {
	rings, err := alarms.Read(j)
	if err != nil {
		return err
	}
	request, issues := payload.DecodeStep(rings.Body)
	if issues != nil {
		return errPayload
	}
	alarm := conversation.StepPayload(request)
	if err := alarm.Validate(); err != nil {
		return &queue.Permanent{Cause: err}
	}
	result, err := r.Conversations.ExecuteStep(ctx, alarm, j.ID, conversation.EarlyRuns)
	return r.ended(ctx, rings.Due, result, err)
}

// ended measures an executed step, and returns what its error asks for.
func (r *Clock) ended(ctx context.Context, due time.Time, result conversation.StepResult, err error) error {
	outcome := "sent"
	if err != nil {
		outcome = "failed"
	} else if result.Skip != "" {
		outcome = "skipped"
	}
	r.Lateness.Record(ctx, r.Now().Sub(due), outcome)
	err = r.again(err)
	if told, ok := rpc.ErrorFrom(r.Answer(err)); ok && told.RetryAfter > 0 { // such as until a cap lifts
		return &queue.Later{After: told.RetryAfter, Cause: err}
	}
	return err
}

// goal runs one due goal.
func (r *Clock) goal(ctx context.Context, j queue.Job) error {
	rings, err := alarms.Read(j)
	if err != nil {
		return err
	}
	request, issues := payload.DecodeGoal(rings.Body)
	if issues != nil {
		return errPayload
	}
	_, err = r.Goals.Execute(ctx, request.GetGoalId())
	return r.again(goals.Refusal(err))
}

// again tells an error that no repeat can help, as the gateway does for QStash, from one that is tried again.
func (r *Clock) again(err error) error {
	e, known := rpc.ErrorFrom(r.Answer(err))
	if err == nil || !known {
		return err
	}
	final := []onboardingv1.Reason{
		onboardingv1.Reason_REASON_STUCK, onboardingv1.Reason_REASON_UNDELIVERABLE, onboardingv1.Reason_REASON_IDEMPOTENCY_KEY_REUSED,
	}
	if e.Code == codes.InvalidArgument || slices.Contains(final, onboardingv1.Reason(onboardingv1.Reason_value[e.Reason])) {
		return &queue.Permanent{Cause: err}
	}
	return err
}

// told returns what a caller is told of an error: its own words may be internal.
func (r *Clock) told(err error) string {
	if e, known := rpc.ErrorFrom(r.Answer(err)); known {
		return e.Message
	}
	return "internal error; see the log"
}

// GiveUp keeps a dead letter of a step, or fails a goal that its device never began, as the failure callbacks of QStash do.
func (r *Clock) GiveUp(ctx context.Context, j queue.Job, cause error) error {
	rings, err := alarms.Read(j)
	if err != nil {
		return nil //nolint:nilerr // the failed job shows it
	}
	if goal, issues := payload.DecodeGoal(rings.Body); issues == nil {
		_, err := r.Goals.AlarmFailed(ctx, goal.GetGoalId(), j.ID)
		return err
	}
	failed := r.letter(j.ID, rings.Body, cause)
	failed.Retried = j.Attempts
	if step, issues := payload.DecodeStep(rings.Body); issues == nil && conversation.StepPayload(step).Validate() == nil {
		failed.SessionID, failed.StepID = step.GetSessionId(), step.GetStepId()
	}
	return r.Letters.AddDeadLetter(ctx, failed)
}

// letter is the dead letter of an alarm.
func (r *Clock) letter(id string, body []byte, cause error) conversation.DeadLetter {
	return conversation.DeadLetter{
		SourceMessageID: id, Payload: body, Status: http.StatusInternalServerError, Response: []byte(r.told(cause)), At: r.Now(),
	}
}
