package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/operator"
	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/clock"
	"paceline.internal/gateway"
	"paceline.internal/platform/postgres/embeddedpg"
	"paceline.internal/platform/telemetry"
	"paceline.internal/services/messaging"
	"paceline.internal/services/onboarding"
)

// initialised writes the files of a deployment, and returns its environment and the statements for its databases.
func initialised(t *testing.T, in string, environ map[string]string, args ...string) (written map[string]string, statements []string) {
	t.Helper()
	folder := t.TempDir()
	require.NoError(t, run(t.Context(), append([]string{"init", "--folder", folder}, args...),
		terminal{in: strings.NewReader(in), out: io.Discard, environ: environ}))
	text, err := os.ReadFile(filepath.Join(folder, envFile))
	require.NoError(t, err)
	written = map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), "="); found && !strings.HasPrefix(line, "#") {
			written[name] = strings.Trim(value, "'")
		}
	}
	sql, err := os.ReadFile(filepath.Join(folder, databaseFile))
	require.NoError(t, err)
	_, sql, _ = bytes.Cut(sql, []byte("\n")) // its comment
	return written, strings.Split(strings.TrimSuffix(string(sql), ";\n"), ";\n")
}

// loads has each service read an environment.
func loads(t *testing.T, environ map[string]string) {
	t.Helper()
	_, err := onboarding.LoadConfig(environ)
	require.NoError(t, err)
	_, err = messaging.LoadConfig(environ)
	require.NoError(t, err)
	_, err = gateway.LoadConfig(environ)
	require.NoError(t, err)
}

func TestInit(t *testing.T) {
	t.Parallel()

	t.Run("AsksForWhatTheEnvironmentDoesNotSay", func(t *testing.T) {
		t.Parallel()
		written, _ := initialised(t, "https://sms.example.com\nAC0123456789abcdef0123456789abcdef\n\n+14155550123\nUS,BR\n",
			map[string]string{"TWILIO_AUTH_TOKEN": "secret0123456789"})
		loads(t, written)
		require.Equal(t, "https://sms.example.com", written["PUBLIC_BASE_URL"])
		require.Equal(t, "+14155550123", written["TWILIO_FROM_NUMBER"])
		require.Equal(t, "secret0123456789", written["TWILIO_AUTH_TOKEN"])
		require.Equal(t, "08:00-21:00", written["QUIET_HOURS_DEFAULT"])
	})

	t.Run("RefusesWhatIsNoServer", func(t *testing.T) {
		t.Parallel()
		for _, server := range []string{"::1", "localhost:abc", "localhost:0", "localhost:65536", "localhost:", "db name", "", "[::1", "[db]:5432", "a@b", "/run"} {
			folder := t.TempDir()
			err := run(t.Context(), []string{"init", "--emulators", "--folder", folder, "--database", server}, terminal{out: io.Discard})
			require.ErrorContains(t, err, "names no server: write HOST or HOST:PORT", server)
			require.ErrorContains(t, err, "[::1]:5432")
			require.NoFileExists(t, filepath.Join(folder, envFile))
		}
		for _, server := range []string{"db", "db.example.com:5432", "10.0.0.7", "[::1]", "[2001:db8::1]:6432", "my_db-1:5432"} {
			require.NoError(t, checkServer(server))
		}
	})

	t.Run("SaysWhatIsMissingOrWrong", func(t *testing.T) {
		t.Parallel()
		for in, want := range map[string]string{
			"":                                    "PUBLIC_BASE_URL is missing",
			"https://a.example\nSK1\n":            "TWILIO_ACCOUNT_SID: it begins with AC",
			"https://a.example\nAC1\n":            "TWILIO_AUTH_TOKEN is missing",
			"https://a.example\nAC1\nt\n\n\nUS\n": "neither a Messaging Service nor a number",
			"https://a.example/path\nAC1\nt\n\n+14155550123\nUS\n": "PUBLIC_BASE_URL",
			"https://a.example\nAC1\nit's\n\n+14155550123\nUS\n":   "TWILIO_AUTH_TOKEN has a quote",
		} {
			folder := t.TempDir()
			err := run(t.Context(), []string{"init", "--folder", folder}, terminal{in: strings.NewReader(in), out: io.Discard})
			require.ErrorContains(t, err, want)
			require.NoFileExists(t, filepath.Join(folder, envFile))
		}
	})

	t.Run("KeepsWhatIsThere", func(t *testing.T) {
		t.Parallel()
		folder := t.TempDir()
		again := func() error {
			return run(t.Context(), []string{"init", "--emulators", "--folder", folder}, terminal{out: io.Discard})
		}
		require.NoError(t, again())
		before, err := os.ReadFile(filepath.Join(folder, envFile))
		require.NoError(t, err)
		require.ErrorContains(t, again(), "is there already")
		after, err := os.ReadFile(filepath.Join(folder, envFile))
		require.NoError(t, err)
		require.Equal(t, before, after)
		stat, err := os.Stat(filepath.Join(folder, envFile))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), stat.Mode().Perm())
	})
}

// onServer makes the databases on a server of the test, and returns the environment with these and with free ports.
func onServer(t *testing.T, environ map[string]string, statements []string) map[string]string {
	t.Helper()
	server, err := embeddedpg.Start(t.Context(), embeddedpg.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.Background())) })
	admin, err := pgx.Connect(t.Context(), server.URL("postgres", "postgres"))
	require.NoError(t, err)
	for _, sql := range statements {
		_, err := admin.Exec(t.Context(), sql)
		require.NoError(t, err, sql)
	}
	require.NoError(t, admin.Close(t.Context()))
	for _, name := range []string{"onboarding", "messaging"} {
		variable := strings.ToUpper(name)
		require.Contains(t, environ[variable+"_DATABASE_URL"], "postgres://"+name+"_serve:")
		environ[variable+"_DATABASE_URL"] = server.URL(name, name+"_serve")
		environ[variable+"_DATABASE_MIGRATE_URL"] = server.URL(name, name)
	}
	ports, err := stack.FreePorts(t.Context(), 6)
	require.NoError(t, err)
	for i, variable := range []string{
		"GATEWAY_ADDR", "GATEWAY_OPS_ADDR", "ONBOARDING_ADDR", "ONBOARDING_OPS_ADDR", "MESSAGING_ADDR", "MESSAGING_OPS_ADDR",
	} {
		environ[variable] = ports[i]
	}
	environ["PUBLIC_BASE_URL"] = "http://" + environ["GATEWAY_ADDR"]
	return environ
}

// TestOneProcess serves all of the product in one process, from what init wrote, with the database as the alarm clock, and plays the burst.
func TestOneProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	environ, statements := initialised(t, "", nil, "--emulators")
	environ = onServer(t, environ, statements)
	vendors, err := stack.StartVendors(t.Context(), stack.VendorConfig{Clock: clock.System(), Log: telemetry.NewLogger(io.Discard, telemetry.Config{}, "emulators")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, vendors.Stop(context.Background())) })
	environ["TWILIO_API_URL"], environ["CONSOLE_HANDSETS_URL"] = vendors.TwilioURL, vendors.TwilioURL
	vendors.Twilio.SetInboundURL(environ["PUBLIC_BASE_URL"] + inboundPath)

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, []string{"serve", "--migrate"}, terminal{out: io.Discard, environ: environ}) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
		vendors.HangUp()
	})
	require.Eventually(t, func() bool {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, environ["PUBLIC_BASE_URL"]+"/readyz", http.NoBody)
		require.NoError(t, err)
		response, err := http.DefaultClient.Do(request)
		return err == nil && response.Body.Close() == nil && response.StatusCode == http.StatusOK
	}, time.Minute, 50*time.Millisecond)

	var token bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"token", "--api"}, terminal{out: &token, environ: environ}))
	api := &operator.Client{BaseURL: environ["PUBLIC_BASE_URL"], Token: strings.TrimSpace(token.String()), HTTP: http.DefaultClient}
	const phone = "+14155550143"
	var created struct {
		Profile struct {
			ID string `json:"profile_id"`
		} `json:"profile"`
	}
	person := map[string]string{"phone": phone, "first_name": "Ana", "locale": "en"}
	require.NoError(t, api.Call(t.Context(), http.MethodPost, "/v1/profiles", person, &created))
	require.NoError(t, api.Call(t.Context(), http.MethodPost, "/v1/profiles/"+created.Profile.ID+":activate", struct{}{}, nil))
	for _, words := range []string{"Sure", "ok"} {
		_, err := vendors.Twilio.Receive(t.Context(), phone, stack.FromNumber, words)
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return len(vendors.Twilio.Messages()) >= 6 }, time.Minute, 50*time.Millisecond)
	require.Len(t, vendors.Twilio.Messages(), 6)
	require.Empty(t, vendors.QStash.Record())
	for _, addr := range []string{environ["ONBOARDING_ADDR"], environ["MESSAGING_ADDR"]} {
		require.Zero(t, connections(t, addr), "the services call each other within the process")
	}
}

// connections counts those that the kernel has to a port of this machine.
func connections(t *testing.T, addr string) (n int) {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	number, err := strconv.Atoi(port)
	require.NoError(t, err)
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Skip("the connections of a machine are read from Linux's /proc")
	}
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		const established = "01"
		if len(fields) > 3 && strings.HasSuffix(fields[1], fmt.Sprintf(":%04X", number)) && fields[3] == established {
			n++
		}
	}
	return n
}
