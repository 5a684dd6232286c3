package send

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	overviewv1 "paceline.internal/proto/gen/paceline/overview/v1"
	"paceline.internal/services/messaging/edge"
	"paceline.internal/services/messaging/twilio"
)

// What an overview counts is bounded: reading so many entries of an index takes a few milliseconds.
const (
	overviewMinutes  = 60
	countedUpTo      = 10_000
	countedOfAMinute = 1_000
	countedRefusals  = 1_000
)

// GetMessagingOverview reports how messages stand in the caller's organisation.
func (s *RPC) GetMessagingOverview(
	ctx context.Context, _ *messagingv1.GetMessagingOverviewRequest,
) (*messagingv1.GetMessagingOverviewResponse, error) {
	view, err := s.view(ctx)
	if err != nil {
		return nil, err
	}
	now := s.Now()
	o, err := s.Store.Overview(ctx, OverviewQuery{ // one more shows whether there are more
		OrgID: view.OrgID, Now: now, Minutes: overviewMinutes, Most: countedUpTo + 1, MostOfAMinute: countedOfAMinute + 1,
		MostRefused: countedRefusals + 1,
	})
	if err != nil {
		return nil, err
	}
	queue, err := s.Queue(ctx, now, countedUpTo)
	if err != nil {
		return nil, err
	}
	answer := &messagingv1.GetMessagingOverviewResponse{
		At:      timestamppb.New(now),
		Unknown: edge.Count(o.Unknown.Count, countedUpTo), OldestUnknownSince: edge.WriteTime(o.Unknown.Since),
		Parked: edge.Count(o.Parked.Count, countedUpTo), OldestParkedSince: edge.WriteTime(o.Parked.Since),
		WithoutFinalStatus: edge.Count(o.Missing, countedUpTo),
		Queues:             []*overviewv1.QueueGauges{queue},
	}
	for _, r := range o.Refusals {
		known, _ := twilio.Explain(r.Code)
		answer.Refusals = append(answer.Refusals, &messagingv1.CarrierRefusal{
			Code: edge.Int32(r.Code), Messages: edge.Count(r.Messages, countedRefusals), Since: edge.WriteTime(r.Since),
			Meaning: known.Meaning, Remedy: known.Remedy, NewestMessageId: edge.WriteID(r.Newest),
		})
	}
	for i, m := range o.Undelivered {
		settled := o.Settled[i]
		answer.Undelivered = append(answer.Undelivered, &messagingv1.UndeliveredMinute{
			At: timestamppb.New(m.At), OnTheirWay: edge.Count(m.OnTheirWay, countedOfAMinute), Failed: edge.Count(m.Failed, countedOfAMinute),
			Delivered: partly(settled.Delivered, settled.More), Rejected: partly(settled.Rejected, settled.More),
		})
	}
	return answer, nil
}

// partly returns what was counted, of which there may be more.
func partly(n int, more bool) *overviewv1.Count {
	c := edge.Count(n, countedUpTo)
	c.More = c.GetMore() || more
	return c
}
