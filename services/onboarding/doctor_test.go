package onboarding_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/wire"
	platform "paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/onboarding"
	"paceline.internal/services/onboarding/onboardingtest"
)

// examined returns what the doctor says of the world.
func (w *world) examined() (report string, err error) {
	w.t.Helper()
	cfg, err := onboarding.LoadConfig(w.environ)
	require.NoError(w.t, err)
	var said strings.Builder
	err = onboarding.Doctor(w.t.Context(), cfg).Report(&said, false)
	return said.String(), err
}

func TestDoctorOnTheDatabase(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "SaysOnceThatItCannotBeOpened", newWorld, func(t *testing.T, w *world) {
		w.environ["ONBOARDING_DATABASE_URL"] = "postgres://ada@127.0.0.1:1/onboarding"
		report, err := w.examined()
		require.ErrorContains(t, err, "database")
		require.Equal(t, 1, strings.Count(report, "failed to connect"), report)
		require.Equal(t, 11, strings.Count(report, "not looked at: the database cannot be opened"), report)
	})

	onboardingtest.Subtest(t, "WaitsOnceForAServerThatIsSilent", newWorld, func(t *testing.T, w *world) {
		if testing.Short() {
			t.Skip("long: make proof")
		}
		proxy, through, err := wire.OpenPostgres(t.Context(), w.environ["ONBOARDING_DATABASE_URL"])
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, proxy.Close()) })
		proxy.Freeze(wire.BothWays, false)
		w.environ["ONBOARDING_DATABASE_URL"] = through
		report, err := w.examined()
		require.ErrorContains(t, err, "database")
		require.Equal(t, 1, strings.Count(report, "postgres: open"), report)
	})

	onboardingtest.Subtest(t, "NamesTheTablesThatAreOutOfReach", newWorld, func(t *testing.T, w *world) {
		owner, err := platform.Open(t.Context(), platform.Config{URL: pgtest.OwnerURL(t, w.environ["ONBOARDING_DATABASE_URL"]), MaxConns: 1})
		require.NoError(t, err)
		t.Cleanup(owner.Close)
		_, err = owner.Exec(t.Context(), `revoke update on profiles, goals from onboarding_tenant; revoke all on audit from onboarding_tenant;
			revoke select on paused_organisations from onboarding_tenant`)
		require.NoError(t, err)
		report, err := w.examined()
		require.ErrorContains(t, err, "rights")
		require.Regexp(t, `(?m)^failed +rights +onboarding_tenant has no select on paused_organisations; onboarding_tenant has no select, insert, `+
			`update, delete on audit; onboarding_tenant has no update on goals, profiles\n +to mend: restore the database with its rights`, report)
	})

	onboardingtest.Subtest(t, "WarnsOfSchedulingThatIsOff", newWorld, func(t *testing.T, w *world) {
		w.environ["ONBOARDING_SCHEDULING_DISABLED"] = "1"
		_, err := w.pool.Exec(platform.AcrossOrganisations(t.Context()), `insert into scheduling_pauses (org_id, paused_at)
			values ($1, $2), (gen_random_uuid(), $2::timestamptz + interval '1 day')`, onboardingtest.OrgID, time.Date(2026, 11, 19, 8, 0, 0, 0, time.UTC))
		require.NoError(t, err)
		report, err := w.examined()
		require.NoError(t, err)
		require.Regexp(t, `(?m)^warning +scheduling +ONBOARDING_SCHEDULING_DISABLED is set: .*; the scheduling of 2 organisations is paused .* since `+
			`2026-11-19T08:00:00Z\n +to mend: `, report)
	})

	onboardingtest.Subtest(t, "DoesNotAskEmulatorsForABrandOrConsent", newWorld, func(t *testing.T, w *world) {
		w.environ["ALARMS"] = "postgres"
		delete(w.environ, "QSTASH_URL")
		for origin, state := range map[string]string{"http://127.0.0.1:8080": "ok", "https://sms.example.com": "warning"} {
			w.environ["PUBLIC_BASE_URL"] = origin
			report, err := w.examined()
			require.NoError(t, err)
			require.Regexp(t, `(?m)^`+state+` +opening `, report)
			require.Regexp(t, `(?m)^`+state+` +own consent `, report)
		}
	})
}
