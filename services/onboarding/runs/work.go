package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/people"
)

// Event is the type of the job that works on a run.
const Event = "run.work"

type payload struct {
	OrgID string `json:"org_id"`
	RunID string `json:"run_id"`
	Wakes int    `json:"wakes"` // of the run when the job was stored
}

// newJob is the job of a run that goes on.
func newJob(r Run, at time.Time) (queue.New, error) {
	written, err := json.Marshal(payload{OrgID: r.OrgID, RunID: r.ID, Wakes: r.Wakes})
	if err != nil {
		return queue.New{}, fmt.Errorf("write the job of a run: %w", err)
	}
	key := fmt.Sprintf("run:%s:%d", r.ID, r.Wakes)
	return conversation.NewJob(r.OrgID, conversation.SourceInternal, Event, key, "run:"+r.ID, written, at), nil
}

const (
	// workFor bounds one turn of the job, less than the queue gives a handler: the next turn follows at once, behind other jobs that are due.
	workFor = 12 * time.Second
	// maxParallel bounds the people whom a run starts at the same time, and maxUnsent the sessions with an opening that it does not know
	// to be sent: while the carrier is away no more are opened. maxWaiting bounds those that wait for quiet hours, a hold or a cap to end.
	maxParallel, maxUnsent, maxWaiting = 8, 64, 1000
	// startGap is the time between two of them, and between two pages of a filter, while steps of conversations run in this process: their
	// texts are due at a time, those of a run are not.
	startGap = 20 * time.Millisecond
	// mostTries bounds how often a person is tried, for almost half an hour in all.
	mostTries = 10
	// pageSize bounds the people who are read at a time.
	pageSize = 50
	// retryRun is the wait after something that is expected to end by itself, and retryPerson the wait of one person.
	retryRun, retryPerson = 5 * time.Second, 30 * time.Second
	maxWait               = time.Minute
	// maxWaitInJob is the longest wait for a turn at the sender's rate that the job itself waits: the queue looks every few seconds only.
	maxWaitInJob = 3 * time.Second
	// minBatchWait is the shortest wait for a turn. Turns that come meanwhile are taken together: to find out who is next costs as much as to
	// start several people.
	minBatchWait = 100 * time.Millisecond
)

var errTurn = errors.New("the run goes on")

// Work is the job handler that works on a run: it asks the filter, then starts people as the sender's rate allows. It may end at any point,
// and be called again: what it has done is in the database.
func (s *Service) Work(ctx context.Context, j queue.Job) error {
	var p payload
	if err := json.Unmarshal(j.Payload, &p); err != nil {
		return conversation.Unreadable(j, err)
	}
	if !s.places.acquire(p.RunID, p.OrgID, s.Now()) {
		return &queue.Snooze{After: placeWait, Cause: errTurn}
	}
	defer s.places.release(p.OrgID)
	for began := s.Now(); ; {
		wait, done, err := s.turn(ctx, p)
		now := s.Now()
		until := began.Add(workFor)
		if s.places.wanted(now) {
			until = began.Add(workWhileOthersWait)
		}
		switch left := until.Sub(now); {
		case done:
			return nil
		case err != nil:
			return &queue.Snooze{After: retryRun, Cause: err}
		case wait > maxWaitInJob:
			return &queue.Snooze{After: wait, Cause: errTurn}
		case wait >= left: // by then another run that waits for the place has asked for it
			return &queue.Snooze{After: min(wait, retryRun), Cause: errTurn}
		case wait > 0 && !s.Rest(ctx, wait, nil):
			return &queue.Snooze{Cause: ctx.Err()}
		}
	}
}

// turn does one piece of the work, and returns how long to wait before the next. done ends the job.
func (s *Service) turn(ctx context.Context, p payload) (wait time.Duration, done bool, err error) {
	run, err := s.Store.Run(ctx, p.OrgID, p.RunID)
	if errors.Is(err, ErrNoRun) { // deleted
		return 0, true, nil
	}
	if err != nil || run.Status != Running || run.Wakes != p.Wakes {
		return 0, err == nil, err
	}
	f, err := s.Flows.Version(ctx, run.OrgID, run.Flow, run.FlowVersion)
	if errors.Is(err, flow.ErrUnreadable) {
		return s.stop(ctx, run, "flow_unreadable", err.Error())
	}
	if err != nil {
		return 0, false, err
	}
	if run.Filtering {
		return s.fill(ctx, run)
	}
	paused, err := s.Store.Paused(ctx, run.OrgID)
	if err != nil || paused {
		return retryPerson, false, err
	}
	room, err := s.room(ctx, run)
	if err != nil || room == 0 {
		return retryRun, false, err
	}
	due, err := s.Store.Due(ctx, run.ID, pageSize, s.Now())
	if err != nil {
		return 0, false, err
	}
	if len(due) == 0 {
		return s.later(ctx, run)
	}
	return s.begin(ctx, run, &f, due, room)
}

// stop pauses a run that cannot go on, and says why. One that was resumed since goes on.
func (s *Service) stop(ctx context.Context, run Run, cause, reason string) (time.Duration, bool, error) {
	stopped, err := s.Store.Stop(ctx, run, reason, s.Now())
	if stopped {
		s.Log.WarnContext(ctx, "onboarding.run_paused", "run_id", run.ID, "org_id", run.OrgID, "cause", cause)
	}
	return 0, err == nil, err
}

// fill puts the next people who meet the filter in the run, with a rest while steps of conversations run.
func (s *Service) fill(ctx context.Context, run Run) (wait time.Duration, done bool, err error) {
	filter, err := s.filter(ctx, run.OrgID, run.Filter)
	if errors.Is(err, ErrInvalid) { // a flow that declared its fields was published anew
		return s.stop(ctx, run, "filter", err.Error())
	}
	if err != nil {
		return 0, false, err
	}
	met, last, err := s.askPage(ctx, run.OrgID, filter, run.FilteredTo)
	if err != nil {
		return 0, false, err
	}
	to := last
	if last == "" {
		to = run.FilteredTo
	}
	err = s.Store.Filtered(ctx, run, to, ids(met), last == "", s.Now())
	if errors.Is(err, ErrTooMany) {
		return s.stop(ctx, run, "too_many", fmt.Sprintf(
			"more than %d people meet the filter; cancel the run, and start one with a narrower filter", MaxPeople))
	}
	if s.Conversations.Busy() {
		wait = startGap
	}
	return wait, false, err
}

// room returns how many people may be started before it is known whether their openings were sent. Those that wait for something else are
// not in the way of others, up to a bound: a cap may have everybody wait.
func (s *Service) room(ctx context.Context, run Run) (int, error) {
	opening, err := s.Store.Opening(ctx, run.ID, maxUnsent+maxWaiting)
	if err != nil || len(opening) == 0 {
		return maxUnsent, err
	}
	sent, waiting, err := s.People.Openings(ctx, opening)
	if err != nil {
		return 0, err
	}
	if err := s.Store.Opened(ctx, run.ID, sent); err != nil {
		return 0, err
	}
	unsent := len(opening) - len(sent)
	return max(0, min(maxUnsent-unsent+len(waiting), maxUnsent+maxWaiting-unsent)), nil
}

// later completes a run for which nobody waits, or returns when the next one is due.
func (s *Service) later(ctx context.Context, run Run) (time.Duration, bool, error) {
	next, waits, err := s.Store.Next(ctx, run.ID)
	if err != nil {
		return 0, false, err
	}
	if waits {
		return min(max(next.Sub(s.Now()), 0), maxWait), false, nil
	}
	done, err := s.Store.Finish(ctx, run.ID, s.Now())
	if done {
		s.Log.InfoContext(ctx, "onboarding.run_completed", "run_id", run.ID, "flow", run.Flow)
	}
	return 0, done, err
}

// begin starts the first of the people who are due for whom there is a turn at the sender's rate.
func (s *Service) begin(ctx context.Context, run Run, f *flow.Flow, due []string, room int) (wait time.Duration, done bool, err error) {
	all, err := s.People.Candidates(ctx, run.OrgID, due)
	if err != nil {
		return 0, false, err
	}
	out, delayed := map[Reason][]string{}, map[time.Time][]string{}
	ready, segments := []string{}, []int{}
	for _, c := range all {
		reason := leaves(c, run.Consent != nil)
		first, sends := openingOf(f, c.Person(f.Fields))
		until, quiet := c.QuietUntil(s.Now())
		switch {
		case reason != "":
			out[reason] = append(out[reason], c.ID)
		case !sends:
			out[SendsNothing] = append(out[SendsNothing], c.ID)
		case quiet:
			delayed[until] = append(delayed[until], c.ID)
		case len(ready) < min(maxParallel, room):
			ready, segments = append(ready, c.ID), append(segments, first.segments)
		}
	}
	if err := s.Store.LeaveOut(ctx, run.ID, out); err != nil {
		return 0, false, err
	}
	if err := s.Store.Delay(ctx, run.ID, delayed); err != nil || len(ready) == 0 {
		return 0, false, err
	}
	begun, err := s.Store.Begun(ctx, run.ID)
	if err != nil {
		return 0, false, err
	}
	n, wait, err := s.Carrier.ReserveSends(ctx, run.OrgID, segments, begun)
	if errors.Is(err, people.ErrNoSender) {
		return s.stop(ctx, run, "no_sender", err.Error())
	}
	if refused, is := errors.AsType[*RefusedError](err); is {
		return s.stop(ctx, run, fmt.Sprintf("refused_%d", refused.Code), refused.Error())
	}
	if err != nil {
		return 0, false, err
	}
	if wait > 0 {
		wait = max(wait, minBatchWait)
	}
	return wait, false, s.open(ctx, run, ready[:min(n, len(ready))])
}

// open opens the sessions of people without waiting for each other, and some time apart while steps of conversations run.
func (s *Service) open(ctx context.Context, run Run, ready []string) error {
	results := make([]error, len(ready))
	var each sync.WaitGroup
	for i, id := range ready {
		if i > 0 && s.Conversations.Busy() && !s.Rest(ctx, startGap, nil) {
			results[i] = ctx.Err()
			continue
		}
		each.Go(func() {
			defer func() {
				if p := recover(); p != nil { // the queue sees only its own goroutine
					results[i] = fmt.Errorf("panic: %v", p)
				}
			}()
			results[i] = s.one(ctx, run, id)
		})
	}
	each.Wait()
	out, until := map[Reason][]string{}, s.Now().Add(retryPerson)
	var away, failing []string
	var outage error
	for i, err := range results {
		reason := leftOut(err)
		switch {
		case err == nil, errors.Is(err, errNotRunning):
		case reason != "":
			out[reason] = append(out[reason], ready[i])
		case errors.Is(err, people.ErrUnavailable), ctx.Err() != nil: // which is no matter of this person
			away, outage = append(away, ready[i]), err
		default:
			s.Log.WarnContext(ctx, "onboarding.run_person_failed", "run_id", run.ID, "profile_id", ready[i], "error", err)
			failing = append(failing, ready[i])
		}
	}
	delayed := map[time.Time][]string{}
	if len(away) > 0 {
		delayed[until] = away
	}
	return errors.Join(outage, s.Store.LeaveOut(ctx, run.ID, out), s.Store.Delay(ctx, run.ID, delayed),
		s.Store.Retry(ctx, run.ID, failing, s.Now()))
}

// one starts one person. The session and the person's place in the run are one transaction.
func (s *Service) one(ctx context.Context, run Run, profileID string) error {
	var opened bool
	_, err := s.Conversations.Begin(ctx, run.OrgID, conversation.Start{
		Many:      true,
		ProfileID: profileID, Flow: run.Flow, Version: run.FlowVersion, Consent: run.Consent, Reserved: true,
		With: s.Store.Starts(run.ID, profileID, &opened),
	})
	if opened && leftOut(err) != "" { // the session was opened, and the person stopped at once
		return nil
	}
	if err == nil && !opened { // it was open already
		return conversation.ErrOtherOpen
	}
	return err
}

// Handle adds the job of runs to the handlers of a queue, and its end to what the queue does about a failed job.
func (s *Service) Handle(
	handlers map[string]queue.Handler, giveUp func(ctx context.Context, j queue.Job, cause error) error,
) (map[string]queue.Handler, func(ctx context.Context, j queue.Job, cause error) error) {
	handlers = maps.Clone(handlers)
	handlers[Event] = s.Work
	return handlers, func(ctx context.Context, j queue.Job, cause error) error {
		if j.EventType == Event {
			return s.GiveUp(ctx, j, cause)
		}
		return giveUp(ctx, j, cause)
	}
}

// GiveUp pauses the run of a job that failed for good.
func (s *Service) GiveUp(ctx context.Context, j queue.Job, cause error) error {
	var p payload
	if json.Unmarshal(j.Payload, &p) != nil {
		return nil //nolint:nilerr // it names no run
	}
	reason := "the work on the run failed: " + cause.Error() + "; resume it once its cause is mended"
	_, _, err := s.stop(ctx, Run{OrgID: p.OrgID, ID: p.RunID, Wakes: p.Wakes}, "job_failed", reason)
	return err
}

// Revive has runs go on that have no job, because it was cancelled or failed in a process of the release before.
func (s *Service) Revive(ctx context.Context) error {
	n, err := s.Store.Revive(ctx, s.Now())
	if n > 0 {
		s.Log.WarnContext(ctx, "onboarding.runs_revived", "runs", n)
		s.Notify()
	}
	return err
}
