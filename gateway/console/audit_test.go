package console

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"paceline.internal/platform/rpc"
	auditv1 "paceline.internal/proto/gen/paceline/audit/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

func TestAuditPage(t *testing.T) {
	t.Parallel()
	b, s := meets(t, string(rpc.RoleOperator))
	s.says("ListAudit", &onboardingv1.ListAuditResponse{NextPageToken: "two", Entries: []*auditv1.AuditEntry{{
		At: at(-time.Hour), Actor: &auditv1.Actor{Subject: hostile, Role: "operator", ClientAddress: "192.0.2.7"},
		Method: "paceline.onboarding.v1.OnboardingService/HoldProfile", ProfileId: anasID, TargetId: sessionID,
	}}})
	asks := url.Values{"subject": {"bea"}, "profile": {"+1 202 555 0143"}, "target": {sessionID}, "page": {"one"}}
	httpStatus, body := b.page(root + "/audit?" + asks.Encode())
	require.Equal(t, http.StatusOK, httpStatus)
	in := calls[*onboardingv1.ListAuditRequest](s, "ListAudit")[0]
	require.Equal(t, []string{"bea", anasID, sessionID, "one"}, []string{in.GetSubject(), in.GetProfileId(), in.GetTargetId(), in.GetPageToken()})
	for _, want := range []string{`<span title="HoldProfile">hold</span>`, "(operator)", "192.0.2.7", `href="/console/people/` + anasID, "it may have happened", "page=two"} {
		require.Contains(t, body, want)
	}
	require.NotContains(t, body, "<script>alert")

	require.False(t, in.GetChanges())
	require.Nil(t, in.GetSince())

	_, body = b.page(root + "/audit")
	in = calls[*onboardingv1.ListAuditRequest](s, "ListAudit")[1]
	require.True(t, in.GetChanges(), "without a filter, what changed something")
	require.NotNil(t, in.GetSince())
	require.Contains(t, body, "only=changes")
	require.Contains(t, body, `href="/console/people/`+anasID+`"><bdi>`, "a change names its person")
	s.says("ListAudit", &onboardingv1.ListAuditResponse{Entries: []*auditv1.AuditEntry{{At: at(0), Method: "x.Y/ListAudit"}}})
	_, body = b.page(root + "/audit?from=2026-11-23&to=2026-11-24&zone=America/Sao_Paulo")
	in = calls[*onboardingv1.ListAuditRequest](s, "ListAudit")[2]
	require.Equal(t, []string{"2026-11-23T03:00:00Z", "2026-11-25T03:00:00Z"}, []string{
		in.GetSince().AsTime().Format(time.RFC3339), in.GetUntil().AsTime().Format(time.RFC3339),
	}, "days of the reader's zone, both of them whole")
	require.Contains(t, body, "under way")
	_, body = b.page(root + "/audit?from=yesterday")
	require.Contains(t, body, "A day is written as in")

	s.refuses("ListAudit", codes.InvalidArgument, "target_id must be a UUID")
	_, body = b.page(root + "/audit?target=abc")
	require.Contains(t, body, "target_id must be a UUID")
	require.Contains(t, body, `value="abc"`)
	before := len(calls[*onboardingv1.ListAuditRequest](s, "ListAudit"))
	s.says("ListProfiles", &onboardingv1.ListProfilesResponse{})
	_, body = b.page(root + "/audit?profile=Bia")
	require.Contains(t, body, "No person is found.")
	require.Len(t, calls[*onboardingv1.ListAuditRequest](s, "ListAudit"), before, "a filter that names no person is not left out")

	user, _ := meets(t, string(rpc.RoleUser))
	httpStatus, _ = user.page(root + "/audit")
	require.Equal(t, http.StatusForbidden, httpStatus)
}
