package runs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/people"
)

// Store keeps runs in the database.
type Store struct {
	pool   postgres.DB
	people *people.Store
	jobs   jobs
}

// jobs stores the job of a run in a transaction; conversation has them all.
type jobs func(ctx context.Context, tx pgx.Tx, n queue.New) (queue.Enqueued, error)

// NewStore returns a store on an open pool.
func NewStore(pool postgres.DB, of *people.Store) *Store {
	return &Store{pool: pool, people: of, jobs: conversation.EnqueueIn}
}

const runColumns = `r.id::text, r.org_id::text, r.flow, r.flow_version, r.status, r.reason, r.filter, r.filtering, r.filtered_to::text,
    r.consent, r.wakes, r.people, r.counts, r.created_at, r.updated_at, r.finished_at, r.created_by::text as created_by`

func collect(rows pgx.Rows, err error) (Run, error) {
	if err == nil {
		var r Run
		if r, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Run]); err == nil {
			return r, nil
		}
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return Run{}, ErrNoRun
	}
	return Run{}, fmt.Errorf("runs: %w", err)
}

const (
	sqlRun     = `select ` + runColumns + ` from flow_runs r where r.org_id = @org and r.id = @id`
	sqlLockRun = sqlRun + ` for no key update`

	sqlLockRuns = `select pg_advisory_xact_lock(hashtextextended('runs ' || @org, 0))`
	sqlByKey    = `select ` + runColumns + `, r.request_hash from flow_runs r where r.org_id = @org and r.idempotency_key = @key`
	sqlOpenRuns = `select count(*) from flow_runs where org_id = @org and finished_at is null`
	sqlCreate   = `
insert into flow_runs (id, org_id, flow, flow_version, status, filter, filtering, consent, idempotency_key, request_hash,
    created_at, updated_at)
values (@id, @org, @flow, @version, @status, @filter, @filtering, @consent, nullif(@key, ''), @hash, @at, @at)`

	// sqlAdd leaves out people who were erased meanwhile: their profile is locked until the transaction ends.
	sqlAdd = `
with added as (
    insert into flow_run_people (run_id, profile_id, org_id, status, due_at)
    select @id, p.id, @org, 'waiting', @at from profiles p where p.org_id = @org and p.id = any(@people::uuid[])
    on conflict do nothing returning 1
), counted as (
    update flow_runs set people = people + (select count(*) from added) where id = @id returning people
)
select (select count(*) from added), (select people from counted)`
)

// Made holds what a run is made with.
type Made struct {
	Key  string // idempotency key
	Hash []byte // of the request
	IDs  []string
}

// Create implements store.
func (s *Store) Create(ctx context.Context, r Run, m Made) (made Run, duplicate bool, err error) {
	args := postgres.Args{
		"id": r.ID, "org": r.OrgID, "flow": r.Flow, "version": r.FlowVersion, "status": string(r.Status), "filter": r.Filter,
		"filtering": r.Filtering, "consent": r.Consent, "key": m.Key, "hash": m.Hash, "at": r.CreatedAt,
	}
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sqlLockRuns, args); err != nil {
			return fmt.Errorf("lock the runs: %w", err)
		}
		if made, duplicate, err = s.byKey(ctx, tx, args, m); err != nil || duplicate {
			return err
		}
		var open int
		if err := tx.QueryRow(ctx, sqlOpenRuns, args).Scan(&open); err != nil {
			return fmt.Errorf("count the runs: %w", err)
		}
		if open >= MaxOpen {
			return ErrTooMany
		}
		if _, err := tx.Exec(ctx, sqlCreate, args); err != nil {
			return fmt.Errorf("make a run: %w", err)
		}
		if _, err := s.add(ctx, tx, r.OrgID, r.ID, m.IDs, r.CreatedAt); err != nil {
			return err
		}
		if made, err = collect(tx.Query(ctx, sqlRun, args)); err != nil || r.Status != Running {
			return err
		}
		return s.wake(ctx, tx, made, r.CreatedAt)
	})
	return made, duplicate, err
}

// byKey finds the run that a key has already.
func (s *Store) byKey(ctx context.Context, tx pgx.Tx, args postgres.Args, m Made) (run Run, found bool, err error) {
	if m.Key == "" {
		return run, false, nil
	}
	type keyed struct {
		Run

		RequestHash []byte
	}
	rows, err := tx.Query(ctx, sqlByKey, args)
	if err != nil {
		return run, false, fmt.Errorf("find a run by its key: %w", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByName[keyed])
	switch {
	case err != nil:
		return run, false, fmt.Errorf("find a run by its key: %w", err)
	case len(all) == 0:
		return run, false, nil
	case string(all[0].RequestHash) != string(m.Hash):
		return run, false, ErrKeyReused
	}
	return all[0].Run, true, nil
}

func (s *Store) add(ctx context.Context, tx pgx.Tx, orgID, id string, profileIDs []string, at time.Time) (added int, err error) {
	if len(profileIDs) == 0 {
		return 0, nil
	}
	var all *int
	args := postgres.Args{"id": id, "org": orgID, "people": profileIDs, "at": at}
	if err := tx.QueryRow(ctx, sqlAdd, args).Scan(&added, &all); err != nil {
		return 0, fmt.Errorf("add people to a run: %w", err)
	}
	if all != nil && *all > MaxPeople {
		return 0, ErrTooMany
	}
	return added, nil
}

// Add implements store.
func (s *Store) Add(ctx context.Context, orgID, id string, profileIDs []string, at time.Time) (added int, err error) {
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := s.locked(ctx, tx, orgID, id); err != nil {
			return err
		}
		added, err = s.add(ctx, tx, orgID, id, profileIDs, at)
		return err
	})
	return added, err
}

// locked locks a run that is not finished; ErrNoRun, ErrFinished.
func (s *Store) locked(ctx context.Context, tx pgx.Tx, orgID, id string) (Run, error) {
	r, err := collect(tx.Query(ctx, sqlLockRun, postgres.Args{"org": orgID, "id": id}))
	if err == nil && r.FinishedAt != nil {
		err = ErrFinished
	}
	return r, err
}

const sqlSwitch = `
update flow_runs set status = @to, reason = @reason, updated_at = @at, wakes = wakes + case when @to = 'running' then 1 else 0 end,
    judged_behind = case when @to = 'running' then coalesce((select p.session_id from flow_run_people p
        where p.run_id = @id and p.session_id is not null order by p.session_id desc limit 1), judged_behind) else judged_behind end,
    finished_at = case when @to = 'cancelled' then @at::timestamptz end, counts = @counts
where id = @id`

// Switch implements store.
func (s *Store) Switch(ctx context.Context, orgID, id string, to Status, reason string, at time.Time) (is Run, err error) {
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		is, err = s.locked(ctx, tx, orgID, id)
		if is.Status == to { // a repeat
			return nil
		}
		if err != nil {
			return err
		}
		args := postgres.Args{"org": orgID, "id": id, "to": string(to), "reason": reason, "at": at, "counts": nil}
		if to == Cancelled {
			counts, err := count(ctx, tx, id)
			if err != nil {
				return err
			}
			args["counts"] = counts
		}
		if _, err := tx.Exec(ctx, sqlSwitch, args); err != nil {
			return fmt.Errorf("switch a run: %w", err)
		}
		if is, err = collect(tx.Query(ctx, sqlRun, args)); err != nil || to != Running {
			return err
		}
		return s.wake(ctx, tx, is, at)
	})
	return is, err
}

// wake stores the job that works on a run.
func (s *Store) wake(ctx context.Context, tx pgx.Tx, r Run, at time.Time) error {
	job, err := newJob(r, at)
	if err == nil {
		_, err = s.jobs(ctx, tx, job)
	}
	return err
}

// Run implements store; ErrNoRun.
func (s *Store) Run(ctx context.Context, orgID, id string) (Run, error) {
	return collect(s.pool.Query(ctx, sqlRun, postgres.Args{"org": orgID, "id": id}))
}

const sqlList = `select ` + runColumns + ` from flow_runs r
where r.org_id = @org and (@flow = '' or r.flow = @flow) and (@before = '' or r.id < nullif(@before, '')::uuid)
order by r.id desc limit @limit`

// List implements store.
func (s *Store) List(ctx context.Context, orgID, flow, before string, limit int) ([]Run, error) {
	rows, err := s.pool.Query(ctx, sqlList, postgres.Args{"org": orgID, "flow": flow, "before": before, "limit": limit})
	if err == nil {
		var found []Run
		if found, err = pgx.CollectRows(rows, pgx.RowToStructByName[Run]); err == nil {
			return found, nil
		}
	}
	return nil, fmt.Errorf("list runs: %w", err)
}

const sqlCount = `select status, reason, count(*) from flow_run_people where run_id = $1 group by 1, 2`

// Count implements store.
func (s *Store) Count(ctx context.Context, id string) (Counts, error) { return count(ctx, s.pool, id) }

func count(ctx context.Context, db postgres.DB, id string) (Counts, error) {
	all := Counts{LeftOut: map[Reason]int{}}
	rows, err := db.Query(ctx, sqlCount, id)
	if err != nil {
		return all, fmt.Errorf("count the people of a run: %w", err)
	}
	var status, reason string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&status, &reason, &n}, func() error {
		all.People += n
		switch status {
		case "waiting":
			all.Waiting += n
		case "left_out":
			all.LeftOut[Reason(reason)] += n
		default:
			all.Started += n
		}
		return nil
	})
	if err != nil {
		return all, fmt.Errorf("count the people of a run: %w", err)
	}
	return all, nil
}
