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
	"go.opentelemetry.io/otel/attribute"
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
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, attemptOf(tc.retried))
		})
	}
}

func TestReadBody(t *testing.T) {
	t.Parallel()

	t.Run("ALengthOverTheLimitIsRefusedWithoutReading", func(t *testing.T) {
		t.Parallel()
		body := strings.NewReader(strings.Repeat("x", maxBody+1))
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, pathStep, body)
		_, err := readBody(httptest.NewRecorder(), request)
		require.ErrorAs(t, err, new(*http.MaxBytesError))
		require.Equal(t, maxBody+1, body.Len())
	})

	t.Run("AStreamIsReadToTheLimitOnly", func(t *testing.T) {
		t.Parallel()
		body := strings.NewReader(strings.Repeat("x", 10*maxBody))
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, pathStep, io.MultiReader(body))
		_, err := readBody(httptest.NewRecorder(), request)
		require.ErrorAs(t, err, new(*http.MaxBytesError))
		require.Greater(t, body.Len(), 8*maxBody)
	})
}

func TestSpanOfADelivery(t *testing.T) {
	t.Parallel()
	cases := map[string]golden{}
	for _, c := range append(readGolden(t, "testdata/step_callback.yaml"), readGolden(t, "testdata/step_failure.yaml")...) {
		cases[c.Name] = c
	}
	for _, tc := range []struct {
		name    string
		attempt int64
		dlq     bool
	}{
		{name: "S0_04_CurrentKeyIsAcceptedAndTheStepIsSent", attempt: 1},
		{name: "ReplayedStepIsPassedOnAgain", attempt: 4},
		{name: "S0_09_ForgedSignatureIs401AndNoRPCIsMade", attempt: 1},
		{name: "S0_11_KeyMismatchIsNeverRetried", attempt: 1, dlq: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c, ok := cases[tc.name]
			require.True(t, ok)
			b := setup(t)
			for method, r := range c.Upstream {
				b.services.on(method, r.give)
			}
			response, err := http.DefaultClient.Do(c.Request.build(t, b.url))
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			b.stop()

			said := map[attribute.Key]attribute.Value{}
			for _, span := range b.spans.GetSpans() {
				if span.Name == "POST "+c.Request.Path {
					for _, a := range span.Attributes {
						said[a.Key] = a.Value
					}
				}
			}
			require.Equal(t, tc.attempt, said["qstash.attempt"].AsInt64())
			require.Equal(t, tc.dlq, said["qstash.dlq"].AsBool())
			require.Equal(t, c.Request.Path, said["http.route"].AsString())
			require.Equal(t, c.Request.Headers["Upstash-Message-Id"], said["qstash.message_id"].AsString())
		})
	}
}

// FuzzDecodeStep holds the decoder to its promise: what it accepts is one JSON object that has exactly the five fields,
// each once, with the values that it returns.
func FuzzDecodeStep(f *testing.F) {
	f.Fuzz(func(t *testing.T, body []byte) {
		step, err := decodeStep(body)
		if err != nil {
			require.Equal(t, errMalformed, err, "nothing of the body is repeated")
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
