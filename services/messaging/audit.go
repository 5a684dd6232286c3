package messaging

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/audit"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/edge"
	"paceline.internal/services/messaging/sms"
)

// ListMessagingAudit is this service's part of the audit. Onboarding asks for one entry more than its own largest page.
func (s *service) ListMessagingAudit(
	ctx context.Context, r *messagingv1.ListMessagingAuditRequest,
) (*messagingv1.ListMessagingAuditResponse, error) {
	orgID, err := edge.ReadID("org_id", r.GetOrgId())
	if err != nil {
		return nil, err
	}
	if r.GetLimit() < 1 || r.GetLimit() > edge.LargestPage+1 {
		return nil, fmt.Errorf("%w: limit must be 1 to %d", sms.ErrInvalid, edge.LargestPage+1)
	}
	for field, id := range map[string]string{"profile_id": r.GetProfileId(), "target_id": r.GetTargetId(), "behind_id": r.GetBehindId()} {
		if _, err := edge.ReadOptionalID(field, id); err != nil {
			return nil, err
		}
	}
	found, err := s.calls.List(ctx, audit.Filter{
		OrgID: orgID.String(), Subject: r.GetSubject(), Method: r.GetMethod(), ProfileID: r.GetProfileId(), TargetID: r.GetTargetId(),
		Phone: r.GetPhone(), Changes: r.GetChanges(), Since: instant(r.GetSince()), Until: instant(r.GetUntil()),
		Behind: audit.Place{At: instant(r.GetBehindAt()), ID: r.GetBehindId()}, Limit: int(r.GetLimit()),
	})
	return &messagingv1.ListMessagingAuditResponse{Entries: found}, err
}

func instant(at *timestamppb.Timestamp) time.Time {
	if at == nil {
		return time.Time{}
	}
	return at.AsTime()
}
