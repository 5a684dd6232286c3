package send

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"paceline.internal/services/messaging/sms"
)

// Metrics counts what a Service does.
type Metrics struct {
	sends, receipts, settlements, fetches, unread, refusals, segments, accounts metric.Int64Counter
}

// NewMetrics registers the counters.
func NewMetrics(meter metric.Meter) (*Metrics, error) {
	sends, sendsErr := meter.Int64Counter("paceline_sms_sends_total", metric.WithDescription("Answers to Send by outcome."))
	receipts, receiptsErr := meter.Int64Counter("paceline_sms_receipts_total", metric.WithDescription("Delivery receipts by what they did."))
	settlements, settlementsErr := meter.Int64Counter("paceline_sms_unknown_settled_total",
		metric.WithDescription("Sends in doubt that were settled, by how."))
	fetches, fetchesErr := meter.Int64Counter("paceline_sms_statuses_fetched_total",
		metric.WithDescription("Statuses fetched from Twilio because no receipt came, by what they did."))
	unread, unreadErr := meter.Int64Counter("paceline_row_decode_errors_total",
		metric.WithDescription("Rows that this release cannot read, and leaves to the newer one that wrote them, by what they are."))
	refusals, refusalsErr := meter.Int64Counter("paceline_sms_refused_total",
		metric.WithDescription("Sends that were refused before Twilio was asked, by why: a cap, or a number that may not be texted."))
	segments, segmentsErr := meter.Int64Counter("paceline_sms_segments_accepted_total",
		metric.WithDescription("Segments that Twilio took, by the country of the recipient."))
	accounts, accountsErr := meter.Int64Counter("paceline_sms_account_refusals_total",
		metric.WithDescription("Sends that Twilio refused because of the sender's account or its credentials."))
	m := &Metrics{
		sends: sends, receipts: receipts, settlements: settlements, fetches: fetches, unread: unread, refusals: refusals, segments: segments,
		accounts: accounts,
	}
	if err := errors.Join(sendsErr, receiptsErr, settlementsErr, fetchesErr, unreadErr, refusalsErr, segmentsErr, accountsErr); err != nil {
		return nil, err
	}
	m.accounts.Add(context.Background(), 0)                     // none is a number, too
	for _, why := range []string{refusedByCap, refusedNumber} { // none is a number, too: what grows from it is seen
		m.refusals.Add(context.Background(), 0, metric.WithAttributes(attribute.String("why", why)))
	}
	return m, nil
}

func (m *Metrics) sent(ctx context.Context, r Result, country string) {
	m.sends.Add(ctx, 1, metric.WithAttributes(attribute.String("outcome", string(r.Outcome))))
	switch {
	case r.Outcome == Accepted: // the numbering plans bound the countries
		m.segments.Add(ctx, int64(r.Message.Segments), metric.WithAttributes(attribute.String("country", country)))
	case r.Outcome == Capped:
		m.refused(ctx, refusedByCap)
	case r.Number:
		m.refused(ctx, refusedNumber)
	}
}

// Why a send was refused before Twilio was asked.
const (
	refusedByCap  = "cap"
	refusedNumber = "number"
)

func (m *Metrics) refused(ctx context.Context, why string) {
	m.refusals.Add(ctx, 1, metric.WithAttributes(attribute.String("why", why)))
}

func (m *Metrics) receipt(ctx context.Context, r Recorded) {
	effect := "unmatched"
	switch {
	case r.Changed:
		effect = "merged"
	case r.Message != nil:
		effect = "nothing_new"
	}
	m.receipts.Add(ctx, 1, metric.WithAttributes(attribute.String("effect", effect)))
}

func (m *Metrics) settled(ctx context.Context, s Settlement) {
	m.settlements.Add(ctx, 1, metric.WithAttributes(attribute.String("as", string(s))))
}

func (m *Metrics) fetched(ctx context.Context, effect string) {
	m.fetches.Add(ctx, 1, metric.WithAttributes(attribute.String("effect", effect)))
}

// passedOver counts and logs rows that were claimed and cannot be read.
func (m *Metrics) passedOver(ctx context.Context, log *slog.Logger, what string, unread []error) {
	for _, err := range unread {
		log.WarnContext(ctx, "messaging.row_unread", "what", what, "error", err)
		m.unread.Add(ctx, 1, metric.WithAttributes(attribute.String("what", what)))
	}
}

// Gauges tell what is known of messages that are not at their end, at an instant.
type Gauges struct {
	InDoubt       map[sms.Status]int           // messages that Twilio may or may not have, by status
	OldestInDoubt map[sms.Status]time.Duration // how long ago the oldest of them was attempted
	Missing       int                          // messages that Twilio took a while ago, without a final status
}

const (
	// observeTimeout bounds what a collection waits for the database; scrapers give up after ten seconds.
	observeTimeout = 2 * time.Second
	// receiptOverdue is after how long a receipt is missing: carriers report within minutes, and by then Twilio was asked
	// three times.
	receiptOverdue = 15 * time.Minute
)

// Observe registers the gauges, which are read at every collection under the values of ctx, such as the rows that it may see, and at no
// other time. A message without a final status is missing so long after Twilio took it as the last argument of read says.
func Observe(
	ctx context.Context, meter metric.Meter, read func(ctx context.Context, now time.Time, overdue time.Duration) (Gauges, error),
	now func() time.Time,
) error {
	inDoubt, inDoubtErr := meter.Int64ObservableGauge("paceline_sms_in_doubt",
		metric.WithDescription("Texts that Twilio may or may not have: unknown ones are looked for, parked ones wait for an operator."))
	oldest, oldestErr := meter.Float64ObservableGauge("paceline_sms_in_doubt_oldest_seconds", metric.WithUnit("s"),
		metric.WithDescription("How long ago the oldest text in doubt was attempted."))
	missing, missingErr := meter.Int64ObservableGauge("paceline_sms_receipts_missing",
		metric.WithDescription("Texts that Twilio took over 15 minutes ago and whose final status has not come, while it is still asked for."))
	if err := errors.Join(inDoubtErr, oldestErr, missingErr); err != nil {
		return err
	}
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), observeTimeout)
		defer cancel()
		gauges, err := read(ctx, now(), receiptOverdue)
		if err != nil {
			return err
		}
		for _, status := range []sms.Status{sms.Unknown, sms.Parked} { // none is a number, too
			which := metric.WithAttributes(attribute.String("status", string(status)))
			o.ObserveInt64(inDoubt, int64(gauges.InDoubt[status]), which)
			o.ObserveFloat64(oldest, gauges.OldestInDoubt[status].Seconds(), which)
		}
		o.ObserveInt64(missing, int64(gauges.Missing))
		return nil
	}, inDoubt, oldest, missing)
	return err
}
