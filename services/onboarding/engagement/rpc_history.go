package engagement

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/engagement/rules"
	"paceline.internal/services/onboarding/request"
)

const (
	// statsSpan is the span of stats when the caller names none.
	statsSpan = 30 * 24 * time.Hour
	// maxStatsSpan bounds what they may name.
	maxStatsSpan = 366 * 24 * time.Hour
)

// ListEngagementTransitions lists the changes of a person's state.
func (s *RPC) ListEngagementTransitions(
	ctx context.Context, in *onboardingv1.ListEngagementTransitionsRequest,
) (*onboardingv1.ListEngagementTransitionsResponse, error) {
	if err := request.OwnProfile(ctx, in.GetProfileId()); err != nil {
		return nil, err
	}
	wanted, before, err := request.Page(in)
	if err != nil {
		return nil, err
	}
	found, err := s.Store.History(ctx, request.Org(ctx), in.GetProfileId(), before, wanted+1) // one more shows whether there is a next page
	if err != nil {
		return nil, err
	}
	out := &onboardingv1.ListEngagementTransitionsResponse{}
	if len(found) > wanted {
		found = found[:wanted]
		out.NextPageToken = rpc.NextPage(in, found[wanted-1].ID)
	}
	for _, t := range found {
		known, err := metadata(t.Metadata)
		if err != nil {
			return nil, err
		}
		out.Transitions = append(out.Transitions, &onboardingv1.EngagementTransition{
			TransitionId: t.ID, FromState: string(t.From), ToState: string(t.To), Trigger: string(t.Trigger), Cause: t.Cause,
			At: timestamppb.New(t.At), Metadata: known, Supersedes: t.Supersedes,
		})
	}
	return out, nil
}

// metadata shows what is stored under the names that it is stored by.
func metadata(m rules.Metadata) (map[string]string, error) {
	stored, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	var values map[string]any
	if err := json.Unmarshal(stored, &values); err != nil {
		return nil, err
	}
	shown := make(map[string]string, len(values))
	for name, value := range values {
		shown[name] = fmt.Sprint(value)
	}
	return shown, nil
}

// GetEngagementStats counts what there is and what there was in a span of time.
func (s *RPC) GetEngagementStats(
	ctx context.Context, in *onboardingv1.GetEngagementStatsRequest,
) (*onboardingv1.GetEngagementStatsResponse, error) {
	until := s.Now()
	if at := in.GetUntil(); at != nil {
		if err := at.CheckValid(); err != nil {
			return nil, request.Invalid("until must be a time, in RFC 3339 such as 2026-11-20T12:00:00Z")
		}
		until = at.AsTime()
	}
	since := until.Add(-statsSpan)
	if at := in.GetSince(); at != nil {
		if err := at.CheckValid(); err != nil {
			return nil, request.Invalid("since must be a time, in RFC 3339 such as 2026-11-20T12:00:00Z")
		}
		since = at.AsTime()
	}
	if !since.Before(until) || until.Sub(since) > maxStatsSpan {
		return nil, request.Invalid("since must be before until, by at most %d days", maxStatsSpan/(24*time.Hour))
	}
	found, err := s.Store.Stats(ctx, request.Org(ctx), since, until)
	if err != nil {
		return nil, err
	}
	out := &onboardingv1.GetEngagementStatsResponse{
		People: counts(found.People), Transitions: counts(found.Transitions), Outreach: map[string]*onboardingv1.OutreachCounts{},
	}
	for kind, outcomes := range found.Outreach {
		out.Outreach[string(kind)] = &onboardingv1.OutreachCounts{Outcomes: counts(outcomes)}
	}
	return out, nil
}

func counts[K ~string](of map[K]int) map[string]int64 {
	shown := make(map[string]int64, len(of))
	for name, n := range of {
		shown[string(name)] = int64(n)
	}
	return shown
}
