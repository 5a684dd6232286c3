package onboardingtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"google.golang.org/grpc/codes"

	"paceline.internal/platform/qstash"
	"paceline.internal/platform/rpc"
	"paceline.internal/platform/telemetry"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/goals"
)

// takeCallback does what the gateway does with QStash's callbacks.
func (b *Bundle) takeCallback(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "", http.StatusBadRequest)
		return
	}
	ctx := telemetry.WithRequestID(rpc.WithPrincipal(r.Context(), rpc.Principal{Subject: "gateway", Role: rpc.RoleService}), "request-1")
	if r.URL.Path == conversation.StepRoute.FailurePath {
		failure, err := qstash.DecodeFailure(body)
		if err == nil {
			_, err = b.Current().Server.RecordStepFailure(ctx, &onboardingv1.RecordStepFailureRequest{
				SourceMessageId: failure.SourceMessageID, DlqId: failure.DeadLetterID, SourceBody: failure.SourceBody,
				Status: int32(failure.Status), Body: failure.Body, Retried: int32(failure.Retried),
				DeliveryId: r.Header.Get(qstash.HeaderMessageID),
			})
		}
		Answer(w, err)
		return
	}
	if r.URL.Path == goals.Route.Path {
		var in struct {
			GoalID string `json:"goal_id"`
		}
		if err = json.Unmarshal(body, &in); err == nil {
			_, err = b.Current().Goals.Execute(ctx, in.GoalID)
		}
		Answer(w, err)
		return
	}
	var in onboardingv1.ExecuteStepRequest
	if err := json.Unmarshal(body, &in); err != nil {
		Answer(w, refusal(codes.InvalidArgument))
		return
	}
	_, err = b.Current().Server.ExecuteStep(ctx, &in)
	Answer(w, err)
}

func refusal(code codes.Code) error { return &rpc.Error{Code: code} }

// Answer answers a callback with the HTTP status that the gateway gives for err.
func Answer(w http.ResponseWriter, err error) {
	reported, known := rpc.ErrorFrom(onboarding.Answer(err))
	switch {
	case err == nil:
	case known && (reported.Code == codes.InvalidArgument || reported.Code == codes.FailedPrecondition):
		w.Header().Set(qstash.HeaderNonRetryable, "true")
		w.WriteHeader(qstash.StatusNonRetryable)
	case known && (reported.Code == codes.Unavailable || reported.Code == codes.Aborted):
		w.Header().Set("Retry-After", fmt.Sprint(int(reported.RetryAfter.Seconds())))
		w.WriteHeader(map[codes.Code]int{codes.Unavailable: http.StatusServiceUnavailable, codes.Aborted: http.StatusConflict}[reported.Code])
	default:
		w.WriteHeader(http.StatusInternalServerError)
	}
}
