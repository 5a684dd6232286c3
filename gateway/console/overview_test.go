package console

import (
	"net/http"
	"testing"
	"time"

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
	httpStatus, body := b.page(root + "?span=hour")
	require.Equal(t, http.StatusOK, httpStatus)
	require.Contains(t, body, "Last hour: 27 texts: 21 delivered, 3 on their way, 3 not delivered or refused")
	require.NotContains(t, body, "at least")
	for _, to := range []string{"/console/needs?kind=session", "/console/people?held=on"} {
		require.Contains(t, body, `<li class="card bad"><a href="`+to+`">`)
	}
}

func TestOverviewSaysHowADayAWeekAndAMonthWent(t *testing.T) {
	t.Parallel()
	b, s := meets(t, string(rpc.RoleOperator))
	period := func(begins time.Duration) *messagingv1.MessagingPeriod {
		return &messagingv1.MessagingPeriod{
			BeginsAt: at(begins), Delivered: 1200, Failed: 50, UnderWay: 3, Replies: 30, OptOuts: 2, Segments: 2400,
			Countries: []*messagingv1.CountrySegments{{CountryCode: "+55", Segments: 2400}},
		}
	}
	s.says("GetMessagingTrend", &messagingv1.GetMessagingTrendResponse{
		CountedUntil: at(0), Periods: []*messagingv1.MessagingPeriod{period(-24 * time.Hour), period(0)},
		Countries: []*messagingv1.CountrySegments{{CountryCode: "+55", Messages: 2453, Segments: 4800}, {Messages: 1, Segments: 1}},
	})
	n := &overviewv1.Count{Count: 10_000, More: true}
	s.says("GetOnboardingTrend", &onboardingv1.GetOnboardingTrendResponse{Periods: []*onboardingv1.OnboardingPeriod{
		{BeginsAt: at(-24 * time.Hour), Completed: n}, {BeginsAt: at(0), Completed: n},
	}})
	for chosen, span := range map[string]string{"": "day", "?span=week": "week", "?span=month&zone=America/Sao_Paulo": "month", "?span=year": "day"} {
		httpStatus, body := b.page(root + chosen)
		require.Equal(t, http.StatusOK, httpStatus)
		require.Regexp(t, `href="/console\?span=`+span+`" aria-current="true"`, body)
		require.Contains(t, body, `delivered 2,400, on their way, or without a receipt 6, not delivered 100"`)
		require.Contains(t, body, "<strong>2,506</strong> <span class=\"hint\">95% delivered</span>")
		require.Contains(t, body, `replies 56, opt-outs 4"`)
		require.Contains(t, body, "<strong>20,000+</strong>")
		require.Contains(t, body, `<th scope="row">&#43;55</th><td class="number">2,453</td><td class="number">4,800</td>`)
		asked := s.asked["GetMessagingTrend"]
		require.Equal(t, span, asked[len(asked)-1].(*messagingv1.GetMessagingTrendRequest).GetSpan())
	}
	_, body := b.page(root + "?span=month")
	require.NotContains(t, body, "Cost of what was sent", "no price is made up")
	s.says("GetSettings", &onboardingv1.GetSettingsResponse{Settings: &onboardingv1.Settings{SegmentPrices: &onboardingv1.SegmentPrices{
		Currency: "BRL", Prices: map[string]string{"+55": "0.0525"},
	}}})
	_, body = b.page(root + "?span=month")
	require.Contains(t, body, "BRL\u00a0252.00")
	require.Contains(t, body, `<td class="number">0.0525</td>`)
	require.Contains(t, body, "1 segment went to a country that has no price")
	require.Contains(t, body, "Nov 24\nCost of what was sent BRL\u00a0126.00")
	require.Contains(t, body, "Times and days are those of America/Sao_Paulo.")
	asked := s.asked["GetOnboardingTrend"]
	require.Equal(t, "America/Sao_Paulo", asked[len(asked)-1].(*onboardingv1.GetOnboardingTrendRequest).GetTimeZone())
}
