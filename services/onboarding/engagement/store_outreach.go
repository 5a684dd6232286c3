package engagement

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/engagement/rules"
	"paceline.internal/services/onboarding/people"
)

// outreachQueue is engagement_outreach as platform/queue has it.
func outreachQueue(pool postgres.DB) *queue.Queue {
	return queue.NewQueue(pool, queue.Table{Name: OutreachTable, Priorities: 2})
}

// Queue is the queue of outreach, to claim from.
func (s *Store) Queue() *queue.Queue { return s.outreach }

// KeptOutreach is the condition of queue.Retention on ended outreach that stays: the goodbye of the person's episode.
const KeptOutreach = `j.event_type = 'goodbye' and exists (
    select 1 from user_engagement_states u where u.profile_id = j.profile_id and u.goodbye_sent_at = j.created_at)`

// capsReach is the time that the caps look back, and a day for the zones.
const capsReach = 8 * 24 * time.Hour

const sqlOutreach = `
select o.event_type, o.idempotency_key, o.profile_id, coalesce(o.member_id::text, '') as member_id,
    coalesce(o.transition_id::text, '') as transition_id, o.message_key, o.payload, o.created_at, o.expires_at, o.body is not null as begun,
    array(
        select n.sent_at from engagement_outreach n
        where n.org_id = o.org_id and n.outcome = 'sent' and n.event_type in ('goodbye', 'reminder', 'weekly_review') and n.sent_at > @since
          and (n.member_id = coalesce(o.member_id, o.profile_id)
            or n.member_id is null and n.profile_id = coalesce(o.member_id, o.profile_id))
        order by n.id desc limit 20) as nudges
from engagement_outreach o where o.org_id = @org and o.id = @id`

type outreachRow struct {
	EventType      string
	IdempotencyKey string
	ProfileID      string
	MemberID       string
	TransitionID   string
	MessageKey     string
	Payload        []byte
	CreatedAt      time.Time
	ExpiresAt      time.Time
	Begun          bool
	Nudges         []time.Time
}

// Outreach reads a claimed row.
func (s *Store) Outreach(ctx context.Context, j queue.Job, now time.Time) (Due, error) {
	rows, err := s.pool.Query(ctx, sqlOutreach, postgres.Args{"org": j.OrgID, "id": j.ID, "since": now.Add(-capsReach)})
	if err != nil {
		return Due{}, fmt.Errorf("read outreach: %w", err)
	}
	r, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[outreachRow])
	if err != nil {
		return Due{}, fmt.Errorf("read outreach: %w", err)
	}
	params, err := catalog.ParseParams(r.Payload)
	return Due{
		Unreadable: err,
		Job:        j, Type: rules.MessageType(r.EventType), Key: r.IdempotencyKey, ProfileID: r.ProfileID, MemberID: r.MemberID,
		TransitionID: r.TransitionID, MessageKey: r.MessageKey, Params: params, CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt, Begun: r.Begun,
		Nudges: r.Nudges,
	}, nil
}

// sqlClaimForSending claims a row for sending. A message of the person that is stored when this runs forbids a goodbye and a reminder: it
// will make them active. One that is stored after it comes after the goodbye. Nothing is sent to a person
// with a ticket, unless that is unattended.
const sqlClaimForSending = `
update engagement_outreach o
set recipient = coalesce(o.recipient, @phone), locale = coalesce(o.locale, @locale), body = coalesce(o.body, @body),
    destination = case when o.body is null then @destination else o.destination end, updated_at = @at
where o.org_id = @org and o.id = @id and o.lease_token = @token
  and not exists (select from tickets i where i.profile_id = coalesce(o.member_id, o.profile_id) and i.status <> 'closed'
      and not ` + people.SQLUnattended + `)
  and (o.event_type not in ('goodbye', 'reminder')
    or exists (select from user_engagement_states u where u.profile_id = o.profile_id and u.transition_id = o.transition_id)
    and not exists (select from webhook_jobs j join profiles p on p.org_id = j.org_id and p.phone = j.subject
        where j.org_id = o.org_id and p.id = o.profile_id and j.status in ('pending', 'processing') and j.subject <> ''))
returning o.recipient, o.locale, o.body`

// sqlMembers are the other members of the household, each of them gets a separate row.
const sqlMembers = `
select p.id::text, p.phone from household_members m
join household_members x on x.org_id = m.org_id and x.household_id = m.household_id and x.profile_id <> m.profile_id
join profiles p on p.org_id = x.org_id and p.id = x.profile_id
where m.org_id = @org and m.profile_id = @profile order by p.id`

const sqlQueueForMember = `
insert into engagement_outreach (id, org_id, idempotency_key, event_type, subject, payload, priority, max_attempts, status, next_retry_at,
    profile_id, member_id, transition_id, message_key, destination, local_day, scheduled_for, expires_at, created_at, updated_at)
select @member_row, o.org_id, o.idempotency_key || ':' || @member, o.event_type, @phone, o.payload, o.priority, o.max_attempts, 'pending',
    @at, o.profile_id, @member::uuid, o.transition_id, o.message_key, 'group', o.local_day, @at, o.expires_at, o.created_at, @at
from engagement_outreach o where o.org_id = @org and o.id = @id
on conflict (org_id, idempotency_key) do nothing`

// Begin claims a row for sending, and queues it for the other members of the household when it goes to the group.
func (s *Store) Begin(
	ctx context.Context, d Due, rendered Rendered, group bool, at time.Time,
) (begun Rendered, err error) {
	args := postgres.Args{
		"org": d.Job.OrgID, "id": d.Job.ID, "token": d.Job.LeaseToken, "phone": rendered.Phone, "locale": rendered.Locale,
		"body": rendered.Body, "at": at, "profile": d.ProfileID, "destination": string(rules.Individual),
	}
	if group {
		args["destination"] = string(rules.Group)
	}
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, sqlClaimForSending, args).Scan(&begun.Phone, &begun.Locale, &begun.Body)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return people.ErrConflict
		case err != nil || !group || d.MemberID != "" || d.Begun:
			return err
		}
		begun.Members, err = queueForMembers(ctx, tx, args)
		return err
	})
	if err != nil {
		return Rendered{}, fmt.Errorf("begin outreach: %w", err)
	}
	return begun, nil
}

// queueForMembers returns the rows that it queued.
func queueForMembers(ctx context.Context, tx pgx.Tx, args postgres.Args) (queued []string, err error) {
	rows, err := tx.Query(ctx, sqlMembers, args)
	if err != nil {
		return nil, err
	}
	type member struct{ ID, Phone string }
	members, err := pgx.CollectRows(rows, pgx.RowToStructByPos[member])
	if err != nil {
		return nil, err
	}
	var batch pgx.Batch
	for _, m := range members {
		id := newID()
		batch.Queue(sqlQueueForMember, postgres.Args{
			"org": args["org"], "id": args["id"], "member_row": id, "member": m.ID, "phone": m.Phone, "at": args["at"],
		}).Exec(func(tag pgconn.CommandTag) error {
			if tag.RowsAffected() == 1 {
				queued = append(queued, id)
			}
			return nil
		})
	}
	err = tx.SendBatch(ctx, &batch).Close()
	return queued, err
}

const sqlUnbegin = `
update engagement_outreach set recipient = null, locale = null, body = null, updated_at = @at
where org_id = @org and id = @id and lease_token = @token`

// Unbegin takes the claim for sending back.
func (s *Store) Unbegin(ctx context.Context, d Due, at time.Time) error {
	tag, err := s.pool.Exec(ctx, sqlUnbegin, postgres.Args{"org": d.Job.OrgID, "id": d.Job.ID, "token": d.Job.LeaseToken, "at": at})
	if err != nil {
		return fmt.Errorf("unbegin outreach: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return queue.ErrFenced
	}
	return nil
}

const sqlEndOutreach = `
update engagement_outreach set outcome = @outcome, message_id = nullif(@message, '')::uuid, sent_at = @accepted::timestamptz
where org_id = @org and id = @id`

// sqlGoodbyeAccepted has the choices of a goodbye count from its first acceptance.
const sqlGoodbyeAccepted = `
update user_engagement_states set goodbye_expires_at = @until, updated_at = @at
where org_id = @org and profile_id = @profile and state in ('goodbye_sent', 'active') and goodbye_sent_at = @decided
  and goodbye_expires_at is null`

// sqlGoodbyeEnded has a person, after a message that crossed with a goodbye, make no choice of it, once no row of it can be accepted any
// more. A person in goodbye_sent is moved by the daily run.
const sqlGoodbyeEnded = `
update user_engagement_states u set goodbye_sent_at = null, updated_at = @at
where u.org_id = @org and u.profile_id = @profile and u.state = 'active' and u.goodbye_sent_at = @decided and u.goodbye_expires_at is null
  and not exists (select from engagement_outreach o where o.org_id = u.org_id and o.profile_id = u.profile_id and o.event_type = 'goodbye'
    and o.created_at = @decided and (o.status in ('pending', 'processing') or o.outcome = 'sent'))`

// End ends a row with its job.
func (s *Store) End(ctx context.Context, e End) error {
	d := e.Due
	finish := queue.Finish{Job: d.Job, Status: e.Status, Attempts: d.Job.Attempts, Message: e.Why, At: e.At}
	if e.Status == queue.StatusFailed {
		finish.Attempts++
	}
	args := postgres.Args{
		"org": d.Job.OrgID, "id": d.Job.ID, "outcome": e.Outcome, "message": e.MessageID,
		"accepted": postgres.NullIfZero(e.AcceptedAt), "at": e.At,
		"profile": d.ProfileID, "decided": d.CreatedAt, "until": e.OpenUntil,
	}
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if err := s.outreach.FinishIn(ctx, tx, finish); err != nil {
			return err
		}
		var batch pgx.Batch
		batch.Queue(sqlEndOutreach, args)
		switch {
		case d.Type != rules.Goodbye:
		case e.AcceptedAt.IsZero():
			batch.Queue(sqlGoodbyeEnded, args)
		default:
			batch.Queue(sqlGoodbyeAccepted, args)
		}
		return tx.SendBatch(ctx, &batch).Close()
	})
	if err != nil {
		return fmt.Errorf("end outreach: %w", err)
	}
	return nil
}

// OutreachFilter chooses outreach of one organisation. An empty field chooses all.
type OutreachFilter struct {
	OrgID, ProfileID, Status, Type string
	Before                         string // rows older than this id
	Limit                          int
}

// OutreachRow is a row of outreach as an operator sees it.
type OutreachRow struct {
	ID, ProfileID, MemberID, Type, MessageKey, Status, Outcome, Destination, Key, MessageID, Error string
	Attempts                                                                                       int
	ScheduledFor, ExpiresAt, CreatedAt                                                             time.Time
	SentAt                                                                                         *time.Time
}

const outreachColumns = `
select o.id::text, o.profile_id::text, coalesce(o.member_id::text, ''), o.event_type, o.message_key, o.status, o.outcome, o.destination,
    o.idempotency_key, coalesce(o.message_id::text, ''), o.error_message, o.attempts, o.scheduled_for, o.expires_at, o.created_at, o.sent_at
from engagement_outreach o where o.org_id = @org`

const sqlListOutreach = outreachColumns + `
  and (@profile = '' or o.profile_id = nullif(@profile, '')::uuid) and (@status = '' or o.status = @status)
  and (@type = '' or o.event_type = @type)
  and (@before = '' or o.id < nullif(@before, '')::uuid)
order by o.id desc limit @limit`

// List lists outreach of an organisation, newest first.
func (s *Store) List(ctx context.Context, f OutreachFilter) ([]OutreachRow, error) {
	found, err := postgres.AllInOrder(ctx, s.pool, sqlListOutreach, postgres.Args{
		"org": f.OrgID, "profile": f.ProfileID, "status": f.Status, "type": f.Type, "before": f.Before, "limit": f.Limit,
	}, readOutreachRow)
	if err != nil {
		return nil, fmt.Errorf("list outreach: %w", err)
	}
	return found, nil
}

func readOutreachRow(row pgx.CollectableRow) (r OutreachRow, err error) {
	err = row.Scan(&r.ID, &r.ProfileID, &r.MemberID, &r.Type, &r.MessageKey, &r.Status, &r.Outcome, &r.Destination, &r.Key, &r.MessageID,
		&r.Error, &r.Attempts, &r.ScheduledFor, &r.ExpiresAt, &r.CreatedAt, &r.SentAt)
	return r, err
}

func (s *Store) outreachByID(ctx context.Context, orgID, id string) (OutreachRow, error) {
	rows, err := s.pool.Query(ctx, outreachColumns+` and o.id = @id`, postgres.Args{"org": orgID, "id": id})
	if err != nil {
		return OutreachRow{}, fmt.Errorf("read outreach: %w", err)
	}
	r, err := pgx.CollectExactlyOneRow(rows, readOutreachRow)
	if errors.Is(err, pgx.ErrNoRows) {
		return OutreachRow{}, ErrNoOutreach
	}
	if err != nil {
		return OutreachRow{}, fmt.Errorf("read outreach: %w", err)
	}
	return r, nil
}

// CancelOutreach ends a row that was not sent, for an operator: one that was never begun, or that failed. Errors: ErrNoOutreach,
// *queue.StatusError, ErrBegun.
func (s *Store) CancelOutreach(ctx context.Context, orgID, id string, now time.Time) (OutreachRow, error) {
	cancelled, err := s.operate(ctx, orgID, id, func(tx pgx.Tx, r OutreachRow) error {
		if r.Status == queue.StatusFailed {
			_, err := s.outreach.Dismiss(ctx, tx, orgID, id, now)
			return err
		}
		// Their person first, as what they write does.
		if _, err := tx.Exec(ctx, `select from user_engagement_states where profile_id = $1 for update`, r.ProfileID); err != nil {
			return err
		}
		if _, err := s.outreach.Cancel(ctx, tx, orgID, id, now); err != nil {
			return err
		}
		var begun bool
		if err := tx.QueryRow(ctx, `select body is not null from engagement_outreach where id = $1`, id).Scan(&begun); err != nil {
			return err
		}
		if begun {
			return ErrBegun
		}
		_, err := tx.Exec(ctx, sqlGoodbyeEnded, postgres.Args{"org": orgID, "profile": r.ProfileID, "decided": r.CreatedAt, "at": now})
		return err
	})
	if refused, ok := errors.AsType[*queue.StatusError](err); ok {
		refused.Want = queue.Cancellable
	}
	return cancelled, err
}

// RetryOutreach gives a failed row all of its tries again, while its time is not over. Errors: ErrNoOutreach,
// *queue.StatusError, ErrOver.
func (s *Store) RetryOutreach(ctx context.Context, orgID, id string, now time.Time) (OutreachRow, error) {
	return s.operate(ctx, orgID, id, func(tx pgx.Tx, r OutreachRow) error {
		if r.Status == queue.StatusFailed && !now.Before(r.ExpiresAt) {
			return ErrOver
		}
		if _, err := s.outreach.Retry(ctx, tx, orgID, id, now); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `update engagement_outreach set outcome = '' where id = $1`, id)
		return err
	})
}

func (s *Store) operate(
	ctx context.Context, orgID, id string, do func(tx pgx.Tx, r OutreachRow) error,
) (OutreachRow, error) {
	r, err := s.outreachByID(ctx, orgID, id)
	if err != nil {
		return OutreachRow{}, err
	}
	if err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error { return do(tx, r) }); err != nil {
		return OutreachRow{}, err
	}
	return s.outreachByID(ctx, orgID, id)
}
