package server

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/audit"
	"paceline.internal/platform/rpc"
	auditv1 "paceline.internal/proto/gen/paceline/audit/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/postgres"
	"paceline.internal/services/onboarding/session"
)

// ListSessions lists sessions of the caller's organisation, of a user only their own.
func (s *Server) ListSessions(ctx context.Context, in *onboardingv1.ListSessionsRequest) (*onboardingv1.ListSessionsResponse, error) {
	filter, err := sessionFilter(ctx, in)
	if err != nil {
		return nil, err
	}
	wanted := filter.Limit
	filter.Limit++ // one more shows whether there is a next page
	found, err := s.Store.ListSessions(ctx, filter)
	if err != nil {
		return nil, answer(err)
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

func sessionFilter(ctx context.Context, in *onboardingv1.ListSessionsRequest) (postgres.SessionFilter, error) {
	filter := postgres.SessionFilter{
		OrgID: org(ctx), ProfileID: in.GetProfileId(), StateToken: in.GetStateToken(), Stuck: in.GetStuck(),
	}
	if caller, _ := rpc.PrincipalFrom(ctx); caller.Role == rpc.RoleUser {
		filter.ProfileID = caller.Subject
	}
	if filter.ProfileID != "" {
		if err := validID("profile_id", filter.ProfileID); err != nil {
			return filter, err
		}
	}
	if filter.StateToken != "" {
		if _, err := session.ParseToken(filter.StateToken); err != nil {
			return filter, answer(err)
		}
	}
	for _, status := range in.GetStatus() {
		if !session.Status(status).Known() {
			return filter, invalid("status must be active, stopped, closed, stuck or undeliverable")
		}
		if !slices.Contains(filter.Statuses, session.Status(status)) {
			filter.Statuses = append(filter.Statuses, session.Status(status))
		}
	}
	var err error
	filter.Limit, filter.Before, err = page(in)
	return filter, err
}

// GetSession reads a session and its timeline.
func (s *Server) GetSession(ctx context.Context, in *onboardingv1.GetSessionRequest) (*onboardingv1.GetSessionResponse, error) {
	if err := validID("session_id", in.GetSessionId()); err != nil {
		return nil, err
	}
	story, err := s.Store.Session(ctx, org(ctx), in.GetSessionId())
	caller, _ := rpc.PrincipalFrom(ctx)
	if caller.Role == rpc.RoleUser && (errors.Is(err, conversation.ErrNoSession) || err == nil && caller.Subject != story.ProfileID) {
		return nil, answer(errNotYours)
	}
	if err != nil {
		return nil, answer(err)
	}
	out := &onboardingv1.GetSessionResponse{Session: shown(ctx, story.Record)}
	out.Session.NextDueAt = orAbsent(story.NextDue)
	for _, e := range story.Entries {
		if caller.Role != rpc.RoleOperator && (e.Trigger == session.TriggerOperator || e.Kind == session.KindParked) {
			e.Detail = "" // what operators wrote, such as why a person is held, and what they are to do is for operators
		}
		out.Timeline = append(out.Timeline, &onboardingv1.TimelineEntry{
			At: timestamppb.New(e.At), Kind: string(e.Kind), FromStateToken: string(e.From), ToStateToken: string(e.To),
			Trigger: string(e.Trigger), StepId: string(e.Step), MessageId: e.MessageID, Detail: e.Detail,
			Actor: actor(ctx, e.Actor),
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

// actor is whose call caused a row, for an operator to see: where their colleagues call from is not for others.
func actor(ctx context.Context, row *string) *auditv1.Actor {
	if caller, _ := rpc.PrincipalFrom(ctx); caller.Role != rpc.RoleOperator {
		return nil
	}
	return audit.Read(row)
}
