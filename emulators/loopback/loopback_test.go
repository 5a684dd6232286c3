package loopback_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/loopback"
)

func TestGuard(t *testing.T) {
	t.Parallel()
	guarded := loopback.Guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	for _, tc := range []struct {
		name   string
		method string
		host   string
		header map[string]string
		want   int
	}{
		{name: "AProgramPasses", method: http.MethodPost, host: "127.0.0.1:8081", want: http.StatusNoContent},
		{name: "AnAddressWithoutAPortPasses", method: http.MethodPost, host: "::1", want: http.StatusNoContent},
		{name: "AnIPv6AddressPasses", method: http.MethodPost, host: "[::1]:8081", want: http.StatusNoContent},
		{name: "LocalhostPasses", method: http.MethodGet, host: "localhost:8081", want: http.StatusNoContent},
		{name: "ANeighbourPasses", method: http.MethodPost, host: "qstash:8081", want: http.StatusNoContent},
		{
			name: "APageOfAnotherOriginChangesNothing", method: http.MethodPost, host: "127.0.0.1:8081",
			header: map[string]string{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}, want: http.StatusForbidden,
		},
		{
			name: "NorDoesOneInAnOldBrowser", method: http.MethodPost, host: "127.0.0.1:8081",
			header: map[string]string{"Origin": "https://evil.example"}, want: http.StatusForbidden,
		},
		{
			name: "NorDoesOneOfAnotherPortOfThisMachine", method: http.MethodDelete, host: "localhost:8081",
			header: map[string]string{"Origin": "http://localhost:3000", "Sec-Fetch-Site": "same-site"}, want: http.StatusForbidden,
		},
		{name: "ARebountNameReadsNothing", method: http.MethodGet, host: "evil.example:8081", want: http.StatusForbidden},
		{
			name: "ARebountNameChangesNothing", method: http.MethodPost, host: "evil.example:8081",
			header: map[string]string{"Origin": "http://evil.example:8081", "Sec-Fetch-Site": "same-origin"}, want: http.StatusForbidden,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			request := httptest.NewRequestWithContext(t.Context(), tc.method, "/", http.NoBody)
			request.Host = tc.host
			for name, value := range tc.header {
				request.Header.Set(name, value)
			}
			answer := httptest.NewRecorder()
			guarded.ServeHTTP(answer, request)
			require.Equal(t, tc.want, answer.Code)
		})
	}
}
