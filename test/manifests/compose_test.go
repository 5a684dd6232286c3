package manifests

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"
)

// composed copies deploy/compose into its own folder inside an imitation of the repository, with secrets that secrets.sh made.
func composed(t *testing.T, files map[string]string, vendors string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "deploy", "compose")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	for path, content := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, path), []byte(content), 0o700))
	}
	out, err := run(t, nil, filepath.Join(dir, "secrets.sh"), vendors)
	require.NoError(t, err, out)
	return dir
}

// project is compose.yaml in dir as Compose understands it: it refuses unknown keys, and volumes, networks, secrets and services that
// are not defined.
func project(t *testing.T, dir, envFile string) (*types.Project, error) {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{filepath.Join(dir, "compose.yaml")},
		cli.WithWorkingDirectory(dir), cli.WithEnvFiles(filepath.Join(dir, envFile)), cli.WithDotEnv, cli.WithDefaultProfiles())
	require.NoError(t, err)
	return options.LoadProject(t.Context())
}

func TestCompose(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()

	for _, env := range []string{"emulated.env", "qstash-dev.env"} {
		t.Run("EveryProcessStartsAndFindsTheOthers/"+env, func(t *testing.T) {
			t.Parallel()
			loaded, err := project(t, composed(t, tree(t, "deploy/compose"), "emulated"), env)
			require.NoError(t, err)
			require.Empty(t, wrong(loaded))
			for _, service := range loaded.Services {
				hardened(t, service)
			}
		})
	}

	t.Run("AlsoWithARealAccountThatIsFilledIn", func(t *testing.T) {
		t.Parallel()
		files := tree(t, "deploy/compose")
		for name, value := range map[string]string{
			"PUBLIC_BASE_URL": "https://paceline.example.com", "TWILIO_ACCOUNT_SID": "AC00000000000000000000000000000000",
			"TWILIO_API_KEY_SID":           "SK00000000000000000000000000000000",
			"TWILIO_MESSAGING_SERVICE_SID": "MG00000000000000000000000000000000",
		} {
			replace(t, files, "real.env.example", "\n"+name+"=\n", "\n"+name+"="+value+"\n")
		}
		dir := composed(t, files, "real")
		for _, secret := range []string{"qstash_token", "qstash_current_signing_key", "qstash_next_signing_key", "twilio_auth_token", "twilio_api_key_secret"} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "secrets", secret), []byte("of a vendor\n"), 0o600))
		}
		loaded, err := project(t, dir, "real.env.example")
		require.NoError(t, err)
		require.Empty(t, wrong(loaded))
	})

	t.Run("ARealAccountThatIsNotFilledInDoesNotStart", func(t *testing.T) {
		t.Parallel()
		dir := composed(t, tree(t, "deploy/compose"), "real")
		_, err := project(t, dir, "real.env.example")
		require.ErrorContains(t, err, "choose an env file", "Compose itself refuses")

		// With the account but without its secrets, each process refuses and says which.
		loaded, err := project(t, dir, "emulated.env")
		require.NoError(t, err)
		said := strings.Join(wrong(loaded), "\n")
		for _, want := range []string{
			"gateway would not start: TWILIO_AUTH_TOKEN is missing", "QSTASH_CURRENT_SIGNING_KEY is missing", "messaging would not start: TWILIO_API_KEY_SID and TWILIO_API_KEY_SECRET are not both set",
			"onboarding would not start: QSTASH_TOKEN is missing", "migrate-onboarding would not start: QSTASH_TOKEN is missing",
		} {
			require.Contains(t, said, want)
		}
	})

	for _, tt := range []struct{ name, file, old, replacement, want string }{
		{name: "AVariableThatNoProcessReads", file: "compose.yaml", old: "  QSTASH_URL:", replacement: "  QSTASH_URI:", want: "onboarding reads no QSTASH_URI"},
		{name: "ASecretInTheEnvironment", file: "compose.yaml", old: "QSTASH_TOKEN_FILE: /run/secrets/qstash_token", replacement: "QSTASH_TOKEN: hunter2", want: "QSTASH_TOKEN is a secret"},
		{name: "ASecretThatIsNotMounted", file: "compose.yaml", old: "      - shopify_webhook_secret\n", want: "SHOPIFY_WEBHOOK_SECRET_FILE names /run/secrets/shopify_webhook_secret, which is not mounted"},
		{name: "APortWhereNothingListens", file: "compose.yaml", old: "127.0.0.1:8080:8080", replacement: "127.0.0.1:8080:8088", want: "gateway publishes 8088"},
		{name: "ACalleeAtAnotherPort", file: "compose.yaml", old: "onboarding:9001", replacement: "onboarding:9002", want: "gateway calls onboarding:9002"},
		{name: "AVendorAtAnotherPort", file: "emulated.env", old: "http://emulators:8082", replacement: "http://emulators:8083", want: "TWILIO_API_URL leads to emulators:8083"},
		{name: "AKillThatComesTooSoon", file: "compose.yaml", old: "stop_grace_period: 540s", replacement: "stop_grace_period: 30s", want: "onboarding is killed after 30s"},
	} {
		t.Run("Notices"+tt.name, func(t *testing.T) {
			t.Parallel()
			files := tree(t, "deploy/compose")
			replace(t, files, tt.file, tt.old, tt.replacement)
			loaded, err := project(t, composed(t, files, "emulated"), "emulated.env")
			require.NoError(t, err)
			require.Contains(t, strings.Join(wrong(loaded), "\n"), tt.want)
		})
	}
}

const ours = "paceline/" // how the images begin that /Dockerfile builds

// oneShot is a service that ends by itself.
func oneShot(s types.ServiceConfig) bool { return slices.Equal(s.Command, []string{"migrate"}) }

// composedProcess is a service that runs one of the three binaries.
func composedProcess(p *types.Project, s types.ServiceConfig) (process, bool) {
	image, _, _ := strings.Cut(strings.TrimPrefix(s.Image, ours), ":")
	if _, ok := contracts()[image]; !ok || !strings.HasPrefix(s.Image, ours) {
		return process{}, false
	}
	out := process{name: s.Name, service: image, environ: map[string]string{}, files: map[string]string{}}
	for name, value := range s.Environment {
		if value != nil {
			out.environ[name] = *value
		}
	}
	for _, secret := range s.Secrets {
		if content, err := os.ReadFile(p.Secrets[secret.Source].File); err == nil {
			out.files["/run/secrets/"+secret.Source] = strings.TrimSpace(string(content))
		}
	}
	return out, true
}

// wrong returns what Compose cannot know to be wrong.
func wrong(p *types.Project) []string {
	var problems []string
	for _, s := range p.Services {
		for _, v := range s.Volumes {
			if _, err := os.Stat(v.Source); v.Type == types.VolumeTypeBind && err != nil {
				problems = append(problems, fmt.Sprintf("%s: %s is mounted and is not there", s.Name, filepath.Base(v.Source)))
			}
		}
		for _, secret := range s.Secrets {
			if _, err := os.Stat(p.Secrets[secret.Source].File); err != nil {
				problems = append(problems, s.Name+": secrets.sh makes no "+secret.Source)
			}
		}
		if s.Build != nil && !strings.HasPrefix(s.Image, ours+*s.Build.Args["SERVICE"]+":") {
			problems = append(problems, s.Name+": the image is not called after its SERVICE")
		}
		for name, value := range s.Environment {
			if value != nil && leadsNowhere(p, *value) {
				problems = append(problems, fmt.Sprintf("%s: %s leads to %s, where nothing listens", s.Name, name, strings.TrimPrefix(*value, "http://")))
			}
		}
		if own, ok := composedProcess(p, s); ok {
			problems = append(problems, own.environment()...)
			problems = append(problems, reached(p, s, own)...)
		}
	}
	return problems
}

// reached returns what is wrong with how a process is reached, whom it calls, and how long it is given to end.
func reached(p *types.Project, s types.ServiceConfig, own process) []string {
	var problems []string
	for _, port := range s.Ports {
		if target := fmt.Sprint(port.Target); target != own.listens() && target != own.ops() {
			problems = append(problems, s.Name+" publishes "+target+", where it does not listen")
		}
	}
	if oneShot(s) {
		return problems
	}
	if given := s.StopGracePeriod; given == nil || time.Duration(*given) < contracts()[own.service].stop {
		problems = append(problems, fmt.Sprintf("%s is killed after %s", s.Name, given))
	}
	for service, addr := range own.calls() {
		host, port, err := net.SplitHostPort(addr)
		callee, ok := composedProcess(p, p.Services[host])
		shared := func(network string) bool { _, ok := p.Services[host].Networks[network]; return ok }
		if err != nil || !ok || callee.service != service || callee.listens() != port || !slices.ContainsFunc(s.NetworksByPriority(), shared) {
			problems = append(problems, fmt.Sprintf("%s calls %s, where it does not reach %s", s.Name, addr, service))
		}
	}
	return problems
}

// leadsNowhere reports whether a value is the origin of a neighbour, which has no dot, at which no service listens.
func leadsNowhere(p *types.Project, value string) bool {
	u, err := url.Parse(value)
	if err != nil || u.Scheme != "http" || strings.Contains(u.Hostname(), ".") {
		return false
	}
	s, ok := p.Services[u.Hostname()]
	if own, isOurs := composedProcess(p, s); isOurs {
		return own.listens() != u.Port()
	}
	return !ok || s.Name != "qstash" && !slices.Contains(s.Command, ":"+u.Port()) // QStash's port is its default
}

// hardened checks what every container has to be, and what our own also have to be.
func hardened(t *testing.T, s types.ServiceConfig) {
	t.Helper()
	require.NotEmpty(t, s.Restart, s.Name)
	require.NotNil(t, s.Deploy, s.Name)
	require.Positive(t, s.Deploy.Resources.Limits.MemoryBytes, s.Name)
	require.Positive(t, s.Deploy.Resources.Limits.NanoCPUs.Value(), s.Name)
	require.Contains(t, s.SecurityOpt, "no-new-privileges:true", s.Name)
	for _, port := range s.Ports {
		require.Equal(t, "127.0.0.1", port.HostIP, s.Name)
	}
	if strings.HasPrefix(s.Image, ours) {
		require.True(t, s.ReadOnly, s.Name)
		require.Equal(t, "65532:65532", s.User, s.Name)
		require.Equal(t, []string{"ALL"}, s.CapDrop, s.Name)
		require.True(t, oneShot(s) || s.HealthCheck.Test[1] == "/service", "%s does not ask its own binary for its health", s.Name)
	} else if s.Name != "qstash" { // Upstash's development server, which no deployment runs
		require.Regexp(t, byDigest, s.Image, s.Name)
	}
}
