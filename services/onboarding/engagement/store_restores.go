package engagement

import (
	"context"
	"fmt"
	"time"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/engagement/rules"
)

const sqlGiveUpRun = `
insert into engagement_runs (id, org_id, job, period, nominal_at, status, config_hash, finished_at, created_at, updated_at)
values (@id, @org, @job, @period, @nominal, 'superseded', 'restored', @at, @at, @at)
on conflict on constraint engagement_runs_once do update
	set status = 'superseded', finished_at = @at, lease_token = null, lease_until = null, updated_at = @at
	where engagement_runs.status = 'running'`

// GiveUpRuns records the newest runs that began after an instant as superseded, and counts them: they were made before the database went
// back, and their messages would differ by now.
func (s *Store) GiveUpRuns(ctx context.Context, calendar rules.Calendar, since, now time.Time) (given int, err error) {
	orgs, err := s.Organisations(ctx)
	if err != nil {
		return 0, err
	}
	for _, org := range orgs {
		for job := range stages {
			p := calendar.Newest(job, now)
			if !p.Nominal.After(since) {
				continue
			}
			tag, err := s.pool.Exec(ctx, sqlGiveUpRun, postgres.Args{
				"id": newID(), "org": org, "job": string(p.Job), "period": p.Name, "nominal": p.Nominal, "at": now,
			})
			if err != nil {
				return given, fmt.Errorf("give up runs: %w", err)
			}
			given += int(tag.RowsAffected())
		}
	}
	return given, nil
}
