package gateway

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	emulator "paceline.internal/emulators/qstash"
	"paceline.internal/platform/qstash"
)

func TestLoadConfig(t *testing.T) {
	t.Parallel()

	t.Run("DefaultsAreThoseOfTheContract", func(t *testing.T) {
		t.Parallel()
		env := environ()
		delete(env, "GATEWAY_ADDR")
		delete(env, "GATEWAY_OPS_ADDR")
		cfg, err := LoadConfig(env)
		require.NoError(t, err)
		require.Equal(t, []string{":8080", ":9100", ":9001", ":9002"},
			[]string{cfg.Addr.String(), cfg.OpsAddr.String(), cfg.OnboardingAddr.String(), cfg.MessagingAddr.String()})
	})

	t.Run("R_21_PublishedKeysAreRefusedAtAPublicOrigin", func(t *testing.T) {
		t.Parallel()
		env := environ()
		env["QSTASH_CURRENT_SIGNING_KEY"], env["QSTASH_NEXT_SIGNING_KEY"] = emulator.DevCurrentKey, emulator.DevNextKey
		env["TWILIO_AUTH_TOKEN"] = "0123456789abcdef0123456789abcdef" // deploy/compose/secrets.sh
		for _, private := range []string{"http://127.0.0.1:8080", "http://[::1]:8080", "http://gateway:8080", "http://10.0.0.7", "http://box.local"} {
			env["PUBLIC_BASE_URL"] = private
			_, err := LoadConfig(env)
			require.NoError(t, err, private)
		}
		for _, public := range []string{"https://paceline.example.com", "http://203.0.113.9", "https://PACELINE.EXAMPLE.COM.:8443"} {
			env["PUBLIC_BASE_URL"] = public
			_, err := LoadConfig(env)
			for _, variable := range []string{"QSTASH_CURRENT_SIGNING_KEY", "QSTASH_NEXT_SIGNING_KEY", "TWILIO_AUTH_TOKEN"} {
				require.ErrorContains(t, err, variable+" is a published key of the emulators", public)
			}
		}
	})

	t.Run("EmulatedPhonesAreRefusedAtAPublicOrigin", func(t *testing.T) {
		t.Parallel()
		env := environ()
		env["CONSOLE_HANDSETS_URL"], env["PUBLIC_BASE_URL"] = "http://emulators:8082", "http://gateway:8080"
		cfg, err := LoadConfig(env)
		require.NoError(t, err)
		require.Equal(t, "http://emulators:8082", cfg.HandsetsURL.String())
		env["PUBLIC_BASE_URL"] = "https://paceline.example.com"
		_, err = LoadConfig(env)
		require.ErrorContains(t, err, "CONSOLE_HANDSETS_URL is set, and PUBLIC_BASE_URL is a public origin")
	})

	t.Run("TheConsoleIsServedOnlyWithWhatKeepsItClosed", func(t *testing.T) {
		t.Parallel()
		whole := map[string]string{
			"CONSOLE": "on", "CONSOLE_KEY": strings.Repeat("0f", 32) + "," + strings.Repeat("f0", 32), "OIDC_ISSUER": "https://id.example/realm", "OIDC_CLIENT_ID": "paceline",
			"OIDC_CLIENT_SECRET": "hunter2", "OIDC_ORG_CLAIM": "org_id", "OIDC_ROLE_CLAIM": "groups",
		}
		load := func(changes ...string) error {
			env := environ()
			maps.Copy(env, whole)
			for i := 0; i < len(changes); i += 2 {
				env[changes[i]] = changes[i+1]
			}
			_, err := LoadConfig(env)
			return err
		}
		require.NoError(t, load())
		require.NoError(t, load("OIDC_ISSUER", "http://keycloak:8080/realm"))
		require.NoError(t, load("CONSOLE", "", "CONSOLE_KEY", ""), "it is off by default")
		require.NoError(t, load("PUBLIC_BASE_URL", "http://127.0.0.1:8080"))
		for variable := range whole {
			if strings.HasPrefix(variable, "OIDC_") {
				require.ErrorContains(t, load(variable, ""), "OIDC_ROLE_CLAIM are not all set", variable)
			}
		}
		for _, tc := range []struct{ variable, value, want string }{
			{"CONSOLE", "yes", "CONSOLE must be on or off"},
			{"CONSOLE_KEY", "", "CONSOLE_KEY is missing"},
			{"CONSOLE_KEY", "hunter2", "CONSOLE_KEY must be 32 bytes in base64 or hexadecimal"},
			{"CONSOLE_KEY", whole["CONSOLE_KEY"] + ",", "CONSOLE_KEY has an empty secret"},
			{"PUBLIC_BASE_URL", "http://paceline.example", "CONSOLE is on, and PUBLIC_BASE_URL is a public origin without TLS"},
			{"OIDC_ISSUER", "http://id.example", "OIDC_ISSUER must be an https URL"},
			{"OIDC_ISSUER", "id.example", "OIDC_ISSUER must be an https URL"},
		} {
			err := load(tc.variable, tc.value)
			require.ErrorContains(t, err, tc.want)
			require.NotContains(t, err.Error(), "hunter2")
		}
	})

	t.Run("S0_06_EverythingMissingIsReportedAtOnce", func(t *testing.T) {
		t.Parallel()
		_, err := LoadConfig(nil)
		require.Error(t, err)
		problems := strings.Split(err.Error(), "\n")
		require.Len(t, problems, 6)
		for i, variable := range []string{
			"PUBLIC_BASE_URL", "TWILIO_AUTH_TOKEN", "API_JWT_SECRET or API_JWKS_URL", "GATEWAY_SIGNING_KEY or SERVICE_AUTH_SECRET",
			"QSTASH_CURRENT_SIGNING_KEY", "QSTASH_NEXT_SIGNING_KEY",
		} {
			require.True(t, strings.HasPrefix(problems[i], variable+" is missing ("), problems[i])
		}
	})

	t.Run("S3_39_WithoutSigningKeysNothingIsServed", func(t *testing.T) {
		t.Parallel()
		for _, variable := range []string{"QSTASH_CURRENT_SIGNING_KEY", "QSTASH_NEXT_SIGNING_KEY"} {
			for _, value := range []string{"", " "} {
				env := environ()
				env[variable] = value
				_, err := LoadConfig(env)
				require.ErrorContains(t, err, variable+" is missing", "the process does not start")
			}
		}
		for _, keys := range []qstash.VerifierConfig{{Now: time.Now}, {CurrentKey: "sig_1", Now: time.Now}, {NextKey: "sig_2", Now: time.Now}} {
			_, err := qstash.NewVerifier(keys)
			require.Error(t, err)
		}
	})

	for _, tc := range []struct{ name, variable, value, want string }{
		{name: "ShortServiceSecret", variable: "SERVICE_AUTH_SECRET", value: "hunter2", want: "SERVICE_AUTH_SECRET must have at least 32 bytes"},
		{name: "ShortJWTSecret", variable: "API_JWT_SECRET", value: "hunter2", want: "API_JWT_SECRET must have at least 32 bytes"},
		{name: "JWKSThatIsNoURL", variable: "API_JWKS_URL", value: "hunter2", want: "API_JWKS_URL must be an http or https URL"},
		{name: "OriginWithAPath", variable: "PUBLIC_BASE_URL", value: "https://x.example/hunter2", want: "PUBLIC_BASE_URL must be a bare origin"},
		{name: "HalfOfMTLS", variable: "GRPC_TLS_CERT_FILE", value: "hunter2.pem", want: "GRPC_TLS_CERT_FILE, GRPC_TLS_KEY_FILE and GRPC_TLS_CA_FILE must all be set, or none"},
		{name: "S1_19_NoCurrentSigningKey", variable: "QSTASH_CURRENT_SIGNING_KEY", value: "", want: "QSTASH_CURRENT_SIGNING_KEY is missing"},
		{name: "S1_19_NoNextSigningKey", variable: "QSTASH_NEXT_SIGNING_KEY", value: "", want: "QSTASH_NEXT_SIGNING_KEY is missing"},
		{name: "S1_19_BlankNextSigningKey", variable: "QSTASH_NEXT_SIGNING_KEY", value: " ", want: "QSTASH_NEXT_SIGNING_KEY is missing"},
	} {
		t.Run(tc.name+"IsRefused", func(t *testing.T) {
			t.Parallel()
			env := environ()
			env[tc.variable] = tc.value
			_, err := LoadConfig(env)
			require.ErrorContains(t, err, tc.want)
			require.NotContains(t, err.Error(), "hunter2")
		})
	}

	t.Run("NoWayOfPrintingShowsASecret", func(t *testing.T) {
		t.Parallel()
		cfg := mustConfig(t)
		encoded, err := json.Marshal(cfg)
		require.NoError(t, err)
		said := fmt.Sprintf("%v %+v %#v %s", cfg, cfg, cfg, encoded)
		for _, secret := range []string{currentKey, nextKey, twilioToken, serviceSecret, jwtSecret} {
			require.NotContains(t, said, secret)
		}
	})
}

func TestTheLineOfARequestHasItsClient(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ trusted, want string }{{trusted: "127.0.0.0/8,::1", want: "198.51.100.1"}, {want: "127.0.0.1"}} {
		b := setup(t, "TRUSTED_PROXIES", tc.trusted)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.url+"/healthz", nil)
		require.NoError(t, err)
		r.Header.Set("X-Forwarded-For", "198.51.100.1")
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		b.stop()
		require.Contains(t, b.log.String(), `"client":"`+tc.want+`"`)
	}
}
