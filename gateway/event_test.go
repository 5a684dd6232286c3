package gateway

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/telemetry"
)

func TestObserve(t *testing.T) {
	t.Parallel()
	// serve runs a handler within observe and returns its answer and its line.
	serve := func(t *testing.T, handle http.HandlerFunc, id string) (*httptest.ResponseRecorder, map[string]any) {
		t.Helper()
		said := new(lines)
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/x?secret=hunter2", nil)
		request.Header.Set(headerRequestID, id)
		answer := httptest.NewRecorder()
		observe(telemetry.NewLogger(said, telemetry.Config{}, "gateway"), noon, nil, handle).ServeHTTP(answer, request)
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
		require.Contains(t, answer.Body.String(), reasonInternal)
		require.NotContains(t, answer.Body.String(), "boom")
		require.Equal(t, "boom", line["panic"])
		require.Equal(t, "ERROR", line["level"])
	})

	t.Run("AStrangersWordsAreCutShort", func(t *testing.T) {
		t.Parallel()
		algorithm := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"` + strings.Repeat("c", 5_000) + `"}`))
		for _, request := range []struct {
			method, path string
			header       map[string]string
		}{
			{method: strings.Repeat("A", 20_000), path: pathStep},
			{method: http.MethodPost, path: pathStep, header: map[string]string{"Upstash-Message-Id": strings.Repeat("b", 20_000)}},
			{method: http.MethodPost, path: pathStep, header: map[string]string{"Upstash-Signature": algorithm + ".e30.x"}},
		} {
			b := setup(t)
			r, err := http.NewRequestWithContext(t.Context(), request.method, b.url+request.path, strings.NewReader("x"))
			require.NoError(t, err)
			for name, value := range request.header {
				r.Header.Set(name, value)
			}
			response, err := http.DefaultClient.Do(r)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			b.stop()
			require.Less(t, len(b.log.String()), 1_000)
		}
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
			id := answer.Header().Get(headerRequestID)
			require.NotEmpty(t, id)
			require.Equal(t, tc.kept, id == tc.given)
			require.Equal(t, id, line["request_id"])
			require.EqualValues(t, http.StatusTeapot, line["status"])
		})
	}
}
