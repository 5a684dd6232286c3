package onboardingtest

import (
	"context"
	"time"

	"paceline.internal/services/onboarding/runs"
)

// runRows are the runs of one process.
type runRows struct {
	*runs.Store

	ports *Ports
}

func (p *Ports) runs() runRows { return runRows{p.Stores.Runs(), p} }

func (r runRows) Run(ctx context.Context, orgID, id string) (runs.Run, error) {
	return read(r.ports, "Run", func() (runs.Run, error) { return r.Store.Run(ctx, orgID, id) })
}

func (r runRows) Create(ctx context.Context, run runs.Run, m runs.Made) (made runs.Run, duplicate bool, err error) {
	made, err = call(r.ports, "Create", func() (made runs.Run, err error) {
		made, duplicate, err = r.Store.Create(ctx, run, m)
		return made, err
	})
	return made, duplicate, err
}

func (r runRows) Filtered(ctx context.Context, run runs.Run, to string, met []string, last bool, at time.Time) error {
	return act(r.ports, "Filtered", func() error { return r.Store.Filtered(ctx, run, to, met, last, at) })
}

func (r runRows) Due(ctx context.Context, id string, limit int, now time.Time) ([]string, error) {
	return read(r.ports, "Due", func() ([]string, error) { return r.Store.Due(ctx, id, limit, now) })
}

func (r runRows) Opened(ctx context.Context, id string, sessionIDs []string) error {
	return act(r.ports, "Opened", func() error { return r.Store.Opened(ctx, id, sessionIDs) })
}

func (r runRows) LeaveOut(ctx context.Context, id string, out map[runs.Reason][]string) error {
	if len(out) == 0 {
		return nil
	}
	return act(r.ports, "LeaveOut", func() error { return r.Store.LeaveOut(ctx, id, out) })
}

func (r runRows) Delay(ctx context.Context, id string, until map[time.Time][]string) error {
	if len(until) == 0 {
		return nil
	}
	return act(r.ports, "Delay", func() error { return r.Store.Delay(ctx, id, until) })
}

func (r runRows) Retry(ctx context.Context, id string, profileIDs []string, at time.Time) error {
	if len(profileIDs) == 0 {
		return nil
	}
	return act(r.ports, "Retry", func() error { return r.Store.Retry(ctx, id, profileIDs, at) })
}

func (r runRows) Finish(ctx context.Context, id string, at time.Time) (bool, error) {
	return call(r.ports, "Finish", func() (bool, error) { return r.Store.Finish(ctx, id, at) })
}
