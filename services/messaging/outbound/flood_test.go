package outbound_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/process"
	"paceline.internal/services/messaging/outbound"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/messaging/sendtest"
)

// The flood, and what another organisation sends meanwhile.
const (
	floods  = 100_000
	meets   = 400
	meetsIn = 50 * time.Millisecond
)

// BenchmarkFlood measures by how much the messages of one organisation are later where another one has 100,000 due: from when one was queued
// to when Twilio took it. The baseline is a second deployment without a flood, in the same seconds on the same machine.
func BenchmarkFlood(b *testing.B) {
	for b.Loop() {
		alone, among := newFlood(b), newFlood(b)
		among.floods()
		every := time.NewTicker(meetsIn)
		for n := range meets {
			<-every.C
			alone.meets(n)
			among.meets(n)
		}
		every.Stop()
		baseline, _ := alone.late()
		late, sent := among.late()
		b.ReportMetric(1000*baseline[0], "alone-p50-ms")
		b.ReportMetric(1000*late[0], "among-p50-ms")
		b.ReportMetric(1000*baseline[1], "alone-p99-ms")
		b.ReportMetric(1000*late[1], "among-p99-ms")
		b.ReportMetric(late[1]/baseline[1], "ratio")
		b.ReportMetric(float64(sent)/(meets*meetsIn).Seconds(), "flood/s")
		b.ReportMetric(0, "ns/op") // a round is no operation
		alone.end()
		among.end()
	}
}

// flood is two organisations on one queue, on the machine's clock: that of the environment may flood, and the other one is measured.
type flood struct {
	*bundle

	other uuid.UUID
	end   context.CancelFunc
}

func newFlood(tb testing.TB) *flood {
	tb.Helper()
	f := &flood{bundle: setup(tb), other: uuid.Must(uuid.NewV7())}
	now := time.Now
	cfg := f.Senders.Config
	f.AddSender(f.other, sendtest.Seconds, nil)
	cfg.Keyset, cfg.Now, cfg.Environment.Rate = f.Senders.Keyset, now, 100
	f.Senders = senders.New(cfg)
	f.Emulator.SetScript(sendtest.Silent)
	f.Config.Senders = f.Senders
	f.send = f.Service(func(c *send.Config) { c.Now, c.Senders = now, f.Senders })
	wake := make(chan struct{}, 1)
	f.intake.Senders, f.intake.Now, f.intake.Wake = f.Senders, now, wake
	runner := f.runner(func(c *outbound.Config) {
		c.Senders, c.Send, c.Now, c.Wake = f.Senders, f.send, now, wake
	})
	ctx, cancel := context.WithCancel(tb.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = runner.Loop(process.RestOnMachineClock).Run(ctx) // its end is ours
	}()
	f.end = func() {
		cancel()
		<-done
	}
	tb.Cleanup(f.end)
	return f
}

// floods has 100,000 messages of the environment's organisation due at once.
func (f *flood) floods() {
	f.T.Helper()
	first := f.enqueue(func(r *outbound.Request) { r.Key, r.To = "flood", sendtest.Phone(f.T, "+14155550150") })
	_, err := f.Pool.Exec(f.T.Context(), `
		insert into sms_outbound_jobs (id, org_id, idempotency_key, event_type, subject, payload, priority, status, max_attempts, next_retry_at, created_at, updated_at)
		select gen_random_uuid(), org_id, 'flood-' || n, event_type, subject, payload || jsonb_build_object('to', '+1' || 2015550000 + n % 9999 + 10000 * (n / 9999 % 200)),
			priority, 'pending', max_attempts, created_at, created_at, updated_at
		from sms_outbound_jobs, generate_series(1, $2::int) n where id = $1`, first.ID, floods)
	require.NoError(f.T, err)
	_, err = f.Pool.Exec(f.T.Context(), `analyze sms_outbound_jobs`)
	require.NoError(f.T, err)
}

// meets has the other organisation queue its n-th message.
func (f *flood) meets(n int) {
	f.T.Helper()
	f.enqueue(func(r *outbound.Request) {
		r.OrgID, r.Key, r.To = f.other, fmt.Sprint("meets", n), sendtest.Phone(f.T, fmt.Sprintf("+1415555%04d", 2000+n))
	})
}

// late waits until all of these are sent, and returns how late they were at the median and the 99th percentile, in seconds, with how many of
// the flood were sent meanwhile.
func (f *flood) late() (late []float64, others int) {
	f.T.Helper()
	require.Eventually(f.T, func() bool {
		var n int
		require.NoError(f.T, f.Pool.QueryRow(f.T.Context(),
			`select count(*) from sms_messages where org_id = $1 and accepted_at is not null`, f.other).Scan(&n))
		return n == meets
	}, time.Minute, 100*time.Millisecond, "each was sent once")
	require.NoError(f.T, f.Pool.QueryRow(f.T.Context(), `
		select percentile_cont(array[0.5, 0.99]) within group (order by extract(epoch from m.accepted_at - j.created_at)),
			(select count(*) from sms_messages where org_id <> $1 and accepted_at is not null)
		from sms_outbound_jobs j join sms_messages m on m.org_id = j.org_id and m.idempotency_key = 'outbound:' || j.id
		where j.org_id = $1`, f.other).Scan(&late, &others))
	return late, others
}
