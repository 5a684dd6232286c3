package overview

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/hours"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	overviewv1 "paceline.internal/proto/gen/paceline/overview/v1"
	"paceline.internal/services/onboarding/request"
)

// completedUpTo bounds what is counted of a period.
const completedUpTo = 10_000

// GetOnboardingTrend counts completed conversations over a day, a week or a month.
func (s *RPC) GetOnboardingTrend(
	ctx context.Context, in *onboardingv1.GetOnboardingTrendRequest,
) (*onboardingv1.GetOnboardingTrendResponse, error) {
	edges, err := hours.Periods(s.Now(), in.GetSpan(), in.GetTimeZone())
	if err != nil {
		return nil, request.Invalid("%s", err)
	}
	completed, err := s.Store.Completed(ctx, request.Org(ctx), edges, completedUpTo+1)
	if err != nil {
		return nil, err
	}
	out := &onboardingv1.GetOnboardingTrendResponse{}
	for i, n := range completed {
		out.Periods = append(out.Periods, &onboardingv1.OnboardingPeriod{
			BeginsAt: timestamppb.New(edges[i]), EndsAt: timestamppb.New(edges[i+1]),
			Completed: &overviewv1.Count{Count: int32(min(n, completedUpTo)), More: n > completedUpTo}, //nolint:gosec // at most the limit
		})
	}
	return out, nil
}
