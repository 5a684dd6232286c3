package process

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/config"
	"paceline.internal/platform/telemetry"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	asked := func(t *testing.T, ready error, hosts ...string) (out string, err error) {
		t.Helper()
		server := httptest.NewServer(telemetry.OpsHandler(telemetry.OpsConfig{
			Registry: prometheus.NewRegistry(), Ready: func(context.Context) error { return ready },
		}))
		defer server.Close()
		_, port, err := net.SplitHostPort(server.Listener.Addr().String())
		require.NoError(t, err)
		var said bytes.Buffer
		for _, host := range hosts {
			addr, err := config.ParseAddr(net.JoinHostPort(host, port))
			require.NoError(t, err)
			verbs := Verbs[config.Addr]{
				Load:    func(map[string]string) (config.Addr, error) { return addr, nil },
				OpsAddr: func(cfg config.Addr) config.Addr { return cfg },
			}
			if err := verbs.run(t.Context(), "thing", []string{"health"}, nil, &said); err != nil {
				return said.String(), err
			}
		}
		return said.String(), nil
	}

	t.Run("AProcessThatIsReadyIsHealthyByWhateverAddressItListens", func(t *testing.T) {
		t.Parallel()
		out, err := asked(t, nil, "", "0.0.0.0", "127.0.0.1")
		require.NoError(t, err)
		require.Contains(t, out, `"status": "ready"`)
	})

	t.Run("OneThatIsNotSaysWhy", func(t *testing.T) {
		t.Parallel()
		_, err := asked(t, errors.New("run migrate"), "127.0.0.1")
		require.ErrorContains(t, err, "not ready: ")
		require.ErrorContains(t, err, "run migrate")
	})

	t.Run("OneThatIsNotThereIsNot", func(t *testing.T) {
		t.Parallel()
		var network net.ListenConfig
		free, err := network.Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		addr, err := config.ParseAddr(free.Addr().String())
		require.NoError(t, err)
		require.NoError(t, free.Close())
		require.ErrorContains(t, askReady(t.Context(), addr, io.Discard), "nothing answers on the ops port")
	})
}
