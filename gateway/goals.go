package gateway

import (
	"context"
	"log/slog"

	"google.golang.org/grpc/codes"

	"paceline.internal/platform/qstash"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/proto/payload"
)

const (
	pathGoal       = "/api/goals/execute"
	pathGoalFailed = "/api/goals/execute/failed"
)

// goal runs one due goal. Its alarm's backoff spreads the tries over five minutes: with a Retry-After of ours a short outage would use them
// up.
func (a alarms) goal() callback[*delivery] {
	c := a.callback("goals.alarm_failed_finally", func(ctx context.Context, d *delivery) answer {
		request, issues := payload.DecodeGoal(d.body)
		if issues != nil {
			return neverRetry(malformedGoal(issues))
		}
		eventFrom(ctx).add(slog.String("goal_id", clip(request.GetGoalId())))
		response, err := a.goals.ExecuteGoal(ctx, request)
		if err != nil {
			return failed(ctx, err)
		}
		return done(ctx, response.GetOutcome(), "")
	})
	c.backoff = true
	return c
}

// goalFailed records a goal's alarm that QStash has given up.
func (a alarms) goalFailed() callback[*delivery] {
	return a.callback("goals.failure_not_recorded", func(ctx context.Context, d *delivery) answer {
		failure, err := qstash.DecodeFailure(d.body)
		if err != nil {
			return neverRetry(refuse(codes.InvalidArgument, reasonInvalid, "the failure callback cannot be read"))
		}
		request := &onboardingv1.RecordGoalFailureRequest{
			SourceMessageId: failure.SourceMessageID, Status: clamp(failure.Status), Retried: clamp(failure.Retried),
		}
		if goal, issues := payload.DecodeGoal(failure.SourceBody); issues == nil {
			request.GoalId = goal.GetGoalId()
			eventFrom(ctx).add(slog.String("goal_id", clip(request.GetGoalId())))
		}
		if _, err := a.goals.RecordGoalFailure(ctx, request); err != nil {
			return failed(ctx, err)
		}
		return done(ctx, "recorded", "")
	})
}

func malformedGoal(issues map[string]string) *rpc.Error {
	e := refuse(codes.InvalidArgument, reasonInvalid,
		"the payload must be one JSON object with exactly goal_id, once, as text that is not empty")
	e.Meta = issues
	return e
}
