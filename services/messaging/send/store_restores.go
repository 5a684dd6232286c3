package send

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/edge"
)

// Orphan is a message that Twilio had and the database had lost, and that no send has asked for again.
type Orphan struct {
	ID, OrgID uuid.UUID
	Phone     string
	At        time.Time // when Twilio took it, by its clock
}

// sqlOrphans leaves out who has opted out: nothing is sent to them.
const sqlOrphans = `
select m.id, m.org_id, m.to_number, m.created_at from sms_messages m
where m.unclaimed_until is not null and m.idempotency_key like '` + unclaimedKeys + `%' and m.created_at >= @since
	and not exists (select from consents c where c.org_id = m.org_id and c.phone = m.to_number and c.state = 'opted_out')
order by m.created_at, m.id`

// Orphans lists the found messages since an instant, the oldest first.
func (s *Store) Orphans(ctx context.Context, since time.Time) (found []Orphan, err error) {
	defer edge.Mark(&err)
	return edge.Collect(ctx, s.pool, sqlOrphans, postgres.Args{"since": since}, pgx.RowToStructByPos[Orphan])
}

const sqlKeepWaiting = `
update sms_messages set unclaimed_until = @until
where unclaimed_until is not null and idempotency_key like '` + unclaimedKeys + `%' and created_at >= @since`

// KeepWaiting has the found messages since an instant wait until another for the sends that made them: those were kept from asking.
func (s *Store) KeepWaiting(ctx context.Context, since, until time.Time) (err error) {
	defer edge.Mark(&err)
	_, err = s.pool.Exec(ctx, sqlKeepWaiting, postgres.Args{"since": since, "until": until})
	return err
}

const sqlKnow = `update sms_messages set unclaimed_until = null, updated_at = @now where id = any(@ids) and unclaimed_until is not null`

// Know notes that the sends of found messages are known, and will not ask again.
func (s *Store) Know(ctx context.Context, ids []uuid.UUID, now time.Time) (err error) {
	defer edge.Mark(&err)
	_, err = s.pool.Exec(ctx, sqlKnow, postgres.Args{"ids": ids, "now": now})
	return err
}

const sqlWithoutRow = `select u.id from unnest(@ids::uuid[]) u (id) where not exists (select from sms_messages m where m.id = u.id)`

// WithoutRow returns those of the ids that are of no message.
func (s *Store) WithoutRow(ctx context.Context, ids []uuid.UUID) (without []uuid.UUID, err error) {
	defer edge.Mark(&err)
	return edge.Collect(ctx, s.pool, sqlWithoutRow, postgres.Args{"ids": ids}, pgx.RowTo[uuid.UUID])
}

// Keyed is a message that was sent under the key of a step.
type Keyed struct {
	OrgID uuid.UUID
	Phone string
	Key   string
}

const sqlKeyed = `
select org_id, to_number, idempotency_key from sms_messages
where direction = 'outbound' and created_at >= @since and idempotency_key like @prefix::text || '%' order by created_at, id`

// Keyed lists what was sent since an instant under keys that begin with prefix, the oldest first.
func (s *Store) Keyed(ctx context.Context, prefix string, since time.Time) (sent []Keyed, err error) {
	defer edge.Mark(&err)
	return edge.Collect(ctx, s.pool, sqlKeyed, postgres.Args{"prefix": prefix, "since": since}, pgx.RowToStructByPos[Keyed])
}
