package send_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/messaging/schema"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sendtest"
)

// texts seeds a million texts of people, of 50,000 rare words and some that many have. The index of the search is built once, behind them.
var texts = []string{
	`alter table sms_messages disable trigger user`,
	`drop index sms_messages_words`,
	`insert into sms_messages (id, org_id, direction, from_number, to_number, body, body_hash, status, twilio_sid, segments, correlation_id,
    attempts, consent_effect, created_at, updated_at)
select lpad(to_hex(n), 32, '0')::uuid, $1, 'inbound', '+5511' || 900000000 + n % 900000, '+15005550006',
    'spent ' || n % 500 || ' on ' || translate(substr(md5((n % 50000)::text), 1, 8), '0123456789', 'ghijklmnop') || ' thanks', decode(repeat('00', 32), 'hex'),
    'received', 'SM' || n, 1, 'c', 0, 'none', $2, $2
from generate_series(1, 1000000) n`,
	`create index sms_messages_words on sms_messages using gin (words_of(body)) where direction = 'inbound'`,
	`vacuum analyze sms_messages`,
}

// BenchmarkWords finds texts among a million by their words (docs/performance.md): words that many have, few have, and nobody has.
func BenchmarkWords(b *testing.B) {
	pool := pgtest.New(b, schema.Migrations())
	org, owner := uuid.New(), pgtest.Owner(b, pool)
	for _, sql := range texts {
		var args []any
		if sql == texts[2] {
			args = []any{org, time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
		}
		_, err := owner.Exec(b.Context(), sql, args...)
		require.NoError(b, err)
	}
	var rare string
	require.NoError(b, owner.QueryRow(b.Context(), `select split_part(body, ' ', 4) from sms_messages order by id limit 1`).Scan(&rare))
	store, ctx := sendtest.NewStore(pool), postgres.ForOrganisation(b.Context(), org.String())
	for _, q := range []struct {
		name, words string
		some        bool
	}{
		{name: "OfMany", words: "thanks", some: true},
		{name: "OfFew", words: rare, some: true},
		{name: "OfManyAndFew", words: "Thanks " + rare, some: true},
		{name: "OfSome", words: "on 77", some: true},
		{name: "OfNobody", words: "zzyzx"},
		{name: "OfManyTogetherOfNobody", words: "spent 77 78"},
	} {
		b.Run(q.name, func(b *testing.B) {
			for b.Loop() {
				found, err := store.Messages(ctx, send.Query{OrgID: org, Words: q.words, Before: uuid.Max, Limit: 20})
				require.NoError(b, err)
				require.Equal(b, q.some, len(found) > 0)
			}
			b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/page")
		})
	}
}
