package send

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/edge"
)

// Event is a row of event_outbox. The triggers of 0016 write it.
type Event struct {
	Row                                                       int64
	EventID, OrgID, Type, ProfileID, Phone, CausationID, Data string
	Time                                                      time.Time
}

const (
	sqlWantTypes = `
with unwanted as (delete from event_types where type <> all (@types::text[]))
insert into event_types (type) select unnest(@types::text[]) except select type from event_types on conflict do nothing`

	sqlEventsDone = `delete from event_outbox where id = any (@done::bigint[])`

	sqlEvents = `
select id, event_id::text, org_id::text, type, coalesce(profile_id::text, ''), phone, causation_id, data::text, time
from event_outbox order by id limit @limit`

	sqlOldEvents = `
delete from event_outbox where id = any (array(
	select o.id from (select id, time from event_outbox order by id limit @limit) o where o.time < @before))`
)

// Events deletes the rows that are done, has the types and no others be written from now on, and reads what waits, in the order in which it
// was written. What a transaction holds back appears once it is committed, whatever was read meanwhile.
func (s *Store) Events(ctx context.Context, done []int64, types []string, limit int) (events []Event, err error) {
	defer edge.Mark(&err)
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		batch, args := &pgx.Batch{}, postgres.Args{"done": done, "types": types, "limit": limit}
		if len(done) > 0 {
			batch.Queue(sqlEventsDone, args)
		}
		batch.Queue(sqlWantTypes, args)
		batch.Queue(sqlEvents, args).Query(func(rows pgx.Rows) (err error) {
			events, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (e Event, err error) {
				return e, row.Scan(&e.Row, &e.EventID, &e.OrgID, &e.Type, &e.ProfileID, &e.Phone, &e.CausationID, &e.Data, &e.Time)
			})
			return err
		})
		return tx.SendBatch(ctx, batch).Close()
	})
	return events, err
}

// DropEvents deletes a batch of events that onboarding has not fetched for long, and reports how many.
func (s *Store) DropEvents(ctx context.Context, before time.Time, limit int) (n int, err error) {
	defer edge.Mark(&err)
	tag, err := s.pool.Exec(ctx, sqlOldEvents, postgres.Args{"before": before, "limit": limit})
	return int(tag.RowsAffected()), err
}
