package queue

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
)

// Table names the table of a queue's jobs. It has at least these columns, and may have more if they have defaults or are written by the
// owner's own insert:
//
//	id              uuid        primary key,
//	org_id          uuid        not null,
//	idempotency_key text        not null,
//	event_type      text        not null,
//	subject         text        not null,
//	payload         jsonb       not null,
//	status          text        not null, -- pending, processing, completed, failed, cancelled
//	attempts        integer     not null default 0,
//	max_attempts    integer     not null default 3,
//	next_retry_at   timestamptz, -- of a pending job
//	lease_token     uuid,        -- of one that is processing
//	lease_until     timestamptz, -- the same
//	lost_leases     integer     not null default 0,
//	processed_at    timestamptz, -- of one that is at its end
//	error_message   text        not null default '',
//	created_at      timestamptz not null,
//	updated_at      timestamptz not null,
//	actor           jsonb,       -- the caller who stored it, or retried or cancelled it last; null when none did
//	unique (org_id, idempotency_key),
//	check ((status = 'processing') = (lease_token is not null)) -- the fence relies on it
//
// and these indexes; every other one slows each claim and each finish:
//
//	(org_id, next_retry_at, id) where status = 'pending' -- with Priorities: (org_id, priority, next_retry_at, id)
//	(lease_until) where status = 'processing'
//	(org_id, subject, id) where status in ('pending', 'processing') and subject <> ''
//	(subject, org_id, id) where status = 'processing' and subject <> ''
//	(org_id, id) where status = 'failed'
//	(org_id, id) -- for List
//	(processed_at, id) where processed_at is not null -- for retention
//	(next_retry_at, org_id) where status = 'pending' -- with Scheduled
//
// A table that lives on rewrites wants to be vacuumed early: autovacuum_vacuum_scale_factor 0.02, and a fillfactor of 100, for
// a change of status is never a HOT update.
type Table struct {
	Name string
	// Priorities is the number of levels of the column priority (smallint not null): 0, which comes first, to Priorities-1. With 0
	// there is no such column. Priority counts within an organisation's share, not between organisations.
	Priorities int
	// Scheduled says that most jobs are due later. The table has the index (next_retry_at, org_id) where status = 'pending', too: the cost
	// of a claim then depends on what is due, and not on the organisations that have something due later.
	Scheduled bool
	// Passing says that a job is deleted when it is done: other rows show that it was. The same job may then be stored and done again. Jobs
	// that failed or were cancelled are kept. A handler must not complete such a job with FinishIn: it would seem lost.
	Passing bool
	// Extra names further columns of type text that Enqueue fills from New.Extra.
	Extra []string
	// Group names the column that Claim.Room bounds the jobs by; empty for none.
	Group string
}

// How statements name rows. One that looks for work names the status as the partial index does that is made for it. One that knows a
// row's id compares the status as an expression (status || '' = 'pending'), which no index knows: to the planner a partial
// index looks empty while its statistics are from when it was, and reading all of it for one row then looks as cheap as the primary
// key. Ids that are joined are given as an array, too, so that every way to join begins with the primary key.

// Queue is the SQL of a queue on one table.
type Queue struct {
	pool  postgres.DB
	hot   *postgres.Combiner // of what is done about one job at a time
	table Table
	sql   statements
}

// statements holds the statements of the table, each of a constant shape, so that every connection prepares it once.
type statements struct {
	byIndex, look, byKey               string
	enqueue, enqueueClaimed            string
	claim, snoozeBehind                [sizes]string
	claimOne, release                  string
	complete, finish, extend, expedite string
	get, retry, cancel, dismiss        string
	gauges, deleteOld, deleteOldOf     string
	list                               map[string]string // by status
}

// NewQueue returns the queue on a table. The pool's statements may be bounded by row-level security: the loop's context must
// see every organisation then (postgres.AcrossOrganisations).
func NewQueue(pool postgres.DB, table Table) *Queue {
	write := table.names().Replace
	complete := sqlComplete
	if table.Passing {
		complete = sqlPass
	}
	return &Queue{pool: pool, hot: postgres.NewCombiner(pool), table: table, sql: statements{
		byIndex: write(sqlByIndex), look: write(sqlLook), byKey: write(sqlByKey),
		enqueue: write(sqlEnqueue), enqueueClaimed: write(sqlEnqueueClaimed),
		claim: bySize(write(sqlClaim)), snoozeBehind: bySize(write(sqlSnoozeBehind)), claimOne: write(sqlClaimOne), release: write(sqlRelease),
		complete: write(complete), finish: write(sqlFinish), extend: write(sqlExtend), expedite: write(sqlExpedite),
		get: write(sqlGet), list: lists(write), retry: write(sqlRetry), cancel: write(sqlCancel), dismiss: write(sqlDismiss),
		gauges: write(sqlGauges), deleteOld: write(sqlDeleteOld), deleteOldOf: write(sqlDeleteOldOf),
	}}
}

// bySize is a statement in a text for each size of the table: connections keep one plan for each text.
func bySize(sql string) (texts [sizes]string) {
	for size := range texts {
		texts[size] = fmt.Sprintf("%s -- %d", sql, size)
	}
	return texts
}

// names puts the table's own names and choices into a statement.
func (t Table) names() *strings.Replacer {
	var extra, arrays, extraOfRow strings.Builder
	next := enqueueArrays + 1
	priority, priorities, lanes, lane := "", "", "(values (0)) p (priority)", ""
	if t.Priorities > 0 {
		priority, priorities = ", priority", fmt.Sprintf(", unnest($%d::smallint[])", next)
		lanes, lane = fmt.Sprintf("generate_series(0, %d) p (priority)", t.Priorities-1), " and t.priority = p.priority"
		next++
	}
	for i, column := range t.Extra {
		name := pgx.Identifier{column}.Sanitize()
		extra.WriteString(", " + name)
		extraOfRow.WriteString(" || j." + name + "::text")
		fmt.Fprintf(&arrays, ", unnest($%d::text[])", next+i)
	}
	name := pgx.Identifier{t.Name}.Sanitize()
	byOrg := "t.org_id" + strings.ReplaceAll(priority, ", ", ", t.") + ", t.next_retry_at"
	visits := plain()
	if t.Scheduled {
		visits = scheduled()
	}
	group, roomy, within := "''::text", func(int) string { return "" }, "taken"
	if t.Group != "" {
		// A cast has no statistics, so the plan does not depend on how many groups there were when they were taken.
		group = "t." + pgx.Identifier{t.Group}.Sanitize() + "::text"
		roomy = func(param int) string { return fmt.Sprintf(" and %s <> all($%d::text[])", group, param) }
		within = sqlWithinRoom
	}
	visit := strings.NewReplacer(
		"{table}", name, "{lanes}", lanes, "{lane}", lane, "{by org}", byOrg, "{oldest}", strconv.Itoa(maxOldest),
	).Replace
	headOfT := strings.NewReplacer("{table}", name, "{head of}", "t").Replace(head)
	overtakenAt := func(now string) string { return strings.NewReplacer("{table}", name, "{now}", now).Replace(overtaken) }
	freeAt := func(now string) string {
		return strings.NewReplacer("{head of t}", headOfT, "{overtaken}", overtakenAt(now)).Replace(free)
	}
	return strings.NewReplacer(
		"{table}", name, "{max behind}", strconv.Itoa(maxBehind),
		"{by org}", byOrg, "{visited}", visit(strings.ReplaceAll(visits.visited, "{while}", visits.while)), "{looked}", visits.looked,
		"{last}", visits.last, "{drained}", visits.drained, "{next}", visit(visits.next),
		"{asks}", visits.asks, "{none due}", visit(visits.noneDue), "{next of look}", visit(visits.nextOfLook),
		"{oldest due}", visit(visits.oldestDue),
		"{head of t}", headOfT, "{overtaken at t.now}", overtakenAt("t.now"),
		"{free}", freeAt("$2::timestamptz"), "{free at u.now}", freeAt("u.now"),
		"{extra}", extra.String(), "{extra[]}", arrays.String(),
		"{leases}", "$"+strconv.Itoa(next+len(t.Extra)), "{token}", "$"+strconv.Itoa(next+len(t.Extra)+1),
		"{group}", group, "{roomy $9}", roomy(9), "{roomy $6}", roomy(6), "{taken within room}", within,
		"{priority}", priority, "{priority[]}", priorities, "{lanes}", lanes, "{lane}", lane,
		"{row}", strings.ReplaceAll(rowColumns, "{row.extra}", extraOfRow.String()),
		"{row of list}", strings.ReplaceAll(listColumns, "{row.extra}", extraOfRow.String()),
	)
}
