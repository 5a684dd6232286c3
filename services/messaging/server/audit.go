package server

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/delivery"
)

// ListInbound lists what people texted to an organisation's sender, as Twilio has it.
func (s *Server) ListInbound(ctx context.Context, r *messagingv1.ListInboundRequest) (*messagingv1.ListInboundResponse, error) {
	span, err := readSpan(r)
	if err != nil {
		return nil, refuse(ctx, err)
	}
	page, err := s.Audit.Inbound(ctx, span)
	if err != nil {
		return nil, refuse(ctx, err)
	}
	return writeHeard(page), nil
}

func readSpan(r *messagingv1.ListInboundRequest) (delivery.Span, error) {
	orgID, err := readID("org_id", r.GetOrgId())
	if err != nil {
		return delivery.Span{}, err
	}
	since, err := readTime("since", r.GetSince())
	if err != nil {
		return delivery.Span{}, err
	}
	until, err := readTime("until", r.GetUntil())
	return delivery.Span{OrgID: orgID, Since: since, Until: until, Page: r.GetPageToken()}, err
}

func readTime(field string, at *timestamppb.Timestamp) (time.Time, error) {
	if err := at.CheckValid(); err != nil {
		return time.Time{}, fmt.Errorf("%w: %s: %w", delivery.ErrInvalid, field, err)
	}
	return at.AsTime(), nil
}

// writeHeard tells of a text that is recorded no more than that: nobody needs its words again.
func writeHeard(page delivery.HeardPage) *messagingv1.ListInboundResponse {
	answer := &messagingv1.ListInboundResponse{NextPageToken: page.Next}
	for _, t := range page.Texts {
		text := &messagingv1.InboundText{TwilioSid: t.SID, SentAt: timestamppb.New(t.SentAt), Recorded: t.Recorded}
		if !t.Recorded {
			text.From, text.To, text.MessagingServiceSid, text.Body = t.From, t.To, t.ServiceSID, t.Body
			text.Segments, text.Media = int32Of(t.Segments), int32Of(t.Media)
		}
		answer.Texts = append(answer.Texts, text)
	}
	return answer
}
