package stack_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/rpc"
	"paceline.internal/test/stack"
)

// otherOrg owns no sender.
const otherOrg = "00000000-0000-7000-8000-000000000002"

// TestAccess is who may see and do what, from the token to the row.
func TestAccess(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ada, grace := b.begin(t), b.begin(t)
	b.rest(t)
	token := func(subject, org string, role rpc.Role, issued time.Time) string {
		signed, err := b.config.Secrets.APIToken(subject, org, role, issued, 24*time.Hour)
		require.NoError(t, err)
		return signed
	}
	own := token(ada.id, stack.OrgID, rpc.RoleUser, b.clock.Now())
	stranger := token("boss", otherOrg, rpc.RoleOperator, b.clock.Now())
	session, message := ada.session(t).SessionID, ada.messages(t)[0].MessageID
	forged, err := stack.Secrets{APIJWT: "another secret that is long enough, too"}.APIToken("boss", stack.OrgID, rpc.RoleOperator, b.clock.Now(), time.Hour)
	require.NoError(t, err)

	t.Run("NobodyGetsInWithoutAToken", func(t *testing.T) {
		t.Parallel()
		for name, bearer := range map[string]string{
			"none": "", "nonsense": "abc", "forged": forged,
			"expired": token("boss", stack.OrgID, rpc.RoleOperator, noon.Add(-48*time.Hour)),
			"service": token("onboarding", stack.OrgID, rpc.RoleService, b.clock.Now()),
		} {
			for _, path := range []string{"/v1/sessions", "/v1/profiles/" + ada.id, "/v1/messages", "/v1/consents/" + ada.phone, "/v1/nothing"} {
				require.Equal(t, "REASON_UNAUTHENTICATED", b.refused(t, bearer, http.MethodGet, path, nil, http.StatusUnauthorized), name)
			}
			require.Equal(t, "REASON_UNAUTHENTICATED",
				b.refused(t, bearer, http.MethodPost, "/v1/sessions/"+session+":reset", struct{}{}, http.StatusUnauthorized), name)
		}
	})
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
	t.Run("R_21_AUserIsNotShownWhyAnOperatorHoldsThem", func(t *testing.T) {
		t.Parallel()
		held := b.begin(t)
		b.call(t, http.MethodPost, "/v1/profiles/"+held.id+":hold", map[string]string{"reason": "her sister called"}, nil)
		path := "/v1/sessions/" + held.session(t).SessionID
		_, toOperator := b.try(t, b.operator, http.MethodGet, path, nil)
		require.Contains(t, string(toOperator), "her sister called")
		status, toUser := b.try(t, token(held.id, stack.OrgID, rpc.RoleUser, b.clock.Now()), http.MethodGet, path, nil)
		require.Equal(t, http.StatusOK, status)
		require.Contains(t, string(toUser), `"kind":"held"`)
		require.NotContains(t, string(toUser), "her sister called")
	})
	t.Run("AUserChangesNothing", func(t *testing.T) {
		t.Parallel()
		for _, path := range []string{
			"/v1/profiles", "/v1/profiles/" + ada.id + ":activate", "/v1/profiles/" + ada.id + ":hold", "/v1/profiles/" + ada.id + ":release",
			"/v1/sessions/" + session + ":reset",
		} {
			require.Equal(t, "REASON_PERMISSION_DENIED", b.refused(t, own, http.MethodPost, path, struct{}{}, http.StatusForbidden), path)
		}
		require.Equal(t, "REASON_PERMISSION_DENIED", b.refused(t, own, http.MethodPut, "/v1/consents/"+ada.phone,
			map[string]string{"state": "opted_in", "reason": "because"}, http.StatusForbidden))
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
	t.Run("AnOrganisationWithoutASenderActivatesNobody", func(t *testing.T) {
		t.Parallel()
		status, answer := b.try(t, stranger, http.MethodPost, "/v1/profiles",
			map[string]string{"phone": ada.phone, "first_name": ada.name, "locale": "en", "time_zone": "UTC"})
		require.Equal(t, http.StatusOK, status, "%s", answer)
		var theirs struct {
			Profile profileJSON `json:"profile"`
		}
		require.NoError(t, json.Unmarshal(answer, &theirs))
		require.NotEqual(t, ada.id, theirs.Profile.ProfileID, "the same phone is another profile there")
		require.Equal(t, "REASON_ORGANISATION_WITHOUT_SENDER", b.refused(t, stranger, http.MethodPost,
			"/v1/profiles/"+theirs.Profile.ProfileID+":activate", struct{}{}, http.StatusBadRequest))
	})
	misuse(t, b, ada)
}

// misuse is what an operator may ask and gets nothing new for.
func misuse(t *testing.T, b *bundle, ada *person) {
	t.Helper()
	t.Run("WhatCannotBeReadIsSaidSo", func(t *testing.T) {
		t.Parallel()
		for _, wrong := range []struct {
			name, method, path string
			body               any
			want               int
			reason             string
		}{
			{"UnknownField", http.MethodPost, "/v1/profiles", map[string]string{"telephone": "1"}, http.StatusBadRequest, "REASON_INVALID"},
			{"BadPhone", http.MethodPost, "/v1/profiles", map[string]string{"phone": "555", "first_name": "A"}, http.StatusBadRequest, "REASON_INVALID"},
			{"NoName", http.MethodPost, "/v1/profiles", map[string]string{"phone": ada.phone}, http.StatusBadRequest, "REASON_INVALID"},
			{"UnknownFilter", http.MethodGet, "/v1/sessions?profil_id=1", nil, http.StatusBadRequest, "REASON_INVALID"},
			{"NoUUID", http.MethodGet, "/v1/profiles/1", nil, http.StatusBadRequest, "REASON_INVALID"},
			{"NoSuchProfile", http.MethodGet, "/v1/profiles/" + otherOrg, nil, http.StatusNotFound, "REASON_PROFILE_NOT_FOUND"},
			{"NoSuchSession", http.MethodGet, "/v1/sessions/" + otherOrg, nil, http.StatusNotFound, "REASON_SESSION_NOT_FOUND"},
			{"NoSuchRoute", http.MethodGet, "/v1/nothing", nil, http.StatusNotFound, "REASON_NO_SUCH_ROUTE"},
		} {
			require.Equal(t, wrong.reason, b.refused(t, b.operator, wrong.method, wrong.path, wrong.body, wrong.want), wrong.name)
		}
	})
	t.Run("EnrollingAPhoneTwiceIsOneProfile", func(t *testing.T) {
		t.Parallel()
		var again struct {
			Profile profileJSON `json:"profile"`
		}
		b.call(t, http.MethodPost, "/v1/profiles", map[string]string{"phone": ada.phone, "first_name": "Somebody"}, &again)
		require.Equal(t, ada.id, again.Profile.ProfileID)
		require.Equal(t, ada.name, again.Profile.FirstName)
	})
}
