package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/qstash"
)

func TestEmulators(t *testing.T) {
	t.Parallel()

	t.Run("TheyCallTheGatewayAndEndInOrderAtSIGTERM", func(t *testing.T) {
		t.Parallel()
		calls := make(chan *http.Request, 2)
		gateway := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { calls <- r }))
		defer gateway.Close()

		cmd := command(t, "emulators", "--qstash", "127.0.0.1:0", "--twilio", "127.0.0.1:0", "--show")
		cmd.Env = append(cmd.Env, "PUBLIC_BASE_URL="+gateway.URL)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		said := bufio.NewReader(out)
		line, err := said.ReadString('\n')
		require.NoError(t, err)
		where := regexp.MustCompile(`^QStash at (\S+), Twilio at (\S+); callbacks to `).FindStringSubmatch(line)
		require.Len(t, where, 3, line)
		for _, want := range []string{
			"For the services:\n", "export CONSOLE_HANDSETS_URL='" + where[2] + "'\n", "export QSTASH_CURRENT_SIGNING_KEY='" + qstash.DevCurrentKey + "'\n",
			"export QSTASH_NEXT_SIGNING_KEY='" + qstash.DevNextKey + "'\n", "export QSTASH_TOKEN='" + qstash.DevToken + "'\n", "export QSTASH_URL='" + where[1] + "'\n",
		} {
			line, err := said.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, want, line)
		}
		addr := func(origin string) string { return strings.TrimPrefix(origin, "http://") }

		require.NoError(t, run(t.Context(), []string{"emulators", "--health", "--qstash", addr(where[1]), "--twilio", addr(where[2])}, terminal{out: io.Discard}))

		publish, err := http.NewRequestWithContext(t.Context(), http.MethodPost, where[1]+"/v2/publish/"+gateway.URL+"/alarm", strings.NewReader("{}"))
		require.NoError(t, err)
		publish.Header.Set("Authorization", "Bearer "+qstash.DevToken)
		answer, err := http.DefaultClient.Do(publish)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusOK, answer.StatusCode)
		alarm := <-calls
		require.Equal(t, "/alarm", alarm.URL.Path)
		require.NotEmpty(t, alarm.Header.Get("Upstash-Signature"))

		texted, err := http.PostForm(where[2]+"/phone", url.Values{"From": {"+12025550143"}, "Body": {"hello"}}) //nolint:forbidigo,noctx // a test's own server
		require.NoError(t, err)
		require.NoError(t, texted.Body.Close())
		text := <-calls
		require.Equal(t, "/api/webhooks/twilio/inbound", text.URL.Path)
		require.NotEmpty(t, text.Header.Get("X-Twilio-Signature"))

		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		shown, err := io.ReadAll(said)
		require.NoError(t, err)
		require.Contains(t, string(shown), "+12025550143 <-- hello")
		require.NoError(t, cmd.Wait())
	})

	t.Run("TwilioAloneWhereTheDatabaseRingsTheAlarms", func(t *testing.T) {
		t.Parallel()
		cmd := command(t, "emulators", "--qstash", "off", "--twilio", "127.0.0.1:0")
		cmd.Env = append(cmd.Env, "PUBLIC_BASE_URL=http://gateway:8080")
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		said := bufio.NewReader(out)
		line, err := said.ReadString('\n')
		require.NoError(t, err)
		where := regexp.MustCompile(`^Twilio at http://(\S+); callbacks to `).FindStringSubmatch(line)
		require.Len(t, where, 2, line)
		require.NoError(t, run(t.Context(), []string{"emulators", "--health", "--qstash", "off", "--twilio", where[1]}, terminal{out: io.Discard}))
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		shown, err := io.ReadAll(said)
		require.NoError(t, err)
		require.Contains(t, string(shown), "export ALARMS='postgres'\n")
		require.NotContains(t, string(shown), "QSTASH_")
		require.NoError(t, cmd.Wait())
	})

	t.Run("HealthFailsWhereNothingListens", func(t *testing.T) {
		t.Parallel()
		var network net.ListenConfig
		free, err := network.Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		addr := free.Addr().String()
		require.NoError(t, free.Close())
		err = run(t.Context(), []string{"emulators", "--health", "--qstash", addr, "--twilio", addr}, terminal{out: io.Discard})
		require.ErrorContains(t, err, "QStash does not answer")
		require.ErrorContains(t, err, "Twilio does not answer")
	})

	for _, tc := range []struct {
		name, want string
		environ    map[string]string
		args       []string
	}{
		{name: "WithoutAGatewayThereIsNothingToCall", want: "PUBLIC_BASE_URL must be an http or https origin"},
		{name: "AnAddressThatCannotBeUsedIsNamed", want: "--qstash: ", environ: map[string]string{"PUBLIC_BASE_URL": "http://gateway:8080"}, args: []string{"--qstash", "nowhere"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.ErrorContains(t, run(t.Context(), append([]string{"emulators"}, tc.args...), terminal{out: io.Discard, environ: tc.environ}), tc.want)
		})
	}
}
