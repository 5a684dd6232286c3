package engagement

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/engagement/rules"
)

const sqlKeepAction = `
insert into engagement_actions (id, org_id, profile_id, cause, action, category, source, occurred_at, answer, created_at)
values (@id, @org, @profile, @cause, @action, @category, @source, @happened, @answer, @at)
on conflict on constraint engagement_actions_once do nothing`

// keepAction queues the first statement of its transaction: of two of one cause the second waits for the first, and is a conflict then.
func keepAction(batch *pgx.Batch, c Change) error {
	answer, err := json.Marshal(c.Act.Answer)
	if err != nil {
		return fmt.Errorf("encode an answer: %w", err)
	}
	guard(batch, sqlKeepAction, postgres.Args{
		"id": newID(), "org": c.View.OrgID, "profile": c.View.ProfileID, "cause": c.Cause, "action": c.Act.Name, "category": c.Act.keptCategory(),
		"source": string(c.Act.Source), "happened": c.Act.OccurredAt, "answer": answer, "at": c.At,
	})
	return nil
}

// What an action changes was decided on the progress, the expenses and the switch of the tips that were read. A concurrent action
// has changed one of them, or nothing that matters.
const sqlAdvance = `
update profiles p set onboarding_tier = @tier, onboarding_tier_progress = @progress, expense_count = p.expense_count + @expenses,
    magic_moment_at = case when @magic then @happened::timestamptz else p.magic_moment_at end, updated_at = @at
where p.org_id = @org and p.id = @profile and p.onboarding_tier_progress = @was_progress::jsonb and p.expense_count = @was_expenses
  and p.onboarding_tips_enabled <> @was_tips_off and (p.magic_moment_at is null or not @magic)`

// advance queues what an action changes of its person, if anything.
func advance(batch *pgx.Batch, c Change) error {
	expenses := 0
	if c.Act.Expense() {
		expenses = 1
	}
	if expenses == 0 && !c.Act.Recorded.Changed && !c.Act.Answer.MagicMoment {
		return nil
	}
	progress, err := json.Marshal(c.Act.Recorded.Progress)
	if err != nil {
		return fmt.Errorf("encode a progress: %w", err)
	}
	guard(batch, sqlAdvance, postgres.Args{
		"org": c.View.OrgID, "profile": c.View.ProfileID, "tier": c.Act.Recorded.Tier, "progress": progress, "expenses": expenses,
		"magic": c.Act.Answer.MagicMoment, "happened": c.Act.OccurredAt, "at": c.At, "was_progress": c.View.ProgressRead,
		"was_expenses": c.View.Expenses, "was_tips_off": c.View.TipsOff,
	})
	return nil
}

const sqlExpensesIn = `
select count(*) from engagement_actions
where org_id = $1 and profile_id = $2 and action = $3 and category = $4 and occurred_at >= $5 and occurred_at < $6`

// ExpensesIn counts the expenses of a person in a category, in any case, from an instant until another.
func (s *Store) ExpensesIn(ctx context.Context, v View, category string, from, until time.Time) (n int, err error) {
	row := s.pool.QueryRow(ctx, sqlExpensesIn, v.OrgID, v.ProfileID, rules.AddExpense, strings.ToLower(category), from, until)
	if err := row.Scan(&n); err != nil {
		return 0, fmt.Errorf("count expenses: %w", err)
	}
	return n, nil
}

// ActionsKept is the time that an action is kept: for the month that its category is counted in, and for a key that is repeated.
const ActionsKept = 62 * 24 * time.Hour
