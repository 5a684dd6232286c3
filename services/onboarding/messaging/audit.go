package messaging

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/onboarding/audit"
	"paceline.internal/services/onboarding/enrolment"
	"paceline.internal/services/onboarding/inbound"
)

// Sender is what an organisation sends from; enrolment.ErrNoSender when it cannot.
func (c *Client) Sender(ctx context.Context, orgID string) (string, error) {
	answer, err := c.rpc.CheckSender(ctx, &messagingv1.CheckSenderRequest{OrgId: orgID})
	if reasonOf(err) == messagingv1.Reason_REASON_ORGANISATION_WITHOUT_SENDER {
		return "", enrolment.ErrNoSender
	}
	return answer.GetSender(), translate(err)
}

// errUnnamed is a text that cannot be told from others or from its time.
var errUnnamed = errors.New("messaging: an inbound text lacks its SID or its time")

// Inbound lists what was texted to an organisation's sender, in Twilio's own record; dispatch.ErrUnavailable when messaging
// or Twilio cannot be reached.
func (c *Client) Inbound(ctx context.Context, orgID string, since, until time.Time, page string) (audit.Page, error) {
	answer, err := c.rpc.ListInbound(ctx, &messagingv1.ListInboundRequest{
		OrgId: orgID, Since: timestamppb.New(since), Until: timestamppb.New(until), PageToken: page,
	})
	if err != nil {
		return audit.Page{}, translate(err)
	}
	listed := audit.Page{Next: answer.GetNextPageToken()}
	for _, t := range answer.GetTexts() {
		if t.GetTwilioSid() == "" || t.GetSentAt() == nil {
			return audit.Page{}, errUnnamed
		}
		listed.Texts = append(listed.Texts, audit.Text{
			Recorded: t.GetRecorded(),
			Message: inbound.Message{
				SID: t.GetTwilioSid(), From: t.GetFrom(), To: t.GetTo(), MessagingServiceSID: t.GetMessagingServiceSid(), Body: t.GetBody(),
				Segments: int(t.GetSegments()), Media: int(t.GetMedia()), ReceivedAt: t.GetSentAt().AsTime(),
			},
		})
	}
	return listed, nil
}
