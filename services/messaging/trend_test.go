package messaging

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
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

// sqlTrended are messages of an organisation: of which status, to or from whom, begun when, of two segments each. Every second one has lost
// its words.
const sqlTrended = `
insert into sms_messages (id, org_id, direction, from_number, to_number, body, body_hash, idempotency_key, status, twilio_sid, segments,
    correlation_id, attempt_token, lease_until, attempts, attempted_at, accepted_at, consent_effect, created_at, updated_at)
select gen_random_uuid(), @org, k.direction, case k.direction when 'inbound' then k.phone else 'MG1' end,
    case k.direction when 'inbound' then 'MG1' else k.phone end, case when i % 2 = 0 then 'x' else '' end, sha256('x'),
    case k.direction when 'outbound' then gen_random_uuid()::text end, k.status, case when k.taken then 'SM' || gen_random_uuid() end, 2, 'c',
    case k.direction when 'outbound' then gen_random_uuid() end, case k.direction when 'outbound' then @at::timestamptz end, 1,
    case k.direction when 'outbound' then @at::timestamptz end, case when k.taken and k.direction = 'outbound' then @at::timestamptz end,
    k.effect, @at, @at
from (values ('outbound', 'delivered', '+14155550123', true, null, 4), ('outbound', 'delivered', '+5511987650001', true, null, 3),
        ('outbound', 'sent', '+14155550123', true, null, 2), ('outbound', 'failed', '+14155550123', true, null, 1),
        ('outbound', 'rejected', '+14155550123', false, null, 1), ('outbound', 'unknown', '+14155550123', false, null, 1),
        ('inbound', 'received', '+14155550123', true, 'none', 2), ('inbound', 'received', '+14155550123', true, 'opt_out', 1))
    k (direction, status, phone, taken, effect, n)
cross join generate_series(1, k.n) i`

func TestTrend(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t, schema.Migrations())
	store, org := sendtest.NewStore(pool), uuid.Must(uuid.NewV7())
	now := time.Date(2026, 11, 24, 12, 20, 0, 0, time.UTC)
	s := serve(t, rooms{
		stores: storesOf(store), sending: send.New(send.Config{Senders: sendtest.Only(senders.Sender{OrgID: org}), Now: func() time.Time { return now }}),
		intake: &outbound.Intake{Store: outbound.NewStore(pool)},
	})
	trend := func(span, zone string) *messagingv1.GetMessagingTrendResponse {
		t.Helper()
		got, err := s.GetMessagingTrend(as(t, rpc.RoleOperator, org.String(), "ada"), &messagingv1.GetMessagingTrendRequest{Span: span, TimeZone: zone})
		require.NoError(t, err)
		return got
	}
	require.Nil(t, trend("", "").GetCountedUntil())
	for _, at := range []time.Time{now, now.Add(-3 * time.Hour), now.Add(-26 * 24 * time.Hour)} {
		for _, of := range []uuid.UUID{org, uuid.Must(uuid.NewV7())} {
			_, err := pool.Exec(t.Context(), sqlTrended, pgx.NamedArgs{"org": of, "at": at})
			require.NoError(t, err)
		}
	}
	count := func(now time.Time) {
		t.Helper()
		for more := true; more; { // 16 quarters at a time
			var err error
			more, err = store.CountQuarters(t.Context(), now)
			require.NoError(t, err)
		}
	}
	count(now)
	want := &messagingv1.MessagingPeriod{Delivered: 7, Failed: 2, UnderWay: 3, Replies: 3, OptOuts: 1, Segments: 20}
	requireCounts := func(want, got *messagingv1.MessagingPeriod) {
		t.Helper()
		require.Equal(t, []int64{want.GetDelivered(), want.GetFailed(), want.GetUnderWay(), want.GetReplies(), want.GetOptOuts(), want.GetSegments()},
			[]int64{got.GetDelivered(), got.GetFailed(), got.GetUnderWay(), got.GetReplies(), got.GetOptOuts(), got.GetSegments()}, got.GetBeginsAt().AsTime())
	}
	got := trend("", "")
	require.Equal(t, now, got.GetCountedUntil().AsTime())
	require.Len(t, got.GetPeriods(), 24)
	for i, p := range got.GetPeriods() {
		requireCounts(map[int]*messagingv1.MessagingPeriod{20: want, 23: want}[i], p)
	}
	require.Equal(t, now.Truncate(time.Hour), got.GetPeriods()[23].GetBeginsAt().AsTime())
	require.Equal(t, "+1", got.GetCountries()[0].GetCountryCode())
	require.Equal(t, []int64{14, 28, 6, 12}, []int64{
		got.GetCountries()[0].GetMessages(), got.GetCountries()[0].GetSegments(), got.GetCountries()[1].GetMessages(), got.GetCountries()[1].GetSegments(),
	})
	require.Equal(t, "+55", got.GetCountries()[1].GetCountryCode())
	require.Equal(t, []int64{14, 6, 0}, []int64{
		got.GetPeriods()[20].GetCountries()[0].GetSegments(), got.GetPeriods()[20].GetCountries()[1].GetSegments(), int64(len(got.GetPeriods()[21].GetCountries())),
	})
	month := trend("month", "Asia/Kathmandu")
	require.Len(t, month.GetPeriods(), 30)
	requireCounts(want, month.GetPeriods()[3])
	requireCounts(&messagingv1.MessagingPeriod{Delivered: 14, Failed: 4, UnderWay: 6, Replies: 6, OptOuts: 2, Segments: 40}, month.GetPeriods()[29])

	// What comes late is counted when the quarter is, and not before; what is not there any more is counted nowhere.
	_, err := pool.Exec(t.Context(), `update sms_messages set status = 'delivered' where status = 'sent' and created_at = $1`, now)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `update sms_messages set to_number = 'erased:1' where to_number like '+55%' and created_at = $1`, now)
	require.NoError(t, err)
	now = now.Add(9 * time.Minute)
	count(now)
	late := &messagingv1.MessagingPeriod{Delivered: 9, Failed: 2, UnderWay: 1, Replies: 3, OptOuts: 1, Segments: 20}
	got = trend("day", "")
	requireCounts(late, got.GetPeriods()[23])
	require.Equal(t, []string{"+1", "", "+55"}, []string{
		got.GetCountries()[0].GetCountryCode(), got.GetCountries()[1].GetCountryCode(), got.GetCountries()[2].GetCountryCode(),
	})
	_, err = pool.Exec(t.Context(), `update sms_messages set status = 'given_up' where status = 'unknown' and created_at = $1`, now.Add(-9*time.Minute))
	require.NoError(t, err)
	begun := now.Add(-9 * time.Minute)
	for _, of := range []struct {
		age     time.Duration
		counted bool
	}{{14 * time.Minute, true}, {24 * time.Hour, true}, {25 * time.Hour, false}, {27 * time.Hour, true}} {
		_, err := pool.Exec(t.Context(), `update sms_quarters set failed = 99 where quarter = $1`, begun.Truncate(15*time.Minute))
		require.NoError(t, err)
		count(begun.Add(of.age))
		var failed int
		require.NoError(t, pool.QueryRow(t.Context(), `select max(failed) from sms_quarters where quarter = $1`, begun.Truncate(15*time.Minute)).Scan(&failed))
		require.Equal(t, map[bool]int{true: 3, false: 99}[of.counted], failed, of.age)
	}

	_, err = s.GetMessagingTrend(as(t, rpc.RoleOperator, org.String(), "ada"), &messagingv1.GetMessagingTrendRequest{Span: "year"})
	require.ErrorContains(t, err, "span must be day, week or month")
}
