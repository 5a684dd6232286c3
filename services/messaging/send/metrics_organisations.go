package send

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

const (
	// mostSeries bounds the organisations with series: those with the most messages. All others are one more.
	mostSeries = 200
	// otherOrganisations is the label of all others.
	otherOrganisations = "other"
)

// ObserveOrganisations registers the gauge of the messages of organisations, which is read at every collection.
func ObserveOrganisations(
	ctx context.Context, meter metric.Meter, read func(ctx context.Context, now time.Time) ([]Busy, error), now func() time.Time,
) error {
	_, err := meter.Int64ObservableGauge("paceline_organisation_messages",
		metric.WithDescription("Messages of the last hour by organisation and by how they ended so far: of the 200 busiest, and of the others."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), observeTimeout)
			defer cancel()
			found, err := read(ctx, now())
			if err != nil {
				return err
			}
			rest := Busy{Org: otherOrganisations} // none is a number, too
			for _, b := range found {
				if b.Org == otherOrganisations {
					rest = b
					continue
				}
				b.observe(o)
			}
			rest.observe(o)
			return nil
		}))
	return err
}

func (b Busy) observe(o metric.Int64Observer) {
	for result, n := range map[string]int64{"delivered": b.Delivered, "failed": b.Failed, "under_way": b.UnderWay, "received": b.Received} {
		o.Observe(n, metric.WithAttributes(attribute.String("org_id", b.Org), attribute.String("result", result)))
	}
}
