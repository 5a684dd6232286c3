package manifests

import (
	"bytes"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/chart/common"
	chartutil "helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"

	"paceline.internal/deploy/stack"
	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/onboarding/conversation"
)

const (
	chartFolder    = "deploy/helm"
	secretsExample = "secrets.env.example"
)

// given are the values that every deployment has to give.
func given() map[string]any {
	return map[string]any{
		"host": "paceline.example.com", "image": map[string]any{"registry": "registry.example.com/paceline"},
		"settings": map[string]any{
			"TWILIO_ACCOUNT_SID": "AC00000000000000000000000000000000", "TWILIO_API_KEY_SID": "SK00000000000000000000000000000000",
			"TWILIO_FROM_NUMBER": "+12025550100",
		},
	}
}

// filled is the chart with the secrets of an operator, who has filled in the example of them.
func filled(t *testing.T) map[string]string {
	t.Helper()
	files := tree(t, chartFolder)
	keys := stack.Secrets{ServiceAuth: "of this test"}.Keys()
	for name, value := range map[string]string{
		"GATEWAY_SIGNING_KEY": keys["GATEWAY_SIGNING_KEY"], "ONBOARDING_SIGNING_KEY": keys["ONBOARDING_SIGNING_KEY"],
		"SERVICE_PUBLIC_KEYS": keys["SERVICE_PUBLIC_KEYS"], "API_JWT_SECRET": "0123456789abcdef0123456789abcdef",
		"ONBOARDING_DATABASE_URL": "postgres://u:p@db/onboarding", "MESSAGING_DATABASE_URL": "postgres://u:p@db/messaging",
		"TWILIO_AUTH_TOKEN": "t", "TWILIO_API_KEY_SECRET": "t",
	} {
		fill(t, files, name, value)
	}
	return files
}

// fill gives a secret of the example its value.
func fill(t *testing.T, files map[string]string, name, value string) {
	t.Helper()
	replace(t, files, secretsExample, "\n"+name+"=\n", "\n"+name+"="+value+"\n")
}

// build returns the objects that helm applies, and the Secret that the operator made. The chart's schema finds values that it does not know,
// strict decoding finds fields that are misspelt.
func build(t *testing.T, files map[string]string, values map[string]any) (*applied, error) {
	t.Helper()
	var buffered []*archive.BufferedFile
	for path, content := range files {
		if inChart, ok := strings.CutPrefix(path, "paceline/"); ok {
			buffered = append(buffered, &archive.BufferedFile{Name: inChart, Data: []byte(content)})
		}
	}
	chart, err := loader.LoadFiles(buffered)
	require.NoError(t, err)
	kubernetes := *common.DefaultCapabilities
	kubernetes.KubeVersion = common.KubeVersion{Version: "v1.30.0", Major: "1", Minor: "30"}
	whole, err := chartutil.ToRenderValues(chart, values, common.ReleaseOptions{Name: "paceline", Namespace: "paceline", IsInstall: true}, &kubernetes)
	if err != nil {
		return nil, err
	}
	rendered, err := engine.Render(chart, whole)
	if err != nil {
		return nil, err
	}
	var documents []string
	for _, path := range slices.Sorted(maps.Keys(rendered)) {
		if strings.HasSuffix(path, ".yaml") {
			documents = append(documents, rendered[path])
		}
	}
	built, err := decode([]byte(strings.Join(documents, "\n---\n")))
	if err != nil {
		return nil, err
	}
	secret := core.Secret{Data: map[string][]byte{}}
	secret.Name = "paceline"
	for line := range strings.Lines(files[secretsExample]) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(line, "#") {
			secret.Data[name] = []byte(value)
		}
	}
	built.secrets = []core.Secret{secret}
	return built, nil
}

func TestKubernetes(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()

	// Each as a user sets it: what is given, with one difference.
	for _, tt := range []struct {
		name    string
		differs map[string]any
		secrets map[string]string
	}{
		{name: "WithTheDefaults"},
		{
			name: "WithQStash", differs: map[string]any{"alarms": "qstash,postgres"},
			secrets: map[string]string{"QSTASH_TOKEN": "t", "QSTASH_CURRENT_SIGNING_KEY": "k", "QSTASH_NEXT_SIGNING_KEY": "k"},
		},
		{
			name: "WithRedis", differs: map[string]any{"secrets": map[string]any{"optional": []any{"REDIS_URL"}}},
			secrets: map[string]string{"REDIS_URL": "rediss://u:p@redis:6379/0"},
		},
		{name: "ScaledByTheBacklog", differs: map[string]any{"onboarding": map[string]any{"scaleByBacklog": true}}},
		{
			name:    "R_20_BehindAPooler",
			differs: map[string]any{"secrets": map[string]any{"optional": []any{"ONBOARDING_DATABASE_DIRECT_URL", "MESSAGING_DATABASE_DIRECT_URL"}}},
			secrets: map[string]string{
				"ONBOARDING_DATABASE_DIRECT_URL": "postgres://u:p@server/database", "MESSAGING_DATABASE_DIRECT_URL": "postgres://u:p@server/database",
			},
		},
		{
			name: "WithAnchors", differs: map[string]any{"anchors": map[string]any{"enabled": true}},
			secrets: map[string]string{"LEDGER_SIGNING_KEY": stack.Secrets{}.Keys()["GATEWAY_SIGNING_KEY"]},
		},
	} {
		t.Run("EveryProcessStartsAndFindsTheOthers/"+tt.name, func(t *testing.T) {
			t.Parallel()
			files, values := filled(t), given()
			maps.Copy(values, tt.differs)
			for name, value := range tt.secrets {
				fill(t, files, name, value)
			}
			built, err := build(t, files, values)
			require.NoError(t, err)
			require.Empty(t, built.wrong())
			built.areHardened(t)
			built.areScaled(t)
			require.Len(t, built.claims, len(slices.DeleteFunc([]string{tt.name}, func(name string) bool { return name != "WithAnchors" })))
		})
	}

	t.Run("TwoCells", func(t *testing.T) {
		t.Parallel()
		hosts := map[string]bool{}
		for _, cell := range []string{"values-cell-a.yaml", "values-cell-b.yaml"} {
			files := filled(t)
			keyset, err := senders.NextKeyset("")
			require.NoError(t, err)
			fill(t, files, "SENDER_KEYSET", keyset)
			var values map[string]any
			require.NoError(t, yaml.Unmarshal([]byte(files[cell]), &values))
			built, err := build(t, files, values)
			require.NoError(t, err)
			require.Empty(t, built.wrong(), cell)
			hosts[built.ingresses[0].Spec.Rules[0].Host] = true
		}
		require.Len(t, hosts, 2, "each cell has its name")
	})

	t.Run("WithoutTheKeyOfAnchorsMessagingWouldNotStart", func(t *testing.T) {
		t.Parallel()
		values := given()
		values["anchors"] = map[string]any{"enabled": true}
		built, err := build(t, filled(t), values)
		require.NoError(t, err)
		require.Contains(t, strings.Join(built.wrong(), "\n"), "messaging would not start: LEDGER_SIGNING_KEY needs LEDGER_ANCHOR_DIR")
	})

	t.Run("EqualNumbersOfReplicasAreAFixedCount", func(t *testing.T) {
		t.Parallel()
		values := given()
		values["gateway"] = map[string]any{"replicas": map[string]any{"min": 3, "max": 3}}
		built, err := build(t, filled(t), values)
		require.NoError(t, err)
		require.Len(t, built.scalers, 2)
		for _, d := range built.deployments {
			require.Equal(t, d.Name == "gateway", d.Spec.Replicas != nil && *d.Spec.Replicas == 3, d.Name)
		}
	})

	for name, tt := range map[string]struct {
		differs map[string]any
		want    string
	}{
		"NoHost":                 {map[string]any{"host": ""}, "host is missing"},
		"NoRegistry":             {map[string]any{"image": map[string]any{}}, "image.registry is missing"},
		"AMisspeltValue":         {map[string]any{"alarm": "qstash"}, "alarm"},
		"AnEngineThatIsNone":     {map[string]any{"alarms": "cron"}, "alarms"},
		"AnOriginBesideItsHost":  {map[string]any{"settings": map[string]any{"PUBLIC_BASE_URL": "https://x"}}, "PUBLIC_BASE_URL"},
		"ASecretThatIsNone":      {map[string]any{"secrets": map[string]any{"optional": []any{"REDIS"}}}, "secrets/optional"},
		"ASettingThatIsNoString": {map[string]any{"settings": map[string]any{"CONSOLE": true}}, "CONSOLE"},
	} {
		t.Run("Refuses"+name, func(t *testing.T) {
			t.Parallel()
			values := given()
			maps.Copy(values, tt.differs)
			_, err := build(t, filled(t), values)
			require.ErrorContains(t, err, tt.want)
		})
	}

	t.Run("WithTheExampleOfTheSecretsNothingStarts", func(t *testing.T) {
		t.Parallel()
		values := given()
		values["settings"], values["alarms"] = map[string]any{}, "qstash"
		built, err := build(t, tree(t, chartFolder), values)
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

	const helpers, services, network = "paceline/templates/_helpers.tpl", "paceline/templates/services.yaml", "paceline/templates/network.yaml"
	for _, tt := range []struct{ name, file, old, replacement, want string }{
		{name: "AFieldThatIsMisspelt", file: services, old: "revisionHistoryLimit", replacement: "revisionsHistoryLimit", want: `unknown field "revisionsHistoryLimit"`},
		{name: "ACallWhereNothingListens", file: helpers, old: `"onboarding-replicas:9001"`, replacement: `"onboarding-replicas:9002"`, want: "gateway calls onboarding-replicas:9002"},
		{name: "AServiceThatHidesItsReplicas", file: services, old: "  clusterIP: None\n", want: "calls messaging-replicas:9002, whose Service is not headless"},
		{name: "APortWhereNothingListens", file: helpers, old: "port: 9002", replacement: "port: 9001", want: "messaging: the port grpc is not 9002"},
		{name: "AReadinessProbeOfThePublicPort", file: services, old: "path: {{ $path }}, port: ops", replacement: "path: {{ $path }}, port: http", want: "gateway: the readiness probe"},
		{name: "AKillThatComesTooSoon", file: helpers, old: "grace: 545", replacement: "grace: 30", want: "onboarding is killed after 25s"},
		{name: "AVariableThatNoProcessReads", file: helpers, old: "GATEWAY_ADDR:", replacement: "GATEWAY_ADRR:", want: "gateway reads no GATEWAY_ADRR"},
		{name: "ASharedVariableThatNoProcessReads", file: "paceline/values.yaml", old: "LOG_LEVEL: info", replacement: "LOG_LEVELS: info", want: "no process reads the shared LOG_LEVELS"},
		{name: "AnOriginThatNoIngressServes", file: "paceline/templates/ingress.yaml", old: "host: {{ .Values.host }}", replacement: "host: other.example.com", want: "no Ingress brings https://paceline.example.com"},
		{name: "ACallThatIsNotLetIn", file: network, old: `"onboarding" (list "gateway")`, replacement: `"onboarding" (list "messaging")`, want: "gateway calls onboarding: true, let out: true, let in: false"},
		{name: "APortThatNoProcessNeeds", file: network, old: `"messaging" list "migrate"`, replacement: `"messaging" (list "onboarding") "migrate"`, want: "messaging calls onboarding: false"},
	} {
		t.Run("Notices"+tt.name, func(t *testing.T) {
			t.Parallel()
			files := filled(t)
			replace(t, files, tt.file, tt.old, tt.replacement)
			built, err := build(t, files, given())
			if err != nil {
				require.ErrorContains(t, err, tt.want)
				return
			}
			require.Contains(t, strings.Join(built.wrong(), "\n"), tt.want)
		})
	}
}

// TestChart holds what helm lint --strict says, and that the chart names the release that the pages name.
func TestChart(t *testing.T) {
	t.Parallel()
	linted := lint.RunAll(filepath.Join(root(t), chartFolder, "paceline"), given(), "paceline",
		lint.WithKubeVersion(&common.KubeVersion{Version: "v1.30.0", Major: "1", Minor: "30"}))
	for _, m := range linted.Messages {
		require.Less(t, m.Severity, support.WarningSev, m.Error())
	}
	chart, err := loader.Load(filepath.Join(root(t), chartFolder, "paceline"))
	require.NoError(t, err)
	require.Equal(t, chart.Metadata.Version, chart.Metadata.AppVersion)
	page, err := os.ReadFile(filepath.Join(root(t), "docs/deploy.md"))
	require.NoError(t, err)
	require.Contains(t, string(page), "paceline_"+chart.Metadata.Version+"_amd64.deb")
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
		if !bytes.Contains(document, []byte("\nkind: ")) {
			continue // nothing but comments
		}
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
