package server

import (
	"cmp"
	"context"
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/postgres"
	"paceline.internal/services/onboarding/session"
)

// GetSettings reads what the caller's organisation has decided.
func (s *Server) GetSettings(ctx context.Context, _ *onboardingv1.GetSettingsRequest) (*onboardingv1.GetSettingsResponse, error) {
	found, err := s.Store.Settings(ctx, org(ctx))
	if err != nil {
		return nil, answer(err)
	}
	return &onboardingv1.GetSettingsResponse{Settings: settings(ctx, found)}, nil
}

// UpdateSettings decides it anew.
func (s *Server) UpdateSettings(
	ctx context.Context, in *onboardingv1.UpdateSettingsRequest,
) (*onboardingv1.UpdateSettingsResponse, error) {
	hours := in.GetSettings().GetQuietHours()
	if hours == nil {
		return nil, invalid("settings.quiet_hours is required, such as %s", `{"enabled": true, "open": "08:00", "close": "21:00"}`)
	}
	window, err := quietWindow(hours)
	if err != nil {
		return nil, answer(err)
	}
	stored, err := s.Store.SetSettings(ctx, org(ctx), postgres.Settings{
		QuietHours: hours.GetEnabled(), Window: window, RequireConsentRecord: in.GetSettings().RequireConsentRecord,
	}, s.Now())
	if err != nil {
		return nil, answer(err)
	}
	return &onboardingv1.UpdateSettingsResponse{Settings: settings(ctx, stored)}, nil
}

// quietWindow reads the times; one that is left out is the usual one.
func quietWindow(hours *onboardingv1.QuietHours) (session.Window, error) {
	opens, err := session.ParseTimeOfDay(cmp.Or(hours.GetOpen(), session.DefaultOpen.String()))
	if err != nil {
		return session.Window{}, fmt.Errorf("settings.quiet_hours.open: %w", err)
	}
	closes, err := session.ParseTimeOfDay(cmp.Or(hours.GetClose(), session.DefaultClose.String()))
	if err != nil {
		return session.Window{}, fmt.Errorf("settings.quiet_hours.close: %w", err)
	}
	return session.NewWindow(opens, closes)
}

func settings(ctx context.Context, found postgres.Settings) *onboardingv1.Settings {
	out := &onboardingv1.Settings{RequireConsentRecord: found.RequireConsentRecord, QuietHours: &onboardingv1.QuietHours{
		Enabled: found.QuietHours, Open: found.Window.Opens().String(), Close: found.Window.Closes().String(),
	}}
	if !found.UpdatedAt.IsZero() {
		out.UpdatedAt, out.UpdatedBy = timestamppb.New(found.UpdatedAt), actor(ctx, found.UpdatedBy)
	}
	return out
}
