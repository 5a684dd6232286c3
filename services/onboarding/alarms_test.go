package onboarding_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"google.golang.org/protobuf/encoding/protojson"

	"paceline.internal/emulators/messagingtest"
	emulator "paceline.internal/emulators/qstash"
	"paceline.internal/platform/process"
	"paceline.internal/platform/qstash"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/postgres"
	"paceline.internal/services/onboarding/session"
)

func TestAlarm(t *testing.T) {
	t.Parallel()

	subtest(t, "S0_05_S0_10_S1_07_S1_09_S1_37_CarriesTargetPayloadDelayAndPolicy", setup, func(t *testing.T, b *bundle) {
		var rung []emulator.Delivery
		b.qstash.SetFaults(emulator.Script{OnDeliver: func(d emulator.Delivery) emulator.DeliverFault {
			rung = append(rung, d)
			return emulator.DeliverFault{}
		}})
		p, r := b.explained()
		b.reply(p, "yes")
		b.idle()
		b.clock.Advance(8 * time.Second)
		b.idle()
		require.Len(t, rung, 2)
		m := rung[1].Message
		r.NextStep = step(2)
		want, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(payload(r))
		require.NoError(t, err)
		require.JSONEq(t, string(want), string(m.Body))
		require.Equal(t, b.gateway+"/api/onboarding/step", m.URL)
		require.Equal(t, http.MethodPost, m.Method)
		require.Equal(t, b.gateway+"/api/onboarding/step/failed", m.FailureCallback)
		require.Equal(t, 5, m.Retries)
		require.Equal(t, "onboarding-"+r.ID+"-onboarding_message_2-1", m.DeduplicationID)
		require.Equal(t, "application/json", m.Header.Get("Content-Type"))
		require.Equal(t, 30*time.Second, m.Timeout)
		require.Equal(t, "onboarding-step", m.Label)
		require.Equal(t, "5", m.Header.Get(qstash.HeaderMaxRetries))
		require.Regexp(t, "^[0-9a-f]{16}$", m.Header.Get(qstash.HeaderDedupHash))
		require.NotEqual(t, rung[0].Message.Header.Get(qstash.HeaderDedupHash), m.Header.Get(qstash.HeaderDedupHash))
		require.Len(t, b.log.of(t, "qstash.publish.scheduled"), 3)
		require.Equal(t, 8*time.Second, m.NotBefore.Sub(m.CreatedAt))
	})

	subtest(t, "S0_29_NextStepThatTheRelayPublishesIsLoggedToo", setup, func(t *testing.T, b *bundle) {
		b.qstash.SetFaults(emulator.Script{OnPublish: func(_ int, m emulator.Message) emulator.PublishFault {
			if strings.Contains(m.DeduplicationID, "onboarding_message_3") {
				return emulator.PublishFault{Status: http.StatusServiceUnavailable}
			}
			return emulator.PublishFault{}
		}})
		p, _ := b.explained()
		b.reply(p, "yes")
		b.pass(10 * time.Second)
		require.Len(t, b.log.of(t, "onboarding.step_next_scheduled"), 1)
		b.unmute()
		b.quiet()
		scheduled := b.log.of(t, "onboarding.step_next_scheduled")
		require.Len(t, scheduled, 3)
		require.Equal(t, "onboarding_message_2", scheduled[1]["step_id"])
		require.Equal(t, "onboarding_message_3", scheduled[1]["next_step_id"])
	})

	subtest(t, "S1_03_AlarmWhoseAnswerWasLostIsPublishedOnce", setup, func(t *testing.T, b *bundle) {
		b.qstash.SetFaults(emulator.Script{OnPublish: emulator.First(3, emulator.PublishFault{LoseAnswer: true})})
		p, _ := b.explained()
		b.reply(p, "yes")
		b.completes(p)
		require.Len(t, b.qstash.Record().Of(emulator.Published), 4)
		require.NotEmpty(t, b.qstash.Record().Of(emulator.Duplicate))
	})

	subtest(t, "S0_58_KillSwitchRecordsAlarmsAndPublishesThemWhenItIsLifted", setup, func(t *testing.T, b *bundle) {
		b.disabled = true
		b.serve(b.start(b.healthy()))
		p, r := b.explained()
		b.reply(p, "yes")
		b.pass(10 * time.Minute)
		b.at(r.ID, session.AwaitingBurst, step(1))
		require.Equal(t, 1, b.count(`select count(*) from step_alarms where published_at is null`))
		require.Empty(t, b.qstash.Record())
		b.disabled = false
		b.serve(b.start(b.healthy()))
		b.completes(p)
	})
}

func TestRelay(t *testing.T) {
	t.Parallel()

	subtest(t, "S0_65_RelayPublishesWhatACrashLeft", setup, func(t *testing.T, b *bundle) {
		b.qstash.SetFaults(emulator.Script{OnPublish: func(int, emulator.Message) emulator.PublishFault {
			return emulator.PublishFault{Status: http.StatusServiceUnavailable}
		}})
		p, r := b.explained()
		b.reply(p, "yes")
		b.at(r.ID, session.AwaitingBurst, step(1))
		require.Len(t, b.log.of(t, "onboarding.alarm_left_to_relay"), 1)
		require.Equal(t, 1, b.count(`select count(*) from step_alarms where published_at is null and last_error <> ''`))
		b.pass(10 * time.Second)
		require.Equal(t, []string{opening, explanation}, b.sequence(p))
		b.unmute()
		b.completes(p)
		require.Zero(t, b.count(`select count(*) from step_alarms where generation > 1`))
	})

	subtest(t, "RelayLeavesAFreshAlarmToTheRequestThatWroteIt", setup, func(t *testing.T, b *bundle) {
		_, r := b.inBurst(1)
		b.exec(`update step_alarms set published_at = null, qstash_message_id = null, lease_token = gen_random_uuid(), lease_until = $1`, b.clock.Now().Add(10*time.Second))
		require.Zero(t, b.relays())
		b.clock.Advance(10 * time.Second)
		require.Equal(t, 1, b.relays())
		require.Equal(t, 1, b.count(`select count(*) from step_alarms where session_id = $1 and published_at is not null and attempts = 1`, r.ID))
	})

	subtest(t, "TwoRelaysAtOnceShareTheWork", setup, func(t *testing.T, b *bundle) {
		_, r := b.inBurst(1)
		b.exec(`update step_alarms set published_at = null, qstash_message_id = null, lease_until = $1`, b.clock.Now())
		b.exec(`insert into step_alarms (id, org_id, session_id, profile_id, step_id, expected_state_token, generation, due_at, lease_until, created_at)
			select gen_random_uuid(), org_id, session_id, profile_id, 'onboarding_message_4', expected_state_token, g, due_at, lease_until, created_at
			from step_alarms, generate_series(1, 60) g where session_id = $1`, r.ID)
		before := len(b.qstash.Record().Of(emulator.Published))
		var claimed atomic.Int64
		require.NoError(t, atOnce(4, func() error {
			n, err := b.current().relay.Relay(t.Context())
			claimed.Add(int64(n))
			return err
		}))
		require.EqualValues(t, 61, claimed.Load())
		require.Equal(t, 61, len(b.qstash.Record().Of(emulator.Published, emulator.Duplicate))-before)
		require.Zero(t, b.count(`select count(*) from step_alarms where published_at is null`))
	})
}

func TestSweeper(t *testing.T) {
	t.Parallel()

	subtest(t, "S0_65_S1_37_SetsAnAlarmAgainThatQStashForgot", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(2)
		b.clock.Advance(8*time.Second + grace - time.Millisecond)
		require.Zero(t, b.sweeps(), "the grace is not over")
		b.clock.Advance(time.Millisecond)
		b.unmute()
		for range 2 { // the second finds a newer alarm that was not published yet
			b.sweeps()
		}
		require.Equal(t, 1, b.count(`select count(*) from step_alarms where session_id = $1 and step_id = $2 and generation = 2 and published_at is null`, r.ID, string(step(2))))
		b.completes(p)
	})

	subtest(t, "WaitsTwiceAsLongEachTimeAndThenParks", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(2)
		begin := b.clock.Now()
		b.until(func() bool { return b.session(r.ID).Status != session.Active })
		parked := b.session(r.ID)
		require.Equal(t, session.Stuck, parked.Status)
		require.Contains(t, parked.Reason, "3 alarms in a row for onboarding_message_2")
		require.Equal(t, generations, b.count(`select count(*) from step_alarms where step_id = $1`, string(step(2))))
		took := b.clock.Now().Sub(begin)
		require.GreaterOrEqual(t, took, 7*grace)
		require.Less(t, took, 8*grace)
		require.Equal(t, session.KindParked, b.story(r.ID)[len(b.story(r.ID))-1])
		require.Equal(t, []string{opening, explanation, first}, b.sequence(p), "it never sends")
	})

	subtest(t, "TwoAtOnceSetOneAlarm", setup, func(t *testing.T, b *bundle) {
		_, r := b.inBurst(1)
		b.clock.Advance(grace)
		require.NoError(t, atOnce(6, func() error {
			_, err := b.current().sweeper.Sweep(t.Context())
			return err
		}))
		require.Equal(t, 2, b.count(`select count(*) from step_alarms where session_id = $1`, r.ID))
	})

	for _, tt := range []struct {
		name    string
		overdue time.Duration // so long that the next sweep sets the alarm again, or parks
		mended  string
	}{
		{name: "R_02_ALockedSessionHoldsUpNoOther", overdue: grace, mended: `select count(*) from step_alarms where generation = 2`},
		{name: "R_02_ALockedSessionHoldsUpNoOtherThatIsParked", overdue: 8 * grace, mended: `select count(*) from conversation_sessions where status = 'stuck'`},
	} {
		subtest(t, tt.name, setup, func(t *testing.T, b *bundle) {
			var sessions []session.Record
			for range 3 {
				_, r := b.inBurst(1)
				sessions = append(sessions, r)
			}
			if tt.overdue > grace {
				b.exec(`insert into step_alarms (id, org_id, session_id, profile_id, step_id, expected_state_token, generation, cause, due_at, lease_until, created_at, published_at, qstash_message_id)
					select gen_random_uuid(), org_id, session_id, profile_id, step_id, expected_state_token, g, 'overdue', due_at, lease_until, created_at, published_at, 'msg'
					from step_alarms, generate_series(2, $1::int) g`, generations)
			}
			b.clock.Advance(tt.overdue)
			holder, err := b.pool.Begin(t.Context()) // a frozen process
			require.NoError(t, err)
			defer func() { _ = holder.Rollback(context.WithoutCancel(t.Context())) }()
			_, err = holder.Exec(t.Context(), `select from conversation_sessions where id = $1 for update`, sessions[0].ID)
			require.NoError(t, err)
			meter, reader := b.meter()
			loops, err := process.NewLoops(meter, slog.New(slog.DiscardHandler), process.PassBound)
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()

			sweeper := loops.Loop("sweeper", func(ctx context.Context) error {
				n, err := b.current().sweeper.Sweep(ctx)
				require.Equal(t, 2, n)
				return err
			})
			require.NoError(t, sweeper.Run(ctx))
			require.Equal(t, 2, b.count(tt.mended))
			require.InDelta(t, 1, gauge(t, reader, "loop_rows_passed_over", attribute.String("loop", "sweeper")), 0)
			require.Equal(t, sessions[0].ID, b.log.of(t, "onboarding.overdue_session_locked")[0]["session_id"])

			require.NoError(t, holder.Rollback(ctx))
			n, err := b.current().sweeper.Sweep(ctx)
			require.NoError(t, err)
			require.Equal(t, 1, n)
			require.Equal(t, 3, b.count(tt.mended))
		})
	}

	for _, tt := range []struct {
		name string
		sql  string
	}{
		{name: "LeavesAHeldPersonAlone", sql: `update profiles set hold = true`},
		{name: "LeavesAPausedSessionAlone", sql: `update conversation_sessions set paused_at = now()`},
		{name: "LeavesAStoppedSessionAlone", sql: `update conversation_sessions set status = 'stopped'`},
	} {
		subtest(t, tt.name, setup, func(t *testing.T, b *bundle) {
			b.inBurst(1)
			b.exec(tt.sql)
			b.clock.Advance(time.Hour)
			require.Zero(t, b.sweeps())
		})
	}
}

func TestSweeperAndRelay(t *testing.T) {
	t.Parallel()

	subtest(t, "CountsTheGraceFromTheLatePublish", setup, func(t *testing.T, b *bundle) {
		_, r := b.inBurst(1)
		b.exec(`update step_alarms set published_at = null, qstash_message_id = null, lease_until = $1`, b.clock.Now())
		b.clock.Advance(10 * time.Minute)
		b.relays()
		require.Zero(t, b.sweeps())
		require.Equal(t, 1, b.count(`select count(*) from step_alarms where session_id = $1`, r.ID))
	})

	subtest(t, "R_01_WakesTheRelaysWhenAnAlarmIsNotPublished", setup, func(t *testing.T, b *bundle) {
		_, r := b.inBurst(1)
		b.exec(`update step_alarms set published_at = null, qstash_message_id = null, lease_until = $1`, b.clock.Now())
		heard, err := b.pool.Acquire(t.Context())
		require.NoError(t, err)
		defer heard.Release()
		_, err = heard.Exec(t.Context(), `listen `+postgres.ChannelAlarms)
		require.NoError(t, err)
		b.clock.Advance(grace - time.Millisecond)
		b.sweeps()
		require.Empty(t, b.log.of(t, "onboarding.alarms_unpublished"), "the relay has its time")
		b.clock.Advance(time.Millisecond)
		b.sweeps()
		logged := b.log.of(t, "onboarding.alarms_unpublished")
		require.Len(t, logged, 1)
		require.InDelta(t, 1, logged[0]["alarms"], 0)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err = heard.Conn().WaitForNotification(ctx)
		require.NoError(t, err)
		require.Equal(t, 1, b.count(`select count(*) from step_alarms where session_id = $1`, r.ID), "it is the relay's")
	})
}

func TestSweeperCounts(t *testing.T) {
	t.Parallel()

	subtest(t, "OnlyAlarmsThatBroughtNothing", setup, func(t *testing.T, b *bundle) {
		p, r := b.inBurst(2)
		for range 2 * generations { // each hold is lifted with an alarm of its own
			b.hold(p)
			b.clock.Advance(10 * time.Second)
			b.release(p)
			b.pass(time.Second)
		}
		require.Equal(t, 2*generations+1, b.count(`select max(generation) from step_alarms where step_id = $1`, string(step(2))))
		begin := b.clock.Now()
		b.until(func() bool { return b.session(r.ID).Status == session.Stuck })
		took := b.clock.Now().Sub(begin)
		require.GreaterOrEqual(t, took, 7*grace-10*time.Second, "three alarms in a row, each given twice as long")
		require.Less(t, took, 8*grace)

		b.resumed(b.session(r.ID)) // and a resume begins the count again
		begin = b.clock.Now()
		b.until(func() bool { return b.session(r.ID).Status == session.Stuck })
		require.GreaterOrEqual(t, b.clock.Now().Sub(begin), 7*grace)
		require.Equal(t, generations-1, b.count(`select count(*) from step_alarms where step_id = $1 and cause = 'overdue'
			and generation > (select max(generation) from step_alarms where cause = 'resumed')`, string(step(2))))
		require.Equal(t, []string{opening, explanation, first}, b.sequence(p))
	})

	subtest(t, "NoWaitForAReceipt", setup, func(t *testing.T, b *bundle) {
		p, r := b.beforeLast()
		b.unmute()
		b.messaging.Script(messagingtest.First(messagingtest.Throttle))
		b.skips(session.SkipAwaitingDelivery, payload(r))
		b.completes(p)
		require.Zero(t, b.count(`select count(*) from step_alarms where cause = 'overdue'`))
		require.Greater(t, b.count(`select max(generation) from step_alarms where step_id = $1`, string(step(4))), generations)
	})
}

func TestOutageOfMessaging(t *testing.T) {
	t.Parallel()

	subtest(t, "R_11_NinetyMinutesParkNoSessionAndEveryBurstIsCompletedInOrder", setup, func(t *testing.T, b *bundle) {
		var people []conversation.Profile
		var sessions []string
		for range 3 { // each is at another place of the burst when it begins
			p, r := b.explained()
			people, sessions = append(people, p), append(sessions, r.ID)
		}
		for _, p := range people {
			b.reply(p, "yes")
			b.pass(4 * time.Second)
		}
		b.messaging.SetDown(true)
		b.lasts(90 * time.Minute)
		require.Zero(t, b.count(`select count(*) from conversation_sessions where status <> 'active'`))
		b.messaging.SetDown(false)
		b.until(func() bool {
			return b.count(`select count(*) from conversation_sessions where state_token = $1`, session.AwaitingInterviewStart) == len(people)
		})
		for i, p := range people {
			require.Equal(t, whole, b.sequence(p))
			b.keepsPace(p)
			require.Equal(t, session.Active, b.session(sessions[i]).Status)
		}
	})

	subtest(t, "R_11_AnAlarmThatFailsByItselfAfterwardsIsCounted", setup, func(t *testing.T, b *bundle) {
		_, r := b.inBurst(2)
		b.unmute()
		b.messaging.SetDown(true)
		b.lasts(45 * time.Minute)
		require.Equal(t, session.Active, b.session(r.ID).Status)
		b.messaging.SetDown(false)
		b.mute() // and now QStash loses what it has
		b.lasts(45 * time.Minute)
		r = b.session(r.ID)
		require.Equal(t, session.Stuck, r.Status, "every sequence ends")
		require.Contains(t, r.Reason, fmt.Sprintf("%d alarms in a row", generations))
	})
}

// lasts lets something go on for d, with all loops at work as often as in production the sweeper is.
func (b *bundle) lasts(d time.Duration) {
	b.t.Helper()
	const often = 15 * time.Second
	for end := b.clock.Now().Add(d); b.clock.Now().Before(end); b.work() {
		b.clock.Advance(often)
	}
}
