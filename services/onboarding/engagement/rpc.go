package engagement

import (
	"context"
	"time"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/rpc"
	"paceline.internal/platform/telemetry"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/engagement/rules"
	"paceline.internal/services/onboarding/request"
)

// RPC serves EngagementService.
type RPC struct {
	onboardingv1.UnimplementedEngagementServiceServer

	People *Service
	Store  *Store
	Now    func() time.Time
}

// ReportAction counts something that a person did.
func (s *RPC) ReportAction(
	ctx context.Context, in *onboardingv1.ReportActionRequest,
) (*onboardingv1.ReportActionResponse, error) {
	if err := request.ID("profile_id", in.GetProfileId()); err != nil {
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
		if err := request.Time("occurred_at", at); err != nil {
			return nil, err
		}
		a.OccurredAt = at.AsTime()
	}
	done, duplicate, err := s.People.Report(ctx, Report{
		OrgID: request.Org(ctx), ProfileID: in.GetProfileId(), Key: in.GetIdempotencyKey(), Action: a, Attributes: in.GetAttributes(),
		Undated: in.GetOccurredAt() == nil,
	})
	if err != nil {
		return nil, err
	}
	out := &onboardingv1.ReportActionResponse{
		Tier: tier(done.Tier), Hint: done.Hint, MagicMoment: done.MagicMoment, Duplicate: duplicate,
	}
	for _, completed := range done.Completed {
		out.Completed = append(out.Completed, tier(completed))
	}
	return out, nil
}

// SetPreferences changes what a person wants to get. A user's own call has been checked to be about themselves; what follows from it, such
// as the withdrawal of what is queued, is their organisation's.
func (s *RPC) SetPreferences(
	ctx context.Context, in *onboardingv1.SetPreferencesRequest,
) (*onboardingv1.SetPreferencesResponse, error) {
	if err := request.OwnProfile(ctx, in.GetProfileId()); err != nil {
		return nil, err
	}
	w := Wishes{
		Reminders: in.GetReminders(), Tips: in.GetTips(), Destination: rules.Destination(in.GetDestination()), Source: "web",
		By: ByPerson, Cause: "request:" + telemetry.RequestID(ctx),
	}
	if caller, _ := rpc.PrincipalFrom(ctx); caller.Role != rpc.RoleUser {
		w.Source, w.By = string(caller.Role), ByOperator
	}
	v, err := s.People.SetPreferences(postgres.ForOrganisation(ctx, request.Org(ctx)), request.Org(ctx), in.GetProfileId(), w)
	if err != nil {
		return nil, err
	}
	return &onboardingv1.SetPreferencesResponse{Preferences: preferences(v)}, nil
}

func preferences(v View) *onboardingv1.Preferences {
	on := map[bool]string{false: "on", true: "off"}
	return &onboardingv1.Preferences{Reminders: on[v.RemindersOff], Tips: on[v.TipsOff], Destination: string(v.Destination)}
}

// SetHousehold puts a person into a household.
func (s *RPC) SetHousehold(
	ctx context.Context, in *onboardingv1.SetHouseholdRequest,
) (*onboardingv1.SetHouseholdResponse, error) {
	if err := request.ID("profile_id", in.GetProfileId()); err != nil {
		return nil, err
	}
	if in.GetHouseholdId() != "" {
		if err := request.ID("household_id", in.GetHouseholdId()); err != nil {
			return nil, err
		}
	}
	if err := s.Store.JoinHousehold(ctx, request.Org(ctx), in.GetProfileId(), in.GetHouseholdId(), s.Now()); err != nil {
		return nil, err
	}
	return &onboardingv1.SetHouseholdResponse{}, nil
}

// GetEngagement reads where a person stands.
func (s *RPC) GetEngagement(
	ctx context.Context, in *onboardingv1.GetEngagementRequest,
) (*onboardingv1.GetEngagementResponse, error) {
	if err := request.OwnProfile(ctx, in.GetProfileId()); err != nil {
		return nil, err
	}
	v, skip, err := s.People.Stands(postgres.ForOrganisation(ctx, request.Org(ctx)), request.Org(ctx), in.GetProfileId())
	if err != nil {
		return nil, err
	}
	out := &onboardingv1.Engagement{
		ProfileId: v.ProfileID, State: string(v.Person.State), LastActivityAt: request.Stamp(v.Person.LastActivityAt),
		GoodbyeSentAt: request.Stamp(v.Person.GoodbyeSentAt), GoodbyeExpiresAt: request.Stamp(v.Person.GoodbyeExpiresAt),
		RemindAt: request.Stamp(v.Person.RemindAt), Preferences: preferences(v), Tier: tier(v.Progress.Highest()),
		MagicMomentAt: request.Stamp(v.MagicAt), HouseholdId: v.HouseholdID, Skip: string(skip),
	}
	for number := 1; number <= rules.TierCount; number++ {
		done := v.Progress.Tier(number)
		shown := &onboardingv1.TierProgress{Tier: tier(number), CompletedAt: request.Stamp(done.CompletedAt)}
		for _, action := range s.People.rulesOf(v).Tiers[number-1] {
			shown.Actions = append(shown.Actions, &onboardingv1.TierAction{Action: action, Done: done.Done[action]})
		}
		out.Progress = append(out.Progress, shown)
	}
	return &onboardingv1.GetEngagementResponse{Engagement: out}, nil
}

func tier(n int) int32 { return int32(min(max(n, 0), rules.TierCount)) }
