package people

import (
	"context"
	"strings"
	"unicode/utf8"

	"paceline.internal/platform/letters"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/request"
)

// maxReason limits how much a timeline shows of why a person is held, in characters.
const maxReason = 500

// HoldProfile puts a safety hold on a person.
func (s *RPC) HoldProfile(ctx context.Context, in *onboardingv1.HoldProfileRequest) (*onboardingv1.HoldProfileResponse, error) {
	if err := request.ID("profile_id", in.GetProfileId()); err != nil {
		return nil, err
	}
	reason := letters.Compose(in.GetReason())
	if !utf8.ValidString(reason) || strings.ContainsRune(reason, 0) || utf8.RuneCountInString(reason) > maxReason {
		return nil, request.Invalid("reason must have at most %d characters", maxReason)
	}
	p, err := s.People.Hold(ctx, request.Org(ctx), in.GetProfileId(), reason)
	if err != nil {
		return nil, err
	}
	return &onboardingv1.HoldProfileResponse{Profile: profile(p)}, nil
}

// ReleaseProfile lifts the hold.
func (s *RPC) ReleaseProfile(
	ctx context.Context, in *onboardingv1.ReleaseProfileRequest,
) (*onboardingv1.ReleaseProfileResponse, error) {
	if err := request.ID("profile_id", in.GetProfileId()); err != nil {
		return nil, err
	}
	if in.GetLeaveUnjudged() {
		if err := s.People.Judged(ctx, request.Org(ctx), in.GetProfileId()); err != nil {
			return nil, err
		}
	}
	p, err := s.People.Release(ctx, request.Org(ctx), in.GetProfileId())
	if err != nil {
		return nil, err
	}
	return &onboardingv1.ReleaseProfileResponse{Profile: profile(p)}, nil
}
