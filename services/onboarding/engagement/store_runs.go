package engagement

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/engagement/rules"
	"paceline.internal/services/onboarding/people"
)

// sqlOrganisations goes from one organisation to the next in the index, however many people each has.
const sqlOrganisations = `
with recursive org as (
    (select org_id from user_engagement_states order by org_id limit 1)
    union all
    select (select u.org_id from user_engagement_states u where u.org_id > org.org_id order by u.org_id limit 1)
    from org where org.org_id is not null
)
select org_id::text from org where org_id is not null`

// Organisations lists the organisations that have people.
func (s *Store) Organisations(ctx context.Context) ([]string, error) {
	rows, err := s.pool.Query(ctx, sqlOrganisations)
	if err != nil {
		return nil, fmt.Errorf("read the organisations: %w", err)
	}
	orgs, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("read the organisations: %w", err)
	}
	return orgs, nil
}

// NewestRun is the newest recorded period of a job. Names sort as their periods do.
func (s *Store) NewestRun(ctx context.Context, orgID string, job rules.Job) (name string, err error) {
	const sql = `select coalesce(max(period), '') from engagement_runs where org_id = $1 and job = $2`
	if err := s.pool.QueryRow(ctx, sql, orgID, string(job)).Scan(&name); err != nil {
		return "", fmt.Errorf("read the newest run: %w", err)
	}
	return name, nil
}

const sqlRecordRun = `
insert into engagement_runs (id, org_id, job, period, nominal_at, status, config_hash, finished_at, created_at, updated_at)
values (@id, @org, @job, @period, @nominal, @status, @config, case when @status <> 'running' then @at::timestamptz end, @at, @at)
on conflict on constraint engagement_runs_once do nothing`

// sqlSupersede ends what was left open of older periods, unless it is being worked on.
const sqlSupersede = `
update engagement_runs set status = 'superseded', finished_at = @at, lease_token = null, lease_until = null, updated_at = @at
where org_id = @org and job = @job and period < @period and status = 'running' and (lease_until is null or lease_until < @at)`

// RecordRuns records periods, each once.
func (s *Store) RecordRuns(
	ctx context.Context, orgID string, run *rules.Period, superseded []rules.Period, config string, now time.Time,
) error {
	var batch pgx.Batch
	record := func(p rules.Period, status string) {
		batch.Queue(sqlRecordRun, postgres.Args{
			"id": newID(), "org": orgID, "job": string(p.Job), "period": p.Name, "nominal": p.Nominal, "status": status, "config": config, "at": now,
		})
	}
	for _, p := range superseded {
		record(p, RunSuperseded)
	}
	if run != nil {
		record(*run, RunRunning)
		batch.Queue(sqlSupersede, postgres.Args{"org": orgID, "job": string(run.Job), "period": run.Name, "at": now})
	}
	if err := s.pool.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("record runs: %w", err)
	}
	return nil
}

const runColumns = `id::text, job, period, nominal_at, status, stage, cursor, processed, succeeded, failed, skipped, worked_ms,
    finished_at, created_at`

// sqlClaimRun passes over a run that another replica is claiming.
const sqlClaimRun = `
update engagement_runs set lease_token = @token, lease_until = @until, fence = fence + 1, updated_at = @at
where id = (
    select id from engagement_runs where org_id = @org and status = 'running' and (lease_until is null or lease_until < @at)
    order by nominal_at, id limit 1 for update skip locked)
returning ` + runColumns

// ClaimRun leases the oldest open run of an organisation.
func (s *Store) ClaimRun(ctx context.Context, orgID string, now, until time.Time) (Run, bool, error) {
	token := uuid.Must(uuid.NewRandom()).String()
	found, err := s.runs(ctx, orgID, sqlClaimRun, postgres.Args{"org": orgID, "token": token, "until": until, "at": now})
	if err != nil || len(found) == 0 {
		return Run{}, false, err
	}
	r := found[0]
	r.Token = token
	return r, true, nil
}

func (s *Store) runs(ctx context.Context, orgID, sql string, args postgres.Args) ([]Run, error) {
	rows, err := s.pool.Query(ctx, sql, args)
	if err != nil {
		return nil, fmt.Errorf("read runs: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Run, error) { return toRun(row, orgID) })
	if err != nil {
		return nil, fmt.Errorf("read runs: %w", err)
	}
	return found, nil
}

func toRun(row pgx.CollectableRow, orgID string) (r Run, err error) {
	var job, stage, cursor string
	var skipped []byte
	var worked int64
	var ended *time.Time
	r.OrgID = orgID
	if err := row.Scan(&r.ID, &job, &r.Period.Name, &r.Period.Nominal, &r.Status, &stage, &cursor, &r.Counts.Processed, &r.Counts.Succeeded,
		&r.Counts.Failed, &skipped, &worked, &ended, &r.Started); err != nil {
		return r, err
	}
	r.Period.Job, r.Stage, r.Ended = rules.Job(job), Stage(stage), postgres.TimeOf(ended)
	r.Counts.Worked = time.Duration(worked) * time.Millisecond
	if cursor != "" {
		err = json.Unmarshal([]byte(cursor), &r.Cursor)
	}
	return r, errors.Join(err, json.Unmarshal(skipped, &r.Counts.Skipped))
}

const sqlReleaseRun = `
update engagement_runs set lease_token = null, lease_until = null where org_id = @org and id = @id and lease_token = @token`

// ReleaseRun gives a run back, if it is still had.
func (s *Store) ReleaseRun(ctx context.Context, r Run) error {
	if _, err := s.pool.Exec(ctx, sqlReleaseRun, postgres.Args{"org": r.OrgID, "id": r.ID, "token": r.Token}); err != nil {
		return fmt.Errorf("release a run: %w", err)
	}
	return nil
}

// sqlWriteRun writes the cursor of a run. sqlHoldRun is its fence: it holds the row until the end of the transaction.
const sqlWriteRun = `
update engagement_runs set stage = @stage, cursor = @cursor, processed = @processed, succeeded = @succeeded, failed = @failed,
    skipped = @skipped, worked_ms = @worked, lease_until = @until, updated_at = @at
where org_id = @org and id = @id`

func writeRun(ctx context.Context, tx pgx.Tx, r Run, now, until time.Time) error {
	cursor, cursorErr := json.Marshal(r.Cursor)
	skipped, skippedErr := json.Marshal(r.Counts.Skipped)
	if err := errors.Join(cursorErr, skippedErr); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, sqlWriteRun, postgres.Args{
		"org": r.OrgID, "id": r.ID, "stage": string(r.Stage), "cursor": string(cursor), "processed": r.Counts.Processed,
		"succeeded": r.Counts.Succeeded, "failed": r.Counts.Failed, "skipped": skipped, "worked": r.Counts.Worked.Milliseconds(),
		"until": until, "at": now,
	})
	return err
}

const sqlEndRun = `
update engagement_runs set status = 'completed', finished_at = @at, lease_token = null, lease_until = null, worked_ms = @worked,
    updated_at = @at
where org_id = @org and id = @id and lease_token = @token`

// EndRun ends a run; ErrRunLost.
func (s *Store) EndRun(ctx context.Context, r Run, now time.Time) error {
	tag, err := s.pool.Exec(ctx, sqlEndRun, postgres.Args{
		"org": r.OrgID, "id": r.ID, "token": r.Token, "at": now, "worked": r.Counts.Worked.Milliseconds(),
	})
	if err != nil {
		return fmt.Errorf("end a run: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return ErrRunLost
	}
	return nil
}

const sqlListRuns = `select ` + runColumns + ` from engagement_runs
where org_id = @org and (@job = '' or job = @job) and (@before = '' or id < nullif(@before, '')::uuid)
order by id desc limit @limit`

// Runs lists the runs of an organisation, newest first; an empty job is all.
func (s *Store) Runs(ctx context.Context, orgID, job, before string, limit int) ([]Run, error) {
	return s.runs(ctx, orgID, sqlListRuns, postgres.Args{"org": orgID, "job": job, "before": before, "limit": limit})
}

// sqlStages choose the people of a stage, in the order of an index.
var sqlStages = map[Stage]string{
	StageReminders: `
select u.profile_id::text, u.remind_at from user_engagement_states u
where u.org_id = @org and u.remind_at is not null and u.remind_at <= @nominal and (u.remind_at, u.profile_id) > (@at, @after)
order by u.remind_at, u.profile_id limit @limit`,
	StageTimeouts: `
select u.profile_id::text, '0001-01-01'::timestamptz from user_engagement_states u
where u.org_id = @org and u.state = 'goodbye_sent' and u.profile_id > @after
order by u.profile_id limit @limit`,
	StageInactivity: `
select u.profile_id::text, u.last_activity_at from user_engagement_states u
where u.org_id = @org and u.state in ('active', 'help_flow') and u.state = 'active' and u.last_activity_at <= @idle
  and (u.last_activity_at, u.profile_id) > (@at, @after)
order by u.last_activity_at, u.profile_id limit @limit`,
	StageReviews: `
select u.profile_id::text, u.last_activity_at from user_engagement_states u
where u.org_id = @org and u.state in ('active', 'help_flow') and u.last_activity_at >= @since and u.created_at <= @nominal
  and (u.last_activity_at, u.profile_id) > (@at, @after)
order by u.last_activity_at, u.profile_id limit @limit`,
}

// sqlPeopleOfRun leaves out the rules and the texts of each person: the run has read the rules once, and renders nothing.
var sqlPeopleOfRun = strings.NewReplacer(
	people.SQLEngagement, "null::jsonb", people.SQLEngagementTexts, "null::jsonb",
	"k.org", "@org::uuid", "k.cause", "@cause::text", "k.job", "@job::uuid",
).Replace(sqlPerson) +
	`p.id = any(@profiles::uuid[])`

const sqlActed = `
select profile_id::text, count(*) from engagement_actions
where org_id = @org and profile_id = any(@profiles::uuid[]) and occurred_at >= @since and occurred_at < @nominal
group by profile_id`

// Candidates are the next people of a stage: who they are in one statement, and all that decides in another.
func (s *Store) Candidates(ctx context.Context, of Run, times RunTimes, limit int) ([]Candidate, error) {
	after := of.Cursor.ProfileID
	if after == "" {
		after = uuid.Nil.String()
	}
	args := postgres.Args{
		"org": of.OrgID, "nominal": of.Period.Nominal, "idle": times.Idle, "since": times.Since, "at": of.Cursor.At, "after": after,
		"limit": limit, "cause": "", "job": uuid.Nil,
	}
	rows, err := s.pool.Query(ctx, sqlStages[of.Stage], args)
	if err != nil {
		return nil, fmt.Errorf("read people for a run: %w", err)
	}
	cursors, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c Cursor, err error) {
		err = row.Scan(&c.ProfileID, &c.At)
		return c, err
	})
	if err != nil || len(cursors) == 0 {
		return nil, err
	}
	profiles := make([]string, len(cursors))
	for i, c := range cursors {
		profiles[i] = c.ProfileID
	}
	args["profiles"] = profiles
	views, err := s.people(ctx, args)
	if err != nil {
		return nil, err
	}
	acted := map[string]int{}
	if of.Stage == StageReviews {
		if acted, err = s.acted(ctx, args); err != nil {
			return nil, err
		}
	}
	found := make([]Candidate, len(cursors))
	for i, c := range cursors {
		found[i] = views[c.ProfileID]
		found[i].Cursor, found[i].Actions = c, acted[c.ProfileID]
	}
	return found, nil
}

func (s *Store) people(ctx context.Context, args postgres.Args) (map[string]Candidate, error) {
	rows, err := s.pool.Query(ctx, sqlPeopleOfRun, args)
	if err != nil {
		return nil, fmt.Errorf("read people for a run: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[personRow])
	if err != nil {
		return nil, fmt.Errorf("read people for a run: %w", err)
	}
	orgID, _ := args["org"].(string)
	views := make(map[string]Candidate, len(found))
	for _, r := range found {
		v, err := r.view(orgID)
		views[r.ProfileID] = Candidate{View: v, Unreadable: err}
	}
	return views, nil
}

func (s *Store) acted(ctx context.Context, args postgres.Args) (map[string]int, error) {
	rows, err := s.pool.Query(ctx, sqlActed, args)
	if err != nil {
		return nil, fmt.Errorf("count actions: %w", err)
	}
	counts := map[string]int{}
	var profile string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&profile, &n}, func() error {
		counts[profile] = n
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count actions: %w", err)
	}
	return counts, nil
}
