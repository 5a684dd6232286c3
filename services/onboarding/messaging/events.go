package messaging

import (
	"context"
	"encoding/json"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/onboarding/events"
)

// Events tells messaging which of its events are stored and which types are wanted, and fetches what is next; people.ErrUnavailable.
func (c *Client) Events(ctx context.Context, done []int64, types []string, limit int) ([]events.Incoming, error) {
	answer, err := c.rpc.ListEvents(ctx, &messagingv1.ListEventsRequest{
		Done: done, Types: types, Limit: int32(limit), //nolint:gosec // of a batch
	})
	if status.Code(err) == codes.Unimplemented { // the release before tells nothing
		return nil, nil
	}
	if err != nil {
		return nil, translate(err)
	}
	incoming := make([]events.Incoming, len(answer.GetEvents()))
	for i, e := range answer.GetEvents() {
		incoming[i] = events.Incoming{
			Row: e.GetRow(), ProfileID: e.GetProfileId(), Phone: e.GetPhone(), Event: events.Event{
				ID: e.GetEventId(), OrgID: e.GetOrgId(), Type: e.GetType(), Time: e.GetTime().AsTime(), CausationID: e.GetCausationId(),
				Data: json.RawMessage(e.GetData()),
			},
		}
	}
	return incoming, nil
}

// Text is the body of a message; empty when the organisation has no such message. people.ErrUnavailable.
func (c *Client) Text(ctx context.Context, orgID, messageID string) (string, error) {
	ctx = rpc.WithPrincipal(ctx, rpc.Principal{Subject: "onboarding", Role: rpc.RoleService, OrgID: orgID})
	answer, err := c.rpc.GetMessage(ctx, &messagingv1.GetMessageRequest{MessageId: messageID})
	if status.Code(err) == codes.NotFound {
		return "", nil
	}
	return answer.GetMessage().GetBody(), translate(err)
}
