package overview

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/events"
	"paceline.internal/services/onboarding/session"
)

// Store reads from an open pool.
type Store struct {
	pool   postgres.DB
	queues []named
}

type named struct {
	name string
	jobs *queue.Queue
}

// NewStore returns a store that counts three queues, too.
func NewStore(pool postgres.DB, jobs, outreach, deliveries *queue.Queue) *Store {
	return &Store{pool: pool, queues: []named{
		{conversation.JobsTable, jobs}, {engagement.OutreachTable, outreach}, {events.DeliveriesTable, deliveries},
	}}
}

// Overview is the state of an organisation. Nothing is counted beyond a limit.
type Overview struct {
	People              map[session.Status]int // by the status of the newest session; the key "" counts people who were never activated
	Held                int
	Parked              int // sessions
	OverdueGoals        int
	PausedSubscriptions int
	Conversations       Gauges
	Queues              []QueueOverview
}

// QueueOverview is the state of a queue.
type QueueOverview struct {
	Name string
	queue.Gauges
}

// sqlPeopleByStatus reads an index for each status, up to a limit, and nothing else.
const sqlPeopleByStatus = `
select u.status, (select count(*) from (
    select from conversation_sessions s where s.org_id = @org and s.status = u.status and not s.superseded limit @most) n)::int
from unnest(@status::text[]) u (status)
union all
select '', (select count(*) from (select from profiles p where p.org_id = @org and not p.activated limit @most) n)::int`

// sqlAttention reads the partial indexes of what is rare.
const sqlAttention = `
select
    (select count(*) from (select from profiles p where p.org_id = @org and p.hold limit @most) n),
    (select count(*) from (
        select from conversation_sessions s where s.org_id = @org and s.status in ('stuck', 'undeliverable') limit @most) n),
    (select count(*) from (select from goals g where g.org_id = @org and g.status = 'scheduled' and g.scheduled_for <= @now limit @most) n),
    (select count(*) from event_subscriptions e where e.org_id = @org and e.status = 'paused')`

// Overview counts what an operator of an organisation sees first, each up to a limit. The context has the organisation's scope: what is
// counted for the metrics is counted here of its rows alone.
func (s *Store) Overview(ctx context.Context, orgID string, now time.Time, most int) (o Overview, err error) {
	o.People = map[session.Status]int{}
	args := postgres.Args{
		"org": orgID, "now": now, "most": most,
		"status": session.StatusTexts([]session.Status{session.Active, session.Stuck, session.Undeliverable, session.Stopped, session.Closed}),
	}
	var batch pgx.Batch
	batch.Queue(postgres.PlanNow)
	batch.Queue(sqlPeopleByStatus, args).Query(func(rows pgx.Rows) error {
		var status session.Status
		var n int
		_, err := pgx.ForEachRow(rows, []any{&status, &n}, func() error { o.People[status] = n; return nil })
		return err
	})
	batch.Queue(sqlAttention, args).QueryRow(func(row pgx.Row) error {
		return row.Scan(&o.Held, &o.Parked, &o.OverdueGoals, &o.PausedSubscriptions)
	})
	if err := s.pool.SendBatch(ctx, &batch).Close(); err != nil {
		return Overview{}, fmt.Errorf("see how the organisation stands: %w", err)
	}
	if o.Conversations, err = s.GaugesUpTo(ctx, now, most, true); err != nil {
		return Overview{}, err
	}
	for _, q := range s.queues {
		gauges, err := q.jobs.GaugesUpTo(ctx, now, most)
		if err != nil {
			return Overview{}, err
		}
		o.Queues = append(o.Queues, QueueOverview{q.name, gauges})
	}
	return o, nil
}
