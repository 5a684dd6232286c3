package outbox

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
)

// PublishLease is the time that the process that wrote an alarm has for publishing it, or for ringing it once it is due, before the relay
// publishes it.
const PublishLease = 10 * time.Second

// Table describes the table of alarms of type A. Besides the columns named here it has org_id, due_at, lease_token, lease_until, attempts,
// last_error, published_at, qstash_message_id and created_at, and an index on lease_until of the rows where published_at is null.
type Table[A any] struct {
	Name string // also the channel that notifies the relays
	// Columns lists the columns that an A is read from by its fields' names, id the first; lease_token is not among them.
	Columns []string
	// Values are an alarm's, in the order of the columns, and its lease token: empty for an alarm that its writer does not publish. They
	// find its row again.
	Values func(a A) (values []any, leaseToken string)
	// Kept is a condition on an alarm a that keeps it in the outbox, such as a pause of its organisation.
	Kept string
}

// Store is the SQL of an outbox on one table.
type Store[A any] struct {
	db    postgres.DB
	hot   *postgres.Combiner // of what every alarm does: a note that is lost has the relay publish it again, which changes nothing
	table Table[A]

	insert, claim, published, release, giveBack, unpublished string
}

// NewStore returns the outbox on a table. Without a pool it only inserts, in the transactions of others.
func NewStore[A any](db postgres.DB, table Table[A]) *Store[A] {
	n := len(table.Columns)
	places := make([]string, n)
	for i := range places {
		places[i] = "$" + strconv.Itoa(i+1)
	}
	write := strings.NewReplacer("{table}", table.Name, "{kept}", table.Kept).Replace
	return &Store[A]{
		db: db, hot: postgres.NewLazyCombiner(db), table: table,
		insert: write(fmt.Sprintf(`insert into {table} (%s, lease_token, lease_until, created_at) values (%s, nullif($%d, '')::uuid, $%d, $%d)`,
			strings.Join(table.Columns, ", "), strings.Join(places, ", "), n+1, n+2, n+3)),
		claim:     write(sqlClaim) + "a." + strings.Join(table.Columns, ", a.") + ", a.lease_token",
		published: write(sqlPublished), release: write(sqlRelease), giveBack: write(sqlReturn), unpublished: write(sqlUnpublished),
	}
}

// Insert writes an alarm in the caller's transaction, leased to the request that publishes it after the commit. One without a lease is the
// relay's at once, which the commit notifies. A notification serialises commits, so the paths that every step takes have a lease.
func (s *Store[A]) Insert(ctx context.Context, tx pgx.Tx, a A, at time.Time) error {
	values, token := s.table.Values(a)
	leaseUntil := at
	if token != "" {
		leaseUntil = at.Add(PublishLease)
	}
	if _, err := tx.Exec(ctx, s.insert, append(values, token, leaseUntil, at)...); err != nil {
		return fmt.Errorf("write alarm: %w", err)
	}
	if token != "" {
		return nil
	}
	if _, err := tx.Exec(ctx, `select pg_notify($1, '')`, s.table.Name); err != nil {
		return fmt.Errorf("notify the relays: %w", err)
	}
	return nil
}

const sqlClaim = `
with open as (
    select a.id from {table} a
    where a.published_at is null and a.lease_until <= @now and not {kept}
    order by a.due_at limit @limit
    for update of a skip locked
)
update {table} a
set lease_token = @token, lease_until = @lease_until, attempts = attempts + 1
from open where a.id = open.id
returning `

// Claim claims at most limit unpublished alarms after their publisher's lease, those that are due first.
func (s *Store[A]) Claim(ctx context.Context, limit int, now, leaseUntil time.Time) ([]A, error) {
	token, err := uuid.NewRandom()
	if err != nil {
		return nil, fmt.Errorf("lease token: %w", err)
	}
	rows, err := s.db.Query(ctx, s.claim, postgres.Args{"limit": limit, "now": now, "lease_until": leaseUntil, "token": token.String()})
	if err != nil {
		return nil, fmt.Errorf("claim alarms: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[A])
}

// An alarm that is published stays published, whichever process did it: so its lease need not match. Its id finds
// it: coalesce keeps the planner from the index of unpublished alarms, which is full of dead entries.
const sqlPublished = `
update {table} a set published_at = u.at, qstash_message_id = u.message, last_error = '', lease_token = null
from unnest(@id::uuid[], @message::text[], @at::timestamptz[]) u (id, message, at) where a.id = u.id and a.id = any(@id::uuid[])
    and coalesce(a.published_at, 'infinity') = 'infinity'`

// Published records that QStash has the alarm.
func (s *Store[A]) Published(ctx context.Context, a A, qstashMessageID string, at time.Time) error {
	values, _ := s.table.Values(a)
	id := fmt.Sprint(values[0])
	args := postgres.Args{"id": id, "message": qstashMessageID, "at": at}
	if err := s.hot.Do(ctx, id, postgres.Statement{SQL: s.published, Args: args}); err != nil {
		return fmt.Errorf("record published alarm: %w", err)
	}
	return nil
}

const sqlRelease = `
update {table} set lease_token = null, lease_until = @retry_at, last_error = @cause
where id = @id and lease_token = @token and published_at is null`

// Release returns an alarm to the relay of any instance, for another try at retryAt.
func (s *Store[A]) Release(ctx context.Context, a A, cause string, retryAt time.Time) error {
	values, token := s.table.Values(a)
	_, err := s.db.Exec(ctx, s.release, postgres.Args{"id": values[0], "token": token, "retry_at": retryAt, "cause": cause})
	if err != nil {
		return fmt.Errorf("release alarm: %w", err)
	}
	return nil
}

const sqlReturn = `
with returned as (
    update {table} a set lease_token = null, lease_until = @at from unnest(@id::uuid[], @token::uuid[]) u (id, token)
    where a.id = u.id and a.id = any(@id::uuid[]) and a.lease_token = u.token and a.published_at is null
    returning a.id
)
select pg_notify('{table}', '') where exists (select from returned)`

// Return returns alarms to the relays at once: their process stops.
func (s *Store[A]) Return(ctx context.Context, alarms []A, at time.Time) error {
	ids, tokens := make([]string, len(alarms)), make([]string, len(alarms))
	for i, a := range alarms {
		values, token := s.table.Values(a)
		ids[i], tokens[i] = fmt.Sprint(values[0]), token
	}
	if _, err := s.db.Exec(ctx, s.giveBack, postgres.Args{"id": ids, "token": tokens, "at": at}); err != nil {
		return fmt.Errorf("return alarms: %w", err)
	}
	return nil
}

// sqlUnpublished leaves out alarms that are leased to a publisher, and those that are kept on purpose.
const sqlUnpublished = `
with late as (
    select count(*)::integer as n, min(a.created_at) as written_at from {table} a
    where a.created_at <= @before and a.lease_until <= @now and a.published_at is null and not {kept}
)
select n, written_at, case when n > 0 then pg_notify('{table}', '') end is not null from late`

// NotifyUnpublished notifies every relay when alarms that were written before an instant are still unpublished, and reports how many there
// are and since when.
func (s *Store[A]) NotifyUnpublished(ctx context.Context, before, now time.Time) (n int, since time.Time, err error) {
	var writtenAt *time.Time
	var notified bool
	err = s.db.QueryRow(ctx, s.unpublished, postgres.Args{"before": before, "now": now}).Scan(&n, &writtenAt, &notified)
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("count unpublished alarms: %w", err)
	}
	if writtenAt != nil {
		since = *writtenAt
	}
	return n, since, nil
}
