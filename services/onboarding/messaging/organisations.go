package messaging

import (
	"context"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/onboarding/organisations"
)

// SetOrganisation has messaging know whether an organisation may send; people.ErrUnavailable.
func (c *Client) SetOrganisation(ctx context.Context, orgID string, status organisations.Status, version int64) error {
	_, err := c.rpc.SetOrganisation(ctx, &messagingv1.SetOrganisationRequest{OrgId: orgID, Status: string(status), Version: version})
	return translate(err)
}

// ForgetOrganisation has messaging delete the senders of an organisation that has ended; people.ErrUnavailable.
func (c *Client) ForgetOrganisation(ctx context.Context, orgID string) error {
	_, err := c.senders.ForgetOrganisation(ctx, &messagingv1.ForgetOrganisationRequest{OrgId: orgID})
	return translate(err)
}
