package goals_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	emulator "paceline.internal/emulators/qstash"
	"paceline.internal/services/onboarding/goals"
)

// plays lets time pass with every callback that is due in it.
func (b *bundle) plays(d time.Duration) {
	b.t.Helper()
	end := b.clock.Now().Add(d)
	for {
		require.NoError(b.t, b.qstash.Idle(b.t.Context()))
		next, ok := b.clock.Next()
		if !ok || next.After(end) {
			break
		}
		b.clock.Advance(next.Sub(b.clock.Now()))
	}
	b.clock.Advance(end.Sub(b.clock.Now()))
	require.NoError(b.t, b.qstash.Idle(b.t.Context()))
}

// alarmed is one callback of a goal, as QStash makes it.
func (b *bundle) alarmed(g goals.Goal) (string, error) { return b.service.Execute(b.t.Context(), g.ID) }

func (b *bundle) timeline(g goals.Goal) (events []string) {
	b.t.Helper()
	found, err := b.store.Timeline(b.t.Context(), g.ID)
	require.NoError(b.t, err)
	for _, t := range found {
		events = append(events, t.Event)
	}
	return events
}

func (b *bundle) told(g goals.Goal) string {
	b.t.Helper()
	rows, err := b.pool.Query(b.t.Context(), `select type from event_outbox where data->>'goal_id' = $1 order by id`, g.ID)
	require.NoError(b.t, err)
	defer rows.Close()
	var types []string
	for rows.Next() {
		var one string
		require.NoError(b.t, rows.Scan(&one))
		types = append(types, strings.TrimPrefix(one, "goal."))
	}
	require.NoError(b.t, rows.Err())
	return strings.Join(types, " ")
}

func TestGoal(t *testing.T) {
	t.Parallel()

	t.Run("S3_08_IsARowWithItsTimeAndTheMessageOfItsAlarm", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		g := b.says("", 5*time.Minute)
		require.Equal(t, b.clock.Now().Add(5*time.Minute), g.ScheduledFor.UTC())
		require.Equal(t, 5*time.Minute, g.Delay)
		require.Equal(t, 1, b.count(`select count(*) from goals where id = $1 and status = 'scheduled' and scheduled_delay = 300`, g.ID))
		require.Equal(t, 1, b.count(`select count(*) from goal_alarms where goal_id = $1 and qstash_message_id is not null`, g.ID))
		require.Equal(t, []string{"created"}, b.timeline(g))
		require.Equal(t, "scheduled", b.told(g))
	})

	t.Run("S3_09_AlarmComesWhenItIsDueWithTheIdAlone", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		g := b.says("", 5*time.Minute)
		b.plays(5*time.Minute - time.Second)
		b.is(g, goals.Scheduled)
		b.plays(time.Second)
		require.Equal(t, []string{fmt.Sprintf(`{"goal_id":%q}`, g.ID)}, b.bodies)
		b.is(g, goals.Completed)
		require.Equal(t, 1, b.phone.texts[g.ID])
		require.Equal(t, []string{"created", "started", "ended"}, b.timeline(g))
		require.Equal(t, "scheduled started completed", b.told(g))
	})

	t.Run("S3_34_TheRowThatWasScheduledIsTheOneThatCompletes", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		device := b.device()
		g := b.says("", 5*time.Minute)
		other := b.says(device, 5*time.Hour)
		b.plays(5 * time.Minute)
		v := b.is(g, goals.Completed)
		require.Equal(t, g.ScheduledFor, v.ScheduledFor)
		require.Equal(t, 1, b.phone.texts[g.ID])
		b.is(other, goals.Scheduled)
		require.Equal(t, 2, b.count(`select count(*) from goals`))
	})

	t.Run("S3_13_UnknownIsHandledAndRunsNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		outcome, err := b.service.Execute(t.Context(), uuid.NewString())
		require.NoError(t, err)
		require.Equal(t, goals.OutcomeUnknown, outcome)
		require.Zero(t, b.count(`select count(*) from goals`))
	})

	t.Run("S3_14_CancelledIsHandledAndNotRun", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		g := b.says("", time.Minute)
		_, err := b.service.Cancel(t.Context(), b.me(), g.ID)
		require.NoError(t, err)
		b.clock.Advance(time.Hour)
		outcome, err := b.alarmed(g)
		require.NoError(t, err)
		require.Equal(t, "cancelled", outcome)
		require.Zero(t, b.phone.texts[g.ID])
	})

	t.Run("S3_32_RepeatedAlarmRunsItOnce", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		g := b.says("", time.Minute)
		b.clock.Advance(time.Minute)
		ended := make(chan error, 20)
		for range cap(ended) {
			go func() {
				_, err := b.alarmed(g)
				ended <- err
			}()
		}
		for range cap(ended) {
			require.NoError(t, <-ended)
		}
		b.is(g, goals.Completed)
		require.Equal(t, 1, b.count(`select count(*) from goal_transitions where goal_id = $1 and event = 'started'`, g.ID))
	})

	t.Run("S3_38_AlarmBeforeTheTimeOfTheRowChangesNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		g := b.says("", time.Hour)
		for _, left := range []time.Duration{time.Hour, 3 * time.Second} {
			b.clock.Advance(g.ScheduledFor.Add(-left).Sub(b.clock.Now()))
			outcome, err := b.alarmed(g)
			require.NoError(t, err)
			require.Equal(t, goals.OutcomeEarly, outcome)
		}
		b.clock.Advance(time.Second) // QStash's clock is a little ahead of our clock
		_, err := b.alarmed(g)
		require.NoError(t, err)
		b.is(g, goals.Completed)
	})
}

func TestCreate(t *testing.T) {
	t.Parallel()

	t.Run("S3_40_ForADeviceThatIsNotTheirsIsRefused", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		device := b.device()
		theirs := b.goal(device, time.Minute)
		theirs.ProfileID = b.person(orgID)
		foreign := b.goal(device, time.Minute)
		foreign.OrgID = otherOrgID
		deleted := b.device()
		b.exec(`update devices set deleted_at = now(), node_id = null where id = $1`, deleted)
		for name, n := range map[string]goals.New{
			"unknown": b.goal(uuid.NewString(), time.Minute), "another person's": theirs, "deleted": b.goal(deleted, time.Minute),
		} {
			_, _, err := b.service.Create(t.Context(), n)
			require.ErrorIs(t, err, goals.ErrNoDevice, name)
		}
		_, _, err := b.service.Create(t.Context(), foreign)
		require.ErrorIs(t, err, goals.ErrNoOwner)
		require.Zero(t, b.count(`select count(*) from goals`))
	})

	t.Run("S3_30_BeyondAYearIsRefusedWithTheReason", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.says("", goals.MaxAhead)
		_, _, err := b.service.Create(t.Context(), b.goal("", goals.MaxAhead+time.Second))
		require.ErrorContains(t, err, "more than 366 days ahead")
	})

	t.Run("BeyondTheSchedulersPlanWaitsInTheOutbox", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		g := b.says("", maxDelay+time.Hour)
		published := func() int {
			return b.count(`select count(*) from goal_alarms where goal_id = $1 and published_at is not null`, g.ID)
		}
		_, err := b.service.Alarms.Relay(t.Context())
		require.NoError(t, err)
		require.Zero(t, published())
		gauges, err := b.store.Gauges(t.Context(), b.clock.Now().Add(time.Minute))
		require.NoError(t, err)
		require.Zero(t, gauges.OldestAlarm, "it waits on purpose")
		b.clock.Advance(time.Hour)
		_, err = b.service.Alarms.Relay(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, published())
	})

	t.Run("SameKeyIsTheSameGoalAndAnotherGoalIsRefused", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.goal("", time.Minute)
		g, _, err := b.service.Create(t.Context(), n)
		require.NoError(t, err)
		again, duplicate, err := b.service.Create(t.Context(), n)
		require.NoError(t, err)
		require.True(t, duplicate)
		require.Equal(t, g.ID, again.ID)
		b.clock.Advance(time.Hour)
		again, duplicate, err = b.service.Create(t.Context(), n)
		require.NoError(t, err, "its time has passed, and it is there")
		require.True(t, duplicate)
		require.Equal(t, g.ID, again.ID)
		n.Said = "close the door"
		_, _, err = b.service.Create(t.Context(), n)
		require.ErrorIs(t, err, goals.ErrKeyReused)
	})

	t.Run("NamesWhatIsNotValidOfADevice", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		registry := &goals.Devices{Store: b.store, Now: b.clock.Now}
		for _, name := range []string{"", strings.Repeat("x", 61)} {
			_, _, err := registry.Register(t.Context(), goals.Device{OrgID: orgID, ProfileID: b.owner, Name: name})
			require.ErrorIs(t, err, goals.ErrInvalid)
			require.EqualError(t, err, "the device is not valid: name must have 1 to 60 characters")
		}
	})

	t.Run("PersonHasAHundredOpenGoalsAtMost", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		outcomes := make(chan error, goals.MaxOpen+10)
		for range cap(outcomes) {
			go func() {
				_, _, err := b.service.Create(t.Context(), b.goal("", time.Hour))
				outcomes <- err
			}()
		}
		refused := 0
		for range cap(outcomes) {
			if err := <-outcomes; err != nil {
				require.ErrorIs(t, err, goals.ErrTooMany)
				refused++
			}
		}
		require.Equal(t, 10, refused)
		require.Equal(t, goals.MaxOpen, b.count(`select count(*) from goals`))
	})

	t.Run("PastIsRefused", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, _, err := b.service.Create(t.Context(), b.goal("", -time.Second))
		require.ErrorIs(t, err, goals.ErrPast)
	})

	t.Run("GoalWhoseAlarmQStashNeverGotIsLeftToTheRelayHoweverLongThatTakes", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.qstash.SetFaults(emulator.Script{OnPublish: func(int, emulator.Message) emulator.PublishFault { return emulator.PublishFault{Status: 500} }})
		g := b.says("", time.Minute)
		for range 2 * generations { // as long as the kill switch is set, it is the same
			b.clock.Advance(24 * grace)
			_, err := b.sweeper().Sweep(t.Context())
			require.NoError(t, err)
		}
		b.is(g, goals.Scheduled)
		require.Equal(t, 1, b.count(`select count(*) from goal_alarms`))
		b.qstash.SetFaults(emulator.Script{})
		b.sweeps()
		b.plays(time.Minute)
		b.is(g, goals.Completed)
	})

	t.Run("S3_35_GoalOfARequestThatDiedBeforeItPublishedRunsAllTheSame", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.qstash.SetFaults(emulator.Script{OnPublish: func(int, emulator.Message) emulator.PublishFault { return emulator.PublishFault{Status: 500} }})
		g := b.says("", time.Minute)
		require.Zero(t, b.count(`select count(*) from goal_alarms where published_at is not null`))
		b.qstash.SetFaults(emulator.Script{})
		b.clock.Advance(20 * time.Second)
		b.sweeps()
		b.plays(time.Minute)
		b.is(g, goals.Completed)
	})
}

func TestOffline(t *testing.T) {
	t.Parallel()

	offline := func(t *testing.T) (*bundle, goals.Goal) {
		t.Helper()
		b := setup(t)
		device := b.device()
		b.disconnect(device)
		return b, b.says(device, time.Minute)
	}

	t.Run("S3_15_IsARetryableFailureAndTheGoalStaysScheduled", func(t *testing.T) {
		t.Parallel()
		b, g := offline(t)
		b.clock.Advance(time.Minute)
		_, err := b.alarmed(g)
		require.ErrorIs(t, err, goals.ErrOffline)
		b.is(g, goals.Scheduled)
		require.Equal(t, "scheduled", b.told(g))
	})

	t.Run("S3_16_IsTriedFiveTimesMoreEachTwiceAsLateAsTheOneBefore", func(t *testing.T) {
		t.Parallel()
		b, g := offline(t)
		b.plays(time.Minute)
		tries := 1
		for _, pause := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second} {
			b.plays(pause - time.Second)
			require.Equal(t, tries, b.is(g, goals.Scheduled).OfflineTries, "%s", pause)
			b.plays(time.Second)
			tries++
			require.Equal(t, tries, b.is(g, goals.Scheduled).OfflineTries, "%s", pause)
		}
		b.plays(159 * time.Second)
		require.Equal(t, tries, b.is(g, goals.Scheduled).OfflineTries)
		b.plays(24 * time.Hour)
		require.Len(t, b.bodies, 6)
	})

	t.Run("S3_17_FailsWithTheReasonOnceTheTriesAreUsedUp", func(t *testing.T) {
		t.Parallel()
		b, g := offline(t)
		b.plays(11 * time.Minute)
		v := b.is(g, goals.Failed)
		require.Equal(t, goals.ReasonOffline, v.Reason)
		require.Equal(t, 6, v.OfflineTries)
		require.Equal(t, "scheduled failed", b.told(g))
		require.Len(t, b.bodies, 6)
	})

	t.Run("FailsBySweeperWhenTheFailureCallbackNeverComes", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		device := b.device()
		b.disconnect(device)
		g := b.says(device, time.Minute)
		b.clock.Advance(time.Minute)
		_, err := b.alarmed(g)
		require.ErrorIs(t, err, goals.ErrOffline)
		b.qstash.SetFaults(emulator.Script{}) // what QStash does from here on does not matter
		b.clock.Advance(grace + time.Minute)
		b.sweeps()
		require.Equal(t, goals.ReasonOffline, b.is(g, goals.Failed).Reason)
	})

	t.Run("FailureOfAnAlarmThatIsNotTheNewestDoesNotCount", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		device := b.device()
		b.disconnect(device)
		g := b.says(device, time.Minute)
		var old string
		require.NoError(t, b.pool.QueryRow(t.Context(), `select qstash_message_id from goal_alarms where goal_id = $1`, g.ID).Scan(&old))
		b.clock.Advance(time.Minute)
		_, err := b.alarmed(g)
		require.ErrorIs(t, err, goals.ErrOffline)
		_, err = b.service.Reschedule(t.Context(), b.me(), g.ID, goals.Moment{At: b.clock.Now().Add(time.Hour)})
		require.NoError(t, err)
		b.clock.Advance(time.Hour)
		_, err = b.alarmed(g) // the newest finds it offline, too, and has tries left
		require.ErrorIs(t, err, goals.ErrOffline)
		failed, err := b.service.AlarmFailed(t.Context(), g.ID, old)
		require.NoError(t, err)
		require.False(t, failed)
		b.is(g, goals.Scheduled)
	})
}

// errDoubt is the error of a text in doubt.
var errDoubt = errors.New("it is in doubt")

func TestBusy(t *testing.T) {
	t.Parallel()

	t.Run("TextsThatAreInDoubtLeaveNoDeviceToWaitForTheSweeper", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.exec(`
with people as (
    insert into profiles (id, org_id, phone, first_name, locale, time_zone, created_at, updated_at)
    select gen_random_uuid(), $1, '+1666' || 1000000 + n, 'Ana', 'en', 'UTC', $2, $2 from generate_series(1, 300) n returning id
), phones as (
    insert into devices (id, org_id, profile_id, name, kind, created_at, updated_at) select id, $1, id, 'phone', 'phone', $2, $2 from people
)
insert into goals (id, org_id, profile_id, device_id, source, idempotency_key, said, goal, locale, status, scheduled_for, scheduled_delay, run_id,
    heard_at, started_at, created_by, created_at, updated_at)
select gen_random_uuid(), $1, id, id, 'rest', 'k', 's', 'g', 'en', 'running', $2, 0, gen_random_uuid(), $2, $2, 'x', $2, $2 from people`,
			orgID, b.clock.Now())
		b.phone.set(errDoubt)
		b.clock.Advance(time.Second)
		g := b.says(b.device(), 0)
		b.begins(g)
		b.clock.Advance(runLease)
		_, err := b.sweeper().Sweep(t.Context())
		require.ErrorIs(t, err, errDoubt)
		require.Equal(t, goals.ReasonLost, b.is(g, goals.Failed).Reason)
	})

	t.Run("S3_36_WaitsWithoutUsingATryAndRunsWhenTheOtherEnds", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		first, second := b.says("", time.Minute), b.says("", 2*time.Minute)
		b.phone.set(errDoubt)
		b.plays(2 * time.Minute)
		b.is(first, goals.Running)
		v := b.is(second, goals.Scheduled)
		require.Zero(t, v.OfflineTries)
		require.Equal(t, b.clock.Now(), v.WaitingSince.UTC())
		b.phone.set(nil)
		_, err := b.alarmed(first)
		require.NoError(t, err)
		b.is(first, goals.Completed)
		b.sweeps() // the relay publishes what the end has set
		b.plays(0)
		b.is(second, goals.Completed)
	})

	t.Run("S3_36_RunsAtOnceWhenTheOtherEndsWhileItIsFoundBusy", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		first, second := b.says("", time.Minute), b.says("", 2*time.Minute)
		b.phone.set(errDoubt)
		b.plays(time.Minute)
		b.is(first, goals.Running)
		b.phone.set(nil)
		b.beforeBusy = func() {
			_, err := b.alarmed(first)
			require.NoError(t, err)
			b.is(first, goals.Completed)
		}
		b.plays(time.Minute)
		b.is(second, goals.Completed)
	})

	t.Run("S3_36_WaitsForAnEndThatIsOnItsWay", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		first, second := b.says("", time.Minute), b.says("", 2*time.Minute)
		b.phone.set(errDoubt)
		b.plays(time.Minute)
		running := b.is(first, goals.Running)
		tx, err := b.pool.Begin(t.Context())
		require.NoError(t, err)
		defer func() { _ = tx.Rollback(t.Context()) }() // after the commit it is nothing
		_, err = tx.Exec(t.Context(), `update goals set status = 'completed', ended_at = $2 where id = $1`, first.ID, b.clock.Now())
		require.NoError(t, err)
		noted := make(chan error, 1)
		go func() { noted <- b.store.Busy(t.Context(), second, b.clock.Now()) }()
		require.Eventually(t, func() bool {
			return b.count(`select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`) == 1
		}, time.Minute, time.Millisecond)
		require.NoError(t, tx.Commit(t.Context()))
		require.ErrorIs(t, <-noted, goals.ErrConflict, "run %s ended without a look at who waits", running.RunID)
	})

	t.Run("S3_36_RunsAlsoWhenTheOneWhoseTurnItIsIsCancelled", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		first, second, third := b.says("", time.Minute), b.says("", 2*time.Minute), b.says("", 3*time.Minute)
		b.phone.set(errDoubt)
		b.plays(3 * time.Minute)
		b.is(first, goals.Running)
		b.phone.set(nil)
		_, err := b.alarmed(first)
		require.NoError(t, err)
		b.is(first, goals.Completed)
		_, err = b.service.Cancel(t.Context(), b.me(), second.ID)
		require.NoError(t, err)
		b.sweeps() // the relay publishes what the cancellation has set
		b.plays(0)
		b.is(third, goals.Completed)
	})

	for name, leaves := range map[string]func(b *bundle, g goals.Goal) error{
		"FailsOffline": func(b *bundle, g goals.Goal) error {
			b.plays(6 * time.Minute) // QStash gives its alarm up
			require.Equal(b.t, goals.ReasonOffline, b.is(g, goals.Failed).Reason)
			return nil
		},
		"FailsBusy": func(b *bundle, g goals.Goal) error {
			return b.store.Fail(b.t.Context(), g, goals.ReasonBusy, "sweeper", b.clock.Now())
		},
		"IsMoved": func(b *bundle, g goals.Goal) error {
			_, err := b.service.Reschedule(b.t.Context(), b.me(), g.ID, goals.Moment{At: b.clock.Now().Add(time.Hour)})
			return err
		},
	} {
		t.Run("S3_36_RunsAlsoWhenTheOneWhoseTurnItIs"+name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			device := b.device()
			first := b.says(device, 0)
			run := b.begins(first).RunID
			second, third := b.says(device, 0), b.says(device, time.Second)
			b.clock.Advance(time.Second)
			for _, g := range []goals.Goal{second, third} {
				outcome, err := b.alarmed(g)
				require.NoError(t, err)
				require.Equal(t, goals.OutcomeBusy, outcome)
			}
			require.NoError(t, b.qstash.Idle(t.Context())) // their alarms have been answered, too
			b.ends(first, goals.End{RunID: run, OK: true})
			b.disconnect(device)
			_, err := b.service.Alarms.Relay(t.Context()) // of the goal that is next
			require.NoError(t, err)
			const turns = `select count(*) from goal_alarms where goal_id = $1 and cause = 'free'`
			require.Equal(t, []int{1, 0}, []int{b.count(turns, second.ID), b.count(turns, third.ID)})
			require.NoError(t, leaves(b, second))
			require.Equal(t, 1, b.count(turns, third.ID), "at once, without the sweeper")
		})
	}

	t.Run("S3_36_FailsAfterAnHour", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		first, second := b.says("", time.Minute), b.says("", time.Minute+time.Second)
		b.phone.set(errDoubt)
		b.plays(time.Minute + time.Second)
		b.is(first, goals.Running)
		require.Equal(t, b.clock.Now(), b.is(second, goals.Scheduled).WaitingSince.UTC())
		b.clock.Advance(time.Hour)
		b.sweeps()
		require.Equal(t, 1, b.count(`select count(*) from goals where reason = $1`, goals.ReasonBusy))
		require.Equal(t, 1, b.count(`select count(*) from goals where reason = $1`, goals.ReasonLimit))
	})
}
