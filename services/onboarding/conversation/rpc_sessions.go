package conversation

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/request"
	"paceline.internal/services/onboarding/session"
)

// ListSessions lists sessions of the caller's organisation, of a user only their own.
func (s *RPC) ListSessions(ctx context.Context, in *onboardingv1.ListSessionsRequest) (*onboardingv1.ListSessionsResponse, error) {
	filter, err := sessionFilter(ctx, in)
	if err != nil {
		return nil, err
	}
	wanted := filter.Limit
	filter.Limit++ // one more shows whether there is a next page
	found, err := s.Store.ListSessions(ctx, filter)
	if err != nil {
		return nil, err
	}
	out := &onboardingv1.ListSessionsResponse{}
	if len(found) > wanted {
		found = found[:wanted]
		out.NextPageToken = rpc.NextPage(in, found[wanted-1].ID)
	}
	for _, r := range found {
		out.Sessions = append(out.Sessions, shown(ctx, r))
	}
	return out, nil
}

func sessionFilter(ctx context.Context, in *onboardingv1.ListSessionsRequest) (SessionFilter, error) {
	filter := SessionFilter{OrgID: request.Org(ctx), ProfileID: in.GetProfileId(), StateToken: in.GetStateToken(), Stuck: in.GetStuck()}
	if caller, _ := rpc.PrincipalFrom(ctx); caller.Role == rpc.RoleUser {
		filter.ProfileID = caller.Subject
	}
	if filter.ProfileID != "" {
		if err := request.ID("profile_id", filter.ProfileID); err != nil {
			return filter, err
		}
	}
	if filter.StateToken != "" {
		if _, err := session.ReadToken(filter.StateToken); err != nil {
			return filter, err
		}
	}
	for _, status := range in.GetStatus() {
		if !session.Status(status).Known() {
			return filter, request.Invalid("status must be active, stopped, closed, stuck or undeliverable")
		}
		if !slices.Contains(filter.Statuses, session.Status(status)) {
			filter.Statuses = append(filter.Statuses, session.Status(status))
		}
	}
	var err error
	filter.Limit, filter.Before, err = request.Page(in)
	return filter, err
}

// GetSession reads a session and its timeline.
func (s *RPC) GetSession(ctx context.Context, in *onboardingv1.GetSessionRequest) (*onboardingv1.GetSessionResponse, error) {
	if err := request.ID("session_id", in.GetSessionId()); err != nil {
		return nil, err
	}
	story, err := s.Store.Session(ctx, request.Org(ctx), in.GetSessionId())
	caller, _ := rpc.PrincipalFrom(ctx)
	if caller.Role == rpc.RoleUser && (errors.Is(err, ErrNoSession) || err == nil && caller.Subject != story.ProfileID) {
		return nil, request.ErrNotTheirs
	}
	if err != nil {
		return nil, err
	}
	out := &onboardingv1.GetSessionResponse{Session: shown(ctx, story.Record)}
	out.Session.NextDueAt = request.Stamp(story.NextDue)
	session.ShowOutcome(story.Record, story.Entries)
	for _, e := range story.Entries {
		byOperator := e.Trigger == session.TriggerOperator && e.Kind != session.KindAdvanced // its detail is an outcome or what follows
		if caller.Role != rpc.RoleOperator && (byOperator || e.Kind == session.KindParked) {
			e.Detail = "" // what operators wrote, such as why a person is held, and what they are to do is for operators
		}
		out.Timeline = append(out.Timeline, &onboardingv1.TimelineEntry{
			At: timestamppb.New(e.At), Kind: string(e.Kind), FromStateToken: string(e.From), ToStateToken: string(e.To),
			Trigger: string(e.Trigger), StepId: string(e.Step), MessageId: e.MessageID, Detail: e.Detail,
			Actor: request.Actor(ctx, e.Actor),
		})
	}
	return out, nil
}

// shown is a session as the caller may see it: why it is parked, and what to do, is for operators.
func shown(ctx context.Context, r session.Record) *onboardingv1.Session {
	if caller, _ := rpc.PrincipalFrom(ctx); caller.Role != rpc.RoleOperator {
		r.Reason = ""
	}
	return record(r)
}
