package onboardingtest

import (
	"context"
	"time"

	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/engagement/rules"
)

// People is the engagement of a process.
type People struct{ Ports *Ports }

func (e People) Person(ctx context.Context, org, phone, cause, jobID string) (engagement.View, error) {
	return read(e.Ports, "Person", func() (engagement.View, error) {
		return e.Ports.Stores.Engagement().Person(ctx, org, phone, cause, jobID)
	})
}

func (e People) PersonByID(ctx context.Context, org, id, cause string) (engagement.View, error) {
	return read(e.Ports, "PersonByID", func() (engagement.View, error) { return e.Ports.Stores.Engagement().PersonByID(ctx, org, id, cause) })
}

func (e People) EngagementRules(ctx context.Context, org string) (*rules.Config, error) {
	return read(e.Ports, "EngagementRules", func() (*rules.Config, error) { return e.Ports.Stores.EngagementRules(ctx, org) })
}

func (e People) EngagementCalendars(ctx context.Context) (map[string]rules.Calendar, error) {
	return e.Ports.Stores.EngagementCalendars(ctx)
}

func (e People) ExpensesIn(ctx context.Context, v engagement.View, category string, from, until time.Time) (int, error) {
	return read(e.Ports, "ExpensesIn", func() (int, error) { return e.Ports.Stores.Engagement().ExpensesIn(ctx, v, category, from, until) })
}

func (e People) Apply(ctx context.Context, c engagement.Change) error {
	if do := e.Ports.BeforeApply; do != nil {
		e.Ports.BeforeApply = nil
		do()
	}
	return act(e.Ports, "Apply", func() error { return e.Ports.Stores.Engagement().Apply(ctx, c) })
}

func (e People) Prefer(ctx context.Context, p engagement.Preference) error {
	return act(e.Ports, "Prefer", func() error { return e.Ports.Stores.Engagement().Prefer(ctx, p) })
}

func (e People) NoteConsent(ctx context.Context, org, id string, out bool, said, now time.Time) error {
	return act(e.Ports, "NoteConsent", func() error { return e.Ports.Stores.Engagement().NoteConsent(ctx, org, id, out, said, now) })
}

func (e People) Outreach(ctx context.Context, j queue.Job, now time.Time) (engagement.Due, error) {
	return call(e.Ports, "Outreach", func() (engagement.Due, error) { return e.Ports.Stores.Engagement().Outreach(ctx, j, now) })
}

func (e People) Begin(
	ctx context.Context, d engagement.Due, r engagement.Rendered, group bool, at time.Time,
) (engagement.Rendered, error) {
	if do := e.Ports.BeforeBegin; do != nil {
		e.Ports.BeforeBegin = nil
		do()
	}
	return call(e.Ports, "Begin", func() (engagement.Rendered, error) { return e.Ports.Stores.Engagement().Begin(ctx, d, r, group, at) })
}

func (e People) Unbegin(ctx context.Context, d engagement.Due, at time.Time) error {
	return act(e.Ports, "Unbegin", func() error { return e.Ports.Stores.Engagement().Unbegin(ctx, d, at) })
}

func (e People) End(ctx context.Context, end engagement.End) error {
	return act(e.Ports, "End", func() error { return e.Ports.Stores.Engagement().End(ctx, end) })
}

func (e People) Organisations(ctx context.Context) ([]string, error) {
	return read(e.Ports, "Organisations", func() ([]string, error) { return e.Ports.Stores.Engagement().Organisations(ctx) })
}

func (e People) NewestRun(ctx context.Context, org string, job rules.Job) (string, error) {
	return read(e.Ports, "NewestRun", func() (string, error) { return e.Ports.Stores.Engagement().NewestRun(ctx, org, job) })
}

func (e People) RecordRuns(ctx context.Context, org string, run *rules.Period, superseded []rules.Period, config string, now time.Time) error {
	return act(e.Ports, "RecordRuns", func() error { return e.Ports.Stores.Engagement().RecordRuns(ctx, org, run, superseded, config, now) })
}

func (e People) ClaimRun(ctx context.Context, org string, now, until time.Time) (r engagement.Run, claimed bool, err error) {
	err = act(e.Ports, "ClaimRun", func() (err error) {
		r, claimed, err = e.Ports.Stores.Engagement().ClaimRun(ctx, org, now, until)
		return err
	})
	return r, claimed, err
}

func (e People) ReleaseRun(ctx context.Context, r engagement.Run) error {
	return act(e.Ports, "ReleaseRun", func() error { return e.Ports.Stores.Engagement().ReleaseRun(ctx, r) })
}

func (e People) Candidates(ctx context.Context, of engagement.Run, times engagement.RunTimes, limit int) ([]engagement.Candidate, error) {
	return read(e.Ports, "Candidates", func() ([]engagement.Candidate, error) {
		return e.Ports.Stores.Engagement().Candidates(ctx, of, times, limit)
	})
}

func (e People) WriteBatch(ctx context.Context, b engagement.Batch, until time.Time) (engagement.Counts, error) {
	if do := e.Ports.BeforeBatch; do != nil {
		e.Ports.BeforeBatch = nil
		do()
	}
	if e.Ports.FailBatch {
		e.Ports.FailBatch = false
		return engagement.Counts{}, ErrMishap
	}
	return call(e.Ports, "WriteBatch", func() (engagement.Counts, error) { return e.Ports.Stores.Engagement().WriteBatch(ctx, b, until) })
}

func (e People) EndRun(ctx context.Context, r engagement.Run, now time.Time) error {
	return act(e.Ports, "EndRun", func() error { return e.Ports.Stores.Engagement().EndRun(ctx, r, now) })
}
