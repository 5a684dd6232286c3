package conversation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/session"
)

// SessionFilter narrows a list of sessions. Empty fields do not.
type SessionFilter struct {
	OrgID      string
	ProfileID  string
	StateToken string
	Stuck      bool             // only those that wait for an operator
	Statuses   []session.Status // only those with one of these, each of them named once
	Before     string           // only sessions older than this id
	Limit      int
}

// sqlListSessions finds the page before it looks at people: the planner takes nearly all of those for hidden by their policies, and would
// begin with them.
const sqlListSessions = sqlSessionColumns + `
from (
    select w.id as page_id from conversation_sessions w` + sqlOfTheFilter

const sqlOfTheFilter = `
    where w.org_id = @org_id
      and (@profile = '' or w.profile_id = nullif(@profile, '')::uuid)
      and (@before = '' or w.id < nullif(@before, '')::uuid)`

const (
	// sqlListByStatus is sqlListSessions of some statuses, each with its own end in the index.
	sqlListByStatus = sqlSessionColumns + `
from (
    select l.id as page_id from unnest(@status::text[]) u (status) cross join lateral (
        select w.id from conversation_sessions w` + sqlOfTheFilter + ` and w.status = u.status`
	sqlOfEachStatus = ` order by w.id desc limit @limit) l order by l.id desc limit @limit` + sqlOfThePage

	sqlOnlyParked  = ` and w.status in ('stuck', 'undeliverable')` // as the index conversation_sessions_parked says it
	sqlOnlyAt      = ` and w.state_token = @token`
	sqlNewestFirst = ` order by w.id desc limit @limit` + sqlOfThePage
	sqlOfThePage   = `
) page join conversation_sessions s on s.id = page.page_id join profiles p on p.id = s.profile_id
left join organisation_settings o on o.org_id = s.org_id
order by s.id desc`
)

// ListSessions lists sessions, newest first.
func (s *Store) ListSessions(ctx context.Context, f SessionFilter) ([]session.Record, error) {
	sql, newest := sqlListSessions, sqlNewestFirst
	if len(f.Statuses) > 0 {
		sql, newest = sqlListByStatus, sqlOfEachStatus
	}
	if f.Stuck {
		sql += sqlOnlyParked
	}
	if f.StateToken != "" {
		sql += sqlOnlyAt
	}
	var found []session.Record
	var batch pgx.Batch
	batch.Queue(postgres.PlanNow)
	if len(f.Statuses) > 0 && f.ProfileID == "" {
		batch.Queue(postgres.InOrder)
	}
	batch.Queue(sql+newest, postgres.Args{
		"org_id": f.OrgID, "profile": f.ProfileID, "token": f.StateToken, "before": f.Before, "limit": f.Limit,
		"status": session.StatusTexts(f.Statuses),
	}).Query(func(rows pgx.Rows) (err error) {
		found, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (session.Record, error) {
			view, err := s.scanView(r)
			return view.Session, err
		})
		return err
	})
	if err := s.pool.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	return found, nil
}

const sqlTimelineOf = `
select at, kind, from_state_token, to_state_token, trigger, step_id, coalesce(message_id::text, '') as message_id, detail, actor::text
from session_transitions where id in (select id from session_transitions where session_id = $1 order by id desc limit 1000)
order by id`

type timelineRow struct {
	At             time.Time
	Kind           string
	FromStateToken string
	ToStateToken   string
	Trigger        string
	StepID         string
	MessageID      string
	Detail         string
	Actor          *string
}

// Story is a session, what happened in it, oldest entry first, and when the step that is due comes; zero when none is.
type Story struct {
	session.Record

	Entries []session.Entry
	NextDue time.Time
}

const sqlStory = sqlSessionColumns + `, case when s.status = 'active' then (` + sqlDueNow + `) end` + sqlSessionTables + `
where s.id = $1 and s.org_id = $2`

// Session reads a session of an organisation and its timeline; ErrNoSession.
func (s *Store) Session(ctx context.Context, orgID, sessionID string) (Story, error) {
	rows, err := s.pool.Query(ctx, sqlStory, sessionID, orgID)
	if err != nil {
		return Story{}, fmt.Errorf("load session: %w", err)
	}
	var due *time.Time
	view, err := pgx.CollectExactlyOneRow(rows, func(r pgx.CollectableRow) (View, error) { return s.scanView(r, &due) })
	if errors.Is(err, pgx.ErrNoRows) {
		return Story{}, ErrNoSession
	}
	if err != nil {
		return Story{}, fmt.Errorf("load session: %w", err)
	}
	rows, err = s.pool.Query(ctx, sqlTimelineOf, sessionID)
	if err != nil {
		return Story{}, fmt.Errorf("read timeline: %w", err)
	}
	entries, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (session.Entry, error) {
		t, err := pgx.RowToStructByName[timelineRow](r)
		return session.Entry{
			At: t.At, Kind: session.Kind(t.Kind), From: session.Token(t.FromStateToken), To: session.Token(t.ToStateToken),
			Trigger: session.Trigger(t.Trigger), Step: session.StepID(t.StepID), MessageID: t.MessageID, Detail: t.Detail, Actor: t.Actor,
		}, err
	})
	return Story{Record: view.Session, Entries: entries, NextDue: postgres.TimeOf(due)}, err
}
