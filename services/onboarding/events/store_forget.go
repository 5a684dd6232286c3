package events

import (
	"context"
	"strings"
	"time"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/retention"
)

const sqlForgetEvents = `
with looked as materialized (
    select e.seq, e.org_id, e.recorded_at from events e where e.seq > @after and {walk} order by e.seq limit @limit
), gone as (
    delete from events where seq = any (array(
        select l.seq from looked l
        where {part} and l.recorded_at < @before and (l.recorded_at < @before_for_subscribers
            or not exists (select from event_subscriptions s where s.org_id = l.org_id and s.cursor_seq < l.seq))))
    returning org_id, seq
), started as (
    insert into event_log_starts as s (org_id, deleted_seq) select org_id, max(seq) from gone group by org_id
    on conflict (org_id) do update set deleted_seq = greatest(s.deleted_seq, excluded.deleted_seq)
)
select case when count(*) = @limit and bool_and(recorded_at < @before) then max(seq) else 0 end, (select count(*) from gone) from looked`

// Parts returns those of a pass over the log.
func (s *Store) Parts(ctx context.Context, own retention.Own, kept time.Duration, now time.Time) ([]retention.Part, error) {
	return own.PartsOf(ctx, s.pool, retention.Events, kept, now, "events")
}

// Forget deletes a batch of old events, of the organisations of a part, notes up to where, and says where the next batch begins; 0 when
// there is none.
func (s *Store) Forget(
	ctx context.Context, part retention.Part, forSubscribers time.Time, after int64, limit int,
) (next int64, n int, err error) {
	walk := "true" // a log of all, so that each event is read once, while all keep it for the same time
	if part.Org != "" {
		walk = "e.org_id = @org::uuid"
	}
	err = s.pool.QueryRow(ctx, part.SQL(strings.ReplaceAll(sqlForgetEvents, "{walk}", walk), "l"), part.Args(postgres.Args{
		"before_for_subscribers": forSubscribers, "after": after, "limit": limit,
	})).Scan(&next, &n)
	return next, n, wrap("forget events", err)
}
