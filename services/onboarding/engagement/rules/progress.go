package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Progress is the progress of a person, as profiles.onboarding_tier_progress holds it:
// {"tier1": {"add_expense": true, "completed_at": "..."}, "tier2": {}, "tier3": {}, "epoch": 1}. The zero value is no progress.
type Progress struct {
	Tier1 TierProgress `json:"tier1"`
	Tier2 TierProgress `json:"tier2"`
	Tier3 TierProgress `json:"tier3"`
	// Epoch counts the resets of the progress. What is completed again is celebrated again.
	Epoch int `json:"epoch,omitempty"`
}

// TierProgress is one tier: the actions that were done, and when the last of them was.
type TierProgress struct {
	Done        map[string]bool
	CompletedAt time.Time // null until all are done; written once
}

const completedAt = "completed_at"

// MarshalJSON writes the actions next to completed_at.
func (t TierProgress) MarshalJSON() ([]byte, error) {
	flat := map[string]any{}
	for action, done := range t.Done {
		flat[action] = done
	}
	if !t.CompletedAt.IsZero() {
		flat[completedAt] = t.CompletedAt
	}
	return json.Marshal(flat)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (t *TierProgress) UnmarshalJSON(stored []byte) error {
	var flat map[string]json.RawMessage
	if err := json.Unmarshal(stored, &flat); err != nil {
		return err
	}
	*t = TierProgress{}
	for name, raw := range flat {
		if name == completedAt {
			if err := json.Unmarshal(raw, &t.CompletedAt); err != nil {
				return err
			}
			continue
		}
		var done bool
		if err := json.Unmarshal(raw, &done); err != nil {
			return err
		}
		mark(t, name, done)
	}
	return nil
}

func mark(t *TierProgress, action string, done bool) {
	if t.Done == nil {
		t.Done = map[string]bool{}
	}
	t.Done[action] = done
}

// Tier is one tier, 1 to 3.
func (p *Progress) Tier(number int) *TierProgress {
	return [...]*TierProgress{&p.Tier1, &p.Tier2, &p.Tier3}[number-1]
}

// Highest is the highest tier that is completed; 0 for none. There is no gate: the third may be completed first.
func (p *Progress) Highest() int {
	for number := TierCount; number > 0; number-- {
		if !p.Tier(number).CompletedAt.IsZero() {
			return number
		}
	}
	return 0
}

// Source is the channel of an action.
type Source string

// The sources.
const (
	SourceNLP     Source = "nlp" // recognised in a message
	SourceCommand Source = "command"
	SourceWeb     Source = "web"
)

// Sources lists them all.
func Sources() []Source { return []Source{SourceNLP, SourceCommand, SourceWeb} }

// AddExpense is the action that a first message, the magic moment and the hints are about.
const AddExpense = "add_expense"

// Action is one act of a person in the host application.
type Action struct {
	Name       string
	OccurredAt time.Time
	Source     Source
	Confidence float64 // of nlp, 0 to 1
	Income     bool    // money that came in completes nothing
	Silent     bool    // celebrate: false
}

const (
	maxAhead = 5 * time.Minute // by how much the host application's clock may be ahead
	silentAt = 24 * time.Hour  // what is older is counted and not celebrated
)

// Silenced reports whether an action is counted and nothing is told of it.
func (a Action) Silenced(now time.Time) bool { return a.Silent || now.Sub(a.OccurredAt) > silentAt }

// ErrAction is wrapped by every problem of an action.
var ErrAction = errors.New("action refused")

// Check reports every problem of an action at once, each naming the field and what is allowed.
func (c Config) Check(a Action, now time.Time) error {
	var problems []error
	if known := c.Actions(); !slices.Contains(known, a.Name) {
		problems = append(problems, fmt.Errorf("%w: action %.70q must be one of %s", ErrAction, a.Name, strings.Join(known, ", ")))
	}
	if !slices.Contains(Sources(), a.Source) {
		problems = append(problems, fmt.Errorf("%w: source %.20q must be nlp, command or web", ErrAction, string(a.Source)))
	}
	if a.OccurredAt.IsZero() || a.OccurredAt.Sub(now) > maxAhead {
		problems = append(problems, fmt.Errorf("%w: occurred_at must be there and at most 5 minutes ahead of %s", ErrAction,
			now.UTC().Format(time.RFC3339)))
	}
	if !(a.Confidence >= 0 && a.Confidence <= 1) { // also NaN
		problems = append(problems, fmt.Errorf("%w: confidence %v must be 0 to 1", ErrAction, a.Confidence))
	}
	return errors.Join(problems...)
}

// News reports whether an action says that its person is there: it is newer than what is known of them, and not so old that they would be
// inactive all the same. An action that is reported much later is counted and changes no state: an import of old actions sends no goodbyes.
func (l Limits) News(p Person, a Action, now time.Time) bool {
	return a.OccurredAt.After(p.LastActivityAt) && now.Sub(a.OccurredAt) < l.Inactivity
}

// Completion is a tier that an action completed.
type Completion struct {
	Tier int
	// Days is since the tier before it was completed; for the first, or where that one is not, since the person signed up.
	Days            int
	DaysSinceSignup int
}

// Recorded is the effect of an action.
type Recorded struct {
	Progress  Progress
	Changed   bool // else nothing is to be written
	Tier      int  // the highest that is completed
	Completed []Completion
	// Celebrate are the tiers of Completed that are told to the person, each once.
	Celebrate []int
}

// Record counts an action. It is idempotent, in any order: the same actions lead to the same progress. An action may complete
// several tiers at once. With tips off, or in silence, everything is counted and nothing is told.
func (c Config) Record(p Progress, a Action, signedUp time.Time, tipsOff bool, now time.Time) Recorded {
	r := Recorded{Progress: p.clone()}
	for number := 1; number <= TierCount && !a.Income; number++ {
		tier, wanted := r.Progress.Tier(number), c.Tiers[number-1]
		if !slices.Contains(wanted, a.Name) || tier.Done[a.Name] {
			continue
		}
		mark(tier, a.Name, true)
		r.Changed = true
		if !tier.CompletedAt.IsZero() || slices.ContainsFunc(wanted, func(action string) bool { return !tier.Done[action] }) {
			continue
		}
		tier.CompletedAt = a.OccurredAt
		since := signedUp
		if number > 1 && !r.Progress.Tier(number-1).CompletedAt.IsZero() {
			since = r.Progress.Tier(number - 1).CompletedAt
		}
		const day = 24 * time.Hour
		r.Completed = append(r.Completed, Completion{
			Tier: number, Days: whole(a.OccurredAt.Sub(since), day), DaysSinceSignup: whole(a.OccurredAt.Sub(signedUp), day),
		})
		if !tipsOff && !a.Silenced(now) {
			r.Celebrate = append(r.Celebrate, number)
		}
	}
	r.Tier = r.Progress.Highest()
	return r
}

// clone is a progress that shares nothing with p.
func (p *Progress) clone() Progress {
	out := *p
	for number := 1; number <= TierCount; number++ {
		tier := out.Tier(number)
		done := tier.Done
		tier.Done = nil
		for action, is := range done {
			mark(tier, action, is)
		}
	}
	return out
}
