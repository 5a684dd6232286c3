package conversation

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	explainv1 "paceline.internal/proto/gen/paceline/explain/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/request"
)

// ExplainProfile explains what would happen to a person now.
func (s *RPC) ExplainProfile(ctx context.Context, in *onboardingv1.ExplainProfileRequest) (*onboardingv1.ExplainProfileResponse, error) {
	if err := request.ID("profile_id", in.GetProfileId()); err != nil {
		return nil, err
	}
	e, sessionID, err := s.Conversations.ExplainPerson(ctx, request.Org(ctx), in.GetProfileId())
	if err != nil {
		return nil, err
	}
	return &onboardingv1.ExplainProfileResponse{Explanation: explanation(e), SessionId: sessionID}, nil
}

// ExplainSession explains the result that the session's step would have now.
func (s *RPC) ExplainSession(ctx context.Context, in *onboardingv1.ExplainSessionRequest) (*onboardingv1.ExplainSessionResponse, error) {
	if err := request.ID("session_id", in.GetSessionId()); err != nil {
		return nil, err
	}
	e, err := s.Conversations.ExplainStep(ctx, request.Org(ctx), in.GetSessionId())
	if err != nil {
		return nil, err
	}
	return &onboardingv1.ExplainSessionResponse{Explanation: explanation(e), ProfileId: e.ProfileID}, nil
}

func explanation(e Explanation) *explainv1.Explanation {
	out := &explainv1.Explanation{Outcome: e.Outcome, Next: e.Next, Advice: e.Advice, NeedsPerson: e.NeedsPerson}
	for _, g := range e.Gates {
		out.Gates = append(out.Gates, gate(g))
	}
	return out
}

func gate(g Gate) *explainv1.Gate {
	out := &explainv1.Gate{Name: g.Name, Passed: g.Passed, Fact: g.Fact, Change: g.Change}
	if !g.Since.IsZero() {
		out.Since = timestamppb.New(g.Since)
	}
	return out
}
