package gateway

import (
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"paceline.internal/platform/config"
	"paceline.internal/platform/qstash"
	"paceline.internal/platform/rpc"
	"paceline.internal/platform/telemetry"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

const (
	pathStep       = "/api/onboarding/step"
	pathStepFailed = "/api/onboarding/step/failed"
	// stepTimeout leaves the upstream the whole of one call to Twilio and time to settle it.
	stepTimeout = 25 * time.Second
	// defaultRetryAfter is when QStash comes back if the upstream does not say.
	defaultRetryAfter = 2 * time.Second
)

// alarms answers QStash: the alarm of a step, and the callback of an alarm whose every attempt failed.
type alarms struct {
	verifier   *qstash.Verifier
	onboarding onboardingv1.OnboardingServiceClient
	origin     config.Origin // what QStash was told to call; the Host header is whatever the caller wrote
	lateness   lateness
	places     intake
	log        *slog.Logger
}

// answer is what QStash is told: an outcome, or an error and the status that makes QStash do the right thing.
type answer struct {
	status  int
	outcome string
	reason  string // why nothing was sent
	err     *rpc.Error
}

// deadLetter reports whether the answer ends the retries at once.
func (a answer) deadLetter() bool { return a.status == qstash.StatusNonRetryable }

// step runs one due step.
func (a alarms) step(w http.ResponseWriter, r *http.Request) {
	a.deliver(w, r, "onboarding.step_failed_finally", func(ctx context.Context, d *delivery, body []byte) answer {
		request, issues := decodeStep(body)
		if issues != nil {
			return neverRetry(malformed(issues))
		}
		d.sessionID, d.stepID = clip(request.GetSessionId()), clip(request.GetStepId())
		given := a.execute(ctx, d, request)
		a.lateness.ended(ctx, d, given)
		return given
	})
}

// execute has a step done, and says what QStash is to be told.
func (a alarms) execute(ctx context.Context, d *delivery, request *onboardingv1.ExecuteStepRequest) answer {
	response, err := a.onboarding.ExecuteStep(ctx, request)
	if err != nil {
		return failed(ctx, err)
	}
	switch response.GetOutcome() {
	case onboardingv1.StepOutcome_STEP_OUTCOME_SENT:
		return done("sent", "")
	case onboardingv1.StepOutcome_STEP_OUTCOME_SKIPPED:
		reason := response.GetSkipReason()
		d.duplicate = reason == "already_sent" || reason == "stale"
		return done("skipped", reason)
	case onboardingv1.StepOutcome_STEP_OUTCOME_UNSPECIFIED:
		fallthrough
	default:
		return failed(ctx, status.Errorf(codes.Internal, "ExecuteStep answered with the outcome %d", response.GetOutcome()))
	}
}

// failed records a step that QStash has given up. Its own failure is another event: that of the step has been told.
func (a alarms) failed(w http.ResponseWriter, r *http.Request) {
	a.deliver(w, r, "onboarding.step_failure_not_recorded", func(ctx context.Context, d *delivery, body []byte) answer {
		failure, err := qstash.DecodeFailure(body)
		if err != nil {
			return neverRetry(refuse(codes.InvalidArgument, reasonInvalid, "the failure callback cannot be read"))
		}
		if step, issues := decodeStep(failure.SourceBody); issues == nil {
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
		return done("recorded", "")
	})
}

// deliver is what every delivery of QStash goes through: it is read and verified, handled, answered and told of. finally
// is the event of one that failed for good.
func (a alarms) deliver(w http.ResponseWriter, r *http.Request, finally string, handle func(context.Context, *delivery, []byte) answer) {
	ctx, cancel := context.WithTimeout(r.Context(), stepTimeout)
	defer cancel()
	d := readDelivery(r.Header)
	given := answer{status: http.StatusInternalServerError, err: public(nil)} // what a panic is answered
	defer func() {
		d.describe(ctx, given)
		d.mourn(ctx, a.log, finally, given)
	}()
	body, refused := a.authentic(w, r)
	if refused == nil {
		d.verify(r.Header)
		if d.messageID == "" {
			refused = new(neverRetry(refuse(codes.InvalidArgument, reasonInvalid, "the header "+qstash.HeaderMessageID+" is missing")))
		}
	}
	if refused == nil {
		leave, full := a.places.enter()
		if full == nil {
			defer leave()
		} else {
			refused = &answer{status: http.StatusTooManyRequests, err: full}
		}
	}
	if refused != nil {
		given = *refused
	} else {
		given = handle(joined(ctx, r.Header), d, body)
	}
	given.write(ctx, w)
}

// joined puts what follows into the trace that our publisher forwarded with the alarm, that of the conversation.
func joined(ctx context.Context, header http.Header) context.Context {
	published := trace.SpanContextFromContext(telemetry.Propagator().Extract(context.Background(), propagation.HeaderCarrier(header)))
	if !published.IsValid() {
		return ctx
	}
	return trace.ContextWithRemoteSpanContext(ctx, published)
}

// authentic returns the raw body once it is known to be small enough and from QStash, else the answer to it. The size
// comes first: nobody may make us hash or parse what they please.
func (a alarms) authentic(w http.ResponseWriter, r *http.Request) (body []byte, refused *answer) {
	body, err := readBody(w, r)
	if err != nil {
		httpStatus, why := unreadable(err)
		if httpStatus == http.StatusRequestTimeout { // the same body can come faster
			return nil, &answer{status: httpStatus, err: why}
		}
		// A step has its failure callback; a callback that is lost this way has only the line that deliver writes.
		return nil, new(neverRetry(why))
	}
	signature := r.Header.Get(qstash.HeaderSignature)
	if err := a.verifier.Verify(signature, body, publicURL(a.origin, r)); err != nil {
		event := eventFrom(r.Context())
		event.add(slog.String("cause", clip(err.Error()))) // it names the token's method, which is the caller's
		if signature != "" {
			event.add(slog.String("signature_sha256", signatureMark(signature)))
		}
		return nil, &answer{status: http.StatusUnauthorized, err: refuse(codes.Unauthenticated, reasonUnauthenticated,
			"this is not signed by QStash with our signing keys, for this URL and this body")}
	}
	return body, nil
}

// done tells QStash that the message is dealt with.
func done(outcome, reason string) answer {
	return answer{status: http.StatusOK, outcome: outcome, reason: reason}
}

// neverRetry is for what cannot succeed however often it comes.
func neverRetry(e *rpc.Error) answer { return answer{status: qstash.StatusNonRetryable, err: e} }

// failed turns a failed call into what makes QStash do the right thing: stop for good, come back soon, or come back by
// its own schedule.
func failed(ctx context.Context, err error) answer {
	eventFrom(ctx).cause(err)
	e := public(err)
	switch {
	case e.Code == codes.InvalidArgument, hopeless(e.Reason):
		return neverRetry(e)
	case e.Reason == onboardingv1.Reason_REASON_DELIVERY_IN_PROGRESS.String():
		return answer{status: http.StatusConflict, err: e}
	case transient(e.Code):
		return answer{status: http.StatusServiceUnavailable, err: e}
	default:
		return answer{status: http.StatusInternalServerError, err: e}
	}
}

// hopeless reports whether a person has to do something before the same call can succeed. All else is tried again.
func hopeless(reason string) bool {
	switch onboardingv1.Reason(onboardingv1.Reason_value[reason]) {
	case onboardingv1.Reason_REASON_STUCK, onboardingv1.Reason_REASON_UNDELIVERABLE, onboardingv1.Reason_REASON_IDEMPOTENCY_KEY_REUSED:
		return true
	default:
		return false
	}
}

// write gives the answer.
func (a answer) write(ctx context.Context, w http.ResponseWriter) {
	if a.err != nil {
		switch a.status {
		case qstash.StatusNonRetryable:
			w.Header().Set(qstash.HeaderNonRetryable, "true")
		case http.StatusConflict, http.StatusServiceUnavailable:
			w.Header().Set("Retry-After", seconds(defaultRetryAfter)) // unless the upstream says when
		}
		writeError(ctx, w, a.status, a.err)
		return
	}
	eventFrom(ctx).add(slog.String("outcome", a.outcome), slog.String("skip_reason", a.reason))
	body, err := json.Marshal(struct {
		OK      bool   `json:"ok"`
		Outcome string `json:"outcome"`
		Reason  string `json:"reason,omitempty"`
	}{true, a.outcome, a.reason})
	if err != nil { // three fields of plain types have a JSON form
		panic(err)
	}
	write(w, a.status, "application/json", body)
}

func clamp(n int) int32 { return int32(min(max(n, 0), math.MaxInt32)) }
