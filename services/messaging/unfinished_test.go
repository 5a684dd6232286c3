package messaging

import (
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/grpc/codes"

	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/outbound"
	"paceline.internal/services/messaging/schema"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/messaging/sendtest"
)

// TestUnfinished is about what onboarding asks before it changes a phone.
func TestUnfinished(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t, schema.Migrations())
	metrics, err := send.NewMetrics(noop.NewMeterProvider().Meter("test"))
	require.NoError(t, err)
	sender, now := sendtest.Only(senders.Sender{OrgID: uuid.MustParse(orgA), Number: ours}), func() time.Time { return noon }
	store := sendtest.NewStore(pool)
	sending := send.New(send.Config{
		Store: store, Evidence: store, Carrier: taking{}, Senders: sender, PublicURL: "https://paceline.example",
		Timeout: time.Second, Lease: time.Minute, StopWait: time.Second, Now: now, Log: slog.New(slog.DiscardHandler), Metrics: metrics,
	})
	s := serve(t, rooms{stores: storesOf(store), sending: sending, intake: &outbound.Intake{
		Store: outbound.NewStore(pool), Send: sending, Senders: sender, Log: slog.New(slog.DiscardHandler), Now: now,
	}})
	service, operator := as(t, rpc.RoleService, "", "onboarding"), as(t, rpc.RoleOperator, orgA, "op")
	find := func(change func(*messagingv1.GetUnfinishedRequest)) *messagingv1.GetUnfinishedResponse {
		in := &messagingv1.GetUnfinishedRequest{OrgId: orgA, ProfileId: ana, Phone: theirs}
		change(in)
		out, err := s.GetUnfinished(service, in)
		require.NoError(t, err)
		return out
	}
	same := func(*messagingv1.GetUnfinishedRequest) {}

	m := sendOne(t, s, ana, "k")
	require.Empty(t, find(same).String(), "Twilio has it: its receipt changes nothing")
	for _, status := range []string{"sending", "unknown", "parked"} {
		_, err := pool.Exec(t.Context(), `update sms_messages set status = $2, twilio_sid = null, accepted_at = null where id = $1`, m.GetMessageId(), status)
		require.NoError(t, err)
		found := find(same)
		require.Equal(t, []string{m.GetMessageId(), status, ""}, []string{found.GetMessageId(), found.GetMessageStatus(), found.GetTextId()})
	}
	queued, err := s.EnqueueText(operator, ask("k"))
	require.NoError(t, err)
	require.Equal(t, queued.GetText().GetTextId(), find(same).GetTextId())
	require.Equal(t, queued.GetText().GetTextId(), find(func(in *messagingv1.GetUnfinishedRequest) { in.Phone = "+14155550166" }).GetTextId())
	require.Empty(t, find(func(in *messagingv1.GetUnfinishedRequest) { in.ProfileId = uuid.NewString(); in.Phone = "+14155550166" }).String())
	require.Empty(t, find(func(in *messagingv1.GetUnfinishedRequest) { in.OrgId = orgB }).String())
	_, err = s.CancelQueuedText(operator, &messagingv1.CancelQueuedTextRequest{TextId: queued.GetText().GetTextId()})
	require.NoError(t, err)
	require.Empty(t, find(same).GetTextId())
	_, err = s.GetUnfinished(service, &messagingv1.GetUnfinishedRequest{OrgId: orgA, Phone: theirs})
	requireRefused(t, err, codes.InvalidArgument, messagingv1.Reason_REASON_INVALID)
}
