package qstash

import (
	"context"
	"log/slog"

	"paceline.internal/gateway/route"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/proto/payload"
)

// goal runs one due goal. Its alarm's backoff spreads the tries over five minutes: our Retry-After would use them up in a short
// outage.
func (a *Alarms) goal() route.Callback[*delivery] {
	c := a.callback("goals.alarm_failed_finally", func(ctx context.Context, d *delivery) route.Answer {
		request, issues := payload.DecodeGoal(d.body)
		if issues != nil {
			return malformed("goal_id, once", issues)
		}
		route.EventFrom(ctx).Add(slog.String("goal_id", route.Clip(request.GetGoalId())))
		response, err := a.Goals.ExecuteGoal(ctx, request)
		if err != nil {
			return failed(ctx, err)
		}
		return done(ctx, response.GetOutcome(), "")
	})
	c.Backoff = true
	return c
}

// goalFailed records a goal's alarm that QStash has given up.
func (a *Alarms) goalFailed() route.Callback[*delivery] {
	return a.callback("goals.failure_not_recorded", func(ctx context.Context, d *delivery) route.Answer {
		failure, refused := decodeFailure(d)
		if refused != nil {
			return *refused
		}
		request := &onboardingv1.RecordGoalFailureRequest{
			SourceMessageId: failure.SourceMessageID, Status: clamp(failure.Status), Retried: clamp(failure.Retried),
		}
		if goal, issues := payload.DecodeGoal(failure.SourceBody); issues == nil {
			request.GoalId = goal.GetGoalId()
			route.EventFrom(ctx).Add(slog.String("goal_id", route.Clip(request.GetGoalId())))
		}
		if _, err := a.Goals.RecordGoalFailure(ctx, request); err != nil {
			return failed(ctx, err)
		}
		return done(ctx, "recorded", "")
	})
}
