package server

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	overviewv1 "paceline.internal/proto/gen/paceline/overview/v1"
	"paceline.internal/services/messaging/postgres"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/twilio"
)

// What an overview counts is bounded: reading so many entries of an index takes a few milliseconds.
const (
	overviewMinutes  = 60
	countedUpTo      = 10_000
	countedOfAMinute = 1_000
	countedRefusals  = 1_000
)

// GetMessagingOverview says how messages stand in the caller's organisation.
func (s *Server) GetMessagingOverview(
	ctx context.Context, _ *messagingv1.GetMessagingOverviewRequest,
) (*messagingv1.GetMessagingOverviewResponse, error) {
	view, err := s.view(ctx)
	if err != nil {
		return nil, refuse(ctx, err)
	}
	now := s.Now()
	o, err := s.Store.Overview(ctx, send.OverviewQuery{ // one more shows whether there are more
		OrgID: view.orgID, Now: now, Minutes: overviewMinutes, Most: countedUpTo + 1, MostOfAMinute: countedOfAMinute + 1,
		MostRefused: countedRefusals + 1,
	})
	if err != nil {
		return nil, refuse(ctx, err)
	}
	gauges, err := s.Queued.Gauges(ctx, now, countedUpTo+1)
	if err != nil {
		return nil, refuse(ctx, err)
	}
	answer := &messagingv1.GetMessagingOverviewResponse{
		At:      timestamppb.New(now),
		Unknown: counted(o.Unknown.Count, countedUpTo), OldestUnknownSince: writeTime(o.Unknown.Since),
		Parked: counted(o.Parked.Count, countedUpTo), OldestParkedSince: writeTime(o.Parked.Since),
		WithoutFinalStatus: counted(o.Missing, countedUpTo),
		Queues: []*overviewv1.QueueGauges{{
			Queue: postgres.OutboundTable, Running: counted(gauges.Running, countedUpTo), Due: counted(gauges.Backlog, countedUpTo),
			Scheduled: counted(gauges.Scheduled, countedUpTo), Failed: counted(gauges.Failed, countedUpTo),
		}},
	}
	if gauges.OldestDueSeconds > 0 {
		answer.Queues[0].OldestDueAt = timestamppb.New(now.Add(-time.Duration(gauges.OldestDueSeconds * float64(time.Second))))
	}
	for _, r := range o.Refusals {
		known, _ := twilio.Explain(r.Code)
		answer.Refusals = append(answer.Refusals, &messagingv1.CarrierRefusal{
			Code: int32Of(r.Code), Messages: counted(r.Messages, countedRefusals), Since: writeTime(r.Since),
			Meaning: known.Meaning, Remedy: known.Remedy, NewestMessageId: writeID(r.Newest),
		})
	}
	for i, m := range o.Undelivered {
		settled := o.Settled[i]
		answer.Undelivered = append(answer.Undelivered, &messagingv1.UndeliveredMinute{
			At: timestamppb.New(m.At), OnTheirWay: counted(m.OnTheirWay, countedOfAMinute), Failed: counted(m.Failed, countedOfAMinute),
			Delivered: partly(settled.Delivered, settled.More), Rejected: partly(settled.Rejected, settled.More),
		})
	}
	return answer, nil
}

// partly is what was counted, of which there may be more.
func partly(n int, more bool) *overviewv1.Count {
	c := counted(n, countedUpTo)
	c.More = c.GetMore() || more
	return c
}

// counted is what was counted up to one more than a limit.
func counted(n, limit int) *overviewv1.Count {
	return &overviewv1.Count{Count: int32(min(n, limit)), More: n > limit} //nolint:gosec // at most the limit
}
