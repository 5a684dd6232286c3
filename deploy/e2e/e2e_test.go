package e2e_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/e2e"
	"paceline.internal/deploy/operator"
	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/clock"
	"paceline.internal/emulators/qstash"
	"paceline.internal/emulators/twilio"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/platform/process"
	"paceline.internal/platform/rpc"
	"paceline.internal/services/messaging"
	"paceline.internal/services/onboarding"
)

func TestMain(m *testing.M) { pgtest.Run(m) }

// phone is the one that the harness plays when it is not told.
const phone = "+12025550155"

// site is a deployment of a test's own.
type site struct {
	t        *testing.T
	vendors  *stack.Vendors
	services *stack.Services
	environ  map[string]string // of the harness
	api      *operator.Client
	alarms   atomic.Int64 // events at QStash
}

// deploy starts the product in this process, its environment changed by the pairs of names and values.
func deploy(t *testing.T, changes ...string) *site {
	t.Helper()
	silent := slog.New(slog.DiscardHandler)
	s := &site{t: t}
	vendors, err := stack.StartVendors(t.Context(), stack.VendorConfig{
		Clock: clock.System(), Log: silent, OnQStash: func(qstash.Event) { s.alarms.Add(1) },
	})
	require.NoError(t, err)
	secrets := stack.Secrets{ServiceAuth: rand.Text() + rand.Text(), APIJWT: rand.Text() + rand.Text()}
	cfg := stack.ServiceConfig{
		OnboardingDatabaseURL: pgtest.URL(t, onboarding.Migrations()), MessagingDatabaseURL: pgtest.URL(t, messaging.Migrations()),
		Secrets: secrets, Log: silent, Environ: map[string]string{"ALARM_RELAY_INTERVAL": "50ms"},
	}
	for i := 0; i < len(changes); i += 2 {
		cfg.Environ[changes[i]] = changes[i+1]
	}
	services, err := stack.StartServices(t.Context(), vendors, cfg)
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		client.CloseIdleConnections()
		require.NoError(t, services.Stop(ctx))
		require.NoError(t, vendors.Stop(ctx))
	})
	environ := stack.Credentials()
	maps.Copy(environ, map[string]string{
		"HARNESS_QSTASH_MODE": "stub", "PUBLIC_BASE_URL": services.URL(), "API_JWT_SECRET": secrets.APIJWT,
	})
	token, err := secrets.APIToken("operator", stack.OrgID, rpc.RoleOperator, clock.System().Now(), time.Hour)
	require.NoError(t, err)
	s.vendors, s.services, s.environ = vendors, services, environ
	s.api = &operator.Client{BaseURL: services.URL(), Token: token, HTTP: client}
	return s
}

// plays runs the harness, with the patience of a test.
func (s *site) plays(runs int, patience time.Duration) (e2e.Report, error) {
	s.t.Helper()
	cfg, err := e2e.LoadConfig(s.environ)
	require.NoError(s.t, err)
	return e2e.Harness{
		Config: cfg, Now: time.Now, Rest: process.RestOnMachineClock, Tell: func(string) {}, Told: func(e2e.Check) {}, Patience: patience,
	}.Run(s.t.Context(), runs)
}

// failed are the checks that were not good, with what was there.
func failed(r e2e.Report) (all []string) {
	for _, run := range r.Runs {
		for _, c := range run.Checks {
			if !c.OK {
				all = append(all, c.Name+": "+c.Saw)
			}
		}
	}
	return all
}

// profile returns the profile of the phone.
func (s *site) profile() string {
	s.t.Helper()
	p, err := s.api.Enrol(s.t.Context(), operator.Person{Phone: phone, FirstName: "Ana", Locale: "en"})
	require.NoError(s.t, err)
	return p.ProfileID
}

const enough = time.Minute

// little is the patience with something that will not come, and with all that comes before it.
const little = 5 * time.Second

func TestStub(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()

	for name, disabled := range map[string]string{
		"S0_46_47_48_50_51_PassesTwiceInARowWithoutAnyQStash":           "true",
		"S0_46_48_50_51_PassesTwiceInARowBesideTheDeploymentsOwnAlarms": "false",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := deploy(t, "ONBOARDING_SCHEDULING_DISABLED", disabled)
			report, err := s.plays(2, enough)
			require.NoError(t, err)
			require.Empty(t, failed(report))
			require.Empty(t, report.Differences)
			require.True(t, report.Kept)
			require.Equal(t, report.Runs[0].Trace, report.Runs[1].Trace)
			require.NotEqual(t, report.Runs[0].SessionID, report.Runs[1].SessionID)
			for _, run := range report.Runs {
				var steps []string
				for _, text := range run.Texts {
					steps = append(steps, text.Step)
				}
				require.Equal(t, []string{
					"opening", "explanation", "onboarding_message_1", "onboarding_message_2", "onboarding_message_3", "onboarding_message_4",
				}, steps)
			}
			require.Len(t, s.texts(), 12)
			if disabled == "true" {
				require.Zero(t, s.alarms.Load(), "nothing was published")
			}
		})
	}

	t.Run("S0_50_BeginsFromACleanBaselineWhateverWasBefore", func(t *testing.T) {
		t.Parallel()
		s := deploy(t, "ONBOARDING_SCHEDULING_DISABLED", "true")
		profile := s.profile()
		_, err := s.api.Activate(t.Context(), profile)
		require.NoError(t, err)
		require.NoError(t, s.api.Call(t.Context(), http.MethodPost, "/v1/profiles/"+profile+":hold", struct{}{}, nil))
		_, err = s.vendors.Twilio.Receive(t.Context(), phone, stack.FromNumber, "PARAR") // opts out here, and is nothing to Twilio
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			consent, err := s.api.Consent(t.Context(), phone)
			return err == nil && consent == "opted_out"
		}, enough, 10*time.Millisecond)
		_, err = s.plays(1, enough)
		require.ErrorContains(t, err, "set HARNESS_LIFT to the same number", "it may be a person who meant it")
		s.environ["HARNESS_LIFT"] = phone
		report, err := s.plays(1, enough)
		require.NoError(t, err)
		require.Empty(t, failed(report))
	})

	t.Run("S0_48_SeesARowInTheOutboundQueue", func(t *testing.T) {
		t.Parallel()
		s := deploy(t, "ONBOARDING_SCHEDULING_DISABLED", "true")
		require.NoError(t, s.api.Call(t.Context(), http.MethodPost, "/v1/outbound", map[string]string{
			"idempotency_key": "wrong", "to": phone, "body": "a burst that takes the wrong way", "purpose": "reminder",
			"profile_id": s.profile(), "send_at": clock.System().Now().Add(time.Hour).UTC().Format(time.RFC3339),
		}, nil))
		report, err := s.plays(1, enough)
		require.NoError(t, err)
		require.Equal(t, []string{"no row in sms_outbound_jobs: 1 rows"}, failed(report))
		require.False(t, report.Kept)
	})

	t.Run("S0_48_SeesAStepThatIsNotSent", func(t *testing.T) {
		t.Parallel()
		s := deploy(t, "ONBOARDING_SCHEDULING_DISABLED", "true")
		var texts atomic.Int64
		s.vendors.Twilio.SetScript(twilio.Script{OnCreate: func(_ int, m twilio.Message) twilio.CreateFault {
			if m.To == phone && texts.Add(1) > 3 { // after the opening, the explanation and message 1
				return twilio.CreateFault{Answer: twilio.AnswerTooMany}
			}
			return twilio.CreateFault{}
		}})
		report, err := s.plays(1, little)
		require.ErrorContains(t, err, "ring the alarm of onboarding_message_2: not within 5s")
		require.False(t, report.Kept)
		require.Contains(t, strings.Join(failed(report), "\n"), "onboarding_message_2: the alarm is answered 200: 503")
	})

	for name, tt := range map[string]struct{ variable, value, want string }{
		"TwiliosToken": {"TWILIO_AUTH_TOKEN", strings.Repeat("0", 32), "TWILIO_AUTH_TOKEN"},
		"QStashsKey":   {"QSTASH_CURRENT_SIGNING_KEY", "sig_" + strings.Repeat("0", 28), "QSTASH_CURRENT_SIGNING_KEY"},
		"TheTokenOfV1": {"API_JWT_SECRET", strings.Repeat("0", 32), "401"},
	} {
		t.Run("SaysThatItIsWrong"+name, func(t *testing.T) {
			t.Parallel()
			s := deploy(t, "ONBOARDING_SCHEDULING_DISABLED", "true")
			s.environ[tt.variable] = tt.value
			_, err := s.plays(1, little)
			require.ErrorContains(t, err, tt.want)
			require.NotContains(t, err.Error(), tt.value)
		})
	}
}

func TestReal(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()

	t.Run("S0_49_SeesABurstWithoutItsPauses", func(t *testing.T) {
		t.Parallel()
		hurried := filepath.Join(t.TempDir(), "flow.json")
		require.NoError(t, os.WriteFile(hurried, []byte(`{"version": "hurried", "steps": [
			{"id": "onboarding_message_1", "text": "ONBOARDING_MESSAGE_1", "delay_ms": 0},
			{"id": "onboarding_message_2", "text": "ONBOARDING_MESSAGE_2", "delay_ms": 1000},
			{"id": "onboarding_message_3", "text": "ONBOARDING_MESSAGE_3", "delay_ms": 1000},
			{"id": "onboarding_message_4", "text": "ONBOARDING_MESSAGE_4", "delay_ms": 0}]}`), 0o600))
		s := deploy(t, "ONBOARDING_FLOW_FILE", hurried)
		s.environ["HARNESS_QSTASH_MODE"] = "real"
		report, err := s.plays(1, enough)
		require.NoError(t, err)
		require.Len(t, failed(report), 2)
		require.Contains(t, failed(report)[0], "onboarding_message_2: at least 6s after the text before")
		require.Contains(t, failed(report)[1], "onboarding_message_3: at least 6s after the text before")

		s.environ["ONBOARDING_FLOW_FILE"] = hurried // which the harness then knows of
		report, err = s.plays(1, enough)
		require.NoError(t, err)
		require.Empty(t, failed(report))
	})

	t.Run("PassesWhereTheDatabaseRingsTheAlarms", func(t *testing.T) {
		t.Parallel()
		s := deploy(t, "ALARMS", "postgres", "QSTASH_URL", "", "QSTASH_TOKEN", "", "QSTASH_CURRENT_SIGNING_KEY", "", "QSTASH_NEXT_SIGNING_KEY", "")
		s.environ["HARNESS_QSTASH_MODE"] = "real"
		delete(s.environ, "QSTASH_CURRENT_SIGNING_KEY")
		report, err := s.plays(1, enough)
		require.NoError(t, err)
		require.Empty(t, failed(report))
		require.True(t, report.Kept)
		require.Zero(t, s.alarms.Load(), "nothing was published")
	})

	t.Run("S0_49_SeesThatAnAlarmIsLost", func(t *testing.T) {
		t.Parallel()
		s := deploy(t)
		s.vendors.QStash.SetFaults(qstash.Script{OnDeliver: func(qstash.Delivery) qstash.DeliverFault { return qstash.DeliverFault{Lose: true} }})
		s.environ["HARNESS_QSTASH_MODE"] = "real"
		report, err := s.plays(1, little)
		require.ErrorContains(t, err, "onboarding_message_1 was not sent")
		require.False(t, report.Kept)
	})

	// The harness's own patience, on a clock that is ahead of the machine's once the burst is waited for.
	t.Run("S0_49_LooksForEachStepForSixtySeconds", func(t *testing.T) {
		t.Parallel()
		s := deploy(t)
		s.vendors.QStash.SetFaults(qstash.Script{OnDeliver: func(qstash.Delivery) qstash.DeliverFault { return qstash.DeliverFault{Lose: true} }})
		s.environ["HARNESS_QSTASH_MODE"] = "real"
		cfg, err := e2e.LoadConfig(s.environ)
		require.NoError(t, err)
		ahead, waiting := time.Duration(0), false
		_, err = e2e.Harness{
			Config: cfg, Now: func() time.Time { return clock.System().Now().Add(ahead) }, Told: func(e2e.Check) {},
			Tell: func(line string) { waiting = waiting || strings.HasPrefix(line, "waiting for onboarding_message_1") },
			Rest: func(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
				if waiting {
					ahead += d
					return ctx.Err() == nil
				}
				return process.RestOnMachineClock(ctx, d, wake)
			},
		}.Run(t.Context(), 1)
		require.ErrorContains(t, err, "onboarding_message_1 was not sent: not within 1m0s")
		require.LessOrEqual(t, ahead, time.Minute+time.Second, "and no longer; what the requests took is in the sixty seconds, too")
	})
}

func TestConfig(t *testing.T) {
	t.Parallel()
	whole := func() map[string]string {
		environ := stack.Credentials()
		maps.Copy(environ, map[string]string{
			"HARNESS_QSTASH_MODE": "stub", "PUBLIC_BASE_URL": "https://staging.example.com", "HARNESS_API_TOKEN": "t",
		})
		return environ
	}
	_, err := e2e.LoadConfig(whole())
	require.NoError(t, err)
	for name, tt := range map[string]struct{ variable, value, want string }{
		"S0_47_NoModeIsAnError":         {"HARNESS_QSTASH_MODE", "", "HARNESS_QSTASH_MODE is missing"},
		"S0_47_AnotherModeIsAnError":    {"HARNESS_QSTASH_MODE", "fake", "must be stub or real"},
		"NoTokenIsAnError":              {"HARNESS_API_TOKEN", "", "HARNESS_API_TOKEN or API_JWT_SECRET"},
		"ALanguageWithoutAYesIsAnError": {"HARNESS_LOCALE", "fr", "en or pt-BR"},
		"NoOriginIsAnError":             {"PUBLIC_BASE_URL", "", "PUBLIC_BASE_URL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			environ := whole()
			environ[tt.variable] = tt.value
			_, err := e2e.LoadConfig(environ)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

// texts lists the texts that the carrier took for the phone.
func (s *site) texts() (all []twilio.Message) {
	for _, m := range s.vendors.Twilio.Messages() {
		if m.To == phone && m.Direction == twilio.DirectionAPI {
			all = append(all, m)
		}
	}
	return all
}
