package anchor

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/metric"
)

// observeTimeout bounds what a collection waits for the database; scrapers give up after ten seconds.
const observeTimeout = 2 * time.Second

// Observe registers the gauge of a deployment that anchors its ledgers. It is read at every collection, under the values of ctx, and at no
// other time.
func Observe(
	ctx context.Context, meter metric.Meter, waitingSince func(ctx context.Context) (*time.Time, error), now func() time.Time,
) error {
	waiting, err := meter.Float64ObservableGauge("ledgers_unanchored_seconds", metric.WithUnit("s"),
		metric.WithDescription("For how long lines of consent ledgers have waited for an anchor and none was written; 0 when none waits."))
	if err != nil {
		return err
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), observeTimeout)
		defer cancel()
		since, err := waitingSince(ctx)
		if err != nil {
			return err
		}
		var age time.Duration // none waits is a number, too
		if since != nil {
			age = max(0, now().Sub(*since))
		}
		o.ObserveFloat64(waiting, age.Seconds())
		return nil
	}, waiting)
	return err
}
