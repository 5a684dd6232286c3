package messaging

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/audit"
	auditv1 "paceline.internal/proto/gen/paceline/audit/v1"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/onboarding/people"
)

// Audit returns the calls that messaging has kept; people.ErrUnavailable. Of a messaging of the release before, too: a list that
// leaves out a part of what was done would be believed.
func (c *Client) Audit(ctx context.Context, f audit.Filter) ([]*auditv1.AuditEntry, error) {
	answer, err := c.rpc.ListMessagingAudit(ctx, &messagingv1.ListMessagingAuditRequest{
		OrgId: f.OrgID, Subject: f.Subject, Method: f.Method, ProfileId: f.ProfileID, TargetId: f.TargetID, Phone: f.Phone, Changes: f.Changes,
		Since: given(f.Since), Until: given(f.Until), BehindAt: given(f.Behind.At), BehindId: f.Behind.ID,
		Limit: int32(f.Limit), //nolint:gosec // of a page
	})
	if status.Code(err) == codes.Unimplemented {
		err = people.ErrUnavailable
	}
	return answer.GetEntries(), translate(err)
}

// given is absent for the zero time.
func given(at time.Time) *timestamppb.Timestamp {
	if at.IsZero() {
		return nil
	}
	return timestamppb.New(at)
}
