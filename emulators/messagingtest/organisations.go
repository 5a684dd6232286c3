package messagingtest

import (
	"context"

	"google.golang.org/grpc/codes"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
)

// SetOrganisation keeps the highest version of the status of the organisation.
func (s *Service) SetOrganisation(
	_ context.Context, in *messagingv1.SetOrganisationRequest,
) (*messagingv1.SetOrganisationResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, unavailable()
	}
	if in.GetOrgId() == s.orgID && in.GetVersion() > s.status.GetVersion() {
		s.status = in
	}
	return &messagingv1.SetOrganisationResponse{}, nil
}

// SetOrganisationSettings keeps the highest version of what the organisation has decided about sending.
func (s *Service) SetOrganisationSettings(
	_ context.Context, in *messagingv1.SetOrganisationSettingsRequest,
) (*messagingv1.SetOrganisationSettingsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, unavailable()
	}
	if in.GetOrgId() != s.orgID {
		return &messagingv1.SetOrganisationSettingsResponse{Version: in.GetVersion()}, nil
	}
	if in.GetVersion() >= s.settings.GetVersion() {
		s.settings = in
	}
	return &messagingv1.SetOrganisationSettingsResponse{Version: s.settings.GetVersion()}, nil
}

// Settings returns what the organisation has decided about sending, and its version.
func (s *Service) Settings() (*messagingv1.Sending, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settings.GetSending(), s.settings.GetVersion()
}

// Retention returns how long the organisation has decided to keep what is messaging's.
func (s *Service) Retention() *messagingv1.Retention {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settings.GetRetention()
}

// ForgetOrganisation keeps that the senders of the organisation are deleted, once it has ended. The first call leaves numbers to be erased.
func (s *Service) ForgetOrganisation(
	_ context.Context, in *messagingv1.ForgetOrganisationRequest,
) (*messagingv1.ForgetOrganisationResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, unavailable()
	}
	more := false
	if in.GetOrgId() == s.orgID {
		if s.status.GetStatus() != "ended" {
			return nil, refuse(codes.InvalidArgument, messagingv1.Reason_REASON_INVALID)
		}
		more, s.forgotten = !s.forgotten, true
	}
	return &messagingv1.ForgetOrganisationResponse{More: more}, nil
}

// Forgotten reports whether the senders of the organisation are deleted.
func (s *Service) Forgotten() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.forgotten
}

// Status returns the status that the organisation was last set to, and its version.
func (s *Service) Status() (status string, version int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status.GetStatus(), s.status.GetVersion()
}
