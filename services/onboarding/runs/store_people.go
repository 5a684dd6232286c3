package runs

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/hours"
	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/people"
)

// Candidate is a person whom a run may start a flow for, and what stands against it.
type Candidate struct {
	ID, Phone, FirstName, Locale string
	TimeZone                     string

	Fields map[string]any // of flows, as JSON has them

	Held            bool
	OptedOut        bool // as far as onboarding knows
	Busy            bool // with an open session
	Erasing         bool
	Ticket          bool // that somebody is to answer
	ConsentRequired bool // their organisation starts nobody without a consent record

	Quiet hours.Quiet // when nothing begins with them
}

// Person returns the facts that the conditions and the texts of a flow may use, of the fields that are declared.
func (c Candidate) Person(declared map[string]flow.Field) flow.Person {
	p := flow.Person{
		FirstName: catalog.ReadableName(c.FirstName), Locale: c.Locale, TimeZone: c.TimeZone, Fields: map[string]flow.Value{},
	}
	for name, given := range c.Fields {
		if value, ok := declared[name].ValueOf(given); ok {
			p.Fields[name] = value
		}
	}
	return p
}

// QuietUntil returns when a session may begin with them, and whether that is later than now.
func (c Candidate) QuietUntil(now time.Time) (until time.Time, quiet bool) {
	until = c.Quiet.Next(now)
	return until, until.After(now)
}

const (
	sqlCandidates = `
select p.id, p.phone, p.first_name, p.locale, p.time_zone, p.hold, p.opted_out_at is not null,
    exists (select from conversation_sessions s where s.profile_id = p.id and s.status not in ('stopped', 'closed')
        and not (s.status = 'active' and s.mode = 'interviewing')),
    exists (select from erasures e where e.profile_id = p.id),
    exists (select from tickets t where t.profile_id = p.id and t.status <> 'closed'), coalesce(o.require_consent_record, false),
    (select jsonb_object_agg(f.name, f.value) from profile_fields f where f.profile_id = p.id),
    coalesce(o.time_zone, 'UTC'), o.org_id is not null,
    case when o.quiet_hours then o.quiet_until end, case when o.quiet_hours then o.quiet_from end
from profiles p left join organisation_settings o on o.org_id = p.org_id
where p.org_id = @org`

	sqlCandidatesByID    = sqlCandidates + ` and p.id = any(@ids::uuid[])`
	sqlCandidatesByPhone = sqlCandidates + ` and p.phone = any(@phones::text[])`
	sqlCandidatesBehind  = sqlCandidates + ` and p.id > @after order by p.id limit @limit`
)

// Candidates returns the people with some ids, in any order; one who is not there is left out.
func (s *Store) Candidates(ctx context.Context, orgID string, ids []string) ([]Candidate, error) {
	return s.candidates(s.pool.Query(ctx, sqlCandidatesByID, postgres.Args{"org": orgID, "ids": ids}))
}

// CandidatesByPhone returns the people with some phones, in any order; one who is not there is left out.
func (s *Store) CandidatesByPhone(ctx context.Context, orgID string, phones []string) ([]Candidate, error) {
	return s.candidates(s.pool.Query(ctx, sqlCandidatesByPhone, postgres.Args{"org": orgID, "phones": phones}))
}

// CandidatesBehind returns the people of an organisation by their ids, from behind one of them.
func (s *Store) CandidatesBehind(ctx context.Context, orgID, after string, limit int) ([]Candidate, error) {
	return s.candidates(s.pool.Query(ctx, sqlCandidatesBehind, postgres.Args{"org": orgID, "after": after, "limit": limit}))
}

func (s *Store) candidates(rows pgx.Rows, err error) ([]Candidate, error) {
	if err != nil {
		return nil, fmt.Errorf("read who may be started: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (c Candidate, err error) {
		var usual string
		var decided bool
		var opens, closes *string
		err = r.Scan(&c.ID, &c.Phone, &c.FirstName, &c.Locale, &c.TimeZone, &c.Held, &c.OptedOut, &c.Busy, &c.Erasing,
			&c.Ticket, &c.ConsentRequired, &c.Fields, &usual, &decided, &opens, &closes)
		zones := people.Zones(c.TimeZone, c.Phone, usual)
		c.TimeZone, c.Quiet = zones[0].String(), s.people.Window(decided, opens, closes, zones)
		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("read who may be started: %w", err)
	}
	return found, nil
}

// sqlOpenings tells of sessions whether their opening was sent, or is not sent any more, and else whether it waits: for quiet hours or a
// cap, under its own subject, or for a hold.
const sqlOpenings = `
select s.id::text, s.turn > 0 or s.status <> 'active', p.hold or exists (select from webhook_jobs j
    where j.org_id = s.org_id and j.subject = 'opening:' || s.id and j.status in ('pending', 'processing'))
from conversation_sessions s join profiles p on p.id = s.profile_id where s.id = any(@ids::uuid[])`

// Openings returns which sessions need no opening any more, and which openings wait for a time or an operator.
func (s *Store) Openings(ctx context.Context, sessionIDs []string) (sent, waiting []string, err error) {
	rows, err := s.pool.Query(ctx, sqlOpenings, postgres.Args{"ids": sessionIDs})
	if err != nil {
		return nil, nil, fmt.Errorf("read which openings were sent: %w", err)
	}
	var id string
	var is, waits bool
	_, err = pgx.ForEachRow(rows, []any{&id, &is, &waits}, func() error {
		switch {
		case is:
			sent = append(sent, id)
		case waits:
			waiting = append(waiting, id)
		}
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read which openings were sent: %w", err)
	}
	return sent, waiting, nil
}
