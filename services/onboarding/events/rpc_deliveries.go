package events

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/queue"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/request"
)

// ListEventDeliveries lists deliveries.
func (s *RPC) ListEventDeliveries(
	ctx context.Context, in *onboardingv1.ListEventDeliveriesRequest,
) (*onboardingv1.ListEventDeliveriesResponse, error) {
	of := []string{"", queue.StatusPending, queue.StatusProcessing, queue.StatusCompleted, queue.StatusFailed}
	if !slices.Contains(of, in.GetStatus()) {
		return nil, request.Invalid("status must be pending, processing, completed or failed")
	}
	wanted, before, err := request.Page(in)
	if err != nil {
		return nil, err
	}
	found, err := s.Store.Deliveries().List(ctx, queue.Filter{
		OrgID:  request.Org(ctx),
		Status: in.GetStatus(), Before: before, Limit: wanted + 1,
	})
	if err != nil {
		return nil, err
	}
	out := &onboardingv1.ListEventDeliveriesResponse{}
	if len(found) > wanted {
		found = found[:wanted]
		out.NextPageToken = rpc.NextPage(in, found[wanted-1].ID)
	}
	for _, r := range found {
		out.Deliveries = append(out.Deliveries, delivery(r))
	}
	return out, nil
}

// ReplayEventDelivery makes a failed delivery due again.
func (s *RPC) ReplayEventDelivery(
	ctx context.Context, in *onboardingv1.ReplayEventDeliveryRequest,
) (*onboardingv1.ReplayEventDeliveryResponse, error) {
	if err := request.ID("delivery_id", in.GetDeliveryId()); err != nil {
		return nil, err
	}
	r, err := s.Store.ReplayDelivery(ctx, request.Org(ctx), in.GetDeliveryId(), s.Now())
	if status, ok := errors.AsType[*queue.StatusError](err); ok {
		return nil, request.Refuse(codes.FailedPrecondition, onboardingv1.Reason_REASON_DELIVERY_STATUS, status.Error(), 0)
	}
	if err != nil {
		return nil, err
	}
	s.Wake()
	return &onboardingv1.ReplayEventDeliveryResponse{Delivery: delivery(r)}, nil
}

func delivery(r queue.Row) *onboardingv1.EventDelivery {
	_, eventID, _ := strings.Cut(r.Key, ":")
	seq, _ := strconv.ParseInt(r.Extra[1], 10, 64) // a bigint
	return &onboardingv1.EventDelivery{
		DeliveryId: r.ID, SubscriptionId: r.Extra[0], EventId: eventID, Type: r.Extra[2], Seq: seq, Status: r.Status,
		Attempts: int32(r.Attempts), MaxAttempts: int32(r.MaxAttempts), //nolint:gosec // both are integers of Postgres
		NextAttemptAt: request.StampOf(r.DueAt), ErrorMessage: r.ErrorMessage, CreatedAt: timestamppb.New(r.CreatedAt),
		ProcessedAt: request.StampOf(r.ProcessedAt),
	}
}
