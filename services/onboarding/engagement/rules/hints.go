package rules

import (
	"slices"
	"time"
)

// Hint may be appended to the host application's reply, and is never a separate message; empty for none.
type Hint string

// The hints.
const (
	HintCategory Hint = "first_expense_category"
	HintBudget   Hint = "budget_suggestion"
)

// budgetAfter is the number of expenses in one category of a month that suggest a budget for it.
const budgetAfter = 3

// Shown has the facts that a hint depends on, after the action was counted.
type Shown struct {
	Expenses   int // of the person, ever
	InCategory int // of them in the category of the action, in its month
	Tier       int // the highest that is completed
	TipsOff    bool
}

// HintFor is the hint of an action: after the very first expense the categories, from the third of a month in one category on a
// budget. Who completed tier 2 knows both.
func HintFor(a Action, s Shown) Hint {
	switch {
	case a.Name != AddExpense || a.Income || s.TipsOff || s.Tier >= 2:
		return ""
	case s.Expenses == 1:
		return HintCategory
	case s.InCategory >= budgetAfter:
		return HintBudget
	}
	return ""
}

// Greeting is the answer to a first message; empty for not at all.
type Greeting string

// The greetings.
const (
	GreetWithExample Greeting = "welcome"     // warm, with one example of what to write
	GreetExpense     Greeting = "celebration" // of the expense that they wrote, without guidance
)

// Confident is from which confidence on a recognised expense is one.
const Confident = 0.5

// FirstMessage returns the answer to a person's message, given what was recognised in it (nil is nothing). Only the first is, and none
// while an onboarding session is open: the flow greets.
func FirstMessage(first, onboardingOpen bool, recognised *Expense) Greeting {
	switch {
	case !first || onboardingOpen:
		return ""
	case recognised != nil && recognised.Confidence >= Confident:
		return GreetExpense
	}
	return GreetWithExample
}

// MagicMoment reports whether an action is the person's magic moment, given when that was: their first that was recognised in a
// message. Commands, the web and what completes nothing are none. The statement that stores it checks again that there is none.
func (c Config) MagicMoment(a Action, magicAt time.Time) bool {
	return magicAt.IsZero() && a.Source == SourceNLP && a.Confidence >= Confident && !a.Income && !slices.Contains(c.Uncounted, a.Name)
}
