package flows

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"paceline.internal/gateway/console/drawing"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// funnel has the numbers of a flow, by its steps.
type funnel struct {
	*onboardingv1.GetFlowFunnelResponse

	counts map[string]drawing.Counts
}

// funnel counts the people of a flow; nothing where onboarding is of the release before, or cannot read the current version, which is shown
// all the same.
func (p *Pages) funnel(ctx context.Context, flow string) (funnel, error) {
	out, err := p.Flows.GetFlowFunnel(ctx, &onboardingv1.GetFlowFunnelRequest{Flow: flow})
	switch status.Code(err) {
	case codes.OK:
	case codes.Unimplemented, codes.FailedPrecondition:
		return funnel{}, nil
	default:
		return funnel{}, err
	}
	f := funnel{out, map[string]drawing.Counts{}}
	for _, s := range out.GetSteps() {
		f.counts[s.GetStep()] = drawing.Counts{
			Now: int64(s.GetNow()), Reached: int64(s.GetReached()), WentOn: int64(s.GetWentOn()), Answered: int64(s.GetAnswered()),
			Silent: int64(s.GetSilent()), Stopped: int64(s.GetStopped()), Began: int64(out.GetBegan().GetCount()),
		}
	}
	return f, nil
}

// Of returns the numbers of a step.
func (f funnel) Of(step string) drawing.Counts { return f.counts[step] }
