package gateway

import (
	"context"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"paceline.internal/platform/telemetry"
)

// lateness measures how late steps come to their end; the zero value measures nothing.
type lateness struct {
	seconds metric.Float64Histogram
	now     func() time.Time
}

func newLateness(meter metric.Meter, now func() time.Time) (lateness, error) {
	seconds, err := meter.Float64Histogram("step_lateness_seconds", metric.WithUnit("s"),
		metric.WithDescription("How long after its alarm was due a step was sent, or skipped, or an attempt at it failed."),
		metric.WithExplicitBucketBoundaries(.1, .25, .5, 1, 1.5, 2, 3, 5, 10, 30, 120, 600, 3600))
	return lateness{seconds: seconds, now: now}, err
}

// ended measures one delivery of an alarm. The due time is in a header that no signature covers, of a request whose body was
// signed; it decides nothing.
func (l lateness) ended(ctx context.Context, d *delivery, given answer) {
	if l.seconds == nil || !d.verified || d.due.IsZero() {
		return
	}
	outcome := given.outcome
	if given.err != nil {
		outcome = "failed"
	}
	l.seconds.Record(ctx, l.now().Sub(d.due).Seconds(), metric.WithAttributes(attribute.String("outcome", outcome)))
}

// traced takes the trace of a receipt from its URL, where messaging put it because Twilio sends no header along. It is a
// stranger's word as the header is, until the signature over the URL was checked: it names a trace and decides nothing.
func traced(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == pathStatus && r.Header.Get(telemetry.TraceparentField) == "" {
			if parent := r.URL.Query().Get(telemetry.TraceparentField); parent != "" {
				r.Header.Set(telemetry.TraceparentField, parent)
			}
		}
		next.ServeHTTP(w, r)
	})
}
