package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"paceline.internal/platform/config"
	"paceline.internal/platform/qstash"
	"paceline.internal/platform/rpc"
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
}

// step runs one due step.
func (a alarms) step(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), stepTimeout)
	defer cancel()
	describeAttempt(ctx, r.Header)
	body, ok := a.authentic(w, r)
	if !ok {
		return
	}
	request, err := decodeStep(body)
	if err != nil {
		neverRetry(ctx, w, refuse(codes.InvalidArgument, reasonInvalid, err.Error()))
		return
	}
	eventFrom(ctx).add(slog.String("session_id", request.GetSessionId()), slog.String("step_id", request.GetStepId()))
	response, err := a.onboarding.ExecuteStep(ctx, request)
	if err != nil {
		answerQStash(ctx, w, err)
		return
	}
	switch response.GetOutcome() {
	case onboardingv1.StepOutcome_STEP_OUTCOME_SENT:
		acknowledge(ctx, w, "sent", "")
	case onboardingv1.StepOutcome_STEP_OUTCOME_SKIPPED:
		acknowledge(ctx, w, "skipped", response.GetSkipReason())
	case onboardingv1.StepOutcome_STEP_OUTCOME_UNSPECIFIED:
		fallthrough
	default:
		answerQStash(ctx, w, status.Errorf(codes.Internal, "ExecuteStep answered with the outcome %d", response.GetOutcome()))
	}
}

// failed records a step that QStash has given up.
func (a alarms) failed(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), stepTimeout)
	defer cancel()
	describeAttempt(ctx, r.Header)
	body, ok := a.authentic(w, r)
	if !ok {
		return
	}
	failure, err := qstash.DecodeFailure(body)
	if err != nil {
		neverRetry(ctx, w, refuse(codes.InvalidArgument, reasonInvalid, "the failure callback cannot be read"))
		return
	}
	trace.SpanFromContext(ctx).SetAttributes(attribute.Int("qstash.max_retries", failure.MaxRetries))
	_, err = a.onboarding.RecordStepFailure(ctx, &onboardingv1.RecordStepFailureRequest{
		SourceMessageId: failure.SourceMessageID, DlqId: failure.DeadLetterID, SourceBody: failure.SourceBody,
		Status: clamp(failure.Status), Body: failure.Body, Retried: clamp(failure.Retried),
	})
	if err != nil {
		answerQStash(ctx, w, err)
		return
	}
	acknowledge(ctx, w, "recorded", "")
}

// authentic returns the raw body once it is known to be small enough and from QStash. If it is not, the answer is
// given and ok is false. The size comes first: nobody may make us hash or parse what they please.
func (a alarms) authentic(w http.ResponseWriter, r *http.Request) (body []byte, ok bool) {
	ctx := r.Context()
	body, err := readBody(w, r)
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		neverRetry(ctx, w, refuse(codes.InvalidArgument, reasonTooLarge, "the body is over 64 KiB"))
		return nil, false
	}
	if err != nil {
		writeError(ctx, w, http.StatusBadRequest, refuse(codes.InvalidArgument, reasonInvalid, "the body did not arrive whole"))
		return nil, false
	}
	if err := a.verifier.Verify(r.Header.Get(qstash.HeaderSignature), body, publicURL(a.origin, r)); err != nil {
		eventFrom(ctx).add(slog.String("cause", clip(err.Error()))) // it names the token's method, which is the caller's
		writeError(ctx, w, http.StatusUnauthorized, refuse(codes.Unauthenticated, reasonUnauthenticated,
			"this is not signed by QStash with our signing keys, for this URL and this body"))
		return nil, false
	}
	return body, true
}

// answerQStash turns a failed call into what makes QStash do the right thing: stop for good, come back soon, or come
// back by its own schedule.
func answerQStash(ctx context.Context, w http.ResponseWriter, err error) {
	eventFrom(ctx).cause(err)
	answer := public(err)
	switch {
	case answer.Code == codes.InvalidArgument,
		answer.Reason == onboardingv1.Reason_REASON_UNDELIVERABLE.String(),
		answer.Reason == onboardingv1.Reason_REASON_IDEMPOTENCY_KEY_REUSED.String():
		neverRetry(ctx, w, answer)
	case transient(answer.Code):
		if answer.RetryAfter <= 0 {
			w.Header().Set("Retry-After", seconds(defaultRetryAfter))
		}
		writeError(ctx, w, http.StatusServiceUnavailable, answer)
	default:
		writeError(ctx, w, http.StatusInternalServerError, answer)
	}
}

// neverRetry is for what cannot succeed however often it comes.
func neverRetry(ctx context.Context, w http.ResponseWriter, e *rpc.Error) {
	trace.SpanFromContext(ctx).SetAttributes(attribute.Bool("qstash.dlq", true))
	w.Header().Set(qstash.HeaderNonRetryable, "true")
	writeError(ctx, w, qstash.StatusNonRetryable, e)
}

// acknowledge tells QStash that the message is dealt with.
func acknowledge(ctx context.Context, w http.ResponseWriter, outcome, reason string) {
	eventFrom(ctx).add(slog.String("outcome", outcome), slog.String("skip_reason", reason))
	body, err := json.Marshal(struct {
		OK      bool   `json:"ok"`
		Outcome string `json:"outcome"`
		Reason  string `json:"reason,omitempty"`
	}{true, outcome, reason})
	if err != nil {
		answerQStash(ctx, w, fmt.Errorf("acknowledgement: %w", err))
		return
	}
	write(w, http.StatusOK, "application/json", body)
}

// describeAttempt puts what QStash says of the delivery on the span and on the log line. It is said before anything is
// verified, so it describes and decides nothing.
func describeAttempt(ctx context.Context, header http.Header) {
	id, attempt := clip(header.Get(qstash.HeaderMessageID)), attemptOf(header.Get(qstash.HeaderRetried))
	trace.SpanFromContext(ctx).SetAttributes(
		attribute.String("qstash.message_id", id),
		attribute.Int("qstash.attempt", attempt),
		attribute.Bool("qstash.dlq", false),
	)
	eventFrom(ctx).add(slog.String("qstash_message_id", id), slog.Int("qstash_attempt", attempt))
}

// attemptOf is the number of the attempt, from 1, by the number of retries before it. What is no number is the first.
func attemptOf(retried string) int {
	n, err := strconv.ParseUint(retried, 10, 31)
	if err != nil {
		return 1
	}
	return int(n) + 1
}

// errMalformed is all that is said of a step payload with the wrong shape: it was made by us or by nobody.
var errMalformed = errors.New("the payload must be one JSON object with exactly profile_id, session_id, step_id, " +
	"expected_state_token and idempotency_key, each once, as text that is not empty")

// decodeStep reads a step payload: the five fields, each exactly once, and nothing before, between or after them.
func decodeStep(body []byte) (*onboardingv1.ExecuteStepRequest, error) {
	var step onboardingv1.ExecuteStepRequest
	missing := map[string]*string{
		"profile_id":           &step.ProfileId,
		"session_id":           &step.SessionId,
		"step_id":              &step.StepId,
		"expected_state_token": &step.ExpectedStateToken,
		"idempotency_key":      &step.IdempotencyKey,
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	if opening, err := decoder.Token(); err != nil || opening != json.Delim('{') || !utf8.Valid(body) {
		return nil, errMalformed
	}
	for decoder.More() {
		token, err := decoder.Token()
		name, isName := token.(string)
		field, known := missing[name]
		if err != nil || !isName || !known {
			return nil, errMalformed
		}
		token, err = decoder.Token()
		text, isText := token.(string)
		if err != nil || !isText || text == "" {
			return nil, errMalformed
		}
		*field = text
		delete(missing, name)
	}
	if closing, err := decoder.Token(); err != nil || closing != json.Delim('}') || len(missing) > 0 {
		return nil, errMalformed
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errMalformed
	}
	return &step, nil
}

func clamp(n int) int32 { return int32(min(max(n, 0), math.MaxInt32)) }
