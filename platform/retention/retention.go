// Package retention deletes what a service need not keep any more, some rows at a time and never one that is in use.
package retention

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/process"
)

const (
	// atOnce bounds the rows that a statement reads, and so how many it deletes: a few milliseconds of locks.
	atOnce = 500
	// mostOfAPass bounds what a pass deletes of one rule: a backlog of years is worked off over days, along with the service's work.
	mostOfAPass = 50_000
)

// Rule sets the time for which the rows of a table are kept. Each table has one, or two if it is deleted in two ways.
// docs/security-and-privacy.md shows them.
type Rule struct {
	Table string
	Holds string // what is in it, and what of it stays longer; empty where the table's name tells enough
	Kept  string // until when; {for} stands for the time that Variable sets
	// Variable sets For. Empty where no time is set.
	Variable string
	// Setting names an organisation's own time instead of For; empty where it has none.
	Setting string
	For     time.Duration
	Over    *Over // nil where the rows never go by themselves, or something else deletes them, as Kept says
}

// Over is which rows are over, as SQL. They are called r.
type Over struct {
	From string // where they are looked for; the rule's table if empty
	At   string // the column with the index by which they are walked, oldest first: behind org_id, where the rule has a Setting
	Of   string // the condition of that index; empty for none
	If   string // which of those that are old enough; empty for all
	// Still marks a table with rows that never change: they are not locked, because the service may not lock them.
	Still bool
	// Do is done with the rows of the CTE free, which are locked, by their ctid. It returns a row for each; empty deletes them.
	Do string
}

// sqlOver walks some rows behind the place where the batch before ended, so that what has to stay is passed over once in a pass, and does
// it to those that are over. A row that is locked is left to the next pass: nothing waits for this, and this for nothing.
const sqlOver = `
with walked as materialized (
    select r.ctid as place, r.{at} as at from {from} r
    where {org} and {of} and r.{at} < @before and (r.{at}, r.ctid) > (@after::timestamptz, @after_row::tid)
    order by r.{at}, r.ctid limit @limit
), free as materialized (
    select r.ctid as place, r.{at} as at from {from} r
    where r.ctid = any (array(select place from walked)) and r.{at} < @before and {of} and {if} {lock}
), gone as (
    {do}
)
select (select count(*) from gone), (select count(*) from walked), (select min(at) from free), last.at, last.place::text
from (select 1) one left join lateral (select at, place from walked order by at desc, place desc limit 1) last on true`

// sqlOrganisations jumps from one organisation to the next in the index by which the rows are walked.
const sqlOrganisations = `
with recursive o as (
    (select r.org_id from {from} r where {of} order by r.org_id limit 1)
    union all
    select (select r.org_id from {from} r where {of} and r.org_id > o.org_id order by r.org_id limit 1) from o where o.org_id is not null
)
select org_id::text from o where org_id is not null`

// SQL is the statement of a rule that has an Over.
func (r Rule) SQL() string { return r.filled(sqlOver) }

func (r Rule) filled(text string) string {
	org, from, do := "true", r.Over.From, r.Over.Do
	if r.Setting != "" {
		org = "r.org_id = @org::uuid"
	}
	if from == "" {
		from = r.Table
	}
	if do == "" {
		do = "delete from " + from + " r where r.ctid = any (array(select place from free)) returning 1"
	}
	orTrue := func(condition string) string {
		if condition == "" {
			return "true"
		}
		return "(" + condition + ")"
	}
	lock := "for update skip locked"
	if r.Over.Still {
		lock = ""
	}
	return strings.NewReplacer("{do}", do, "{lock}", lock, "{from}", from, "{at}", r.Over.At, "{of}", orTrue(r.Over.Of),
		"{if}", orTrue(r.Over.If), "{org}", org).Replace(text)
}

// Sweep goes through the rules.
type Sweep struct {
	DB    postgres.DB
	Rules []Rule
	// Own reads the decisions of organisations. Nil where they cannot.
	Own     func(ctx context.Context) (Own, error)
	Metrics *Metrics // may be nil
	Log     *slog.Logger
	Now     func() time.Time
}

// Pass deletes what is over now. One rule that fails does not keep the others from it.
func (s *Sweep) Pass(ctx context.Context) error {
	var own Own
	if s.Own != nil {
		var err error
		if own, err = s.Own(ctx); err != nil {
			return fmt.Errorf("read what organisations keep: %w", err)
		}
	}
	var failed error
	for _, r := range s.Rules {
		if r.Over == nil || ctx.Err() != nil {
			continue
		}
		if err := s.rule(ctx, r, own); err != nil {
			failed = errors.Join(failed, fmt.Errorf("retention of %s: %w", r.Table, err))
		}
	}
	return failed
}

func (s *Sweep) rule(ctx context.Context, r Rule, own Own) error {
	orgs := []string{""}
	if r.Setting != "" {
		var err error
		if orgs, err = organisations(ctx, s.DB, r.filled(sqlOrganisations)); err != nil {
			return err
		}
	}
	var all int
	var late time.Duration
	for _, org := range orgs {
		kept := r.For
		if decided, has := own[org][r.Setting]; has {
			kept = decided
		}
		n, oldest, err := s.delete(ctx, r, org, s.Now().Add(-kept))
		all, late = all+n, max(late, oldest)
		if err != nil {
			return err
		}
	}
	s.Metrics.deleted(ctx, r.Table, all, late)
	if all > 0 {
		s.Log.InfoContext(ctx, "retention.deleted", "table", r.Table, "rows", all)
	}
	return nil
}

// delete deletes what was over before an instant, of one organisation if it is named, and says how much longer the oldest of it was there.
func (s *Sweep) delete(ctx context.Context, r Rule, org string, before time.Time) (deleted int, late time.Duration, err error) {
	sql := r.SQL()
	after, row := time.Time{}, "(0,0)"
	for ctx.Err() == nil && deleted < mostOfAPass {
		var gone, walked int
		var oldest, lastAt *time.Time
		var lastRow *string
		args := postgres.Args{"before": before, "after": after, "after_row": row, "limit": atOnce, "now": s.Now()}
		if r.Setting != "" {
			args["org"] = org
		}
		if err := s.DB.QueryRow(ctx, sql, args).Scan(&gone, &walked, &oldest, &lastAt, &lastRow); err != nil {
			return deleted, late, err
		}
		process.Progress(ctx)
		deleted += gone
		if oldest != nil {
			late = max(late, before.Sub(*oldest))
		}
		if walked < atOnce || lastAt == nil {
			break
		}
		after, row = *lastAt, *lastRow
	}
	return deleted, late, nil
}
