package messagingtest

import (
	"context"

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
}

// SetReminders keeps what was said last.
func (s *Service) SetReminders(_ context.Context, in *messagingv1.SetRemindersRequest) (*messagingv1.SetRemindersResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, unavailable()
	}
	s.say(in)
	held := s.silent[in.GetPhone()]
	return &messagingv1.SetRemindersResponse{Reminders: held.GetReminders(), Source: held.GetSource(), SaidAt: held.GetSaidAt()}, nil
}

// say keeps what is said later. While the person's own words have switched the reminders off, an operator changes nothing.
func (s *Service) say(in *messagingv1.SetRemindersRequest) {
	held := s.silent[in.GetPhone()]
	bound := held.GetReminders() == off && held.GetSource() == "person" && in.GetSource() == "operator"
	if held == nil || held.GetSaidAt().AsTime().Before(in.GetSaidAt().AsTime()) && !bound {
		s.silent[in.GetPhone()] = in
	}
}

// RemindersOff reports whether a phone wants no reminders.
func (s *Service) RemindersOff(phone string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.silent[phone].GetReminders() == off
}
