package onboarding

import (
	"context"
	"errors"
	"sync"
	"time"

	"paceline.internal/platform/outbox"
	"paceline.internal/platform/postgres"
	"paceline.internal/platform/process"
	"paceline.internal/platform/queue"
	"paceline.internal/platform/retention"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/engagement"
)

// addLoops adds what works on the conversations without being called.
func (w *wiring) addLoops() {
	c, rest := w.conversations, w.deps.Rest
	repeat := func(name string, r process.Repetition) {
		w.components = append(w.components, bounded(w.loops.Loop(name, r.Run), stopLoops))
	}
	jobs := &queue.Retention{
		Queue: w.store.Jobs(), Keep: conversation.KeptJobs, For: w.cfg.JobsRetention,
		Setting: retention.Jobs, Own: w.ownRetention, Log: w.deps.Log, Now: w.deps.Now,
	}
	repeat("jobs", c.Jobs.Loop(rest))
	w.components = append(w.components,
		process.Component{Name: "wake-ups", Run: w.listen}, // each of its waits has its own bound
		w.loops.Loop("notifier", w.notifier.Run))
	repeat("retention", w.forgetting(jobs.Loop(rest)))
	w.components = append(w.components,
		w.loops.Loop("holds", w.people.HoldsLoop(rest).Run), w.loops.Loop("settings", w.people.SettingsLoop(rest).Run),
		w.loops.Loop("erasures", w.erasing.Loop(rest).Run),
		w.loops.Loop("organisations", w.organisations.Loop(rest).Run),
		w.loops.Loop("flow-counts", w.folding().Run))
	if !w.cfg.InboundSweepInterval.Never() {
		repeat("inbound-sweep", w.inbound.SweepLoop(rest, w.cfg.InboundSweepInterval.Every()))
	}
	if !w.cfg.SchedulingDisabled {
		policy := outbox.Policy{Grace: w.cfg.AlarmOverdueGrace, MaxGenerations: w.cfg.AlarmMaxGenerations}
		repeat("relay", c.Alarms.RelayLoop(rest, w.cfg.AlarmRelayInterval, w.wakeRelay))
		repeat("sweeper", w.reviving(c.Sweeper(policy).Loop(rest, min(policy.Grace/4, sweepInterval))))
	}
}

// folding keeps the changes of the counts of flows few.
func (w *wiring) folding() process.Repetition {
	return process.Repetition{
		Once: w.store.Flows().FoldCounts,
		Failed: func(ctx context.Context, err error) {
			w.deps.Log.WarnContext(ctx, "onboarding.flow_counts_not_folded", "error", err)
		},
		Rest: w.deps.Rest, Every: sweepInterval,
	}
}

// reviving has the sweeper find, too, what waits for a job that is there no more: runs, and sessions that wait for a closed ticket.
func (w *wiring) reviving(r process.Repetition) process.Repetition {
	sweep := r.Once
	r.Once = func(ctx context.Context) (bool, error) {
		more, err := sweep(ctx)
		return more, errors.Join(err, w.runs.Revive(ctx), w.conversations.ReviveTickets(ctx))
	}
	return r
}

// ownRetention reads how long organisations have decided to keep something.
func (w *wiring) ownRetention(ctx context.Context) (retention.Own, error) {
	return retention.ReadOwn(ctx, w.pool, w.deps.Log)
}

// forgetting has a retention delete the goals and the events too that were over long ago, and what the rules say is over.
func (w *wiring) forgetting(r process.Repetition) process.Repetition {
	jobs := r.Once
	sweep := &retention.Sweep{
		DB: w.pool, Rules: Rules(w.cfg.kept()), Own: w.ownRetention, Metrics: w.deleted, Log: w.deps.Log, Now: w.deps.Now,
	}
	r.Once = func(ctx context.Context) (bool, error) {
		more, err := jobs(ctx)
		return more, errors.Join(err, w.forgetGoals(ctx), w.feed.Forget(ctx), sweep.Pass(ctx))
	}
	return r
}

// listeners counts the connections that a process listens on: for alarms, jobs, outreach, goals and the alarms of goals.
const listeners = 5

// listen wakes the loops when the database notifies of work that another request, here or in another process, left them.
func (s *wired) listen(ctx context.Context) error {
	s.listenTo(ctx, map[string]func(){
		conversation.ChannelAlarms: func() { queue.Wake(s.wakeRelay) },
		engagement.ChannelOutreach: func() { queue.Wake(s.wakeOutreach) },
		conversation.ChannelJobs:   func() { queue.Wake(s.wakeJobs) },
	})
	return nil
}

// listenTo calls the function of a channel each time that the database notifies on it, until ctx ends.
func (s *wired) listenTo(ctx context.Context, channels map[string]func()) {
	var all sync.WaitGroup
	for channel, notified := range channels {
		all.Go(func() { postgres.Listen(ctx, s.pool.Direct(), channel, notified) })
	}
	all.Wait()
}

func bounded(c process.Component, stop time.Duration) process.Component {
	c.StopTimeout = stop
	return c
}
