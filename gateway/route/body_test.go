package route

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadBody(t *testing.T) {
	t.Parallel()

	t.Run("S1_20_ALengthOverTheLimitIsRefusedWithoutReading", func(t *testing.T) {
		t.Parallel()
		body := strings.NewReader(strings.Repeat("x", MaxBody+1))
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", body)
		_, err := ReadUpTo(httptest.NewRecorder(), request, MaxBody)
		require.ErrorAs(t, err, new(*http.MaxBytesError))
		require.Equal(t, MaxBody+1, body.Len())
	})

	t.Run("S1_20_AStreamIsReadToTheLimitOnly", func(t *testing.T) {
		t.Parallel()
		body := strings.NewReader(strings.Repeat("x", 10*MaxBody))
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", io.MultiReader(body))
		_, err := ReadUpTo(httptest.NewRecorder(), request, MaxBody)
		require.ErrorAs(t, err, new(*http.MaxBytesError))
		require.Greater(t, body.Len(), 8*MaxBody)
	})
}
