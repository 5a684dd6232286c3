package console

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

func TestLedgerPage(t *testing.T) {
	t.Parallel()
	ledger := func(b *site, phone string) string {
		httpStatus, body := b.page(root + "/ledger?" + url.Values{"phone": {phone}}.Encode())
		require.Equal(t, http.StatusOK, httpStatus)
		return body
	}
	t.Run("SaysWhatIsWrongWithAPhoneAndKeepsIt", func(t *testing.T) {
		t.Parallel()
		b, s := meets(t, string(rpc.RoleOperator))
		s.refuses("GetConsent", codes.InvalidArgument, "phone is no number")
		body := ledger(b, "abc")
		require.Contains(t, body, "phone is no number")
		require.Contains(t, body, `value="abc"`)
	})
	t.Run("SaysThatNothingIsRecorded", func(t *testing.T) {
		t.Parallel()
		b, s := meets(t, string(rpc.RoleOperator))
		s.refuses("GetConsent", codes.NotFound, "there is none")
		body := ledger(b, "+1 202 555 0143")
		require.Contains(t, body, "Nothing is recorded of this number.")
		require.Contains(t, body, `value="&#43;1 202 555 0143"`)
	})
	t.Run("SaysWhoseThePhoneIs", func(t *testing.T) {
		t.Parallel()
		b, s := meets(t, string(rpc.RoleOperator))
		s.says("GetConsent", &messagingv1.GetConsentResponse{Consent: &messagingv1.Consent{Phone: "+12025550143", State: "opted_in"}})
		require.Contains(t, ledger(b, "+12025550143"), `<a href="/console/people/`+anasID+`">`)
		s.refuses("ListProfiles", codes.Unavailable, "onboarding is away")
		body := ledger(b, "+12025550143")
		require.Contains(t, body, "onboarding is away", "in its place")
		require.Contains(t, body, "opted in", "the ledger is shown")
	})
}

func TestGoalsOfAPerson(t *testing.T) {
	t.Parallel()
	goals := func(b *site, who string) string {
		httpStatus, body := b.page(root + "/goals?" + url.Values{"profile": {who}}.Encode())
		require.Equal(t, http.StatusOK, httpStatus)
		return body
	}
	t.Run("AreFoundByPhone", func(t *testing.T) {
		t.Parallel()
		b, s := meets(t, string(rpc.RoleOperator))
		require.Contains(t, goals(b, "+1 (202) 555-0143"), `value="&#43;1 (202) 555-0143"`)
		require.Equal(t, "+1 (202) 555-0143", calls[*onboardingv1.ListProfilesRequest](s, "ListProfiles")[0].GetPhone())
		require.Equal(t, anasID, calls[*onboardingv1.ListGoalsRequest](s, "ListGoals")[0].GetProfileId())
		goals(b, anasID)
		require.Equal(t, anasID, calls[*onboardingv1.ListGoalsRequest](s, "ListGoals")[1].GetProfileId())
	})
	t.Run("AreNotThoseOfAllWhenNoPersonIsFound", func(t *testing.T) {
		t.Parallel()
		b, s := meets(t, string(rpc.RoleOperator))
		s.says("ListProfiles", &onboardingv1.ListProfilesResponse{})
		require.Contains(t, goals(b, "+12025550143"), "No person is found.")
		s.says("ListProfiles", &onboardingv1.ListProfilesResponse{Profiles: []*onboardingv1.Profile{ana(), ana()}})
		require.Contains(t, goals(b, "Ana"), "Several people have this name")
		s.refuses("ListProfiles", codes.InvalidArgument, "phone is no number")
		require.Contains(t, goals(b, "202"), "phone is no number")
		require.Empty(t, calls[*onboardingv1.ListGoalsRequest](s, "ListGoals"))
	})
}
