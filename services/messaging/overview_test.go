package messaging

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/outbound"
	"paceline.internal/services/messaging/schema"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/messaging/sendtest"
)

// sqlOfEveryKind are messages of an organisation: how many, of which status, accepted how long ago. Their ids go with their age.
const sqlOfEveryKind = `
insert into sms_messages (id, org_id, direction, from_number, to_number, body, body_hash, idempotency_key, status, twilio_sid, segments,
    correlation_id, attempt_token, lease_until, attempts, attempted_at, accepted_at, next_look_at, created_at, updated_at)
select (lpad(to_hex((extract(epoch from a.at) * 1000)::bigint), 12, '0') || '7' || left(md5($1::uuid::text || k.status || k.ago || g.i), 19))::uuid,
    $1::uuid, 'outbound', '+15005550006', '+14155550123', 'x', sha256('x'), k.status || k.ago || g.i, k.status,
    case when k.accepted then 'SM' || md5($1::uuid::text || k.status || k.ago || g.i) end, 1, 'c', gen_random_uuid(), $2::timestamptz, 1, a.at,
    case when k.accepted then a.at end, case when k.accepted then $2::timestamptz end, a.at, a.at
from (values (1200, 'sent', '70 s', true), (2, 'accepted', '59 min', true), (5, 'queued', '2 h', true), (3, 'undelivered', '1 min', true),
        (7, 'delivered', '1 min', true), (1, 'unknown', '5 min', false), (4, 'rejected', '2 min', false), (2, 'parked', '3 h', false)) k (n, status, ago, accepted)
cross join lateral (select $2::timestamptz - k.ago::interval as at) a cross join lateral generate_series(1, k.n) g (i)`

func TestOverviewCountsWhatIsNotDeliveredByTheMinute(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t, schema.Migrations())
	org, now := uuid.Must(uuid.NewV7()), time.Date(2026, 11, 24, 12, 0, 30, 0, time.UTC)
	for _, of := range []uuid.UUID{org, uuid.Must(uuid.NewV7())} {
		_, err := pool.Exec(t.Context(), sqlOfEveryKind, of, now)
		require.NoError(t, err)
	}
	s := serve(t, rooms{
		stores:  storesOf(sendtest.NewStore(pool)),
		sending: send.New(send.Config{Senders: sendtest.Only(senders.Sender{OrgID: org}), Now: func() time.Time { return now }}),
		intake:  &outbound.Intake{Store: outbound.NewStore(pool)},
	})
	got, err := s.GetMessagingOverview(as(t, rpc.RoleOperator, org.String(), "ada"), &messagingv1.GetMessagingOverviewRequest{})
	require.NoError(t, err)

	require.Len(t, got.GetUndelivered(), 60)
	require.Equal(t, now.Add(-59*time.Minute-30*time.Second), got.GetUndelivered()[0].GetAt().AsTime())
	for i, m := range got.GetUndelivered() {
		onTheirWay, failed := map[int]int32{0: 2, 58: 1000}[i], map[int]int32{58: 3}[i]
		require.Equal(t, []int32{onTheirWay, failed}, []int32{m.GetOnTheirWay().GetCount(), m.GetFailed().GetCount()}, i)
		require.Equal(t, i == 58, m.GetOnTheirWay().GetMore(), i)
		delivered, rejected := map[int]int32{58: 7}[i], map[int]int32{57: 4}[i]
		require.Equal(t, []int32{delivered, rejected}, []int32{m.GetDelivered().GetCount(), m.GetRejected().GetCount()}, i)
		require.False(t, m.GetDelivered().GetMore(), i)
	}
	require.Equal(t, []int32{1, 2, 7}, []int32{
		got.GetUnknown().GetCount(), got.GetParked().GetCount(), got.GetWithoutFinalStatus().GetCount(),
	})
	require.Equal(t, now.Add(-5*time.Minute), got.GetOldestUnknownSince().AsTime())
	require.Equal(t, now.Add(-3*time.Hour), got.GetOldestParkedSince().AsTime())
	require.Equal(t, "sms_outbound_jobs", got.GetQueues()[0].GetQueue())
	require.Nil(t, got.GetQueues()[0].GetOldestDueAt())

	few, err := sendtest.NewStore(pool).Overview(as(t, rpc.RoleOperator, org.String(), "ada"), send.OverviewQuery{
		OrgID: org, Now: now, Minutes: 60, Most: 3, MostOfAMinute: 1,
	})
	require.NoError(t, err)
	require.True(t, few.Settled[0].More, "three messages do not reach back an hour")
	require.False(t, few.Settled[59].More)
}
