package engagement

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"time"

	"paceline.internal/platform/process"
	"paceline.internal/services/onboarding/engagement/rules"
)

const (
	// runEvery is the interval between two looks for a new period.
	runEvery = time.Minute
	// RunLease is the time that a run belongs to the replica that works on it, from its last batch on.
	RunLease = time.Minute
	// runSlice is the time that a run of one organisation is worked on before the next one gets its turn.
	runSlice = 5 * time.Second
	// runBatch is the number of people who are decided and written together.
	runBatch = 500
)

// SkipChanged is a person who has moved, or written, between the decision and its write.
const SkipChanged rules.Skip = "changed"

// SkipQueued counts a person for whom an earlier run of the period has queued the message.
const SkipQueued rules.Skip = "already_queued"

// ErrRunLost is a run that another replica has taken over.
var ErrRunLost = errors.New("engagement: the lease of the run was lost")

// Stage is one pass of a run over people.
type Stage string

// The stages of the daily run, in their order, and the one of the weekly run.
const (
	StageReminders  Stage = "reminders"
	StageTimeouts   Stage = "timeouts"
	StageInactivity Stage = "inactivity"
	StageReviews    Stage = "reviews"
)

// stages of a job. A person who moves in one is not met again in the next of the same run: each trigger has its own times.
var stages = map[rules.Job][]Stage{
	rules.Daily: {StageReminders, StageTimeouts, StageInactivity}, rules.Weekly: {StageReviews},
}

// Run is one run of a job for an organisation.
type Run struct {
	ID      string
	OrgID   string
	Period  rules.Period
	Status  string
	Token   string // of the lease
	Stage   Stage
	Cursor  Cursor
	Counts  Counts
	Ended   time.Time // zero while it runs
	Started time.Time
}

// The statuses of runs.
const (
	RunRunning    = "running"
	RunCompleted  = "completed"
	RunSuperseded = "superseded"
)

// Cursor is the last person of a stage so far. The zero value is the beginning.
type Cursor struct {
	At        time.Time `json:"at,omitzero"` // by which the stage is ordered; zero for one that is ordered by person
	ProfileID string    `json:"id,omitempty"`
}

// Counts has the figures of a run.
type Counts struct {
	Processed, Succeeded, Failed int
	Skipped                      map[rules.Skip]int
	Worked                       time.Duration
}

// RunTimes are the boundaries of a run: who was active last at Idle or before is silent, and at Since or after was active in the week.
type RunTimes struct{ Idle, Since time.Time }

func timesOf(r Run, decided rules.Config) RunTimes {
	return RunTimes{Idle: r.Period.Nominal.Add(-decided.Inactivity), Since: r.Period.Nominal.Add(-decided.WeeklyWindow)}
}

// Candidate is a person whom a stage looks at.
type Candidate struct {
	View       View
	Cursor     Cursor
	Actions    int   // of the weekly window; of the weekly run only
	Unreadable error // what is stored of the person cannot be read
}

// Planned is the effect of a run on a person: a change, or the reason why not.
type Planned struct {
	Change *Change // its cause is the run
	Skip   rules.Skip
}

// Batch is one write of a run, with its new cursor.
type Batch struct {
	Run     Run // with the cursor and the counts as they are after it
	Changes []Change
	Now     time.Time
}

// runRows keeps runs. What changes a run is fenced by its lease; ErrRunLost.
type runRows interface {
	runPeriods
	runLeases
	runBatches
}

type runPeriods interface {
	// Organisations lists the organisations that have people.
	Organisations(ctx context.Context) ([]string, error)
	// NewestRun is the name of the newest period of a job that is recorded; empty for none.
	NewestRun(ctx context.Context, orgID string, job rules.Job) (string, error)
	// RecordRuns records the period that is to run, if any, and those that are superseded, each once. Runs of older periods that no replica
	// works on are superseded with them.
	RecordRuns(ctx context.Context, orgID string, run *rules.Period, superseded []rules.Period, config string, now time.Time) error
}

type runLeases interface {
	// ClaimRun leases the oldest run of an organisation that is open and not leased; false when there is none.
	ClaimRun(ctx context.Context, orgID string, now, until time.Time) (Run, bool, error)
	// ReleaseRun releases the lease of a run, so that any worker can continue it.
	ReleaseRun(ctx context.Context, r Run) error
	// EndRun ends a run.
	EndRun(ctx context.Context, r Run, now time.Time) error
}

type runBatches interface {
	// Candidates are the next people of a stage.
	Candidates(ctx context.Context, of Run, times RunTimes, limit int) ([]Candidate, error)
	// WriteBatch writes changes and how far the run came, whole, and returns the counts of the run after it. A person who does not stand
	// where they were read, or has a message queued before, is left alone.
	WriteBatch(ctx context.Context, b Batch, until time.Time) (Counts, error)
}

// RunLoop begins and works the runs that are due. Any number of replicas may do so.
func (s *Service) RunLoop(rest process.Rest) process.Repetition {
	return process.Repetition{
		Once: s.work,
		Failed: func(ctx context.Context, err error) {
			s.Log.ErrorContext(ctx, "engagement.runs_failed", "error", err)
		},
		Rest: rest, Every: runEvery, Bound: time.Minute,
	}
}

// work gives each organisation a slice, and reports whether there is more to do.
func (s *Service) work(ctx context.Context) (more bool, err error) {
	orgs, err := s.Store.Organisations(ctx)
	if err != nil {
		return false, err
	}
	var problems []error
	for _, org := range orgs {
		process.Progress(ctx)
		open, err := s.WorkRuns(ctx, org, runSlice)
		more = more || open
		if err = s.noted(ctx, org, err); err != nil {
			problems = append(problems, err)
		}
	}
	return more, errors.Join(problems...)
}

// WorkRuns begins the runs of an organisation that are due, works on what is open for as long as the slice is, and reports whether
// something is left.
func (s *Service) WorkRuns(ctx context.Context, orgID string, slice time.Duration) (open bool, err error) {
	decided, err := s.rulesFor(ctx, orgID)
	if err != nil {
		return false, err
	}
	for _, job := range rules.Jobs() {
		if err := s.begin(ctx, orgID, job, decided); err != nil {
			return false, err
		}
	}
	until := s.Now().Add(slice)
	for !s.Now().After(until) && ctx.Err() == nil {
		process.Progress(ctx)
		r, claimed, err := s.Store.ClaimRun(ctx, orgID, s.Now(), s.Now().Add(RunLease))
		if err != nil || !claimed {
			return false, err
		}
		if err := s.run(ctx, &r, decided, until); err != nil {
			if errors.Is(err, ErrRunLost) {
				return true, nil
			}
			return false, errors.Join(fmt.Errorf("run %s of %s: %w", r.Period.Name, r.Period.Job, err),
				s.Store.ReleaseRun(context.WithoutCancel(ctx), r))
		}
	}
	return true, nil
}

// begin records the period of a job that is due.
func (s *Service) begin(ctx context.Context, orgID string, job rules.Job, decided rules.Config) error {
	now := s.Now()
	recorded, err := s.Store.NewestRun(ctx, orgID, job)
	if err != nil {
		return err
	}
	run, superseded := decided.Due(job, recorded, now)
	if run == nil && len(superseded) == 0 {
		return nil
	}
	return s.Store.RecordRuns(ctx, orgID, run, superseded, configHash(decided), now)
}

// configHash tells the configurations of runs apart.
func configHash(decided rules.Config) string {
	hash := sha256.Sum256(fmt.Appendf(nil, "%+v", decided))
	return hex.EncodeToString(hash[:8])
}

// run works on a run until it is done or its slice is over; then it is released.
func (s *Service) run(ctx context.Context, r *Run, decided rules.Config, until time.Time) error {
	by, err := s.terms(ctx, r.OrgID, decided)
	if err != nil {
		return err
	}
	if r.Stage == "" {
		r.Stage = stages[r.Period.Job][0]
	}
	for {
		process.Progress(ctx)
		began := s.Now()
		if began.After(until) {
			return s.Store.ReleaseRun(ctx, *r)
		}
		found, err := s.Store.Candidates(ctx, *r, timesOf(*r, by.rules), runBatch)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			if r.Stage, err = s.next(ctx, *r); err != nil || r.Stage == "" {
				return err
			}
			r.Cursor = Cursor{}
			continue
		}
		if err := s.batch(ctx, r, found, by); err != nil {
			return err
		}
		r.Counts.Worked += s.Now().Sub(began)
	}
}

// next is the stage after that of a run, which ends with the last one.
func (s *Service) next(ctx context.Context, r Run) (Stage, error) {
	all := stages[r.Period.Job]
	for i, stage := range all {
		if stage == r.Stage && i+1 < len(all) {
			return all[i+1], nil
		}
	}
	if err := s.Store.EndRun(ctx, r, s.Now()); err != nil {
		return "", err
	}
	s.Metrics.ran(ctx, r)
	s.Log.InfoContext(ctx, "engagement.run_finished", "job", string(r.Period.Job), "period", r.Period.Name, "run_id", r.ID,
		"processed", r.Counts.Processed, "succeeded", r.Counts.Succeeded, "failed", r.Counts.Failed, "skipped", r.Counts.Skipped,
		"worked_ms", r.Counts.Worked.Milliseconds())
	return "", nil
}

// batch decides on people and writes what was decided. A batch that cannot be written is halved, down to the person who is the reason.
func (s *Service) batch(ctx context.Context, r *Run, found []Candidate, by terms) error {
	now := s.Now() // one for all: a goodbye is recognised by the instant at which it was decided
	after, changes, queued := *r, []Change{}, false
	after.Cursor, after.Counts = found[len(found)-1].Cursor, r.Counts.plus(len(found))
	for _, c := range found {
		p := plan(*r, c, by, now)
		switch {
		case c.Unreadable != nil:
			after.Counts.Failed++
			s.Log.ErrorContext(ctx, "engagement.run_person_failed", "run_id", r.ID, "profile_id", c.Cursor.ProfileID, "error", c.Unreadable)
		case p.Change == nil:
			after.Counts.Skipped[p.Skip]++
		default:
			changes, queued = append(changes, *p.Change), queued || len(p.Change.Outreach) > 0
		}
	}
	counts, err := s.Store.WriteBatch(ctx, Batch{Run: after, Changes: changes, Now: now}, now.Add(RunLease))
	switch {
	case err == nil:
		after.Counts = counts
		if trigger := triggers[r.Stage]; trigger != "" {
			s.Metrics.moved(ctx, trigger, counts.Succeeded-r.Counts.Succeeded)
		}
		*r = after
		if queued {
			s.Notify()
		}
		s.logQueued(ctx, changes...)
		return nil
	case errors.Is(err, ErrRunLost) || ctx.Err() != nil || s.Transient(err):
		return err
	case len(found) > 1:
		if err := s.batch(ctx, r, found[:len(found)/2], by); err != nil {
			return err // the cursor must not pass those who were not written
		}
		return s.batch(ctx, r, found[len(found)/2:], by)
	}
	s.Log.ErrorContext(ctx, "engagement.run_person_failed", "run_id", r.ID, "profile_id", found[0].View.ProfileID, "error", err)
	after.Counts.Failed++
	_, err = s.Store.WriteBatch(ctx, Batch{Run: after, Now: now}, now.Add(RunLease))
	*r = after
	return err
}

// plus is a copy in which so many more are processed.
func (c Counts) plus(processed int) Counts {
	sum := c
	sum.Processed += processed
	sum.Skipped = map[rules.Skip]int{}
	maps.Copy(sum.Skipped, c.Skipped)
	return sum
}

// Wrote is a copy in which so many changes were written, the others found their person changed, and so many more had their message queued
// before.
func (c Counts) Wrote(changes, changed, queued int) Counts {
	sum := c.plus(0)
	sum.Succeeded += changed
	for skip, n := range map[rules.Skip]int{SkipChanged: changes - changed, SkipQueued: queued} {
		if n > 0 {
			sum.Skipped[skip] += n
		}
	}
	return sum
}

// triggers of the stages; the reviews have none.
var triggers = map[Stage]rules.Trigger{
	StageReminders: rules.ReminderDue, StageTimeouts: rules.GoodbyeTimeout, StageInactivity: rules.Inactivity14d,
}
