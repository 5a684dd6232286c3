package engagement

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/engagement/rules"
)

const sqlHistory = `
select id, coalesce(from_state, ''), to_state, trigger, cause, coalesce(supersedes::text, ''), metadata, created_at
from engagement_state_transitions where org_id = $1 and profile_id = $2 and id < $3 order by id desc limit $4`

// History is the newest transitions of a person, newest first; of those that are older than one, unless its id is empty.
func (s *Store) History(ctx context.Context, orgID, profileID, before string, limit int) ([]Transition, error) {
	if before == "" {
		before = uuid.Max.String()
	}
	rows, err := s.pool.Query(ctx, sqlHistory, orgID, profileID, before, limit)
	if err != nil {
		return nil, fmt.Errorf("read transitions: %w", err)
	}
	history, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (t Transition, err error) {
		var metadata []byte
		if err := r.Scan(&t.ID, &t.From, &t.To, &t.Trigger, &t.Cause, &t.Supersedes, &metadata, &t.At); err != nil {
			return t, err
		}
		return t, json.Unmarshal(metadata, &t.Metadata)
	})
	if err != nil {
		return nil, fmt.Errorf("read transitions: %w", err)
	}
	return history, nil
}

const (
	sqlPeopleCounts     = `select '', state, count(*) from user_engagement_states where org_id = $1 group by state`
	sqlTransitionCounts = `
select '', trigger, count(*) from engagement_state_transitions where org_id = $1 and created_at >= $2 and created_at < $3 group by trigger`
	// A row that was retried keeps the outcome of its last end until its next one.
	sqlOutreachCounts = `
select event_type, case when status in ('pending', 'processing') then 'open' when outcome = '' then status else outcome end, count(*)
from engagement_outreach where org_id = $1 and created_at >= $2 and created_at < $3 group by 1, 2`
)

// Stats counts the people of an organisation by state as they are now, and what there was from an instant until another.
func (s *Store) Stats(ctx context.Context, orgID string, from, until time.Time) (Stats, error) {
	found := Stats{
		People: map[rules.State]int{}, Transitions: map[rules.Trigger]int{}, Outreach: map[rules.MessageType]map[string]int{},
	}
	var of, what string
	var n int
	for _, count := range []struct {
		sql  string
		args []any
		add  func()
	}{
		{sqlPeopleCounts, []any{orgID}, func() { found.People[rules.State(what)] = n }},
		{sqlTransitionCounts, []any{orgID, from, until}, func() { found.Transitions[rules.Trigger(what)] = n }},
		{sqlOutreachCounts, []any{orgID, from, until}, func() {
			kind := rules.MessageType(of)
			if found.Outreach[kind] == nil {
				found.Outreach[kind] = map[string]int{}
			}
			found.Outreach[kind][what] = n
		}},
	} {
		rows, err := s.pool.Query(ctx, count.sql, count.args...)
		if err == nil {
			_, err = pgx.ForEachRow(rows, []any{&of, &what, &n}, func() error {
				count.add()
				return nil
			})
		}
		if err != nil {
			return Stats{}, fmt.Errorf("count engagement: %w", err)
		}
	}
	return found, nil
}

// organisations hops from one organisation that has people to the next, by the index of the states.
const organisations = `
with recursive orgs as (
    (select org_id from user_engagement_states order by org_id limit 1)
    union all
    select x.org_id from orgs o cross join lateral (
        select e.org_id from user_engagement_states e where e.org_id > o.org_id order by e.org_id limit 1) x
)`

const sqlPeople = organisations + `
select s.state, (select count(*) from (
    select 1 from orgs o cross join lateral (
        select 1 from user_engagement_states e where e.org_id = o.org_id and e.state = s.state limit $2) x limit $2) x)
from unnest($1::text[]) as s (state)`

// peopleLimit is the number at which People stops counting, as the gauges of a queue do: it bounds the cost of a scrape, whatever the
// number of people.
const peopleLimit = 100_000

// People counts the people of all organisations that ctx may see by state, up to a limit for each.
func (s *Store) People(ctx context.Context) (map[rules.State]int, error) {
	rows, err := s.pool.Query(ctx, sqlPeople, rules.States(), peopleLimit)
	counts := map[rules.State]int{}
	if err == nil {
		var state rules.State
		var n int
		_, err = pgx.ForEachRow(rows, []any{&state, &n}, func() error {
			counts[state] = n
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("count people by state: %w", err)
	}
	return counts, nil
}

const sqlRunMissing = organisations + `
select min(coalesce(x.nominal, @nominal))
from orgs o left join unnest(@orgs::uuid[], @names::text[], @nominals::timestamptz[]) x (org_id, name, nominal) on x.org_id = o.org_id
where not exists (select from engagement_runs r
    where r.org_id = o.org_id and r.job = @job and r.period >= coalesce(x.name, @name) and r.status <> 'running')`

// RunMissing returns when the oldest period began that an organisation with people has not come to the end of; the zero
// time when there is none. It looks at the organisations that ctx may see. The newest period is usual, or that of the
// organisation in own. A later one that has ended is enough, as for Calendar.Due: an organisation that moves its runs to a
// later time of the day goes back to a period that nothing will run.
func (s *Store) RunMissing(ctx context.Context, usual rules.Period, own map[string]rules.Period) (time.Time, error) {
	orgs, names, nominals := []string{}, []string{}, []time.Time{}
	for org, p := range own {
		orgs, names, nominals = append(orgs, org), append(names, p.Name), append(nominals, p.Nominal)
	}
	var since *time.Time
	if err := s.pool.QueryRow(ctx, sqlRunMissing, postgres.Args{
		"job": usual.Job, "name": usual.Name, "nominal": usual.Nominal, "orgs": orgs, "names": names, "nominals": nominals,
	}).Scan(&since); err != nil {
		return time.Time{}, fmt.Errorf("look for runs that are missing: %w", err)
	}
	return postgres.TimeOf(since), nil
}
