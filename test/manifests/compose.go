package manifests

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

// ours is how the images begin that /Dockerfile builds.
const ours = "paceline/"

// Compose is what is wrong with compose.yaml in dir when it is brought up with an env file of that folder. The secrets are those of
// the folder secrets in it.
func Compose(ctx context.Context, dir, envFile string) ([]string, error) {
	options, err := cli.NewProjectOptions([]string{filepath.Join(dir, "compose.yaml")},
		cli.WithWorkingDirectory(dir), cli.WithEnvFiles(filepath.Join(dir, envFile)), cli.WithDotEnv, cli.WithDefaultProfiles())
	if err != nil {
		return nil, err
	}
	project, err := options.LoadProject(ctx)
	if err != nil {
		return nil, err
	}
	c := composed{project}
	var problems []string
	for _, name := range project.ServiceNames() {
		s := project.Services[name]
		problems = append(problems, c.references(s)...)
		problems = append(problems, contained(s)...)
		problems = append(problems, c.origins(s)...)
		if p, ok := c.process(s); ok {
			problems = append(problems, p.environment()...)
			problems = append(problems, c.ports(s, p)...)
			problems = append(problems, c.neighbours(s, p)...)
		}
	}
	slices.Sort(problems)
	return problems, nil
}

type composed struct{ *types.Project }

// oneShot is a service that ends by itself.
func oneShot(s types.ServiceConfig) bool { return slices.Equal(s.Command, []string{"migrate"}) }

// process is a service that runs one of the three binaries.
func (c composed) process(s types.ServiceConfig) (process, bool) {
	image, _, _ := strings.Cut(strings.TrimPrefix(s.Image, ours), ":")
	if _, ok := contracts()[image]; !ok || !strings.HasPrefix(s.Image, ours) {
		return process{}, false
	}
	p := process{name: s.Name, service: image, environ: map[string]string{}, files: map[string]string{}}
	for name, value := range s.Environment {
		if value != nil {
			p.environ[name] = *value
		}
	}
	for _, secret := range s.Secrets {
		content, err := os.ReadFile(c.Secrets[secret.Source].File)
		if err == nil {
			p.files["/run/secrets/"+secret.Source] = strings.TrimSpace(string(content))
		}
	}
	return p, true
}

// references is what a service names that is not there.
func (c composed) references(s types.ServiceConfig) []string {
	var problems []string
	for _, v := range s.Volumes {
		if _, ok := c.Volumes[v.Source]; v.Type == types.VolumeTypeVolume && !ok {
			problems = append(problems, fmt.Sprintf("%s: volume %s is not defined", s.Name, v.Source))
		}
		if _, err := os.Stat(v.Source); v.Type == types.VolumeTypeBind && err != nil {
			problems = append(problems, fmt.Sprintf("%s: %s is mounted and is not there", s.Name, filepath.Base(v.Source)))
		}
	}
	for _, secret := range s.Secrets {
		defined, ok := c.Secrets[secret.Source]
		if !ok {
			problems = append(problems, fmt.Sprintf("%s: secret %s is not defined", s.Name, secret.Source))
			continue
		}
		if _, err := os.Stat(defined.File); err != nil {
			problems = append(problems, fmt.Sprintf("%s: secrets.sh makes no %s", s.Name, filepath.Base(defined.File)))
		}
	}
	for network := range s.Networks {
		if _, ok := c.Networks[network]; !ok {
			problems = append(problems, fmt.Sprintf("%s: network %s is not defined", s.Name, network))
		}
	}
	if s.Build != nil {
		if _, err := os.Stat(filepath.Join(s.Build.Context, "go.work")); err != nil && filepath.IsAbs(s.Build.Context) {
			problems = append(problems, s.Name+" is not built from the repository")
		}
		if service := s.Build.Args["SERVICE"]; service == nil || !strings.HasPrefix(s.Image, ours+*service+":") {
			problems = append(problems, s.Name+": the image is not called after its SERVICE")
		}
	}
	return problems
}

// contained is what a service lacks to be left alone.
func contained(s types.ServiceConfig) []string {
	var problems []string
	lacks := func(wanted bool, what string) {
		if !wanted {
			problems = append(problems, s.Name+" "+what)
		}
	}
	lacks(s.Restart != "" && s.Restart != "no", "is not restarted")
	lacks(s.Deploy != nil && s.Deploy.Resources.Limits != nil && s.Deploy.Resources.Limits.MemoryBytes > 0 &&
		s.Deploy.Resources.Limits.NanoCPUs > 0, "has no limits of memory and CPU")
	lacks(slices.Contains(s.SecurityOpt, "no-new-privileges:true"), "may gain privileges")
	lacks(s.StopGracePeriod != nil || oneShot(s), "says nothing of how long its end may take")
	for _, port := range s.Ports {
		lacks(port.HostIP == "127.0.0.1", "publishes "+port.Published+" beyond the loopback")
	}
	if !strings.HasPrefix(s.Image, ours) {
		lacks(!strings.HasSuffix(s.Image, ":latest") || s.Name == "qstash", "runs whatever is latest") // Upstash names no version
		lacks(s.HealthCheck != nil || s.Name == "qstash", "has no health check")                       // its image has nothing that could ask
		return problems
	}
	lacks(s.ReadOnly, "may write to its root file system")
	lacks(s.User == "65532:65532", "runs as somebody else than the image says")
	lacks(slices.Equal(s.CapDrop, []string{"ALL"}), "keeps capabilities")
	lacks(oneShot(s) || s.HealthCheck != nil && len(s.HealthCheck.Test) > 2 && s.HealthCheck.Test[1] == "/service" &&
		slices.ContainsFunc(s.HealthCheck.Test, func(word string) bool { return strings.TrimLeft(word, "-") == "health" }),
		"does not ask its own binary for its health")
	return problems
}

// ports is what is wrong with how p is reached, and how long it is given to end.
func (c composed) ports(s types.ServiceConfig, p process) []string {
	var problems []string
	contract := contracts()[p.service]
	listens := []string{p.port(contract.addr), p.port(contract.ops)}
	for _, port := range s.Ports {
		if target := strconv.FormatUint(uint64(port.Target), 10); !slices.Contains(listens, target) {
			problems = append(problems, fmt.Sprintf("%s publishes %s and listens on %s", s.Name, target, strings.Join(listens, " and ")))
		}
	}
	if oneShot(s) {
		return problems
	}
	if s.StopGracePeriod != nil {
		problems = append(problems, p.stops(time.Duration(*s.StopGracePeriod))...)
	}
	return problems
}

// neighbours is what is wrong with whom p calls.
func (c composed) neighbours(s types.ServiceConfig, p process) []string {
	var problems []string
	for service, addr := range p.calls() {
		host, port, err := net.SplitHostPort(addr)
		callee, ok := c.Services[host]
		if err != nil || !ok {
			if !oneShot(s) {
				problems = append(problems, fmt.Sprintf("%s calls %s, which is no service", s.Name, addr))
			}
			continue
		}
		if q, ok := c.process(callee); !ok || q.service != service || q.port(contracts()[service].addr) != port {
			problems = append(problems, fmt.Sprintf("%s calls %s, where %s does not listen", s.Name, addr, service))
		}
		if !oneShot(s) && !meet(s, callee) {
			problems = append(problems, fmt.Sprintf("%s and %s have no network in common", s.Name, host))
		}
	}
	return problems
}

// meet reports whether two services share a network.
func meet(a, b types.ServiceConfig) bool {
	for network := range a.Networks {
		if _, ok := b.Networks[network]; ok {
			return true
		}
	}
	return false
}

// origins is which origins without a dot, those of neighbours, lead to nobody.
func (c composed) origins(s types.ServiceConfig) []string {
	var problems []string
	for name, value := range s.Environment {
		if value == nil || !strings.HasPrefix(*value, "http://") {
			continue
		}
		u, err := url.Parse(*value)
		if err != nil || strings.Contains(u.Hostname(), ".") {
			continue
		}
		if strings.Contains(u.Hostname(), "_") { // Twilio's 21609
			problems = append(problems, fmt.Sprintf("%s: Twilio calls no host like that of %s", s.Name, name))
		}
		callee, ok := c.Services[u.Hostname()]
		switch {
		case !ok:
			problems = append(problems, fmt.Sprintf("%s: %s leads to %s, which this profile does not run", s.Name, name, u.Hostname()))
		case callee.Name == "qstash": // its port is its default
		case !listensOn(c, callee, u.Port()):
			problems = append(problems, fmt.Sprintf("%s: %s leads to %s, where nobody listens", s.Name, name, u.Host))
		}
	}
	return problems
}

// listensOn reports whether a service of ours listens on a port, by its environment or by its arguments.
func listensOn(c composed, s types.ServiceConfig, port string) bool {
	if p, ok := c.process(s); ok {
		return p.port(contracts()[p.service].addr) == port
	}
	return slices.Contains(s.Command, ":"+port)
}
