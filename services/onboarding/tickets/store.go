package tickets

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/erasure"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// conversations parks the session of a person and ends jobs, in the transactions of this store; conversation.Store implements it.
type conversations interface {
	AwaitTicket(ctx context.Context, tx pgx.Tx, profileID, ticketID string, entry session.Entry, at time.Time) (sessionID string, err error)
	NoteText(ctx context.Context, tx pgx.Tx, sessionID string, entry session.Entry) error
	EndJob(ctx context.Context, tx pgx.Tx, j queue.Job, at time.Time) error
	EnqueueIn(ctx context.Context, tx pgx.Tx, n queue.New) error
}

// Store keeps the inbox in the database. Lists read the names of people with their tickets. Every time that a statement uses is handed in.
type Store struct {
	pool     postgres.DB
	sessions conversations
}

// NewStore returns a store on an open pool.
func NewStore(pool postgres.DB, of *conversation.Store) *Store {
	return &Store{pool: pool, sessions: of}
}

const ticketColumns = `
select t.id::text, t.org_id::text, t.profile_id::text, coalesce(t.session_id::text, '') as session_id, p.first_name, p.phone, p.locale,
    t.status, t.reason, t.detail, coalesce(t.assignee, '') as assignee, t.opened_at,
    case when t.assignee is not null then t.assigned_at end as assigned_at,
    t.first_answered_at, t.closed_at, coalesce(t.outcome, '') as outcome, t.last_text, t.last_text_at, t.waits_since, t.texts, t.answers,
    t.notes, coalesce(t.message_id::text, '') as message_id, t.opened_by::text, t.closed_by::text
from tickets t join profiles p on p.id = t.profile_id `

const sqlTicket = ticketColumns + `where t.org_id = $1 and t.id = $2`

// Ticket reads a ticket; ErrNotFound.
func (s *Store) Ticket(ctx context.Context, orgID, id string) (Ticket, error) {
	return ticket(ctx, s.pool, sqlTicket, orgID, id)
}

// querier is the pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func ticket(ctx context.Context, in querier, sql string, args ...any) (Ticket, error) {
	rows, err := in.Query(ctx, sql, args...)
	if err != nil {
		return Ticket{}, fmt.Errorf("read a ticket: %w", err)
	}
	t, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Ticket])
	if errors.Is(err, pgx.ErrNoRows) {
		return Ticket{}, ErrNotFound
	}
	if err != nil {
		return Ticket{}, fmt.Errorf("read a ticket: %w", err)
	}
	return t, nil
}

// sqlLockPerson comes before the session's lock, as a hold's and an activation's does: they never wait for each other.
const sqlLockPerson = `select id from profiles where org_id = $1 and id = $2 for no key update`

// sqlOpen opens a ticket, or adds a text to the one that the person has: the one that is not closed.
const sqlOpen = `
insert into tickets as t (id, org_id, profile_id, session_id, status, reason, detail, assignee, assigned_at, message_id, last_text,
    last_text_at, person_wrote_at, waits_since, texts, opened_at)
values (@id, @org, @profile, nullif(@session, '')::uuid, case when @author = '' then 'open' else 'assigned' end, @reason, @detail,
    nullif(@author, ''), case when @author <> '' then @at::timestamptz end, nullif(@message, '')::uuid,
    @words, @text_at, @wrote_at, @waits, @texts, @at)
on conflict (profile_id) where status <> 'closed' do update set
    session_id = coalesce(excluded.session_id, t.session_id),
    reason = case when excluded.reason = 'distress' then excluded.reason else t.reason end,
    last_text = case when excluded.texts > 0 then excluded.last_text else t.last_text end,
    last_text_at = case when excluded.texts > 0 then greatest(excluded.last_text_at, t.last_text_at) else t.last_text_at end,
    person_wrote_at = greatest(excluded.person_wrote_at, t.person_wrote_at),
    waits_since = case when excluded.texts > 0 then coalesce(t.waits_since, excluded.waits_since) else t.waits_since end,
    texts = t.texts + case when t.message_id = excluded.message_id then 0 else excluded.texts end
returning t.id::text, coalesce(t.session_id::text, '')`

const sqlOpenTicketOf = `select id::text, coalesce(session_id::text, '') from tickets where profile_id = $1 and status <> 'closed'`

// Open opens a ticket with all that follows for the session of its person, or adds a text to the one that they have, and ends the text's
// job. people.ErrNoProfile, erasure.ErrBegun of a ticket by hand, queue.ErrFenced, people.ErrConflict; then nothing has happened.
func (s *Store) Open(ctx context.Context, o Opening) (t Ticket, created bool, err error) {
	err = s.unlessOvertaken(ctx, func(tx pgx.Tx) error {
		if t, created, err = s.openIn(ctx, tx, o); err != nil || o.Text == nil || o.Text.Job.ID == "" {
			return err
		}
		return s.sessions.EndJob(ctx, tx, o.Text.Job, o.At)
	})
	return t, created, err
}

// maxOvertaken bounds how often a transaction is done anew because the ticket of its person was closed or opened meanwhile.
const maxOvertaken = 3

// unlessOvertaken runs a transaction that uses openIn, anew after a people.ErrConflict, which it returns when that goes on.
func (s *Store) unlessOvertaken(ctx context.Context, do func(tx pgx.Tx) error) error {
	err := postgres.InTx(ctx, s.pool, do)
	for n := 1; n < maxOvertaken && errors.Is(err, people.ErrConflict); n++ {
		err = postgres.InTx(ctx, s.pool, do)
	}
	return err
}

func (s *Store) openIn(ctx context.Context, tx pgx.Tx, o Opening) (t Ticket, created bool, err error) {
	tag, err := tx.Exec(ctx, sqlLockPerson, o.OrgID, o.ProfileID)
	if err != nil {
		return t, false, fmt.Errorf("lock profile: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return t, false, people.ErrNoProfile
	}
	if o.Text == nil {
		if err := erasure.NotBegun(ctx, tx, o.ProfileID); err != nil {
			return t, false, err
		}
	}
	id, sessionID := "", ""
	created = false
	err = tx.QueryRow(ctx, sqlOpenTicketOf, o.ProfileID).Scan(&id, &sessionID)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		id, created = o.ID, true
		sessionID, err = s.sessions.AwaitTicket(ctx, tx, o.ProfileID, id, o.entry(), o.At)
		if err == nil && sessionID != "" && o.unawaited() {
			return t, false, people.ErrConflict // a session was opened since: the text is about it
		}
		if err == nil && o.Text != nil && o.Text.Ended != "" {
			err = s.sessions.NoteText(ctx, tx, o.Text.Ended, o.entry())
		}
	case err == nil && sessionID != "" && o.Text != nil:
		err = s.sessions.NoteText(ctx, tx, sessionID, o.entry())
	}
	if err != nil {
		return t, false, fmt.Errorf("have a session wait: %w", err)
	}
	if created || o.Text != nil {
		var opened, session string
		if err := tx.QueryRow(ctx, sqlOpen, o.args(sessionID)).Scan(&opened, &session); err != nil {
			return t, false, fmt.Errorf("open a ticket: %w", err)
		}
		if opened != id { // the one that was read was closed meanwhile, or the flow has opened one: who waits for what is to be decided anew
			return t, false, people.ErrConflict
		}
	}
	t, err = ticket(ctx, tx, sqlTicket, o.OrgID, id)
	return t, created, err
}

// unawaited reports whether a text was taken because no session waits for it.
func (o Opening) unawaited() bool {
	return o.Reason == session.Unclaimed && o.Text != nil && o.Text.Detail != OfTicket
}

// entry is the line of the timeline about what opens a ticket.
func (o Opening) entry() session.Entry {
	e := session.Entry{At: o.At, Kind: session.KindReplied, Trigger: session.TriggerOperator}
	if o.Text != nil {
		e.Trigger, e.MessageID, e.Detail = session.TriggerReply, o.Text.MessageID, o.Text.Detail
	}
	return e
}

func (o Opening) args(sessionID string) postgres.Args {
	args := postgres.Args{
		"id": o.ID, "org": o.OrgID, "profile": o.ProfileID, "session": sessionID, "reason": string(o.Reason), "detail": o.Detail,
		"author": o.Author, "message": "", "words": "", "text_at": o.At, "wrote_at": nil, "waits": nil, "texts": 0, "at": o.At,
	}
	if o.Text != nil {
		args["message"], args["words"], args["texts"] = o.Text.MessageID, conversation.Preview(o.Text.Body), 1
		args["text_at"], args["wrote_at"], args["waits"] = o.Text.At, o.Text.At, o.Text.At
	}
	return args
}

const sqlAssign = `
update tickets set assignee = nullif(@to, ''), status = case when @to = '' then 'open' else 'assigned' end,
    assigned_at = case when coalesce(assignee, '') = @to then assigned_at else @at end
where org_id = @org and id = @id and status <> 'closed' and coalesce(assignee, '') in (@from, @to)`

// Assign gives a ticket that is from somebody, or nobody, to another, or to nobody. ErrNotFound, ErrClosed, *AssignedError.
func (s *Store) Assign(ctx context.Context, orgID, id, from, to string, at time.Time) (Ticket, error) {
	tag, err := s.pool.Exec(ctx, sqlAssign, postgres.Args{"org": orgID, "id": id, "from": from, "to": to, "at": at})
	if err != nil {
		return Ticket{}, fmt.Errorf("assign a ticket: %w", err)
	}
	t, err := s.Ticket(ctx, orgID, id)
	switch {
	case err != nil:
		return Ticket{}, err
	case tag.RowsAffected() > 0:
		return t, nil
	case t.Status == Closed:
		return t, ErrClosed
	}
	return t, &AssignedError{Assignee: t.Assignee}
}

// sqlLockTicketSession comes before the ticket's lock, as in every other transaction of both.
const sqlLockTicketSession = `
select s.id from conversation_sessions s join tickets t on t.session_id = s.id where t.org_id = $1 and t.id = $2 for update of s`

const sqlClose = `
update tickets set status = 'closed', outcome = @outcome, closed_at = @at, closed_by = current_actor(), waits_since = null
where org_id = @org and id = @id and status <> 'closed'`

// Close closes a ticket, with the job that has its session go on, whose id it returns: empty without a session, and of a ticket that was
// closed before. ErrNotFound.
func (s *Store) Close(ctx context.Context, c Closing) (t Ticket, job string, err error) {
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		job = ""
		if _, err := tx.Exec(ctx, sqlLockTicketSession, c.OrgID, c.ID); err != nil {
			return fmt.Errorf("lock the session of a ticket: %w", err)
		}
		tag, err := tx.Exec(ctx, sqlClose, postgres.Args{"org": c.OrgID, "id": c.ID, "outcome": string(c.Outcome), "at": c.At})
		if err != nil {
			return fmt.Errorf("close a ticket: %w", err)
		}
		if t, err = ticket(ctx, tx, sqlTicket, c.OrgID, c.ID); err != nil || tag.RowsAffected() == 0 || t.SessionID == "" {
			return err
		}
		n, err := closedJob(t, c.At)
		if err != nil {
			return err
		}
		job = n.ID
		return s.sessions.EnqueueIn(ctx, tx, n)
	})
	return t, job, err
}

// defaultLimit is the limit of an organisation that has decided none, in minutes.
const defaultLimit = 60

const sqlGauges = `
select count(*)::int, min(t.waits_since),
    count(*) filter (where t.waits_since < @now::timestamptz - make_interval(mins => coalesce(o.ticket_limit_minutes, @usual)))::int
from (select org_id, waits_since from tickets where status <> 'closed' limit 100000) t
left join organisation_settings o on o.org_id = t.org_id`

// Gauges counts how the inboxes stand of all organisations that ctx may see.
func (s *Store) Gauges(ctx context.Context, now time.Time) (g Gauges, err error) {
	var since *time.Time
	err = s.pool.QueryRow(ctx, sqlGauges, postgres.Args{"now": now, "usual": defaultLimit}).Scan(&g.Open, &since, &g.Overdue)
	if err != nil {
		return Gauges{}, fmt.Errorf("see how the inboxes stand: %w", err)
	}
	g.Oldest = postgres.Age(since, now)
	return g, nil
}
