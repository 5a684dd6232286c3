package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// answers sets the answer of a service from now on.
func (v *visitor) answers(method, body string) {
	v.services.on(method, func(context.Context) (json.RawMessage, error) { return json.RawMessage(body), nil })
}

func TestConsoleOfAPerson(t *testing.T) {
	t.Parallel()

	t.Run("S4_72_ShowsTheirPreferencesAndSetsThemInTheirName", func(t *testing.T) {
		t.Parallel()
		v := visits(t)
		v.signsIn("user")
		v.answers("EngagementService/GetEngagement", `{"engagement":{"preferences":{"reminders":"on","tips":"off","destination":"individual"},"skip":"opted_out"}}`)
		status, page, _ := v.asks(http.MethodGet, "/console/me", nil)
		require.Equal(t, http.StatusOK, status)
		for _, words := range []string{"These messages are on.", "Tips are off.", "there is nothing to choose", "You have sent STOP", "As long as you have not chosen"} {
			require.Contains(t, page, words)
		}
		v.answers("EngagementService/SetPreferences", `{"preferences":{"reminders":"off","tips":"off","destination":"individual"}}`)
		status, _, header := v.asks(http.MethodPost, "/console/me/reminders", url.Values{"value": {"off"}, "back": {"/console/me"}})
		require.Equal(t, http.StatusSeeOther, status)
		require.Equal(t, "/console/me", header.Get("Location"))
		made := v.services.seen()
		last := made[len(made)-1]
		require.Equal(t, rpc.RoleUser, last.Principal.Role)
		require.True(t, proto.Equal(&onboardingv1.SetPreferencesRequest{ProfileId: ownProfile, Reminders: "off"}, last.Request), "%v", last.Request)
		_, page, _ = v.asks(http.MethodGet, "/console/me?lang=pt-BR", nil)
		require.Contains(t, page, "Essas mensagens estão desativadas.")
	})

	t.Run("S4_72_SaysWhyAPreferenceWasNotChanged", func(t *testing.T) {
		t.Parallel()
		v := visits(t)
		v.signsIn("user")
		v.answers("EngagementService/GetEngagement", `{"engagement":{"preferences":{"reminders":"on","tips":"on","destination":"individual"},"household_id":"`+otherProfile+`"}}`)
		for _, tc := range []struct {
			name, path, value, want string
			answer                  reply
		}{
			{name: "NoHousehold", path: "destination", value: "group", want: "there is no other person in your household.", answer: reply{Code: "FAILED_PRECONDITION", Reason: "REASON_NO_HOUSEHOLD", Message: "in English"}},
			{name: "Away", path: "tips", value: "off", want: "could not be saved", answer: reply{Code: "UNAVAILABLE", Reason: "REASON_UNAVAILABLE", Message: "the database is down"}},
			{name: "NoValue", path: "tips", want: "the form cannot be read"},
			{name: "NoPreference", path: "everything", value: "off", want: "the form cannot be read"},
		} {
			v.services.on("EngagementService/SetPreferences", tc.answer.give)
			_, _, header := v.asks(http.MethodPost, "/console/me/"+tc.path, url.Values{"value": {tc.value}, "back": {"/console/me"}})
			_, page, _ := v.asks(http.MethodGet, header.Get("Location"), nil)
			require.Contains(t, page, "Not done:", tc.name)
			require.Contains(t, page, tc.want, tc.name)
		}
	})

	t.Run("HasNoPreferencesOfAnOperator", func(t *testing.T) {
		t.Parallel()
		v := visits(t)
		v.signsIn("operator")
		status, _, _ := v.asks(http.MethodGet, "/console/me", nil)
		require.Equal(t, http.StatusForbidden, status)
		v.asks(http.MethodPost, "/console/me/tips", url.Values{"value": {"off"}})
		require.Empty(t, v.services.seen())
	})

	t.Run("S3_28_IsToldOfNewsWithoutReadingEvents", func(t *testing.T) {
		t.Parallel()
		v := visits(t)
		v.signsIn("user")
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, v.url+"/console/live?topic="+ownProfile, nil)
		require.NoError(t, err)
		answer, err := v.client.Do(r)
		require.NoError(t, err)
		t.Cleanup(func() { _ = answer.Body.Close() }) // it was read to its end
		require.Equal(t, http.StatusOK, answer.StatusCode)
		lines := bufio.NewScanner(answer.Body)
		for range 3 { // the first at once, and an empty line after it; the second by the clock
			require.True(t, lines.Scan(), "%v", lines.Err())
		}
		require.Equal(t, "data: new", lines.Text())
		require.Empty(t, v.services.seen())
		require.NoError(t, v.gateway.events.Drain(t.Context()), "a process that stops ends it")
		for lines.Scan() {
		}
		require.NoError(t, lines.Err())
	})
}

func TestConsoleSearch(t *testing.T) {
	t.Parallel()
	v := visits(t)
	v.signsIn("operator")
	v.services.on("OnboardingService/GetProfile", reply{Code: "NOT_FOUND", Reason: "REASON_PROFILE_NOT_FOUND", Message: "there is no such profile"}.give)
	status, page, _ := v.asks(http.MethodGet, "/console/people?q="+otherProfile, nil)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, page, "No person is found.")
	require.Contains(t, page, `value="`+otherProfile+`"`, "the search is still there")

	v.answers("OnboardingService/ListProfiles", `{}`)
	v.asks(http.MethodGet, "/console/people?q=12ab", nil)
	v.asks(http.MethodGet, "/console/people?q="+url.QueryEscape("(202) 555-0143"), nil)
	var asked []string
	for _, c := range v.services.seen() {
		if in, ok := c.Request.(*onboardingv1.ListProfilesRequest); ok {
			asked = append(asked, in.GetQuery())
		}
	}
	require.Equal(t, []string{"12ab", "(202) 555-0143"}, asked)

	v.services.on("OnboardingService/ListProfiles", reply{Code: "INVALID_ARGUMENT", Reason: "REASON_INVALID", Message: "phone must be E.164"}.give)
	status, page, _ = v.asks(http.MethodGet, "/console/people?q=12", nil)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, page, "phone must be E.164")
	require.Contains(t, page, `name="q" value="12"`)
}
