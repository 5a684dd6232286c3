package manifests

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"paceline.internal/gateway"
	"paceline.internal/platform/config"
	"paceline.internal/services/messaging"
	"paceline.internal/services/onboarding"
)

// contract is what the code of a process says about its environment.
type contract struct {
	variables []config.Variable
	load      func(environ map[string]string) error
	addr, ops string // the variables of its two ports
	// stop is how long it may take to end: the sum of the bounds that the comment at its Run gives. TestStopBounds holds both
	// together.
	stop time.Duration
}

func contracts() map[string]contract {
	return map[string]contract{
		"gateway": {
			variables: config.Describe[gateway.Config](), load: loading(gateway.LoadConfig),
			addr: "GATEWAY_ADDR", ops: "GATEWAY_OPS_ADDR",
			stop: 26*time.Second + 10*time.Second + 5*time.Second + 3*time.Second,
		},
		"onboarding": {
			variables: config.Describe[onboarding.Config](), load: loading(onboarding.LoadConfig),
			addr: "ONBOARDING_ADDR", ops: "ONBOARDING_OPS_ADDR",
			stop: 20*time.Second + 10*time.Second + 5*30*time.Second + 3*10*time.Second + 5*time.Second + 11*time.Second,
		},
		"messaging": {
			variables: config.Describe[messaging.Config](), load: loading(messaging.LoadConfig),
			addr: "MESSAGING_ADDR", ops: "MESSAGING_OPS_ADDR",
			stop: 20*time.Second + 10*time.Second + 5*time.Second + 20*time.Second + 25*time.Second + 5*time.Second + 5*time.Second + 7*time.Second,
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

// runtimeVariables are read by Go itself.
var runtimeVariables = []string{"GOMEMLIMIT"}

// process is one process as a deployment describes it.
type process struct {
	name    string            // where it is described, for reports
	service string            // whose contract it has
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
	return false, false
}

// environment is what is wrong with the variables of p. Secrets come from files, so that no inspection of a container shows them.
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
		if secret, ok := known(p.service, name); ok && secret {
			problems = append(problems, p.name+": "+name+" is a secret: mount it and name it by "+name+config.FileSuffix)
		} else if ok {
			environ[name] = value
		} else if secret, ok := known(p.service, strings.TrimSuffix(name, config.FileSuffix)); ok && secret {
			content, mounted := p.files[value]
			if !mounted {
				problems = append(problems, p.name+": "+name+" names "+value+", which is not mounted")
			}
			environ[strings.TrimSuffix(name, config.FileSuffix)] = content
		} else if !slices.Contains(runtimeVariables, name) {
			problems = append(problems, p.name+": "+p.service+" reads no "+name)
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

// stops is what is wrong with the time that p is given to end.
func (p process) stops(given time.Duration) []string {
	if need := contracts()[p.service].stop; given < need {
		return []string{fmt.Sprintf("%s is killed after %s and may need %s", p.name, given, need)}
	}
	return nil
}
