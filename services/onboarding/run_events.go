package onboarding

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/metric"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/queue"
	"paceline.internal/platform/retention"
	"paceline.internal/services/onboarding/events"
	"paceline.internal/services/onboarding/messaging"
)

// events wires what the host application is told: the sequencer, the readers of the log, and the deliveries.
func (w *wiring) events(ctx context.Context, carrier *messaging.Client, counted *queue.Metrics) error {
	rows, wake := events.NewStore(w.pool), make(chan struct{}, 1)
	recorded, err := w.meter.Int64Counter("paceline_events_recorded_total", metric.WithDescription("Events that were added to the log."))
	gauges := func(ctx context.Context) (events.Gauges, error) {
		return rows.Gauges(postgres.AcrossOrganisations(ctx), w.deps.Now())
	}
	err = errors.Join(err, events.Observe(w.meter, gauges),
		queue.Observe(ctx, w.meter, events.DeliveriesTable, rows.Deliveries(), w.deps.Now))
	if err != nil {
		return err
	}
	w.wakeDeliveries = func() { queue.Wake(wake) }
	w.feed = events.NewFeed(events.FeedConfig{
		Log: rows, Messaging: carrier, Retention: w.cfg.EventsRetention.Every(), Own: w.ownRetention, Wake: w.wakeDeliveries,
		Waited:   w.store.Waited,
		Recorded: recorded, Logger: w.deps.Log, Now: w.deps.Now,
	})
	w.readers = events.NewHub(rows.LastSeq, w.deps.Log)
	deliveries := w.courier.Runner(queue.Config{
		Admit: events.NewYield(w.store.Waited, w.deps.Now).Admit, Transient: transient, Wake: wake, Metrics: counted, Log: w.deps.Log,
		Now: w.deps.Now,
	})
	ended := &queue.Retention{
		Queue: rows.Deliveries(), For: w.cfg.JobsRetention, Setting: retention.Jobs, Own: w.ownRetention, Log: w.deps.Log, Now: w.deps.Now,
	}
	rest := w.deps.Rest
	w.components = append(w.components,
		w.loops.Loop("events", w.feed.Loop(rest).Run),
		w.loops.Loop("event-readers", w.readers.Loop(rest).Run),
		bounded(w.loops.Loop("event-deliveries", deliveries.Loop(rest).Run), stopLoops),
		w.loops.Loop("event-deliveries-retention", ended.Loop(rest).Run))
	return nil
}
