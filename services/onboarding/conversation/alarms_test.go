package conversation_test

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
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

func TestAlarm(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "S0_05_S0_10_S1_07_S1_09_S1_37_CarriesTargetPayloadDelayAndPolicy", setup, func(t *testing.T, b *bundle) {
		var rung []emulator.Delivery
		b.QStash.SetFaults(emulator.Script{OnDeliver: func(d emulator.Delivery) emulator.DeliverFault {
			rung = append(rung, d)
			return emulator.DeliverFault{}
		}})
		p, r := b.Explained()
		b.Reply(p, "yes")
		b.Idle()
		b.Clock.Advance(8 * time.Second)
		b.Idle()
		require.Len(t, rung, 2)
		m := rung[1].Message
		r.NextStep = onboardingtest.Step(2)
		want, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(onboardingtest.Payload(r))
		require.NoError(t, err)
		require.JSONEq(t, string(want), string(m.Body))
		require.Equal(t, b.Gateway+"/api/onboarding/step", m.URL)
		require.Equal(t, http.MethodPost, m.Method)
		require.Equal(t, b.Gateway+"/api/onboarding/step/failed", m.FailureCallback)
		require.Equal(t, 5, m.Retries)
		require.Equal(t, "onboarding-"+r.ID+"-onboarding_message_2-1", m.DeduplicationID)
		require.Equal(t, "application/json", m.Header.Get("Content-Type"))
		require.Equal(t, 30*time.Second, m.Timeout)
		require.Equal(t, "onboarding-step", m.Label)
		require.Equal(t, "5", m.Header.Get(qstash.HeaderMaxRetries))
		require.Regexp(t, "^[0-9a-f]{16}$", m.Header.Get(qstash.HeaderDedupHash))
		require.NotEqual(t, rung[0].Message.Header.Get(qstash.HeaderDedupHash), m.Header.Get(qstash.HeaderDedupHash))
		require.Len(t, b.Log.Of(t, "qstash.publish.scheduled"), 3)
		require.Equal(t, 8*time.Second, m.NotBefore.Sub(m.CreatedAt))
	})

	onboardingtest.Subtest(t, "S0_29_NextStepThatTheRelayPublishesIsLoggedToo", setup, func(t *testing.T, b *bundle) {
		b.QStash.SetFaults(emulator.Script{OnPublish: func(_ int, m emulator.Message) emulator.PublishFault {
			if strings.Contains(m.DeduplicationID, "onboarding_message_3") {
				return emulator.PublishFault{Status: http.StatusServiceUnavailable}
			}
			return emulator.PublishFault{}
		}})
		p, _ := b.Explained()
		b.Reply(p, "yes")
		b.Pass(10 * time.Second)
		require.Len(t, b.Log.Of(t, "onboarding.step_next_scheduled"), 1)
		b.Unmute()
		b.Quiet()
		scheduled := b.Log.Of(t, "onboarding.step_next_scheduled")
		require.Len(t, scheduled, 3)
		require.Equal(t, "onboarding_message_2", scheduled[1]["step_id"])
		require.Equal(t, "onboarding_message_3", scheduled[1]["next_step_id"])
	})

	onboardingtest.Subtest(t, "S1_03_AlarmWhoseAnswerWasLostIsPublishedOnce", setup, func(t *testing.T, b *bundle) {
		b.QStash.SetFaults(emulator.Script{OnPublish: emulator.First(3, emulator.PublishFault{LoseAnswer: true})})
		p, _ := b.Explained()
		b.Reply(p, "yes")
		b.Completes(p)
		require.Len(t, b.QStash.Record().Of(emulator.Published), 4)
		require.NotEmpty(t, b.QStash.Record().Of(emulator.Duplicate))
	})

	onboardingtest.Subtest(t, "S0_58_KillSwitchRecordsAlarmsAndPublishesThemWhenItIsLifted", setup, func(t *testing.T, b *bundle) {
		b.Disabled = true
		b.Serve(b.Start(b.Healthy()))
		p, r := b.Explained()
		b.Reply(p, "yes")
		b.Pass(10 * time.Minute)
		b.At(r.ID, session.AwaitingBurst, onboardingtest.Step(1))
		require.Equal(t, 1, b.Count(`select count(*) from step_alarms where published_at is null`))
		require.Empty(t, b.QStash.Record())
		b.Disabled = false
		b.Serve(b.Start(b.Healthy()))
		b.Completes(p)
	})
}

func TestRelay(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "S0_65_RelayPublishesWhatACrashLeft", setup, func(t *testing.T, b *bundle) {
		b.QStash.SetFaults(emulator.Script{OnPublish: func(int, emulator.Message) emulator.PublishFault {
			return emulator.PublishFault{Status: http.StatusServiceUnavailable}
		}})
		p, r := b.Explained()
		b.Reply(p, "yes")
		b.At(r.ID, session.AwaitingBurst, onboardingtest.Step(1))
		require.Len(t, b.Log.Of(t, "outbox.alarm_left_to_relay"), 1)
		require.Equal(t, 1, b.Count(`select count(*) from step_alarms where published_at is null and last_error <> ''`))
		b.Pass(10 * time.Second)
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation}, b.Sequence(p))
		b.Unmute()
		b.Completes(p)
		require.Zero(t, b.Count(`select count(*) from step_alarms where generation > 1`))
	})

	onboardingtest.Subtest(t, "RelayLeavesAFreshAlarmToTheRequestThatWroteIt", setup, func(t *testing.T, b *bundle) {
		_, r := b.InBurst(1)
		b.Exec(`update step_alarms set published_at = null, qstash_message_id = null, lease_token = gen_random_uuid(), lease_until = $1`, b.Clock.Now().Add(10*time.Second))
		require.Zero(t, b.Relays())
		b.Clock.Advance(10 * time.Second)
		require.Equal(t, 1, b.Relays())
		require.Equal(t, 1, b.Count(`select count(*) from step_alarms where session_id = $1 and published_at is not null and attempts = 1`, r.ID))
	})

	onboardingtest.Subtest(t, "TwoRelaysAtOnceShareTheWork", setup, func(t *testing.T, b *bundle) {
		_, r := b.InBurst(1)
		b.Exec(`update step_alarms set published_at = null, qstash_message_id = null, lease_until = $1`, b.Clock.Now())
		b.Exec(`insert into step_alarms (id, org_id, session_id, profile_id, step_id, expected_state_token, generation, due_at, lease_until, created_at)
			select gen_random_uuid(), org_id, session_id, profile_id, 'onboarding_message_4', expected_state_token, g, due_at, lease_until, created_at
			from step_alarms, generate_series(1, 60) g where session_id = $1`, r.ID)
		before := len(b.QStash.Record().Of(emulator.Published))
		var claimed atomic.Int64
		require.NoError(t, onboardingtest.AtOnce(4, func() error {
			n, err := b.Current().Relay.Relay(t.Context())
			claimed.Add(int64(n))
			return err
		}))
		require.EqualValues(t, 61, claimed.Load())
		require.Equal(t, 61, len(b.QStash.Record().Of(emulator.Published, emulator.Duplicate))-before)
		require.Zero(t, b.Count(`select count(*) from step_alarms where published_at is null`))
	})
}

func TestSweeper(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "S0_65_S1_37_SetsAnAlarmAgainThatQStashForgot", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(2)
		b.Clock.Advance(8*time.Second + onboardingtest.Grace - time.Millisecond)
		require.Zero(t, b.Sweeps(), "the grace is not over")
		b.Clock.Advance(time.Millisecond)
		b.Unmute()
		for range 2 { // the second finds a newer alarm that was not published yet
			b.Sweeps()
		}
		require.Equal(t, 1, b.Count(`select count(*) from step_alarms where session_id = $1 and step_id = $2 and generation = 2 and published_at is null`, r.ID, string(onboardingtest.Step(2))))
		b.Completes(p)
	})

	onboardingtest.Subtest(t, "WaitsTwiceAsLongEachTimeAndThenParks", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(2)
		begin := b.Clock.Now()
		b.Until(func() bool { return b.Session(r.ID).Status != session.Active })
		parked := b.Session(r.ID)
		require.Equal(t, session.Stuck, parked.Status)
		require.Contains(t, parked.Reason, "3 alarms in a row for onboarding_message_2")
		require.Equal(t, onboardingtest.Generations, b.Count(`select count(*) from step_alarms where step_id = $1`, string(onboardingtest.Step(2))))
		took := b.Clock.Now().Sub(begin)
		require.GreaterOrEqual(t, took, 7*onboardingtest.Grace)
		require.Less(t, took, 8*onboardingtest.Grace)
		require.Equal(t, session.KindParked, b.Story(r.ID)[len(b.Story(r.ID))-1])
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation, onboardingtest.First}, b.Sequence(p), "it never sends")
	})

	onboardingtest.Subtest(t, "TwoAtOnceSetOneAlarm", setup, func(t *testing.T, b *bundle) {
		_, r := b.InBurst(1)
		b.Clock.Advance(onboardingtest.Grace)
		require.NoError(t, onboardingtest.AtOnce(6, func() error {
			_, err := b.Current().Sweeper.Sweep(t.Context())
			return err
		}))
		require.Equal(t, 2, b.Count(`select count(*) from step_alarms where session_id = $1`, r.ID))
	})

	for _, tt := range []struct {
		name    string
		overdue time.Duration // so long that the next sweep sets the alarm again, or parks
		mended  string
	}{
		{name: "R_02_ALockedSessionHoldsUpNoOther", overdue: onboardingtest.Grace, mended: `select count(*) from step_alarms where generation = 2`},
		{name: "R_02_ALockedSessionHoldsUpNoOtherThatIsParked", overdue: 8 * onboardingtest.Grace, mended: `select count(*) from conversation_sessions where status = 'stuck'`},
	} {
		onboardingtest.Subtest(t, tt.name, setup, func(t *testing.T, b *bundle) {
			var sessions []session.Record
			for range 3 {
				_, r := b.InBurst(1)
				sessions = append(sessions, r)
			}
			if tt.overdue > onboardingtest.Grace {
				b.Exec(`insert into step_alarms (id, org_id, session_id, profile_id, step_id, expected_state_token, generation, cause, due_at, lease_until, created_at, published_at, qstash_message_id)
					select gen_random_uuid(), org_id, session_id, profile_id, step_id, expected_state_token, g, 'overdue', due_at, lease_until, created_at, published_at, 'msg'
					from step_alarms, generate_series(2, $1::int) g`, onboardingtest.Generations)
			}
			b.Clock.Advance(tt.overdue)
			holder, err := b.Pool.Begin(t.Context()) // a frozen process
			require.NoError(t, err)
			defer func() { _ = holder.Rollback(context.WithoutCancel(t.Context())) }()
			_, err = holder.Exec(t.Context(), `select from conversation_sessions where id = $1 for update`, sessions[0].ID)
			require.NoError(t, err)
			meter, reader := b.Meter()
			loops, err := process.NewLoops(meter, slog.New(slog.DiscardHandler), process.PassBound)
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()

			sweeper := loops.Loop("sweeper", func(ctx context.Context) error {
				n, err := b.Current().Sweeper.Sweep(ctx)
				require.Equal(t, 2, n)
				return err
			})
			require.NoError(t, sweeper.Run(ctx))
			require.Equal(t, 2, b.Count(tt.mended))
			require.InDelta(t, 1, onboardingtest.Gauge(t, reader, "paceline_loop_rows_lock_skipped_total", attribute.String("loop", "sweeper")), 0)
			require.Equal(t, sessions[0].ID, b.Log.Of(t, "onboarding.overdue_session_locked")[0]["session_id"])

			require.NoError(t, holder.Rollback(ctx))
			n, err := b.Current().Sweeper.Sweep(ctx)
			require.NoError(t, err)
			require.Equal(t, 1, n)
			require.Equal(t, 3, b.Count(tt.mended))
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
		onboardingtest.Subtest(t, tt.name, setup, func(t *testing.T, b *bundle) {
			b.InBurst(1)
			b.Exec(tt.sql)
			b.Clock.Advance(time.Hour)
			require.Zero(t, b.Sweeps())
		})
	}
}

func TestSweeperAndRelay(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "CountsTheGraceFromTheLatePublish", setup, func(t *testing.T, b *bundle) {
		_, r := b.InBurst(1)
		b.Exec(`update step_alarms set published_at = null, qstash_message_id = null, lease_until = $1`, b.Clock.Now())
		b.Clock.Advance(10 * time.Minute)
		b.Relays()
		require.Zero(t, b.Sweeps())
		require.Equal(t, 1, b.Count(`select count(*) from step_alarms where session_id = $1`, r.ID))
	})

	onboardingtest.Subtest(t, "R_01_WakesTheRelaysWhenAnAlarmIsNotPublished", setup, func(t *testing.T, b *bundle) {
		_, r := b.InBurst(1)
		b.Exec(`update step_alarms set published_at = null, qstash_message_id = null, lease_until = $1`, b.Clock.Now())
		heard, err := b.Pool.Acquire(t.Context())
		require.NoError(t, err)
		defer heard.Release()
		_, err = heard.Exec(t.Context(), `listen `+conversation.ChannelAlarms)
		require.NoError(t, err)
		b.Clock.Advance(onboardingtest.Grace - time.Millisecond)
		b.Sweeps()
		require.Empty(t, b.Log.Of(t, "outbox.alarms_unpublished"), "the relay has its time")
		b.Clock.Advance(time.Millisecond)
		b.Sweeps()
		logged := b.Log.Of(t, "outbox.alarms_unpublished")
		require.Len(t, logged, 1)
		require.InDelta(t, 1, logged[0]["alarms"], 0)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err = heard.Conn().WaitForNotification(ctx)
		require.NoError(t, err)
		require.Equal(t, 1, b.Count(`select count(*) from step_alarms where session_id = $1`, r.ID), "it is the relay's")
	})
}

func TestSweeperCounts(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "OnlyAlarmsThatBroughtNothing", setup, func(t *testing.T, b *bundle) {
		p, r := b.InBurst(2)
		for range 2 * onboardingtest.Generations { // each hold is lifted with a new alarm
			b.Hold(p)
			b.Clock.Advance(10 * time.Second)
			b.Release(p)
			b.Pass(time.Second)
		}
		require.Equal(t, 2*onboardingtest.Generations+1, b.Count(`select max(generation) from step_alarms where step_id = $1`, string(onboardingtest.Step(2))))
		begin := b.Clock.Now()
		b.Until(func() bool { return b.Session(r.ID).Status == session.Stuck })
		took := b.Clock.Now().Sub(begin)
		require.GreaterOrEqual(t, took, 7*onboardingtest.Grace-10*time.Second, "three alarms in a row, each given twice as long")
		require.Less(t, took, 8*onboardingtest.Grace)

		b.Resumed(b.Session(r.ID)) // and a resume begins the count again
		begin = b.Clock.Now()
		b.Until(func() bool { return b.Session(r.ID).Status == session.Stuck })
		require.GreaterOrEqual(t, b.Clock.Now().Sub(begin), 7*onboardingtest.Grace)
		require.Equal(t, onboardingtest.Generations-1, b.Count(`select count(*) from step_alarms where step_id = $1 and cause = 'overdue'
			and generation > (select max(generation) from step_alarms where cause = 'resumed')`, string(onboardingtest.Step(2))))
		require.Equal(t, []string{onboardingtest.Opening, onboardingtest.Explanation, onboardingtest.First}, b.Sequence(p))
	})

	onboardingtest.Subtest(t, "NoWaitForAReceipt", setup, func(t *testing.T, b *bundle) {
		p, r := b.beforeLast()
		b.Unmute()
		b.Messaging.Script(messagingtest.First(messagingtest.Throttle))
		b.Skips(session.SkipAwaitingDelivery, onboardingtest.Payload(r))
		b.Completes(p)
		require.Zero(t, b.Count(`select count(*) from step_alarms where cause = 'overdue'`))
		require.Greater(t, b.Count(`select max(generation) from step_alarms where step_id = $1`, string(onboardingtest.Step(4))), onboardingtest.Generations)
	})
}

func TestOutageOfMessaging(t *testing.T) {
	t.Parallel()

	onboardingtest.Subtest(t, "R_11_NinetyMinutesParkNoSessionAndEveryBurstIsCompletedInOrder", setup, func(t *testing.T, b *bundle) {
		var people []people.Profile
		var sessions []string
		for range 3 { // each is at another place of the burst when it begins
			p, r := b.Explained()
			people, sessions = append(people, p), append(sessions, r.ID)
		}
		for _, p := range people {
			b.Reply(p, "yes")
			b.Pass(4 * time.Second)
		}
		b.Messaging.SetDown(true)
		b.lasts(90 * time.Minute)
		require.Zero(t, b.Count(`select count(*) from conversation_sessions where status <> 'active'`))
		b.Messaging.SetDown(false)
		b.Until(func() bool {
			return b.Count(`select count(*) from conversation_sessions where state_token = $1`, session.AwaitingInterviewStart) == len(people)
		})
		for i, p := range people {
			require.Equal(t, onboardingtest.Whole, b.Sequence(p))
			b.KeepsPace(p)
			require.Equal(t, session.Active, b.Session(sessions[i]).Status)
		}
	})

	onboardingtest.Subtest(t, "R_11_AnAlarmThatFailsByItselfAfterwardsIsCounted", setup, func(t *testing.T, b *bundle) {
		_, r := b.InBurst(2)
		b.Unmute()
		b.Messaging.SetDown(true)
		b.lasts(45 * time.Minute)
		require.Equal(t, session.Active, b.Session(r.ID).Status)
		b.Messaging.SetDown(false)
		b.Mute() // and now QStash loses what it has
		b.lasts(45 * time.Minute)
		r = b.Session(r.ID)
		require.Equal(t, session.Stuck, r.Status, "every sequence ends")
		require.Contains(t, r.Reason, fmt.Sprintf("%d alarms in a row", onboardingtest.Generations))
	})
}

// lasts lets something go on for d, with all loops at work as often as in production the sweeper is.
func (b *bundle) lasts(d time.Duration) {
	b.T.Helper()
	const often = 15 * time.Second
	for end := b.Clock.Now().Add(d); b.Clock.Now().Before(end); b.Work() {
		b.Clock.Advance(often)
	}
}
