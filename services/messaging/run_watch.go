package messaging

import (
	"context"
	"time"

	"paceline.internal/platform/postgres/history"
	"paceline.internal/platform/process"
	"paceline.internal/services/messaging/inbound"
	"paceline.internal/services/messaging/readback"
)

// firstBeat bounds the first beat.
const firstBeat = 2 * time.Second

// watch returns the loops that notice that the database went back in time, that read back what it lost, and that anchor its ledgers. The
// first beat comes before anything is served: a process sends nothing before it knows the history.
func (w *wiring) watch(ctx context.Context, received *inbound.Service) ([]process.Component, error) {
	anchoring, err := w.anchors(ctx)
	if err != nil {
		return nil, err
	}
	store := readback.NewStore(w.pool)
	metrics, err := readback.NewMetrics(ctx, w.meter, store.Open)
	if err != nil {
		return nil, err
	}
	reader := readback.New(readback.Config{
		Store: store, Sent: w.stores.send, Inbound: received, Senders: w.senders, Carrier: w.carrier, Now: w.deps.Now, Log: w.observed.Log,
		Metrics: metrics, UnderWay: w.cfg.Lease + w.cfg.Timeout + readback.Lag, Answer: w.cfg.Timeout + readback.Lag,
	})
	keeper, err := history.New(history.Config{
		DB: w.pool, Now: w.deps.Now, Log: w.observed.Log, Back: reader.Begin, Noted: reader.Wake,
	}, w.meter)
	if err != nil || !w.deps.Beats {
		return anchoring, err
	}
	w.stores.send.Beat = keeper.Last
	beats, reads := w.loops.Loop("history", keeper.Loop().Run), w.loops.Loop("readback", reader.Loop().Run)
	beats.StopTimeout, reads.StopTimeout = stopReconciler, stopReconciler
	beats.Start = func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, firstBeat)
		defer cancel()
		if err := keeper.Beat(ctx); err != nil { // the loop goes on; until it succeeds no claim does
			w.observed.Log.WarnContext(ctx, "history.beat", "error", err)
		}
		return nil
	}
	return append([]process.Component{beats, reads}, anchoring...), nil
}
