package messaging

import (
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/outbound"
	"paceline.internal/services/messaging/schema"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/messaging/sendtest"
)

const (
	unsaid = messagingv1.Switch_SWITCH_UNSPECIFIED
	off    = messagingv1.Switch_SWITCH_OFF
	on     = messagingv1.Switch_SWITCH_ON
	none   = messagingv1.ConsentEffect_CONSENT_EFFECT_NONE
)

// messagesAreAnswered: a caller that does not read preferences is answered as the release before answered, and they are kept all the same.
func (c contract) messagesAreAnswered() {
	c.t.Helper()
	for _, tt := range []struct {
		sid, body       string
		reminders, tips messagingv1.Switch
		older           messagingv1.ConsentEffect
	}{
		{"SM1", "hello", unsaid, unsaid, none},
		{"SM2", "Start tips", unsaid, on, none},
		{"SM3", "no more reminders or tips", off, off, none},
		{"SM4", "parar lembretes", off, unsaid, none},
		{"SM5", "Stop sending me reminders", off, unsaid, messagingv1.ConsentEffect_CONSENT_EFFECT_DOUBTFUL},
	} {
		for range 2 { // every repeat gets the same answer, whichever caller's request came first
			older, newer := c.hear(tt.sid, tt.body, false, time.Minute), c.hear(tt.sid, tt.body, true, time.Minute)
			require.Equal(c.t, []any{tt.older, unsaid, unsaid}, []any{older.GetConsentEffect(), older.GetReminders(), older.GetTips()}, tt.body)
			require.Equal(c.t, []any{none, tt.reminders, tt.tips}, []any{newer.GetConsentEffect(), newer.GetReminders(), newer.GetTips()}, tt.body)
			require.Equal(c.t, older.GetMessage().GetMessageId(), newer.GetMessage().GetMessageId())
		}
	}
	require.Equal(c.t, messagingv1.Outcome_OUTCOME_OPTED_OUT, c.send("1", "goodbye"))
	require.Equal(c.t, messagingv1.Outcome_OUTCOME_REMINDERS_OFF, c.send("1", "goodbye", messagingv1.Outcome_OUTCOME_REMINDERS_OFF))
	require.Equal(c.t, messagingv1.Outcome_OUTCOME_ACCEPTED, c.send("2", "welcome"))
}

func (c contract) lastWordCounts() {
	c.t.Helper()
	c.hear("SM6", "start reminders", true, 0)
	require.Equal(c.t, messagingv1.Outcome_OUTCOME_OPTED_OUT, c.send("3", "reminder"), "it was said before")
	for _, tt := range []struct {
		name   string
		say    messagingv1.Switch
		source string
		at     time.Duration
		want   messagingv1.Switch
		by     string
		since  time.Duration
	}{
		{"Later", on, "person", 2 * time.Minute, on, "person", 2 * time.Minute},
		{"Tie", off, "operator", 2 * time.Minute, on, "person", 2 * time.Minute},
		{"Earlier", off, "operator", time.Minute, on, "person", 2 * time.Minute},
		{"LaterOfAnOperator", off, "operator", 3 * time.Minute, off, "operator", 3 * time.Minute},
		{"PersonsOwn", off, "person", 4 * time.Minute, off, "person", 4 * time.Minute},
		{"OperatorsOnAfterIt", on, "operator", 5 * time.Minute, off, "person", 4 * time.Minute},
		{"OperatorsOffAfterIt", off, "operator", 5 * time.Minute, off, "person", 4 * time.Minute},
	} {
		inForce, err := c.set(&messagingv1.SetRemindersRequest{
			OrgId: orgA, Phone: theirs, Reminders: tt.say, Source: tt.source, SaidAt: timestamppb.New(noon.Add(tt.at - time.Hour)),
		})
		require.NoError(c.t, err, tt.name)
		require.Equal(c.t, []any{tt.want, tt.by, noon.Add(tt.since - time.Hour)},
			[]any{inForce.GetReminders(), inForce.GetSource(), inForce.GetSaidAt().AsTime()}, tt.name)
	}
	inForce, err := c.set(&messagingv1.SetRemindersRequest{OrgId: orgA, Phone: theirs, Reminders: on, Source: "person"})
	require.NoError(c.t, err)
	require.Equal(c.t, noon, inForce.GetSaidAt().AsTime(), "now")
	require.Equal(c.t, messagingv1.Outcome_OUTCOME_ACCEPTED, c.send("3", "reminder"))
}

func (c contract) badWishesAreRefused() {
	c.t.Helper()
	for _, r := range []*messagingv1.SetRemindersRequest{
		{OrgId: orgA, Phone: theirs, Source: "person"},
		{OrgId: orgA, Phone: theirs, Reminders: 7, Source: "person"},
		{OrgId: orgA, Phone: theirs, Reminders: off, Source: "web"},
		{OrgId: orgA, Phone: "0188", Reminders: off, Source: "person"},
	} {
		_, err := c.set(r)
		requireRefused(c.t, err, codes.InvalidArgument, messagingv1.Reason_REASON_INVALID)
	}
}

// TestOutreachIsThrottledInItsClass: outreach waits for its turn and pays for itself; a conversation neither waits nor is charged to it.
func TestOutreachIsThrottledInItsClass(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t, schema.Migrations())
	store, tally, now := sendtest.NewStore(pool), new(outbound.Tally), noon
	metrics, err := send.NewMetrics(metricnoop.NewMeterProvider().Meter("test"))
	require.NoError(t, err)
	sender := sendtest.Only(senders.Sender{OrgID: uuid.MustParse(orgA), Number: ours})
	s := serve(t, rooms{stores: storesOf(store), intake: &outbound.Intake{}, sent: tally.Add, sending: send.New(send.Config{
		Store: store, Evidence: store, Carrier: taking{}, Senders: sender, PublicURL: "https://paceline.example", Timeout: time.Second,
		Lease: time.Minute, StopWait: time.Second, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler), Metrics: metrics,
		Limiter: &outbound.Outreach{
			Store: outbound.NewStore(pool), Senders: sender, Tally: tally, Interval: 500 * time.Millisecond,
		},
	})})
	ask := func(key string, class messagingv1.MessageClass) *messagingv1.SendResponse {
		answer, err := s.Send(as(t, rpc.RoleService, "", "onboarding"), &messagingv1.SendRequest{
			OrgId: orgA, To: theirs, Body: "hello", IdempotencyKey: key, MessageClass: class, Purpose: "weekly_review",
		})
		require.NoError(t, err)
		return answer
	}
	const conversation, outreach = messagingv1.MessageClass_MESSAGE_CLASS_CONVERSATION, messagingv1.MessageClass_MESSAGE_CLASS_OUTREACH
	require.Equal(t, messagingv1.Outcome_OUTCOME_ACCEPTED, ask("1", outreach).GetOutcome())
	now = now.Add(time.Second)
	require.Equal(t, messagingv1.Outcome_OUTCOME_ACCEPTED, ask("2", outreach).GetOutcome(), "the first one was not paid for twice")
	for _, key := range []string{"3", "4", "5"} {
		require.Equal(t, messagingv1.Outcome_OUTCOME_ACCEPTED, ask(key, conversation).GetOutcome())
	}
	now = now.Add(time.Second)
	throttled := ask("6", outreach)
	require.Equal(t, messagingv1.Outcome_OUTCOME_THROTTLED, throttled.GetOutcome())
	require.Nil(t, throttled.GetMessage())
	require.Equal(t, 3*time.Second, throttled.GetRetryAfter().AsDuration(), "what the conversations have used")
	now = now.Add(3 * time.Second)
	require.Equal(t, messagingv1.Outcome_OUTCOME_ACCEPTED, ask("6", outreach).GetOutcome())
	require.Equal(t, messagingv1.Outcome_OUTCOME_ALREADY_ACCEPTED, ask("6", outreach).GetOutcome())
}
