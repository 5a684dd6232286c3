package onboarding

import (
	"context"
	"errors"

	"paceline.internal/platform/queue"
	"paceline.internal/platform/retention"
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/messaging"
	"paceline.internal/services/onboarding/session"
)

// newEngagement wires what people do and say to engagement.
func (w *wiring) newEngagement(carrier *messaging.Client, flow session.Flow) (*engagement.Service, error) {
	decided, texts, err := w.cfg.engagement()
	if err != nil {
		return nil, err
	}
	measured, err := engagement.NewMetrics(w.meter)
	if err != nil {
		return nil, err
	}
	w.outreachNotifier = queue.NewNotifier(w.pool, engagement.ChannelOutreach, w.wakeOutreach, w.deps.Log)
	return engagement.New(engagement.Config{
		Store: w.store.Engagement(), Settings: w.store.People(), Carrier: carrier, Rules: decided, Texts: texts, Metrics: measured,
		Notify: w.outreachNotifier.Notify, Transient: transient, Unknown: flow.UnknownSends(), Log: w.deps.Log, Now: w.deps.Now,
	}), nil
}

// sendOutreach wires the queue of outreach.
func (w *wiring) sendOutreach(ctx context.Context, counted *queue.Metrics) error {
	rows, rest := w.store.Engagement().Queue(), w.deps.Rest
	if err := errors.Join(queue.Observe(ctx, w.meter, engagement.OutreachTable, rows, w.deps.Now),
		w.engagement.Observe(ctx, w.meter, w.store.Engagement())); err != nil {
		return err
	}
	w.outreach = queue.NewRunner(queue.Config{
		Name: engagement.OutreachTable, Store: rows, Handlers: w.engagement.Handlers(), GiveUp: w.engagement.GiveUp,
		Backoff: engagement.OutreachBackoff,
		Admit:   w.engagement.Admit,
		Workers: outreachWorkers, Transient: transient, Wake: w.wakeOutreach, Metrics: counted, Log: w.deps.Log, Now: w.deps.Now,
	})
	ended := &queue.Retention{
		Queue: rows, Keep: engagement.KeptOutreach, For: w.cfg.JobsRetention, Setting: retention.Jobs, Own: w.ownRetention,
		Log: w.deps.Log, Now: w.deps.Now,
	}
	w.components = append(w.components,
		bounded(w.loops.Loop("outreach", w.outreach.Loop(rest).Run), stopLoops),
		w.loops.Loop("outreach-notifier", w.outreachNotifier.Run),
		w.loops.Loop("runs", w.engagement.RunLoop(rest).Run),
		w.loops.Loop("outreach-retention", ended.Loop(rest).Run))
	return nil
}
