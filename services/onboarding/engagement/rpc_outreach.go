package engagement

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/queue"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/engagement/rules"
	"paceline.internal/services/onboarding/request"
)

var statuses = []string{
	queue.StatusPending, queue.StatusProcessing, queue.StatusCompleted, queue.StatusFailed, queue.StatusCancelled,
}

// ListOutreach lists outreach of the caller's organisation.
func (s *RPC) ListOutreach(
	ctx context.Context, in *onboardingv1.ListOutreachRequest,
) (*onboardingv1.ListOutreachResponse, error) {
	wanted, before, err := request.Page(in)
	if err != nil {
		return nil, err
	}
	if in.GetProfileId() != "" {
		if err := request.ID("profile_id", in.GetProfileId()); err != nil {
			return nil, err
		}
	}
	if in.GetStatus() != "" && !slices.Contains(statuses, in.GetStatus()) {
		return nil, request.Invalid("status must be pending, processing, completed, failed or cancelled")
	}
	if in.GetType() != "" && !slices.Contains(rules.MessageTypes(), rules.MessageType(in.GetType())) {
		return nil, request.Invalid("type must be help_restart, welcome, tier_unlock, goodbye, reminder or weekly_review")
	}
	found, err := s.Store.List(ctx, OutreachFilter{
		OrgID: request.Org(ctx), ProfileID: in.GetProfileId(), Status: in.GetStatus(), Type: in.GetType(), Before: before, Limit: wanted + 1,
	})
	if err != nil {
		return nil, err
	}
	out := &onboardingv1.ListOutreachResponse{}
	if len(found) > wanted {
		found = found[:wanted]
		out.NextPageToken = rpc.NextPage(in, found[wanted-1].ID)
	}
	for _, r := range found {
		out.Outreach = append(out.Outreach, outreach(r))
	}
	return out, nil
}

// CancelOutreach ends a row that was not sent.
func (s *RPC) CancelOutreach(
	ctx context.Context, in *onboardingv1.CancelOutreachRequest,
) (*onboardingv1.CancelOutreachResponse, error) {
	if err := request.ID("outreach_id", in.GetOutreachId()); err != nil {
		return nil, err
	}
	r, err := s.Store.CancelOutreach(ctx, request.Org(ctx), in.GetOutreachId(), s.Now())
	if err != nil {
		return nil, outreachError(err)
	}
	return &onboardingv1.CancelOutreachResponse{Outreach: outreach(r)}, nil
}

// RetryOutreach makes a failed row due again.
func (s *RPC) RetryOutreach(
	ctx context.Context, in *onboardingv1.RetryOutreachRequest,
) (*onboardingv1.RetryOutreachResponse, error) {
	if err := request.ID("outreach_id", in.GetOutreachId()); err != nil {
		return nil, err
	}
	r, err := s.Store.RetryOutreach(ctx, request.Org(ctx), in.GetOutreachId(), s.Now())
	if err != nil {
		return nil, outreachError(err)
	}
	s.People.Notify()
	return &onboardingv1.RetryOutreachResponse{Outreach: outreach(r)}, nil
}

func outreach(r OutreachRow) *onboardingv1.Outreach {
	out := &onboardingv1.Outreach{
		OutreachId: r.ID, ProfileId: r.ProfileID, MemberId: r.MemberID, Type: r.Type, MessageKey: r.MessageKey, Status: r.Status,
		Outcome: r.Outcome, Destination: r.Destination, IdempotencyKey: r.Key, MessageId: r.MessageID, Error: r.Error,
		Attempts:     int32(r.Attempts), //nolint:gosec // at most max_attempts
		ScheduledFor: timestamppb.New(r.ScheduledFor), ExpiresAt: timestamppb.New(r.ExpiresAt), CreatedAt: timestamppb.New(r.CreatedAt),
	}
	if r.SentAt != nil {
		out.SentAt = timestamppb.New(*r.SentAt)
	}
	return out
}

func outreachError(err error) error {
	if status, found := errors.AsType[*queue.StatusError](err); found {
		return request.Refuse(codes.FailedPrecondition, onboardingv1.Reason_REASON_OUTREACH_STATUS,
			"the outreach is "+status.Status+"; only one that is "+status.Want+" can be changed so", 0)
	}
	return err
}
