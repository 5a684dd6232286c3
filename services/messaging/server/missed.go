package server

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/inbox"
	"paceline.internal/services/messaging/send"
)

// ListInbound lists what people wrote to an organisation's sender, as Twilio has it.
func (s *Server) ListInbound(ctx context.Context, r *messagingv1.ListInboundRequest) (*messagingv1.ListInboundResponse, error) {
	span, err := readSpan(r)
	if err != nil {
		return nil, refuse(ctx, err)
	}
	page, err := s.Inbox.ListInbound(ctx, span)
	if err != nil {
		return nil, refuse(ctx, err)
	}
	return writeListed(page), nil
}

func readSpan(r *messagingv1.ListInboundRequest) (inbox.Span, error) {
	orgID, err := readID("org_id", r.GetOrgId())
	if err != nil {
		return inbox.Span{}, err
	}
	since, err := readTime("since", r.GetSince())
	if err != nil {
		return inbox.Span{}, err
	}
	until, err := readTime("until", r.GetUntil())
	return inbox.Span{OrgID: orgID, Since: since, Until: until, Page: r.GetPageToken()}, err
}

func readTime(field string, at *timestamppb.Timestamp) (time.Time, error) {
	if err := at.CheckValid(); err != nil {
		return time.Time{}, fmt.Errorf("%w: %s: %w", send.ErrInvalid, field, err)
	}
	return at.AsTime(), nil
}

// writeListed gives of a recorded message only that it is recorded: the caller does not need its words again.
func writeListed(page inbox.ListedPage) *messagingv1.ListInboundResponse {
	answer := &messagingv1.ListInboundResponse{NextPageToken: page.Next}
	for _, m := range page.Messages {
		listed := &messagingv1.InboundText{TwilioSid: m.SID, SentAt: timestamppb.New(m.SentAt), Recorded: m.Recorded}
		if !m.Recorded {
			listed.From, listed.To, listed.MessagingServiceSid, listed.Body = m.From, m.To, m.ServiceSID, m.Body
			listed.Segments, listed.Media = int32Of(m.Segments), int32Of(m.Media)
		}
		answer.Texts = append(answer.Texts, listed)
	}
	return answer
}
