package readback

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/edge"
)

// Settling counts the organisations for which nothing is sent until a restore is settled.
type Settling struct {
	Organisations  int
	Unread         int         // of these, those for which Twilio's record is not read yet
	Received, Sent int         // messages that the record had and the database had not
	Failure        string      // why one of the unread could not be read, at its last try
	Failing        []uuid.UUID // the organisations of the unread that could not be read at their last try
}

// sqlStop also stops organisations that have no messages yet, and none that was let go by hand since. Whoever works on a readback that was
// open before loses it: it has to begin anew. One that a backup brought back is of an earlier restore, and is read again, too.
const sqlStop = `
insert into readbacks (org_id, since, noticed_at, settling)
select org_id, @since, @now, true from (
	select org_id from sms_messages union select org_id from consents
	union select org_id from senders union select org_id from organisations) o
where not exists (select from readbacks b where b.org_id = o.org_id and b.settling and b.noticed_at >= @now and b.ended_at is not null)
on conflict (org_id) where ended_at is null
	do update set since = least(readbacks.since, excluded.since), noticed_at = greatest(readbacks.noticed_at, excluded.noticed_at),
		settling = true, suspected = false, senders = null, read_at = null, lease_token = null, lease_until = null
	where not (readbacks.settling and readbacks.noticed_at >= excluded.noticed_at and readbacks.since <= excluded.since)`

// Stop has nothing sent for any organisation until Release, and has Twilio's record since an instant read back. A repeat changes nothing.
func (s *Store) Stop(ctx context.Context, since, now time.Time) (err error) {
	defer edge.Mark(&err)
	_, err = s.pool.Exec(ctx, sqlStop, postgres.Args{"since": since, "now": now})
	return err
}

const sqlSettling = `
select count(*), count(*) filter (where read_at is null), coalesce(sum(received), 0), coalesce(sum(sent), 0),
	coalesce((array_agg(failure order by org_id) filter (where read_at is null and failures > 0))[1], ''),
	coalesce(array_agg(org_id order by org_id) filter (where read_at is null and failures > 0), '{}')
from readbacks where settling and ended_at is null`

// Settling reports how far Twilio's record is read.
func (s *Store) Settling(ctx context.Context) (now Settling, err error) {
	defer edge.Mark(&err)
	found, err := edge.Collect(ctx, s.pool, sqlSettling, postgres.Args{}, pgx.RowToStructByPos[Settling])
	if err != nil {
		return Settling{}, err
	}
	return found[0], nil
}

const sqlRelease = `
update readbacks set settling = false, ended_at = case when read_at is not null then @now::timestamptz end
where settling and ended_at is null`

// Release lets all organisations send again, each once Twilio's record is read.
func (s *Store) Release(ctx context.Context, now time.Time) (err error) {
	defer edge.Mark(&err)
	_, err = s.pool.Exec(ctx, sqlRelease, postgres.Args{"now": now})
	return err
}
