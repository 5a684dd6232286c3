package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"paceline.internal/gateway/route"
	"paceline.internal/platform/rpc"
)

func TestUncleanPathsAreAnsweredInTheOneShape(t *testing.T) {
	t.Parallel()
	for _, to := range []string{"/v1//profiles", "/v1/./profiles", "/v1/x/../profiles", "//v1/profiles"} {
		w := httptest.NewRecorder()
		cleanOnly(http.RedirectHandler("/x", http.StatusTemporaryRedirect)).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://x"+to, nil))
		require.Equal(t, http.StatusNotFound, w.Code, to)
		require.Contains(t, w.Body.String(), route.ReasonNoRoute)
	}
}

// TestFieldViolations: a refusal names the field of the body, the query or the path, in ErrorInfo and as google.rpc.BadRequest.
func TestFieldViolations(t *testing.T) {
	t.Parallel()
	b := setup(t)
	refuses := func(message string) func(context.Context) (json.RawMessage, error) {
		return func(context.Context) (json.RawMessage, error) {
			return nil, &rpc.Error{Code: codes.InvalidArgument, Reason: route.ReasonInvalid, Domain: "paceline.test", Message: message}
		}
	}
	b.services.on("OnboardingService/GetProfile", refuses("profile_id must be a UUID"))
	b.services.on("OnboardingService/ActivateProfile", refuses("consent.source must be one line"))
	b.services.on("OutboundService/EnqueueText", refuses("invalid request: to must be E.164"))
	b.services.on("OnboardingService/ListProfiles", refuses("another thing is wrong"))
	b.services.on("EngagementService/ReportAction", refuses("action refused: idempotency_key must be visible ASCII; not this; source must be web"))
	for _, tc := range []struct {
		name, method, path, body, want string
		others                         []string
	}{
		{name: "ABody", method: http.MethodPost, path: "/v1/profiles", body: `{"phone":1}`, want: "phone"},
		{name: "AnUnknownFieldOfABody", method: http.MethodPost, path: "/v1/profiles", body: `{"fone":1}`, want: "fone"},
		{name: "AFieldWithinABody", method: http.MethodPost, path: "/v1/profiles/x:activate", body: `{"consent":{"source":1}}`, want: "consent.source"},
		{name: "AQuery", method: http.MethodGet, path: "/v1/profiles?page_size=x", want: "page_size"},
		{name: "AnUnknownParameter", method: http.MethodGet, path: "/v1/profiles?size=1", want: "size"},
		{name: "AParameterTwice", method: http.MethodGet, path: "/v1/profiles?name=a&name=b", want: "name"},
		{name: "APathOfAService", method: http.MethodGet, path: "/v1/profiles/x", want: "profile_id"},
		{name: "ABodyOfAService", method: http.MethodPost, path: "/v1/profiles/x:activate", want: "consent.source"},
		{name: "ABodyOfMessaging", method: http.MethodPost, path: "/v1/outbound", body: `{}`, want: "to"},
		{name: "SeveralFields", method: http.MethodPost, path: "/v1/profiles/x/actions", body: `{}`, want: "idempotency_key", others: []string{"source"}},
		{name: "NoField", method: http.MethodGet, path: "/v1/profiles"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			request, err := http.NewRequestWithContext(t.Context(), tc.method, b.url+tc.path, strings.NewReader(tc.body))
			require.NoError(t, err)
			request.Header.Set("Authorization", bearer(t, "operator"))
			response, err := http.DefaultClient.Do(request)
			require.NoError(t, err)
			var answer struct {
				Details []struct {
					Type       string            `json:"@type"`
					Metadata   map[string]string `json:"metadata"`
					Violations []struct {
						Field       string `json:"field"`
						Description string `json:"description"`
					} `json:"field_violations"`
				} `json:"details"`
				Message string `json:"message"`
			}
			require.NoError(t, errors.Join(json.NewDecoder(response.Body).Decode(&answer), response.Body.Close()))
			require.Equal(t, http.StatusBadRequest, response.StatusCode)
			require.Equal(t, tc.want, answer.Details[0].Metadata["field"], answer.Message)
			if tc.want == "" {
				require.Len(t, answer.Details, 1)
				return
			}
			last := answer.Details[len(answer.Details)-1]
			require.Equal(t, "type.googleapis.com/google.rpc.BadRequest", last.Type)
			require.Equal(t, tc.want, last.Violations[0].Field)
			said := []string{last.Violations[0].Description}
			require.Len(t, last.Violations, 1+len(tc.others))
			for i, other := range tc.others {
				require.Equal(t, other, last.Violations[1+i].Field)
				said = append(said, last.Violations[1+i].Description)
			}
			require.Equal(t, answer.Message, strings.Join(said, "; "))
		})
	}
}
