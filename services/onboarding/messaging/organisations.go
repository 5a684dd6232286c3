package messaging

import (
	"context"

	"paceline.internal/platform/retention"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/onboarding/organisations"
	"paceline.internal/services/onboarding/people"
)

// SetOrganisation has messaging know whether an organisation may send; people.ErrUnavailable.
func (c *Client) SetOrganisation(ctx context.Context, orgID string, status organisations.Status, version int64) error {
	_, err := c.rpc.SetOrganisation(ctx, &messagingv1.SetOrganisationRequest{OrgId: orgID, Status: string(status), Version: version})
	return translate(err)
}

// ForgetOrganisation has messaging delete the senders of an organisation that has ended, and erase some numbers without a profile; it
// reports whether there may be more. people.ErrUnavailable.
func (c *Client) ForgetOrganisation(ctx context.Context, orgID string) (more bool, err error) {
	answer, err := c.senders.ForgetOrganisation(ctx, &messagingv1.ForgetOrganisationRequest{OrgId: orgID})
	return answer.GetMore(), translate(err)
}

// SetSending tells messaging a version of what an organisation has decided about sending and retention, and returns the one that
// messaging keeps; people.ErrUnavailable.
func (c *Client) SetSending(ctx context.Context, decided people.Untold) (kept int64, err error) {
	days := func(kind string) int32 { return int32(decided.Retention[kind]) } //nolint:gosec // retention.MostDays at most
	answer, err := c.rpc.SetOrganisationSettings(ctx, &messagingv1.SetOrganisationSettingsRequest{
		OrgId: decided.OrgID, Version: decided.Version, Sending: decided.Sending, Retention: &messagingv1.Retention{
			MessagesDays: days(retention.Messages), ConsentDays: days(retention.Consent), ReceiptsDays: days(retention.Receipts),
			OutboundDays: days(retention.Outbound), AuditDays: days(retention.Audit),
		},
	})
	return answer.GetVersion(), translate(err)
}
