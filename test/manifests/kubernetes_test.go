package manifests_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/test/manifests"
)

const overlay = "overlays/example"

// filled are the manifests as an operator leaves them, who has copied the example and filled it in.
func filled(t *testing.T) map[string]string {
	t.Helper()
	files := tree(t, "deploy/kubernetes")
	secrets := files[overlay+"/secrets.env.example"]
	for name, value := range map[string]string{
		"SERVICE_AUTH_SECRET": "0123456789abcdef0123456789abcdef", "API_JWT_SECRET": "0123456789abcdef0123456789abcdef",
		"ONBOARDING_DATABASE_URL": "postgres://u:p@db/onboarding", "MESSAGING_DATABASE_URL": "postgres://u:p@db/messaging",
		"REDIS_URL": "rediss://u:p@redis:6379/0", "QSTASH_TOKEN": "t", "QSTASH_CURRENT_SIGNING_KEY": "k", "QSTASH_NEXT_SIGNING_KEY": "k",
		"TWILIO_AUTH_TOKEN": "t",
	} {
		require.Contains(t, secrets, "\n"+name+"=\n")
		secrets = strings.Replace(secrets, "\n"+name+"=\n", "\n"+name+"="+value+"\n", 1)
	}
	files[overlay+"/secrets.env"] = secrets
	for _, v := range []violation{
		{file: overlay + "/kustomization.yaml", old: "TWILIO_ACCOUNT_SID=", new: "TWILIO_ACCOUNT_SID=AC00000000000000000000000000000000"},
		{file: overlay + "/kustomization.yaml", old: "TWILIO_FROM_NUMBER=", new: "TWILIO_FROM_NUMBER=+12025550100"},
	} {
		v.broken(t, files)
	}
	return files
}

// build is what is wrong with them.
func build(t *testing.T, files map[string]string) ([]string, error) {
	t.Helper()
	memory := filesys.MakeFsInMemory()
	for path, content := range files {
		require.NoError(t, memory.WriteFile("/"+path, []byte(content)))
	}
	return manifests.Kubernetes(memory, "/"+overlay)
}

func TestKubernetes(t *testing.T) {
	t.Parallel()

	t.Run("NothingIsWrongWithTheExampleOnceItIsFilledIn", func(t *testing.T) {
		t.Parallel()
		problems, err := build(t, filled(t))
		require.NoError(t, err)
		require.Empty(t, problems)
	})

	t.Run("R_20_APoolerIsAComponentThatNeedsTheDirectURLs", func(t *testing.T) {
		t.Parallel()
		files := filled(t)
		files[overlay+"/kustomization.yaml"] += "\ncomponents: [../../components/pooler]\n"
		problems, err := build(t, files)
		require.NoError(t, err)
		for _, v := range []string{"ONBOARDING_DATABASE_DIRECT_URL", "MESSAGING_DATABASE_DIRECT_URL"} {
			require.Contains(t, strings.Join(problems, "\n"), v)
			files[overlay+"/secrets.env"] += v + "=postgres://u:p@server/database\n"
		}
		problems, err = build(t, files)
		require.NoError(t, err)
		require.Empty(t, problems)
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
		problems, err := build(t, files)
		require.NoError(t, err)
		said := strings.Join(problems, "\n")
		for _, want := range []string{
			"gateway would not start: ", "onboarding would not start: ", "messaging would not start: ", "migrate-onboarding would not start: ",
			"migrate-messaging would not start: ", "SERVICE_AUTH_SECRET is missing", "ONBOARDING_DATABASE_URL is missing", "QSTASH_TOKEN is missing",
			"TWILIO_ACCOUNT_SID is missing", "TWILIO_AUTH_TOKEN is missing", "API_JWT_SECRET or API_JWKS_URL is missing",
		} {
			require.Contains(t, said, want)
		}
	})

	const gateway, onboarding, messaging = "base/gateway.yaml", "base/onboarding.yaml", "base/messaging.yaml"
	for _, v := range []violation{
		{name: "AFieldThatIsMisspelt", file: gateway, old: "periodSeconds: 1\n", new: "periodSecond: 1\n", want: `unknown field "periodSecond"`},
		{name: "AVersionThatIsGone", file: gateway, old: "policy/v1", new: "policy/v1beta1", want: "no check knows policy/v1beta1 PodDisruptionBudget"},
		{name: "AResourceThatIsNotThere", file: "base/kustomization.yaml", old: "- network.yaml", new: "- networks.yaml", want: "networks.yaml"},
		{name: "ASelectorOfNobody", file: gateway, old: "      labels: *labels", new: "      labels: { app.kubernetes.io/name: gateway }", want: "gateway does not select its own pods"},
		{name: "AServiceThatReachesAJob", file: onboarding, old: "  selector:\n    app.kubernetes.io/name: onboarding\n    app.kubernetes.io/component: service\n", new: "  selector:\n    app.kubernetes.io/name: onboarding\n", want: "the Service onboarding selects 2 workloads, or a job"},
		{name: "AServiceToAPortThatIsNotThere", file: gateway, old: "targetPort: http", new: "targetPort: https", want: "the Service gateway leads to the port https"},
		{name: "ACallToNobody", file: gateway, old: "value: onboarding:9001", new: "value: onboarding:9002", want: "gateway calls onboarding:9002, where no Service leads to onboarding"},
		{name: "APortWhereNobodyListens", file: messaging, old: "containerPort: 9002", new: "containerPort: 9001", want: "messaging: the port grpc is not 9002"},
		{name: "AnOpsPortWhereNobodyListens", file: messaging, old: `value: ":9102"`, new: `value: ":9103"`, want: "messaging: the port ops is not 9103"},
		{name: "ALivenessProbeOfOthers", file: gateway, old: "livenessProbe: # the process runs; what it depends on is not its fault\n            httpGet: { path: /healthz", new: "livenessProbe:\n            httpGet: { path: /readyz", want: "gateway: the liveness probe does not ask /healthz"},
		{name: "AReadinessProbeOfThePublicPort", file: gateway, old: "httpGet: { path: /readyz, port: ops }", new: "httpGet: { path: /readyz, port: http }", want: "gateway: the readiness probe does not ask /readyz of the ops port"},
		{name: "AReadinessProbeWithoutPatience", file: gateway, old: "periodSeconds: 5\n            timeoutSeconds: 3", new: "periodSeconds: 5\n            timeoutSeconds: 1", want: "gateway: the readiness probe gives up before the answer"},
		{name: "NoProbe", file: gateway, old: "startupProbe:", new: "readinessProbe:", want: "readinessProbe"},
		{name: "AKillThatComesTooSoon", file: onboarding, old: "terminationGracePeriodSeconds: 240", new: "terminationGracePeriodSeconds: 30", want: "onboarding is killed after 25s"},
		{name: "TheDefaultGrace", file: messaging, old: "      terminationGracePeriodSeconds: 120\n", want: "messaging says nothing of how long its end may take"},
		{name: "Root", file: gateway, old: "runAsUser: 65532", new: "runAsUser: 0", want: "gateway may run as root"},
		{name: "ARootFileSystemToWriteTo", file: gateway, old: "readOnlyRootFilesystem: true", new: "readOnlyRootFilesystem: false", want: "gateway may write to its root file system"},
		{name: "Privileges", file: gateway, old: "allowPrivilegeEscalation: false", new: "allowPrivilegeEscalation: true", want: "gateway may gain privileges"},
		{name: "Capabilities", file: "base/migrate.yaml", old: "drop: [ALL]", new: "drop: [NET_RAW]", want: "migrate-onboarding keeps capabilities"},
		{name: "SystemCalls", file: gateway, old: "type: RuntimeDefault", new: "type: Unconfined", want: "gateway may make any system call"},
		{name: "ATokenOfTheAPI", file: gateway, old: "automountServiceAccountToken: false", new: "automountServiceAccountToken: true", want: "gateway gets a token of the API"},
		{name: "AnEnvironmentOfOthers", file: gateway, old: "enableServiceLinks: false", new: "enableServiceLinks: true", want: "gateway gets an environment of other services"},
		{name: "NoBoundOfMemory", file: gateway, old: "limits: { memory: 256Mi }", new: "limits: {}", want: "gateway has no bounds of memory"},
		{name: "AnImageWithoutARelease", file: overlay + "/kustomization.yaml", old: "newName: registry.example.com/paceline/gateway, newTag: v0.0.0", new: "newName: registry.example.com/paceline/gateway", want: "gateway runs an image without a release"},
		{name: "AnImageOfAnotherService", file: overlay + "/kustomization.yaml", old: "newName: registry.example.com/paceline/gateway,", new: "newName: registry.example.com/paceline/messaging,", want: "gateway runs the image of another service"},
		{name: "AVariableThatNobodyReads", file: gateway, old: "name: GATEWAY_ADDR", new: "name: GATEWAY_ADRR", want: "gateway reads no GATEWAY_ADRR"},
		{name: "ASharedVariableThatNobodyReads", file: "base/kustomization.yaml", old: "LOG_LEVEL=info", new: "LOG_LEVELS=info", want: "no process reads the shared LOG_LEVELS"},
		{name: "ASecretInTheEnvironment", file: onboarding, old: "{ name: QSTASH_TOKEN_FILE, value: /run/secrets/paceline/QSTASH_TOKEN }", new: "{ name: QSTASH_TOKEN, value: hunter2 }", want: "QSTASH_TOKEN is a secret"},
		{name: "ASecretThatIsNotMounted", file: onboarding, old: "                - { key: QSTASH_TOKEN, path: QSTASH_TOKEN }\n", want: "which is not mounted"},
		{name: "AKeyThatTheSecretDoesNotHave", file: overlay + "/secrets.env", old: "\nKAPSO_WEBHOOK_SECRET=\n", new: "\n", want: "gateway mounts the key KAPSO_WEBHOOK_SECRET, which the secret does not have"},
		{name: "AConfigThatIsNotThere", file: gateway, old: "configMapRef: { name: paceline }", new: "configMapRef: { name: pacelines }", want: "takes its environment from something that is not there"},
		{name: "ASecretThatIsNotThere", file: gateway, old: "secretName: paceline\n", new: "secretName: pacelines\n", want: "gateway mounts the secret pacelines, which is not there"},
		{name: "AMountOfNoVolume", file: gateway, old: "- { name: secrets, mountPath", new: "- { name: secret, mountPath", want: "gateway mounts secret, which is no volume"},
		{name: "ARequiredVariableThatIsNotSet", file: overlay + "/kustomization.yaml", old: "PUBLIC_BASE_URL=https://paceline.example.com", new: "PUBLIC_BASE_URL=", want: "PUBLIC_BASE_URL is missing"},
		{name: "AnOriginThatNobodyServes", file: overlay + "/kustomization.yaml", old: "PUBLIC_BASE_URL=https://paceline.example.com", new: "PUBLIC_BASE_URL=https://other.example.com", want: "no Ingress brings https://other.example.com to the gateway"},
		{name: "AnIngressToAnother", file: overlay + "/ingress.yaml", old: "service: { name: gateway, port: { name: http } }", new: "service: { name: messaging, port: { name: grpc } }", want: "no Ingress brings https://paceline.example.com to the gateway"},
		{name: "AnIngressWithoutTLS", file: overlay + "/ingress.yaml", old: "hosts: [paceline.example.com]", new: "hosts: [paceline.example.org]", want: "no Ingress brings https://paceline.example.com to the gateway"},
		{name: "NoBudget", file: gateway, old: "kind: PodDisruptionBudget\nmetadata:\n  name: gateway\nspec:\n  minAvailable: 1", new: "kind: PodDisruptionBudget\nmetadata:\n  name: gateway\nspec:\n  minAvailable: 0", want: "gateway has no PodDisruptionBudget"},
		{name: "AScalerOfNothing", file: messaging, old: "kind: Deployment, name: messaging }", new: "kind: Deployment, name: message }", want: "messaging has no HorizontalPodAutoscaler"},
		{name: "AScalerDownToOne", file: messaging, old: "minReplicas: 2", new: "minReplicas: 1", want: "messaging may shrink to one"},
		{name: "AScalerWithoutCPU", file: messaging, old: "name: cpu", new: "name: memory", want: "messaging is not scaled by CPU"},
		{name: "AMetricThatIsNotMeasured", file: onboarding, old: "name: jobs_backlog", new: "name: queue_length", want: "onboarding scales by queue_length, which we do not measure so"},
		{name: "AQueueThatIsNotThere", file: onboarding, old: "queue: webhook_jobs", new: "queue: jobs", want: "onboarding scales by jobs_backlog, which we do not measure so"},
		{name: "ReplicasBesideAScaler", file: gateway, old: "  revisionHistoryLimit: 5", new: "  replicas: 1", want: "gateway sets replicas"},
		{name: "AnUpdateThatTakesAway", file: gateway, old: "maxUnavailable: 0", new: "maxUnavailable: 1", want: "gateway has fewer replicas than it should"},
		{name: "ANamespaceThatIsOpen", file: "base/network.yaml", old: "  podSelector: {}\n  policyTypes: [Ingress, Egress]", new: "  podSelector: {}\n  policyTypes: [Ingress]", want: "no NetworkPolicy refuses what no other allows"},
		{name: "ACallThatIsNotLetOut", file: "base/network.yaml", old: "    - to:\n        - podSelector:\n            matchLabels: { app.kubernetes.io/name: onboarding, app.kubernetes.io/component: service }\n      ports: [{ protocol: TCP, port: 9001 }]\n", want: "no NetworkPolicy lets gateway out to onboarding at 9001"},
		{name: "ACallThatIsNotLetIn", file: "base/network.yaml", old: "    - from:\n        - podSelector:\n            matchLabels: { app.kubernetes.io/name: gateway, app.kubernetes.io/component: service }\n      ports: [{ protocol: TCP, port: 9001 }]\n", want: "no NetworkPolicy lets onboarding in from gateway at 9001"},
		{name: "ACallBackwards", file: "base/network.yaml", old: "    - from: # the proxy that ends TLS\n", new: "    - from:\n        - podSelector:\n            matchLabels: { app.kubernetes.io/name: messaging }\n", want: "a NetworkPolicy lets messaging reach gateway, which it never calls"},
		{name: "APortThatNobodyNeeds", file: "base/network.yaml", old: "matchLabels: { app.kubernetes.io/name: gateway, app.kubernetes.io/component: service }\n      ports: [{ protocol: TCP, port: 9001 }]", new: "matchLabels: { app.kubernetes.io/component: service }\n      ports: [{ protocol: TCP, port: 9001 }]", want: "a NetworkPolicy lets messaging reach onboarding, which it never calls"},
	} {
		t.Run("Notices"+v.name, func(t *testing.T) {
			t.Parallel()
			files := filled(t)
			v.broken(t, files)
			problems, err := build(t, files)
			if err != nil {
				problems = append(problems, err.Error())
			}
			require.Contains(t, strings.Join(problems, "\n"), v.want)
		})
	}
}

// TestGauges holds the metric that the manifests scale by to the code that measures it.
func TestGauges(t *testing.T) {
	t.Parallel()
	metrics, err := os.ReadFile(filepath.Join(root(t), "platform/queue/metrics.go"))
	require.NoError(t, err)
	require.Contains(t, string(metrics), `meter.Int64ObservableGauge("jobs_backlog"`)
	require.Contains(t, string(metrics), `attribute.String("queue", name)`)
	require.Equal(t, "webhook_jobs", conversation.JobsTable)
}

// TestStopBounds fails when a service says something new of how long its end may take: stop in contracts is the sum of it.
func TestStopBounds(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"gateway/run.go": "An orchestrator has to wait before it kills, at most: this, 10 s for the ops port, 5 s for the last spans, and a second for each.",
		"services/onboarding/run.go": "An orchestrator has to wait before it kills, at most: 20 s for calls in flight, 10 s for the ops port, 30 s for each of " +
			"the jobs, their retention, the relay, the sweeper and the inbound audit, 10 s for each of the wake-ups, the bell and the holds, 5 s for the last spans, and a second for each.",
		"services/messaging/run.go": "An orchestrator has to wait before it kills, at most: TWILIO_TIMEOUT and 10 s for sends in flight, 10 s for the ops port, " +
			"5 s for the reconciler, as long as for sends for the responder, 5 s more than that for the outbound queue, 5 s for its retention, 5 s for the last spans, and a second for each.",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			source, err := os.ReadFile(filepath.Join(root(t), path))
			require.NoError(t, err)
			require.Contains(t, regexp.MustCompile(`\n//\s*`).ReplaceAllString(string(source), " "), want)
		})
	}
}
