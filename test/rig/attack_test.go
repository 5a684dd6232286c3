package main

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/stack"
	"paceline.internal/test/attack"
)

func TestAttack(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	environ := func(origin string) map[string]string {
		set := stack.Credentials()
		set["PUBLIC_BASE_URL"] = origin
		return set
	}
	dribble := []string{"attack", "dribble", "--connections", "3", "--genuine", "2", "--duration", "300ms"}

	t.Run("R_15_FailsWhenASTOPIsRefused", func(t *testing.T) {
		t.Parallel()
		for status, want := range map[int]error{http.StatusOK: nil, http.StatusTooManyRequests: errBroken} {
			full := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
			defer full.Close()
			var out strings.Builder
			require.ErrorIs(t, run(t.Context(), dribble, terminal{out: &out, environ: environ(full.URL)}), want)
			var report attack.DribbleReport
			require.NoError(t, json.Unmarshal([]byte(out.String()), &report))
			require.Equal(t, want == nil, report.Kept)
		}
	})

	t.Run("R_15_R_18_OnlyThisMachineIsAttacked", func(t *testing.T) {
		t.Parallel()
		err := run(t.Context(), dribble, terminal{out: io.Discard, environ: environ("http://192.0.2.1:8080")})
		require.ErrorContains(t, err, "192.0.2.1 is not this machine")
		err = run(t.Context(), []string{"attack", "streams", "--target", "192.0.2.1:9001"}, terminal{out: io.Discard})
		require.ErrorContains(t, err, "192.0.2.1 is not this machine")
	})

	t.Run("R_18_ReadsTheMemoryOfTheService", func(t *testing.T) {
		t.Parallel()
		ops := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "go_goroutines 7\nprocess_resident_memory_bytes 4.194304e+07\n")
		}))
		defer ops.Close()
		unused, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, unused.Close())
		args := []string{"attack", "streams", "--target", unused.Addr().String(), "--ops", strings.TrimPrefix(ops.URL, "http://"), "--duration", "3s"}
		var out strings.Builder
		require.NoError(t, run(t.Context(), args, terminal{out: &out}))
		var report attack.StreamsReport
		require.NoError(t, json.Unmarshal([]byte(out.String()), &report))
		require.InDelta(t, 40, report.BeforeMB, 3)
		require.Equal(t, 80, report.Ended["Unavailable"])
	})
}
