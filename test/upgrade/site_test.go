package upgrade_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/e2e"
	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/clock"
	"paceline.internal/emulators/twilio"
	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/platform/process"
)

func TestMain(m *testing.M) { pgtest.Run(m) }

// site is a deployment with three services as processes, each of the release that it was last started from.
type site struct {
	t        *testing.T
	environ  map[string]string
	ops      map[string]string // service -> where it says whether it is ready
	running  map[string]*exec.Cmd
	client   *http.Client
	carrier  *twilio.Emulator
	accepted chan twilio.Message // our messages that Twilio took
}

// found makes the place: databases on the schema of a release, both vendors, and no service yet.
func found(t *testing.T, schema release) *site {
	t.Helper()
	s := &site{t: t, running: map[string]*exec.Cmd{}, accepted: make(chan twilio.Message, 64), client: &http.Client{Transport: &http.Transport{}}}
	vendors, err := stack.StartVendors(t.Context(), stack.VendorConfig{
		Clock: clock.System(), Log: slog.New(slog.DiscardHandler), OnTwilio: func(e twilio.Event) {
			if e.Kind == twilio.EventCreated && e.Message.Direction == twilio.DirectionAPI {
				s.accepted <- e.Message
			}
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, vendors.Stop(context.WithoutCancel(t.Context()))) })
	t.Cleanup(s.close)
	s.carrier = vendors.Twilio
	ports, err := stack.FreePorts(t.Context(), 6)
	require.NoError(t, err)
	addresses := stack.Addresses{
		Gateway: ports[0], GatewayOps: ports[1], Onboarding: ports[2], OnboardingOps: ports[3], Messaging: ports[4], MessagingOps: ports[5],
	}
	secrets := stack.Secrets{ServiceAuth: rand.Text() + rand.Text(), APIJWT: rand.Text() + rand.Text()}
	s.environ = stack.ProcessEnviron(vendors, addresses, secrets)
	for name := range secrets.Keys() {
		delete(s.environ, name) // the release before knows no keys: in the overlap both sign with the secret
	}
	s.environ["SERVICE_AUTH_SECRET"] = secrets.ServiceAuth
	s.environ["ONBOARDING_DATABASE_URL"] = pgtest.URL(t, schema.onboarding)
	s.environ["MESSAGING_DATABASE_URL"] = pgtest.URL(t, schema.messaging)
	s.ops = map[string]string{"gateway": ports[1], "onboarding": ports[3], "messaging": ports[5]}
	return s
}

// runVerb runs a verb of a service of a release, and waits for its end.
func (s *site) runVerb(r release, service, verb string) {
	s.t.Helper()
	out, err := s.command(r, service, verb).CombinedOutput()
	require.NoError(s.t, err, "%s %s of the %s release: %s", service, verb, r.name, out)
}

func (s *site) command(r release, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.WithoutCancel(s.t.Context()), r.paceline, append([]string{"serve"}, args...)...)
	for name, value := range s.environ {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return cmd
}

// run has a service run from a release. As in a rolling upgrade, the process that ran before is asked to stop, and gets the time for it.
func (s *site) run(r release, service string) {
	s.t.Helper()
	s.stop(service)
	s.start(r, service)
	require.Eventually(s.t, func() bool { return s.ready(service) == http.StatusOK }, time.Minute, 20*time.Millisecond,
		"%s of the %s release does not become ready", service, r.name)
}

func (s *site) start(r release, service string) {
	s.t.Helper()
	cmd := s.command(r, service)
	require.NoError(s.t, cmd.Start())
	s.running[service] = cmd
}

// ready returns what a service says about itself; 0 when it says nothing.
func (s *site) ready(service string) int {
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+s.ops[service]+"/readyz", http.NoBody)
	if err != nil {
		return 0
	}
	response, err := s.client.Do(request)
	if err != nil || response.Body.Close() != nil {
		return 0
	}
	return response.StatusCode
}

func (s *site) stop(service string) {
	s.t.Helper()
	cmd := s.running[service]
	if cmd == nil {
		return
	}
	delete(s.running, service)
	require.NoError(s.t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(s.t, cmd.Wait(), "%s ends by itself when it is asked to", service)
}

func (s *site) close() {
	s.client.CloseIdleConnections()
	for _, service := range []string{"gateway", "onboarding", "messaging"} {
		s.stop(service)
	}
}

// count runs a query of one number on a service's database.
func (s *site) count(database, sql string) (n int) {
	s.t.Helper()
	pool, err := postgres.Open(s.t.Context(), postgres.Config{URL: s.environ[database]})
	require.NoError(s.t, err)
	defer pool.Close()
	require.NoError(s.t, pool.QueryRow(s.t.Context(), sql).Scan(&n))
	return n
}

// play has one whole conversation, from activation to its end, and checks every message, row and token of it.
func (s *site) play(ctx context.Context, mode e2e.Mode) (e2e.Report, error) {
	environ := stack.Credentials()
	maps.Copy(environ, map[string]string{
		"HARNESS_QSTASH_MODE": string(mode), "PUBLIC_BASE_URL": s.environ["PUBLIC_BASE_URL"], "API_JWT_SECRET": s.environ["API_JWT_SECRET"],
	})
	cfg, err := e2e.LoadConfig(environ)
	if err != nil {
		return e2e.Report{}, err
	}
	return e2e.Harness{
		Config: cfg, Now: time.Now, Rest: process.RestOnMachineClock, Tell: func(string) {}, Told: func(e2e.Check) {}, Patience: time.Minute,
	}.Run(ctx, 1)
}

// faults are the checks of a report that were not good.
func faults(r e2e.Report) (all []string) {
	for _, run := range r.Runs {
		for _, c := range run.Checks {
			if !c.OK {
				all = append(all, fmt.Sprint(c.Name, ": ", c.Saw))
			}
		}
	}
	return all
}
