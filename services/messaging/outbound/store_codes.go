package outbound

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/edge"
)

const (
	// sqlEndedCodes locks codes that are at their end and still have their words.
	sqlEndedCodes = `
select id::text, org_id::text, payload ->> 'body' as body from sms_outbound_jobs
where event_type = 'otp' and processed_at is not null and payload ->> 'body' <> '' and processed_at <= @before
order by processed_at limit @limit for update skip locked`

	// sqlForgetCodes takes their words, out of the queue and out of what was sent.
	sqlForgetCodes = `
with over as materialized (
	select id, org_id, digest from unnest(@ids::uuid[], @orgs::uuid[], @digests::text[]) o (id, org_id, digest)
), sent as (
	update sms_messages m set body = '', body_hash = decode(repeat('00', 32), 'hex') from over o
	where m.org_id = o.org_id and m.idempotency_key = 'outbound:' || o.id::text and m.status not in ('sending', 'unknown', 'parked')
)
update sms_outbound_jobs j set payload = jsonb_set(j.payload, '{body}', '""'), body_digest = nullif(o.digest, '') from over o
where j.id = o.id and j.id = any(@ids::uuid[]) and not exists (
	select from sms_messages m where m.org_id = o.org_id and m.idempotency_key = 'outbound:' || o.id::text
		and m.status in ('sending', 'unknown', 'parked'))`
)

// endedCode is a code with words that are to be deleted.
type endedCode struct{ ID, OrgID, Body string }

// ForgetCodes takes the words of one-time codes that are at their end since an instant; of at most limit, and reports of how many.
func (o *Store) ForgetCodes(ctx context.Context, before time.Time, limit int) (n int, err error) {
	defer edge.Mark(&err)
	err = postgres.InTx(ctx, o.pool, func(tx pgx.Tx) error {
		args := postgres.Args{"before": before, "limit": limit}
		over, err := edge.Collect(ctx, tx, sqlEndedCodes, args, pgx.RowToStructByName[endedCode])
		if err != nil || len(over) == 0 {
			n = 0
			return err
		}
		tag, err := tx.Exec(ctx, sqlForgetCodes, o.digests(over))
		n = int(tag.RowsAffected())
		return err
	})
	return n, err
}

// digests are the arguments of sqlForgetCodes.
func (o *Store) digests(over []endedCode) postgres.Args {
	var ids, orgs, digests []string
	for _, c := range over {
		ids, orgs = append(ids, c.ID), append(orgs, c.OrgID)
		digests = append(digests, o.Pseudonyms.Digest(c.OrgID, c.ID, c.Body))
	}
	return postgres.Args{"ids": ids, "orgs": orgs, "digests": digests}
}
