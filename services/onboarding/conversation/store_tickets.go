package conversation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// sqlTicketOfMove opens the ticket of a session whose flow hands its person over, with the move. A ticket that they have is the one that
// the session waits for.
const sqlTicketOfMove = `
    insert into tickets (id, org_id, profile_id, session_id, status, reason, detail, message_id, last_text, last_text_at, person_wrote_at,
        waits_since, texts, opened_at, opened_by)
    select u.id, m.org_id, m.profile_id, m.id, 'open', u.reason, left(u.detail, 200), nullif(u.message, '')::uuid, u.words,
        coalesce(u.wrote, m.at), case when u.message <> '' then coalesce(u.wrote, m.at) end, coalesce(u.wrote, m.at),
        case when u.message <> '' then 1 else 0 end, m.at, null
    from moved m cross join lateral (select (@ticket::uuid[])[m.n] as id, (@ticket_reason::text[])[m.n] as reason,
        (@ticket_detail::text[])[m.n] as detail, (@ticket_message::text[])[m.n] as message, (@ticket_words::text[])[m.n] as words,
        (@ticket_wrote::timestamptz[])[m.n] as wrote) u
    where u.id is not null
    on conflict (profile_id) where status <> 'closed' do update set session_id = excluded.session_id`

// ticketArgs adds the arguments of sqlTicketOfMove; null for a move that opens none.
func ticketArgs(args postgres.Args, m session.Move, cause *Cause) {
	for _, name := range []string{"ticket", "ticket_reason", "ticket_detail", "ticket_message", "ticket_words", "ticket_wrote"} {
		args[name] = nil
	}
	if m.Ticket == nil {
		return
	}
	reason := session.HandOver
	if m.Ticket.Unclear {
		reason = session.Unclear
	}
	message, words := "", ""
	for _, e := range m.Entries {
		if e.Kind == session.KindReplied {
			message = e.MessageID
		}
	}
	if cause != nil && message != "" {
		words = Preview(wordsOf(cause.Job))
		args["ticket_wrote"] = postgres.NullIfZero(cause.WroteAt)
	}
	args["ticket"], args["ticket_reason"], args["ticket_detail"] = uuid.Must(uuid.NewV7()).String(), string(reason), m.Ticket.Reason
	args["ticket_message"], args["ticket_words"] = message, words
}

// wordsOf returns the text of the message that a job carries; empty of any other job.
func wordsOf(j queue.Job) string {
	var m struct {
		Body    string `json:"body"`
		Message struct {
			Body string `json:"body"`
		} `json:"message"`
	}
	if !IsReply(j) || json.Unmarshal(j.Payload, &m) != nil {
		return ""
	}
	return m.Body + m.Message.Body
}

// maxPreview bounds the characters of a preview.
const maxPreview = 160

// Preview returns the beginning of a text, on one line, as the inbox lists it.
func Preview(text string) string {
	line := []rune(strings.Join(strings.Fields(text), " "))
	if len(line) > maxPreview {
		line = append(line[:maxPreview-1], '…')
	}
	return string(line)
}

// sqlUnclaimed closes an unattended ticket: a conversation begins.
const sqlUnclaimed = `
update tickets i set status = 'closed', closed_at = @at, closed_by = current_actor(), outcome = 'entered', waits_since = null
where i.profile_id = @profile and ` + people.SQLUnattended

const sqlTicketOpen = `select exists (select from tickets where profile_id = $1 and status <> 'closed')`

// noTicket returns ErrTicketOpen while a person who is locked has a ticket: what they wrote is to be read before another conversation
// begins. One that nobody has does not keep back what the host application, a keyword or a flow begins with this person alone.
func noTicket(ctx context.Context, tx pgx.Tx, o Opening) error {
	if !o.Many {
		if _, err := tx.Exec(ctx, sqlUnclaimed, postgres.Args{"profile": o.Session.ProfileID, "at": o.Session.CreatedAt}); err != nil {
			return fmt.Errorf("close a ticket that nobody has: %w", err)
		}
	}
	var open bool
	if err := tx.QueryRow(ctx, sqlTicketOpen, o.Session.ProfileID).Scan(&open); err != nil {
		return fmt.Errorf("read the ticket of a person: %w", err)
	}
	if open {
		return ErrTicketOpen
	}
	return nil
}

const sqlCloseTicketOf = `
update tickets set status = 'closed', closed_at = @at, closed_by = current_actor(), outcome = 'resume', waits_since = null
where session_id = @session and status <> 'closed'`

// closeTicketOf closes the ticket that a session waits for, when the session is resumed otherwise.
func closeTicketOf(ctx context.Context, tx pgx.Tx, sessionID string, at time.Time) error {
	if _, err := tx.Exec(ctx, sqlCloseTicketOf, postgres.Args{"session": sessionID, "at": at}); err != nil {
		return fmt.Errorf("close the ticket of a session: %w", err)
	}
	return nil
}

// sqlMayWait locks the person and the session that a ticket concerns: the open one, or one that waits for an earlier ticket.
const sqlMayWait = sqlSession + `
where s.profile_id = $1 and (s.status = 'active'
    or s.status = 'stuck' and (starts_with(s.status_reason, $2) or starts_with(s.status_reason, $3)))
order by s.status = 'active' desc, s.id desc limit 1 for update of s`

// AwaitTicket parks the open session of a person until a ticket is closed, and returns its id. It is empty without a session, and of one
// that the host application holds, which goes on. The entry is of the text that opens the ticket, and is added to the timeline all the
// same.
func (s *Store) AwaitTicket(
	ctx context.Context, tx pgx.Tx, profileID, ticketID string, entry session.Entry, at time.Time,
) (sessionID string, err error) {
	rows, err := tx.Query(ctx, sqlMayWait, profileID, session.WithPerson, session.HandedOver)
	view, err := s.collectView(rows, err)
	if isNoSession(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	r := view.Session
	var said []session.Entry
	if entry.MessageID != "" {
		said = []session.Entry{entry}
	}
	if r.Mode != session.Onboarding {
		return "", writeTimeline(ctx, tx, r.ID, said)
	}
	park := session.Park(r, at, session.Stuck, entry.Trigger, entry.MessageID, session.ForTicket(ticketID))
	park.Entries = append(said, park.Entries...)
	if r.At.Phase == flow.Handed {
		park.Reason = r.Reason
	}
	cause, err := underWay(ctx, tx, r.ID, entry.MessageID == "")
	if err != nil {
		return "", err
	}
	return r.ID, move(ctx, tx, park, cause)
}

// sqlUnderWay selects what a session keeps for its resume while it waits for a ticket: what it has kept, or, of a ticket by hand, the reply
// that is being answered or has been tried. Its answer may be at the carrier already.
const sqlUnderWay = `
select coalesce(s.parked_job_id, case when @by_hand then (
    select j.id from webhook_jobs j
    where j.org_id = s.org_id and j.subject = p.phone and j.status in ('pending', 'processing') and j.event_type = any(@replies)
      and (j.status = 'processing' or j.error_message <> '')
    order by j.id limit 1) end)::text
from conversation_sessions s join profiles p on p.id = s.profile_id where s.id = @session`

func underWay(ctx context.Context, tx pgx.Tx, sessionID string, byHand bool) (*Cause, error) {
	var id *string
	err := tx.QueryRow(ctx, sqlUnderWay, postgres.Args{
		"session": sessionID, "by_hand": byHand, "replies": []string{EventMessage, EventWhatsApp, EventResumedReply},
	}).Scan(&id)
	if err != nil {
		return nil, fmt.Errorf("read what is under way: %w", err)
	}
	if id == nil {
		return nil, nil //nolint:nilnil // a move without a cause
	}
	return &Cause{Job: queue.Job{ID: *id}}, nil
}

// sqlAttach makes an open ticket of a person that of a session.
const sqlAttach = `
update tickets set session_id = @session where profile_id = @profile and status <> 'closed' and session_id is distinct from @session
returning id::text`

// awaitOther has a session that is to be resumed wait for the ticket of its person, if it is not its own. Its own is ErrTicketOpen if it is
// not to be closed.
func awaitOther(ctx context.Context, tx pgx.Tx, r session.Record, how resuming) (waiting session.Record, waits bool, err error) {
	var id string
	err = tx.QueryRow(ctx, sqlAttach, postgres.Args{"session": r.ID, "profile": r.ProfileID}).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return r, false, unlessOpen(ctx, tx, r, how)
	}
	if err != nil {
		return r, false, fmt.Errorf("have a session wait for a ticket: %w", err)
	}
	cause, err := underWay(ctx, tx, r.ID, false)
	if err != nil {
		return r, false, err
	}
	park := session.Park(r, how.At, session.Stuck, how.By, "", session.ForTicket(id))
	if err := move(ctx, tx, park, cause); err != nil {
		return r, false, err
	}
	r.Status, r.Reason, r.Turn, r.Detours, r.UpdatedAt = park.Status, park.Reason, r.Turn+1, r.Detours+1, how.At
	return r, true, nil
}

func unlessOpen(ctx context.Context, tx pgx.Tx, r session.Record, how resuming) error {
	if how.ClosesTicket {
		return nil
	}
	var open bool
	if err := tx.QueryRow(ctx, sqlTicketOpen, r.ProfileID).Scan(&open); err != nil {
		return fmt.Errorf("read the ticket of a person: %w", err)
	}
	if open {
		return ErrTicketOpen
	}
	return nil
}

// ResumeAfterTicket is Resume of a session that stands where it was read, after its ticket was closed, and ends the job of that. A session
// that waits for an answer waits for it anew, where it was: what is said there again has the same key. people.ErrConflict, queue.ErrFenced,
// ErrOtherOpen; ErrTicketOpen when another ticket decides.
func (s *Store) ResumeAfterTicket(
	ctx context.Context, r session.Record, p TicketClosed, waits bool, silentAt time.Time, cause Cause, at time.Time,
) error {
	return postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if err := awaited(ctx, tx, r, p); err != nil {
			return err
		}
		if _, err := resume(ctx, tx, r, resuming{
			Cause: session.CauseResumed, By: session.TriggerOperator, At: at, Anew: waits, SilentAt: silentAt,
		}); err != nil {
			return err
		}
		return finishCause(ctx, tx, &cause, at)
	})
}

// MoveAfterTicket is Move of a session after its ticket was closed; ErrTicketOpen when another ticket decides.
func (s *Store) MoveAfterTicket(ctx context.Context, m session.Move, p TicketClosed, cause Cause) error {
	return postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if err := awaited(ctx, tx, m.From, p); err != nil {
			return err
		}
		if err := move(ctx, tx, m, &cause); err != nil {
			return err
		}
		if !m.AnswerHeldSince.IsZero() {
			if err := answerHeld(ctx, tx, m.From, m.From.Place()+1, m.AnswerHeldSince, m.At); err != nil {
				return err
			}
		}
		return finishCause(ctx, tx, &cause, m.At)
	})
}

// sqlOtherTicket finds a ticket that decides instead of one that was closed: one that is open, or was closed later.
const sqlOtherTicket = `
select exists (select from tickets where profile_id = @profile and id <> @ticket
    and (status <> 'closed' or session_id = @session and closed_at > @closed))`

// awaited locks a session that stands where it was read, if its closed ticket decides how it goes on: a ticket is opened with a move of the
// session. people.ErrConflict, ErrTicketOpen.
func awaited(ctx context.Context, tx pgx.Tx, r session.Record, p TicketClosed) error {
	if err := still(ctx, tx, r); err != nil {
		return err
	}
	var other bool
	err := tx.QueryRow(ctx, sqlOtherTicket, postgres.Args{
		"profile": r.ProfileID, "ticket": p.TicketID, "session": r.ID, "closed": p.At,
	}).Scan(&other)
	switch {
	case err != nil:
		return fmt.Errorf("read the tickets of a person: %w", err)
	case other:
		return ErrTicketOpen
	}
	return nil
}

// sqlStranded selects sessions that wait for a ticket which is closed, without a job that has them go on.
const sqlStranded = `
select t.id::text as ticket_id, s.id::text as session_id, s.profile_id::text, s.org_id::text, t.outcome as how, t.closed_at as at
from conversation_sessions s cross join lateral (
    select c.id, c.outcome, c.closed_at from tickets c where c.session_id = s.id and c.status = 'closed'
    order by c.closed_at desc, c.id desc limit 1) t
where s.status in ('stuck', 'undeliverable') and s.status = 'stuck'
  and (starts_with(s.status_reason, @handed_over) or starts_with(s.status_reason, @with_person) and strpos(s.status_reason, t.id::text) > 0)
  and t.closed_at < @before and not exists (select from tickets o where o.profile_id = s.profile_id and o.status <> 'closed')
  and not exists (select from webhook_jobs j
      where j.org_id = s.org_id and j.subject = 'ticket:' || t.id and j.status in ('pending', 'processing'))
order by s.id limit 100`

// Stranded is a session that waits for a ticket which is closed.
type Stranded struct {
	TicketClosed

	OrgID string
}

// Stranded lists sessions that wait for a ticket which was closed before an instant, and have no job that has them go on.
func (s *Store) Stranded(ctx context.Context, before time.Time) ([]Stranded, error) {
	rows, err := s.pool.Query(ctx, sqlStranded, postgres.Args{
		"before": before, "handed_over": session.HandedOver, "with_person": session.WithPerson,
	})
	if err == nil {
		var found []Stranded
		if found, err = pgx.CollectRows(rows, pgx.RowToStructByName[Stranded]); err == nil {
			return found, nil
		}
	}
	return nil, fmt.Errorf("find sessions that wait for a closed ticket: %w", err)
}

// NoteText adds a text that a ticket takes to the timeline of a session.
func (s *Store) NoteText(ctx context.Context, tx pgx.Tx, sessionID string, entry session.Entry) error {
	return writeTimeline(ctx, tx, sessionID, []session.Entry{entry})
}

// EndJob ends the job of a text that a ticket takes, in the transaction that does; queue.ErrFenced.
func (s *Store) EndJob(ctx context.Context, tx pgx.Tx, j queue.Job, at time.Time) error {
	return finishCause(ctx, tx, &Cause{Job: j}, at)
}

// EnqueueIn stores a job in a transaction that exists already.
func (s *Store) EnqueueIn(ctx context.Context, tx pgx.Tx, n queue.New) error {
	if _, err := enqueue(ctx, tx, n); err != nil {
		return err
	}
	return postgres.Notify(ctx, tx, ChannelJobs)
}
