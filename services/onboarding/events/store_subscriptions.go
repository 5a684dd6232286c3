package events

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/people"
)

const columnsOfSubscription = `id::text, org_id::text, url, types, include, secret, old_secret, old_secret_until, status, paused_reason,
    cursor_seq, failing_since, ` + people.SQLEnded + `event_subscriptions.org_id), created_at, updated_at`

func readSubscription(row pgx.CollectableRow) (s Subscription, err error) {
	var include []string
	var oldUntil, failing *time.Time
	err = row.Scan(&s.ID, &s.OrgID, &s.URL, &s.Types, &include, &s.Secret, &s.OldSecret, &oldUntil, &s.Status, &s.PausedReason, &s.Cursor,
		&failing, &s.Ended, &s.CreatedAt, &s.UpdatedAt)
	s.Body, s.OldSecretUntil, s.FailingSince = len(include) > 0, postgres.TimeOf(oldUntil), postgres.TimeOf(failing)
	return s, err
}

// included are the words of what is fetched for a subscription.
func included(body bool) []string {
	if body {
		return []string{"body"}
	}
	return []string{}
}

const (
	sqlLockSubscriptions = `select pg_advisory_xact_lock(hashtextextended('event_subscriptions ' || @org, 0))`

	// sqlSubscribe begins where the log ends.
	sqlSubscribe = `
insert into event_subscriptions (id, org_id, url, types, include, secret, status, cursor_seq, created_at, updated_at)
select @id, @org, @url, @types, @include, @secret, 'active', event_log_end(), @at, @at
where (select count(*) from event_subscriptions where org_id = @org) < @most
returning ` + columnsOfSubscription

	sqlSubscription  = `select ` + columnsOfSubscription + ` from event_subscriptions where id = @id`
	sqlSubscriptions = `select ` + columnsOfSubscription + ` from event_subscriptions where org_id = @org order by id desc`

	sqlUpdateSubscription = `
update event_subscriptions
set url = coalesce(@url, url), types = coalesce(@types, types), include = coalesce(@include, include), updated_at = @at
where org_id = @org and id = @id
returning ` + columnsOfSubscription

	sqlUnsubscribe = `delete from event_subscriptions where org_id = @org and id = @id`

	sqlResume = `
update event_subscriptions s
set status = 'active', paused_reason = '', failing_since = null, updated_at = @at,
    cursor_seq = greatest(s.cursor_seq, coalesce((select l.deleted_seq from event_log_starts l where l.org_id = s.org_id), 0))
where s.org_id = @org and s.id = @id and s.status = 'paused'`

	sqlRotate = `
update event_subscriptions
set old_secret = secret, old_secret_until = @until, secret = @secret, updated_at = @at
where org_id = @org and id = @id and (old_secret_until is null or old_secret_until <= @at)`

	sqlFailing = `
with marked as (
    update event_subscriptions set failing_since = @at where id = @id and failing_since is null returning failing_since
)
select coalesce((select failing_since from marked), (select failing_since from event_subscriptions where id = @id), @at)`

	sqlSucceeding = `update event_subscriptions set failing_since = null where id = @id and failing_since is not null`
)

// Subscribe begins a subscription where the log ends; ErrTooMany.
func (s *Store) Subscribe(ctx context.Context, n Subscription) (made Subscription, err error) {
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sqlLockSubscriptions, postgres.Args{"org": n.OrgID}); err != nil {
			return err
		}
		made, err = oneSubscription(ctx, tx, sqlSubscribe, postgres.Args{
			"id": uuid.Must(uuid.NewV7()), "org": n.OrgID, "url": n.URL, "types": n.Types,
			"include": included(n.Body), "secret": n.Secret, "at": n.CreatedAt,
			"most": MaxSubscriptions,
		})
		if errors.Is(err, ErrNoSubscription) {
			return ErrTooMany
		}
		return err
	})
	return made, err
}

func oneSubscription(ctx context.Context, db postgres.DB, sql string, args postgres.Args) (Subscription, error) {
	rows, err := db.Query(ctx, sql, args)
	if err != nil {
		return Subscription{}, wrap("read a subscription", err)
	}
	found, err := pgx.CollectExactlyOneRow(rows, readSubscription)
	if errors.Is(err, pgx.ErrNoRows) {
		return found, ErrNoSubscription
	}
	return found, wrap("read a subscription", err)
}

// Subscription reads one that ctx may see; ErrNoSubscription.
func (s *Store) Subscription(ctx context.Context, id string) (Subscription, error) {
	return oneSubscription(ctx, s.pool, sqlSubscription, postgres.Args{"id": id})
}

// Subscriptions lists those of an organisation, newest first.
func (s *Store) Subscriptions(ctx context.Context, orgID string) (found []Subscription, err error) {
	rows, err := s.pool.Query(ctx, sqlSubscriptions, postgres.Args{"org": orgID})
	if err == nil {
		found, err = pgx.CollectRows(rows, readSubscription)
	}
	return found, wrap("list subscriptions", err)
}

// SubscriptionChange has the fields to set; a nil field stays.
type SubscriptionChange struct {
	URL   *string
	Types []string
	Body  *bool
}

// Change sets fields of a subscription; ErrNoSubscription.
func (s *Store) Change(ctx context.Context, orgID, id string, c SubscriptionChange, now time.Time) (Subscription, error) {
	var include []string
	if c.Body != nil {
		include = included(*c.Body)
	}
	return oneSubscription(ctx, s.pool, sqlUpdateSubscription, postgres.Args{
		"org": orgID, "id": id, "url": c.URL, "types": c.Types, "include": include, "at": now,
	})
}

// Unsubscribe deletes a subscription with its deliveries; ErrNoSubscription.
func (s *Store) Unsubscribe(ctx context.Context, orgID, id string) error {
	return s.must(ctx, sqlUnsubscribe, postgres.Args{"org": orgID, "id": id})
}

// must runs a statement on one subscription; ErrNoSubscription when there is none.
func (s *Store) must(ctx context.Context, sql string, args postgres.Args) error {
	tag, err := s.pool.Exec(ctx, sql, args)
	if err == nil && tag.RowsAffected() == 0 {
		return ErrNoSubscription
	}
	return wrap("change a subscription", err)
}

// Resume makes a paused subscription active, behind what the log does not have any more; it reports whether that was something.
func (s *Store) Resume(ctx context.Context, orgID, id string, now time.Time) (resumed Subscription, missed bool, err error) {
	was, err := s.Subscription(ctx, id)
	if err != nil {
		return was, false, err
	}
	if _, err := s.pool.Exec(ctx, sqlResume, postgres.Args{"org": orgID, "id": id, "at": now}); err != nil {
		return was, false, wrap("resume a subscription", err)
	}
	resumed, err = s.Subscription(ctx, id)
	return resumed, was.Status == Paused && resumed.Cursor > was.Cursor, err
}

// Rotate gives a subscription a new secret; ErrNoSubscription, ErrRotating.
func (s *Store) Rotate(ctx context.Context, orgID, id string, secret []byte, until, now time.Time) error {
	err := s.must(ctx, sqlRotate, postgres.Args{"org": orgID, "id": id, "secret": secret, "until": until, "at": now})
	if !errors.Is(err, ErrNoSubscription) {
		return err
	}
	found, err := s.Subscription(ctx, id)
	if err == nil && found.OrgID == orgID {
		return ErrRotating
	}
	return cmp.Or(err, ErrNoSubscription)
}

// Failing notes that a try failed, and returns since when all do.
func (s *Store) Failing(ctx context.Context, id string, now time.Time) (since time.Time, err error) {
	err = s.pool.QueryRow(ctx, sqlFailing, postgres.Args{"id": id, "at": now}).Scan(&since)
	return since, wrap("note a failed delivery", err)
}

// Succeeding notes that a try succeeded.
func (s *Store) Succeeding(ctx context.Context, id string) error {
	_, err := s.pool.Exec(ctx, sqlSucceeding, postgres.Args{"id": id})
	return wrap("note a delivery", err)
}

const sqlLockActiveOf = `
select from event_subscriptions
where status = 'active' and id = (select d.subscription_id from event_deliveries d where d.org_id = @org and d.id = @id) for update`

// ReplayDelivery gives a failed delivery of the organisation all of its tries again. Errors: ErrNoDelivery, ErrPaused, a
// *queue.StatusError.
func (s *Store) ReplayDelivery(ctx context.Context, orgID, id string, now time.Time) (r queue.Row, err error) {
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		active, err := tx.Exec(ctx, sqlLockActiveOf, postgres.Args{"org": orgID, "id": id})
		if err != nil {
			return wrap("lock the subscription of a delivery", err)
		}
		r, err = s.deliveries.Retry(ctx, tx, orgID, id, now)
		switch {
		case errors.Is(err, queue.ErrNoJob):
			return ErrNoDelivery
		case err == nil && active.RowsAffected() == 0:
			return ErrPaused
		}
		return err
	})
	return r, err
}
