package onboarding_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/messagingtest"
	platform "paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/platform/process"
	"paceline.internal/services/onboarding"
	"paceline.internal/services/onboarding/onboardingtest"
)

// complete is the least environment that the service starts with.
func complete() map[string]string {
	return map[string]string{
		"ONBOARDING_DATABASE_URL": "postgres://localhost/onboarding", "PUBLIC_BASE_URL": "https://paceline.example",
		"QSTASH_TOKEN": "token", "SERVICE_AUTH_SECRET": messagingtest.Secret,
	}
}

func TestLoadConfig(t *testing.T) {
	t.Parallel()

	t.Run("S0_01_DefaultsNeedFourVariables", func(t *testing.T) {
		t.Parallel()
		cfg, err := onboarding.LoadConfig(complete())
		require.NoError(t, err)
		require.Equal(t, []any{5, "10000 * pow(2, retried)", "https://qstash.upstash.io", false}, []any{cfg.QStashRetries, cfg.QStashRetryDelay, cfg.QStashURL.String(), cfg.SchedulingDisabled})
		require.Equal(t, []any{time.Second, time.Minute, 5}, []any{cfg.AlarmRelayInterval, cfg.AlarmOverdueGrace, cfg.AlarmMaxGenerations})
		require.Equal(t, []string{":9001", ":9101", ":9002", onboardingtest.OrgID}, []string{cfg.Addr.String(), cfg.OpsAddr.String(), cfg.MessagingAddr.String(), cfg.DefaultOrgID})
	})

	t.Run("S0_06_EverythingThatIsWrongIsReportedAtOnce", func(t *testing.T) {
		t.Parallel()
		_, err := onboarding.LoadConfig(map[string]string{
			"QSTASH_RETRIES": "21", "DEFAULT_ORG_ID": "x", "ALARM_RELAY_INTERVAL": "0s", "ALARM_OVERDUE_GRACE": "10ms", "ALARM_MAX_GENERATIONS": "0",
			"GOALS_RETENTION":      "23h",
			"ONBOARDING_FLOW_FILE": "/nowhere/flow.json", "ONBOARDING_SCHEDULING_DISABLED": "perhaps",
			"REDIS_URL": "https://:s3cret@redis.example",
		})
		for _, variable := range []string{
			"ONBOARDING_DATABASE_URL", "PUBLIC_BASE_URL", "QSTASH_TOKEN", "SERVICE_AUTH_SECRET", "QSTASH_RETRIES", "DEFAULT_ORG_ID",
			"ALARM_RELAY_INTERVAL", "ALARM_OVERDUE_GRACE", "ALARM_MAX_GENERATIONS", "ONBOARDING_FLOW_FILE", "ONBOARDING_SCHEDULING_DISABLED",
			"REDIS_URL", "GOALS_RETENTION",
		} {
			require.ErrorContains(t, err, variable)
		}
		require.NotContains(t, err.Error(), "s3cret")
	})

	t.Run("S3_29_WithoutASchedulerTheProcessDoesNotStart", func(t *testing.T) {
		t.Parallel()
		for _, variable := range []string{"QSTASH_TOKEN", "PUBLIC_BASE_URL"} {
			environ := complete()
			delete(environ, variable)
			_, err := onboarding.LoadConfig(environ)
			require.ErrorContains(t, err, variable)
		}
	})

	t.Run("PostgresRingsWithoutQStash", func(t *testing.T) {
		t.Parallel()
		environ := complete()
		delete(environ, "QSTASH_TOKEN")
		environ["ALARMS"] = "postgres"
		_, err := onboarding.LoadConfig(environ)
		require.NoError(t, err)
		for _, wrong := range []string{"qstash,postgres", "qstash", "cron"} {
			environ["ALARMS"] = wrong
			_, err = onboarding.LoadConfig(environ)
			require.Error(t, err, wrong)
		}
	})

	for _, tt := range []struct {
		name  string
		value string
		want  bool
		bad   bool
	}{
		{name: "S0_58_OneDisablesScheduling", value: "1", want: true},
		{name: "S0_58_TrueDisablesScheduling", value: "true", want: true},
		{name: "S0_58_ZeroDoesNot", value: "0"},
		{name: "S0_58_AnythingElseIsAnError", value: "off", bad: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			environ := complete()
			environ["ONBOARDING_SCHEDULING_DISABLED"] = tt.value
			cfg, err := onboarding.LoadConfig(environ)
			require.Equal(t, tt.bad, err != nil)
			require.Equal(t, tt.want, cfg.SchedulingDisabled)
		})
	}

	t.Run("TakesAFlowAndACatalogOfItsOwn", func(t *testing.T) {
		t.Parallel()
		environ, dir := complete(), t.TempDir()
		environ["ONBOARDING_FLOW_FILE"] = write(t, filepath.Join(dir, "flow"), "flow.json",
			`{"version": "short", "steps": [{"id": "hello", "text": "ONBOARDING_MESSAGE_1", "delay_ms": 0}]}`)
		environ["ONBOARDING_COPY_DIR"] = filepath.Join("catalog", "copy")
		_, err := onboarding.LoadConfig(environ)
		require.NoError(t, err)
	})

	t.Run("RefusesAFlowThatSendsAMessageThatThereIsNot", func(t *testing.T) {
		t.Parallel()
		environ := complete()
		environ["ONBOARDING_FLOW_FILE"] = write(t, t.TempDir(), "flow.json",
			`{"version": "long", "steps": [{"id": "hello", "text": "ONBOARDING_MESSAGE_9", "delay_ms": 0}]}`)
		_, err := onboarding.LoadConfig(environ)
		require.ErrorContains(t, err, "ONBOARDING_MESSAGE_9")
	})

	t.Run("RefusesAFolderWithoutACatalog", func(t *testing.T) {
		t.Parallel()
		environ := complete()
		environ["ONBOARDING_COPY_DIR"] = t.TempDir()
		_, err := onboarding.LoadConfig(environ)
		require.ErrorContains(t, err, "ONBOARDING_COPY_DIR")
	})

	t.Run("TakesEngagementOfItsOwn", func(t *testing.T) {
		t.Parallel()
		environ := complete()
		environ["ENGAGEMENT_FILE"] = filepath.Join("engagement", "rules", "engagement.json")
		environ["ENGAGEMENT_COPY_DIR"] = filepath.Join("catalog", "engagement")
		_, err := onboarding.LoadConfig(environ)
		require.NoError(t, err)
	})

	t.Run("NamesEveryProblemOfTheGoalWordsAtOnce", func(t *testing.T) {
		t.Parallel()
		environ := complete()
		environ["GOAL_WORDS_FILE"] = write(t, t.TempDir(), "words.json", `{"en": ["stop", "no"]}`)
		_, err := onboarding.LoadConfig(environ)
		for _, problem := range []string{"GOAL_WORDS_FILE", `"stop" of en means STOP`, `"no" of en has fewer than 3 letters`} {
			require.ErrorContains(t, err, problem)
		}
	})

	t.Run("NamesEveryProblemOfEngagementAtOnce", func(t *testing.T) {
		t.Parallel()
		environ := complete()
		environ["ENGAGEMENT_FILE"] = write(t, t.TempDir(), "engagement.json", `{"version": "", "inactivity_days": 0}`)
		environ["ENGAGEMENT_COPY_DIR"] = t.TempDir()
		_, err := onboarding.LoadConfig(environ)
		for _, problem := range []string{"ENGAGEMENT_FILE", "version is empty", "inactivity_days 0 must be 1 to 365", "tiers is missing", "ENGAGEMENT_COPY_DIR"} {
			require.ErrorContains(t, err, problem)
		}
	})
}

func write(t *testing.T, dir, name, content string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	return path
}

func TestDoctor(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "S0_06_PassesWhenEverythingIsInOrder", newWorld, func(t *testing.T, w *world) {
		w.environ["ONBOARDING_ADDR"], w.environ["QUIET_HOURS_DEFAULT"] = "127.0.0.1:9001", "08:00-21:00"
		cfg, err := onboarding.LoadConfig(w.environ)
		require.NoError(t, err)
		var report strings.Builder
		require.NoError(t, onboarding.Doctor(t.Context(), cfg).Report(&report, false))
		require.Regexp(t, `(?m)\Aok +configuration .*
warning +service keys +SERVICE_AUTH_SECRET is set: .*
 +to mend: .*
ok +settings +not the default: ONBOARDING_ADDR=127.0.0.1:9001, .*
ok +flow and copy +flow 2026-11 with 4 steps, copy 2026-11 in \[en pt-BR\]
ok +engagement +engagement 2026-11 with 9 actions, texts in \[en pt-BR\]
ok +goal words +a text that begins so says a goal: .*
ok +quiet hours +texts are sent within 08:00-21:00 by each person's clock, unless .*
ok +database +schema version \d+
ok +time zones +the newest people have one, or their organisation has
ok +activation flow +none: .*
ok +rights +the roles may use every table
ok +connections +2 processes have up to \d+ connections each, and the server has \d+ for them
ok +failover +no standby follows this server
ok +clock +the database's clock is .* off ours
ok +qstash +the token is accepted at .*
ok +alarms +ALARMS=qstash; the database has 0 that are due later, and 0 that are due
ok +scheduling +is on, and no organisation has paused it
ok +tls +off: .*
ok +opening +built in: they name no brand .*
ok +own hours +no organisation has decided .*
ok +own consent +no organisation requires .*
ok +kept +timelines and audit are kept for 9600h0m0s or longer
\z`, report.String())
	})

	onboardingtest.Subtest(t, "FailsWhileAlarmsOfTheDatabaseAreDueAndDoNotRing", newWorld, func(t *testing.T, w *world) {
		for engine, disabled := range map[string]string{"postgres": "", "qstash": "", "qstash,postgres": "true"} {
			_, err := w.pool.Exec(platform.AcrossOrganisations(t.Context()), `
				insert into alarm_jobs (id, org_id, idempotency_key, event_type, subject, payload, status, next_retry_at, created_at, updated_at)
				values (gen_random_uuid(), $1, 'due', 'onboarding-step', '', '{}', 'pending', now() - interval '2 minutes', now(), now())
				on conflict do nothing`, onboardingtest.OrgID)
			require.NoError(t, err)
			w.environ["ALARMS"], w.environ["ONBOARDING_SCHEDULING_DISABLED"] = engine, disabled
			cfg, err := onboarding.LoadConfig(w.environ)
			require.NoError(t, err)
			var report strings.Builder
			err = onboarding.Doctor(t.Context(), cfg).Report(&report, false)
			if disabled != "" {
				require.NoError(t, err)
				require.Regexp(t, `(?m)^warning +alarms +1 alarms of the database wait for the end of ONBOARDING_SCHEDULING_DISABLED`, report.String())
				continue
			}
			require.ErrorContains(t, err, "alarms")
			require.Regexp(t, `(?m)^failed +alarms +1 alarms of the database are due and do not ring, the oldest for 2m`, report.String())
		}
	})

	onboardingtest.Subtest(t, "WarnsOfCopyInALanguageThatNoProfileCanHave", newWorld, func(t *testing.T, w *world) {
		copies := t.TempDir()
		require.NoError(t, os.CopyFS(copies, os.DirFS(filepath.Join("catalog", "copy"))))
		english, err := os.ReadFile(filepath.Join(copies, "2026-11.en.json"))
		require.NoError(t, err)
		write(t, copies, "2026-11.es.json", string(english))
		w.environ["ONBOARDING_COPY_DIR"] = copies
		cfg, err := onboarding.LoadConfig(w.environ)
		require.NoError(t, err)
		var report strings.Builder
		require.NoError(t, onboarding.Doctor(t.Context(), cfg).Report(&report, false))
		require.Regexp(t, `(?m)^warning +flow and copy +.*texts in \[es\], which are sent to nobody: the locale of a profile is one of \[en pt-BR\]`, report.String())
	})

	onboardingtest.Subtest(t, "WarnsOfAnActivationFlowThatNobodyHasPublished", newWorld, func(t *testing.T, w *world) {
		w.environ["ACTIVATION_FLOW"] = "join"
		cfg, err := onboarding.LoadConfig(w.environ)
		require.NoError(t, err)
		var report strings.Builder
		require.NoError(t, onboarding.Doctor(t.Context(), cfg).Report(&report, false))
		require.Regexp(t, `(?m)^warning +activation flow +no organisation has published a flow join \(ACTIVATION_FLOW\)`, report.String())
	})

	onboardingtest.Subtest(t, "WarnsWhenQuietHoursAreOff", newWorld, func(t *testing.T, w *world) {
		cfg, err := onboarding.LoadConfig(w.environ)
		require.NoError(t, err)
		var report strings.Builder
		require.NoError(t, onboarding.Doctor(t.Context(), cfg).Report(&report, false), "off is a choice")
		require.Regexp(t, `(?m)^warning +quiet hours +texts are sent at any hour.*\n +to mend: set QUIET_HOURS_DEFAULT`, report.String())
	})

	onboardingtest.Subtest(t, "WarnsOfSignsThatMakeATextDearer", newWorld, func(t *testing.T, w *world) {
		for text, want := range map[string]string{
			"Sorry about that \U0001f44b": `(?m)^warning +engagement +GSM-7 does not have .*: ENGAGEMENT_APOLOGY in en \("\\U0001f44b"\)`,
			"Sorry – that’s all":          `(?m)^ok +engagement`, // it is written with a hyphen and an apostrophe of GSM-7
			"Sorry, João \U0001f44b":      `(?m)^ok +engagement`, // the letter costs as much
		} {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "2026-11.en.json"), fmt.Appendf(nil, `{"ENGAGEMENT_APOLOGY": %q}`, text), 0o600))
			environ := maps.Clone(w.environ)
			environ["ENGAGEMENT_COPY_DIR"] = dir
			cfg, err := onboarding.LoadConfig(environ)
			require.NoError(t, err)
			var report strings.Builder
			require.NoError(t, onboarding.Doctor(t.Context(), cfg).Report(&report, false))
			require.Regexp(t, want, report.String())
		}
	})

	onboardingtest.Subtest(t, "WarnsOfPeopleWhoseQuietHoursGoByUTC", newWorld, func(t *testing.T, w *world) {
		ctx := platform.AcrossOrganisations(t.Context())
		_, err := w.pool.Exec(ctx, `insert into profiles (id, org_id, phone, first_name, locale, time_zone, created_at, updated_at)
			values (gen_random_uuid(), $1, '+18005550143', 'Ana', 'en', '', $2, $2)`, onboardingtest.OrgID, time.Unix(0, 0))
		require.NoError(t, err)
		warning := regexp.MustCompile(`(?m)^warning +time zones +1 of the newest 1 people, of 1 organisations, have no time zone`)
		for _, zone := range []string{"UTC", "America/Chicago"} {
			_, err := w.pool.Exec(ctx, `insert into organisation_settings (org_id, time_zone, updated_at) values ($1, $2, $3)
				on conflict (org_id) do update set time_zone = excluded.time_zone`, onboardingtest.OrgID, zone, time.Unix(0, 0))
			require.NoError(t, err)
			cfg, err := onboarding.LoadConfig(w.environ)
			require.NoError(t, err)
			var report strings.Builder
			require.NoError(t, onboarding.Doctor(t.Context(), cfg).Report(&report, false))
			require.Equal(t, zone == "UTC", warning.MatchString(report.String()), report.String())
		}
	})

	for name, tt := range map[string]struct {
		variable, value string
		decided         string // of the settings of an organisation
		want            string
	}{
		"AnOpeningThatNamesNoBrand": {want: `warning +opening +ONBOARDING_OPENING in en, .*ENGAGEMENT_WELCOME in en, .*carriers ask .*\n +to mend: write yours in`},
		"NoConsentThatIsRequired":   {want: `warning +own consent +no organisation requires .*\n +to mend: PUT /v1/settings with require_consent_record`},
		"ConsentThatIsRequired":     {decided: `require_consent_record = true`, want: `ok +own consent +1 organisations require`},
		"AnEarlyDefault":            {variable: "QUIET_HOURS_DEFAULT", value: "07:59-21:00", want: `warning +quiet hours +texts are sent within 07:59-21:00, also`},
		"AnEarlyWindow":             {decided: `quiet_until = '07:59'`, want: `warning +own hours +.* 0{8}-.* \(07:59-21:00\)\n +to mend: PUT /v1/settings`},
		"ALateWindow":               {decided: `quiet_from = '21:01'`, want: `warning +own hours +.*\(08:00-21:01\)`},
		"AWindowOverMidnight":       {decided: `quiet_until = '20:00', quiet_from = '06:00'`, want: `warning +own hours +.*\(20:00-06:00\)`},
		"NoWindow":                  {decided: `quiet_hours = false`, want: `warning +own hours +.*\(off\)`},
		"AShorterWindow":            {decided: `quiet_until = '09:00'`, want: `ok +own hours `},
		"AShortTimeline":            {variable: "TIMELINE_RETENTION", value: "9599h", want: `warning +kept +.*TIMELINE_RETENTION is 9599h0m0s\n +to mend: set`},
		"AShortAudit":               {variable: "AUDIT_RETENTION", value: "9599h", want: `warning +kept +.*AUDIT_RETENTION is 9599h0m0s\n`},
		"AShortTimelineOfItsOwn":    {decided: `retention = '{"timeline": 399}'`, want: `warning +kept +.*organisations: 0{8}-.* \(timeline_days 399\)\n`},
		"ALongAuditOfItsOwn":        {decided: `retention = '{"audit": 400}'`, want: `ok +kept `},
	} {
		onboardingtest.Subtest(t, "TellsWithRealAccountsOf"+name, newWorld, func(t *testing.T, w *world) {
			w.environ["QSTASH_URL"] = "https://127.0.0.1:1" // the real one is not to be called
			if tt.variable != "" {
				w.environ[tt.variable] = tt.value
			}
			if tt.decided != "" {
				_, err := w.pool.Exec(platform.AcrossOrganisations(t.Context()), `insert into organisation_settings (org_id, quiet_hours, updated_at)
					values ($1, true, $2)`, onboardingtest.OrgID, time.Unix(0, 0))
				require.NoError(t, err)
				_, err = w.pool.Exec(platform.AcrossOrganisations(t.Context()), `update organisation_settings set `+tt.decided)
				require.NoError(t, err)
			}
			cfg, err := onboarding.LoadConfig(w.environ)
			require.NoError(t, err)
			var report strings.Builder
			require.ErrorContains(t, onboarding.Doctor(t.Context(), cfg).Report(&report, false), "qstash")
			require.Regexp(t, `(?m)^`+tt.want, report.String())
		})
	}

	onboardingtest.Subtest(t, "ChecksRedisWhenThereIsOne", newWorld, func(t *testing.T, w *world) {
		memory := miniredis.RunT(t)
		memory.RequireAuth("s3cret")
		for url, want := range map[string]string{
			"redis://:s3cret@" + memory.Addr(): `(?m)^ok +redis +reservations`,
			"redis://:wr0ng@" + memory.Addr():  `(?m)^failed +redis .*\n +to mend: check REDIS_URL`,
			"redis://:wr0ng@127.0.0.1:1":       `(?m)^failed +redis .*\n +to mend: check REDIS_URL`,
		} {
			w.environ["REDIS_URL"] = url
			cfg, err := onboarding.LoadConfig(w.environ)
			require.NoError(t, err)
			var report strings.Builder
			err = onboarding.Doctor(t.Context(), cfg).Report(&report, false)
			require.Equal(t, strings.Contains(want, "failed"), err != nil)
			require.Regexp(t, want, report.String())
			require.NotContains(t, report.String(), "s3cret")
			require.NotContains(t, report.String(), "wr0ng")
		}
		require.Empty(t, memory.Keys(), "it changes nothing")
	})

	for name, tt := range map[string]struct {
		change func(t *testing.T, environ map[string]string)
		want   string
	}{
		"ASchemaThatIsBehind": {
			change: func(t *testing.T, environ map[string]string) {
				t.Helper()
				environ["ONBOARDING_DATABASE_URL"] = pgtest.URL(t, platform.Migrations{})
			},
			want: `(?m)^failed +database .*\n +to mend: .*onboarding migrate`,
		},
		"AStoreThatRefusesItsPassword": {
			change: func(_ *testing.T, environ map[string]string) {
				environ["ONBOARDING_DATABASE_URL"] = "postgres://unknown:wr0ng@127.0.0.1:1/onboarding"
			},
			want: `(?m)^failed +connections +not looked at: the database cannot be opened\n +to mend: mend what is wrong with the database, above
failed +failover +not looked at: .*\n +to mend: mend what is wrong with the database, above$`,
		},
	} {
		onboardingtest.Subtest(t, "Sees"+name, newWorld, func(t *testing.T, w *world) {
			tt.change(t, w.environ)
			cfg, err := onboarding.LoadConfig(w.environ)
			require.NoError(t, err)
			var report strings.Builder
			require.ErrorIs(t, onboarding.Doctor(t.Context(), cfg).Report(&report, false), process.ErrUnwell)
			require.Regexp(t, tt.want, report.String())
			require.NotContains(t, report.String(), "wr0ng")
		})
	}

	onboardingtest.Subtest(t, "S0_06_SaysWhatIsWrongAndHowToMendIt", newWorld, func(t *testing.T, w *world) {
		w.environ["QSTASH_TOKEN"], w.environ["ONBOARDING_DATABASE_URL"] = "wrong-token", "postgres://ada:s3cret@127.0.0.1:1/onboarding"
		w.environ["GRPC_TLS_CERT_FILE"] = "/nowhere/cert.pem"
		w.environ["GRPC_TLS_KEY_FILE"], w.environ["GRPC_TLS_CA_FILE"] = "/nowhere/key.pem", "/nowhere/ca.pem"
		cfg, err := onboarding.LoadConfig(w.environ)
		require.NoError(t, err)
		var report strings.Builder
		err = onboarding.Doctor(t.Context(), cfg).Report(&report, false)
		require.ErrorIs(t, err, process.ErrUnwell)
		for _, check := range []string{"database", "qstash", "tls"} {
			require.Regexp(t, `(?m)^failed +`+check+` .*\n +to mend: `, report.String())
			require.ErrorContains(t, err, check)
		}
		require.NotContains(t, report.String(), "s3cret")
		require.NotContains(t, report.String(), "wrong-token")
	})
}
