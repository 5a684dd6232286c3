package gateway

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAttemptOf(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, retried string
		want          int
	}{
		{name: "FirstAttempt", retried: "0", want: 1},
		{name: "ThirdAttempt", retried: "2", want: 3},
		{name: "Absent", retried: "", want: 1},
		{name: "NoNumber", retried: "NaN", want: 1},
		{name: "Negative", retried: "-3", want: 1},
		{name: "Fraction", retried: "1.5", want: 1},
		{name: "Huge", retried: "99999999999999999999", want: 1},
	} {
		t.Run("S1_12_"+tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, attemptOf(tc.retried))
		})
	}
}

func TestReadBody(t *testing.T) {
	t.Parallel()

	t.Run("S1_20_ALengthOverTheLimitIsRefusedWithoutReading", func(t *testing.T) {
		t.Parallel()
		body := strings.NewReader(strings.Repeat("x", maxBody+1))
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, pathStep, body)
		_, err := readUpTo(httptest.NewRecorder(), request, maxBody)
		require.ErrorAs(t, err, new(*http.MaxBytesError))
		require.Equal(t, maxBody+1, body.Len())
	})

	t.Run("S1_20_AStreamIsReadToTheLimitOnly", func(t *testing.T) {
		t.Parallel()
		body := strings.NewReader(strings.Repeat("x", 10*maxBody))
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, pathStep, io.MultiReader(body))
		_, err := readUpTo(httptest.NewRecorder(), request, maxBody)
		require.ErrorAs(t, err, new(*http.MaxBytesError))
		require.Greater(t, body.Len(), 8*maxBody)
	})
}

// FuzzDecodeStep holds the decoder to its promise: what it accepts is one JSON object that has exactly the five fields,
// each once, with the values that it returns.
func FuzzDecodeStep(f *testing.F) {
	for _, c := range payloadCorpus(f) {
		f.Add(c.body())
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		step, issues := decodeStep(body)
		if issues != nil {
			require.Nil(t, step)
			requireFixed(t, issues)
			return
		}
		got := map[string]string{
			"profile_id": step.GetProfileId(), "session_id": step.GetSessionId(), "step_id": step.GetStepId(),
			"expected_state_token": step.GetExpectedStateToken(), "idempotency_key": step.GetIdempotencyKey(),
		}
		var want map[string]string
		decoder := json.NewDecoder(strings.NewReader(string(body)))
		require.NoError(t, decoder.Decode(&want))
		require.ErrorIs(t, decoder.Decode(new(any)), io.EOF)
		require.Equal(t, want, got)
		// Five names and five values are ten strings; a repeated field would have more.
		require.Equal(t, 10, countStrings(t, body), strconv.Quote(string(body)))
	})
}

// requireFixed holds the issues to our own words: nothing of the body is repeated.
func requireFixed(t *testing.T, issues map[string]string) {
	t.Helper()
	require.NotEmpty(t, issues)
	for field, issue := range issues {
		require.Contains(t, []string{issuePayload, "profile_id", "session_id", "step_id", "expected_state_token", "idempotency_key"}, field)
		require.Contains(t, []string{
			"is not one JSON value in UTF-8", "is not a JSON object", "has a field that is none of the five",
			"is there more than once", "is not text", "is empty", "is missing",
		}, issue)
	}
}

func countStrings(t *testing.T, body []byte) int {
	t.Helper()
	n := 0
	decoder := json.NewDecoder(strings.NewReader(string(body)))
	for {
		token, err := decoder.Token()
		if err == io.EOF {
			return n
		}
		require.NoError(t, err)
		if _, ok := token.(string); ok {
			n++
		}
	}
}
