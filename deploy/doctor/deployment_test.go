package doctor_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/doctor"
	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/clock"
	"paceline.internal/emulators/qstash"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/platform/process"
	"paceline.internal/services/messaging"
	"paceline.internal/services/onboarding"
)

func TestMain(m *testing.M) { pgtest.Run(m) }

// deploy starts the product in this process and returns its environment.
func deploy(t *testing.T) map[string]string {
	t.Helper()
	silent := slog.New(slog.DiscardHandler)
	vendors, err := stack.StartVendors(t.Context(), stack.VendorConfig{Clock: clock.System(), Log: silent})
	require.NoError(t, err)
	secrets := stack.Secrets{ServiceAuth: rand.Text() + rand.Text(), APIJWT: rand.Text() + rand.Text()}
	cfg := stack.ServiceConfig{
		OnboardingDatabaseURL: pgtest.URL(t, onboarding.Migrations()), MessagingDatabaseURL: pgtest.URL(t, messaging.Migrations()),
		Secrets: secrets, Log: silent,
	}
	services, err := stack.StartServices(t.Context(), vendors, cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		require.NoError(t, services.Stop(ctx))
		require.NoError(t, vendors.Stop(ctx))
	})
	environ := vendors.Environ()
	maps.Copy(environ, map[string]string{
		"ONBOARDING_DATABASE_URL": cfg.OnboardingDatabaseURL, "MESSAGING_DATABASE_URL": cfg.MessagingDatabaseURL,
		"GATEWAY_ADDR": services.Addresses.Gateway, "ONBOARDING_ADDR": services.Addresses.Onboarding, "MESSAGING_ADDR": services.Addresses.Messaging,
		"LEDGER_SIGNING_KEY": "MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g", "LEDGER_ANCHOR_DIR": t.TempDir(),
		"PUBLIC_BASE_URL": services.URL(), "API_JWT_SECRET": secrets.APIJWT, "SMS_COUNTRIES": "US", "QUIET_HOURS_DEFAULT": "08:00-21:00",
		"PSEUDONYM_KEY": rand.Text() + rand.Text(),
	})
	maps.Copy(environ, secrets.Keys())
	return environ
}

// say is the report as people read it.
func say(t *testing.T, findings process.Findings) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, findings.Print(&out))
	return out.String()
}

func TestDeployment(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()

	t.Run("S0_06_AllIsWell", func(t *testing.T) {
		t.Parallel()
		environ := deploy(t)
		findings := doctor.Deployment(t.Context(), environ)
		said := say(t, findings)
		require.NoError(t, findings.Err(), said)
		require.NotContains(t, said, "to mend")
		require.Contains(t, said, "leads to a gateway with these keys")
		require.Contains(t, said, "ok      signing keys   those that QStash signs with")
		require.Regexp(t, `ok      text lengths   segments: en ONBOARDING_OPENING \d, .* pt-BR ONBOARDING_LATER 2 \(UCS-2 for [^)]*ã`, said)
		for name, value := range environ {
			if strings.Contains(name, "SECRET") || strings.Contains(name, "TOKEN") || strings.Contains(name, "KEY") {
				require.NotContains(t, said, value)
			}
		}
	})

	t.Run("S0_06_KeysFromFilesAreKeys", func(t *testing.T) {
		t.Parallel()
		environ := deploy(t)
		for _, name := range []string{"QSTASH_CURRENT_SIGNING_KEY", "QSTASH_NEXT_SIGNING_KEY"} {
			file := filepath.Join(t.TempDir(), name)
			require.NoError(t, os.WriteFile(file, []byte(environ[name]+"\n"), 0o600))
			delete(environ, name)
			environ[name+"_FILE"] = file
		}
		require.Contains(t, say(t, doctor.Deployment(t.Context(), environ)), "ok      signing keys   those that QStash signs with")
	})

	t.Run("S0_06_EveryVariableThatIsMissingIsNamed", func(t *testing.T) {
		t.Parallel()
		findings := doctor.Deployment(t.Context(), map[string]string{})
		require.ErrorIs(t, findings.Err(), process.ErrUnwell)
		said := say(t, findings)
		for _, name := range []string{
			"QSTASH_TOKEN", "QSTASH_CURRENT_SIGNING_KEY", "QSTASH_NEXT_SIGNING_KEY", "PUBLIC_BASE_URL", "TWILIO_ACCOUNT_SID", "TWILIO_AUTH_TOKEN",
			"TWILIO_API_KEY_SID and TWILIO_API_KEY_SECRET or TWILIO_AUTH_TOKEN", "ONBOARDING_DATABASE_URL", "MESSAGING_DATABASE_URL",
			"GATEWAY_SIGNING_KEY or SERVICE_AUTH_SECRET", "ONBOARDING_SIGNING_KEY or SERVICE_AUTH_SECRET", "SERVICE_PUBLIC_KEYS or SERVICE_AUTH_SECRET",
		} {
			require.Contains(t, said, "failed  "+name)
		}
	})

	for name, tt := range map[string]struct {
		rotate        bool
		current, next string // of the environment; empty is as it is
		want          string
	}{
		"KeysThatWereRotated": {rotate: true, want: "warning signing keys   the keys were rotated"},
		"AnotherNextKey":      {next: "sig_other", want: "warning signing keys   the next key is another"},
		"OtherKeys":           {current: "sig_a", next: "sig_b", want: "failed  signing keys   QStash signs with keys that are not these"},
	} {
		t.Run("Sees"+name, func(t *testing.T) {
			t.Parallel()
			environ := deploy(t)
			if tt.rotate {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, environ["QSTASH_URL"]+"/v2/keys/rotate", http.NoBody)
				require.NoError(t, err)
				request.Header.Set("Authorization", "Bearer "+qstash.DevToken)
				transport := &http.Transport{}
				defer transport.CloseIdleConnections()
				response, err := (&http.Client{Transport: transport}).Do(request)
				require.NoError(t, err)
				require.NoError(t, response.Body.Close())
				require.Equal(t, http.StatusOK, response.StatusCode)
			}
			if tt.current != "" {
				environ["QSTASH_CURRENT_SIGNING_KEY"] = tt.current
			}
			if tt.next != "" {
				environ["QSTASH_NEXT_SIGNING_KEY"] = tt.next
			}
			require.Contains(t, say(t, doctor.Deployment(t.Context(), environ)), tt.want)
		})
	}
	deploymentFailures(t)
}

// deploymentFailures lists the faults that keep a deployment from working.
func deploymentFailures(t *testing.T) {
	t.Helper()
	for name, tt := range map[string]struct {
		change func(environ map[string]string)
		want   string
	}{
		"ASigningKeyThatIsKnownNowhere": {
			change: func(environ map[string]string) {
				environ["GATEWAY_SIGNING_KEY"] = stack.Secrets{ServiceAuth: rand.Text()}.Keys()["GATEWAY_SIGNING_KEY"]
			},
			want: `failed  onboarding +\S+ does not believe our tokens: SERVICE_PUBLIC_KEYS has no key of ours there`,
		},
		"AnotherTwilioToken": {
			change: func(environ map[string]string) { environ["TWILIO_AUTH_TOKEN"] = strings.Repeat("0", 32) },
			want:   `failed  public origin +the gateway there does not believe Twilio's signatures`,
		},
		"AnAddressOfAnotherService": {
			change: func(environ map[string]string) { environ["ONBOARDING_ADDR"] = environ["MESSAGING_ADDR"] },
			want:   `failed  onboarding +what serves at \S+ is another service`,
		},
		"ADatabaseOfAnotherService": {
			change: func(environ map[string]string) {
				environ["MESSAGING_DATABASE_URL"] = environ["ONBOARDING_DATABASE_URL"]
			},
			want: `failed  database +the database is another service's`,
		},
		"AQStashTokenThatIsNone": {
			change: func(environ map[string]string) { environ["QSTASH_TOKEN"] = "none" },
			want:   `failed  signing keys +not looked at: .*\n +to mend: mend what is wrong with qstash, above`,
		},
		"AnotherSpellingOfTheOrigin": {
			change: func(environ map[string]string) {
				environ["PUBLIC_BASE_URL"] = strings.Replace(environ["PUBLIC_BASE_URL"], "127.0.0.1", "localhost", 1)
			},
			want: `failed  public origin +\S+ leads to a gateway that does not believe .*\n +to mend: make .* \(letter by letter\)`,
		},
		"AServiceThatIsNotThere": {
			change: func(environ map[string]string) { environ["MESSAGING_ADDR"] = "127.0.0.1:1" },
			want:   `failed  messaging `,
		},
	} {
		t.Run("Sees"+name, func(t *testing.T) {
			t.Parallel()
			environ := deploy(t)
			tt.change(environ)
			findings := doctor.Deployment(t.Context(), environ)
			require.ErrorIs(t, findings.Err(), process.ErrUnwell)
			require.Regexp(t, tt.want, say(t, findings))
		})
	}

	t.Run("SeesTextsThatAreLong", func(t *testing.T) {
		t.Parallel()
		environ := deploy(t)
		folder := t.TempDir()
		built := os.DirFS("../../services/onboarding/catalog/copy")
		require.NoError(t, os.CopyFS(folder, built))
		files, err := filepath.Glob(filepath.Join(folder, "*"))
		require.NoError(t, err)
		for _, file := range files {
			content, err := os.ReadFile(file)
			require.NoError(t, err)
			content = bytes.Replace(content, []byte(`"ONBOARDING_MESSAGE_2": "`), []byte(`"ONBOARDING_MESSAGE_2": "`+strings.Repeat("é à ", 160)), 1)
			require.NoError(t, os.WriteFile(file, content, 0o600))
		}
		environ["ONBOARDING_COPY_DIR"] = folder
		require.Regexp(t, `failed  ONBOARDING_COPY_DIR cannot be used: .*ONBOARDING_MESSAGE_2 in en is \d+ characters`, say(t, doctor.Deployment(t.Context(), environ)))
	})
}

// BenchmarkDiagnose keeps an eye on how many URLs are tried.
func BenchmarkDiagnose(b *testing.B) {
	request := doctor.Request{URL: status, Header: http.Header{"X-Twilio-Signature": {"no"}, "X-Forwarded-Host": {"a.example:99"}}, Body: []byte("a=b"), At: noon}
	for b.Loop() {
		_, _, err := doctor.Diagnose(request, keys)
		require.NoError(b, err)
	}
}
