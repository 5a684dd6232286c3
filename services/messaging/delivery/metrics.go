package delivery

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"paceline.internal/services/messaging/sms"
)

// Metrics counts what a Service does. In Prometheus the names end in _total.
type Metrics struct {
	sends, receipts, texts, settlements, fetches, replies, unread metric.Int64Counter
}

// NewMetrics registers the counters.
func NewMetrics(meter metric.Meter) (*Metrics, error) {
	sends, sendsErr := meter.Int64Counter("sms_sent", metric.WithDescription("Answers to Send by outcome."))
	receipts, receiptsErr := meter.Int64Counter("sms_receipts", metric.WithDescription("Delivery receipts by what they did."))
	texts, textsErr := meter.Int64Counter("sms_inbound", metric.WithDescription("Inbound texts, repeats included, by effect on consent."))
	settlements, settlementsErr := meter.Int64Counter("sms_unknown_settled",
		metric.WithDescription("Sends in doubt that were settled, by how."))
	fetches, fetchesErr := meter.Int64Counter("sms_statuses_fetched",
		metric.WithDescription("Statuses fetched from Twilio because no receipt came, by what they did."))
	replies, repliesErr := meter.Int64Counter("sms_consent_replies",
		metric.WithDescription("Our own answers to words about consent that Twilio does not answer, by kind and how they ended."))
	unread, unreadErr := meter.Int64Counter("rows_unread",
		metric.WithDescription("Rows that this release cannot read, and leaves to the newer one that wrote them, by what they are."))
	m := &Metrics{sends: sends, receipts: receipts, texts: texts, settlements: settlements, fetches: fetches, replies: replies, unread: unread}
	return m, errors.Join(sendsErr, receiptsErr, textsErr, settlementsErr, fetchesErr, repliesErr, unreadErr)
}

func (m *Metrics) sent(ctx context.Context, o Outcome) {
	m.sends.Add(ctx, 1, metric.WithAttributes(attribute.String("outcome", string(o))))
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

func (m *Metrics) inbound(ctx context.Context, text Message) {
	m.texts.Add(ctx, 1, metric.WithAttributes(attribute.String("consent_effect", text.ConsentEffect.String())))
}

func (m *Metrics) replied(ctx context.Context, r Reply) {
	m.replies.Add(ctx, 1, metric.WithAttributes(attribute.String("kind", string(r.Kind)), attribute.String("outcome", r.Outcome)))
}

func (m *Metrics) settled(ctx context.Context, s Settlement) {
	m.settlements.Add(ctx, 1, metric.WithAttributes(attribute.String("as", string(s))))
}

func (m *Metrics) fetched(ctx context.Context, effect string) {
	m.fetches.Add(ctx, 1, metric.WithAttributes(attribute.String("effect", effect)))
}

// passedOver counts and tells of rows that were claimed and cannot be read.
func (m *Metrics) passedOver(ctx context.Context, log *slog.Logger, what string, unread []error) {
	for _, err := range unread {
		log.WarnContext(ctx, "messaging.row_unread", "what", what, "error", err)
		m.unread.Add(ctx, 1, metric.WithAttributes(attribute.String("what", what)))
	}
}

// Open is what is known of texts that are not at their end, at an instant.
type Open struct {
	InDoubt     map[sms.Status]int           // texts of which nobody knows whether Twilio has them, by status
	OldestDoubt map[sms.Status]time.Duration // how long ago the oldest of them was attempted
	Missing     int                          // texts that Twilio took longer than the patience ago and whose final status has not come
}

type openStore interface {
	Open(ctx context.Context, now time.Time, patience time.Duration) (Open, error)
}

const (
	// observeTimeout bounds what a collection waits for the database; scrapers give up after ten seconds.
	observeTimeout = 2 * time.Second
	// receiptPatience is after how long a receipt is missing: carriers report within minutes, and by then Twilio was asked
	// three times.
	receiptPatience = 15 * time.Minute
)

// Observe registers gauges of the texts that are open, which are asked for at every collection under the values of ctx, such as
// whose rows it may see.
func Observe(ctx context.Context, meter metric.Meter, store openStore, now func() time.Time) error {
	inDoubt, inDoubtErr := meter.Int64ObservableGauge("sms_in_doubt",
		metric.WithDescription("Texts of which nobody knows whether Twilio has them: unknown ones are looked for, parked ones wait for you."))
	oldest, oldestErr := meter.Float64ObservableGauge("sms_in_doubt_oldest_seconds", metric.WithUnit("s"),
		metric.WithDescription("How long ago the oldest text in doubt was attempted."))
	missing, missingErr := meter.Int64ObservableGauge("sms_receipts_missing",
		metric.WithDescription("Texts that Twilio took over 15 minutes ago and whose final status has not come, while it is still asked for."))
	if err := errors.Join(inDoubtErr, oldestErr, missingErr); err != nil {
		return err
	}
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), observeTimeout)
		defer cancel()
		open, err := store.Open(ctx, now(), receiptPatience)
		if err != nil {
			return err
		}
		for _, status := range []sms.Status{sms.Unknown, sms.Parked} { // none is a number, too
			which := metric.WithAttributes(attribute.String("status", string(status)))
			o.ObserveInt64(inDoubt, int64(open.InDoubt[status]), which)
			o.ObserveFloat64(oldest, open.OldestDoubt[status].Seconds(), which)
		}
		o.ObserveInt64(missing, int64(open.Missing))
		return nil
	}, inDoubt, oldest, missing)
	return err
}
