package onboarding_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	emulator "paceline.internal/emulators/qstash"
	"paceline.internal/emulators/wire"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/onboardingtest"
)

// TestPooler is the service behind a PgBouncer that gives three connections away by the transaction.
func TestPooler(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "R_20_EveryTenantSeesTheirOwnAndNotificationsWork", newWorld, func(t *testing.T, w *world) {
		direct := w.environ["ONBOARDING_DATABASE_URL"]
		_, err := pgtest.Owner(t, w.pool).Exec(t.Context(), `do $$ begin
			execute format('alter database %I set statement_timeout = 60000', current_database());
			execute format('alter database %I set lock_timeout = 30000', current_database());
			execute format('alter database %I set idle_in_transaction_session_timeout = 60000', current_database());
		end $$`)
		require.NoError(t, err)
		w.environ["ONBOARDING_DATABASE_URL"], w.environ["ONBOARDING_DATABASE_DIRECT_URL"] = pgtest.Pooler(t, direct, 3), direct
		w.environ["ALARM_RELAY_INTERVAL"] = "1h" // so that a notification wakes the relay
		w.qstash.SetFaults(emulator.Script{OnDeliver: emulator.Every(emulator.DeliverFault{Lose: true})})
		defer w.run()()
		require.Equal(t, http.StatusOK, w.get("/readyz"))

		var people []*onboardingv1.Profile
		for i := range 20 {
			p, _ := w.enrolled(fmt.Sprintf("+55119876500%02d", i)) // a write of a tenant
			people = append(people, p)
		}
		w.receives("SM1", people[0].GetPhone(), "yes") // a job
		w.receives("SM2", people[0].GetPhone(), "yes")
		var readers errgroup.Group
		for i, p := range people {
			own, other := w.as(rpc.RoleUser, p.GetProfileId(), onboardingtest.OrgID), w.as(rpc.RoleOperator, "operator-2", onboardingtest.NewID())
			readers.Go(func() error {
				for range 24 {
					got, err := w.client.GetProfile(own, &onboardingv1.GetProfileRequest{ProfileId: p.GetProfileId()})
					if err != nil || got.GetProfile().GetPhone() != p.GetPhone() {
						return fmt.Errorf("%d: their own profile: %w", i, err)
					}
					if _, err := w.client.GetProfile(other, &onboardingv1.GetProfileRequest{ProfileId: p.GetProfileId()}); err == nil {
						return fmt.Errorf("%d: another organisation saw their profile", i)
					}
				}
				return nil
			})
		}
		require.NoError(t, readers.Wait())

		require.Equal(t, 1, w.count(`select count(*) from step_alarms where published_at is not null`))
		_, err = w.pool.Exec(t.Context(), `update step_alarms set published_at = null, qstash_message_id = null, lease_until = created_at`)
		require.NoError(t, err)
		w.eventually(func() bool { // the first may come before the relay waits for it
			_, err := w.pool.Exec(t.Context(), `notify step_alarms`)
			return err == nil && w.count(`select count(*) from step_alarms where published_at is not null`) == 1
		})
		require.NoError(t, w.qstash.Idle(t.Context()))
	})

	onboardingtest.Subtest(t, "R_20_SaysWhatIsMissing", newWorld, func(t *testing.T, w *world) {
		w.environ["ONBOARDING_DATABASE_URL"] = pgtest.Pooler(t, w.environ["ONBOARDING_DATABASE_URL"], 3)
		defer w.run()()
		code, said := w.read("/readyz")
		require.Equal(t, http.StatusServiceUnavailable, code)
		require.Contains(t, said, "ONBOARDING_DATABASE_DIRECT_URL")
		require.Contains(t, said, "set statement_timeout = 10000;")
		require.Contains(t, said, "set lock_timeout = 3000;")
		require.Contains(t, said, "set idle_in_transaction_session_timeout = 15000;")
	})
}

func TestConnectionThatNeverAnswers(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "R_01_TheRelayGoesOnWhenItsConnectionNeverAnswersAgain", newWorld, func(t *testing.T, w *world) {
		if testing.Short() {
			t.Skip("long: make proof")
		}
		proxy, through, err := wire.OpenPostgres(t.Context(), w.environ["ONBOARDING_DATABASE_URL"])
		require.NoError(t, err)
		w.environ["ONBOARDING_DATABASE_URL"], w.passBound = through, 3*time.Second
		w.qstash.SetFaults(emulator.Script{OnPublish: func(int, emulator.Message) emulator.PublishFault {
			return emulator.PublishFault{Status: http.StatusServiceUnavailable}
		}})
		stop := w.run()
		w.inBurst()
		const unpublished = `select count(*) from step_alarms where published_at is null`
		require.Equal(t, 1, w.count(unpublished))
		require.Equal(t, http.StatusOK, w.get("/readyz"))

		proxy.Freeze(wire.Dead, true) // the server answers on new connections, so it is not given up
		w.qstash.SetFaults(emulator.Script{})
		w.clock.Advance(10 * time.Second) // the alarm is the relay's
		w.eventually(func() bool {
			code, body := w.read("/readyz")
			return code == http.StatusServiceUnavailable && strings.Contains(body, "a loop has not finished a pass within its bound") && strings.Contains(body, "relay")
		})
		require.Equal(t, 1, w.count(unpublished))

		proxy.Thaw()
		// pgxpool counts a connection that it closes until the server has been asked to cancel what runs there, for 15 s at the most.
		require.Eventually(t, func() bool { return w.count(unpublished) == 0 }, 40*time.Second, 10*time.Millisecond)
		w.eventually(func() bool {
			return w.get("/readyz") == http.StatusOK
		})
		_, metrics := w.read("/metrics")
		require.NotContains(t, metrics, `paceline_loop_timeouts_total{loop="relay"} 0`)
		require.Contains(t, metrics, `paceline_loop_stalled{loop="relay"} 0`)
		require.NoError(t, proxy.Close()) // what is frozen is not waited for
		stop()
	})

	onboardingtest.Subtest(t, "R_01_AServerThatIsSilentIsGivenUpUntilItAnswers", newWorld, func(t *testing.T, w *world) {
		proxy, through, err := wire.OpenPostgres(t.Context(), w.environ["ONBOARDING_DATABASE_URL"])
		require.NoError(t, err)
		w.environ["ONBOARDING_DATABASE_URL"] = through
		stop := w.run()
		require.Equal(t, http.StatusOK, w.get("/readyz"))
		proxy.Freeze(wire.BothWays, false)
		w.eventually(func() bool {
			_, body := w.read("/readyz")
			return strings.Contains(body, "postgres: the server does not answer")
		})
		proxy.Thaw()
		w.eventually(func() bool { return w.get("/readyz") == http.StatusOK })
		require.NoError(t, proxy.Close())
		stop()
	})
}
