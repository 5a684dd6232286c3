package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"paceline.internal/test/chaos"
)

const (
	// simulated is the number of people of a simulation by default.
	simulated = 1000
	// garbage is the growth of the heap, in percent, at which it is collected: a simulation is short of time, not of memory.
	garbage = 400
	// progressEvery is the time between two reports of progress in a long simulation.
	progressEvery = 10 * time.Second
)

// simulate plays the whole system in this process, on the emulators' clocks.
func (c *chaosCommand) simulate(ctx context.Context, t terminal, seed uint64) error {
	defer debug.SetGCPercent(debug.SetGCPercent(garbage))
	people := cmp.Or(c.Sessions, simulated)
	tell(fmt.Sprintf("%d people on simulated clocks, seed %d. Ctrl-C ends it with what was played until then.", people, seed))
	began, reported, done, broken := time.Now(), time.Now(), 0, 0
	simulation := chaos.Simulation{
		Seed: seed, Sessions: people, PerWorld: c.PerWorld, Gear: c.Gear, Parallel: c.Parallel, Now: time.Now, Story: os.Stderr,
	}
	if c.Engagement {
		simulation.Engagement = time.Duration(c.Days) * 24 * time.Hour
	}
	simulation.Progress = func(w chaos.World) {
		done += w.People
		if w.Err != nil || !w.Verdict.Kept() {
			broken++
		}
		if time.Since(reported) >= progressEvery {
			reported = time.Now()
			tell(fmt.Sprintf("%7.0f s  %d people, %d worlds broke a promise", time.Since(began).Seconds(), done, broken))
		}
	}
	report, err := simulation.Run(ctx)
	if err != nil {
		return err
	}
	if err := t.judge(&report, report.Kept); err != nil {
		return err
	}
	if report.Interrupted {
		return context.Cause(ctx)
	}
	return nil
}
