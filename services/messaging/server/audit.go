package server

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/audit"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/send"
)

// ListMessagingAudit is this service's part of the audit. Onboarding asks for one entry more than its own largest page.
func (s *Server) ListMessagingAudit(
	ctx context.Context, r *messagingv1.ListMessagingAuditRequest,
) (*messagingv1.ListMessagingAuditResponse, error) {
	orgID, err := readID("org_id", r.GetOrgId())
	if err != nil {
		return nil, refuse(ctx, err)
	}
	if r.GetLimit() < 1 || r.GetLimit() > largestPage+1 {
		return nil, refuse(ctx, fmt.Errorf("%w: limit must be 1 to %d", send.ErrInvalid, largestPage+1))
	}
	for field, id := range map[string]string{"profile_id": r.GetProfileId(), "target_id": r.GetTargetId(), "behind_id": r.GetBehindId()} {
		if _, err := readOptionalID(field, id); err != nil {
			return nil, refuse(ctx, err)
		}
	}
	found, err := s.Calls.List(ctx, audit.Filter{
		OrgID: orgID.String(), Subject: r.GetSubject(), Method: r.GetMethod(), ProfileID: r.GetProfileId(), TargetID: r.GetTargetId(),
		Phone: r.GetPhone(), Changes: r.GetChanges(), Since: instant(r.GetSince()), Until: instant(r.GetUntil()),
		Behind: audit.Place{At: instant(r.GetBehindAt()), ID: r.GetBehindId()}, Limit: int(r.GetLimit()),
	})
	if err != nil {
		return nil, refuse(ctx, err)
	}
	return &messagingv1.ListMessagingAuditResponse{Entries: found}, nil
}

// instant is the zero time for an absent one.
func instant(at *timestamppb.Timestamp) time.Time {
	if at == nil {
		return time.Time{}
	}
	return at.AsTime()
}
