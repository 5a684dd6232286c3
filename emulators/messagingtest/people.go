package messagingtest

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
)

// SetHold holds or releases a phone; the later version counts.
func (s *Service) SetHold(ctx context.Context, in *messagingv1.SetHoldRequest) (*messagingv1.SetHoldResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.down:
		return nil, unavailable()
	case s.older:
		return s.UnimplementedMessagingServiceServer.SetHold(ctx, in)
	case in.GetVersion() < 1:
		return nil, refuse(codes.InvalidArgument, messagingv1.Reason_REASON_INVALID)
	case s.holds[in.GetPhone()].GetVersion() < in.GetVersion():
		s.holds[in.GetPhone()] = in
	}
	return &messagingv1.SetHoldResponse{}, nil
}

// Held reports whether a phone is on hold, or held by words that may be an opt-out.
func (s *Service) Held(phone string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holds[phone].GetHeld() || s.words[phone] != ""
}

// JudgeWords ends the hold by words that may be an opt-out.
func (s *Service) JudgeWords(ctx context.Context, in *messagingv1.JudgeWordsRequest) (*messagingv1.JudgeWordsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.down:
		return nil, unavailable()
	case s.older:
		return s.UnimplementedMessagingServiceServer.JudgeWords(ctx, in)
	}
	delete(s.words, in.GetPhone())
	return &messagingv1.JudgeWordsResponse{}, nil
}

// RecordInbound stores a message once per SID and applies the consent keywords.
func (s *Service) RecordInbound(_ context.Context, in *messagingv1.RecordInboundRequest) (*messagingv1.RecordInboundResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last[in.GetTwilioSid()] = in
	switch stored, known := s.inbound[in.GetTwilioSid()]; {
	case s.down:
		return nil, unavailable()
	case known:
		return s.inForce(stored, in), nil
	case !strings.HasPrefix(in.GetFrom(), "+"):
		return nil, refuse(codes.InvalidArgument, messagingv1.Reason_REASON_INVALID)
	case in.GetOrgId() == "" && in.GetTo() != s.ours:
		return nil, refuse(codes.NotFound, messagingv1.Reason_REASON_UNKNOWN_SENDER)
	}
	effect := messagingv1.ConsentEffect_CONSENT_EFFECT_NONE
	switch word := strings.ToUpper(strings.TrimSpace(cmp.Or(in.GetOptOutType(), in.GetBody()))); word {
	case "STOP", "START":
		said := in.GetReceivedAt().AsTime()
		if said.Before(s.decided[in.GetFrom()]) {
			effect = messagingv1.ConsentEffect_CONSENT_EFFECT_OVERTAKEN
			break
		}
		s.decided[in.GetFrom()] = said
		effect = messagingv1.ConsentEffect_CONSENT_EFFECT_OPT_IN
		delete(s.stopped, in.GetFrom())
		delete(s.words, in.GetFrom())
		if word == "STOP" {
			effect = messagingv1.ConsentEffect_CONSENT_EFFECT_OPT_OUT
			s.stopped[in.GetFrom()] = true
		}
	case "HELP":
		effect = messagingv1.ConsentEffect_CONSENT_EFFECT_HELP
	case "LEAVE ME ALONE", "STOP SENDING ME REMINDERS":
		effect = messagingv1.ConsentEffect_CONSENT_EFFECT_DOUBTFUL
	}
	lifts := false
	if strings.EqualFold(in.GetBody(), "yes") && s.words[in.GetFrom()] != "" && !s.older {
		lifts = true
		delete(s.words, in.GetFrom())
	}
	asked := s.prefer(in)
	answer := &messagingv1.RecordInboundResponse{
		OrgId: s.orgID, ConsentEffect: effect, Reminders: asked[0], Tips: asked[1], LiftsHold: lifts,
		Message: &messagingv1.Message{
			MessageId: uuid.Must(uuid.NewV7()).String(), Direction: "inbound", From: in.GetFrom(), To: in.GetTo(), Body: in.GetBody(),
			TwilioSid: in.GetTwilioSid(), Status: "received", CreatedAt: timestamppb.New(s.now()),
		},
	}
	if effect == messagingv1.ConsentEffect_CONSENT_EFFECT_DOUBTFUL && asked == [2]messagingv1.Switch{} && !s.older {
		s.words[in.GetFrom()] = answer.GetMessage().GetMessageId()
	}
	s.inbound[in.GetTwilioSid()] = answer
	return s.inForce(answer, in), nil
}

// inForce adds to an opt-out whether it still holds, and leaves out what the caller does not read.
func (s *Service) inForce(
	stored *messagingv1.RecordInboundResponse, in *messagingv1.RecordInboundRequest,
) *messagingv1.RecordInboundResponse {
	answer := proto.CloneOf(stored)
	switch asks := answer.GetReminders() != 0 || answer.GetTips() != 0; {
	case s.older || !in.GetUnderstandsPreferences():
		answer.Reminders, answer.Tips = messagingv1.Switch_SWITCH_UNSPECIFIED, messagingv1.Switch_SWITCH_UNSPECIFIED
	case asks:
		answer.ConsentEffect = messagingv1.ConsentEffect_CONSENT_EFFECT_NONE
	}
	if answer.GetConsentEffect() == messagingv1.ConsentEffect_CONSENT_EFFECT_OPT_OUT {
		answer.ConsentState = map[bool]string{true: "opted_out", false: "opted_in"}[s.stopped[in.GetFrom()]]
	}
	return answer
}

// Inbound returns how a message was recorded last, and nil when it never was.
func (s *Service) Inbound(sid string) *messagingv1.RecordInboundRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last[sid]
}

// Own makes another number the organisation's.
func (s *Service) Own(number string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ours = number
}

// CheckSender knows one organisation.
func (s *Service) CheckSender(_ context.Context, in *messagingv1.CheckSenderRequest) (*messagingv1.CheckSenderResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.down:
		return nil, unavailable()
	case in.GetOrgId() != s.orgID || s.disabled:
		return nil, refuse(codes.FailedPrecondition, messagingv1.Reason_REASON_ORGANISATION_WITHOUT_SENDER)
	}
	answer := &messagingv1.CheckSenderResponse{Sender: s.ours}
	if !s.older {
		answer.Suspended = s.status != nil && s.status.GetStatus() != "active"
		answer.OptedOut, answer.UnjudgedMessageId = s.stopped[in.GetTo()], s.words[in.GetTo()]
		answer.Unrecorded = !slices.ContainsFunc(s.calls, func(sent *messagingv1.SendRequest) bool { return sent.GetTo() == in.GetTo() })
	}
	return answer, nil
}

// SetTurns has ReserveSends give so many turns, and then none for an hour.
func (s *Service) SetTurns(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turns = &n
}

// ReserveSends gives every message a turn, unless SetTurns has set how many there are.
func (s *Service) ReserveSends(_ context.Context, in *messagingv1.ReserveSendsRequest) (*messagingv1.ReserveSendsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, unavailable()
	}
	if n := s.refusedOf(in.GetBegun()); n >= 16 {
		return &messagingv1.ReserveSendsResponse{Refused: &messagingv1.ReserveRefusal{
			ErrorCode: ConfigCode, Messages: int32(n), //nolint:gosec // of a request
			Explanation: "Twilio does not know our account; to do: correct TWILIO_AUTH_TOKEN",
		}}, nil
	}
	n := len(in.GetSegments())
	answer := &messagingv1.ReserveSendsResponse{}
	if s.turns != nil {
		if n > *s.turns {
			n, answer.RetryAfter = *s.turns, durationpb.New(time.Hour)
		}
		*s.turns -= n
	}
	answer.Reserved = int32(n) //nolint:gosec // of a request
	return answer, nil
}

// refusedOf counts the newest conversations in a row that were refused because of our account.
func (s *Service) refusedOf(begun []*messagingv1.BegunConversation) (n int) {
	for _, b := range begun {
		for key, r := range s.rows {
			if !strings.HasPrefix(key, b.GetKeyPrefix()) {
				continue
			}
			if r.message.GetErrorCode() != ConfigCode {
				return n
			}
			n++
		}
	}
	return n
}

// GetUnfinished finds a message that is on its way or in doubt; it keeps no queue of texts.
func (s *Service) GetUnfinished(ctx context.Context, in *messagingv1.GetUnfinishedRequest) (*messagingv1.GetUnfinishedResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.down:
		return nil, unavailable()
	case s.older:
		return s.UnimplementedMessagingServiceServer.GetUnfinished(ctx, in)
	}
	for _, r := range s.rows {
		if status := r.status(); r.message.GetTo() == in.GetPhone() && slices.Contains([]string{"sending", "unknown", "parked"}, status) {
			return &messagingv1.GetUnfinishedResponse{MessageId: r.message.GetMessageId(), MessageStatus: status}, nil
		}
	}
	return &messagingv1.GetUnfinishedResponse{}, nil
}
