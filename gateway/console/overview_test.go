package console

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	overviewv1 "paceline.internal/proto/gen/paceline/overview/v1"
)

func TestOverviewSaysWhatBecameOfTheTextsOfTheLastHourAndLeadsToWhatWaits(t *testing.T) {
	t.Parallel()
	b, s := meets(t, string(rpc.RoleOperator))
	s.says("GetOverview", &onboardingv1.GetOverviewResponse{Attention: &onboardingv1.Attention{
		ParkedSessions: &overviewv1.Count{Count: 1}, HeldPeople: &overviewv1.Count{Count: 2},
	}})
	n := func(n int32) *overviewv1.Count { return &overviewv1.Count{Count: n} }
	s.says("GetMessagingOverview", &messagingv1.GetMessagingOverviewResponse{Undelivered: []*messagingv1.UndeliveredMinute{
		{Delivered: n(20), OnTheirWay: n(0), Failed: n(1), Rejected: n(2)}, {Delivered: n(1), OnTheirWay: n(3), Failed: n(0), Rejected: n(0)},
	}})
	httpStatus, body := b.page(root)
	require.Equal(t, http.StatusOK, httpStatus)
	require.Contains(t, body, "Last hour: 27 texts: 21 delivered, 3 on their way, 3 not delivered or refused")
	require.NotContains(t, body, "at least")
	for _, to := range []string{"/console/needs?kind=session", "/console/people?held=on"} {
		require.Contains(t, body, `<li class="card bad"><a href="`+to+`">`)
	}
}
