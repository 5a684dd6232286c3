package server

import (
	"context"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/engagement/rules"
)

// ReportAction counts something that a person did.
func (s *Engagement) ReportAction(
	ctx context.Context, in *onboardingv1.ReportActionRequest,
) (*onboardingv1.ReportActionResponse, error) {
	if err := validID("profile_id", in.GetProfileId()); err != nil {
		return nil, err
	}
	a := rules.Action{
		Name: in.GetAction(), OccurredAt: s.Now(), Source: rules.Source(in.GetSource()), Confidence: in.GetConfidence(),
		Silent: in.Celebrate != nil && !in.GetCelebrate(),
	}
	if in.Confidence == nil && a.Source == rules.SourceNLP {
		a.Confidence = 1
	}
	if at := in.GetOccurredAt(); at != nil {
		if err := at.CheckValid(); err != nil {
			return nil, invalid("occurred_at must be a time")
		}
		a.OccurredAt = at.AsTime()
	}
	done, duplicate, err := s.People.Report(ctx, engagement.Report{
		OrgID: org(ctx), ProfileID: in.GetProfileId(), Key: in.GetIdempotencyKey(), Action: a, Attributes: in.GetAttributes(),
	})
	if err != nil {
		return nil, answer(err)
	}
	out := &onboardingv1.ReportActionResponse{
		Tier: tier(done.Tier), Hint: done.Hint, MagicMoment: done.MagicMoment, Duplicate: duplicate,
	}
	for _, completed := range done.Completed {
		out.Completed = append(out.Completed, tier(completed))
	}
	return out, nil
}

func tier(n int) int32 { return int32(min(max(n, 0), rules.TierCount)) }
