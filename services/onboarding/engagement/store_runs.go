package engagement

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/engagement/rules"
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

// Organisations are those that have people.
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

// sqlWriteRun is how far a run came. sqlHoldRun is its fence: it holds the row until the end of the transaction.
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

var sqlPeopleOfRun = strings.NewReplacer("k.org", "@org::uuid", "k.cause", "@cause::text", "k.job", "@job::uuid").Replace(sqlPerson) +
	`p.id = any(@profiles::uuid[])`

const sqlActed = `
select profile_id::text, count(*) from engagement_actions
where org_id = @org and profile_id = any(@profiles::uuid[]) and occurred_at >= @since and occurred_at < @nominal
group by profile_id`

// Candidates are the next people of a stage: who they are in one statement, and all that decides in another.
func (s *Store) Candidates(
	ctx context.Context, of Run, times RunTimes, limit int,
) ([]Candidate, error) {
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

// sqlMoveAll is the transitions of a batch. Its guard is the whole reason of each: the person stands where they were read, and no message
// of theirs waits.
const sqlMoveAll = `
with i as (
    select i.profile_id, i.id, i.was, i.newest, i.was_activity, i.was_expires, i."to", i.sent, i.trigger, i.metadata, i.happened
    from unnest(@profiles::uuid[], @ids::uuid[], @was::text[], @newest::uuid[], @was_activity::timestamptz[],
        @was_expires::timestamptz[], @to::text[], @sent::timestamptz[], @triggers::text[], @metadata::text[], @happened::timestamptz[])
    i (profile_id, id, was, newest, was_activity, was_expires, "to", sent, trigger, metadata, happened)
), moved as (
    update user_engagement_states u
    set state = i."to", goodbye_sent_at = i.sent, goodbye_expires_at = null, remind_at = null, transition_id = i.id, updated_at = @at
    from i
    where u.org_id = @org and u.profile_id = i.profile_id and u.profile_id = any(@profiles::uuid[]) and u.state = i.was
      and u.transition_id is not distinct from i.newest and u.last_activity_at = i.was_activity
      and u.goodbye_expires_at is not distinct from i.was_expires
      and not exists (select from webhook_jobs j join profiles p on p.org_id = j.org_id and p.phone = j.subject
          where p.id = u.profile_id and j.org_id = u.org_id and j.status in ('pending', 'processing') and j.subject <> '')
    returning u.profile_id
), audited as (
    insert into engagement_state_transitions (id, org_id, profile_id, from_state, to_state, trigger, cause, metadata, created_at)
    select i.id, @org, i.profile_id, i.was, i."to", i.trigger, @cause, i.metadata::jsonb, i.happened from i join moved using (profile_id)
)
select profile_id::text from moved`

// sqlQueueAll is the outreach of a batch; a key that there is already is left as it is.
const sqlQueueAll = `
insert into engagement_outreach (id, org_id, idempotency_key, event_type, subject, payload, priority, status, next_retry_at, profile_id,
    transition_id, message_key, destination, local_day, scheduled_for, expires_at, created_at, updated_at)
select i.id, @org, i.key, i.type, p.phone, i.payload::jsonb, 1, 'pending', i.due, p.id, i.transition, i.message_key,
    p.preferred_destination, i.local_day::date, i.due, i.expires, @at, @at
from unnest(@ids::uuid[], @profiles::uuid[], @keys::text[], @types::text[], @payloads::text[], @due::timestamptz[], @transitions::uuid[],
    @message_keys::text[], @local_days::text[], @expires::timestamptz[])
    i (id, profile_id, key, type, payload, due, transition, message_key, local_day, expires)
join profiles p on p.org_id = @org and p.id = i.profile_id
where p.id = any(@profiles::uuid[])
on conflict (org_id, idempotency_key) do nothing
returning idempotency_key, id::text`

const sqlTellAll = `
insert into event_outbox (event_id, org_id, type, subject, time, causation_id, data)
select i.id, @org, i.type, i.profile, i.happened, @cause, i.data::jsonb
from unnest(@ids::uuid[], @types::text[], @profiles::text[], @happened::timestamptz[], @data::text[]) i (id, type, profile, happened, data)`

// sqlByIndexes keeps the batch, and what Postgres itself looks up for its foreign keys, from the plans that it has made for tables which
// were empty then: they read all of a table for each row, and a connection keeps them until the table is analyzed.
const sqlByIndexes = `set local enable_seqscan = off`

const sqlHoldRun = `select from engagement_runs where org_id = @org and id = @id and lease_token = @token for update`

// WriteBatch writes a batch of a run: the transitions whose people stand where they were read, with their outreach and events.
func (s *Store) WriteBatch(ctx context.Context, b Batch, until time.Time) (counts Counts, err error) {
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sqlByIndexes); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, sqlHoldRun, postgres.Args{"org": b.Run.OrgID, "id": b.Run.ID, "token": b.Run.Token})
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return ErrRunLost
		}
		decided := len(b.Changes)
		if b.Changes, err = notQueued(ctx, tx, b); err != nil {
			return err
		}
		changed, err := writeChanges(ctx, tx, b)
		if err != nil {
			return err
		}
		b.Run.Counts = b.Run.Counts.Wrote(len(b.Changes), changed, decided-len(b.Changes))
		return writeRun(ctx, tx, b.Run, b.Now, until)
	})
	if err != nil {
		return Counts{}, fmt.Errorf("write a batch of a run: %w", err)
	}
	return b.Run.Counts, nil
}

const sqlQueuedKeys = `select idempotency_key from engagement_outreach where org_id = @org and idempotency_key = any(@keys::text[])`

// notQueued leaves out the changes whose message has been queued before, by an earlier run of the day. Without a message to answer, the
// person must not move. A promised reminder is left in: who was reminded is dormant.
func notQueued(ctx context.Context, tx pgx.Tx, b Batch) ([]Change, error) {
	keys := []string{}
	for _, c := range b.Changes {
		for _, o := range c.Outreach {
			if o.Type != rules.Reminder {
				keys = append(keys, o.Key)
			}
		}
	}
	if len(keys) == 0 {
		return b.Changes, nil
	}
	rows, err := tx.Query(ctx, sqlQueuedKeys, postgres.Args{"org": b.Run.OrgID, "keys": keys})
	if err != nil {
		return nil, err
	}
	queued, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	left := []Change{}
	for _, c := range b.Changes {
		if !slices.ContainsFunc(c.Outreach, func(o Outreach) bool { return slices.Contains(queued, o.Key) }) {
			left = append(left, c)
		}
	}
	return left, nil
}

func writeChanges(ctx context.Context, tx pgx.Tx, b Batch) (changed int, err error) {
	if len(b.Changes) == 0 {
		return 0, nil
	}
	transitions, moves := map[string]string{}, columns{}
	for _, c := range b.Changes {
		if len(c.Moves) == 0 {
			continue
		}
		m, id := c.Moves[0], newID()
		metadata, err := json.Marshal(m.Audit.Metadata)
		if err != nil {
			return 0, err
		}
		transitions[c.View.ProfileID] = id
		was := c.View.Person
		moves.add("profiles", c.View.ProfileID, "ids", id, "was", string(was.State), "newest", orNoID(c.View.TransitionID),
			"was_activity", was.LastActivityAt, "was_expires", postgres.NullIfZero(was.GoodbyeExpiresAt), "to", string(m.Person.State),
			"sent", postgres.NullIfZero(m.Person.GoodbyeSentAt), "triggers", string(m.Audit.Trigger), "metadata", string(metadata), "happened", m.Audit.At)
	}
	moved := map[string]bool{}
	if len(transitions) > 0 {
		rows, err := tx.Query(ctx, sqlMoveAll, moves.args(b))
		if err != nil {
			return 0, err
		}
		var id string
		if _, err := pgx.ForEachRow(rows, []any{&id}, func() error { moved[id] = true; return nil }); err != nil {
			return 0, err
		}
	}
	return followAll(ctx, tx, b, transitions, moved)
}

// followAll writes what follows from the transitions of a batch, and what has no transition.
func followAll(ctx context.Context, tx pgx.Tx, b Batch, transitions map[string]string, moved map[string]bool) (int, error) {
	queued, told := columns{}, columns{}
	for _, c := range b.Changes {
		if len(c.Moves) > 0 && !moved[c.View.ProfileID] {
			continue
		}
		for _, o := range c.Outreach {
			params, err := json.Marshal(o.Params)
			if err != nil {
				return 0, err
			}
			queued.add("ids", newID(), "profiles", c.View.ProfileID, "keys", o.Key, "types", string(o.Type), "payloads", string(params),
				"due", o.DueAt, "transitions", orNoID(transitions[c.View.ProfileID]), "message_keys", o.MessageKey, "local_days", o.LocalDay,
				"expires", o.ExpiresAt)
		}
		for _, e := range c.Events {
			data, err := json.Marshal(e.Data)
			if err != nil {
				return 0, err
			}
			told.add("ids", newID(), "types", e.Type, "profiles", c.View.ProfileID, "happened", e.Time, "data", string(data))
		}
	}
	changed := len(moved)
	if len(queued) > 0 {
		n, err := queueAll(ctx, tx, b, queued)
		if err != nil {
			return 0, err
		}
		if len(transitions) == 0 {
			changed = n
		}
	}
	if len(told) > 0 {
		if _, err := tx.Exec(ctx, sqlTellAll, told.args(b)); err != nil {
			return 0, err
		}
	}
	return changed, nil
}

// queueAll queues outreach, sets the ids of the rows in the batch, and returns how many there are.
func queueAll(ctx context.Context, tx pgx.Tx, b Batch, queued columns) (int, error) {
	rows, err := tx.Query(ctx, sqlQueueAll, queued.args(b))
	if err != nil {
		return 0, err
	}
	ids := map[string]string{}
	var key, id string
	if _, err := pgx.ForEachRow(rows, []any{&key, &id}, func() error { ids[key] = id; return nil }); err != nil {
		return 0, err
	}
	for _, c := range b.Changes {
		for i, o := range c.Outreach {
			c.Outreach[i].ID = ids[o.Key]
		}
	}
	return len(ids), nil
}

// columns are the arguments of a statement over many rows, an array for each column.
type columns map[string][]any

// add adds a row: the names and values of its columns in turn.
func (c columns) add(row ...any) {
	for i := 0; i+1 < len(row); i += 2 {
		name, _ := row[i].(string)
		c[name] = append(c[name], row[i+1])
	}
}

func (c columns) args(b Batch) postgres.Args {
	args := postgres.Args{"org": b.Run.OrgID, "at": b.Now, "cause": "run:" + b.Run.ID}
	for name, values := range c {
		args[name] = values
	}
	return args
}

func orNoID(id string) any {
	if id == "" {
		return nil
	}
	return id
}
