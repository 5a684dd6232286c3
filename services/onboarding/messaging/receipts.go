package messaging

import (
	"context"
	"strconv"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/onboarding/inbound"
)

// RecordStatus passes on what Kapso says of a message, by the provider's id of it, and reports whether we sent it.
// people.ErrUnavailable when messaging cannot be reached.
func (c *Client) RecordStatus(ctx context.Context, s inbound.KapsoStatus) (matched bool, err error) {
	answer, err := c.rpc.RecordStatus(ctx, &messagingv1.RecordStatusRequest{
		TwilioSid: s.MessageID, Status: s.Status, ErrorCode: s.ErrorCode, Raw: map[string]string{
			"source": "kapso", "message_id": s.MessageID, "status": s.Status, "error_code": strconv.Itoa(int(s.ErrorCode)),
			"errors": string(s.Errors), "phone_number_id": s.PhoneNumberID, "at": s.At,
		},
	})
	return answer.GetMatched(), translate(err)
}
