package server

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/send"
)

// maxEvents is how many events one answer hands over.
const maxEvents = 1000

// ListEvents hands over the events that onboarding does not have.
func (s *Server) ListEvents(ctx context.Context, r *messagingv1.ListEventsRequest) (*messagingv1.ListEventsResponse, error) {
	if r.GetLimit() < 1 || r.GetLimit() > maxEvents || len(r.GetDone()) > maxEvents {
		return nil, refuse(ctx, fmt.Errorf("%w: limit must be 1 to %d, and done have no more", send.ErrInvalid, maxEvents))
	}
	found, err := s.Store.Events(ctx, r.GetDone(), r.GetTypes(), int(r.GetLimit()))
	if err != nil {
		return nil, refuse(ctx, err)
	}
	answer := &messagingv1.ListEventsResponse{}
	for _, e := range found {
		answer.Events = append(answer.Events, &messagingv1.Event{
			Row: e.Row, EventId: e.EventID, OrgId: e.OrgID, Type: e.Type, ProfileId: e.ProfileID, Phone: e.Phone,
			Time: timestamppb.New(e.Time), CausationId: e.CausationID, Data: e.Data,
		})
	}
	return answer, nil
}
