package process_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/config"
	"paceline.internal/platform/process"
	"paceline.internal/platform/rpc"
)

func TestPlainText(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, served, called string
		files                rpc.TLSFiles
		want                 string // of the warning; empty for none
	}{
		{name: "ServedOnLoopbackOnly", served: "127.0.0.1:9001", called: "localhost:9002"},
		{name: "CalledOnThisMachine", called: ":9002"},
		{name: "ServedOnEveryInterface", served: ":9001", called: ":9002", want: "served on :9001"},
		{name: "CalledElsewhere", served: "[::1]:9001", called: "messaging:9002", want: "called at messaging:9002"},
		{name: "ServedOnAnAddress", served: "10.0.0.1:9001", want: "served on 10.0.0.1:9001"},
		{name: "WithTLS", served: ":9001", called: "messaging:9002", files: rpc.TLSFiles{Cert: "c", Key: "k", CA: "a"}},
	} {
		t.Run("R_18_"+tc.name, func(t *testing.T) {
			t.Parallel()
			var served, called config.Addr
			for text, addr := range map[string]*config.Addr{tc.served: &served, tc.called: &called} {
				if text != "" {
					require.NoError(t, addr.UnmarshalText([]byte(text)))
				}
			}
			err := process.PlainText(tc.files, served, called)
			found, looked := process.LookAtTLS(rpc.TLSFiles{}, served, called)
			if tc.want != "" {
				require.ErrorContains(t, err, tc.want)
				var warning *process.Warning
				require.ErrorAs(t, looked, &warning, "the doctor warns, and fails nothing")
				return
			}
			require.NoError(t, err)
			if tc.files.Cert == "" {
				require.NoError(t, looked)
				require.Contains(t, found, "on this machine")
			}
		})
	}
}
