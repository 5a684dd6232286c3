package telemetry

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
)

// TestOldNames checks that each old name is served with the value of the new one.
func TestOldNames(t *testing.T) {
	t.Parallel()
	tel, err := New(t.Context(), Options{Service: "messaging", Output: t.Output(), Registry: NewRegistry()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tel.Shutdown(context.WithoutCancel(t.Context()))) })
	meter, value := tel.Meter.Meter("test"), map[string]int64{}
	for name := range oldNames {
		var one interface {
			Add(ctx context.Context, n int64, opts ...metric.AddOption)
		}
		if strings.HasSuffix(name, "_total") {
			one, err = meter.Int64Counter(name)
		} else {
			one, err = meter.Int64UpDownCounter(name) // to Prometheus a gauge
		}
		require.NoError(t, err)
		value[name] = int64(len(value) + 1)
		one.Add(t.Context(), value[name])
	}
	answer := httptest.NewRecorder()
	OpsHandler(OpsConfig{Registry: tel.Registry}).ServeHTTP(answer,
		httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:9100/metrics", nil))
	require.Equal(t, http.StatusOK, answer.Code)
	lines := strings.Split(answer.Body.String(), "\n")
	for name, old := range oldNames {
		require.Contains(t, lines, fmt.Sprintf("%s %d", name, value[name]))
		require.Contains(t, lines, fmt.Sprintf("%s %d", old, value[name]))
		require.Contains(t, lines, "# HELP "+old+" Deprecated: use "+name+".")
	}
}
