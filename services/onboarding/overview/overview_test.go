package overview_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/messagingtest"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	overviewv1 "paceline.internal/proto/gen/paceline/overview/v1"
	"paceline.internal/services/onboarding/onboardingtest"
)

const sqlJobsOfEachKind = `
insert into webhook_jobs (id, org_id, idempotency_key, source, event_type, subject, payload, status, next_retry_at, processed_at, created_at, updated_at)
select gen_random_uuid(), $1, n::text, 'internal', 'e', '', '{}', case when n <= 3 then 'failed' else 'pending' end,
    case when n > 3 then $2::timestamptz - interval '90 s' + (n - 4) * interval '1 hour' end, case when n <= 3 then $2::timestamptz end, $2, $2
from generate_series(1, 5) n`

func TestMain(m *testing.M) { onboardingtest.Main(m) }

func TestOverview(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "CountsWhatThereIsAndWhatWaitsForAnOperator", onboardingtest.New, func(t *testing.T, b *onboardingtest.Bundle) {
		b.Person()
		stopped, _ := b.Activated()
		b.Reply(stopped, "STOP")
		_, r := b.Activated() // of its sessions only the newest counts
		b.Resets(r)
		again, r := b.Activated()
		b.Resets(r)
		b.Activate(again)
		_, _, parked := b.ParkedAtStep(messagingtest.Reject)
		require.Error(t, parked)
		b.Mute()
		held, _ := b.InBurst(2)
		b.Hold(held)
		_, late := b.InBurst(2)
		b.Clock.Advance(10 * time.Minute)
		b.GivesUp(late, nil)
		_, _ = b.InBurst(2) // their step is not due yet
		now := b.Clock.Now()
		b.Exec(sqlJobsOfEachKind, onboardingtest.OrgID, now)
		b.Exec(`insert into event_subscriptions (id, org_id, url, types, include, secret, status, paused_reason, cursor_seq, created_at, updated_at)
			values (gen_random_uuid(), $1, 'https://example.com', '{}', '{}', decode(repeat('00', 32), 'hex'), 'paused', 'it failed', 0, $2, $2)`, onboardingtest.OrgID, now)

		out, err := onboardingtest.Ask(b, b.Current().Server.GetOverview, &onboardingv1.GetOverviewRequest{})
		require.NoError(t, err)
		people := map[string]int32{}
		for _, s := range out.GetPeople() {
			require.False(t, s.GetPeople().GetMore())
			people[s.GetStatus()] = s.GetPeople().GetCount()
		}
		require.Equal(t, map[string]int32{"none": 1, "stopped": 1, "closed": 1, "active": 4, "undeliverable": 1, "stuck": 0}, people)
		require.Equal(t, now, out.GetAt().AsTime())
		require.Equal(t, []int32{3, 1}, []int32{out.GetInBurst().GetCount(), out.GetOverdueSteps().GetCount()})
		require.InDelta(t, 600, now.Sub(out.GetOldestStepDueAt().AsTime()).Seconds(), 9, "that of the person who is held does not count")
		require.False(t, out.GetSchedulingDisabled())
		queues := map[string]*overviewv1.QueueGauges{}
		for _, q := range out.GetQueues() {
			queues[q.GetQueue()] = q
		}
		require.Len(t, queues, 3)
		jobs := queues["webhook_jobs"]
		require.Equal(t, []int32{0, 1, 1, 3}, []int32{
			jobs.GetRunning().GetCount(), jobs.GetDue().GetCount(), jobs.GetScheduled().GetCount(), jobs.GetFailed().GetCount(),
		})
		require.Equal(t, now.Add(-90*time.Second), jobs.GetOldestDueAt().AsTime())
		require.Nil(t, queues["event_deliveries"].GetOldestDueAt())
		needs := out.GetAttention()
		require.Equal(t, []int32{1, 1, 3, 0, 1, 1}, []int32{
			needs.GetParkedSessions().GetCount(), needs.GetDeadLetters().GetCount(), needs.GetFailedJobs().GetCount(),
			needs.GetFailedOutreach().GetCount(), needs.GetPausedSubscriptions().GetCount(), needs.GetHeldPeople().GetCount(),
		})
		require.Len(t, b.DeadLetters(&onboardingv1.ListDeadLettersRequest{Open: true}), 1)
		b.Exec(`update dead_letters set replayed_at = $1, replays = 1`, now)
		require.Empty(t, b.DeadLetters(&onboardingv1.ListDeadLettersRequest{Open: true}))
	})
}
