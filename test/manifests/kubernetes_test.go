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
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"paceline.internal/deploy/stack"
	"paceline.internal/services/onboarding/conversation"
)

const overlay = "overlays/example"

// filled are the manifests as an operator leaves them, who has copied the example and filled it in.
func filled(t *testing.T) map[string]string {
	t.Helper()
	files := tree(t, "deploy/kubernetes")
	secrets, keys := files[overlay+"/secrets.env.example"], stack.Secrets{ServiceAuth: "of this test"}.Keys()
	for name, value := range map[string]string{
		"GATEWAY_SIGNING_KEY": keys["GATEWAY_SIGNING_KEY"], "ONBOARDING_SIGNING_KEY": keys["ONBOARDING_SIGNING_KEY"],
		"SERVICE_PUBLIC_KEYS": keys["SERVICE_PUBLIC_KEYS"], "API_JWT_SECRET": "0123456789abcdef0123456789abcdef",
		"ONBOARDING_DATABASE_URL": "postgres://u:p@db/onboarding", "MESSAGING_DATABASE_URL": "postgres://u:p@db/messaging",
		"REDIS_URL": "rediss://u:p@redis:6379/0", "QSTASH_TOKEN": "t", "QSTASH_CURRENT_SIGNING_KEY": "k", "QSTASH_NEXT_SIGNING_KEY": "k",
		"TWILIO_AUTH_TOKEN": "t", "TWILIO_API_KEY_SECRET": "t",
	} {
		require.Contains(t, secrets, "\n"+name+"=\n")
		secrets = strings.Replace(secrets, "\n"+name+"=\n", "\n"+name+"="+value+"\n", 1)
	}
	files[overlay+"/secrets.env"] = secrets
	replace(t, files, overlay+"/kustomization.yaml", "TWILIO_ACCOUNT_SID=", "TWILIO_ACCOUNT_SID=AC00000000000000000000000000000000")
	replace(t, files, overlay+"/kustomization.yaml", "TWILIO_API_KEY_SID=", "TWILIO_API_KEY_SID=SK00000000000000000000000000000000")
	replace(t, files, overlay+"/kustomization.yaml", "TWILIO_FROM_NUMBER=", "TWILIO_FROM_NUMBER=+12025550100")
	return files
}

// build returns what the overlay applies. kustomize finds what is not there, and strict decoding what is misspelt.
func build(t *testing.T, files map[string]string) (*applied, error) {
	t.Helper()
	memory := filesys.MakeFsInMemory()
	for path, content := range files {
		require.NoError(t, memory.WriteFile("/"+path, []byte(content)))
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(memory, "/"+overlay)
	if err != nil {
		return nil, err
	}
	content, err := built.AsYaml()
	require.NoError(t, err)
	return decode(content)
}

func TestKubernetes(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()

	t.Run("EveryProcessOfTheExampleStartsAndFindsTheOthers", func(t *testing.T) {
		t.Parallel()
		built, err := build(t, filled(t))
		require.NoError(t, err)
		require.Empty(t, built.wrong())
		built.areHardened(t)
		built.areScaled(t)
	})

	t.Run("R_20_APoolerIsAComponentThatNeedsTheDirectURLs", func(t *testing.T) {
		t.Parallel()
		files := filled(t)
		files[overlay+"/kustomization.yaml"] += "\ncomponents: [../../components/pooler]\n"
		built, err := build(t, files)
		require.NoError(t, err)
		for _, v := range []string{"ONBOARDING_DATABASE_DIRECT_URL", "MESSAGING_DATABASE_DIRECT_URL"} {
			require.Contains(t, strings.Join(built.wrong(), "\n"), v)
			files[overlay+"/secrets.env"] += v + "=postgres://u:p@server/database\n"
		}
		built, err = build(t, files)
		require.NoError(t, err)
		require.Empty(t, built.wrong())
	})

	t.Run("AnchorsAreAComponentThatNeedsItsKey", func(t *testing.T) {
		t.Parallel()
		files := filled(t)
		files[overlay+"/kustomization.yaml"] += "\ncomponents: [../../components/anchors]\n"
		built, err := build(t, files)
		require.NoError(t, err)
		require.Contains(t, strings.Join(built.wrong(), "\n"), "messaging would not start: LEDGER_SIGNING_KEY needs LEDGER_ANCHOR_DIR")
		replace(t, files, overlay+"/secrets.env", "LEDGER_SIGNING_KEY=", "LEDGER_SIGNING_KEY="+stack.Secrets{}.Keys()["GATEWAY_SIGNING_KEY"])
		built, err = build(t, files)
		require.NoError(t, err)
		require.Empty(t, built.wrong())
		for _, claim := range built.claims {
			require.Equal(t, "anchors", claim.Name)
		}
		require.Len(t, built.claims, 1)
	})

	t.Run("WithoutItsSecretsItIsNotBuilt", func(t *testing.T) {
		t.Parallel()
		_, err := build(t, tree(t, "deploy/kubernetes"))
		require.ErrorContains(t, err, "secrets.env")
	})

	t.Run("WithTheExampleOfThemNothingStarts", func(t *testing.T) {
		t.Parallel()
		files := tree(t, "deploy/kubernetes")
		files[overlay+"/secrets.env"] = files[overlay+"/secrets.env.example"]
		built, err := build(t, files)
		require.NoError(t, err)
		said := strings.Join(built.wrong(), "\n")
		for _, want := range []string{
			"gateway would not start: ", "onboarding would not start: ", "messaging would not start: ", "migrate-onboarding would not start: ",
			"migrate-messaging would not start: ", "SERVICE_AUTH_SECRET is missing", "ONBOARDING_DATABASE_URL is missing", "QSTASH_TOKEN is missing",
			"TWILIO_ACCOUNT_SID is missing", "TWILIO_AUTH_TOKEN is missing", "API_JWT_SECRET or API_JWKS_URL is missing",
		} {
			require.Contains(t, said, want)
		}
	})

	const gateway, onboarding, messaging = "base/gateway.yaml", "base/onboarding.yaml", "base/messaging.yaml"
	for _, tt := range []struct{ name, file, old, replacement, want string }{
		{name: "AFieldThatIsMisspelt", file: gateway, old: "periodSeconds: 1\n", replacement: "periodSecond: 1\n", want: `unknown field "periodSecond"`},
		{name: "ACallWhereNothingListens", file: gateway, old: "value: onboarding:9001", replacement: "value: onboarding:9002", want: "gateway calls onboarding:9002"},
		{name: "AServiceThatHidesItsReplicas", file: messaging, old: "  clusterIP: None\n", want: "calls messaging:9002, whose Service is not headless"},
		{name: "APortWhereNothingListens", file: messaging, old: "containerPort: 9002", replacement: "containerPort: 9001", want: "messaging: the port grpc is not 9002"},
		{name: "AReadinessProbeOfThePublicPort", file: gateway, old: "httpGet: { path: /readyz, port: ops }", replacement: "httpGet: { path: /readyz, port: http }", want: "gateway: the readiness probe"},
		{name: "AKillThatComesTooSoon", file: onboarding, old: "terminationGracePeriodSeconds: 495", replacement: "terminationGracePeriodSeconds: 30", want: "onboarding is killed after 25s"},
		{name: "AVariableThatNoProcessReads", file: gateway, old: "name: GATEWAY_ADDR", replacement: "name: GATEWAY_ADRR", want: "gateway reads no GATEWAY_ADRR"},
		{name: "ASharedVariableThatNoProcessReads", file: "base/kustomization.yaml", old: "LOG_LEVEL=info", replacement: "LOG_LEVELS=info", want: "no process reads the shared LOG_LEVELS"},
		{name: "AnOriginThatNoIngressServes", file: overlay + "/kustomization.yaml", old: "PUBLIC_BASE_URL=https://paceline.example.com", replacement: "PUBLIC_BASE_URL=https://other.example.com", want: "no Ingress brings https://other.ex"},
		{name: "ACallThatIsNotLetIn", file: "base/network.yaml", old: "    - from:\n        - podSelector:\n            matchLabels: { app.kubernetes.io/name: gateway, app.kubernetes.io/component: service }\n      ports: [{ protocol: TCP, port: 9001 }]\n", want: "gateway calls onboarding: true, let out: true, let in: false"},
		{name: "APortThatNoProcessNeeds", file: "base/network.yaml", old: "matchLabels: { app.kubernetes.io/name: gateway, app.kubernetes.io/component: service }\n      ports: [{ protocol: TCP, port: 9001 }]", replacement: "matchLabels: { app.kubernetes.io/component: service }\n      ports: [{ protocol: TCP, port: 9001 }]", want: "messaging calls onboarding: false"},
	} {
		t.Run("Notices"+tt.name, func(t *testing.T) {
			t.Parallel()
			files := filled(t)
			replace(t, files, tt.file, tt.old, tt.replacement)
			built, err := build(t, files)
			if err != nil {
				require.ErrorContains(t, err, tt.want)
				return
			}
			require.Contains(t, strings.Join(built.wrong(), "\n"), tt.want)
		})
	}
}

// applied is everything that is applied, by kind.
type applied struct {
	deployments []apps.Deployment
	jobs        []batch.Job
	reached     []core.Service
	configs     []core.ConfigMap
	secrets     []core.Secret
	claims      []core.PersistentVolumeClaim
	disruptions []policy.PodDisruptionBudget
	scalers     []autoscaling.HorizontalPodAutoscaler
	policies    []networking.NetworkPolicy
	ingresses   []networking.Ingress
}

// decode reads every document strictly: an unknown field, such as one that is misspelt, is an error, and so is an unknown kind.
func decode(content []byte) (*applied, error) {
	c := &applied{}
	readers := map[string]func([]byte) error{
		"apps/v1 Deployment":                     appendTo(&c.deployments),
		"batch/v1 Job":                           appendTo(&c.jobs),
		"v1 Service":                             appendTo(&c.reached),
		"v1 ConfigMap":                           appendTo(&c.configs),
		"v1 Secret":                              appendTo(&c.secrets),
		"v1 PersistentVolumeClaim":               appendTo(&c.claims),
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
		err := yaml.UnmarshalStrict(document, &object)
		*list = append(*list, object)
		return err
	}
}

// pod is a template together with what it runs.
type pod struct {
	process

	template core.PodTemplateSpec
	serves   bool // for ever, unlike a job
}

func (p pod) container() core.Container { return p.template.Spec.Containers[0] }

func (c *applied) pods() []pod {
	var pods []pod
	for _, d := range c.deployments {
		pods = append(pods, c.pod(d.Name, d.Spec.Template, true))
	}
	for _, j := range c.jobs {
		pods = append(pods, c.pod(j.Name, j.Spec.Template, false))
	}
	return pods
}

// pod gives a process what its ConfigMap and its Secret hold. What is absent there is missing when the process starts.
func (c *applied) pod(name string, template core.PodTemplateSpec, serves bool) pod {
	p := pod{template: template, serves: serves, process: process{
		name: name, service: template.Labels["app.kubernetes.io/name"],
		environ: map[string]string{}, shared: map[string]string{}, files: map[string]string{},
	}}
	for _, from := range p.container().EnvFrom {
		for _, config := range c.configs {
			if from.ConfigMapRef != nil && config.Name == from.ConfigMapRef.Name {
				maps.Copy(p.shared, config.Data)
			}
		}
	}
	for _, variable := range p.container().Env {
		p.environ[variable.Name] = variable.Value
	}
	for _, mount := range p.container().VolumeMounts {
		for _, volume := range template.Spec.Volumes {
			for _, secret := range c.secrets {
				if volume.Name != mount.Name || volume.Secret == nil || volume.Secret.SecretName != secret.Name {
					continue
				}
				for _, item := range volume.Secret.Items {
					if content, ok := secret.Data[item.Key]; ok {
						p.files[mount.MountPath+"/"+item.Path] = string(content)
					}
				}
			}
		}
	}
	return p
}

// wrong returns what keeps a process from starting, from being asked, from ending, or from finding another.
func (c *applied) wrong() []string {
	var problems []string
	for _, p := range c.pods() {
		problems = append(problems, p.environment()...)
		if p.serves {
			problems = append(problems, probed(p)...)
			problems = append(problems, ends(p)...)
		}
		for service, addr := range p.calls() {
			host, port, err := net.SplitHostPort(addr)
			if err != nil || !c.leads(host, port, service) {
				problems = append(problems, fmt.Sprintf("%s calls %s, where no Service leads to %s", p.name, addr, service))
			}
			if !slices.ContainsFunc(c.reached, func(s core.Service) bool { return s.Name == host && s.Spec.ClusterIP == core.ClusterIPNone }) {
				problems = append(problems, fmt.Sprintf("%s calls %s, whose Service is not headless: all calls would go to one replica", p.name, addr))
			}
		}
		problems = append(problems, c.network(p)...)
	}
	for _, m := range c.configs { // signatures are computed from it
		if u, err := url.Parse(m.Data["PUBLIC_BASE_URL"]); err != nil || !slices.ContainsFunc(c.ingresses, func(i networking.Ingress) bool {
			rule := i.Spec.Rules[0]
			return rule.Host == u.Host && slices.Contains(i.Spec.TLS[0].Hosts, u.Host) && rule.HTTP.Paths[0].Backend.Service.Name == "gateway"
		}) {
			problems = append(problems, "no Ingress brings "+m.Data["PUBLIC_BASE_URL"]+" to the gateway")
		}
	}
	return problems
}

// entrance returns what the port is called that others use.
func (p process) entrance() string {
	if p.service == "gateway" {
		return "http"
	}
	return "grpc"
}

// probed returns what is wrong with the ports and the probes of a pod.
func probed(p pod) []string {
	var problems []string
	for name, port := range map[string]string{"ops": p.ops(), p.entrance(): p.listens()} {
		if !slices.ContainsFunc(p.container().Ports, func(c core.ContainerPort) bool {
			return c.Name == name && strconv.Itoa(int(c.ContainerPort)) == port
		}) {
			problems = append(problems, fmt.Sprintf("%s: the port %s is not %s, where it listens", p.name, name, port))
		}
	}
	for _, want := range []struct {
		name, path string
		probe      *core.Probe
		timeout    int32
	}{
		{"startup", "/healthz", p.container().StartupProbe, 0},
		{"liveness", "/healthz", p.container().LivenessProbe, 0},
		{"readiness", "/readyz", p.container().ReadinessProbe, 3}, // it may take two seconds to say no
	} {
		if want.probe == nil || want.probe.HTTPGet == nil || want.probe.HTTPGet.Path != want.path ||
			want.probe.HTTPGet.Port.String() != "ops" || want.probe.TimeoutSeconds < want.timeout {
			problems = append(problems, fmt.Sprintf("%s: the %s probe does not ask %s of the ops port and wait for the answer", p.name, want.name, want.path))
		}
	}
	return problems
}

// ends returns what is wrong with how long a pod may take to end.
func ends(p pod) []string {
	var given time.Duration
	if grace := p.template.Spec.TerminationGracePeriodSeconds; grace != nil {
		given = time.Duration(*grace) * time.Second
	}
	if l := p.container().Lifecycle; l != nil && l.PreStop != nil && l.PreStop.Sleep != nil {
		given -= time.Duration(l.PreStop.Sleep.Seconds) * time.Second // it counts
	}
	if given < contracts()[p.service].stop {
		return []string{fmt.Sprintf("%s is killed after %s", p.name, given)}
	}
	return nil
}

// leads reports whether a port of a Service is where one of our processes serves, and no job.
func (c *applied) leads(name, port, service string) bool {
	for _, s := range c.reached {
		if s.Name != name {
			continue
		}
		for _, p := range c.pods() {
			if selects(s.Spec.Selector, p.template.Labels) && (p.service != service || !p.serves) {
				return false
			}
		}
		return slices.ContainsFunc(s.Spec.Ports, func(p core.ServicePort) bool {
			return strconv.Itoa(int(p.Port)) == port && p.TargetPort.String() == process{service: service}.entrance()
		})
	}
	return false
}

// network returns where the policies differ from who calls whom: what a process has an address of may be called, and nothing else.
func (c *applied) network(from pod) []string {
	var problems []string
	for _, to := range c.pods() {
		if !to.serves || from.name == to.name {
			continue
		}
		_, calls := from.calls()[to.service]
		out := c.lets(from, to, to.listens(), func(p networking.NetworkPolicy) (rules []networking.NetworkPolicyIngressRule) {
			for _, r := range p.Spec.Egress {
				rules = append(rules, networking.NetworkPolicyIngressRule{From: r.To, Ports: r.Ports})
			}
			return rules
		})
		in := c.lets(to, from, to.listens(), func(p networking.NetworkPolicy) []networking.NetworkPolicyIngressRule { return p.Spec.Ingress })
		if calls != out || calls != in {
			problems = append(problems, fmt.Sprintf("%s calls %s: %t, let out: %t, let in: %t", from.name, to.name, calls, out, in))
		}
	}
	return problems
}

// lets reports whether a policy of a pod names another pod of the namespace at a port.
func (c *applied) lets(of, other pod, port string, rules func(networking.NetworkPolicy) []networking.NetworkPolicyIngressRule) bool {
	for _, p := range c.policies {
		if !selects(p.Spec.PodSelector.MatchLabels, of.template.Labels) {
			continue
		}
		for _, r := range rules(p) {
			if (len(r.From) == 0 || slices.ContainsFunc(r.From, func(peer networking.NetworkPolicyPeer) bool {
				return peer.NamespaceSelector == nil && peer.PodSelector != nil && selects(peer.PodSelector.MatchLabels, other.template.Labels)
			})) && (len(r.Ports) == 0 || slices.ContainsFunc(r.Ports, func(p networking.NetworkPolicyPort) bool {
				return p.Port != nil && p.Port.String() == port
			})) {
				return true
			}
		}
	}
	return false
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

// areHardened fails when a pod may do more than its task, or may be reached by what no policy names.
func (c *applied) areHardened(t *testing.T) {
	t.Helper()
	for _, p := range c.pods() {
		yes, no, user := true, false, int64(65532)
		spec := p.template.Spec
		require.Equal(t, &no, spec.AutomountServiceAccountToken, p.name)
		require.Equal(t, &no, spec.EnableServiceLinks, p.name)
		require.Equal(t, &core.PodSecurityContext{
			RunAsNonRoot: &yes, RunAsUser: &user, RunAsGroup: &user, FSGroup: &user,
			SeccompProfile: &core.SeccompProfile{Type: core.SeccompProfileTypeRuntimeDefault},
		}, spec.SecurityContext, p.name)
		require.Equal(t, &core.SecurityContext{
			ReadOnlyRootFilesystem: &yes, AllowPrivilegeEscalation: &no, Capabilities: &core.Capabilities{Drop: []core.Capability{"ALL"}},
		}, p.container().SecurityContext, p.name)
		require.Contains(t, p.container().Resources.Limits, core.ResourceMemory, p.name)
		require.Regexp(t, `/`+p.service+`:v\d`, p.container().Image)
	}
	require.True(t, slices.ContainsFunc(c.policies, func(p networking.NetworkPolicy) bool {
		return len(p.Spec.PodSelector.MatchLabels) == 0 && len(p.Spec.Ingress)+len(p.Spec.Egress) == 0 && len(p.Spec.PolicyTypes) == 2
	}), "no NetworkPolicy refuses what no other allows")
}

// areScaled fails when a deployment may shrink to one, may be taken away as a whole, or is scaled by what we do not measure.
func (c *applied) areScaled(t *testing.T) {
	t.Helper()
	require.Len(t, c.scalers, len(c.deployments))
	require.Len(t, c.disruptions, len(c.deployments))
	for i, d := range c.deployments {
		require.Nil(t, d.Spec.Replicas, "every apply would take them from the HorizontalPodAutoscaler")
		require.Zero(t, d.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue(), d.Name)
		require.Equal(t, d.Name, c.disruptions[i].Name)
		require.GreaterOrEqual(t, c.disruptions[i].Spec.MinAvailable.IntValue(), 1)
		require.Equal(t, d.Spec.Selector.MatchLabels, c.disruptions[i].Spec.Selector.MatchLabels)
		require.Equal(t, d.Name, c.scalers[i].Spec.ScaleTargetRef.Name)
		require.GreaterOrEqual(t, *c.scalers[i].Spec.MinReplicas, int32(2))
		for _, variable := range d.Spec.Template.Spec.Containers[0].Env {
			if variable.Name == "DATABASE_REPLICAS" {
				require.Equal(t, strconv.Itoa(int(c.scalers[i].Spec.MaxReplicas)), variable.Value, "the doctor of %s counts others", d.Name)
			}
		}
		for _, m := range c.scalers[i].Spec.Metrics {
			if m.External != nil { // test/telemetry finds it among what is exported
				require.Equal(t, "paceline_jobs_backlog", m.External.Metric.Name)
				require.Equal(t, map[string]string{"queue": conversation.JobsTable}, m.External.Metric.Selector.MatchLabels)
			}
		}
	}
}
