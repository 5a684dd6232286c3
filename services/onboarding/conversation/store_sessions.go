package conversation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

const sqlSessionColumns = `
select s.id, s.org_id, s.profile_id, s.mode, s.state_token, coalesce(s.next_step_id, '') as next_step_id, s.status, s.status_reason,
       s.paused_at is not null as paused, s.turn, s.detours, s.copy_version, s.created_at, s.updated_at,
       p.phone, p.first_name, p.locale, p.hold, p.hold_version, p.time_zone, coalesce(o.time_zone, 'UTC') as usual_zone,
       o.org_id is not null as decided,
       case when o.quiet_hours then o.quiet_until end as quiet_until, case when o.quiet_hours then o.quiet_from end as quiet_from,
       ` + people.SQLPaused + `s.org_id) as scheduling_paused,
       coalesce(s.flow, '') as flow, coalesce(s.flow_version, '') as flow_version, s.flow_state,
       case when s.flow is not null then
           (select jsonb_object_agg(f.name, f.value) from profile_fields f where f.profile_id = s.profile_id) end as fields,
       s.moving_until`

const sqlSessionTables = `
from conversation_sessions s join profiles p on p.id = s.profile_id left join organisation_settings o on o.org_id = s.org_id
`

const sqlSession = sqlSessionColumns + sqlSessionTables

// scanView reads the columns of sqlSession, and what stands behind them.
func (s *Store) scanView(r pgx.CollectableRow, further ...any) (View, error) {
	var v View
	var zone, usual string
	var decided bool          // whether the organisation has settings
	var opens, closes *string // null when it has no quiet hours
	var position *flow.State
	var moving *time.Time
	at := &v.Session
	err := r.Scan(append([]any{
		&at.ID, &at.OrgID, &at.ProfileID, &at.Mode, &at.Token, &at.NextStep, &at.Status, &at.Reason,
		&at.Paused, &at.Turn, &at.Detours, &at.CopyVersion, &at.CreatedAt, &at.UpdatedAt,
		&v.Phone, &v.FirstName, &v.Locale, &v.Hold, &v.HoldVersion, &zone, &usual, &decided, &opens, &closes, &v.SchedulingPaused,
		&at.Flow, &at.FlowVersion, &position, &v.Fields, &moving,
	}, further...)...)
	at.MovingUntil = postgres.TimeOf(moving)
	if position != nil {
		at.At = *position
	}
	zones := people.Zones(zone, v.Phone, usual)
	v.Zone, at.Quiet = zones[0], s.people.Window(decided, opens, closes, zones)
	return v, err
}

func (s *Store) collectView(rows pgx.Rows, err error, further ...any) (View, error) {
	if err != nil {
		return View{}, fmt.Errorf("load session: %w", err)
	}
	v, err := pgx.CollectExactlyOneRow(rows, func(r pgx.CollectableRow) (View, error) { return s.scanView(r, further...) })
	if errors.Is(err, pgx.ErrNoRows) {
		return View{}, ErrNoSession
	}
	if err != nil {
		return View{}, fmt.Errorf("load session: %w", err)
	}
	return v, nil
}

// LoadSession reads a session, its person and the hold in one statement; ErrNoSession when there is none.
func (s *Store) LoadSession(ctx context.Context, id string) (View, error) {
	rows, err := s.pool.Query(ctx, sqlSession+`where s.id = $1`, id)
	return s.collectView(rows, err)
}

// sqlDueNow selects when the due step of a session, s, comes, by its newest alarm. Alarms that only read a receipt again do not make it due
// later.
const sqlDueNow = `select a.due_at from step_alarms a where a.session_id = s.id and a.step_id = s.next_step_id and a.cause <> 'delivery'
        order by a.generation desc limit 1`

// sqlStep adds when the due step was to be sent: by the step before it, and by its newest alarm.
const sqlStep = `
with loaded as (` + sqlSessionColumns + `,
       (select a.due_at from step_alarms a where a.session_id = s.id and a.step_id = s.next_step_id and a.cause = 'due'
        order by a.generation desc limit 1) as due_first,
       (` + sqlDueNow + `) as due_now` + sqlSessionTables + `where s.id = any(@id::uuid[])
)
select u.n, loaded.* from unnest(@id::uuid[]) with ordinality u (id, n) join loaded using (id)`

// LoadStep is LoadSession, with when the step that is due was to be sent.
func (s *Store) LoadStep(ctx context.Context, id string) (View, StepDue, error) {
	var view View
	var first, now *time.Time
	var found int
	err := s.hot.Do(ctx, id, postgres.Statement{
		SQL: sqlStep, Args: postgres.Args{"id": id}, Rows: &found, Read: func(row pgx.CollectableRow) (err error) {
			view, err = s.scanView(row, &first, &now)
			return err
		},
	})
	switch {
	case err != nil:
		return View{}, StepDue{}, fmt.Errorf("load step: %w", err)
	case found == 0:
		return View{}, StepDue{}, ErrNoSession
	}
	return view, StepDue{First: postgres.TimeOf(first), Now: postgres.TimeOf(now)}, nil
}

// sqlTicketOf selects the open ticket of a person, p.
const sqlTicketOf = `coalesce((select t.id::text from tickets t where t.profile_id = p.id and t.status <> 'closed'), '') as ticket_id`

const sqlConversation = `
select u.n, v.* from unnest(@org::uuid[], @phone::text[]) with ordinality u (org, phone, n) cross join lateral (` + sqlSessionColumns + `,
    ` + sqlTicketOf + `, o.distress_words` + sqlSessionTables + `
    where p.org_id = u.org and p.phone = u.phone order by s.status = 'active' desc, s.id desc limit 1) v`

// Conversation reads the open session of the person with this phone, or else the newest, whatever its status: one that
// was resumed may be older than another that was closed. For a person without a session only the profile is set; for an unknown phone
// the View is empty.
func (s *Store) Conversation(ctx context.Context, orgID, phone string) (View, error) {
	var view View
	var found int
	err := s.hot.Do(ctx, phone, postgres.Statement{
		SQL: sqlConversation, Args: postgres.Args{"org": orgID, "phone": phone}, Rows: &found, Read: func(row pgx.CollectableRow) (err error) {
			var of View
			view, err = s.scanView(row, &of.TicketID, &of.Distress)
			view.TicketID, view.Distress = of.TicketID, of.Distress
			return err
		},
	})
	switch {
	case err != nil:
		return View{}, fmt.Errorf("load session: %w", err)
	case found > 0:
		return view, nil
	}
	view, err = s.personOnly(ctx, sqlPersonOnly+`p.phone = $2`, orgID, phone)
	view.Texts = nil // ConversationOf alone reads them
	if errors.Is(err, pgx.ErrNoRows) {
		return View{Session: session.Record{OrgID: orgID}}, nil
	}
	return view, err
}

const sqlConversationOf = sqlSessionColumns + `, o.engagement_texts` + sqlSessionTables + `
where p.org_id = $1 and p.id = $2 order by s.status = 'active' desc, s.id desc limit 1`

// ConversationOf is Conversation of a profile, with the organisation's texts; people.ErrNoProfile.
func (s *Store) ConversationOf(ctx context.Context, orgID, profileID string) (View, error) {
	var texts []byte
	rows, err := s.pool.Query(ctx, sqlConversationOf, orgID, profileID)
	view, err := s.collectView(rows, err, &texts)
	view.Texts = texts
	if isNoSession(err) {
		view, err = s.personOnly(ctx, sqlPersonOnly+`p.id = $2`, orgID, profileID)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return View{}, people.ErrNoProfile
	}
	return view, err
}

const sqlPersonOnly = `
select p.id, p.phone, p.first_name, p.locale, p.hold, p.hold_version, o.engagement_texts, ` + sqlTicketOf + `, o.distress_words
from profiles p left join organisation_settings o on o.org_id = p.org_id where p.org_id = $1 and `

// personOnly is a person without a session; pgx.ErrNoRows.
func (s *Store) personOnly(ctx context.Context, sqlPerson, orgID, of string) (View, error) {
	view := View{Session: session.Record{OrgID: orgID}}
	err := s.pool.QueryRow(ctx, sqlPerson, orgID, of).Scan(
		&view.Session.ProfileID, &view.Phone, &view.FirstName, &view.Locale, &view.Hold, &view.HoldVersion, &view.Texts,
		&view.TicketID, &view.Distress)
	if err != nil {
		return View{}, fmt.Errorf("read a person: %w", err)
	}
	return view, nil
}

const sqlConversationAt = sqlSession + `
where p.org_id = $1 and p.phone = $2 and s.created_at <= $3 order by s.status = 'active' desc, s.id desc limit 1`

// ConversationAt is Conversation as of an instant: sessions that began later do not count.
func (s *Store) ConversationAt(ctx context.Context, orgID, phone string, at time.Time) (View, error) {
	rows, err := s.pool.Query(ctx, sqlConversationAt, orgID, phone, at)
	return s.collectView(rows, err)
}

const sqlLastStepAt = `
select max(coalesce(asked_at, at)) from session_transitions where session_id = $1 and kind = 'sent' and trigger = 'step'`

// LastStepAt is since when a reply may answer the newest scheduled message of a session; zero when none was taken.
func (s *Store) LastStepAt(ctx context.Context, sessionID string) (time.Time, error) {
	return s.lastSaid(ctx, sqlLastStepAt, sessionID)
}

const sqlLastMessageAt = `select max(coalesce(asked_at, at)) from session_transitions where session_id = $1 and kind = 'sent'`

// LastMessageAt is since when a reply may answer the newest message of a session, of whatever kind; zero when none was taken.
func (s *Store) LastMessageAt(ctx context.Context, sessionID string) (time.Time, error) {
	return s.lastSaid(ctx, sqlLastMessageAt, sessionID)
}

const sqlLastReplyAt = `select max(at) from session_transitions where session_id = $1 and kind = 'replied'`

// LastReplyAt returns when the newest reply came in a session; zero when there was none.
func (s *Store) LastReplyAt(ctx context.Context, sessionID string) (time.Time, error) {
	return s.lastSaid(ctx, sqlLastReplyAt, sessionID)
}

func (s *Store) lastSaid(ctx context.Context, sql, sessionID string) (time.Time, error) {
	var at *time.Time
	if err := s.pool.QueryRow(ctx, sql, sessionID).Scan(&at); err != nil {
		return time.Time{}, fmt.Errorf("read the last message of a session: %w", err)
	}
	return postgres.TimeOf(at), nil
}
