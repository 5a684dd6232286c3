package onboarding

import (
	"context"
	"errors"

	"paceline.internal/platform/audit"
	"paceline.internal/platform/outbox"
	"paceline.internal/platform/process"
	"paceline.internal/platform/queue"
	"paceline.internal/platform/telemetry"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/devices"
	"paceline.internal/services/onboarding/goals"
	"paceline.internal/services/onboarding/messaging"
	"paceline.internal/services/onboarding/session"
)

// goalGrace is the multiple of a step's grace that a goal gets: its alarm is tried for over five minutes while its device is offline.
const goalGrace = 10

// newGoals wires goals: what people say by text, the texts to phones, and the loops.
func (w *wiring) newGoals(ctx context.Context, carrier *messaging.Client, flow session.Flow) (*goals.Texts, error) {
	_, copies, err := w.cfg.engagement()
	if err != nil {
		return nil, err
	}
	words, err := w.cfg.goalWords()
	if err != nil {
		return nil, err
	}
	rows, spans := goals.NewStore(w.pool), telemetry.Conversations{Tracer: w.tel.Tracer.Tracer("paceline.internal/services/" + name)}
	measured, err := goals.NewMetrics(w.meter)
	if err != nil {
		return nil, err
	}
	read, err := w.cfg.Classifier.client()
	if err != nil {
		return nil, err
	}
	cfg := goals.Config{
		Store: rows, Outbox: rows.Alarms(), QStash: w.alarms, Messages: w.alarms, Reach: w.alarms.Reach,
		Phone:   &goals.TextPhone{Store: w.store, Carrier: carrier, Copy: copies, Words: words, Unknown: flow.UnknownSends(), Now: w.deps.Now},
		Metrics: measured, RunLease: w.cfg.RunLease, RunLimit: w.cfg.RunLimit, Disabled: w.cfg.SchedulingDisabled,
		Log: w.deps.Log, Now: w.deps.Now,
		Begin: func(ctx context.Context, a goals.Alarm) (context.Context, func()) {
			return spans.Begin(ctx, "onboarding.goal_alarm", a.GoalID)
		},
	}
	if read != nil { // a nil client in the interface would be asked
		cfg.Reader, w.closeReader = read, read.Close
	}
	w.goals = goals.NewService(cfg)
	w.hub = devices.NewHub(devices.HubConfig{Store: rows, Goals: w.goals, RunLease: w.cfg.RunLease, Log: w.deps.Log, Now: w.deps.Now})
	if err := errors.Join(w.hub.Observe(w.meter), w.goals.Observe(ctx, w.meter, rows)); err != nil {
		return nil, err
	}
	w.addGoalLoops()
	return &goals.Texts{
		Goals: w.goals, Store: w.store, Carrier: carrier, Copy: copies, Words: words, Unknown: flow.UnknownSends(), Log: w.deps.Log,
		Now: w.deps.Now,
	}, nil
}

// addGoalLoops adds what works on goals without being called.
func (w *wiring) addGoalLoops() {
	repeat := func(name string, r process.Repetition) {
		w.components = append(w.components, w.loops.Loop(name, r.Run))
	}
	w.components = append(w.components, process.Component{Name: "goal-wake-ups", Run: w.listenToGoals})
	repeat("devices", w.hub.KeepLoop(w.deps.Rest))
	repeat("offers", w.hub.OfferLoop(w.deps.Rest))
	if !w.cfg.SchedulingDisabled {
		repeat("goal-relay", w.goals.Alarms.RelayLoop(w.deps.Rest, w.cfg.AlarmRelayInterval, w.wakeGoals))
	}
	policy := outbox.Policy{Grace: goalGrace * w.cfg.AlarmOverdueGrace, MaxGenerations: w.cfg.AlarmMaxGenerations}
	repeat("goal-sweeper", w.goals.Sweeper(policy).Loop(w.deps.Rest, min(w.cfg.RunLease/4, w.cfg.AlarmOverdueGrace/4, sweepInterval)))
}

// forgottenGoals is the number of goals that one statement deletes, each with a handful of alarms and lines of its timeline.
const forgottenGoals = 500

// forgetGoals deletes what was over long ago, a batch after the other.
func (w *wiring) forgetGoals(ctx context.Context) error {
	own, err := w.ownRetention(ctx)
	if err != nil {
		return err
	}
	var all goals.Forgotten
	store := goals.NewStore(w.pool)
	parts, err := store.Parts(ctx, own, w.cfg.GoalsRetention, w.deps.Now())
	if err != nil {
		return err
	}
	for len(parts) > 0 && ctx.Err() == nil {
		f, err := store.Forget(ctx, parts[0], forgottenGoals)
		if err != nil {
			return err
		}
		process.Progress(ctx)
		all.Goals, all.Devices, all.Readings = all.Goals+f.Goals, all.Devices+f.Devices, all.Readings+f.Readings
		if max(f.Goals, f.Devices, f.Readings) < forgottenGoals {
			parts = parts[1:]
		}
	}
	if all != (goals.Forgotten{}) {
		w.deps.Log.InfoContext(ctx, "goals.forgotten", "goals", all.Goals, "devices", all.Devices, "readings", all.Readings)
	}
	return nil
}

// listenToGoals wakes the relay, the hub of devices, and the alarms that wait for a goal to begin.
func (w *wiring) listenToGoals(ctx context.Context) error {
	w.listenTo(ctx, map[string]func(){
		goals.ChannelAlarms: func() { queue.Wake(w.wakeGoals) },
		goals.Channel: func() {
			w.hub.Wake()
			w.goals.Moved()
		},
	})
	return nil
}

// pauseOf reads why scheduling of an organisation is paused; the zero value when it is not.
func (w *wiring) pauseOf(ctx context.Context, orgID string) (conversation.Pause, error) {
	paused, err := w.store.SchedulingPause(ctx, orgID)
	if err != nil || paused == nil {
		return conversation.Pause{}, err
	}
	return conversation.Pause{
		Suspended: paused.Suspended, Since: paused.Since, By: audit.Read(paused.By).GetSubject(), Reason: paused.Reason,
	}, nil
}
