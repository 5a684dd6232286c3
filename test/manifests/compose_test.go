package manifests_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/test/manifests"
)

// composed is deploy/compose in a folder of its own inside an imitation of the repository, with secrets that secrets.sh made.
func composed(t *testing.T, files map[string]string, vendors string) string {
	t.Helper()
	repository := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(repository, "go.work"), nil, 0o600))
	dir := filepath.Join(repository, "deploy", "compose")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	for path, content := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, path), []byte(content), 0o700))
	}
	out, err := run(t, nil, filepath.Join(dir, "secrets.sh"), vendors)
	require.NoError(t, err, out)
	return dir
}

func TestCompose(t *testing.T) {
	t.Parallel()

	for _, env := range []string{"emulated.env", "qstash-dev.env"} {
		t.Run("NothingIsWrongWith/"+env, func(t *testing.T) {
			t.Parallel()
			problems, err := manifests.Compose(t.Context(), composed(t, tree(t, "deploy/compose"), "emulated"), env)
			require.NoError(t, err)
			require.Empty(t, problems)
		})
	}

	t.Run("NorWithARealAccountThatIsFilledIn", func(t *testing.T) {
		t.Parallel()
		files := tree(t, "deploy/compose")
		for name, value := range map[string]string{
			"PUBLIC_BASE_URL": "https://paceline.example.com", "TWILIO_ACCOUNT_SID": "AC00000000000000000000000000000000",
			"TWILIO_MESSAGING_SERVICE_SID": "MG00000000000000000000000000000000",
		} {
			violation{file: "real.env.example", old: "\n" + name + "=\n", new: "\n" + name + "=" + value + "\n"}.broken(t, files)
		}
		dir := composed(t, files, "real")
		for _, secret := range []string{"qstash_token", "qstash_current_signing_key", "qstash_next_signing_key", "twilio_auth_token"} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "secrets", secret), []byte("of a vendor\n"), 0o600))
		}
		problems, err := manifests.Compose(t.Context(), dir, "real.env.example")
		require.NoError(t, err)
		require.Empty(t, problems)
	})

	t.Run("ARealAccountThatIsNotFilledInDoesNotStart", func(t *testing.T) {
		t.Parallel()
		dir := composed(t, tree(t, "deploy/compose"), "real")
		_, err := manifests.Compose(t.Context(), dir, "real.env.example")
		require.ErrorContains(t, err, "choose an env file", "Compose itself refuses")

		// With the account but without its secrets, each process refuses and says which.
		problems, err := manifests.Compose(t.Context(), dir, "emulated.env")
		require.NoError(t, err)
		said := strings.Join(problems, "\n")
		for _, want := range []string{
			"gateway would not start: QSTASH_CURRENT_SIGNING_KEY is missing", "messaging would not start: TWILIO_AUTH_TOKEN is missing",
			"onboarding would not start: QSTASH_TOKEN is missing", "migrate-onboarding would not start: QSTASH_TOKEN is missing",
		} {
			require.Contains(t, said, want)
		}
	})

	for _, v := range []violation{
		{name: "AKeyThatIsUnknown", file: "compose.yaml", old: "    restart: on-failure:5", new: "    restrat: always", want: "restrat"},
		{name: "AServiceThatIsWaitedForInVain", file: "compose.yaml", old: "redis: { condition: service_started }", new: "rediss: { condition: service_started }", want: "rediss"},
		{name: "AVolumeThatIsNotDefined", file: "compose.yaml", old: "volumes: [\"redis:/data\"]", new: "volumes: [\"reddis:/data\"]", want: "reddis"},
		{name: "AScriptThatIsNotThere", file: "compose.yaml", old: "./databases.sh:", new: "./database.sh:", want: "database.sh is mounted and is not there"},
		{name: "ASecretThatIsNotDefined", file: "compose.yaml", old: "secrets: [redis_conf]", new: "secrets: [redis_config]", want: "redis_config"},
		{name: "ASecretThatNobodyMakes", file: "compose.yaml", old: "file: ./secrets/qstash_token", new: "file: ./secrets/qstash_tokens", want: "secrets.sh makes no qstash_tokens"},
		{name: "ANetworkThatIsNotDefined", file: "compose.yaml", old: "networks: [services, outside]", new: "networks: [services, outsides]", want: "outsides"},
		{name: "AVariableThatNobodyReads", file: "compose.yaml", old: "  QSTASH_URL:", new: "  QSTASH_URI:", want: "onboarding reads no QSTASH_URI"},
		{name: "AVariableOfAnotherService", file: "compose.yaml", old: "      GATEWAY_ADDR:", new: "      QSTASH_RETRIES: \"3\"\n      GATEWAY_ADDR:", want: "gateway reads no QSTASH_RETRIES"},
		{name: "ARequiredVariableThatIsNotSet", file: "compose.yaml", old: "  TWILIO_ACCOUNT_SID: ${TWILIO_ACCOUNT_SID:?choose an env file, see docs/deployment.md}\n", want: "TWILIO_ACCOUNT_SID is missing"},
		{name: "AValueThatTheServiceRefuses", file: "emulated.env", old: "TWILIO_FROM_NUMBER=+12025550100", new: "TWILIO_FROM_NUMBER=12025550100", want: "TWILIO_FROM_NUMBER must be in E.164"},
		{name: "ASecretInTheEnvironment", file: "compose.yaml", old: "QSTASH_TOKEN_FILE: /run/secrets/qstash_token", new: "QSTASH_TOKEN: hunter2", want: "QSTASH_TOKEN is a secret"},
		{name: "ASecretThatIsNotMounted", file: "compose.yaml", old: "      - shopify_webhook_secret\n", want: "SHOPIFY_WEBHOOK_SECRET_FILE names /run/secrets/shopify_webhook_secret, which is not mounted"},
		{name: "APortWhereNobodyListens", file: "compose.yaml", old: "127.0.0.1:8080:8080", new: "127.0.0.1:8080:8088", want: "gateway publishes 8088 and listens on 8080 and 9100"},
		{name: "APortForEverybody", file: "compose.yaml", old: "127.0.0.1:9001:9001", new: "9001:9001", want: "onboarding publishes 9001 beyond the loopback"},
		{name: "ACalleeThatIsNotThere", file: "compose.yaml", old: "      MESSAGING_ADDR: messaging:9002", new: "      MESSAGING_ADDR: messages:9002", want: "gateway calls messages:9002, which is no service"},
		{name: "ACalleeAtAnotherPort", file: "compose.yaml", old: "onboarding:9001", new: "onboarding:9002", want: "gateway calls onboarding:9002, where onboarding does not listen"},
		{name: "ACalleeInAnotherNetwork", file: "compose.yaml", old: "    networks: [services, outside]\n    healthcheck: *health\n    stop_grace_period: 55s", new: "    networks: {}\n    healthcheck: *health\n    stop_grace_period: 55s", want: "gateway and onboarding have no network in common"},
		{name: "AVendorThatTheProfileDoesNotRun", file: "emulated.env", old: "http://emulators:8081", new: "http://qstash:8080", want: "QSTASH_URL leads to qstash, which this profile does not run"},
		{name: "AVendorAtAnotherPort", file: "emulated.env", old: "http://emulators:8082", new: "http://emulators:8083", want: "TWILIO_API_URL leads to emulators:8083, where nobody listens"},
		{name: "ACallbackToAnotherPort", file: "emulated.env", old: "http://gateway:8080", new: "http://gateway:9100", want: "PUBLIC_BASE_URL leads to gateway:9100, where nobody listens"},
		{name: "AKillThatComesTooSoon", file: "compose.yaml", old: "stop_grace_period: 230s", new: "stop_grace_period: 30s", want: "onboarding is killed after 30s"},
		{name: "AnEndThatNobodyBounds", file: "compose.yaml", old: "    stop_grace_period: 55s\n", want: "gateway says nothing of how long its end may take"},
		{name: "NoLimits", file: "compose.yaml", old: "limits: { cpus: \"0.5\", memory: 128m }", new: "limits: { cpus: \"0.5\" }", want: "redis has no limits"},
		{name: "ARootFileSystemToWriteTo", file: "compose.yaml", old: "  read_only: true\n  user", new: "  user", want: "gateway may write to its root file system"},
		{name: "Root", file: "compose.yaml", old: "user: \"65532:65532\"", new: "user: \"0\"", want: "gateway runs as somebody else"},
		{name: "Capabilities", file: "compose.yaml", old: "cap_drop: [ALL]", new: "cap_drop: [NET_RAW]", want: "gateway keeps capabilities"},
		{name: "NothingThatRestarts", file: "compose.yaml", old: "  restart: unless-stopped\n  read_only", new: "  read_only", want: "gateway is not restarted"},
		{name: "NewPrivileges", file: "compose.yaml", old: "  security_opt: [\"no-new-privileges:true\"]\n  logging", new: "  logging", want: "gateway may gain privileges"},
		{name: "AHealthCheckThatNeedsAShell", file: "compose.yaml", old: "test: [CMD, /service, health]", new: "test: [CMD-SHELL, curl localhost]", want: "gateway does not ask its own binary for its health"},
		{name: "WhateverIsLatest", file: "compose.yaml", old: "postgres:17-bookworm", new: "postgres:latest", want: "postgres runs whatever is latest"},
		{name: "AnImageOfAnotherService", file: "compose.yaml", old: "args: { SERVICE: gateway }", new: "args: { SERVICE: messaging }", want: "gateway: the image is not called after its SERVICE"},
	} {
		t.Run("Notices"+v.name, func(t *testing.T) {
			t.Parallel()
			files := tree(t, "deploy/compose")
			v.broken(t, files)
			problems, err := manifests.Compose(t.Context(), composed(t, files, "emulated"), "emulated.env")
			if err != nil {
				problems = append(problems, err.Error())
			}
			require.Contains(t, strings.Join(problems, "\n"), v.want)
			require.NotEmpty(t, problems)
		})
	}
}
