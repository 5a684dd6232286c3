package onboarding

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres/history"
	"paceline.internal/platform/retention"
)

// firstBeat bounds the first beat.
const firstBeat = 2 * time.Second

// watch adds the loop that notices that the database went back in time, or may have: then what people texted is delivered again. Steps need
// no more: a send that was made is found by its key, at messaging.
func (w *wiring) watch() error {
	keeper, err := history.New(history.Config{
		DB: w.pool, Now: w.deps.Now, Log: w.deps.Log, Noted: func() {},
		Back: func(ctx context.Context, tx pgx.Tx, lost history.Loss) error {
			now := w.deps.Now()
			own, err := retention.ReadOwn(ctx, tx, w.deps.Log) // a second connection may not come within the beat
			if err != nil {
				return err
			}
			return w.store.SweepAgain(ctx, tx, own.Parts(retention.Jobs, w.cfg.JobsRetention, now), lost.Since, now)
		},
	}, w.meter)
	if err != nil || !w.deps.Beats {
		return err
	}
	loop := bounded(w.loops.Loop("history", keeper.Loop().Run), stopLoops)
	loop.Start = func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, firstBeat)
		defer cancel()
		if err := keeper.Beat(ctx); err != nil { // the loop goes on
			w.deps.Log.WarnContext(ctx, "history.beat", "error", err)
		}
		return nil
	}
	w.components = append(w.components, loop)
	return nil
}
