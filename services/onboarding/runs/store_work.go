package runs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/people"
)

const sqlFiltered = `
update flow_runs set filtered_to = @to, filtering = not @last, updated_at = @at
where id = @id and filtering and filtered_to = @from and finished_at is null`

// Filtered implements store. Of two processes that ask the same people one moves the place, and the other adds nobody.
func (s *Store) Filtered(ctx context.Context, r Run, to string, met []string, last bool, at time.Time) error {
	return postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		moved, err := tx.Exec(ctx, sqlFiltered, postgres.Args{"id": r.ID, "from": r.FilteredTo, "to": to, "last": last, "at": at})
		if err != nil {
			return fmt.Errorf("note whom a filter was asked of: %w", err)
		}
		if moved.RowsAffected() == 0 {
			return nil
		}
		_, err = s.add(ctx, tx, r.OrgID, r.ID, met, at)
		return err
	})
}

// A statement that has the ids compares the status as an expression, which no index has. If it did not, the planner would take the index of
// everybody who waits where it plans for an empty table.
const (
	sqlDue = `select profile_id::text from flow_run_people where run_id = @id and status = 'waiting' and due_at <= @now
order by due_at, profile_id limit @limit`

	sqlNext = `select due_at from flow_run_people where run_id = @id and status = 'waiting' order by due_at limit 1`

	sqlOpening = `select session_id::text from flow_run_people where run_id = @id and status = 'opening' limit @limit`

	sqlOpened = `update flow_run_people set status = 'started'
where run_id = @id and status || '' = 'opening' and session_id = any(@sessions::uuid[])`

	sqlLeaveOut = `update flow_run_people set status = 'left_out', reason = @reason
where run_id = @id and status || '' = 'waiting' and profile_id = any(@people::uuid[])`

	sqlDelay = `update flow_run_people set due_at = @until
where run_id = @id and status || '' = 'waiting' and profile_id = any(@people::uuid[])`
)

// Due implements store.
func (s *Store) Due(ctx context.Context, id string, limit int, now time.Time) ([]string, error) {
	return s.texts(ctx, sqlDue, postgres.Args{"id": id, "limit": limit, "now": now})
}

// Opening implements store.
func (s *Store) Opening(ctx context.Context, id string, limit int) ([]string, error) {
	return s.texts(ctx, sqlOpening, postgres.Args{"id": id, "limit": limit})
}

// texts reads in the order of an index. A sort of everybody who waits took 39 ms for each batch, with 100,000 people.
func (s *Store) texts(ctx context.Context, sql string, args postgres.Args) ([]string, error) {
	found, err := postgres.AllInOrder(ctx, s.pool, sql, args, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("read the people of a run: %w", err)
	}
	return found, nil
}

// Next implements store.
func (s *Store) Next(ctx context.Context, id string) (at time.Time, waits bool, err error) {
	err = s.pool.QueryRow(ctx, sqlNext, postgres.Args{"id": id}).Scan(&at)
	if errors.Is(err, pgx.ErrNoRows) {
		return at, false, nil
	}
	if err != nil {
		return at, false, fmt.Errorf("read who is next in a run: %w", err)
	}
	return at, true, nil
}

// Opened implements store.
func (s *Store) Opened(ctx context.Context, id string, sessionIDs []string) error {
	return s.change(ctx, sqlOpened, postgres.Args{"id": id, "sessions": sessionIDs})
}

// LeaveOut implements store.
func (s *Store) LeaveOut(ctx context.Context, id string, out map[Reason][]string) error {
	for _, reason := range slices.Sorted(maps.Keys(out)) {
		if err := s.change(ctx, sqlLeaveOut, postgres.Args{"id": id, "people": out[reason], "reason": string(reason)}); err != nil {
			return err
		}
	}
	return nil
}

// Delay implements store.
func (s *Store) Delay(ctx context.Context, id string, until map[time.Time][]string) error {
	for at, profileIDs := range until {
		if err := s.change(ctx, sqlDelay, postgres.Args{"id": id, "people": profileIDs, "until": at}); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) change(ctx context.Context, sql string, args postgres.Args) error {
	if _, err := s.pool.Exec(ctx, sql, args); err != nil {
		return fmt.Errorf("change the people of a run: %w", err)
	}
	return nil
}

// sqlRetry waits longer after each try. Who was tried so often is left out: a run would never end otherwise.
const sqlRetry = `
update flow_run_people set tries = tries + 1, due_at = @at::timestamptz + @again::interval * (tries + 1),
    status = case when tries + 1 >= @most then 'left_out' else status end,
    reason = case when tries + 1 >= @most then '` + string(Failed) + `' else reason end
where run_id = @id and status || '' = 'waiting' and profile_id = any(@people::uuid[])`

// Retry implements store.
func (s *Store) Retry(ctx context.Context, id string, profileIDs []string, at time.Time) error {
	if len(profileIDs) == 0 {
		return nil
	}
	return s.change(ctx, sqlRetry, postgres.Args{"id": id, "people": profileIDs, "at": at, "again": retryPerson, "most": mostTries})
}

const sqlBegun = `
select p.profile_id::text, p.session_id::text from flow_run_people p
where p.run_id = @id and p.session_id is not null and p.session_id > (select r.judged_behind from flow_runs r where r.id = @id)
order by p.session_id desc limit @limit`

// Begun implements store.
func (s *Store) Begun(ctx context.Context, id string) ([]Begun, error) {
	rows, err := s.pool.Query(ctx, sqlBegun, postgres.Args{"id": id, "limit": maxUnsent})
	if err == nil {
		var found []Begun
		if found, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Begun]); err == nil {
			return found, nil
		}
	}
	return nil, fmt.Errorf("read whom a run began with: %w", err)
}

const sqlStop = `
update flow_runs set status = 'paused', reason = @reason, updated_at = @at
where org_id = @org and id = @id and status = 'running' and wakes = @wakes`

// Stop implements store.
func (s *Store) Stop(ctx context.Context, r Run, reason string, at time.Time) (bool, error) {
	tag, err := s.pool.Exec(ctx, sqlStop, postgres.Args{"org": r.OrgID, "id": r.ID, "wakes": r.Wakes, "reason": reason, "at": at})
	if err != nil {
		return false, fmt.Errorf("stop a run: %w", err)
	}
	return tag.RowsAffected() > 0, nil
}

// sqlRevived locks runs that have no job. Another process that is at one of them is not waited for.
const sqlRevived = `
update flow_runs r set wakes = r.wakes + 1, updated_at = @at
where r.id in (select f.id from flow_runs f where f.status = 'running' and f.finished_at is null
    and not exists (select from webhook_jobs j
        where j.org_id = f.org_id and j.subject = 'run:' || f.id and j.status in ('pending', 'processing'))
    order by f.id limit 100 for no key update skip locked)
returning ` + runColumns

// Revive implements store.
func (s *Store) Revive(ctx context.Context, at time.Time) (n int, err error) {
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sqlRevived, postgres.Args{"at": at})
		if err != nil {
			return fmt.Errorf("find runs without a job: %w", err)
		}
		found, err := pgx.CollectRows(rows, pgx.RowToStructByName[Run])
		if err != nil {
			return fmt.Errorf("find runs without a job: %w", err)
		}
		n = len(found)
		for _, r := range found {
			if err := s.wake(ctx, tx, r, at); err != nil {
				return err
			}
		}
		return nil
	})
	return n, err
}

const (
	sqlWaits  = `select exists (select from flow_run_people where run_id = $1 and status = 'waiting')`
	sqlFinish = `update flow_runs set status = @status, counts = @counts, updated_at = @at, finished_at = @at where id = @id`
	sqlWorked = `select ` + runColumns + ` from flow_runs r where r.id = $1 and r.status = 'running' and not r.filtering for no key update`
)

// Finish implements store. The run is locked before it is asked who waits, so that nobody is added meanwhile.
func (s *Store) Finish(ctx context.Context, id string, at time.Time) (done bool, err error) {
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		done = false
		if _, err := collect(tx.Query(ctx, sqlWorked, id)); err != nil {
			if errors.Is(err, ErrNoRun) { // it is paused, or finished already
				return nil
			}
			return err
		}
		var waits bool
		if err := tx.QueryRow(ctx, sqlWaits, id).Scan(&waits); err != nil || waits {
			return err
		}
		counts, err := count(ctx, tx, id)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, sqlFinish, postgres.Args{"id": id, "status": string(Completed), "counts": counts, "at": at}); err != nil {
			return fmt.Errorf("complete a run: %w", err)
		}
		done = true
		return nil
	})
	return done, err
}

// sqlStart is the one place at which a run starts a person. It is part of the transaction that opens their session, so neither is without
// the other. Its lock makes a pause wait for it: a run starts nobody once a pause or cancellation was answered.
const sqlStart = `
update flow_run_people p set status = 'opening', session_id = @session
where p.run_id = @id and p.profile_id = @person and p.status || '' = 'waiting'
  and exists (select from flow_runs r where r.id = @id and r.status = 'running' for share)`

// Starts implements store.
func (s *Store) Starts(id, profileID string, opened *bool) conversation.Within {
	return func(ctx context.Context, tx pgx.Tx, sessionID string) error {
		tag, err := tx.Exec(ctx, sqlStart, postgres.Args{"id": id, "person": profileID, "session": sessionID})
		if err != nil {
			return fmt.Errorf("start a person of a run: %w", err)
		}
		if *opened = tag.RowsAffected() > 0; !*opened {
			return errNotRunning
		}
		return nil
	}
}

// Paused implements store: it reports whether an operator has paused the organisation.
func (s *Store) Paused(ctx context.Context, orgID string) (paused bool, err error) {
	if err := s.pool.QueryRow(ctx, `select `+people.SQLPaused+`$1)`, orgID).Scan(&paused); err != nil {
		return false, fmt.Errorf("read whether the organisation is paused: %w", err)
	}
	return paused, nil
}
