package queue

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
)

// sqlRelease releases jobs that turned out, after the claim was committed, not to be free. A claim cannot see another one of the same
// subject that is committed at the same time, of a job that was stored late although its id is older. But of two claims that are
// committed, at least one finds the other when it looks again after its own commit; so they never both go on, and no lock is needed. If
// both are released, the older one is free next.
const sqlRelease = `
with mine as materialized (
    select t.id, t.org_id, t.subject, u.n, u.token, u.due, u.now
    from unnest(@id::uuid[], @token::uuid[], @due::timestamptz[], @now::timestamptz[]) with ordinality u (id, token, due, now, n)
    join {table} t on t.id = u.id and t.lease_token = u.token
    where t.id = any(@id::uuid[]) and t.status || '' = 'processing'
)
update {table} j
set status = 'pending', lease_token = null, lease_until = null, updated_at = t.now, next_retry_at = t.due
from mine t
where j.id = t.id and j.id = any(@id::uuid[]) and j.lease_token = t.token and (t.id <> {head of t} or {overtaken at t.now})
returning t.n, j.id::text`

// release releases, and takes out of the claimed, jobs that another claim of their subject overlaps. It goes on when the caller ends: the
// runner then releases the rest at once, and none waits for its lease to expire.
func (q *Queue) release(ctx context.Context, c Claim, token string, s seen, claimed *Claimed) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.Until.Sub(c.Now)/4)
	defer cancel()
	asked := make([]postgres.Args, len(s.ids))
	for i, id := range s.ids {
		asked[i] = postgres.Args{"id": id, "token": token, "due": s.due[i], "now": c.Now}
	}
	released, err := forEach(ctx, q, q.sql.release, asked, func(scan scan) (id string, err error) { return id, scan(&id) })
	if err != nil || len(released) == 0 {
		return err
	}
	claimed.More = true
	claimed.Jobs = slices.DeleteFunc(claimed.Jobs, func(j Job) bool { return slices.Contains(released, j.ID) })
	return nil
}

// sqlSnoozeBehind makes jobs that wait behind others of their subject due later, where they filled all that a claim looked at: the end of
// the job before makes one due (sqlExpedite). A job that was tried before keeps its time, as there.
const sqlSnoozeBehind = `
with waiting as materialized (
    select t.id
    from unnest($1::uuid[]) o (org_id) cross join {lanes} cross join lateral (
        select t.id, t.org_id, t.subject, t.attempts, t.error_message from {table} t
        where t.status = 'pending' and t.org_id = o.org_id{lane} and t.next_retry_at between $3::timestamptz and $2::timestamptz{roomy $6}
        order by t.next_retry_at, t.id limit $4::integer) t
    where t.attempts = 0 and t.error_message = '' and not {free}
)
update {table} j set next_retry_at = $5::timestamptz
where j.id = any(array(
    select t.id from {table} t
    where t.id = any(array(select id from waiting)) and t.status || '' = 'pending' and t.next_retry_at <= $2::timestamptz
    for update skip locked))
returning j.org_id::text, j.subject`

// behindFor is the time for which a job that waits behind another of its subject is snoozed. A job loses so much if the process that ends
// the one before dies before it can expedite the next.
const behindFor = 30 * time.Second

// snoozeBehind makes due later what the claim had to look past, and reports how many jobs that were. Of a subject
// with a job that has ended meanwhile, the next one is made due again: its end did not find it waiting.
func (q *Queue) snoozeBehind(ctx context.Context, c Claim, s seen) (int, error) {
	var waiting []Job
	args := []any{s.short, c.Now, c.From, s.reach, c.Now.Add(behindFor)}
	if q.table.Group != "" {
		args = append(args, c.full())
	}
	err := q.byIndex(ctx, q.pool, func(rows pgx.Rows) (err error) {
		waiting, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (j Job, err error) {
			return j, row.Scan(&j.OrgID, &j.Subject)
		})
		return err
	}, q.sql.snoozeBehind[s.size], args...)
	if err != nil {
		return 0, fmt.Errorf("snooze what waits behind others: %w", err)
	}
	_, err = q.Expedite(ctx, waiting, c.Now)
	return len(waiting), err
}
