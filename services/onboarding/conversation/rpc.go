package conversation

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/rpc"
	"paceline.internal/platform/telemetry"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/request"
	"paceline.internal/services/onboarding/session"
)

// RPC serves the sessions of OnboardingService.
type RPC struct {
	Conversations *Service
	Store         *Store
	Engagement    catalog.Engagement // the texts of engagement and of goals
	Now           func() time.Time
}

// ExecuteStep performs one due step.
func (s *RPC) ExecuteStep(ctx context.Context, in *onboardingv1.ExecuteStepRequest) (*onboardingv1.ExecuteStepResponse, error) {
	alarm := StepPayload(in)
	if err := alarm.Validate(); err != nil {
		return nil, refusePayload(alarm, err)
	}
	early := EarlyRuns
	if caller, _ := rpc.PrincipalFrom(ctx); caller.Role == rpc.RoleOperator {
		if early = EarlyRefused; in.GetBeforeDue() {
			early = EarlyRecorded
		}
	}
	result, err := s.Conversations.ExecuteStep(ctx, alarm, telemetry.RequestID(ctx), early)
	if err != nil {
		return nil, err
	}
	out := &onboardingv1.ExecuteStepResponse{
		Outcome: onboardingv1.StepOutcome_STEP_OUTCOME_SENT, SkipReason: string(result.Skip),
		NextStepId: string(result.Next), MessageId: result.MessageID,
	}
	if result.Skip != "" {
		out.Outcome = onboardingv1.StepOutcome_STEP_OUTCOME_SKIPPED
	}
	return out, nil
}

// StepPayload reads the payload of an alarm from its request.
func StepPayload(in *onboardingv1.ExecuteStepRequest) session.StepPayload {
	return session.StepPayload{
		ProfileID: in.GetProfileId(), SessionID: in.GetSessionId(), StepID: session.StepID(in.GetStepId()),
		ExpectedToken: session.Token(in.GetExpectedStateToken()), IdempotencyKey: in.GetIdempotencyKey(),
	}
}

// refusePayload distinguishes a payload that is whole but for its key from one that is not.
func refusePayload(p session.StepPayload, err error) error {
	p.IdempotencyKey = session.Key(p.ProfileID, p.SessionID, p.StepID)
	if p.Validate() == nil {
		return request.Refuse(codes.InvalidArgument, onboardingv1.Reason_REASON_KEY_MISMATCH, err.Error(), 0)
	}
	return err
}

// ActivateProfile opens a session.
func (s *RPC) ActivateProfile(
	ctx context.Context, in *onboardingv1.ActivateProfileRequest,
) (*onboardingv1.ActivateProfileResponse, error) {
	if err := request.ID("profile_id", in.GetProfileId()); err != nil {
		return nil, err
	}
	consent, err := people.ReadConsent(in.GetConsent(), s.Now())
	if err != nil {
		return nil, err
	}
	r, err := s.Conversations.Begin(ctx, request.Org(ctx), Start{
		ProfileID: in.GetProfileId(), Flow: in.GetFlow(), Consent: consent, Fields: in.GetFields().AsMap(),
	})
	if err != nil {
		return nil, err
	}
	return &onboardingv1.ActivateProfileResponse{Session: record(r.Record), ConsentRecorded: r.ConsentRecorded}, nil
}

// ResetSession closes a session.
func (s *RPC) ResetSession(ctx context.Context, in *onboardingv1.ResetSessionRequest) (*onboardingv1.ResetSessionResponse, error) {
	if err := request.ID("session_id", in.GetSessionId()); err != nil {
		return nil, err
	}
	r, err := s.Conversations.Reset(ctx, request.Org(ctx), in.GetSessionId())
	if err != nil {
		return nil, err
	}
	return &onboardingv1.ResetSessionResponse{Session: record(r)}, nil
}

func record(r session.Record) *onboardingv1.Session {
	reason := r.Reason
	if r.Status == session.Closed {
		reason = "" // the operator who closed it knows why; the timeline says when
	}
	return &onboardingv1.Session{
		SessionId: r.ID, ProfileId: r.ProfileID, Mode: string(r.Mode), StateToken: string(r.Token), NextStepId: string(r.NextStep),
		Status: string(r.Status), Paused: r.Paused, CreatedAt: timestamppb.New(r.CreatedAt), UpdatedAt: timestamppb.New(r.UpdatedAt),
		Reason: reason, Flow: r.Flow, FlowVersion: r.FlowVersion,
	}
}
