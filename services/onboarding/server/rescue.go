package server

import (
	"context"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/postgres"
)

// ResumeSession makes a parked session active again.
func (s *Server) ResumeSession(
	ctx context.Context, in *onboardingv1.ResumeSessionRequest,
) (*onboardingv1.ResumeSessionResponse, error) {
	if err := validID("session_id", in.GetSessionId()); err != nil {
		return nil, err
	}
	r, err := s.Crew.Resume(ctx, org(ctx), in.GetSessionId())
	if err != nil {
		return nil, answer(err)
	}
	return &onboardingv1.ResumeSessionResponse{Session: record(r)}, nil
}

// ReplayDeadLetter sets the alarm again that a dead letter was.
func (s *Server) ReplayDeadLetter(
	ctx context.Context, in *onboardingv1.ReplayDeadLetterRequest,
) (*onboardingv1.ReplayDeadLetterResponse, error) {
	if err := validID("dead_letter_id", in.GetDeadLetterId()); err != nil {
		return nil, err
	}
	replayed, err := s.Crew.Replay(ctx, org(ctx), in.GetDeadLetterId())
	if err != nil {
		return nil, answer(err)
	}
	out := &onboardingv1.ReplayDeadLetterResponse{AlarmSet: replayed.AlarmSet, SkipReason: string(replayed.Skip)}
	if replayed.Session.ID != "" {
		out.Session = record(replayed.Session)
	}
	return out, nil
}

// ListDeadLetters lists the dead letters of the caller's organisation.
func (s *Server) ListDeadLetters(
	ctx context.Context, in *onboardingv1.ListDeadLettersRequest,
) (*onboardingv1.ListDeadLettersResponse, error) {
	filter := postgres.DeadLetterFilter{Scope: s.Crew.Scope(org(ctx)), SessionID: in.GetSessionId()}
	if filter.SessionID != "" {
		if err := validID("session_id", filter.SessionID); err != nil {
			return nil, err
		}
	}
	wanted, before, err := page(in)
	if err != nil {
		return nil, err
	}
	filter.Before, filter.Limit = before, wanted+1 // one more tells whether there is a next page
	found, err := s.Store.DeadLetters(ctx, filter)
	if err != nil {
		return nil, answer(err)
	}
	out := &onboardingv1.ListDeadLettersResponse{}
	if len(found) > wanted {
		found = found[:wanted]
		out.NextPageToken = pageToken(found[wanted-1].ID)
	}
	for _, d := range found {
		out.DeadLetters = append(out.DeadLetters, deadLetter(d))
	}
	return out, nil
}

// maxResponse is how much of the last answer is shown, in bytes.
const maxResponse = 2000

func deadLetter(d postgres.DeadLetter) *onboardingv1.DeadLetter {
	out := &onboardingv1.DeadLetter{
		DeadLetterId: d.ID, SessionId: d.SessionID, StepId: d.StepID, SourceMessageId: d.SourceMessageID, DlqId: d.DLQID,
		Status: int32(min(max(d.Status, 0), 999)), Response: legible(d.Response), Retried: int32(min(max(d.Retried, 0), 1<<20)),
		CreatedAt: timestamppb.New(d.At),
	}
	if !d.ReplayedAt.IsZero() {
		out.ReplayedAt = timestamppb.New(d.ReplayedAt)
	}
	return out
}

// legible is a body as text: whatever answered may have answered anything.
func legible(body []byte) string {
	return strings.ToValidUTF8(string(body[:min(len(body), maxResponse)]), "\uFFFD")
}
