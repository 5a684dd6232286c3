package inbound_test

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"paceline.internal/emulators/messagingtest"
	emulator "paceline.internal/emulators/qstash"
	"paceline.internal/platform/qstash"
	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding"
	"paceline.internal/services/onboarding/inbound"
	"paceline.internal/services/onboarding/inbound/dedup"
	"paceline.internal/services/onboarding/onboardingtest"
)

// failures takes failure callbacks, with reservations in Postgres or in Redis, on a real database.
type failures struct {
	*bundle

	server *inbound.RPC
	guard  *dedup.Guard
	breaks func() // takes the store of reservations out of service
	mends  func()
}

// serving has the server take failure callbacks with this store.
func (d *failures) serving(guard func(log *slog.Logger, now func() time.Time) (*dedup.Guard, error)) {
	d.T.Helper()
	var err error
	d.guard, err = guard(slog.New(slog.NewJSONHandler(d.Log, nil)), d.Clock.Now)
	require.NoError(d.T, err)
	d.server = &inbound.RPC{Conversations: d.Store.Conversations(), Failures: d.guard, Now: d.Clock.Now}
}

func inPostgres(t *testing.T) *failures {
	t.Helper()
	d := &failures{bundle: setup(t)}
	d.breaks = func() { d.Exec(`alter table delivery_reservations rename to elsewhere`) }
	d.mends = func() { d.Exec(`alter table elsewhere rename to delivery_reservations`) }
	d.serving(func(log *slog.Logger, now func() time.Time) (*dedup.Guard, error) {
		return dedup.New(&dedup.Postgres{Pool: d.Pool}, dedup.Lock, log, now)
	})
	return d
}

func inRedis(t *testing.T) *failures {
	t.Helper()
	memory := miniredis.RunT(t)
	store, err := dedup.OpenRedis("redis://" + memory.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	d := &failures{bundle: setup(t), breaks: func() { memory.SetError("LOADING Redis is loading the dataset in memory") }}
	d.mends = func() { memory.SetError("") }
	d.serving(func(log *slog.Logger, now func() time.Time) (*dedup.Guard, error) {
		return dedup.New(store, dedup.Lock, log, now)
	})
	return d
}

// records brings a failure callback.
func (d *failures) records(in *onboardingv1.RecordStepFailureRequest) (*onboardingv1.RecordStepFailureResponse, error) {
	return d.server.RecordStepFailure(d.T.Context(), in)
}

func (d *failures) stored() int { return d.Count(`select count(*) from dead_letters`) }

func failureOf(source, delivery string) *onboardingv1.RecordStepFailureRequest {
	return &onboardingv1.RecordStepFailureRequest{SourceMessageId: source, DeliveryId: delivery, DlqId: "1-0", Status: 503, Retried: 5}
}

func TestRecordStepFailure(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		run  func(t *testing.T, d *failures)
	}{
		{name: "S1_27_LaterDuplicateIsAnsweredAsOne", run: func(t *testing.T, d *failures) {
			out, err := d.records(failureOf("msg_1", "msg_9"))
			require.NoError(t, err)
			require.False(t, out.GetDuplicate())
			for _, delivery := range []string{"msg_9", "msg_10"} { // the callback again, and the failure reported by another one
				d.Clock.Advance(time.Hour)
				out, err = d.records(failureOf("msg_1", delivery))
				require.NoError(t, err)
				require.True(t, out.GetDuplicate())
			}
			require.Equal(t, 1, d.stored())
		}},
		{name: "S1_37_AnotherFailureOfTheSameStepIsNoDuplicate", run: func(t *testing.T, d *failures) {
			for _, source := range []string{"msg_1", "msg_2"} { // the step was replayed, and failed again
				out, err := d.records(failureOf(source, "callback-of-"+source))
				require.NoError(t, err)
				require.False(t, out.GetDuplicate())
			}
			require.Equal(t, 2, d.stored())
		}},
		{name: "S1_05_S1_26_DeliveryInFlightIsAskedToRetryWhenItsLeaseIsOver", run: func(t *testing.T, d *failures) {
			duplicate, err := d.guard.Do(t.Context(), dedup.Delivery{MessageID: "msg_9", Key: "step-failed:msg_1"}, func(context.Context) error {
				d.Clock.Advance(time.Minute)
				for delivery, wait := range map[string]time.Duration{"msg_9": 180 * time.Second, "msg_10": 240 * time.Second} {
					_, err := d.records(failureOf("msg_1", delivery))
					onboardingtest.Refused(t, err, codes.Aborted, onboardingv1.Reason_REASON_DELIVERY_IN_PROGRESS)
					require.Equal(t, wait, rpc.RetryAfter(onboarding.Answer(err)))
				}
				require.Zero(t, d.stored())
				return nil
			})
			require.NoError(t, err)
			require.False(t, duplicate)
		}},
		{name: "S1_06_FailureThatCannotBeStoredIsStoredByTheRetry", run: func(t *testing.T, d *failures) {
			d.Exec(`alter table dead_letters rename to lost`)
			_, err := d.records(failureOf("msg_1", "msg_9"))
			require.Error(t, err)
			d.Exec(`alter table lost rename to dead_letters`)
			out, err := d.records(failureOf("msg_1", "msg_9"))
			require.NoError(t, err)
			require.False(t, out.GetDuplicate())
			require.Equal(t, 1, d.stored())
		}},
		{name: "S1_30_StoreThatIsDownStoresNothingAndAsksToRetry", run: func(t *testing.T, d *failures) {
			d.breaks()
			_, err := d.records(failureOf("msg_1", "msg_9"))
			onboardingtest.Refused(t, err, codes.Unavailable, onboardingv1.Reason_REASON_UNAVAILABLE)
			require.Positive(t, rpc.RetryAfter(onboarding.Answer(err)))
			require.Zero(t, d.stored())
			d.mends()
			_, err = d.records(failureOf("msg_1", "msg_9"))
			require.NoError(t, err)
			require.Equal(t, 1, d.stored())
		}},
		{name: "S1_28_WithoutTheIDOfItsMessageItIsRefusedForGood", run: func(t *testing.T, d *failures) {
			for _, in := range []*onboardingv1.RecordStepFailureRequest{
				failureOf("msg_1", ""), failureOf("", "msg_9"), failureOf("msg_1", "msg 9"), failureOf("msg_1\x00", "msg_9"), failureOf("msg_1", strings.Repeat("9", 201)),
			} {
				_, err := d.records(in)
				onboardingtest.Refused(t, err, codes.InvalidArgument, onboardingv1.Reason_REASON_INVALID)
			}
			require.Zero(t, d.stored())
		}},
	}
	for _, where := range []struct {
		name string
		open func(t *testing.T) *failures
	}{{name: "Postgres", open: inPostgres}, {name: "Redis", open: inRedis}} {
		t.Run(where.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range cases {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					c.run(t, where.open(t))
				})
			}
		})
	}

	onboardingtest.Subtest(t, "S1_36_S1_38_CallbackOfADeadWorkerIsStoredWithinQStashsAttempts", setup, func(t *testing.T, b *bundle) {
		b.InBurst(2)
		b.Messaging.Script(func(int, *messagingv1.SendRequest) messagingtest.Outcome { return messagingtest.Throttle })
		var callback, source string
		b.QStash.SetFaults(emulator.Script{OnDeliver: func(d emulator.Delivery) emulator.DeliverFault {
			if strings.HasSuffix(d.Message.URL, "/failed") && callback == "" { // another process reserves both keys, and dies
				failure, err := qstash.DecodeFailure(d.Message.Body)
				require.NoError(t, err)
				callback, source = d.Message.ID, failure.SourceMessageID
				for key, lease := range map[string]time.Duration{"message:" + callback: 240 * time.Second, "work:step-failed:" + source: 300 * time.Second} {
					claim := dedup.Claim{Key: key, Owner: "another process", Now: b.Clock.Now(), Until: b.Clock.Now().Add(lease)}
					_, err := (&dedup.Postgres{Pool: b.Pool}).Reserve(context.WithoutCancel(t.Context()), claim)
					require.NoError(t, err)
				}
			}
			return emulator.DeliverFault{}
		}})
		b.Until(func() bool {
			return b.Count(`select count(*) from dead_letters where source_message_id = $1`, source) == 1
		})
		var answers []int
		for _, e := range b.QStash.Record().Of(emulator.Answered) {
			if e.MessageID == callback {
				answers = append(answers, e.Status)
			}
		}
		require.Equal(t, []int{http.StatusConflict, http.StatusConflict, http.StatusOK}, answers, "one attempt for each lease, and one that does it")
	})
}
