package manifests

import (
	"bytes"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// Kubernetes is what is wrong with what a kustomization builds.
func Kubernetes(files filesys.FileSystem, dir string) ([]string, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, dir)
	if err != nil {
		return nil, err
	}
	content, err := built.AsYaml()
	if err != nil {
		return nil, err
	}
	c, err := decode(content)
	if err != nil {
		return nil, err
	}
	problems := slices.Concat(c.workloads(), c.services(), c.budgets(), c.scaling(), c.entrances(), c.network())
	slices.Sort(problems)
	return slices.Compact(problems), nil
}

// cluster is everything that is applied, by kind.
type cluster struct {
	deployments []apps.Deployment
	jobs        []batch.Job
	reached     []core.Service
	configs     []core.ConfigMap
	secrets     []core.Secret
	disruptions []policy.PodDisruptionBudget
	scalers     []autoscaling.HorizontalPodAutoscaler
	policies    []networking.NetworkPolicy
	ingresses   []networking.Ingress
}

// decode reads every document strictly: an unknown field, such as one that is misspelt, is an error, and so is a kind that nothing here
// looks at.
func decode(content []byte) (*cluster, error) {
	c := &cluster{}
	readers := map[string]func([]byte) error{
		"apps/v1 Deployment":                     appendTo(&c.deployments),
		"batch/v1 Job":                           appendTo(&c.jobs),
		"v1 Service":                             appendTo(&c.reached),
		"v1 ConfigMap":                           appendTo(&c.configs),
		"v1 Secret":                              appendTo(&c.secrets),
		"policy/v1 PodDisruptionBudget":          appendTo(&c.disruptions),
		"autoscaling/v2 HorizontalPodAutoscaler": appendTo(&c.scalers),
		"networking.k8s.io/v1 NetworkPolicy":     appendTo(&c.policies),
		"networking.k8s.io/v1 Ingress":           appendTo(&c.ingresses),
	}
	for document := range bytes.SplitSeq(content, []byte("\n---\n")) {
		var about struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
		}
		if err := yaml.Unmarshal(document, &about); err != nil {
			return nil, err
		}
		read, ok := readers[about.APIVersion+" "+about.Kind]
		if !ok {
			return nil, fmt.Errorf("no check knows %s %s", about.APIVersion, about.Kind)
		}
		if err := read(document); err != nil {
			return nil, fmt.Errorf("%s: %w", about.Kind, err)
		}
	}
	return c, nil
}

func appendTo[T any](list *[]T) func([]byte) error {
	return func(document []byte) error {
		var object T
		if err := yaml.UnmarshalStrict(document, &object); err != nil {
			return err
		}
		*list = append(*list, object)
		return nil
	}
}

// pod is a template together with what it is for.
type pod struct {
	name     string
	template core.PodTemplateSpec
	serves   bool // for ever, unlike a job
}

func (c *cluster) pods() []pod {
	var pods []pod
	for _, d := range c.deployments {
		pods = append(pods, pod{d.Name, d.Spec.Template, true})
	}
	for _, j := range c.jobs {
		pods = append(pods, pod{j.Name, j.Spec.Template, false})
	}
	return pods
}

// selects reports whether all labels are there; nothing selects everything.
func selects(selector, labels map[string]string) bool {
	for name, value := range selector {
		if labels[name] != value {
			return false
		}
	}
	return true
}

// process is what the one container of a pod runs, with what its ConfigMap and its Secret give it; problems are what it names that
// is not there.
func (c *cluster) process(p pod) (process, []string) {
	container := p.template.Spec.Containers[0]
	out := process{
		name: p.name, service: p.template.Labels["app.kubernetes.io/name"], environ: map[string]string{}, shared: map[string]string{},
		files: map[string]string{},
	}
	var problems []string
	for _, from := range container.EnvFrom {
		i := slices.IndexFunc(c.configs, func(m core.ConfigMap) bool { return from.ConfigMapRef != nil && m.Name == from.ConfigMapRef.Name })
		if i < 0 {
			problems = append(problems, p.name+" takes its environment from something that is not there")
			continue
		}
		maps.Copy(out.shared, c.configs[i].Data)
	}
	for _, variable := range container.Env {
		out.environ[variable.Name] = variable.Value
	}
	for _, mount := range container.VolumeMounts {
		i := slices.IndexFunc(p.template.Spec.Volumes, func(v core.Volume) bool { return v.Name == mount.Name && v.Secret != nil })
		if i < 0 {
			problems = append(problems, p.name+" mounts "+mount.Name+", which is no volume of a secret")
			continue
		}
		source := p.template.Spec.Volumes[i].Secret
		s := slices.IndexFunc(c.secrets, func(s core.Secret) bool { return s.Name == source.SecretName })
		if s < 0 {
			problems = append(problems, p.name+" mounts the secret "+source.SecretName+", which is not there")
			continue
		}
		for _, item := range source.Items {
			content, ok := c.secrets[s].Data[item.Key]
			if !ok {
				problems = append(problems, p.name+" mounts the key "+item.Key+", which the secret does not have")
			}
			out.files[mount.MountPath+"/"+item.Path] = string(content)
		}
	}
	return out, problems
}

// workloads is what is wrong with the pods.
func (c *cluster) workloads() []string {
	var problems []string
	for _, p := range c.pods() {
		if len(p.template.Spec.Containers) != 1 {
			problems = append(problems, p.name+" has not one container")
			continue
		}
		process, missing := c.process(p)
		if _, ok := contracts()[process.service]; !ok {
			problems = append(problems, p.name+" is no service of ours by its name label")
			continue
		}
		problems = append(problems, missing...)
		problems = append(problems, process.environment()...)
		problems = append(problems, confined(p)...)
		if p.serves {
			problems = append(problems, probed(p, process)...)
			problems = append(problems, ends(p, process)...)
		}
	}
	for _, d := range c.deployments {
		if !selects(d.Spec.Selector.MatchLabels, d.Spec.Template.Labels) {
			problems = append(problems, d.Name+" does not select its own pods")
		}
		if d.Spec.Replicas != nil {
			problems = append(problems, d.Name+" sets replicas, which every apply would take from its HorizontalPodAutoscaler")
		}
		if r := d.Spec.Strategy.RollingUpdate; r == nil || r.MaxUnavailable == nil || r.MaxUnavailable.IntValue() != 0 {
			problems = append(problems, d.Name+" has fewer replicas than it should while it is updated")
		}
	}
	return problems
}

// confined is what a pod may do beyond its task.
func confined(p pod) []string {
	var problems []string
	lacks := func(wanted bool, what string) {
		if !wanted {
			problems = append(problems, p.name+" "+what)
		}
	}
	is := func(flag *bool, want bool) bool { return flag != nil && *flag == want }
	spec, container := p.template.Spec, p.template.Spec.Containers[0]
	lacks(is(spec.AutomountServiceAccountToken, false), "gets a token of the API that it does not need")
	lacks(is(spec.EnableServiceLinks, false), "gets an environment of other services")
	if c := spec.SecurityContext; c == nil {
		lacks(false, "has no security context")
	} else {
		lacks(is(c.RunAsNonRoot, true) && c.RunAsUser != nil && *c.RunAsUser > 0 && c.FSGroup != nil,
			"may run as root, or cannot read its secrets as somebody else")
		lacks(c.SeccompProfile != nil && c.SeccompProfile.Type == core.SeccompProfileTypeRuntimeDefault, "may make any system call")
	}
	if c := container.SecurityContext; c == nil {
		lacks(false, "has a container without a security context")
	} else {
		lacks(is(c.ReadOnlyRootFilesystem, true), "may write to its root file system")
		lacks(is(c.AllowPrivilegeEscalation, false), "may gain privileges")
		lacks(c.Capabilities != nil && slices.Equal(c.Capabilities.Drop, []core.Capability{"ALL"}), "keeps capabilities")
	}
	lacks(!container.Resources.Limits.Memory().IsZero() && !container.Resources.Requests.Memory().IsZero() &&
		!container.Resources.Requests.Cpu().IsZero(), "has no bounds of memory, or asks for no CPU")
	image, tag, _ := strings.Cut(container.Image[strings.LastIndex(container.Image, "/")+1:], ":")
	lacks(tag != "" && tag != "unset" && tag != "latest", "runs an image without a release: "+container.Image)
	lacks(image == p.template.Labels["app.kubernetes.io/name"], "runs the image of another service")
	return problems
}

// probed is what is wrong with the ports and the probes of a pod.
func probed(p pod, process process) []string {
	var problems []string
	container, contract := p.template.Spec.Containers[0], contracts()[process.service]
	want := map[string]string{"ops": process.port(contract.ops), entrance(process.service): process.port(contract.addr)}
	for name, port := range want {
		i := slices.IndexFunc(container.Ports, func(c core.ContainerPort) bool { return c.Name == name })
		if i < 0 || strconv.Itoa(int(container.Ports[i].ContainerPort)) != port {
			problems = append(problems, fmt.Sprintf("%s: the port %s is not %s, where it listens", p.name, name, port))
		}
	}
	for _, probe := range []struct {
		name, path string
		probe      *core.Probe
		patience   int32 // /readyz may take two seconds to say no
	}{
		{"startup", "/healthz", container.StartupProbe, 1},
		{"liveness", "/healthz", container.LivenessProbe, 1},
		{"readiness", "/readyz", container.ReadinessProbe, 3},
	} {
		if probe.probe == nil || probe.probe.HTTPGet == nil || probe.probe.HTTPGet.Path != probe.path ||
			probe.probe.HTTPGet.Port.String() != "ops" {
			problems = append(problems, fmt.Sprintf("%s: the %s probe does not ask %s of the ops port", p.name, probe.name, probe.path))
			continue
		}
		if max(probe.probe.TimeoutSeconds, 1) < probe.patience {
			problems = append(problems, fmt.Sprintf("%s: the %s probe gives up before the answer", p.name, probe.name))
		}
	}
	return problems
}

// ends is what is wrong with how long a pod may take to end.
func ends(p pod, process process) []string {
	grace := p.template.Spec.TerminationGracePeriodSeconds
	if grace == nil {
		return []string{p.name + " says nothing of how long its end may take"}
	}
	given := time.Duration(*grace) * time.Second
	if l := p.template.Spec.Containers[0].Lifecycle; l != nil && l.PreStop != nil && l.PreStop.Sleep != nil {
		given -= time.Duration(l.PreStop.Sleep.Seconds) * time.Second // it counts
	}
	return process.stops(given)
}

// entrance is what the port is called that others use.
func entrance(service string) string {
	if service == "gateway" {
		return "http"
	}
	return "grpc"
}

// selected are the pods that labels select.
func (c *cluster) selected(labels map[string]string) []pod {
	var found []pod
	for _, p := range c.pods() {
		if selects(labels, p.template.Labels) {
			found = append(found, p)
		}
	}
	return found
}

// services is what is wrong with the Services, and with who calls them.
func (c *cluster) services() []string {
	var problems []string
	for _, s := range c.reached {
		pods := c.selected(s.Spec.Selector)
		if len(s.Spec.Selector) == 0 || len(pods) != 1 || !pods[0].serves {
			problems = append(problems, fmt.Sprintf("the Service %s selects %d workloads, or a job", s.Name, len(pods)))
			continue
		}
		for _, port := range s.Spec.Ports {
			target := port.TargetPort.String()
			if !slices.ContainsFunc(pods[0].template.Spec.Containers[0].Ports, func(p core.ContainerPort) bool { return p.Name == target }) {
				problems = append(problems, fmt.Sprintf("the Service %s leads to the port %s, which its pods do not have", s.Name, target))
			}
		}
	}
	for _, p := range c.pods() {
		process, _ := c.process(p)
		for service, addr := range process.calls() {
			host, port, err := net.SplitHostPort(addr)
			i := slices.IndexFunc(c.reached, func(s core.Service) bool { return s.Name == host })
			if err != nil || i < 0 || !c.leads(c.reached[i], service, port) {
				problems = append(problems, fmt.Sprintf("%s calls %s, where no Service leads to %s", p.name, addr, service))
			}
		}
	}
	return problems
}

// leads reports whether a port of a Service is where a process of ours is called.
func (c *cluster) leads(s core.Service, service, port string) bool {
	pods := c.selected(s.Spec.Selector)
	return len(pods) == 1 && pods[0].template.Labels["app.kubernetes.io/name"] == service &&
		slices.ContainsFunc(s.Spec.Ports, func(p core.ServicePort) bool {
			return strconv.Itoa(int(p.Port)) == port && p.TargetPort.String() == entrance(service)
		})
}

// budgets is which deployments may be taken away as a whole.
func (c *cluster) budgets() []string {
	var problems []string
	guarded := map[string]bool{}
	for _, b := range c.disruptions {
		pods := c.selected(b.Spec.Selector.MatchLabels)
		if len(pods) != 1 || b.Spec.MinAvailable == nil || b.Spec.MinAvailable.IntValue() < 1 {
			problems = append(problems, fmt.Sprintf("the PodDisruptionBudget %s keeps none of exactly one workload", b.Name))
			continue
		}
		guarded[pods[0].name] = true
	}
	for _, d := range c.deployments {
		if !guarded[d.Name] {
			problems = append(problems, d.Name+" has no PodDisruptionBudget")
		}
	}
	return problems
}

// gauges are the metrics of ours that something scales by, with the queues that they are labelled with.
var gauges = map[string]string{"jobs_backlog": "webhook_jobs"} // TestGauges holds them to the code

// scaling is what is wrong with the autoscalers.
func (c *cluster) scaling() []string {
	var problems []string
	scaled := map[string]bool{}
	for _, s := range c.scalers {
		target := s.Spec.ScaleTargetRef
		if target.Kind != "Deployment" || !slices.ContainsFunc(c.deployments, func(d apps.Deployment) bool { return d.Name == target.Name }) {
			problems = append(problems, fmt.Sprintf("the HorizontalPodAutoscaler %s scales nothing", s.Name))
			continue
		}
		scaled[target.Name] = true
		if s.Spec.MinReplicas == nil || *s.Spec.MinReplicas < 2 {
			problems = append(problems, target.Name+" may shrink to one, which its PodDisruptionBudget then lets nobody move")
		}
		cpu := false
		for _, m := range s.Spec.Metrics {
			cpu = cpu || m.Resource != nil && m.Resource.Name == core.ResourceCPU
			if m.External == nil {
				continue
			}
			name, selector := m.External.Metric.Name, m.External.Metric.Selector
			if queue, ok := gauges[name]; !ok || selector == nil || selector.MatchLabels["queue"] != queue {
				problems = append(problems, fmt.Sprintf("%s scales by %s, which we do not measure so", target.Name, name))
			}
		}
		if !cpu {
			problems = append(problems, target.Name+" is not scaled by CPU")
		}
	}
	for _, d := range c.deployments {
		if !scaled[d.Name] {
			problems = append(problems, d.Name+" has no HorizontalPodAutoscaler")
		}
	}
	return problems
}

// entrances is what is wrong with the way in: signatures are computed from PUBLIC_BASE_URL, so it has to be what the Ingress serves.
func (c *cluster) entrances() []string {
	var problems []string
	for _, m := range c.configs {
		u, err := url.Parse(m.Data["PUBLIC_BASE_URL"])
		if err != nil || len(c.ingresses) == 0 {
			continue
		}
		if !slices.ContainsFunc(c.ingresses, func(i networking.Ingress) bool { return c.serves(i, u) }) {
			problems = append(problems, "no Ingress brings "+u.String()+" to the gateway")
		}
	}
	return problems
}

func (c *cluster) serves(ingress networking.Ingress, origin *url.URL) bool {
	secured := func(t networking.IngressTLS) bool { return slices.Contains(t.Hosts, origin.Host) }
	if origin.Scheme != "https" || !slices.ContainsFunc(ingress.Spec.TLS, secured) {
		return false
	}
	for _, rule := range ingress.Spec.Rules {
		if rule.Host != origin.Host || rule.HTTP == nil || len(rule.HTTP.Paths) != 1 {
			continue
		}
		to := rule.HTTP.Paths[0].Backend.Service
		i := slices.IndexFunc(c.reached, func(s core.Service) bool { return to != nil && s.Name == to.Name })
		return i >= 0 && slices.ContainsFunc(c.reached[i].Spec.Ports, func(p core.ServicePort) bool { return p.Name == to.Port.Name }) &&
			rule.HTTP.Paths[0].Path == "/" && c.leads(c.reached[i], "gateway", strconv.Itoa(int(c.reached[i].Spec.Ports[0].Port)))
	}
	return false
}

// network is where the policies differ from who calls whom: what a process has an address of may be called, and nothing else.
func (c *cluster) network() []string {
	var problems []string
	if !slices.ContainsFunc(c.policies, func(p networking.NetworkPolicy) bool {
		return len(p.Spec.PodSelector.MatchLabels) == 0 && len(p.Spec.Ingress) == 0 && len(p.Spec.Egress) == 0 && len(p.Spec.PolicyTypes) == 2
	}) {
		problems = append(problems, "no NetworkPolicy refuses what no other allows")
	}
	for _, from := range c.pods() {
		caller, _ := c.process(from)
		for _, to := range c.pods() {
			callee, _ := c.process(to)
			if !to.serves || from.name == to.name {
				continue
			}
			_, calls := caller.calls()[callee.service]
			port := callee.port(contracts()[callee.service].addr)
			leaves := c.lets(from, to, port, outward)
			enters := c.lets(to, from, port, inward)
			switch {
			case calls && !leaves:
				problems = append(problems, fmt.Sprintf("no NetworkPolicy lets %s out to %s at %s", from.name, to.name, port))
			case calls && !enters:
				problems = append(problems, fmt.Sprintf("no NetworkPolicy lets %s in from %s at %s", to.name, from.name, port))
			case !calls && (leaves || enters):
				problems = append(problems, fmt.Sprintf("a NetworkPolicy lets %s reach %s, which it never calls", from.name, to.name))
			}
		}
	}
	return problems
}

// rule is one rule of a policy in either direction.
type rule struct {
	peers []networking.NetworkPolicyPeer
	ports []networking.NetworkPolicyPort
}

func inward(p networking.NetworkPolicy) []rule {
	var rules []rule
	for _, r := range p.Spec.Ingress {
		rules = append(rules, rule{r.From, r.Ports})
	}
	return rules
}

func outward(p networking.NetworkPolicy) []rule {
	var rules []rule
	for _, r := range p.Spec.Egress {
		rules = append(rules, rule{r.To, r.Ports})
	}
	return rules
}

// lets reports whether a policy of a pod names another pod of the namespace at a port. Addresses are not looked at: those of pods are
// the network plugin's affair.
func (c *cluster) lets(of, other pod, port string, rules func(networking.NetworkPolicy) []rule) bool {
	for _, p := range c.policies {
		if !selects(p.Spec.PodSelector.MatchLabels, of.template.Labels) {
			continue
		}
		for _, r := range rules(p) {
			peer := len(r.peers) == 0 || slices.ContainsFunc(r.peers, func(peer networking.NetworkPolicyPeer) bool {
				return peer.NamespaceSelector == nil && peer.PodSelector != nil && selects(peer.PodSelector.MatchLabels, other.template.Labels)
			})
			isPort := func(p networking.NetworkPolicyPort) bool { return p.Port != nil && p.Port.String() == port }
			at := len(r.ports) == 0 || slices.ContainsFunc(r.ports, isPort)
			if peer && at {
				return true
			}
		}
	}
	return false
}
