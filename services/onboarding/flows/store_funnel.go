package flows

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/flow"
)

// funnelFor is the time since when sessions are followed through the steps.
const funnelFor = 30 * 24 * time.Hour

// CountsFor is the time for which the counts of a day are kept.
const CountsFor = 2 * funnelFor

// sqlFunnel adds up the counts of a flow and their changes that are not folded yet. Triggers write both, see migration 0063.
const sqlFunnel = `
select n.step, sum(n.standing)::int as now, coalesce(sum(n.began) filter (where n.recent), 0)::int as began,
    coalesce(sum(n.reached) filter (where n.recent), 0)::int as reached,
    coalesce(sum(n.went_on) filter (where n.recent), 0)::int as went_on,
    coalesce(sum(n.answered) filter (where n.recent), 0)::int as answered,
    coalesce(sum(n.silent) filter (where n.recent), 0)::int as silent,
    coalesce(sum(n.stopped) filter (where n.recent), 0)::int as stopped
from (
    select step, began_at >= @since as recent, standing, began, reached, went_on, answered, silent, stopped
    from flow_counts where org_id = @org and flow = @flow
    union all
    select step, began_at >= @since, standing, began, reached, went_on, answered, silent, stopped
    from flow_count_changes where org_id = @org and flow = @flow
) n
group by n.step`

// Funnel counts the open sessions of a flow, and those that began since an instant.
type Funnel struct {
	Since       time.Time
	Open, Began int
	Steps       map[string]*FunnelStep
}

// FunnelStep counts the sessions of one step.
type FunnelStep struct{ Now, Reached, WentOn, Answered, Silent, Stopped int }

// funnelRow has the counts of a step, or of the state in which one waits, or, of an empty one, of the sessions.
type funnelRow struct {
	Step  string
	Began int
	FunnelStep
}

// replies returns what is counted by the state in which a step waits.
func (r funnelRow) replies() FunnelStep { return FunnelStep{Answered: r.Answered, Silent: r.Silent} }

func (c *Funnel) add(step string, n FunnelStep) {
	if n == (FunnelStep{}) {
		return
	}
	if c.Steps[step] == nil {
		c.Steps[step] = &FunnelStep{}
	}
	of := c.Steps[step]
	of.Now, of.Reached, of.WentOn = of.Now+n.Now, of.Reached+n.Reached, of.WentOn+n.WentOn
	of.Answered, of.Silent, of.Stopped = of.Answered+n.Answered, of.Silent+n.Silent, of.Stopped+n.Stopped
}

// Funnel counts who stand at each step of a flow, and how far those came who began in the last 30 days, whole days by UTC.
func (s *Store) Funnel(ctx context.Context, orgID string, f *flow.Flow, now time.Time) (c Funnel, err error) {
	c = Funnel{Since: now.Add(-funnelFor).UTC().Truncate(24 * time.Hour), Steps: map[string]*FunnelStep{}}
	waits := waitsIn(f)
	rows, err := s.pool.Query(ctx, sqlFunnel, postgres.Args{"org": orgID, "flow": f.Name, "since": c.Since})
	if err != nil {
		return Funnel{}, fmt.Errorf("read the counts of a flow: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[funnelRow])
	if err != nil {
		return Funnel{}, fmt.Errorf("read the counts of a flow: %w", err)
	}
	var older []funnelRow
	for _, r := range found {
		c.Began, c.Open = c.Began+r.Began, c.Open+r.Now
		replies := r.replies()
		if step, ok := waits[r.Step]; ok {
			c.add(step, replies)
		} else if replies != (FunnelStep{}) {
			older = append(older, r)
		}
		r.Answered, r.Silent = 0, 0
		c.add(r.Step, r.FunnelStep)
	}
	return c, s.addOlder(ctx, orgID, f.Name, &c, older)
}

// waitsIn returns the steps of a flow that wait, by the states in which they do.
func waitsIn(f *flow.Flow) map[string]string {
	waits := map[string]string{}
	for _, id := range f.Order {
		if step := f.Steps[id]; step.Waits {
			waits[step.State] = id
		}
	}
	return waits
}

// olderVersions bounds the versions that are searched for the step of a state.
const olderVersions = 50

// addOlder adds what is counted by states that the current version does not have to the steps of older versions: the state of a step is its
// name unless the version says another.
func (s *Store) addOlder(ctx context.Context, orgID, name string, c *Funnel, rows []funnelRow) error {
	rows = slices.DeleteFunc(rows, func(r funnelRow) bool {
		id, named := strings.CutPrefix(r.Step, name+":")
		if named = named && c.Steps[id] != nil; named {
			c.add(id, r.replies())
		}
		return named
	})
	if len(rows) == 0 {
		return nil
	}
	versions, err := s.Versions(ctx, orgID, name, 0, olderVersions)
	if err != nil {
		return err
	}
	for _, v := range versions {
		if len(rows) == 0 {
			return nil
		}
		f, err := s.Version(ctx, orgID, name, v.Version)
		if errors.Is(err, flow.ErrUnreadable) {
			continue
		}
		if err != nil {
			return err
		}
		waits := waitsIn(&f)
		rows = slices.DeleteFunc(rows, func(r funnelRow) bool {
			id, has := waits[r.Step]
			if has {
				c.add(id, r.replies())
			}
			return has
		})
	}
	return nil
}

// foldedAtOnce bounds the changes of one statement.
const foldedAtOnce = 10_000

// sqlFoldCounts adds changes to their counts. Another replica folds others meanwhile: both lock the counts in one order.
const sqlFoldCounts = `
with taken as (
    delete from flow_count_changes
    where id in (select id from flow_count_changes order by id limit @most for update skip locked)
    returning org_id, flow, began_at, step, began, standing, reached, went_on, stopped, answered, silent
), folded as (
    insert into flow_counts as c (org_id, flow, began_at, step, began, standing, reached, went_on, stopped, answered, silent)
    select org_id, flow, began_at, step, sum(began), sum(standing), sum(reached), sum(went_on), sum(stopped), sum(answered), sum(silent)
    from taken group by 1, 2, 3, 4 order by 1, 2, 3, 4
    on conflict (org_id, flow, began_at, step) do update set began = c.began + excluded.began, standing = c.standing + excluded.standing,
        reached = c.reached + excluded.reached, went_on = c.went_on + excluded.went_on, stopped = c.stopped + excluded.stopped,
        answered = c.answered + excluded.answered, silent = c.silent + excluded.silent
)
select count(*) from taken`

// FoldCounts folds what has changed of the counts of flows, for all organisations, and reports whether there may be more.
func (s *Store) FoldCounts(ctx context.Context) (more bool, err error) {
	var n int
	if err := s.pool.QueryRow(ctx, sqlFoldCounts, postgres.Args{"most": foldedAtOnce}).Scan(&n); err != nil {
		return false, fmt.Errorf("fold the counts of flows: %w", err)
	}
	return n == foldedAtOnce, nil
}
