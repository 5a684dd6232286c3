package runs

import (
	"context"
	"time"

	"paceline.internal/services/onboarding/conversation"
)

// store keeps runs. Each method is one intention. Store implements it, and the crash test puts one in its place that fails.
type store interface {
	// Create stores a run with its first people and its job, or finds the one that its key has. ErrTooMany, ErrKeyReused.
	Create(ctx context.Context, r Run, m Made) (run Run, duplicate bool, err error)
	// Add puts people in a run that is not finished; ErrNoRun, ErrFinished, ErrTooMany.
	Add(ctx context.Context, orgID, id string, profileIDs []string, at time.Time) (added int, err error)
	// Switch changes the status of a run that is not finished, and stores the job of one that goes on. ErrNoRun, ErrFinished.
	Switch(ctx context.Context, orgID, id string, to Status, reason string, at time.Time) (Run, error)
	// Stop pauses a run of which no job is newer than that with the wakes, and says why; false of one that does not run.
	Stop(ctx context.Context, r Run, reason string, at time.Time) (bool, error)
	// Revive stores the job of runs that have none, and returns how many.
	Revive(ctx context.Context, at time.Time) (int, error)
	Run(ctx context.Context, orgID, id string) (Run, error)
	List(ctx context.Context, orgID, flow, before string, limit int) ([]Run, error)
	Count(ctx context.Context, id string) (Counts, error)

	// Filtered puts people in a run whose filter they meet, and notes up to whom it was asked; last says that nobody is left. ErrTooMany.
	Filtered(ctx context.Context, r Run, to string, met []string, last bool, at time.Time) error
	// Due returns people to be started, the longest due first.
	Due(ctx context.Context, id string, limit int, now time.Time) ([]string, error)
	// Next returns when the first waiting person is due; false when nobody waits.
	Next(ctx context.Context, id string) (time.Time, bool, error)
	// Opening returns sessions of which it is not known that their opening was sent.
	Opening(ctx context.Context, id string, limit int) ([]string, error)
	Opened(ctx context.Context, id string, sessionIDs []string) error
	LeaveOut(ctx context.Context, id string, out map[Reason][]string) error
	Delay(ctx context.Context, id string, until map[time.Time][]string) error
	// Retry has people tried again, later after each try, and leaves out those who were tried often enough.
	Retry(ctx context.Context, id string, profileIDs []string, at time.Time) error
	// Begun returns the newest sessions of a run, the newest first, of those since it was resumed.
	Begun(ctx context.Context, id string) ([]Begun, error)
	// Finish completes a run for which nobody waits; false when somebody does.
	Finish(ctx context.Context, id string, at time.Time) (bool, error)
	Paused(ctx context.Context, orgID string) (bool, error)
	// Starts takes part in the transaction that opens a person's session, and notes in opened that it did; errNotRunning.
	Starts(id, profileID string, opened *bool) conversation.Within
}
