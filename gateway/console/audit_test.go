package console

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"paceline.internal/platform/rpc"
	auditv1 "paceline.internal/proto/gen/paceline/audit/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

func TestAuditPage(t *testing.T) {
	t.Parallel()
	b, s := meets(t, string(rpc.RoleOperator))
	s.says("ListProfiles", &onboardingv1.ListProfilesResponse{Profiles: []*onboardingv1.Profile{ana()}})
	s.says("ListAudit", &onboardingv1.ListAuditResponse{NextPageToken: "two", Entries: []*auditv1.AuditEntry{{
		At: at(0), Actor: &auditv1.Actor{Subject: hostile, Role: "operator", ClientAddress: "192.0.2.7"},
		Method: "paceline.onboarding.v1.OnboardingService/HoldProfile", ProfileId: anasID, TargetId: sessionID,
	}}})
	asks := url.Values{"subject": {"bea"}, "profile": {"+1 202 555 0143"}, "target": {sessionID}, "page": {"one"}}
	httpStatus, body := b.page(root + "/audit?" + asks.Encode())
	require.Equal(t, http.StatusOK, httpStatus)
	in := calls[*onboardingv1.ListAuditRequest](s, "ListAudit")[0]
	require.Equal(t, []string{"bea", anasID, sessionID, "one"}, []string{in.GetSubject(), in.GetProfileId(), in.GetTargetId(), in.GetPageToken()})
	for _, want := range []string{"HoldProfile</code>", "(operator)", "192.0.2.7", `href="/console/people/` + anasID, "it may have happened", "page=two"} {
		require.Contains(t, body, want)
	}
	require.NotContains(t, body, "<script>alert")

	s.refuses("ListAudit", codes.InvalidArgument, "target_id must be a UUID")
	_, body = b.page(root + "/audit?target=abc")
	require.Contains(t, body, "target_id must be a UUID")
	require.Contains(t, body, `value="abc"`)
	before := len(calls[*onboardingv1.ListAuditRequest](s, "ListAudit"))
	_, body = b.page(root + "/audit?profile=Ana")
	require.Contains(t, body, "Type a person&#39;s phone number")
	require.Len(t, calls[*onboardingv1.ListAuditRequest](s, "ListAudit"), before, "a filter that names no person is not left out")

	user, _ := meets(t, string(rpc.RoleUser))
	httpStatus, _ = user.page(root + "/audit")
	require.Equal(t, http.StatusForbidden, httpStatus)
}
