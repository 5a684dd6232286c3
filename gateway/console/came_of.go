package console

import (
	"context"
	"slices"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// resumed reports the state of a session that was resumed a moment ago: nothing is won where its text is unresolved, for it is parked again
// as soon as that is asked for.
func (c *Console) resumed(ctx context.Context, id string) (notice, error) {
	got, err := c.services.Onboarding.GetSession(ctx, &onboardingv1.GetSessionRequest{SessionId: id})
	if err != nil {
		return notice{}, err
	}
	if s := got.GetSession(); s.GetStatus() != "active" {
		n := said("came_of.parked", s.GetReason())
		n.Bad = true
		return n, nil
	}
	e, err := c.services.Onboarding.ExplainSession(ctx, &onboardingv1.ExplainSessionRequest{SessionId: id})
	if err != nil {
		return notice{}, err
	}
	ends := slices.Contains([]string{"rejected", "parked", "given_up"}, e.GetExplanation().GetOutcome())
	for _, g := range e.GetExplanation().GetGates() {
		if unsent := g.GetName() == "send.attempt" && !g.GetPassed(); unsent && (ends || messageIn(g.GetChange()) != "") {
			n := said("came_of.unresolved", g.GetFact(), g.GetChange())
			n.Bad = true
			return n, nil
		}
	}
	return said("came_of.resumed", e.GetExplanation().GetNext()), nil
}

// parkedSession is the session of a person if it is parked; empty otherwise.
func (c *Console) parkedSession(ctx context.Context, profileID string) (string, error) {
	if profileID == "" {
		return "", nil
	}
	got, err := c.services.Onboarding.GetProfile(ctx, &onboardingv1.GetProfileRequest{ProfileId: profileID})
	if parked(got.GetProfile()) {
		return got.GetProfile().GetState().GetSessionId(), nil
	}
	return "", err
}
