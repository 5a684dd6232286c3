package gateway

import (
	"io"
	"net/http"
	"net/http/httptest"
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
