package events

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/queue"
	"paceline.internal/platform/retention"
	"paceline.internal/services/onboarding/people"
)

// Store keeps the log, its subscriptions and their deliveries.
type Store struct {
	pool       postgres.DB
	deliveries *queue.Queue
}

// NewStore returns a store on an open pool.
func NewStore(pool postgres.DB) *Store {
	return &Store{pool: pool, deliveries: queue.NewQueue(pool, queue.Table{
		Name: DeliveriesTable, Extra: []string{"subscription_id", "seq", "type"}, Group: "subscription_id",
	})}
}

// Deliveries is the queue of deliveries.
func (s *Store) Deliveries() *queue.Queue { return s.deliveries }

const (
	sqlLead = `
update event_feed set lease_token = @token, lease_until = @until
where lease_token = @token or lease_until is null or lease_until <= @now
returning messaging_done`

	sqlWant = `
with wanted as (
    select unnest(@known::text[]) as type where @all
    union
    select unnest(case when s.types = '{}' then @known::text[] else s.types end) from event_subscriptions s
), unwanted as (
    delete from event_types where type = any (@known::text[]) and type not in (select type from wanted)
), added as (
    insert into event_types (type) select type from wanted except select type from event_types on conflict do nothing
)
select type from wanted order by type`

	// sqlFeed is the row of the sequencer, locked by the process that has its lease. A process with a late clock records no event earlier
	// than the event before it.
	sqlFeed = `
with feed as materialized (
    select last_seq, greatest(recorded_at, @now) as at from event_feed where lease_token = @token for update
), `

	sqlRecord = sqlFeed + `moved as (
    delete from event_outbox where exists (select from feed) and id = any (array(select id from event_outbox order by id limit @limit))
    returning id, event_id, org_id, type, subject, time, causation_id, data
), numbered as (
    select f.last_seq + row_number() over (order by m.id) as seq, m.event_id, m.org_id, m.type, m.subject, m.time, m.causation_id,
        m.data, f.at
    from moved m cross join feed f
), recorded as (
    insert into events (seq, event_id, org_id, type, subject, time, causation_id, data, recorded_at)
    select seq, event_id, org_id, type, subject, time, causation_id, data, at from numbered
), counted as (
    update event_feed set last_seq = n.seq, recorded_at = n.at
    from (select max(seq) as seq, max(at) as at from numbered) n where n.seq is not null
)
select (select count(*) from feed), (select count(*) from numbered)`

	// sqlRecordIncoming leaves out WhatsApp's id of a message, which contains the person's number.
	sqlRecordIncoming = sqlFeed + `numbered as (
    select f.last_seq + u.n as seq, u.event, u.org, u.type, u.at, u.cause, f.at as recorded_at,
        case when u.data ->> 'twilio_sid' like 'wamid.%' then u.data - 'twilio_sid' else u.data end as data,
        coalesce(nullif(u.profile, ''),
            (select p.id::text from profiles p where p.org_id = u.org and p.phone = u.phone), 'unknown') as subject
    from unnest(@events::uuid[], @orgs::uuid[], @types::text[], @profiles::text[], @phones::text[], @at::timestamptz[], @causes::text[],
        @data::jsonb[]) with ordinality u (event, org, type, profile, phone, at, cause, data, n) cross join feed f
), recorded as (
    insert into events (seq, event_id, org_id, type, subject, time, causation_id, data, recorded_at)
    select seq, event, org, type, subject, at, cause, data, recorded_at from numbered
)
update event_feed e set last_seq = coalesce(n.seq, e.last_seq), recorded_at = coalesce(n.at, e.recorded_at), messaging_done = @rows
from (select max(seq) as seq, max(recorded_at) as at from numbered) n where exists (select from feed)`

	sqlLastSeq = `select event_log_end()`
)

// Lead implements the lease of the sequencer.
func (s *Store) Lead(ctx context.Context, token string, now, until time.Time) (done []int64, leads bool, err error) {
	err = s.pool.QueryRow(ctx, sqlLead, postgres.Args{"token": token, "now": now, "until": until}).Scan(&done)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, false, nil
	}
	return done, err == nil, wrap("lead the feed of events", err)
}

// Want has the types be written that are kept or subscribed to, and no others of those that are known.
func (s *Store) Want(ctx context.Context, known []string, keepAll bool) (wanted []string, err error) {
	rows, err := s.pool.Query(ctx, sqlWant, postgres.Args{"known": known, "all": keepAll})
	if err == nil {
		wanted, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	return wanted, wrap("choose the types of events", err)
}

// Record moves committed rows of the outbox to the log; ErrLost.
func (s *Store) Record(ctx context.Context, token string, now time.Time, limit int) (n int, err error) {
	var leads int
	err = s.pool.QueryRow(ctx, sqlRecord, postgres.Args{"token": token, "now": now, "limit": limit}).Scan(&leads, &n)
	if err == nil && leads == 0 {
		return 0, ErrLost
	}
	return n, wrap("record events", err)
}

// RecordIncoming adds messaging's events to the log, and notes their rows, so that messaging is told to forget them; ErrLost.
func (s *Store) RecordIncoming(ctx context.Context, token string, incoming []Incoming, now time.Time) error {
	n := len(incoming)
	rows, at, data := make([]int64, n), make([]time.Time, n), make([]string, n)
	ids, orgs, types, profiles, phones, causes := texts(n), texts(n), texts(n), texts(n), texts(n), texts(n)
	for i, e := range incoming {
		rows[i], at[i], data[i], ids[i], orgs[i] = e.Row, e.Time, string(e.Data), e.ID, e.OrgID
		types[i], profiles[i], phones[i], causes[i] = e.Type, e.ProfileID, e.Phone, e.CausationID
	}
	tag, err := s.pool.Exec(ctx, sqlRecordIncoming, postgres.Args{
		"token": token, "now": now, "rows": rows, "events": ids, "orgs": orgs, "types": types, "profiles": profiles, "phones": phones,
		"at": at, "causes": causes, "data": data,
	})
	if err == nil && tag.RowsAffected() == 0 {
		return ErrLost
	}
	return wrap("record events of messaging", err)
}

func texts(n int) []string { return make([]string, n) }

// LastSeq is the last number of the log.
func (s *Store) LastSeq(ctx context.Context) (seq int64, err error) {
	return seq, wrap("read the log of events", s.pool.QueryRow(ctx, sqlLastSeq).Scan(&seq))
}

// maxLooked bounds the events that one read looks at: of a type that is rare there may be none among a million.
const maxLooked = 5000

const (
	sqlLogEnds = `
select event_log_end(), coalesce((select s.deleted_seq from event_log_starts s where s.org_id = @org), 0)`

	sqlLog = `
with looked as materialized (
    select seq, type from events where org_id = @org and seq > @after order by seq limit @looked
), chosen as (
    select seq from looked where @types::text[] = '{}' or type = any (@types) order by seq limit @limit
)
select l.n, coalesce(l.last, 0), coalesce(e.seq, 0), coalesce(e.event_id::text, ''), coalesce(e.type, ''), coalesce(e.subject, ''), e.time,
    coalesce(e.causation_id, ''), e.data
from (select count(*) as n, max(seq) as last from looked) l left join (chosen join events e using (seq)) on true
order by e.seq`
)

// Read reads the log of an organisation behind a number, and returns up to where it has looked. A *DeletedError when it misses some,
// ErrAhead when the log does not go so far; 0 begins with the oldest there is.
func (s *Store) Read(ctx context.Context, orgID string, after int64, types []string, limit int) (
	found []Event, next int64, err error,
) {
	args := postgres.Args{"org": orgID, "after": after, "types": types, "limit": limit, "looked": maxLooked}
	var last, deleted int64
	if err := s.pool.QueryRow(ctx, sqlLogEnds, args).Scan(&last, &deleted); err != nil {
		return nil, 0, fmt.Errorf("read the log of events: %w", err)
	}
	if after > last {
		return nil, 0, ErrAhead
	}
	if after > 0 && after < deleted {
		return nil, 0, &DeletedError{UpTo: deleted}
	}
	rows, err := s.pool.Query(ctx, sqlLog, args)
	if err != nil {
		return nil, 0, fmt.Errorf("read the log of events: %w", err)
	}
	var looked int
	var lookedTo int64
	found, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (e Event, err error) {
		var at *time.Time
		err = row.Scan(&looked, &lookedTo, &e.Seq, &e.ID, &e.Type, &e.Subject, &at, &e.CausationID, &e.Data)
		e.OrgID, e.Time = orgID, postgres.TimeOf(at)
		return e, err
	})
	switch {
	case err != nil:
		return nil, 0, fmt.Errorf("read the log of events: %w", err)
	case found[0].Seq == 0: // nothing was chosen
		found = nil
	case len(found) == limit:
		return found, found[limit-1].Seq, nil
	}
	if looked < maxLooked { // the end was read first, so all up to there was looked at
		lookedTo = max(lookedTo, last, after)
	}
	return found, lookedTo, nil
}

// isServed holds for a subscription, s, that is active, of an organisation that has not ended.
const isServed = `(s.status = 'active' and not ` + people.SQLEnded + `s.org_id))`

const (
	sqlBehind = `
select s.id::text from event_subscriptions s
where ` + isServed + ` and exists (select from events e where e.org_id = s.org_id and e.seq > s.cursor_seq)
order by s.id`

	sqlTakeSubscription = `
select org_id::text, cursor_seq, types, (select count(*) from (
    select from event_deliveries d where d.subscription_id = s.id and d.status in ('pending', 'processing') limit @open) waiting)
from event_subscriptions s where s.id = @id and ` + isServed + ` for update`

	sqlNext = `
select seq, event_id::text, org_id::text, type, subject, time, causation_id, data, recorded_at
from events where org_id = @org and seq > @after order by seq limit @limit`

	sqlDeliveries = `
insert into event_deliveries (id, org_id, idempotency_key, event_type, subject, payload, max_attempts, next_retry_at, created_at,
    updated_at, status, subscription_id, seq, type)
select u.id, @org, u.key, '` + DeliveryType + `', u.subject, u.payload, @tries, @at, @at, @at, 'pending', @subscription,
    u.seq, u.type
from unnest(@ids::uuid[], @keys::text[], @subjects::text[], @payloads::jsonb[], @seqs::bigint[], @types::text[])
    u (id, key, subject, payload, seq, type)
on conflict (org_id, idempotency_key) do nothing`

	sqlMoveCursor = `update event_subscriptions set cursor_seq = @seq where id = @subscription`
)

// Behind are the subscriptions that are served, and for which there is something in the log.
func (s *Store) Behind(ctx context.Context) (ids []string, err error) {
	rows, err := s.pool.Query(ctx, sqlBehind)
	if err == nil {
		ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	return ids, wrap("look for subscriptions that are behind", err)
}

// FanOut makes deliveries of what is next for a subscription, and moves its cursor with them; more says that there is room and reason for
// others.
func (s *Store) FanOut(ctx context.Context, id string, limit, open int, now time.Time) (made int, more bool, err error) {
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		sub, waiting := Subscription{ID: id}, 0
		err := tx.QueryRow(ctx, sqlTakeSubscription, postgres.Args{"id": id, "open": open}).Scan(&sub.OrgID, &sub.Cursor, &sub.Types, &waiting)
		if errors.Is(err, pgx.ErrNoRows) || err == nil && waiting >= open {
			return nil // it is paused, gone, or of an organisation that has ended, or has enough to do
		}
		if err != nil {
			return err
		}
		limit = min(limit, open-waiting)
		rows, err := tx.Query(ctx, sqlNext, postgres.Args{"org": sub.OrgID, "after": sub.Cursor, "limit": limit})
		if err != nil {
			return err
		}
		next, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Event])
		if err != nil || len(next) == 0 {
			return err
		}
		args, err := deliveryArgs(sub, next, now)
		if err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, sqlDeliveries, args)
		if err != nil {
			return err
		}
		made, more = int(tag.RowsAffected()), len(next) == limit && waiting+limit < open
		_, err = tx.Exec(ctx, sqlMoveCursor, postgres.Args{"subscription": id, "seq": next[len(next)-1].Seq})
		return err
	})
	return made, more, wrap("take events for a subscription", err)
}

// deliveryArgs are the deliveries of those events that the subscription wants.
func deliveryArgs(sub Subscription, next []Event, now time.Time) (postgres.Args, error) {
	var ids, keys, subjects, payloads, types []string
	var seqs []int64
	for _, e := range next {
		if !sub.Wants(e) {
			continue
		}
		payload, err := e.JSON()
		if err != nil {
			return nil, fmt.Errorf("encode an event: %w", err)
		}
		ids, keys, subjects = append(ids, deliveryID(e)), append(keys, sub.ID+":"+e.ID), append(subjects, sub.ID+":"+e.Subject)
		payloads, types, seqs = append(payloads, string(payload)), append(types, e.Type), append(seqs, e.Seq)
	}
	return postgres.Args{
		"org": sub.OrgID, "subscription": sub.ID, "ids": ids, "keys": keys, "subjects": subjects, "payloads": payloads, "types": types,
		"seqs": seqs, "tries": Tries, "at": now,
	}, nil
}

// deliveryID is a UUIDv7 that sorts as the log does: the queue keeps the order of a subject by it, whichever process made the delivery, and
// also when it is made again. It counts up within the millisecond of the event's record (RFC 9562, 6.2, method 1).
func deliveryID(e Event) string {
	id := uuid.New()                                                                                 // for its random end
	at, seq, end := uint64(e.RecordedAt.UnixMilli()), uint64(e.Seq), binary.BigEndian.Uint32(id[8:]) //nolint:gosec // neither is negative
	binary.BigEndian.PutUint64(id[:8], at<<16|0x7000|seq>>20&0xfff)
	binary.BigEndian.PutUint32(id[8:], 0x80000000|uint32(seq&0xfffff)<<10|end&0x3ff)
	return id.String()
}

const (
	sqlPutBack = `
with put as (delete from event_deliveries where subscription_id = @id and status in ('pending', 'processing') returning seq)
update event_subscriptions
set status = 'paused', paused_reason = @reason, cursor_seq = least(cursor_seq, (select min(seq) - 1 from put)), updated_at = @at
where id = @id`

	sqlLockActive = `select from event_subscriptions where id = @id and status = 'active' for update`

	sqlLate = `
select s.id::text from event_subscriptions s
where s.status = 'active' and {part}
  and (select e.recorded_at from events e where e.org_id = s.org_id and e.seq > s.cursor_seq order by e.seq limit 1) < @before
order by s.id`
)

// Pause pauses an active subscription, and puts what waits for it back to the log; it reports whether it was active.
func (s *Store) Pause(ctx context.Context, id, reason string, now time.Time) (paused bool, err error) {
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		args := postgres.Args{"id": id, "reason": reason, "at": now}
		tag, err := tx.Exec(ctx, sqlLockActive, args)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		tag, err = tx.Exec(ctx, sqlPutBack, args)
		paused = tag.RowsAffected() > 0
		return err
	})
	return paused, wrap("pause a subscription", err)
}

// Late are the active subscriptions, of the organisations of a part, for which there are events that were recorded before an instant.
func (s *Store) Late(ctx context.Context, part retention.Part, before time.Time) (ids []string, err error) {
	args := part.Args(postgres.Args{})
	args["before"] = before
	rows, err := s.pool.Query(ctx, part.SQL(sqlLate, "s"), args)
	if err == nil {
		ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	return ids, wrap("look for subscriptions that are late", err)
}

// sqlEventGauges looks at the first of the outbox only: what is there is in the order of its numbers, and soon gone.
const sqlEventGauges = `
select (select time from event_outbox order by id limit 1), (select count(*) from event_subscriptions where status = 'active'),
    (select count(*) from event_subscriptions where status = 'paused'), (
        select min(e.recorded_at) from event_subscriptions s cross join lateral (
            select recorded_at from events where org_id = s.org_id and seq > s.cursor_seq order by seq limit 1) e
        where ` + isServed + `)`

// Gauges are the figures of the log.
func (s *Store) Gauges(ctx context.Context, now time.Time) (Gauges, error) {
	var oldest, behind *time.Time
	var active, paused int64
	if err := s.pool.QueryRow(ctx, sqlEventGauges).Scan(&oldest, &active, &paused, &behind); err != nil {
		return Gauges{}, fmt.Errorf("see how the events stand: %w", err)
	}
	return Gauges{
		Oldest: postgres.Age(oldest, now), Behind: postgres.Age(behind, now), ByStatus: map[Status]int64{Active: active, Paused: paused},
	}, nil
}

func wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}
