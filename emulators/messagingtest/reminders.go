package messagingtest

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
)

// switchedOff are the purposes that are refused while a person wants no reminders.
var switchedOff = []string{"goodbye", "reminder", "weekly_review", "invite", "post_event"}

const (
	off = messagingv1.Switch_SWITCH_OFF
	on  = messagingv1.Switch_SWITCH_ON
)

// preferences are the words about reminders, and about tips, that are read.
var preferences = map[string][2]messagingv1.Switch{
	"stop reminders": {off}, "start reminders": {on}, "stop tips": {0, off}, "start tips": {0, on}, "no more reminders or tips": {off, off},
	"stop sending me reminders": {off}, "parar lembretes": {off}, "ativar lembretes": {on},
}

// prefer keeps what a message says of reminders, and returns what it asks of reminders and of tips.
func (s *Service) prefer(in *messagingv1.RecordInboundRequest) [2]messagingv1.Switch {
	if s.older {
		return [2]messagingv1.Switch{}
	}
	asked := preferences[strings.ToLower(strings.TrimSpace(in.GetBody()))]
	if asked[0] != messagingv1.Switch_SWITCH_UNSPECIFIED {
		s.say(&messagingv1.SetRemindersRequest{Phone: in.GetFrom(), Reminders: asked[0], Source: "person", SaidAt: in.GetReceivedAt()})
	}
	return asked
}

// SetReminders keeps what was said last.
func (s *Service) SetReminders(ctx context.Context, in *messagingv1.SetRemindersRequest) (*messagingv1.SetRemindersResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := in.GetReminders() == off || in.GetReminders() == on
	switch {
	case s.down:
		return nil, unavailable()
	case s.older:
		return s.UnimplementedMessagingServiceServer.SetReminders(ctx, in)
	case !known || in.GetSource() != "person" && in.GetSource() != "operator" || !strings.HasPrefix(in.GetPhone(), "+"):
		return nil, refuse(codes.InvalidArgument, messagingv1.Reason_REASON_INVALID)
	}
	s.say(in)
	held := s.silent[in.GetPhone()]
	return &messagingv1.SetRemindersResponse{Reminders: held.GetReminders(), Source: held.GetSource(), SaidAt: held.GetSaidAt()}, nil
}

// say keeps what is said, unless something was said later, or at the same time before. While the person's own words have switched the
// reminders off, an operator changes nothing.
func (s *Service) say(in *messagingv1.SetRemindersRequest) {
	said, held := proto.CloneOf(in), s.silent[in.GetPhone()]
	if said.GetSaidAt() == nil {
		said.SaidAt = timestamppb.New(s.now())
	}
	bound := held.GetReminders() == off && held.GetSource() == "person" && in.GetSource() == "operator"
	if held == nil || said.GetSaidAt().AsTime().After(held.GetSaidAt().AsTime()) && !bound {
		s.silent[in.GetPhone()] = said
	}
}

func (s *Service) refusesReminder(in *messagingv1.SendRequest) bool {
	return s.silent[in.GetTo()].GetReminders() == off && slices.Contains(switchedOff, in.GetPurpose())
}

// RemindersOff reports whether a phone wants no reminders.
func (s *Service) RemindersOff(phone string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.silent[phone].GetReminders() == off
}
