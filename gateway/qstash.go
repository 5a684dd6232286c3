package gateway

import (
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"paceline.internal/platform/config"
	"paceline.internal/platform/qstash"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/proto/payload"
)

const (
	pathStep       = "/api/onboarding/step"
	pathStepFailed = "/api/onboarding/step/failed"
	// stepTimeout leaves the upstream the whole of one call to Twilio and time to settle it.
	stepTimeout = 25 * time.Second
	// defaultRetryAfter is when QStash tries again if the upstream does not say.
	defaultRetryAfter = 2 * time.Second
)

// alarms answers QStash: the alarm of a step or a goal, and the callback of an alarm whose every attempt failed.
type alarms struct {
	verifier   *qstash.Verifier
	onboarding onboardingv1.OnboardingServiceClient
	goals      onboardingv1.GoalServiceClient
	origin     config.Origin // what QStash calls; the Host header is the caller's and is not used
	lateness   lateness
	places     *places
	now        func() time.Time
	log        *slog.Logger
}

// step runs one due step.
func (a alarms) step() callback[*delivery] {
	return a.callback("onboarding.step_failed_finally", func(ctx context.Context, d *delivery) answer {
		request, issues := payload.DecodeStep(d.body)
		if issues != nil {
			return neverRetry(malformedStep(issues))
		}
		d.sessionID, d.stepID = clip(request.GetSessionId()), clip(request.GetStepId())
		response, err := a.onboarding.ExecuteStep(ctx, request)
		outcome, reason := "sent", response.GetSkipReason()
		switch response.GetOutcome() {
		case onboardingv1.StepOutcome_STEP_OUTCOME_SENT:
		case onboardingv1.StepOutcome_STEP_OUTCOME_SKIPPED:
			outcome, d.duplicate = "skipped", reason == "already_sent" || reason == "stale"
		case onboardingv1.StepOutcome_STEP_OUTCOME_UNSPECIFIED: // as of no answer at all
			fallthrough
		default:
			if err == nil {
				err = status.Errorf(codes.Internal, "ExecuteStep answered with the outcome %d", response.GetOutcome())
			}
			a.lateness.ended(ctx, d, "failed")
			return failed(ctx, err)
		}
		a.lateness.ended(ctx, d, outcome)
		return done(ctx, outcome, reason)
	})
}

// failed records a step that QStash has given up. Its own failure is another event: the step's has been logged.
func (a alarms) failed() callback[*delivery] {
	return a.callback("onboarding.step_failure_not_recorded", func(ctx context.Context, d *delivery) answer {
		failure, err := qstash.DecodeFailure(d.body)
		if err != nil {
			return neverRetry(refuse(codes.InvalidArgument, reasonInvalid, "the failure callback cannot be read"))
		}
		if step, issues := payload.DecodeStep(failure.SourceBody); issues == nil {
			d.sessionID, d.stepID = clip(step.GetSessionId()), clip(step.GetStepId())
		}
		response, err := a.onboarding.RecordStepFailure(ctx, &onboardingv1.RecordStepFailureRequest{
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

// callback is one of QStash's, whose delivery is described on the span and the log line, with any answer. finally is the event of a
// delivery that failed for good.
func (a alarms) callback(finally string, work func(context.Context, *delivery) answer) callback[*delivery] {
	return callback[*delivery]{
		timeout: stepTimeout, limit: maxBody, places: a.places, signed: has(qstash.HeaderSignature),
		unread: func(status int, why *rpc.Error) answer {
			if status == http.StatusRequestTimeout { // the same body may arrive faster next time
				return answer{status: status, err: why}
			}
			return neverRetry(why) // a step has its failure callback; a callback that is lost this way has only its line in the log
		},
		verify: a.verify,
		due: func(d *delivery) time.Time { // by a header that the signature does not cover: of a signed body, and for no more than the order
			if d.due.IsZero() {
				return a.now()
			}
			return d.due
		},
		work: func(ctx context.Context, d *delivery) answer {
			if d.published.IsValid() { // by our publisher: what follows belongs to the conversation's trace
				ctx = trace.ContextWithRemoteSpanContext(ctx, d.published)
			}
			return work(ctx, d)
		},
		answered: func(r *http.Request, d *delivery, given answer) {
			if d == nil { // its body could not be read
				d = readDelivery(r.Header)
			}
			d.describe(r.Context(), given)
			d.reportFinalFailure(r.Context(), a.log, finally, given)
		},
	}
}

// verify is the delivery that a request makes, with the refusal of one that QStash has not signed or not named.
func (a alarms) verify(r *http.Request, body []byte) (*delivery, *answer) {
	d, signature := readDelivery(r.Header), r.Header.Get(qstash.HeaderSignature)
	if err := a.verifier.Verify(signature, body, publicURL(a.origin, r)); err != nil {
		event := eventFrom(r.Context())
		event.add(slog.String("cause", clip(err.Error()))) // it names the token's method, which is the caller's
		if signature != "" {
			event.add(slog.String("signature_sha256", signatureMark(signature)))
		}
		return d, &answer{status: http.StatusUnauthorized, err: refuse(codes.Unauthenticated, reasonUnauthenticated,
			"this is not signed by QStash with our signing keys, for this URL and this body")}
	}
	d.body = body
	if d.verified(r.Header); d.messageID == "" {
		return d, new(neverRetry(refuse(codes.InvalidArgument, reasonInvalid, "the header "+qstash.HeaderMessageID+" is missing")))
	}
	return d, nil
}

// malformedStep is a step payload with the wrong shape. The signature shows that we made it, so the fields that are wrong are
// named and nothing of the body is repeated.
func malformedStep(issues map[string]string) *rpc.Error {
	e := refuse(codes.InvalidArgument, reasonInvalid, "the payload must be one JSON object with exactly profile_id, session_id, "+
		"step_id, expected_state_token and idempotency_key, each once, as text that is not empty")
	e.Meta = issues
	return e
}

// done acknowledges the message to QStash. reason says why nothing was sent.
func done(ctx context.Context, outcome, reason string) answer {
	eventFrom(ctx).add(slog.String("outcome", outcome), slog.String("skip_reason", reason))
	body, err := json.Marshal(struct {
		OK      bool   `json:"ok"`
		Outcome string `json:"outcome"`
		Reason  string `json:"reason,omitempty"`
	}{true, outcome, reason})
	if err != nil { // cannot happen: three fields of plain types
		panic(err)
	}
	return answer{status: http.StatusOK, contentType: "application/json", body: body}
}

// neverRetry is for what cannot succeed however often it is retried.
func neverRetry(e *rpc.Error) answer {
	return answer{status: qstash.StatusNonRetryable, err: e, header: map[string]string{qstash.HeaderNonRetryable: "true"}}
}

// failed turns a failed call into what makes QStash do the right thing: stop for good, try again soon, or try again by
// its own schedule.
func failed(ctx context.Context, err error) answer {
	eventFrom(ctx).cause(err)
	e := public(err)
	soon := map[string]string{"Retry-After": seconds(defaultRetryAfter)} // unless the upstream says when
	switch {
	case e.Code == codes.InvalidArgument, permanent(e.Reason):
		return neverRetry(e)
	case e.Reason == onboardingv1.Reason_REASON_DELIVERY_IN_PROGRESS.String():
		return answer{status: http.StatusConflict, err: e, header: soon}
	case transient(e.Code):
		return answer{status: http.StatusServiceUnavailable, err: e, header: soon}
	default:
		return answer{status: http.StatusInternalServerError, err: e}
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
