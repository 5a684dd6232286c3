// Package qstash answers the callbacks of QStash: the alarms of steps and goals, and those that it has given up.
package qstash

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"paceline.internal/gateway/route"
	"paceline.internal/platform/config"
	"paceline.internal/platform/qstash"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/proto/payload"
)

const (
	// PathStep runs one due step.
	PathStep = "/api/onboarding/step"
	// PathStepFailed records a step that QStash has given up.
	PathStepFailed = "/api/onboarding/step/failed"
	// PathGoal runs one due goal.
	PathGoal = "/api/goals/execute"
	// PathGoalFailed records a goal's alarm that QStash has given up.
	PathGoalFailed = "/api/goals/execute/failed"
	// Timeout leaves the upstream the whole of one call to Twilio and time to settle it.
	Timeout = 25 * time.Second
	// defaultRetryAfter tells QStash when to try again if the upstream does not say.
	defaultRetryAfter = 2 * time.Second
	// maxAlarms bounds the alarms that are worked on at once: as many as keep the services busy, and no more, so that each of them is soon
	// done. maxWaitingAlarms more wait for that: a refused alarm comes back seconds later, and a burst is eight seconds long. An alarm has
	// some hundred bytes.
	maxAlarms        = 512
	maxWaitingAlarms = 4096
)

// Config has the settings and the services that the alarms need.
type Config struct {
	CurrentKey, NextKey config.Secret
	Origin              config.Origin // that QStash calls; the Host header is the caller's and is not used
	Onboarding          onboardingv1.OnboardingServiceClient
	Goals               onboardingv1.GoalServiceClient
	Meter               metric.Meter
	Now                 func() time.Time
	Log                 *slog.Logger
}

// Alarms answers QStash: the alarm of a step or a goal, and the callback of an alarm after its last attempt failed.
type Alarms struct {
	Config

	verifier *qstash.Verifier
	lateness *qstash.Lateness
	limiter  *route.Limiter
}

// New returns the alarms.
func New(cfg Config) (*Alarms, error) {
	verifier, keysErr := qstash.NewVerifier(qstash.VerifierConfig{
		CurrentKey: cfg.CurrentKey.Reveal(), NextKey: cfg.NextKey.Reveal(), Now: cfg.Now,
	})
	lateness, err := qstash.NewLateness(cfg.Meter)
	return &Alarms{
		Config: cfg, verifier: verifier, lateness: lateness, limiter: route.NewLimiter(maxAlarms, maxWaitingAlarms),
	}, errors.Join(keysErr, err)
}

// Routes returns the handler of each path.
func (a *Alarms) Routes() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		PathStep: a.step().Serve, PathStepFailed: a.stepFailed().Serve, PathGoal: a.goal().Serve, PathGoalFailed: a.goalFailed().Serve,
	}
}

// step runs one due step.
func (a *Alarms) step() route.Callback[*delivery] {
	return a.callback("onboarding.step_failed_finally", func(ctx context.Context, d *delivery) route.Answer {
		request, issues := payload.DecodeStep(d.body)
		if issues != nil {
			return malformed("profile_id, session_id, step_id, expected_state_token and idempotency_key, each once", issues)
		}
		d.sessionID, d.stepID = route.Clip(request.GetSessionId()), route.Clip(request.GetStepId())
		response, err := a.Onboarding.ExecuteStep(ctx, request)
		outcome, reason := "sent", response.GetSkipReason()
		switch response.GetOutcome() {
		case onboardingv1.StepOutcome_STEP_OUTCOME_SENT:
		case onboardingv1.StepOutcome_STEP_OUTCOME_SKIPPED:
			outcome, d.duplicate = "skipped", reason == "already_sent" || reason == "stale"
		case onboardingv1.StepOutcome_STEP_OUTCOME_UNSPECIFIED: // as if there was no answer
			fallthrough
		default:
			if err == nil {
				err = status.Errorf(codes.Internal, "ExecuteStep answered with the outcome %d", response.GetOutcome())
			}
			a.late(ctx, d, "failed")
			return failed(ctx, err)
		}
		a.late(ctx, d, outcome)
		return done(ctx, outcome, reason)
	})
}

// stepFailed records a step that QStash has given up. Its failure is another event: the step's has been logged.
func (a *Alarms) stepFailed() route.Callback[*delivery] {
	return a.callback("onboarding.step_failure_not_recorded", func(ctx context.Context, d *delivery) route.Answer {
		failure, refused := decodeFailure(d)
		if refused != nil {
			return *refused
		}
		if step, issues := payload.DecodeStep(failure.SourceBody); issues == nil {
			d.sessionID, d.stepID = route.Clip(step.GetSessionId()), route.Clip(step.GetStepId())
		}
		response, err := a.Onboarding.RecordStepFailure(ctx, &onboardingv1.RecordStepFailureRequest{
			SourceMessageId: failure.SourceMessageID, DlqId: failure.DeadLetterID, SourceBody: failure.SourceBody,
			Status: clamp(failure.Status), Body: failure.Body, Retried: clamp(failure.Retried), DeliveryId: d.messageID,
		})
		if err != nil {
			return failed(ctx, err)
		}
		d.duplicate = response.GetDuplicate()
		return done(ctx, "recorded", "")
	})
}

// callback returns the pipeline of one callback. It describes the delivery on the span and the log line, with any answer. finally names the
// event of a delivery that failed for good.
func (a *Alarms) callback(finally string, work func(context.Context, *delivery) route.Answer) route.Callback[*delivery] {
	return route.Callback[*delivery]{
		Timeout: Timeout, Limit: route.MaxBody, Limiter: a.limiter, Signed: route.Has(qstash.HeaderSignature),
		Unread: func(status int, why *rpc.Error) route.Answer {
			if status == http.StatusRequestTimeout { // the same body may arrive faster next time
				return route.Answer{Status: status, Err: why}
			}
			return neverRetry(why) // a step has its failure callback; a callback that is lost this way has only its line in the log
		},
		Verify: a.verify,
		Due: func(d *delivery) time.Time { // the header is not signed, so it decides nothing but the order of alarms that wait
			if d.due.IsZero() {
				return a.Now()
			}
			return d.due
		},
		Work: func(ctx context.Context, d *delivery) route.Answer {
			if d.published.IsValid() { // by our publisher: what follows belongs to the conversation's trace
				ctx = trace.ContextWithRemoteSpanContext(ctx, d.published)
			}
			return work(ctx, d)
		},
		Answered: func(r *http.Request, d *delivery, given route.Answer) {
			if d == nil { // its body could not be read
				d = readDelivery(r.Header)
			}
			d.describe(r.Context(), given)
			d.reportFinalFailure(r.Context(), a.Log, finally, given)
		},
	}
}

// verify returns the delivery that a request makes, and refuses one that QStash has not signed or not named.
func (a *Alarms) verify(r *http.Request, body []byte) (*delivery, *route.Answer) {
	d, signature := readDelivery(r.Header), r.Header.Get(qstash.HeaderSignature)
	if err := a.verifier.Verify(signature, body, route.PublicURL(a.Origin, r)); err != nil {
		event := route.EventFrom(r.Context())
		event.Add(slog.String("cause", route.Clip(err.Error()))) // it names the token's method, which is the caller's
		if signature != "" {
			event.Add(slog.String("signature_sha256", signatureMark(signature)))
		}
		return d, &route.Answer{Status: http.StatusUnauthorized, Err: route.Refuse(codes.Unauthenticated, route.ReasonUnauthenticated,
			"this is not signed by QStash with our signing keys, for this URL and this body")}
	}
	d.body = body
	if d.verified(r.Header); d.messageID == "" {
		return d, new(neverRetry(route.Refuse(codes.InvalidArgument, route.ReasonInvalid, "the header "+qstash.HeaderMessageID+" is missing")))
	}
	return d, nil
}

// malformed refuses a payload with the wrong shape. The signature shows that we made it, so the answer names the wrong fields and repeats
// nothing of the body.
func malformed(fields string, issues map[string]string) route.Answer {
	e := route.Refuse(codes.InvalidArgument, route.ReasonInvalid,
		"the payload must be one JSON object with exactly "+fields+", as text that is not empty")
	e.Meta = issues
	return neverRetry(e)
}

// decodeFailure reads the callback of an alarm that QStash has given up, or refuses it for good.
func decodeFailure(d *delivery) (qstash.Failure, *route.Answer) {
	failure, err := qstash.DecodeFailure(d.body)
	if err != nil {
		return failure, new(neverRetry(route.Refuse(codes.InvalidArgument, route.ReasonInvalid, "the failure callback cannot be read")))
	}
	return failure, nil
}

// done acknowledges the message to QStash. reason says why nothing was sent.
func done(ctx context.Context, outcome, reason string) route.Answer {
	route.EventFrom(ctx).Add(slog.String("outcome", outcome), slog.String("skip_reason", reason))
	body, err := json.Marshal(struct {
		OK      bool   `json:"ok"`
		Outcome string `json:"outcome"`
		Reason  string `json:"reason,omitempty"`
	}{true, outcome, reason})
	if err != nil { // cannot happen: three fields of plain types
		panic(err)
	}
	return route.Answer{Status: http.StatusOK, ContentType: "application/json", Body: body}
}

// neverRetry answers a delivery that cannot succeed however often it is retried.
func neverRetry(e *rpc.Error) route.Answer {
	return route.Answer{Status: qstash.StatusNonRetryable, Err: e, Header: map[string]string{qstash.HeaderNonRetryable: "true"}}
}

// failed turns a failed call into the answer that makes QStash do the right thing: stop for good, try again soon, or try again by
// its own schedule.
func failed(ctx context.Context, err error) route.Answer {
	route.EventFrom(ctx).Cause(err)
	e := route.Public(err)
	soon := map[string]string{"Retry-After": route.Seconds(defaultRetryAfter)} // unless the upstream says when
	switch {
	case e.Code == codes.InvalidArgument, permanent(e.Reason):
		return neverRetry(e)
	case e.Reason == onboardingv1.Reason_REASON_DELIVERY_IN_PROGRESS.String():
		return route.Answer{Status: http.StatusConflict, Err: e, Header: soon}
	case route.Transient(e.Code):
		return route.Answer{Status: http.StatusServiceUnavailable, Err: e, Header: soon}
	default:
		return route.Answer{Status: http.StatusInternalServerError, Err: e}
	}
}

// permanent reports whether a person has to do something before the same call can succeed. Everything else is tried again.
func permanent(reason string) bool {
	switch onboardingv1.Reason(onboardingv1.Reason_value[reason]) {
	case onboardingv1.Reason_REASON_STUCK, onboardingv1.Reason_REASON_UNDELIVERABLE, onboardingv1.Reason_REASON_IDEMPOTENCY_KEY_REUSED:
		return true
	default:
		return false
	}
}

func clamp(n int) int32 { return int32(min(max(n, 0), math.MaxInt32)) }

// Probe returns a signed step without a valid payload, for the doctor: a gateway with this key, which computes signatures over the same
// URL, answers 489.
func Probe(ctx context.Context, origin string, key config.Secret, now time.Time) (*http.Request, error) {
	target, body := origin+PathStep, "{}"
	signature, err := qstash.Sign(key.Reveal(), target, []byte(body), now)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(qstash.HeaderSignature, signature)
	return request, nil
}
