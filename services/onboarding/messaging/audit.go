package messaging

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/onboarding/inbound"
	"paceline.internal/services/onboarding/people"
)

// Sender returns the number or service that an organisation sends from; people.ErrNoSender when it cannot.
func (c *Client) Sender(ctx context.Context, orgID string) (string, error) {
	answer, err := c.rpc.CheckSender(ctx, &messagingv1.CheckSenderRequest{OrgId: orgID})
	if reasonOf(err) == messagingv1.Reason_REASON_ORGANISATION_WITHOUT_SENDER {
		return "", people.ErrNoSender
	}
	return answer.GetSender(), translate(err)
}

// SenderOrganisations returns the organisations that have a sender; inbound.ErrUnnamedSenders from the release before.
func (c *Client) SenderOrganisations(ctx context.Context) ([]string, error) {
	answer, err := c.senders.ListSenderOrganisations(ctx, &messagingv1.ListSenderOrganisationsRequest{})
	if status.Code(err) == codes.Unimplemented {
		return nil, inbound.ErrUnnamedSenders
	}
	return answer.GetOrgIds(), translate(err)
}

// errUnnamed is a message without an id or a time.
var errUnnamed = errors.New("messaging: an inbound text lacks its SID or its time")

// ListInbound lists what was sent to an organisation's sender, in Twilio's own record; people.ErrNoSender, and
// people.ErrUnavailable when messaging or Twilio cannot be reached, or, on the last page, an account refused us.
func (c *Client) ListInbound(ctx context.Context, span inbound.Span, page string) (inbound.Page, error) {
	answer, err := c.rpc.ListInbound(ctx, &messagingv1.ListInboundRequest{
		OrgId: span.OrgID, Since: timestamppb.New(span.Since), Until: timestamppb.New(span.Until), PageToken: page, RecordedToo: span.RecordedToo,
	})
	if reasonOf(err) == messagingv1.Reason_REASON_ORGANISATION_WITHOUT_SENDER {
		return inbound.Page{}, people.ErrNoSender
	}
	if err != nil {
		return inbound.Page{}, translate(err)
	}
	listed := inbound.Page{Next: answer.GetNextPageToken()}
	for _, t := range answer.GetTexts() {
		if t.GetTwilioSid() == "" || t.GetSentAt() == nil {
			return inbound.Page{}, errUnnamed
		}
		listed.Messages = append(listed.Messages, inbound.Listed{
			Recorded: t.GetRecorded(),
			Message: inbound.Message{
				SID: t.GetTwilioSid(), From: t.GetFrom(), To: t.GetTo(), MessagingServiceSID: t.GetMessagingServiceSid(), Body: t.GetBody(),
				Segments: int(t.GetSegments()), Media: int(t.GetMedia()), ReceivedAt: t.GetSentAt().AsTime(),
				Account: t.GetAccountSid(),
			},
		})
	}
	return listed, nil
}
