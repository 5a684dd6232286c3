package tickets

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/session"
)

// Filter chooses tickets. All that it names must be true of one.
type Filter struct {
	OrgID     string
	Closed    bool     // those that are closed; else those that are not
	Statuses  []Status // of those; empty for all
	Assignee  string
	ProfileID string
	Reason    session.TicketReason
	Limit     int
	Before    *Place // only tickets behind it
}

// Place is where a page of tickets ends.
type Place struct {
	At time.Time `json:"at"`
	ID string    `json:"id"`
}

// The two lists go through an index of each, and of each by assignee. A condition that is not asked for is not in the statement, so that
// the plan is the list's own.
const (
	sqlNotClosed = ` t.org_id = @org and t.status <> 'closed'`
	sqlClosed    = ` t.org_id = @org and t.status = 'closed'`
	sqlListed    = ` order by t.last_text_at desc, t.id desc limit @limit`
)

// List lists tickets that are closed, or those that are not, the one with the newest text first.
func (s *Store) List(ctx context.Context, f Filter) ([]Ticket, error) {
	sql := ticketColumns + `where`
	args := postgres.Args{"org": f.OrgID, "limit": f.Limit}
	if f.Closed {
		sql += sqlClosed
	} else {
		sql += sqlNotClosed
	}
	if len(f.Statuses) > 0 && !f.Closed {
		sql, args["statuses"] = sql+` and t.status = any(@statuses)`, f.Statuses
	}
	if f.Assignee != "" {
		sql, args["assignee"] = sql+` and t.assignee = @assignee`, f.Assignee
	}
	if f.ProfileID != "" {
		sql, args["profile"] = sql+` and t.profile_id = @profile`, f.ProfileID
	}
	if f.Reason != "" {
		sql, args["reason"] = sql+` and t.reason = @reason`, f.Reason
	}
	if f.Before != nil {
		sql += ` and (t.last_text_at, t.id) < (@before_at::timestamptz, @before_id::uuid)`
		args["before_at"], args["before_id"] = f.Before.At, f.Before.ID
	}
	rows, err := s.pool.Query(ctx, sql+sqlListed, args)
	if err != nil {
		return nil, fmt.Errorf("list tickets: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[Ticket])
	if err != nil {
		return nil, fmt.Errorf("list tickets: %w", err)
	}
	return found, nil
}

// ListAll lists closed tickets and others together: both lists, merged.
func (s *Store) ListAll(ctx context.Context, f Filter) ([]Ticket, error) {
	f.Closed, f.Statuses = false, slices.DeleteFunc(slices.Clone(f.Statuses), func(st Status) bool { return st == Closed })
	found, err := s.List(ctx, f)
	if err != nil {
		return nil, err
	}
	f.Closed = true
	closed, err := s.List(ctx, f)
	if err != nil {
		return nil, err
	}
	found = append(found, closed...)
	slices.SortFunc(found, func(a, b Ticket) int {
		if d := b.LastTextAt.Compare(a.LastTextAt); d != 0 {
			return d
		}
		if a.ID > b.ID {
			return -1
		}
		return 1
	})
	return found[:min(f.Limit, len(found))], nil
}

const sqlCounts = `
select count(*) filter (where status = 'open')::int, count(*) filter (where status = 'assigned')::int,
    (select count(*)::int from (select from tickets where org_id = $1 and assignee = $2 and status <> 'closed' limit 10000) m)
from (select status from tickets where org_id = $1 and status <> 'closed' limit 10000) t`

// Counts counts the tickets that are not closed, and those of one assignee, each up to 10,000.
func (s *Store) Counts(ctx context.Context, orgID, assignee string) (c Counts, err error) {
	if err := s.pool.QueryRow(ctx, sqlCounts, orgID, assignee).Scan(&c.Open, &c.Assigned, &c.Mine); err != nil {
		return Counts{}, fmt.Errorf("count tickets: %w", err)
	}
	return c, nil
}

const sqlAddNote = `
with place as (
    select id, notes from tickets where org_id = @org and id = @ticket for update
), added as (
    insert into ticket_notes (id, org_id, ticket_id, idempotency_key, body, author, created_at)
    select @id, @org, p.id, @key, @body, @author, @at from place p where p.notes < @most
    on conflict (ticket_id, idempotency_key) do nothing returning ticket_id
), counted as (
    update tickets t set notes = t.notes + 1 from added where t.id = added.ticket_id
)
select (select notes from place), exists (select from added)`

const sqlNoteByKey = `
select id::text, ticket_id::text, body, author, created_at from ticket_notes where org_id = $1 and ticket_id = $2 and idempotency_key = $3`

// AddNote adds a note, or returns the one that its key has. ErrNotFound, ErrManyNotes, ErrKeyReused.
func (s *Store) AddNote(ctx context.Context, orgID, key string, n Note) (kept Note, duplicate bool, err error) {
	var notes *int
	var added bool
	err = s.pool.QueryRow(ctx, sqlAddNote, postgres.Args{
		"id": n.ID, "org": orgID, "ticket": n.TicketID, "key": key, "body": n.Body, "author": n.Author, "at": n.CreatedAt, "most": MaxNotes,
	}).Scan(&notes, &added)
	switch {
	case err != nil:
		return Note{}, false, fmt.Errorf("add a note: %w", err)
	case notes == nil:
		return Note{}, false, ErrNotFound
	}
	rows, err := s.pool.Query(ctx, sqlNoteByKey, orgID, n.TicketID, key)
	if err != nil {
		return Note{}, false, fmt.Errorf("read a note: %w", err)
	}
	kept, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Note])
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Note{}, false, ErrManyNotes
	case err != nil:
		return Note{}, false, fmt.Errorf("read a note: %w", err)
	case !added && kept.Body != n.Body:
		return Note{}, false, ErrKeyReused
	}
	return kept, !added, nil
}

const sqlNotes = `
select n.id::text, n.ticket_id::text, n.body, n.author, n.created_at from ticket_notes n
where n.org_id = $1 and n.ticket_id = $2 order by n.id limit $3`

// Notes lists the notes of a ticket, oldest first; ErrNotFound.
func (s *Store) Notes(ctx context.Context, orgID, ticketID string) ([]Note, error) {
	if _, err := s.Ticket(ctx, orgID, ticketID); err != nil {
		return nil, err
	}
	rows, err := s.pool.Query(ctx, sqlNotes, orgID, ticketID, MaxNotes)
	if err != nil {
		return nil, fmt.Errorf("list notes: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[Note])
	if err != nil {
		return nil, fmt.Errorf("list notes: %w", err)
	}
	return found, nil
}
