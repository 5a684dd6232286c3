package conversation

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/session"
)

// Nothing here is counted ahead: few conversations end in a period, and a funnel of the newest thousands says what one of all would say. So
// each statement reads indexes up to a limit, and a step writes nothing for it.

// sqlCompleted counts up to a limit in each period.
const sqlCompleted = `
select (select count(*) from (
    select from conversation_sessions s
    where s.org_id = @org and s.completed_at >= u.begins and s.completed_at < u.ends limit @most) n)::int
from unnest(@begins::timestamptz[], @ends::timestamptz[]) with ordinality u (begins, ends, place) order by u.place`

// Completed counts the sessions that were completed between each edge and the next, each up to a limit.
func (s *Store) Completed(ctx context.Context, orgID string, edges []time.Time, most int) ([]int, error) {
	last := len(edges) - 1
	found, err := postgres.AllInOrder(ctx, s.pool, sqlCompleted, postgres.Args{
		"org": orgID, "begins": edges[:last], "ends": edges[1:], "most": most,
	}, pgx.RowTo[int])
	if err != nil {
		return nil, fmt.Errorf("count completed sessions: %w", err)
	}
	return found, nil
}

// sqlStanding counts open sessions by their step, the newest of each status up to a limit.
const sqlStanding = `
select n.step, count(*)::int as now
from unnest(@open::text[]) u (status) cross join lateral (
    select s.flow_state ->> 'step' as step from conversation_sessions s
    where s.org_id = @org and s.flow = @flow and s.status = u.status order by s.id desc limit @most_open) n
group by n.step`

// sqlFunnel counts the newest sessions that began in time by the steps that they came to, and by what their timelines have of it: a reply
// and a silence are written from the state of the step that waited. What is counted of them it names.
const sqlFunnel = `
with newest as materialized (
    select n.id, n.status, n.flow_state from unnest(@statuses::text[]) u (status) cross join lateral (
        select s.id, s.status, s.flow_state, s.created_at from conversation_sessions s
        where s.org_id = @org and s.flow = @flow and s.status = u.status order by s.id desc limit @most) n
    where n.created_at >= @since order by n.id desc limit @most
), told as materialized (
    select t.session_id, t.from_state_token as token, bool_or(t.trigger in ('reply_advance', 'reply_pause')) as answered,
        bool_or(t.trigger = 'silence') as silent
    from newest n join session_transitions t on t.session_id = n.id
    where t.from_state_token = any (@tokens::text[]) and t.trigger in ('reply_advance', 'reply_pause', 'silence')
    group by 1, 2
)
select '' as step, 'began' as what, count(*)::int as n from newest
union all
select v.step, w.what, count(*)::int from newest n cross join lateral jsonb_object_keys(n.flow_state -> 'visits') v (step)
    cross join lateral unnest(array['reached', case when n.flow_state ->> 'step' <> v.step then 'went_on'
        when n.status = 'stopped' then 'stopped' end]) w (what)
where w.what is not null group by 1, 2
union all
select u.step, w.what, count(*)::int from told t join unnest(@steps::text[], @tokens::text[]) u (step, token) on u.token = t.token
    cross join lateral unnest(array[case when t.answered then 'answered' end, case when t.silent then 'silent' end]) w (what)
where w.what is not null group by 1, 2`

const (
	// funnelOf bounds the sessions that a funnel follows: their timelines are read one by one.
	funnelOf = 10_000
	// standingOf bounds the open sessions of a status that are counted by their step.
	standingOf = 50_000
	funnelFor  = 30 * 24 * time.Hour
)

// Funnel counts the open sessions of a flow, and those that began since an instant.
type Funnel struct {
	Since               time.Time
	Open, Began         int
	MoreOpen, MoreBegan bool // there are more than were looked at, the newest
	Steps               map[string]*FunnelStep
}

// FunnelStep counts the sessions of one step.
type FunnelStep struct{ Now, Reached, WentOn, Answered, Silent, Stopped int }

func (c *Funnel) at(step string) *FunnelStep {
	if c.Steps[step] == nil {
		c.Steps[step] = &FunnelStep{}
	}
	return c.Steps[step]
}

// count adds a row of sqlFunnel.
func (c *Funnel) count(step, what string, n int) {
	switch what {
	case "began":
		c.Began = n
	case "reached":
		c.at(step).Reached = n
	case "went_on":
		c.at(step).WentOn = n
	case "answered":
		c.at(step).Answered = n
	case "silent":
		c.at(step).Silent = n
	case "stopped":
		c.at(step).Stopped = n
	}
}

// Funnel counts who stand at each step of a flow, and how far those came who began in the last 30 days.
func (s *Store) Funnel(ctx context.Context, orgID string, f *flow.Flow, now time.Time) (c Funnel, err error) {
	c = Funnel{Since: now.Add(-funnelFor), Steps: map[string]*FunnelStep{}}
	var steps, tokens []string
	for _, id := range f.Order {
		if step := f.Steps[id]; step.Waits {
			steps, tokens = append(steps, id), append(tokens, step.State)
		}
	}
	open := []session.Status{session.Active, session.Stuck, session.Undeliverable}
	args := postgres.Args{
		"org": orgID, "flow": f.Name, "steps": steps, "tokens": tokens, "since": c.Since, "most": funnelOf, "most_open": standingOf,
		"open": session.StatusTexts(open), "statuses": session.StatusTexts(append(open, session.Stopped, session.Closed)),
	}
	var batch pgx.Batch
	batch.Queue(postgres.PlanNow)
	batch.Queue(postgres.InOrder)
	batch.Queue(sqlStanding, args).Query(func(rows pgx.Rows) error {
		var step string
		var n int
		_, err := pgx.ForEachRow(rows, []any{&step, &n}, func() error {
			c.Open += n
			c.at(step).Now = n
			return nil
		})
		return err
	})
	batch.Queue(sqlFunnel, args).Query(func(rows pgx.Rows) error {
		var step, what string
		var n int
		_, err := pgx.ForEachRow(rows, []any{&step, &what, &n}, func() error { c.count(step, what, n); return nil })
		return err
	})
	if err := s.pool.SendBatch(ctx, &batch).Close(); err != nil {
		return Funnel{}, fmt.Errorf("count the sessions of a flow: %w", err)
	}
	c.MoreOpen, c.MoreBegan = c.Open >= standingOf, c.Began == funnelOf
	c.Open = min(c.Open, standingOf)
	return c, nil
}
