package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/session"
)

const sqlInsertAlarm = `
insert into step_alarms (id, org_id, session_id, profile_id, step_id, expected_state_token, generation, due_at, lease_token, lease_until, created_at)
values (@id, @org_id, @session, @profile, @step, @token, @generation, @due_at, nullif(@lease, '')::uuid, @lease_until, @at)`

// publishLease is how long the request that wrote an alarm has for publishing it before the relay may.
const publishLease = 10 * time.Second

// insertAlarm writes an alarm, leased to its publisher; without a lease token it is the relay's at once.
func insertAlarm(ctx context.Context, tx pgx.Tx, a session.Alarm, at time.Time) error {
	leaseUntil := at
	if a.LeaseToken != "" {
		leaseUntil = at.Add(publishLease)
	}
	_, err := tx.Exec(ctx, sqlInsertAlarm, pgx.NamedArgs{
		"id": a.ID, "org_id": a.OrgID, "session": a.SessionID, "profile": a.ProfileID, "step": string(a.StepID),
		"token": string(a.ExpectedToken), "generation": a.Generation, "due_at": a.DueAt, "lease": a.LeaseToken,
		"lease_until": leaseUntil, "at": at,
	})
	if err != nil {
		return fmt.Errorf("write alarm: %w", err)
	}
	return nil
}

const sqlClaimAlarms = `
with open as (
    select id from step_alarms
    where published_at is null and lease_until <= @now
    order by due_at limit @limit
    for update skip locked
)
update step_alarms a
set lease_token = @token, lease_until = @lease_until, attempts = attempts + 1
from open where a.id = open.id
returning a.id, a.org_id, a.session_id, a.profile_id, a.step_id, a.expected_state_token as expected_token, a.generation, a.due_at, a.lease_token`

// ClaimAlarms claims unpublished alarms whose publisher has had its time, at most limit, the one due first leading.
func (s *Store) ClaimAlarms(ctx context.Context, limit int, now, leaseUntil time.Time) ([]session.Alarm, error) {
	token, err := uuid.NewRandom()
	if err != nil {
		return nil, fmt.Errorf("lease token: %w", err)
	}
	rows, err := s.pool.Query(ctx, sqlClaimAlarms, pgx.NamedArgs{
		"limit": limit, "now": now, "lease_until": leaseUntil, "token": token.String(),
	})
	if err != nil {
		return nil, fmt.Errorf("claim alarms: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[session.Alarm])
}

// An alarm that is published is published, whoever did it: only its lease is not required to match.
const sqlPublished = `
update step_alarms set published_at = @at, qstash_message_id = @message, last_error = '', lease_token = null
where id = @id and published_at is null`

// AlarmPublished records that QStash has the alarm.
func (s *Store) AlarmPublished(ctx context.Context, id, qstashMessageID string, at time.Time) error {
	_, err := s.pool.Exec(ctx, sqlPublished, pgx.NamedArgs{"id": id, "message": qstashMessageID, "at": at})
	if err != nil {
		return fmt.Errorf("record published alarm: %w", err)
	}
	return nil
}

const sqlReleaseAlarm = `
update step_alarms set lease_token = null, lease_until = @retry_at, last_error = @cause
where id = @id and lease_token = @token and published_at is null`

// AlarmFailed gives an alarm back to the relay of any instance, due for another try at retryAt.
func (s *Store) AlarmFailed(ctx context.Context, a session.Alarm, cause string, retryAt time.Time) error {
	return postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sqlReleaseAlarm, pgx.NamedArgs{
			"id": a.ID, "token": a.LeaseToken, "retry_at": retryAt, "cause": cause,
		}); err != nil {
			return fmt.Errorf("release alarm: %w", err)
		}
		return notify(ctx, tx, ChannelAlarms)
	})
}
