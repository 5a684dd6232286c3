package route

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/telemetry"
)

func noon() time.Time { return time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC) }

func TestObserve(t *testing.T) {
	t.Parallel()
	// serve runs a handler within observe and returns its answer and its line.
	serve := func(t *testing.T, handle http.HandlerFunc, id string) (*httptest.ResponseRecorder, map[string]any) {
		t.Helper()
		said := new(strings.Builder)
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/x?secret=hunter2", nil)
		request.Header.Set(HeaderRequestID, id)
		answer := httptest.NewRecorder()
		Observe(telemetry.NewLogger(said, telemetry.Config{}, "gateway"), noon, nil, handle).ServeHTTP(answer, request)
		var line map[string]any
		require.NoError(t, json.Unmarshal([]byte(said.String()), &line))
		require.NotContains(t, said.String(), "hunter2")
		return answer, line
	}
	teapot := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }

	t.Run("APanicIsA500InTheErrorShapeAndOneLine", func(t *testing.T) {
		t.Parallel()
		answer, line := serve(t, func(http.ResponseWriter, *http.Request) { panic("boom") }, "")
		require.Equal(t, http.StatusInternalServerError, answer.Code)
		require.Contains(t, answer.Body.String(), ReasonInternal)
		require.NotContains(t, answer.Body.String(), "boom")
		require.Equal(t, "boom", line["panic"])
		require.Equal(t, "ERROR", line["level"])
	})

	t.Run("APanicAfterTheAnswerBeganOnlyLogs", func(t *testing.T) {
		t.Parallel()
		answer, line := serve(t, func(w http.ResponseWriter, r *http.Request) {
			teapot(w, r)
			panic("boom")
		}, "")
		require.Equal(t, http.StatusTeapot, answer.Code)
		require.Empty(t, answer.Body.String())
		require.Equal(t, "boom", line["panic"])
	})

	for _, tc := range []struct {
		name, given string
		kept        bool
	}{
		{name: "PlainRequestIdIsKept", given: "abc-1.2_Z", kept: true},
		{name: "LongRequestIdIsReplaced", given: strings.Repeat("a", 65)},
		{name: "ForgedLogLineIsReplaced", given: "a\",\"level\":\"ERROR"},
		{name: "AbsentRequestIdIsMade"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			answer, line := serve(t, teapot, tc.given)
			id := answer.Header().Get(HeaderRequestID)
			require.NotEmpty(t, id)
			require.Equal(t, tc.kept, id == tc.given)
			require.Equal(t, id, line["request_id"])
			require.EqualValues(t, http.StatusTeapot, line["status"])
		})
	}
}
