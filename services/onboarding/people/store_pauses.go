package people

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
)

// SchedulingPause says why the alarms of an organisation are not published.
type SchedulingPause struct {
	Suspended bool // the organisation is; its operators cannot lift that
	Since     time.Time
	By        *string // the actor, see audit.Read
	Reason    string
}

// SQLPauses selects why scheduling of organisations is paused. Who suspended one is not for its operators. The pause of its operators goes
// on when it is resumed, so the suspension is shown first.
const SQLPauses = `
select org_id, true as suspended, changed_at as paused_at, null::jsonb as paused_by, reason
from organisations where status <> 'active' or wanted <> 'active'
union all
select org_id, false, paused_at, paused_by, reason from scheduling_pauses`

const sqlPause = `
select suspended, paused_at, paused_by::text, reason from (` + SQLPauses + `) z where org_id = $1 order by suspended desc limit 1`

// SchedulingPause reads the pause of an organisation; nil of one that is not paused.
func (s *Store) SchedulingPause(ctx context.Context, orgID string) (*SchedulingPause, error) {
	return pauseOf(ctx, s.pool, orgID)
}

func pauseOf(ctx context.Context, db postgres.DB, orgID string) (*SchedulingPause, error) {
	var p SchedulingPause
	err := db.QueryRow(ctx, sqlPause, orgID).Scan(&p.Suspended, &p.Since, &p.By, &p.Reason)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // no pause is no error
	}
	if err != nil {
		return nil, fmt.Errorf("read a pause: %w", err)
	}
	return &p, nil
}

// sqlPauseScheduling leaves a pause that holds as it is, with two exceptions: a pause of PauseAll becomes that of the first operator who
// asks for one, and then only operators lift it; and one without a reason takes the first that is given. The statement returns a row
// because it updates one.
const sqlPauseScheduling = `
insert into scheduling_pauses as z (org_id, reason, paused_at, paused_by) values (@org, @reason, @at, current_actor())
on conflict (org_id) do update set paused_by = coalesce(z.paused_by, excluded.paused_by),
    reason = case when z.reason = '' or z.paused_by is null and excluded.paused_by is not null then excluded.reason else z.reason end
returning paused_at, paused_by::text, reason`

// PauseScheduling pauses an organisation from the next statement of any replica on, and returns the pause that holds.
func (s *Store) PauseScheduling(ctx context.Context, orgID, reason string, at time.Time) (p SchedulingPause, err error) {
	args := postgres.Args{"org": orgID, "reason": reason, "at": at}
	if err := s.pool.QueryRow(ctx, sqlPauseScheduling, args).Scan(&p.Since, &p.By, &p.Reason); err != nil {
		return SchedulingPause{}, fmt.Errorf("pause scheduling: %w", err)
	}
	return p, nil
}

// sqlPauseAll leaves pauses that hold as they are.
const sqlPauseAll = `
insert into scheduling_pauses (org_id, reason, paused_at)
select distinct org_id, @reason, @at::timestamptz from profiles on conflict do nothing`

// PauseAll pauses every organisation that is not paused.
func (s *Store) PauseAll(ctx context.Context, reason string, at time.Time) error {
	if _, err := s.pool.Exec(ctx, sqlPauseAll, postgres.Args{"reason": reason, "at": at}); err != nil {
		return fmt.Errorf("pause scheduling: %w", err)
	}
	return nil
}

const sqlResumeAll = `with lifted as (delete from scheduling_pauses where reason = $1 and paused_by is null returning org_id)` + sqlLifted

// ResumeAll lifts the pauses of PauseAll, unless an operator has asked for one since.
func (s *Store) ResumeAll(ctx context.Context, reason string) error {
	if _, err := s.pool.Exec(ctx, sqlResumeAll, reason, s.Paused); err != nil {
		return fmt.Errorf("resume scheduling: %w", err)
	}
	return nil
}

const sqlResumeScheduling = `with lifted as (delete from scheduling_pauses where org_id = $1 returning org_id)` + sqlLifted

// sqlLifted notifies the relays, which take what was kept, with the end of the pause.
const sqlLifted = `
select count(*) > 0, count(pg_notify(channel, '')) from lifted cross join unnest($2::text[]) channel`

// ResumeScheduling lifts the pause of an organisation, and reports whether there was one.
func (s *Store) ResumeScheduling(ctx context.Context, orgID string) (resumed bool, err error) {
	var notified int
	if err := s.pool.QueryRow(ctx, sqlResumeScheduling, orgID, s.Paused).Scan(&resumed, &notified); err != nil {
		return false, fmt.Errorf("resume scheduling: %w", err)
	}
	return resumed, nil
}
