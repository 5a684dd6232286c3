package onboarding_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	emulator "paceline.internal/emulators/qstash"
	"paceline.internal/platform/postgres/pgtest"
)

func TestSilence(t *testing.T) {
	t.Parallel()

	t.Run("R_01_TheRelayGoesOnWhenItsConnectionNeverAnswersAgain", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		proxy, through := pgtest.StartProxy(t, w.environ["ONBOARDING_DATABASE_URL"])
		w.environ["ONBOARDING_DATABASE_URL"], w.passBound = through, time.Second
		w.qstash.SetFaults(emulator.Script{OnPublish: func(int, emulator.Message) emulator.PublishFault {
			return emulator.PublishFault{Status: http.StatusServiceUnavailable}
		}})
		stop := w.run()
		p, _ := w.enrolled("+5511987650001")
		w.receives("SM1", p.GetPhone(), "yes")
		w.receives("SM2", p.GetPhone(), "yes")
		const unpublished = `select count(*) from step_alarms where published_at is null`
		require.Equal(t, 1, w.count(unpublished))
		require.Equal(t, http.StatusOK, w.get("/readyz"))

		proxy.Freeze()
		w.qstash.SetFaults(emulator.Script{})
		w.clock.Advance(10 * time.Second) // the alarm is the relay's
		w.eventually(func() bool {
			code, body := w.read("/readyz")
			return code == http.StatusServiceUnavailable && strings.Contains(body, "a loop has not finished a pass within its bound") && strings.Contains(body, "relay")
		})
		require.Equal(t, 1, w.count(unpublished))

		proxy.Thaw()
		w.eventually(func() bool { return w.count(unpublished) == 0 })
		w.eventually(func() bool {
			return w.get("/readyz") == http.StatusOK
		})
		_, metrics := w.read("/metrics")
		require.NotContains(t, metrics, `loop_passes_overdue_total{loop="relay"} 0`)
		require.Contains(t, metrics, `loop_stands_still{loop="relay"} 0`)
		proxy.Close() // what is frozen is not waited for
		stop()
	})
}
