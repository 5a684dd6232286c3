package messagingtest

import (
	"context"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
)

// heardPage is the number of messages on a page of ListInbound: few, so that every test reads several pages.
const heardPage = 2

// Hear puts a message into the carrier's own record, whether its webhook comes or not, and returns it.
func (s *Service) Hear(text *messagingv1.InboundText, at time.Time) *messagingv1.InboundText {
	s.mu.Lock()
	defer s.mu.Unlock()
	text.SentAt = timestamppb.New(at.Truncate(time.Second))
	s.heard = append(s.heard, text)
	return text
}

// Listed returns how many pages of the carrier's record were read.
func (s *Service) Listed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pages
}

// ListInbound pages through the carrier's record, the newest first.
func (s *Service) ListInbound(_ context.Context, in *messagingv1.ListInboundRequest) (*messagingv1.ListInboundResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.down:
		return nil, unavailable()
	case in.GetOrgId() != s.orgID:
		return nil, refuse(codes.FailedPrecondition, messagingv1.Reason_REASON_ORGANISATION_WITHOUT_SENDER)
	}
	s.pages++
	since, until := in.GetSince().AsTime().Truncate(time.Second), in.GetUntil().AsTime()
	var within []*messagingv1.InboundText
	for _, t := range s.heard {
		if at := t.GetSentAt().AsTime(); !at.Before(since) && !at.After(until) {
			within = append(within, t)
		}
	}
	slices.SortStableFunc(within, func(a, b *messagingv1.InboundText) int { return b.GetSentAt().AsTime().Compare(a.GetSentAt().AsTime()) })
	from, err := strconv.Atoi("0" + in.GetPageToken())
	if err != nil || from > len(within) {
		return nil, refuse(codes.InvalidArgument, messagingv1.Reason_REASON_INVALID)
	}
	to := min(from+heardPage, len(within))
	answer := &messagingv1.ListInboundResponse{}
	for _, t := range within[from:to] {
		answer.Texts = append(answer.Texts, s.asHeard(t, in.GetRecordedToo()))
	}
	switch {
	case to < len(within):
		answer.NextPageToken = strconv.Itoa(to)
	case s.refused && from < to:
		answer.NextPageToken = strconv.Itoa(to)
	case s.refused:
		return nil, unavailable()
	}
	return answer, nil
}

// SetDisabled has all senders be disabled: they send nothing, and still receive.
func (s *Service) SetDisabled(disabled bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.disabled = disabled
}

// SetRefused has one of the senders refuse to be listed, which is reported after the pages of the others.
func (s *Service) SetRefused(refused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = refused
}

// asHeard leaves out everything else of a message that is recorded, unless that is asked for.
func (s *Service) asHeard(t *messagingv1.InboundText, recordedToo bool) *messagingv1.InboundText {
	if _, recorded := s.inbound[t.GetTwilioSid()]; recorded {
		if recordedToo {
			whole := proto.CloneOf(t)
			whole.Recorded = true
			return whole
		}
		return &messagingv1.InboundText{TwilioSid: t.GetTwilioSid(), SentAt: t.GetSentAt(), Recorded: true}
	}
	return t
}
