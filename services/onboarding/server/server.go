// Package server is the gRPC face of onboarding: proto to domain and back, and one table of errors.
package server

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/audit"
	"paceline.internal/platform/letters"
	"paceline.internal/platform/rpc"
	"paceline.internal/platform/telemetry"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/proto/payload"
	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/erasure"
	"paceline.internal/services/onboarding/postgres"

	"paceline.internal/services/onboarding/inbound/dedup"
	"paceline.internal/services/onboarding/session"
)

// Server serves OnboardingService.
type Server struct {
	onboardingv1.UnsafeOnboardingServiceServer // every RPC is here or in a room

	Conversations *conversation.Service
	Engagement    catalog.Engagement // the texts of engagement and of goals
	Store         *postgres.Store
	Failures      *dedup.Guard // of failure callbacks; a step is guarded by messaging's claim (docs/adr/0010)
	Notify        func()       // wakes the loops for a message that was left to them
	Now           func() time.Time
	Calls         *audit.Log
	Messaging     auditor

	*erasure.RPC
}

// ExecuteStep performs one due step.
func (s *Server) ExecuteStep(ctx context.Context, in *onboardingv1.ExecuteStepRequest) (*onboardingv1.ExecuteStepResponse, error) {
	alarm := stepPayload(in)
	if err := alarm.Validate(); err != nil {
		return nil, refusePayload(alarm, err)
	}
	early := conversation.EarlyRuns
	if caller, _ := rpc.PrincipalFrom(ctx); caller.Role == rpc.RoleOperator {
		if early = conversation.EarlyRefused; in.GetBeforeDue() {
			early = conversation.EarlyRecorded
		}
	}
	result, err := s.Conversations.ExecuteStep(ctx, alarm, telemetry.RequestID(ctx), early)
	if err != nil {
		return nil, answer(err)
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

func stepPayload(in *onboardingv1.ExecuteStepRequest) session.StepPayload {
	return session.StepPayload{
		ProfileID: in.GetProfileId(), SessionID: in.GetSessionId(), StepID: session.StepID(in.GetStepId()),
		ExpectedToken: session.Token(in.GetExpectedStateToken()), IdempotencyKey: in.GetIdempotencyKey(),
	}
}

// refusePayload distinguishes a payload that is whole but for its key from one that is not.
func refusePayload(p session.StepPayload, err error) error {
	p.IdempotencyKey = session.Key(p.ProfileID, p.SessionID, p.StepID)
	if p.Validate() == nil {
		return refuse(codes.InvalidArgument, onboardingv1.Reason_REASON_KEY_MISMATCH, err.Error(), 0)
	}
	return answer(err)
}

// maxQStashID is far beyond the ids that QStash gives.
const maxQStashID = 200

// qstashID refuses what is no id of QStash: the header that carries one is not part of what QStash signs.
func qstashID(field, value string) error {
	foreign := strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' })
	if value == "" || len(value) > maxQStashID || foreign {
		return invalid("%s must be an id of QStash, at most %d visible ASCII characters", field, maxQStashID)
	}
	return nil
}

// RecordStepFailure keeps a dead letter of QStash, once however often it is reported. A body that is no payload is kept all the
// same.
func (s *Server) RecordStepFailure(
	ctx context.Context, in *onboardingv1.RecordStepFailureRequest,
) (*onboardingv1.RecordStepFailureResponse, error) {
	if err := cmp.Or(qstashID("delivery_id", in.GetDeliveryId()), qstashID("source_message_id", in.GetSourceMessageId())); err != nil {
		return nil, err
	}
	failed := postgres.DeadLetter{
		SourceMessageID: in.GetSourceMessageId(), DLQID: in.GetDlqId(), Payload: in.GetSourceBody(), Status: int(in.GetStatus()),
		Response: in.GetBody(), Retried: int(in.GetRetried()), At: s.Now(),
	}
	if step, issues := payload.DecodeStep(in.GetSourceBody()); issues == nil && stepPayload(step).Validate() == nil {
		failed.SessionID, failed.StepID = step.GetSessionId(), step.GetStepId()
	}
	delivery := dedup.Delivery{MessageID: in.GetDeliveryId(), Key: "step-failed:" + failed.SourceMessageID}
	duplicate, err := s.Failures.Do(ctx, delivery, func(ctx context.Context) error { return s.Store.AddDeadLetter(ctx, failed) })
	if err != nil {
		return nil, answer(err)
	}
	return &onboardingv1.RecordStepFailureResponse{Duplicate: duplicate}, nil
}

// ReceiveMessage takes one message of a person.
func (s *Server) ReceiveMessage(
	ctx context.Context, in *onboardingv1.ReceiveMessageRequest,
) (*onboardingv1.ReceiveMessageResponse, error) {
	m := conversation.Inbound{
		SID: in.GetTwilioSid(), From: in.GetFrom(), To: in.GetTo(), MessagingServiceSID: in.GetMessagingServiceSid(), Body: in.GetBody(),
		Segments: int(in.GetSegments()), Media: int(in.GetMedia()), OptOutType: in.GetOptOutType(),
	}
	if w := in.GetWhatsapp(); w != nil {
		m.SID, m.Channel, m.Type, m.Queued = w.GetMessageId(), "whatsapp", w.GetType(), w.GetOfSeveral()
		m.UserID = w.GetUserId()
		if w.GetSentAt().GetSeconds() > 0 {
			m.SentAt = strconv.FormatInt(w.GetSentAt().GetSeconds(), 10)
		}
	}
	kept, err := s.Conversations.Receive(ctx, m)
	if err != nil {
		return nil, answer(err)
	}
	if m.Queued && !kept.Duplicate {
		s.Notify()
	}
	return &onboardingv1.ReceiveMessageResponse{Duplicate: kept.Duplicate, JobId: kept.ID}, nil
}

// ActivateProfile opens a session.
func (s *Server) ActivateProfile(
	ctx context.Context, in *onboardingv1.ActivateProfileRequest,
) (*onboardingv1.ActivateProfileResponse, error) {
	if err := validID("profile_id", in.GetProfileId()); err != nil {
		return nil, err
	}
	var consent *conversation.ConsentRecord
	if given := in.GetConsent(); given != nil {
		consent = &conversation.ConsentRecord{Source: given.GetSource(), WordsShown: given.GetWordsShown()}
		if at := given.GetCollectedAt(); at != nil {
			if err := meant("consent.collected_at", at); err != nil {
				return nil, err
			}
			consent.CollectedAt = at.AsTime()
		}
	}
	r, err := s.Conversations.Activate(ctx, org(ctx), in.GetProfileId(), consent)
	if err != nil {
		return nil, answer(err)
	}
	return &onboardingv1.ActivateProfileResponse{Session: record(r.Record), ConsentRecorded: r.ConsentRecorded}, nil
}

// maxReason is how much a timeline shows of why a person is held, in characters.
const maxReason = 500

// HoldProfile puts a safety hold on a person.
func (s *Server) HoldProfile(ctx context.Context, in *onboardingv1.HoldProfileRequest) (*onboardingv1.HoldProfileResponse, error) {
	if err := validID("profile_id", in.GetProfileId()); err != nil {
		return nil, err
	}
	reason := letters.Compose(in.GetReason())
	if !utf8.ValidString(reason) || strings.ContainsRune(reason, 0) || utf8.RuneCountInString(reason) > maxReason {
		return nil, invalid("reason must have at most %d characters", maxReason)
	}
	p, err := s.Conversations.Hold(ctx, org(ctx), in.GetProfileId(), reason)
	if err != nil {
		return nil, answer(err)
	}
	return &onboardingv1.HoldProfileResponse{Profile: profile(p)}, nil
}

// ReleaseProfile lifts the hold.
func (s *Server) ReleaseProfile(
	ctx context.Context, in *onboardingv1.ReleaseProfileRequest,
) (*onboardingv1.ReleaseProfileResponse, error) {
	if err := validID("profile_id", in.GetProfileId()); err != nil {
		return nil, err
	}
	if in.GetLeaveUnjudged() {
		if err := s.Conversations.Judged(ctx, org(ctx), in.GetProfileId()); err != nil {
			return nil, answer(err)
		}
	}
	p, err := s.Conversations.Release(ctx, org(ctx), in.GetProfileId())
	if err != nil {
		return nil, answer(err)
	}
	return &onboardingv1.ReleaseProfileResponse{Profile: profile(p)}, nil
}

// ResetSession closes a session.
func (s *Server) ResetSession(ctx context.Context, in *onboardingv1.ResetSessionRequest) (*onboardingv1.ResetSessionResponse, error) {
	if err := validID("session_id", in.GetSessionId()); err != nil {
		return nil, err
	}
	r, err := s.Conversations.Reset(ctx, org(ctx), in.GetSessionId())
	if err != nil {
		return nil, answer(err)
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
		Reason: reason,
	}
}
