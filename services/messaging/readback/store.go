package readback

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/history"
	"paceline.internal/services/messaging/edge"
	"paceline.internal/services/messaging/send"
)

// errLost means that another process has taken the readback over.
var errLost = errors.New("the lease of the readback was lost")

// Store keeps what is to be read back.
type Store struct{ pool postgres.DB }

// NewStore works on a migrated database; the caller keeps owning the pool.
func NewStore(pool postgres.DB) *Store { return &Store{pool: pool} }

// Readback is one organisation's, claimed by this process.
type Readback struct {
	ID, OrgID uuid.UUID
	Since     time.Time // of the last beat that the database has
	NoticedAt time.Time
	Token     uuid.UUID
	Failures  int // so far
	// Senders lists the senders that are left, where the others send again; nil for all.
	Senders []uuid.UUID
	// Suspected reports a possible loss: no process was up before, or the database is an older copy.
	Suspected bool
}

// sqlBegin joins a readback that is still open: whoever works on it loses it, for it has to begin anew, behind what is under way by now.
const sqlBegin = `
insert into readbacks (org_id, since, noticed_at, suspected)
select org, @since, @now, @suspected from unnest(@orgs::uuid[]) org
on conflict (org_id) where ended_at is null
	do update set since = least(readbacks.since, excluded.since), noticed_at = greatest(readbacks.noticed_at, excluded.noticed_at),
		suspected = readbacks.suspected and excluded.suspected, senders = null, read_at = null, lease_token = null, lease_until = null`

// sqlForget forgets earlier starts that found no text that we had sent.
const sqlForget = `delete from readbacks where suspected and ended_at is not null and sent = 0`

func (s *Store) begin(ctx context.Context, tx pgx.Tx, orgs []uuid.UUID, lost history.Loss, now time.Time) error {
	if err := edge.Exec(ctx, tx, sqlForget, postgres.Args{}); err != nil {
		return err
	}
	return edge.Exec(ctx, tx, sqlBegin, postgres.Args{"orgs": orgs, "since": lost.Since, "suspected": lost.Suspected, "now": now})
}

const sqlClaim = `
update readbacks set lease_token = gen_random_uuid(), lease_until = @until
where id in (
	select id from readbacks
	where ended_at is null and read_at is null and noticed_at <= case when suspected then @asked::timestamptz else @noticed end
		and (lease_until is null or lease_until <= @now)
	order by noticed_at, id limit @most for update skip locked
)
returning id, org_id, since, noticed_at, lease_token, failures, senders, suspected`

// claim takes what is in nobody's hands and was noticed so long ago that nothing is under way any more. After a suspicion it waits
// only for the last requests of processes that were stopped: nothing else is left of them.
func (s *Store) claim(ctx context.Context, underWay, answer time.Duration, now, until time.Time, most int) (due []Readback, err error) {
	defer edge.Mark(&err)
	args := postgres.Args{"noticed": now.Add(-underWay), "asked": now.Add(-answer), "now": now, "until": until, "most": most}
	return edge.Collect(ctx, s.pool, sqlClaim, args, pgx.RowToStructByPos[Readback])
}

const sqlExtend = `update readbacks set lease_until = @until where id = @id and lease_token = @token and ended_at is null`

func (s *Store) extend(ctx context.Context, r Readback, until time.Time) error {
	return s.change(ctx, sqlExtend, r, postgres.Args{"until": until})
}

// found counts messages that Twilio's record had and the database had not.
type found struct{ received, sent int }

const sqlFailed = `
update readbacks set lease_until = @until, failures = failures + 1, failure = left(@why, 500), received = received + @received::integer,
	sent = sent + @sent::integer
where id = @id and lease_token = @token and ended_at is null`

// sqlFound counts what a try has found that has lost its lease. What end has counted has a read_at.
const sqlFound = `
update readbacks set received = received + @received::integer, sent = sent + @sent::integer
where id = @id and ended_at is null and read_at is null`

// failed has a readback tried again, and keeps what this try has found, also when another process has taken it over.
func (s *Store) failed(ctx context.Context, r Readback, n found, why error, until time.Time) error {
	args := postgres.Args{"until": until, "why": send.Storable(why.Error()), "received": n.received, "sent": n.sent}
	err := s.change(ctx, sqlFailed, r, args)
	if errors.Is(err, errLost) && n != (found{}) {
		_, foundErr := s.pool.Exec(ctx, sqlFound, args) // change has put the id into args
		return errors.Join(err, foundErr)
	}
	return err
}

const sqlNarrow = `update readbacks set senders = @senders where id = @id and lease_token = @token and ended_at is null`

// narrow lets the organisation send again, but for some senders.
func (s *Store) narrow(ctx context.Context, r Readback, left []uuid.UUID) error {
	return s.change(ctx, sqlNarrow, r, postgres.Args{"senders": left})
}

const sqlEnd = `
update readbacks set read_at = @now, ended_at = case when not settling then @now::timestamptz end, received = received + @received::integer,
	sent = sent + @sent::integer, lease_token = null, lease_until = null
where id = @id and lease_token = @token and ended_at is null
returning received, sent`

// end lets the organisation send again, unless an operator settles a restore: then Release does. It returns what all tries have found.
func (s *Store) end(ctx context.Context, r Readback, n found, now time.Time) (total found, err error) {
	defer edge.Mark(&err)
	args := postgres.Args{"id": r.ID, "token": r.Token, "received": n.received, "sent": n.sent, "now": now}
	err = s.pool.QueryRow(ctx, sqlEnd, args).Scan(&total.received, &total.sent)
	if errors.Is(err, pgx.ErrNoRows) {
		err = errLost
	}
	return total, err
}

// change runs a statement that changes something only under the lease.
func (s *Store) change(ctx context.Context, sql string, r Readback, args postgres.Args) (err error) {
	defer edge.Mark(&err)
	args["id"], args["token"] = r.ID, r.Token
	tag, err := s.pool.Exec(ctx, sql, args)
	if err == nil && tag.RowsAffected() == 0 {
		err = errLost
	}
	return err
}

// Open counts the organisations that may not send.
func (s *Store) Open(ctx context.Context) (n int, err error) {
	defer edge.Mark(&err)
	err = s.pool.QueryRow(ctx, `select count(*) from readbacks where ended_at is null`).Scan(&n)
	return n, err
}
