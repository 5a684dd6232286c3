package stack_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"

	"paceline.internal/deploy/stack"
	"paceline.internal/platform/rpc"
)

// otherOrg owns no sender.
const otherOrg = "00000000-0000-7000-8000-000000000002"

// TestAccess checks who may see and do what, from the token over the gateway to the rows of both services. Which tokens are believed and
// who may call which method is tested at each of them.
func TestAccess(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ada, grace := b.begin(t), b.begin(t)
	b.rest(t)
	token := func(subject, org string, role rpc.Role) string {
		signed, err := b.config.Secrets.APIToken(subject, org, role, b.clock.Now(), time.Hour)
		require.NoError(t, err)
		return signed
	}
	own := token(ada.id, stack.OrgID, rpc.RoleUser)
	stranger := token("boss", otherOrg, rpc.RoleOperator)
	session, message := ada.session(t).SessionID, ada.messages(t)[0].MessageID

	t.Run("AUserSeesTheirOwnProfileAndNothingElse", func(t *testing.T) {
		t.Parallel()
		for _, path := range []string{
			"/v1/profiles/" + ada.id, "/v1/sessions", "/v1/sessions?profile_id=" + ada.id, "/v1/sessions/" + session,
			"/v1/messages", "/v1/messages?profile_id=" + ada.id, "/v1/messages/" + message,
		} {
			status, answer := b.try(t, own, http.MethodGet, path, nil)
			require.Equal(t, http.StatusOK, status, "%s: %s", path, answer)
			require.NotContains(t, string(answer), grace.id)
			require.Contains(t, string(answer), ada.id)
		}
		for _, path := range []string{
			"/v1/profiles/" + grace.id, "/v1/sessions?profile_id=" + grace.id, "/v1/messages?profile_id=" + grace.id, "/v1/consents/" + ada.phone,
			"/v1/sessions/" + grace.session(t).SessionID,
		} {
			require.Equal(t, "REASON_PERMISSION_DENIED", b.refused(t, own, http.MethodGet, path, nil, http.StatusForbidden), path)
		}
		status, answer := b.try(t, own, http.MethodGet, "/v1/messages/"+grace.messages(t)[0].MessageID, nil)
		require.Contains(t, []int{http.StatusForbidden, http.StatusNotFound}, status, "%s", answer)
	})
	t.Run("AnOperatorSeesNothingOfAnotherOrganisation", func(t *testing.T) {
		t.Parallel()
		for path, reason := range map[string]string{
			"/v1/profiles/" + ada.id: "REASON_PROFILE_NOT_FOUND", "/v1/sessions/" + session: "REASON_SESSION_NOT_FOUND",
			"/v1/messages/" + message: "REASON_MESSAGE_NOT_FOUND", "/v1/consents/" + ada.phone: "REASON_CONSENT_NOT_FOUND",
		} {
			require.Equal(t, reason, b.refused(t, stranger, http.MethodGet, path, nil, http.StatusNotFound), path)
		}
		for _, path := range []string{
			"/v1/profiles/" + ada.id + ":activate", "/v1/profiles/" + ada.id + ":hold", "/v1/profiles/" + ada.id + ":release",
			"/v1/sessions/" + session + ":reset",
		} {
			b.refused(t, stranger, http.MethodPost, path, struct{}{}, http.StatusNotFound)
		}
		for _, path := range []string{"/v1/sessions", "/v1/sessions?profile_id=" + ada.id, "/v1/messages", "/v1/messages?profile_id=" + ada.id} {
			status, answer := b.try(t, stranger, http.MethodGet, path, nil)
			require.Equal(t, http.StatusOK, status)
			require.NotContains(t, string(answer), "_id\":\"")
		}
		require.Equal(t, "active", ada.session(t).Status)
	})
}

// as returns a context with a token for a principal in its calls.
func (b *bundle) as(t *testing.T, p rpc.Principal) context.Context {
	t.Helper()
	token, err := b.services.Secrets.ServiceToken(p, b.clock.Now, time.Hour)
	require.NoError(t, err)
	return metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
}
