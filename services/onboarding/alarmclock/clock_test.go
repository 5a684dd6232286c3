package alarmclock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/messagingtest"
	emulator "paceline.internal/emulators/qstash"
	"paceline.internal/platform/alarms"
	"paceline.internal/platform/qstash"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/goals"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
)

func TestMain(m *testing.M) { onboardingtest.Main(m) }

// countRings has the database note the alarms that have rung: they are deleted then.
func countRings(b *onboardingtest.Bundle) {
	for _, sql := range []string{
		`create table rung (id uuid)`,
		`create function note_ring() returns trigger language plpgsql security definer as
			$$ begin insert into public.rung values (old.id); return null; end $$`,
		`create trigger note_ring after delete on alarm_jobs for each row execute function note_ring()`,
	} {
		b.Exec(sql)
	}
}

const sqlRung = `select count(*) from rung`

// setup returns a service that rings alarms from its database.
func setup(t *testing.T) *onboardingtest.Bundle {
	t.Helper()
	b := onboardingtest.New(t)
	b.Ring(onboardingtest.Postgres)
	return b
}

func TestAlarms(t *testing.T) {
	t.Parallel()
	type bundle = onboardingtest.Bundle

	onboardingtest.Subtest(t, "OfAPausedOrganisationStayInTheOutbox", setup, func(t *testing.T, b *bundle) {
		p, _ := b.Explained()
		b.Pauses("")
		b.Reply(p, "ok")
		b.Work()
		require.Zero(t, b.Count(`select count(*) from alarm_jobs`))
		require.Equal(t, 1, b.Count(`select count(*) from step_alarms where published_at is null`))
		require.True(t, b.Unpauses())
		b.Quiet()
		b.Completes(p)
	})

	onboardingtest.Subtest(t, "RingAgainAfterAFailure", setup, func(t *testing.T, b *bundle) {
		p, _ := b.Explained()
		b.Messaging.Script(messagingtest.First(messagingtest.Unavailable, messagingtest.Unavailable))
		b.Reply(p, "ok")
		b.Work()
		b.Clock.Advance(alarms.Backoff(1))
		b.Work()
		b.Work()
		require.Equal(t, 1, b.Count(`select count(*) from alarm_jobs where attempts = 1`))
		b.Quiet()
		b.Completes(p)
		require.Zero(t, b.Count(`select count(*) from step_alarms where generation > 1`), "it is the same alarm")
	})

	onboardingtest.Subtest(t, "WaitAsLongAsMessagingAsks", setup, func(t *testing.T, b *bundle) {
		p, _ := b.Explained()
		b.Messaging.Script(messagingtest.First(messagingtest.Throttle))
		b.Reply(p, "ok")
		b.Work()
		require.Equal(t, 1, b.Count(`select count(*) from step_alarms where last_error <> '' and lease_until < $1`, b.Clock.Now().Add(alarms.Backoff(1))))
		b.Quiet()
		b.Completes(p)
	})

	onboardingtest.Subtest(t, "AreStoredOnce", setup, func(t *testing.T, b *bundle) {
		id, err := qstash.NewDedupID("onboarding", "s", "step", "1")
		require.NoError(t, err)
		job := qstash.Job{
			OrgID: onboardingtest.OrgID, Route: conversation.StepRoute, DedupID: id, Body: []byte(`{"a":1}`), Due: b.Clock.Now().Add(time.Hour),
		}
		first, err := b.Own().Publish(t.Context(), job)
		require.NoError(t, err)
		again, err := b.Own().Publish(t.Context(), job)
		require.NoError(t, err)
		require.Equal(t, qstash.Receipt{MessageID: first.MessageID, Deduplicated: true}, again)
		require.Equal(t, 1, b.Count(`select count(*) from alarm_jobs`))
	})

	onboardingtest.Subtest(t, "OfAnUnreadablePayloadBecomeADeadLetter", setup, func(t *testing.T, b *bundle) {
		id, err := qstash.NewDedupID("onboarding", "s", "step", "1")
		require.NoError(t, err)
		_, err = b.Own().Publish(t.Context(), qstash.Job{
			OrgID: onboardingtest.OrgID, Route: conversation.StepRoute, DedupID: id, Body: []byte(`{"a":1}`),
		})
		require.NoError(t, err)
		b.Work()
		require.Equal(t, 1, b.Count(`select count(*) from alarm_jobs where status = 'failed' and attempts = 1`))
		require.Equal(t, 1, b.Count(`select count(*) from dead_letters`))
	})

	onboardingtest.Subtest(t, "OfAWithdrawnGoalDoNotRing", setup, func(t *testing.T, b *bundle) {
		p, g := b.Reminded(onboardingtest.JohnAtNine)
		b.Work()
		require.Equal(t, 1, b.Count(`select count(*) from alarm_jobs where status = 'pending' and event_type = $1`, goals.Route.Label))
		_, err := b.Current().Goals.Cancel(t.Context(), goals.Caller{OrgID: onboardingtest.OrgID, ProfileID: p.ID}, g.ID)
		require.NoError(t, err)
		b.Clock.Advance(48 * time.Hour)
		b.Work()
		require.Equal(t, 1, b.Count(`select count(*) from alarm_jobs where status = 'cancelled'`))
	})
}

// TestEngineChanges changes the engine in the middle of a burst, both ways. The alarm that the engine before has rings all the same.
func TestEngineChanges(t *testing.T) {
	t.Parallel()
	for _, way := range [][2]string{
		{onboardingtest.QStash, onboardingtest.Postgres},
		{onboardingtest.Postgres, onboardingtest.QStash},
		{onboardingtest.QStash, onboardingtest.Both},
		{onboardingtest.Both, onboardingtest.Postgres},
	} {
		t.Run(way[0]+" to "+way[1], func(t *testing.T) {
			t.Parallel()
			b := onboardingtest.New(t)
			b.Ring(way[0])
			p, _ := b.Explained()
			b.Reply(p, "ok")
			b.Pass(10 * time.Second)
			b.Ring(way[1])
			b.Quiet()
			b.Completes(p)
			b.KeepsPace(p)
		})
	}
}

// TestTakeover has the database ring what QStash does not.
func TestTakeover(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T, faults emulator.Script) (*onboardingtest.Bundle, people.Profile) {
		t.Helper()
		b := onboardingtest.New(t)
		countRings(b)
		b.Ring(onboardingtest.Both)
		p, _ := b.Explained()
		b.QStash.SetFaults(faults)
		b.Reply(p, "ok")
		return b, p
	}
	t.Run("OfAlarmsThatAreRefused", func(t *testing.T) {
		t.Parallel()
		b, p := begin(t, emulator.Script{OnPublish: func(int, emulator.Message) emulator.PublishFault { return emulator.PublishFault{Status: 500} }})
		b.Quiet()
		b.Completes(p)
		b.KeepsPace(p)
		require.Equal(t, 4, b.Count(sqlRung))
		b.Unmute()
		b.Clock.Advance(alarms.Poll + time.Minute)
		q, _ := b.Finished()
		b.Completes(q)
		require.Equal(t, 4, b.Count(sqlRung), "QStash is asked again")
	})
	t.Run("OfAlarmsThatAreLost", func(t *testing.T) {
		t.Parallel()
		b, p := begin(t, emulator.Script{OnDeliver: emulator.Every(emulator.DeliverFault{Lose: true})})
		b.Until(func() bool { return b.Count(sqlRung) == 4 })
		b.Completes(p)
	})
}

// TestPauseBeforeARecord pauses the organisation, and lets an alarm ring, before it is recorded that the alarm was published.
func TestPauseBeforeARecord(t *testing.T) {
	t.Parallel()
	refused := func(t *testing.T) *onboardingtest.Bundle { // the database takes over, after the commit
		t.Helper()
		b := onboardingtest.New(t)
		countRings(b)
		b.Ring(onboardingtest.Both)
		b.QStash.SetFaults(emulator.Script{OnPublish: func(int, emulator.Message) emulator.PublishFault { return emulator.PublishFault{Status: 500} }})
		return b
	}
	onboardingtest.Subtest(t, "OfAStep", refused, func(t *testing.T, b *onboardingtest.Bundle) {
		p, _ := b.Explained()
		ports := b.Healthy()
		ports.AfterPublish = func() {
			b.Pauses("")
			_, err := b.Current().Alarms.Drain(t.Context())
			require.NoError(t, err)
		}
		b.Serve(b.Start(ports))
		b.Reply(p, "ok")
		require.Equal(t, 1, b.Count(sqlRung))
		lifted := b.Clock.Now()
		require.True(t, b.Unpauses())
		b.Until(func() bool { return len(b.Sequence(p)) > 2 })
		require.Less(t, b.Clock.Now().Sub(lifted), 10*time.Second)
		b.Completes(p)
	})
	onboardingtest.Subtest(t, "OfAGoal", setup, func(t *testing.T, b *onboardingtest.Bundle) {
		_, g := b.Reminded(onboardingtest.JohnAtNine)
		b.Work()
		b.Exec(`update goal_alarms set published_at = null, qstash_message_id = null, lease_token = gen_random_uuid() where goal_id = $1`, g.ID)
		b.Pauses("")
		b.Clock.Advance(48 * time.Hour)
		b.Work()
		require.Equal(t, 1, b.Count(`select count(*) from goal_alarms where goal_id = $1 and cause = 'paused'`, g.ID))
	})
	onboardingtest.Subtest(t, "OfAGoalWhoseAnswerWasLost", setup, func(t *testing.T, b *onboardingtest.Bundle) {
		_, g := b.Reminded(onboardingtest.JohnAtNine)
		b.Work()
		b.Exec(`update goal_alarms set published_at = null, qstash_message_id = null, lease_token = null, last_error = 'timeout'
			where goal_id = $1`, g.ID)
		b.Pauses("")
		b.Clock.Advance(48 * time.Hour)
		b.Work()
		require.Equal(t, 1, b.Count(`select count(*) from goal_alarms where goal_id = $1 and cause = 'paused'`, g.ID))
	})
}

// TestCrashOfAlarms has the process meet every mishap at every call while the database rings a burst.
func TestCrashOfAlarms(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.EveryMishap(20, func(ports *onboardingtest.Ports) {
		p, _ := b.Explained()
		b.Play(ports, p, func(p people.Profile) func() error { return b.Posts(p, "ok") })
		b.Quiet()
		b.Completes(p)
	})
}
