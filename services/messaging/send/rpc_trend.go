package send

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/hours"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/edge"
	"paceline.internal/services/messaging/sms"
)

// GetMessagingTrend reports how messages ended over a day, a week or a month.
func (s *RPC) GetMessagingTrend(
	ctx context.Context, r *messagingv1.GetMessagingTrendRequest,
) (*messagingv1.GetMessagingTrendResponse, error) {
	view, err := s.view(ctx)
	if err != nil {
		return nil, err
	}
	edges, err := hours.Periods(s.Now(), r.GetSpan(), r.GetTimeZone())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", sms.ErrInvalid, err)
	}
	trend, err := s.Store.Trend(ctx, view.OrgID, edges)
	if err != nil {
		return nil, err
	}
	answer := &messagingv1.GetMessagingTrendResponse{
		CountedUntil: edge.WriteTime(trend.CountedUntil), Countries: segmentsOf(trend.Countries),
	}
	for i, n := range trend.Periods {
		answer.Periods = append(answer.Periods, &messagingv1.MessagingPeriod{
			BeginsAt: timestamppb.New(edges[i]), EndsAt: timestamppb.New(edges[i+1]),
			Delivered: n.Delivered, Failed: n.Failed, UnderWay: n.UnderWay, Replies: n.Replies, OptOuts: n.OptOuts, Segments: n.Segments,
			Countries: segmentsOf(trend.ByCountry[i]),
		})
	}
	return answer, nil
}

// segmentsOf lists the countries to which Twilio took a message, the most segments first.
func segmentsOf(countries map[string]counts) (found []*messagingv1.CountrySegments) {
	for country, n := range countries {
		if n.Taken > 0 {
			found = append(found, &messagingv1.CountrySegments{CountryCode: country, Messages: n.Taken, Segments: n.Segments})
		}
	}
	slices.SortFunc(found, func(a, b *messagingv1.CountrySegments) int {
		return cmp.Or(cmp.Compare(b.GetSegments(), a.GetSegments()), cmp.Compare(a.GetCountryCode(), b.GetCountryCode()))
	})
	return found
}
