package conversation

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/letters"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/request"
)

// ResumeSession makes a parked session active again.
func (s *RPC) ResumeSession(ctx context.Context, in *onboardingv1.ResumeSessionRequest) (*onboardingv1.ResumeSessionResponse, error) {
	if err := request.ID("session_id", in.GetSessionId()); err != nil {
		return nil, err
	}
	r, err := s.Conversations.Resume(ctx, request.Org(ctx), in.GetSessionId())
	if err != nil {
		return nil, err
	}
	return &onboardingv1.ResumeSessionResponse{Session: record(r)}, nil
}

// The words that choose sessions are more than a slip of the hand, and no longer than a reason.
const (
	minContains = 3
	maxContains = 200
)

// ResumeSessions makes the parked sessions active again that a filter chooses, a page at a time.
func (s *RPC) ResumeSessions(ctx context.Context, in *onboardingv1.ResumeSessionsRequest) (*onboardingv1.ResumeSessionsResponse, error) {
	chosen := ParkedFilter{OrgID: request.Org(ctx), Contains: letters.Compose(in.GetReasonContains()), Judged: in.GetLeaveUnjudged()}
	if n := utf8.RuneCountInString(chosen.Contains); n < minContains || n > maxContains || strings.ContainsRune(chosen.Contains, 0) {
		return nil, request.Invalid("reason_contains must be %d to %d characters that the reasons of the sessions have in common; "+
			"GET /v1/sessions?stuck=true shows them", minContains, maxContains)
	}
	for _, bound := range []struct {
		at   *timestamppb.Timestamp
		into *time.Time
		name string
	}{{in.GetParkedSince(), &chosen.Since, "parked_since"}, {in.GetParkedUntil(), &chosen.Until, "parked_until"}} {
		if bound.at == nil {
			continue
		}
		if err := bound.at.CheckValid(); err != nil {
			return nil, request.Invalid("%s must be a time, such as 2026-11-22T10:00:00Z", bound.name)
		}
		*bound.into = bound.at.AsTime()
	}
	wanted, before, err := request.Page(in)
	if err != nil {
		return nil, err
	}
	chosen.Before, chosen.Limit = before, wanted+1 // one more shows whether there is a next page
	ids, matched, err := s.Store.ParkedSessions(ctx, chosen)
	if err != nil {
		return nil, err
	}
	out := &onboardingv1.ResumeSessionsResponse{Matched: int32(matched)} //nolint:gosec // at most 10,000
	if len(ids) > wanted {
		ids = ids[:wanted]
		out.NextPageToken = rpc.NextPage(in, ids[wanted-1])
	}
	if out.SessionIds = ids; in.GetDryRun() {
		return out, nil
	}
	resumed, left, err := s.Conversations.ResumeAll(ctx, chosen.OrgID, ids, chosen.Judged)
	if err != nil {
		return nil, err
	}
	out.SessionIds = resumed
	for _, u := range left {
		out.Unresumed = append(out.Unresumed, &onboardingv1.UnresumedSession{SessionId: u.SessionID, Reason: u.Cause.Error()})
	}
	return out, nil
}

// ReplayDeadLetter sets the alarm again that a dead letter was.
func (s *RPC) ReplayDeadLetter(
	ctx context.Context, in *onboardingv1.ReplayDeadLetterRequest,
) (*onboardingv1.ReplayDeadLetterResponse, error) {
	if err := request.ID("dead_letter_id", in.GetDeadLetterId()); err != nil {
		return nil, err
	}
	replayed, err := s.Conversations.Replay(ctx, request.Org(ctx), in.GetDeadLetterId())
	if err != nil {
		return nil, err
	}
	out := &onboardingv1.ReplayDeadLetterResponse{AlarmSet: replayed.AlarmSet, SkipReason: string(replayed.Skip)}
	if replayed.Session.ID != "" {
		out.Session = record(replayed.Session)
	}
	return out, nil
}

// ListDeadLetters lists the dead letters of the caller's organisation.
func (s *RPC) ListDeadLetters(
	ctx context.Context, in *onboardingv1.ListDeadLettersRequest,
) (*onboardingv1.ListDeadLettersResponse, error) {
	filter := DeadLetterFilter{Scope: s.Conversations.DeadLetters(request.Org(ctx)), SessionID: in.GetSessionId(), Open: in.GetOpen()}
	if filter.SessionID != "" {
		if err := request.ID("session_id", filter.SessionID); err != nil {
			return nil, err
		}
	}
	wanted, before, err := request.Page(in)
	if err != nil {
		return nil, err
	}
	filter.Before, filter.Limit = before, wanted+1 // one more shows whether there is a next page
	found, err := s.Store.DeadLetters(ctx, filter)
	if err != nil {
		return nil, err
	}
	out := &onboardingv1.ListDeadLettersResponse{}
	if len(found) > wanted {
		found = found[:wanted]
		out.NextPageToken = rpc.NextPage(in, found[wanted-1].ID)
	}
	for _, d := range found {
		out.DeadLetters = append(out.DeadLetters, deadLetter(d))
	}
	return out, nil
}

// maxResponse limits how much of the last answer is shown, in bytes.
const maxResponse = 2000

func deadLetter(d DeadLetter) *onboardingv1.DeadLetter {
	out := &onboardingv1.DeadLetter{
		DeadLetterId: d.ID, SessionId: d.SessionID, StepId: d.StepID, SourceMessageId: d.SourceMessageID, DlqId: d.DLQID,
		Status: int32(min(max(d.Status, 0), 999)), Response: legible(d.Response), Retried: int32(min(max(d.Retried, 0), 1<<20)),
		CreatedAt: timestamppb.New(d.At),
	}
	if !d.ReplayedAt.IsZero() {
		out.ReplayedAt = timestamppb.New(d.ReplayedAt)
	}
	if !d.HandledAt.IsZero() {
		out.HandledAt = timestamppb.New(d.HandledAt)
	}
	return out
}

// legible is a body as text: it may be any bytes.
func legible(body []byte) string {
	return strings.ToValidUTF8(string(body[:min(len(body), maxResponse)]), "\uFFFD")
}
