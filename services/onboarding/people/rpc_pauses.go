package people

import (
	"context"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/letters"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/request"
)

// maxPauseReason sets how long the reason of a pause may be, in characters, as the table has it.
const maxPauseReason = 200

// SuspendedBecause begins the reason of a pause that the platform has made.
const SuspendedBecause = "the organisation is suspended: "

// PauseScheduling keeps the caller's organisation from sending steps and from beginning goals.
func (s *RPC) PauseScheduling(
	ctx context.Context, in *onboardingv1.PauseSchedulingRequest,
) (*onboardingv1.PauseSchedulingResponse, error) {
	reason := strings.TrimSpace(letters.Compose(in.GetReason()))
	if !utf8.ValidString(reason) || strings.ContainsRune(reason, 0) || utf8.RuneCountInString(reason) > maxPauseReason {
		return nil, request.Invalid("reason must have at most %d characters", maxPauseReason)
	}
	p, err := s.Store.PauseScheduling(ctx, request.Org(ctx), reason, s.Now())
	if err != nil {
		return nil, err
	}
	return &onboardingv1.PauseSchedulingResponse{Pause: Pause(ctx, &p)}, nil
}

// ResumeScheduling lifts the pause.
func (s *RPC) ResumeScheduling(
	ctx context.Context, _ *onboardingv1.ResumeSchedulingRequest,
) (*onboardingv1.ResumeSchedulingResponse, error) {
	resumed, err := s.Store.ResumeScheduling(ctx, request.Org(ctx))
	if err != nil {
		return nil, err
	}
	return &onboardingv1.ResumeSchedulingResponse{Resumed: resumed}, nil
}

// Pause returns a pause as the API has it, and nil for an organisation that is not paused.
func Pause(ctx context.Context, p *SchedulingPause) *onboardingv1.SchedulingPause {
	if p == nil {
		return nil
	}
	reason := p.Reason
	if p.Suspended {
		reason = SuspendedBecause + reason
	}
	return &onboardingv1.SchedulingPause{Since: timestamppb.New(p.Since), By: request.Actor(ctx, p.By), Reason: reason}
}
