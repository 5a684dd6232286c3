package manifests

import (
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/gateway"
	"paceline.internal/platform/config"
	"paceline.internal/services/messaging"
	"paceline.internal/services/onboarding"
)

// contract holds the facts about its environment that the code of a process declares.
type contract struct {
	variables []config.Variable
	load      func(environ map[string]string) error
	addr, ops string // the variables of its two ports
	// stop bounds the time that its end may take: the sum of the bounds that the comment at its Run gives. TestStopBounds compares
	// the two.
	stop time.Duration
}

func contracts() map[string]contract {
	return map[string]contract{
		"gateway": {
			variables: config.Describe[gateway.Config](), load: loading(gateway.LoadConfig),
			addr: "GATEWAY_ADDR", ops: "GATEWAY_OPS_ADDR",
			stop: 26*time.Second + 10*time.Second + 8*time.Second + 5*time.Second + 4*time.Second,
		},
		"onboarding": {
			variables: config.Describe[onboarding.Config](), load: loading(onboarding.LoadConfig),
			addr: "ONBOARDING_ADDR", ops: "ONBOARDING_OPS_ADDR",
			stop: 10*time.Second + 20*time.Second + 10*time.Second + 9*30*time.Second + 18*10*time.Second + 5*time.Second + 31*time.Second,
		},
		"messaging": {
			variables: config.Describe[messaging.Config](), load: loading(messaging.LoadConfig),
			addr: "MESSAGING_ADDR", ops: "MESSAGING_OPS_ADDR",
			stop: 20*time.Second + 10*time.Second + 20*time.Second + 25*time.Second + 7*5*time.Second + 11*time.Second,
		},
	}
}

// loading is the loader of a config without the config.
func loading[T any](load func(map[string]string) (T, error)) func(map[string]string) error {
	return func(environ map[string]string) error {
		_, err := load(environ)
		return err
	}
}

// process is one process as a deployment describes it.
type process struct {
	name    string            // where it is described, for reports
	service string            // the service that has its contract
	environ map[string]string // its own
	shared  map[string]string // what all processes get, whether they read it or not
	files   map[string]string // what is mounted: path to content
}

// known reports whether a service reads a variable, and whether it is a secret.
func known(service, name string) (secret, ok bool) {
	for _, v := range contracts()[service].variables {
		if v.Name == name {
			return v.Secret, true
		}
	}
	return false, name == "GOMEMLIMIT" // Go itself reads it
}

// environment returns what is wrong with the variables of p. Secrets come from files, so that no inspection of a container shows them.
func (p process) environment() []string {
	var problems []string
	environ := map[string]string{}
	for name, value := range p.shared {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(contracts())), func(s string) bool { _, ok := known(s, name); return ok }) {
			problems = append(problems, p.name+": no process reads the shared "+name)
		}
		environ[name] = value
	}
	for name, value := range p.environ {
		plain := strings.TrimSuffix(name, config.FileSuffix)
		secret, ok := known(p.service, plain)
		content, mounted := p.files[value]
		switch {
		case !ok || plain != name && !secret:
			problems = append(problems, p.name+": "+p.service+" reads no "+name)
		case secret && plain == name:
			problems = append(problems, p.name+": "+name+" is a secret: mount it and name it by "+name+config.FileSuffix)
		case secret && !mounted:
			problems = append(problems, p.name+": "+name+" names "+value+", which is not mounted")
		case secret:
			environ[plain] = content
		default:
			environ[name] = value
		}
	}
	if err := contracts()[p.service].load(environ); err != nil {
		problems = append(problems, p.name+" would not start: "+err.Error())
	}
	return problems
}

// port is the port of one of p's addresses, or of its default.
func (p process) port(variable string) string {
	addr := p.environ[variable]
	for _, v := range contracts()[p.service].variables {
		if v.Name == variable && addr == "" {
			addr = v.Default
		}
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "none"
	}
	return port
}

// listens returns where p serves.
func (p process) listens() string { return p.port(contracts()[p.service].addr) }

// ops returns where p's probes ask.
func (p process) ops() string { return p.port(contracts()[p.service].ops) }

// calls are the addresses that p calls others at: service to host:port.
func (p process) calls() map[string]string {
	called := map[string]string{}
	for service, c := range contracts() {
		if addr := p.environ[c.addr]; service != p.service && addr != "" {
			called[service] = addr
		}
	}
	return called
}

// TestStopBounds fails when a service changes the bounds of its end: stop in contracts is the sum of it.
func TestStopBounds(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"gateway/run.go": "An orchestrator has to wait before it kills, at most: this, 10 s for the ops port, 8 s for the devices and the readers of events, 5 s for the last spans, and a second for each.",
		"services/onboarding/run.go": "An orchestrator has to wait before it kills, at most: 10 s for the streams of devices, 20 s for calls in flight, 10 s for the ops port, " +
			"30 s for each of the jobs, their retention, outreach, the deliveries of events, the relay, the sweeper, the alarms, the inbound sweep and the history of the database, 10 s for each of the two listeners, the counts of flows, " +
			"the two notifiers, the holds, the settings, the erasures, the organisations, the runs, the retention of alarms, of outreach and of deliveries, the sequencer and the readers of events, and of goals the relay, the sweeper, the devices and the offers, " +
			"5 s for the last spans, and a second for each.",
		"services/messaging/run.go": "An orchestrator has to wait before it kills, at most: TWILIO_TIMEOUT and 10 s for sends in flight, 10 s for the ops port, " +
			"5 s for the reconciler, 5 s for the counter, as long as for sends for the responder, 5 s more than that for the outbound queue, 5 s for its retention, 5 s for the anchors of the ledgers, 5 s for the history of the database, 5 s for reading back, " +
			"5 s for the last spans, and a second for each.",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			source, err := os.ReadFile(filepath.Join(root(t), path))
			require.NoError(t, err)
			require.Contains(t, regexp.MustCompile(`\n//\s*`).ReplaceAllString(string(source), " "), want)
		})
	}
}
