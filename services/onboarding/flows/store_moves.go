package flows

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/conversation"
)

const (
	// sqlOfVersion selects the open sessions of a version.
	sqlOfVersion = `
from conversation_sessions s join profiles p on p.id = s.profile_id
where s.org_id = @org and s.flow = @flow and s.flow_version = @from and s.status = 'active'`

	// sqlWaits selects those that wait for a reply, and sqlWorkedOn those of a person for whom something is being worked on: a reply that has
	// come, also one that waits for a cap, or a silence that is acted on.
	sqlWaits    = `s.next_step_id is null and s.flow_state ->> 'phase' = 'waiting'`
	sqlWorkedOn = `(exists (select from webhook_jobs j
        where j.org_id = s.org_id and j.subject in (p.phone, 'reply:' || s.id || ':' || (s.turn - s.detours))
        and j.status in ('pending', 'processing'))
    or exists (select from webhook_jobs j where j.org_id = s.org_id and j.subject = 'flow:' || s.id || ':' || (s.turn - s.detours)
        and j.status in ('pending', 'processing') and (j.status = 'processing' or j.idempotency_key like 'waits:%')))`

	// sqlMarkVersion announces the move of a page of sessions, which it locks first.
	sqlMarkVersion = `
with page as materialized (
    select s.id from conversation_sessions s join profiles p on p.id = s.profile_id
    where s.org_id = @org and s.flow = @flow and s.flow_version = @from and s.status = 'active'
        and (@after = '' or s.id > nullif(@after, '')::uuid) and s.flow_state ->> 'step' = any(@steps::text[])
        and (s.moving_until is null or s.moving_until <= @at) and ` + sqlWaits + ` and not ` + sqlWorkedOn + `
    order by s.id limit @limit for no key update of s skip locked
)
update conversation_sessions s set moving_until = @until from page where s.id = page.id returning s.id::text, s.turn`

	sqlUnmarkVersion = `update conversation_sessions set moving_until = null where id = any(@ids::uuid[]) and moving_until = @until`

	// sqlMoveVersion moves the sessions of a page, but for those that have changed since, in one statement: their place in the flow, their
	// timeline, and the job of the silence at the new step. The turn goes on, so that the job of the silence at the old step, and a reply that
	// began before, do nothing. The move is a visit, so that no text of the new version has the key of one that was sent.
	sqlMoveVersion = `
with picked as materialized (
    select s.id, u.becomes, u.token, u.silence, s.state_token as came
    from conversation_sessions s join profiles p on p.id = s.profile_id
        join unnest(@ids::uuid[], @turns::int[]) k (id, turn) on k.id = s.id and k.turn = s.turn
        join unnest(@steps::text[], @becomes::text[], @tokens::text[], @silences::interval[]) u (step, becomes, token, silence)
            on u.step = s.flow_state ->> 'step'
    where s.org_id = @org and s.flow = @flow and s.flow_version = @from and s.status = 'active'
        and s.id = any(@ids::uuid[]) and s.moving_until = @until and ` + sqlWaits + ` and not ` + sqlWorkedOn + `
    order by s.id for no key update of s skip locked
), moved as (
    update conversation_sessions s
    set flow_version = @to, moving_until = null, state_token = m.token, turn = s.turn + 1, updated_at = @at,
        flow_state = s.flow_state - 'unclear' - 'silent' || jsonb_build_object('step', m.becomes, 'asked', m.becomes,
            'visits', coalesce(s.flow_state -> 'visits', '{}') || jsonb_build_object(m.becomes,
                coalesce((s.flow_state -> 'visits' ->> m.becomes)::int, 0) + 1))
    from picked m where s.id = m.id
    returning s.id, s.org_id, s.turn - s.detours as place, m.came, m.token, m.becomes, m.silence
), noted as (
    insert into session_transitions (session_id, at, kind, from_state_token, to_state_token, trigger, step_id, detail)
    select id, @at, 'advanced', came, token, 'operator', becomes, 'to version ' || @to from moved
), queued as (
    insert into webhook_jobs
        (id, org_id, idempotency_key, source, event_type, subject, payload, status, next_retry_at, created_at, updated_at)
    select gen_random_uuid(), org_id, 'flow:' || id || ':' || place,
        '` + conversation.SourceInternal + `', '` + conversation.EventFlow + `',
        'flow:' || id || ':' || place, jsonb_build_object('session_id', id, 'place', place), 'pending', @at::timestamptz + silence, @at, @at
    from moved where silence > interval '0'
)
select count(*) from moved`

	sqlCountVersion = `
select count(*) filter (where waits and mapped and not worked_on), count(*) filter (where waits and mapped and worked_on),
    count(*) filter (where waits and not mapped), count(*) filter (where not waits)
from (
    select ` + sqlWaits + ` as waits, s.flow_state ->> 'step' = any(@steps::text[]) as mapped,
        ` + sqlWorkedOn + ` as worked_on` + sqlOfVersion + `
) c`

	// movedAtOnce bounds the sessions of one statement.
	movedAtOnce = 500
)

func versionArgs(orgID string, m VersionMove, steps []stepMove) postgres.Args {
	var from, to, tokens []string
	var silences []time.Duration
	for _, s := range steps {
		from, to, tokens, silences = append(from, s.from), append(to, s.to), append(tokens, string(s.token)), append(silences, s.silence)
	}
	return postgres.Args{
		"org": orgID, "flow": m.Flow, "from": m.From, "to": m.To, "steps": from, "becomes": to, "tokens": tokens, "silences": silences,
		"limit": movedAtOnce,
	}
}

// Marked is a page of sessions with an announced move, and the turns in which they are.
type Marked struct {
	IDs   []string
	Turns []int
	Until time.Time
}

// MarkVersion announces the move of a page of sessions behind an id: what is read after it was committed sends nothing until then.
func (s *Store) MarkVersion(
	ctx context.Context, orgID string, m VersionMove, steps []stepMove, after string, at, until time.Time,
) (page Marked, err error) {
	args := versionArgs(orgID, m, steps)
	args["after"], args["at"], args["until"] = after, at, until
	page.Until = until
	rows, err := s.pool.Query(ctx, sqlMarkVersion, args)
	if err == nil {
		var id string
		var turn int
		_, err = pgx.ForEachRow(rows, []any{&id, &turn}, func() error {
			page.IDs, page.Turns = append(page.IDs, id), append(page.Turns, turn)
			return nil
		})
	}
	if err != nil {
		return page, fmt.Errorf("announce a move of sessions: %w", err)
	}
	return page, nil
}

// MoveVersion moves the sessions of a page for which nothing is being worked on, and ends the announcement of the others.
func (s *Store) MoveVersion(
	ctx context.Context, orgID string, m VersionMove, steps []stepMove, page Marked, at time.Time,
) (n int, err error) {
	args := versionArgs(orgID, m, steps)
	args["at"], args["ids"], args["turns"], args["until"] = at, page.IDs, page.Turns, page.Until
	if err := s.pool.QueryRow(ctx, sqlMoveVersion, args).Scan(&n); err != nil {
		return 0, fmt.Errorf("move sessions to a version: %w", err)
	}
	if _, err := s.pool.Exec(ctx, sqlUnmarkVersion, args); err != nil {
		return n, fmt.Errorf("end the announcement of a move: %w", err)
	}
	return n, nil
}

// CountVersion counts the open sessions of a version. Moved are those that may be moved now.
func (s *Store) CountVersion(ctx context.Context, orgID string, m VersionMove, steps []stepMove) (n VersionMoved, err error) {
	err = s.pool.QueryRow(ctx, sqlCountVersion, versionArgs(orgID, m, steps)).Scan(&n.Moved, &n.Busy, &n.Unmapped, &n.Elsewhere)
	if err != nil {
		return n, fmt.Errorf("count the sessions of a version: %w", err)
	}
	return n, nil
}
