package erasure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
)

// Store keeps the requests to erase people, and erases, exports and holds what this database has of them.
type Store struct{ pool postgres.DB }

// NewStore returns a store on an open pool.
func NewStore(pool postgres.DB) *Store { return &Store{pool: pool} }

const sqlPerson = `select phone from profiles where org_id = $1 and id = $2`

// Person reads a person; ErrNoProfile.
func (s *Store) Person(ctx context.Context, orgID, profileID string) (Person, error) {
	p := Person{OrgID: orgID, ProfileID: profileID}
	err := s.pool.QueryRow(ctx, sqlPerson, orgID, profileID).Scan(&p.Phone)
	if errors.Is(err, pgx.ErrNoRows) {
		return Person{}, ErrNoProfile
	}
	if err != nil {
		return Person{}, fmt.Errorf("read a person: %w", err)
	}
	return p, nil
}

const (
	sqlLockPerson = `select phone, legal_hold_at is not null from profiles where org_id = @org and id = @profile for update`

	// sqlKeepErasure does not find what a request of the same moment has kept: the lock on the person is had before it.
	sqlKeepErasure = `
insert into erasures (profile_id, org_id, pseudonym, source, requested_at, next_try_at)
values (@profile, @org, @pseudonym, @source, @at, @at) on conflict (profile_id) do nothing`

	// sqlCloseSessions ends what is open of a person, so that no alarm and no reply finds anything to do.
	sqlCloseSessions = `
with closed as (
    update conversation_sessions set status = 'closed', status_reason = 'the person is being erased', turn = turn + 1, updated_at = @at
    where profile_id = @profile and status <> 'closed' returning id, state_token
)
insert into session_transitions (session_id, from_state_token, at, kind, to_state_token, trigger)
select id, state_token, @at, 'closed', state_token, 'operator' from closed`

	sqlCancelJobs = `
update webhook_jobs set status = 'cancelled', next_retry_at = null, processed_at = @at, updated_at = @at
where org_id = @org and status = 'pending' and subject in (
    select @phone union all select 'reply:' || s.id || ':' || place
    from conversation_sessions s, generate_series(0, s.turn - s.detours) place where s.profile_id = @profile)`

	sqlCancelOutreach = `
update engagement_outreach set status = 'cancelled', next_retry_at = null, processed_at = @at, updated_at = @at
where org_id = @org and (profile_id = @profile or member_id = @profile) and status = 'pending'`

	sqlBlankRequest = `update webhook_jobs set payload = '{}' where org_id = @org and id = nullif(@job, '')::uuid`
)

// Request ends what is open of a person and keeps the request, in one transaction; a repeat changes nothing.
// ErrLegalHold, ErrNoProfile.
func (s *Store) Request(ctx context.Context, r Request) error {
	args := postgres.Args{
		"org": r.OrgID, "profile": r.ProfileID, "pseudonym": r.Pseudonym, "source": r.Source, "at": r.At, "job": r.JobID,
	}
	return postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		var phone string
		var held bool
		err := tx.QueryRow(ctx, sqlLockPerson, args).Scan(&phone, &held)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return ErrNoProfile
		case err != nil:
			return fmt.Errorf("lock a person: %w", err)
		case held:
			return ErrLegalHold
		}
		args["phone"] = phone
		for _, sql := range []string{sqlKeepErasure, sqlCloseSessions, sqlCancelJobs, sqlCancelOutreach, sqlBlankRequest} {
			if _, err := tx.Exec(ctx, sql, args); err != nil {
				return fmt.Errorf("begin an erasure: %w", err)
			}
		}
		return nil
	})
}

const sqlErasures = `
select e.profile_id::text, e.org_id::text, coalesce(p.phone, '') as phone, e.pseudonym, e.source, e.requested_at, e.erased_at,
    e.tries, e.waits_for
from erasures e left join profiles p on p.id = e.profile_id
`

// Find reads a request; ErrNoErasure.
func (s *Store) Find(ctx context.Context, orgID, profileID string) (Erasure, error) {
	found, err := s.erasures(ctx, sqlErasures+`where e.org_id = @org and e.profile_id = @profile`,
		postgres.Args{"org": orgID, "profile": profileID})
	if err == nil && len(found) == 0 {
		err = ErrNoErasure
	}
	if err != nil {
		return Erasure{}, err
	}
	return found[0], nil
}

// Due are those to go on with.
func (s *Store) Due(ctx context.Context, now time.Time, limit int) ([]Erasure, error) {
	return s.erasures(ctx, sqlErasures+`where e.next_try_at <= @now order by e.next_try_at limit @limit`,
		postgres.Args{"now": now, "limit": limit})
}

func (s *Store) erasures(ctx context.Context, sql string, args postgres.Args) ([]Erasure, error) {
	rows, err := s.pool.Query(ctx, sql, args)
	if err != nil {
		return nil, fmt.Errorf("read erasures: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[Erasure])
	if err != nil {
		return nil, fmt.Errorf("read erasures: %w", err)
	}
	return found, nil
}

const sqlErasureWaits = `
update erasures set waits_for = @waits, next_try_at = @next, tries = tries + 1 where profile_id = @profile and erased_at is null`

// Delay puts the next try off.
func (s *Store) Delay(ctx context.Context, profileID, waitsFor string, next time.Time) error {
	if _, err := s.pool.Exec(ctx, sqlErasureWaits, postgres.Args{"profile": profileID, "waits": waitsFor, "next": next}); err != nil {
		return fmt.Errorf("put an erasure off: %w", err)
	}
	return nil
}

// EraseProfile deletes all data of a person, and ends the erasure; not done while one of their jobs is at work.
func (s *Store) EraseProfile(ctx context.Context, orgID, profileID string, at time.Time) (done bool, err error) {
	args := postgres.Args{"org": orgID, "profile": profileID, "at": at}
	err = s.pool.QueryRow(ctx, `select erase_profile(@org, @profile, @at)`, args).Scan(&done)
	if err != nil {
		return false, fmt.Errorf("erase a profile: %w", err)
	}
	return done, nil
}

const (
	sqlLegalHold = `
update profiles set legal_hold_at = coalesce(legal_hold_at, @at), legal_hold_reason = @reason, updated_at = @at
where org_id = @org and id = @profile`

	sqlLiftLegalHold = `
update profiles set legal_hold_at = null, legal_hold_reason = '', updated_at = @at where org_id = @org and id = @profile`

	sqlBeingErased = `select exists (select from erasures where profile_id = @profile)`
)

// NotBegun refuses what is new of a person who is being erased: it would go with them, or never be sent. ErrBegun.
func NotBegun(ctx context.Context, db postgres.DB, profileID string) error {
	var begun bool
	if err := db.QueryRow(ctx, sqlBeingErased, postgres.Args{"profile": profileID}).Scan(&begun); err != nil {
		return fmt.Errorf("read an erasure: %w", err)
	}
	if begun {
		return ErrBegun
	}
	return nil
}

// SetLegalHold keeps a person's data, for a reason, or lifts that with an empty one. ErrNoProfile, ErrBegun.
func (s *Store) SetLegalHold(ctx context.Context, orgID, profileID, reason string, at time.Time) error {
	args := postgres.Args{"org": orgID, "profile": profileID, "reason": reason, "at": at}
	sql := sqlLegalHold
	if reason == "" {
		sql = sqlLiftLegalHold
	}
	return postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		var phone string
		var held bool
		err := tx.QueryRow(ctx, sqlLockPerson, args).Scan(&phone, &held)
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrNoProfile
		}
		if err != nil {
			return fmt.Errorf("lock a person: %w", err)
		}
		if err := NotBegun(ctx, tx, profileID); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, sql, args); err != nil {
			return fmt.Errorf("set a legal hold: %w", err)
		}
		return nil
	})
}

// maxExport bounds the rows of one kind in an export, maxExportBytes its length.
const (
	maxExport      = 5000
	maxExportBytes = 1 << 20
)

// sqlExportProfile has one row more of a kind than there may be, so that it is seen when there are too many.
const sqlExportProfile = `
with p as (
    select p.org_id, p.phone, to_jsonb(p) - 'legal_hold_reason' as line from profiles p where p.org_id = @org and p.id = @profile
), s as (
    select s.id, to_jsonb(s) as line from conversation_sessions s where s.profile_id = @profile
), names as (
    select names_of(p.phone) || @profile::uuid::text || array(select id::text from s) as of from p
), named as materialized ( -- as erase_profile finds them
    select j.id, j.org_id, to_jsonb(j) - 'lease_token' as line from webhook_jobs j
    where j.processed_at is not null and names_in(j.idempotency_key, j.subject, j.payload) && (select of from names)
), j as (
    select id, line from named where org_id = @org
    union
    select j.id, to_jsonb(j) - 'lease_token' from webhook_jobs j where j.org_id = @org and j.status in ('pending', 'processing')
        and names_in(j.idempotency_key, j.subject, j.payload) && (select of from names)
    union
    select j.id, to_jsonb(j) - 'lease_token' from webhook_jobs j where j.org_id = @org and j.subject like 'whatsapp:%'
        and j.subject = (select 'whatsapp:' || (line ->> 'whatsapp_user_id') from p)
), kinds (kind, lines) as (values
    ('sessions', array(select s.line from s order by s.id limit @most + 1)),
    ('timeline', array(select to_jsonb(t) from session_transitions t join s on s.id = t.session_id order by t.id limit @most + 1)),
    ('alarms', array(select to_jsonb(a) - 'lease_token' from step_alarms a join s on s.id = a.session_id order by a.id limit @most + 1)),
    ('held_replies', array(select to_jsonb(h) from held_replies h join s on s.id = h.session_id order by h.received_at limit @most + 1)),
    ('jobs', array(select j.line from j order by j.id limit @most + 1)),
    ('engagement', array(select to_jsonb(e) from user_engagement_states e where e.profile_id = @profile limit @most + 1)),
    ('engagement_transitions', array(select to_jsonb(e) from engagement_state_transitions e where e.profile_id = @profile
        order by e.id limit @most + 1)),
    ('outreach', array(select to_jsonb(o) - 'lease_token' from engagement_outreach o where o.org_id = @org and o.profile_id = @profile
        order by o.id limit @most + 1)),
    ('actions', array(select to_jsonb(a) from engagement_actions a where a.org_id = @org and a.profile_id = @profile
        order by a.id limit @most + 1)),
    ('goal_readings', array(select to_jsonb(r) from goal_readings r where r.profile_id = @profile order by r.created_at limit @most + 1)),
    ('goal_alarms', array(select to_jsonb(a) - 'lease_token' from goal_alarms a join goals g on g.id = a.goal_id
        where g.profile_id = @profile order by a.id limit @most + 1)),
    ('dead_letters', array(select to_jsonb(d)
            || jsonb_build_object('payload', encode(d.payload, 'escape'), 'response', encode(d.response, 'escape'))
        from dead_letters d join s on s.id = d.session_id order by d.id limit @most + 1)),
    ('fields', array(select to_jsonb(f) from profile_fields f where f.profile_id = @profile order by f.name limit @most + 1)),
    ('tickets', array(select to_jsonb(t) - 'opened_by' - 'closed_by' - 'assignee' from tickets t where t.profile_id = @profile
        order by t.id limit @most + 1)),
    ('answers', array(select to_jsonb(a) - 'author' from ticket_answers a where a.profile_id = @profile order by a.id limit @most + 1)),
    ('notes', array(select to_jsonb(n) - 'author' from ticket_notes n join tickets t on t.id = n.ticket_id where t.profile_id = @profile
        order by n.id limit @most + 1)),
    ('runs', array(select to_jsonb(r) from flow_run_people r where r.profile_id = @profile order by r.run_id limit @most + 1)),
    ('household', array(select to_jsonb(h) from household_members h where h.profile_id = @profile limit @most + 1)),
    ('goals', array(select to_jsonb(g) from goals g where g.profile_id = @profile order by g.id limit @most + 1)),
    ('goal_transitions', array(select to_jsonb(t) from goal_transitions t join goals g on g.id = t.goal_id where g.profile_id = @profile
        order by t.id limit @most + 1)),
    ('devices', array(select to_jsonb(d) - 'token_hash' from devices d where d.profile_id = @profile order by d.id limit @most + 1)),
    ('events', array(select to_jsonb(e) from events e where e.org_id = @org and e.subject = @profile::uuid::text
        order by e.seq limit @most + 1)),
    ('audit', array(select to_jsonb(a) from audit a where a.org_id = @org and a.profile_id = @profile order by a.at, a.id limit @most + 1))
)
select coalesce(max(cardinality(lines)), 0),
    (jsonb_object_agg(kind, to_jsonb(lines)) || jsonb_build_object('profile', (select p.line from p)))::text
from kinds`

// Export is everything that is kept here about a person, as one JSON object; ErrTooLarge.
func (s *Store) Export(ctx context.Context, orgID, profileID string) (json.RawMessage, error) {
	var rows int
	var document string
	err := s.pool.QueryRow(ctx, sqlExportProfile, postgres.Args{"org": orgID, "profile": profileID, "most": maxExport}).Scan(&rows, &document)
	if err != nil {
		return nil, fmt.Errorf("export a profile: %w", err)
	}
	if rows > maxExport || len(document) > maxExportBytes {
		return nil, fmt.Errorf("%w (at most %d rows of a kind, and %d bytes)", ErrTooLarge, maxExport, maxExportBytes)
	}
	return json.RawMessage(document), nil
}

const sqlUnasked = `
select array(select p.id::text from profiles p
        where p.org_id = @org and p.legal_hold_at is null and not exists (select from erasures e where e.profile_id = p.id) limit @limit),
    (select count(*) from profiles where org_id = @org)`

// Unasked lists some people of an organisation who may be erased and are not asked for, and counts all people that there are.
func (s *Store) Unasked(ctx context.Context, orgID string, limit int) (profileIDs []string, people int, err error) {
	err = s.pool.QueryRow(ctx, sqlUnasked, postgres.Args{"org": orgID, "limit": limit}).Scan(&profileIDs, &people)
	if err != nil {
		return nil, 0, fmt.Errorf("list people to erase: %w", err)
	}
	return profileIDs, people, nil
}
