package console

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/gateway/console/signin"
	auditv1 "paceline.internal/proto/gen/paceline/audit/v1"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	overviewv1 "paceline.internal/proto/gen/paceline/overview/v1"
)

// pausable is onboarding as far as the overview asks it.
type pausable struct {
	onboardingv1.OnboardingServiceClient

	pause *onboardingv1.SchedulingPause
}

func (p *pausable) GetOverview(
	context.Context, *onboardingv1.GetOverviewRequest, ...grpc.CallOption,
) (*onboardingv1.GetOverviewResponse, error) {
	return &onboardingv1.GetOverviewResponse{SchedulingPause: p.pause}, nil
}

func (p *pausable) GetOnboardingTrend(
	context.Context, *onboardingv1.GetOnboardingTrendRequest, ...grpc.CallOption,
) (*onboardingv1.GetOnboardingTrendResponse, error) {
	return &onboardingv1.GetOnboardingTrendResponse{}, nil
}

func (p *pausable) GetSettings(
	context.Context, *onboardingv1.GetSettingsRequest, ...grpc.CallOption,
) (*onboardingv1.GetSettingsResponse, error) {
	return &onboardingv1.GetSettingsResponse{}, nil
}

func (p *pausable) PauseScheduling(
	_ context.Context, in *onboardingv1.PauseSchedulingRequest, _ ...grpc.CallOption,
) (*onboardingv1.PauseSchedulingResponse, error) {
	p.pause = &onboardingv1.SchedulingPause{
		Since: timestamppb.New(time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)), By: &auditv1.Actor{Subject: "ada"}, Reason: in.GetReason(),
	}
	return &onboardingv1.PauseSchedulingResponse{Pause: p.pause}, nil
}

func (p *pausable) ResumeScheduling(
	context.Context, *onboardingv1.ResumeSchedulingRequest, ...grpc.CallOption,
) (*onboardingv1.ResumeSchedulingResponse, error) {
	p.pause = nil
	return &onboardingv1.ResumeSchedulingResponse{Resumed: true}, nil
}

// sending is messaging as far as the overview asks it.
type sending struct {
	messagingv1.MessagingServiceClient
}

func (sending) GetMessagingOverview(
	context.Context, *messagingv1.GetMessagingOverviewRequest, ...grpc.CallOption,
) (*messagingv1.GetMessagingOverviewResponse, error) {
	return &messagingv1.GetMessagingOverviewResponse{Undelivered: []*messagingv1.UndeliveredMinute{
		{OnTheirWay: &overviewv1.Count{Count: 3}, Failed: &overviewv1.Count{Count: 1}},
	}}, nil
}

func (sending) GetMessagingTrend(
	context.Context, *messagingv1.GetMessagingTrendRequest, ...grpc.CallOption,
) (*messagingv1.GetMessagingTrendResponse, error) {
	return nil, status.Error(codes.Unimplemented, "unknown method") // of the release before
}

// noTickets is an onboarding of the release before.
type noTickets struct {
	onboardingv1.TicketServiceClient
}

func (noTickets) ListTickets(
	context.Context, *onboardingv1.ListTicketsRequest, ...grpc.CallOption,
) (*onboardingv1.ListTicketsResponse, error) {
	return nil, status.Error(codes.Unimplemented, "unknown service")
}

func TestSchedulingIsPausedAndResumedOnTheOverview(t *testing.T) {
	t.Parallel()
	onboarding := &pausable{}
	s := opens(t, func(cfg *Config) {
		cfg.Services.Onboarding, cfg.Services.Messaging, cfg.Services.Tickets = onboarding, sending{}, noTickets{}
	})
	require.Equal(t, http.StatusOK, s.post(signin.PathSignIn, url.Values{"token": {"good operator"}}).StatusCode)
	shown := func() string {
		body, err := io.ReadAll(s.get(s.URL + root).Body)
		require.NoError(t, err)
		return string(body)
	}
	before := shown()
	require.Contains(t, before, `action="/console/scheduling/pause"`)
	require.Contains(t, before, "STOP still works", "it says first what it will do")
	require.NotContains(t, before, "paused by an operator")
	require.Contains(t, before, `aria-label="Last hour: 3 on their way, 1 not delivered"`)

	const hostile = "<script>alert(1)</script>"
	s.post(root+"/scheduling/pause", url.Values{"reason": {hostile}})
	require.Equal(t, hostile, onboarding.pause.GetReason())
	during := shown()
	require.Contains(t, during, `action="/console/scheduling/resume"`)
	require.Contains(t, during, "paused by an operator")
	require.Contains(t, during, "<bdi>ada</bdi>")
	require.Contains(t, during, "&lt;script&gt;")
	require.Equal(t, 1, strings.Count(during, "Resume scheduling</summary>"))

	s.post(root+"/scheduling/resume", url.Values{})
	require.Nil(t, onboarding.pause)
	require.NotContains(t, shown(), "paused by an operator")
}
