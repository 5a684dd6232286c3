package stack_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/stack"
	"paceline.internal/platform/config"
)

// asService makes the test binary one of the three services, so that it can be started and killed for real.
const asService = "PACELINE_TEST_AS_SERVICE"

// serveAs is the whole process when the test binary is a service.
func serveAs(name string) {
	service, err := stack.ServiceNamed(name)
	if err == nil {
		err = service.Serve(context.Background(), config.Environ(os.Environ()))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

// everyCall makes TestKillMatrix exhaustive: every call on every wire, and every statement, in about ten minutes on a quiet
// machine (go test -run TestKillMatrix -timeout 30m). Without it each conversation is a sample that differs from run to run.
const everyCall = false

// TestKillMatrix kills a process with SIGKILL at a call that crosses a boundary, on the calling side of it: before the call
// reaches the other side, and after it has done its work there and the caller was not told. The process is started again, and the
// person must not notice. TestCrashMatrix does the same to connections, at every single call.
func TestKillMatrix(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	for _, tc := range []struct {
		name   string
		caller string // who is killed
		calls  int    // that one conversation makes here, at the least
		wire   func(t *testing.T, f *fleet) (*breaker, map[string]string)
	}{
		{name: "S0_65_GatewayToOnboarding", caller: stack.Gateway, calls: 8, wire: func(t *testing.T, f *fleet) (*breaker, map[string]string) {
			t.Helper()
			w := grpcWire(t, &bundle{}, f.addresses.Onboarding)
			return &w.breaker, map[string]string{"ONBOARDING_ADDR": w.addr}
		}},
		{name: "S0_65_OnboardingToMessaging", caller: stack.Onboarding, calls: 10, wire: func(t *testing.T, f *fleet) (*breaker, map[string]string) {
			t.Helper()
			w := grpcWire(t, &bundle{}, f.addresses.Messaging)
			return &w.breaker, map[string]string{"MESSAGING_ADDR": w.addr}
		}},
		{name: "S0_65_OnboardingToQStash", caller: stack.Onboarding, calls: 4, wire: func(t *testing.T, f *fleet) (*breaker, map[string]string) {
			t.Helper()
			d := newDetour(t, f.vendors.QStashURL, nil)
			return &d.breaker, map[string]string{"QSTASH_URL": d.url}
		}},
		{name: "S0_65_MessagingToTwilio", caller: stack.Messaging, calls: 6, wire: func(t *testing.T, f *fleet) (*breaker, map[string]string) {
			t.Helper()
			d := newDetour(t, f.vendors.TwilioURL, nil)
			return &d.breaker, map[string]string{"TWILIO_API_URL": d.url}
		}},
		{name: "S0_65_OnboardingToPostgres", caller: stack.Onboarding, calls: 60, wire: func(t *testing.T, f *fleet) (*breaker, map[string]string) {
			t.Helper()
			w, through := postgresWire(t, &bundle{}, f.environ["ONBOARDING_DATABASE_URL"])
			return &w.breaker, map[string]string{"ONBOARDING_DATABASE_URL": through}
		}},
		{name: "S0_65_MessagingToPostgres", caller: stack.Messaging, calls: 30, wire: func(t *testing.T, f *fleet) (*breaker, map[string]string) {
			t.Helper()
			w, through := postgresWire(t, &bundle{}, f.environ["MESSAGING_DATABASE_URL"])
			return &w.breaker, map[string]string{"MESSAGING_DATABASE_URL": through}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			lost, detour := tc.wire(t, f)
			lost.struck = func() { f.kill(tc.caller) }
			f.start(t, tc.caller, detour)
			for _, when := range []moment{before, after} {
				for _, call := range killedCalls(t, tc.calls) {
					if !f.survives(t, lost, call, when) {
						break
					}
				}
			}
		})
	}
}

// killedCalls are the calls at which the caller is killed.
func killedCalls(t *testing.T, calls int) []int {
	t.Helper()
	if everyCall {
		all := make([]int, 10_000) // it ends at the first that no conversation makes
		for i := range all {
			all[i] = i
		}
		return all
	}
	var drawn [1]byte
	_, err := rand.Read(drawn[:])
	require.NoError(t, err)
	return []int{int(drawn[0]) % calls}
}
