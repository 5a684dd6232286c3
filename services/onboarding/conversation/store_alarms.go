package conversation

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/outbox"
	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// stepAlarms is step_alarms as platform/outbox has it.
func stepAlarms(pool postgres.DB) *outbox.Store[session.Alarm] {
	return outbox.NewStore(pool, outbox.Table[session.Alarm]{
		Name: ChannelAlarms,
		Columns: []string{
			"id", "org_id", "session_id", "profile_id", "step_id", "expected_state_token", "generation", "cause", "due_at",
		},
		Values: func(a session.Alarm) (values []any, leaseToken string) {
			return []any{
				a.ID, a.OrgID, a.SessionID, a.ProfileID, string(a.StepID), string(a.ExpectedStateToken), a.Generation, string(a.Cause), a.DueAt,
			}, a.LeaseToken
		},
		Kept: people.SQLPaused + `a.org_id)`,
	})
}

// sqlAlarmOfMove writes the alarm of each session that was moved and has one. The due time is the session's, too: so the trigger of an
// alarm has nothing left to do.
const sqlAlarmOfMove = `
    insert into step_alarms (id, org_id, session_id, profile_id, step_id, expected_state_token, generation, cause, due_at, lease_token,
        lease_until, created_at)
    select (@alarm::uuid[])[m.n], m.org_id, m.id, m.profile_id, (@alarm_step::text[])[m.n], (@alarm_token::text[])[m.n],
        (@generation::int[])[m.n], (@alarm_cause::text[])[m.n], (@due::timestamptz[])[m.n], (@lease::uuid[])[m.n],
        (@lease_until::timestamptz[])[m.n], m.at
    from moved m where (@alarm::uuid[])[m.n] is not null`

// sqlRangOfMove deletes the alarm that this process rang for the move, unless the relay has taken it over.
const sqlRangOfMove = `
    delete from step_alarms a using (select (@rang::uuid[])[m.n] as id, (@rang_lease::uuid[])[m.n] as lease from moved m) r
    where a.id = r.id and a.id = any(@rang::uuid[]) and a.lease_token = r.lease`

// alarmArgs adds the arguments of the alarm that a move sets, and of the one that it answers; without one they are null.
func alarmArgs(args postgres.Args, m session.Move) {
	for _, name := range []string{
		"alarm", "alarm_step", "alarm_token", "generation", "alarm_cause", "due", "lease", "lease_until", "rang", "rang_lease",
	} {
		args[name] = nil
	}
	if m.Rang != nil {
		args["rang"], args["rang_lease"] = m.Rang.ID, m.Rang.LeaseToken
	}
	a := m.Alarm
	if a == nil {
		return
	}
	args["alarm"], args["alarm_step"] = a.ID, string(a.StepID)
	args["alarm_token"], args["generation"], args["alarm_cause"] = string(a.ExpectedStateToken), a.Generation, string(a.Cause)
	args["due"], args["lease_until"] = a.DueAt, m.At
	if a.LeaseToken != "" { // else it is the relay's at once
		args["lease"], args["lease_until"] = a.LeaseToken, laterOf(a.LeaseUntil, m.At.Add(outbox.PublishLease))
	}
}

// inOutbox writes alarms in transactions that exist already.
var inOutbox = stepAlarms(nil)

// Alarms is the outbox of the steps' alarms.
func (s *Store) Alarms() *outbox.Store[session.Alarm] { return s.alarms }

// dueAlarms describes the due step's alarms: its newest one, whether that may have rung, and how often they were set for one cause, ever
// and right before. An alarm may ring before its publisher has written down that it is published, and after
// a publish that failed here, of which only the answer may have been lost.
type dueAlarms struct {
	generation  int
	due         time.Time
	mayRing     bool
	ever, inRow int
}

const sqlWaiting = `
select max(generation), (array_agg(due_at order by generation desc))[1],
       (array_agg(published_at is not null or lease_token is not null or last_error <> '' order by generation desc))[1],
       count(*) filter (where cause = $3),
       count(*) filter (where cause = $3 and generation > coalesce((select max(b.generation) from step_alarms b
           where b.session_id = $1 and b.step_id = $2 and b.cause <> $3), 0))
from step_alarms where session_id = $1 and step_id = $2`

func alarmsOf(ctx context.Context, tx pgx.Tx, r session.Record, cause session.AlarmCause) (w dueAlarms, err error) {
	if err := tx.QueryRow(ctx, sqlWaiting, r.ID, string(r.NextStep), string(cause)).
		Scan(&w.generation, &w.due, &w.mayRing, &w.ever, &w.inRow); err != nil {
		return w, fmt.Errorf("read the alarms of a step: %w", err)
	}
	return w, nil
}

// Generation returns that of the newest alarm of a step; 0 without one.
func (s *Store) Generation(ctx context.Context, sessionID string, step session.StepID) (newest int, err error) {
	err = s.pool.QueryRow(ctx, `select coalesce(max(generation), 0) from step_alarms where session_id = $1 and step_id = $2`,
		sessionID, string(step)).Scan(&newest)
	if err != nil {
		return 0, fmt.Errorf("read the newest alarm: %w", err)
	}
	return newest, nil
}

// Wait sets the alarm of a due step again, as session.Wait decides by its alarms, with its timeline entry. It returns the alarm, leased to
// the caller, or nil when there is nothing to publish. people.ErrConflict when the session has moved on.
func (s *Store) Wait(ctx context.Context, w session.Wait) (*session.Alarm, error) {
	var again *session.Alarm
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		again = nil
		if err := still(ctx, tx, w.From); err != nil {
			return err
		}
		found, err := alarmsOf(ctx, tx, w.From, w.Cause)
		if err != nil {
			return err
		}
		due, set, noted := w.Alarm(found.due, found.ever, found.inRow)
		if !set {
			return nil
		}
		if noted {
			if err := writeTimeline(ctx, tx, w.From.ID, []session.Entry{w.Entry}); err != nil {
				return err
			}
		}
		a, err := alarmAgain(w.From, found.generation+1, w.Cause, due)
		if err != nil {
			return err
		}
		a.LeaseToken = a.ID // no other process knows it yet
		again = &a
		return inOutbox.Insert(ctx, tx, a, w.At)
	})
	return again, err
}

func alarmAgain(r session.Record, generation int, cause session.AlarmCause, due time.Time) (session.Alarm, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return session.Alarm{}, fmt.Errorf("alarm id: %w", err)
	}
	return session.NewAlarm(id.String(), r, r.NextStep, generation, cause, due), nil
}

// setAgain sets the alarm of the due step again, now but not before the step is due. No request publishes it, so it is the relay's.
func setAgain(ctx context.Context, tx pgx.Tx, r session.Record, cause session.AlarmCause, at time.Time) error {
	found, err := alarmsOf(ctx, tx, r, cause)
	if err != nil {
		return err
	}
	due := found.due
	if due.Before(at) {
		due = at
	}
	a, err := alarmAgain(r, found.generation+1, cause, due)
	if err != nil {
		return err
	}
	return inOutbox.Insert(ctx, tx, a, at)
}
