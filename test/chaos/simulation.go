package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"
)

// Simulation is a run of many worlds in this process, each with its own clock, its own databases and its own seed.
type Simulation struct {
	Seed     uint64 // of the first world; the next one has the next
	Sessions int    // how many people are to join, over all worlds
	PerWorld int    // default 50
	Gear     Gear   // default Slow
	// Engagement is for how long people are followed by engagement, in whole days; 0 not at all. It is played in the fast gear.
	Engagement time.Duration
	Parallel   int              // worlds at a time; default 4
	Now        func() time.Time // by which it is told how long it took
	// Progress hears of every world that ended; may be nil. It is called by one goroutine at a time.
	Progress func(World)
	// Story, when set, gets what each person did and heard in a world that broke a promise.
	Story io.Writer
}

// Run plays all worlds, or as many as it comes to before ctx ends. The error is only of what kept it from playing at all.
func (s Simulation) Run(ctx context.Context) (_ Report, err error) {
	shift, err := s.shift()
	if err != nil {
		return Report{}, err
	}
	perWorld, parallel := cmp.Or(max(s.PerWorld, 0), 50), cmp.Or(max(s.Parallel, 0), 4)
	start := s.Now()
	db, err := openServer(ctx)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, db.close(context.WithoutCancel(ctx))) }()

	ended := make(chan World)
	var group errgroup.Group
	group.SetLimit(parallel)
	go func() {
		defer close(ended)
		for k := 0; k*perWorld < s.Sessions && ctx.Err() == nil; k++ {
			people, seed := min(perWorld, s.Sessions-k*perWorld), s.Seed+uint64(k)
			group.Go(func() error {
				ended <- s.play(ctx, db, shift, seed, people)
				return nil
			})
		}
		_ = group.Wait() // worlds report their errors themselves
	}()
	report := Report{Seed: s.Seed, Simulated: &Simulated{}}
	for w := range ended {
		if w.Err != nil && ctx.Err() != nil { // it was broken off, not broken
			continue
		}
		report.add(w)
		if s.Progress != nil {
			s.Progress(w)
		}
	}
	report.TookMS, report.Interrupted = s.Now().Sub(start).Milliseconds(), ctx.Err() != nil
	report.SpacingAll, report.Kept = spreadOf(report.gaps), len(report.Failed) == 0
	return report, nil
}

// play plays one world to its end and examines it.
func (s Simulation) play(ctx context.Context, db *server, shift shift, seed uint64, people int) (result World) {
	result = World{Seed: seed, People: people, Gear: s.Gear, Days: int(s.Engagement / day)}
	start := s.Now()
	defer func() { result.Took = s.Now().Sub(start) }()
	data, err := db.world(ctx)
	if err != nil {
		result.Err = err
		return result
	}
	defer func() { result.Err = errors.Join(result.Err, data.drop(context.WithoutCancel(ctx))) }()
	w, err := newWorld(ctx, shift, seed, people, data)
	if err != nil {
		result.Err = fmt.Errorf("build the world: %w", err)
		return result
	}
	defer func() { result.Err = errors.Join(result.Err, w.end(context.WithoutCancel(ctx))) }()
	result.Err = w.live(ctx)
	if w.silence.met {
		w.strikes[w.silence.name+" silent"]++
	}
	result.Lasted = w.elapsed()
	verdict, err := w.examine(ctx)
	result.Err = errors.Join(result.Err, err)
	result.Verdict, result.Digest = verdict, w.digest(verdict)
	swept, err := w.sweptJobs(ctx)
	result.Swept, result.Err = swept, errors.Join(result.Err, err)
	result.Faults = sum(sum(w.strikes, w.achieved), w.faults.counts())
	if s.Story != nil && (result.Err != nil || !verdict.Kept()) {
		for _, p := range w.cast {
			p.tell(s.Story)
		}
	}
	return result
}

const (
	// patience bounds how long anything in a world may take in real time: longer than the longest bound of a loop, the runs' minute.
	patience = 3 * time.Minute
	// look is the time, on the world's clock, between two questions whether all is over.
	look = 30 * time.Second
)

// live lets time pass until no person has anything left to do.
func (w *world) live(ctx context.Context) error {
	w.begin()
	disruptions := drawDisruptions(w.dice, w.turningPoints())
	for next := look; w.elapsed() < w.shift.longest; {
		if err := w.silence.settle(ctx, w.settle); err != nil {
			return fmt.Errorf("at %s: %w", w.elapsed(), err)
		}
		if w.elapsed() >= next {
			over, err := w.over(ctx)
			if err != nil || over {
				return err
			}
			next = w.elapsed() + look
		}
		planned, _ := w.clock.Next()
		struck := len(disruptions) > 0 && (planned.IsZero() || began.Add(disruptions[0].at).Before(planned))
		if struck {
			planned = began.Add(disruptions[0].at)
		}
		leapt, err := w.leap(ctx, planned)
		if err != nil {
			return err
		}
		wakes := w.pulse.next()
		switch {
		case leapt:
		case struck && planned.Before(wakes):
			w.clock.Advance(planned.Sub(w.clock.Now()))
			later, err := w.disrupt(ctx, disruptions[0])
			if err != nil {
				return fmt.Errorf("at %s, %s: %w", w.elapsed(), disruptions[0].name(), err)
			}
			disruptions = sorted(append(disruptions[1:], later...))
		case planned.IsZero() || wakes.Before(planned):
			w.clock.Advance(wakes.Sub(w.clock.Now()))
			w.pulse.rouse()
		default:
			w.clock.AdvanceToNext()
		}
	}
	return nil
}

// settle waits until nothing moves at this instant: each person has done what they were about, and what that set in motion is done.
func (w *world) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("something in the world does not come to rest"))
	defer cancel()
	loops := 0
	for _, s := range w.services() {
		loops += s.loops
	}
	for range 3 {
		if err := errors.Join(w.still(ctx), w.vendors.Idle(ctx), w.pulse.quiet(ctx, loops)); err != nil {
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
	return nil
}

// sqlStuck asks for what the operator can do something about.
const sqlStuck = `select exists (select from conversation_sessions where status = 'stuck')`

// sweptJobs returns how many jobs retention has deleted: every inbound text was one.
func (w *world) sweptJobs(ctx context.Context) (int, error) {
	var texts, jobs int
	err := errors.Join(
		w.messagingDB.QueryRow(ctx, `select count(*) from sms_messages where direction = 'inbound'`).Scan(&texts),
		w.onboardingDB.QueryRow(ctx, `select count(*) from webhook_jobs where source = 'twilio'`).Scan(&jobs),
	)
	return texts - jobs, err
}

// over reports whether all people have lived their scripts and nothing moves any more.
func (w *world) over(ctx context.Context) (bool, error) {
	if w.busy() || w.elapsed() < w.tempo.days {
		return false, nil
	}
	moves, err := w.moving(ctx)
	if err != nil || moves {
		return false, ctx.Err() // a database may be away
	}
	var stuck bool
	if w.onboardingDB.QueryRow(ctx, sqlStuck).Scan(&stuck) != nil {
		return false, ctx.Err()
	}
	return !stuck || w.dutyIsOver(), nil
}
