package engagement

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"paceline.internal/platform/letters"
	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/engagement/rules"
	"paceline.internal/services/onboarding/people"
)

// ErrKeyReused is a key under which another action was reported.
var ErrKeyReused = errors.New("the idempotency key was used for another action of this person")

// Report is an action that the host application reports.
type Report struct {
	OrgID     string
	ProfileID string
	Key       string // unique per person
	Action    rules.Action
	Undated   bool // its time was left out: it is the time of its arrival
	// Attributes are further facts: of an expense its category, and whether money came in instead.
	Attributes map[string]string
}

// The attributes that mean something to engagement.
const (
	attributeCategory = "category"
	attributeIncome   = "income"
)

// The bounds of a report, in characters and numbers.
const (
	maxReportKey    = 200
	maxAttributes   = 20
	maxAttributeKey = 60
	maxAttribute    = 200
)

// check reports every problem of a report at once, each naming the field and what is allowed.
func (r *Report) check(decided rules.Config, now time.Time) error {
	var problems []error
	if r.cause() == "" {
		problems = append(problems, fmt.Errorf("idempotency_key must be 1 to %d characters", maxReportKey))
	}
	if len(r.Attributes) > maxAttributes {
		problems = append(problems, fmt.Errorf("attributes must be at most %d", maxAttributes))
	}
	for key, value := range r.Attributes {
		if key == "" || !storable(key, maxAttributeKey) || !storable(value, maxAttribute) {
			problems = append(problems, fmt.Errorf("attributes must have keys of 1 to %d characters and values of at most %d", maxAttributeKey,
				maxAttribute))
			break
		}
	}
	if income, given := r.Attributes[attributeIncome]; given {
		var err error
		if r.Action.Income, err = strconv.ParseBool(income); err != nil {
			problems = append(problems, errors.New("attributes.income must be true or false"))
		}
	}
	if err := errors.Join(append(problems, decided.Check(r.Action, now))...); err != nil {
		said := strings.ReplaceAll(err.Error(), rules.ErrAction.Error()+": ", "")
		return fmt.Errorf("%w: %s", rules.ErrAction, strings.ReplaceAll(said, "\n", "; "))
	}
	return nil
}

// cause names what a report causes; empty when its key is none, which check refuses.
func (r *Report) cause() string {
	if r.Key == "" || !storable(r.Key, maxReportKey) {
		return ""
	}
	return "action:" + r.Key
}

// composed are attributes with their letters composed, so that one category is not counted as two.
func composed(attributes map[string]string) map[string]string {
	all := make(map[string]string, len(attributes))
	for key, value := range attributes {
		all[letters.Compose(key)] = letters.Compose(value)
	}
	return all
}

// storable reports whether a text has at most so many characters, all of which Postgres takes.
func storable(text string, most int) bool {
	return utf8.ValidString(text) && !strings.ContainsRune(text, 0) && utf8.RuneCountInString(text) <= most
}

// Report counts an action of a person, once per key, and says what it did; duplicate says that it was counted before. It sends nothing,
// and changes nothing unless it changes all. Errors: rules.ErrAction, ErrNoPerson, ErrKeyReused, people.ErrConflict,
// people.ErrLaterRules, and what the store returns.
func (s *Service) Report(ctx context.Context, r Report) (a Answer, duplicate bool, err error) {
	r.Attributes = composed(r.Attributes)
	for range people.MaxContention {
		if a, duplicate, err = s.report(ctx, r); !errors.Is(err, people.ErrConflict) {
			break
		}
	}
	return a, duplicate, err
}

func (s *Service) report(ctx context.Context, r Report) (Answer, bool, error) {
	cause := r.cause()
	v, err := s.Store.PersonByID(ctx, r.OrgID, r.ProfileID, cause)
	if err == nil {
		err = v.LaterRules
	}
	if err == nil {
		err = r.check(s.rulesOf(v), s.Now())
	}
	switch {
	case err != nil:
		return Answer{}, false, err
	case v.Acted != nil && !v.Acted.of(r):
		return Answer{}, false, ErrKeyReused
	case v.Acted != nil:
		return v.Acted.Answer, true, nil
	}
	c := Change{View: v, Cause: cause, At: s.Now()}
	if c.Moves, err = s.showsUp(v, r.Action); err != nil {
		return Answer{}, false, err
	}
	for _, m := range c.Moves {
		c.Events = append(c.Events, eventsOf(v, m)...)
	}
	s.count(&c, r.Action, r.Attributes[attributeCategory])
	if c.Act.Answer.Hint, err = s.hint(ctx, &c); err != nil {
		return Answer{}, false, err
	}
	c.Act.Answer.Asked = r.asked()
	return c.Act.Answer, false, s.apply(ctx, c)
}

// of reports whether a report is the one that was counted. A row of an older release has no digest of it, and is compared by what it has.
func (a *Acted) of(r Report) bool {
	if a.Answer.Asked != "" {
		return a.Answer.Asked == r.asked()
	}
	again := Act{Action: r.Action, Category: strings.TrimSpace(r.Attributes[attributeCategory])}
	sameTime := r.Undated || a.OccurredAt.Sub(r.Action.OccurredAt).Abs() < time.Microsecond // as precise as it is stored
	return a.Action == r.Action.Name && a.Source == r.Action.Source && a.Category == again.keptCategory() && sameTime
}

// asked is a digest of what a checked report asks, by which a repeat is told from another report: its words are not kept. A field that is
// added later must not change the digest of a report without it.
func (r *Report) asked() string {
	at := ""
	if !r.Undated {
		at = r.Action.OccurredAt.UTC().Format(time.RFC3339Nano)
	}
	digest := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %v %t %q", // a map is written in the order of its keys
		r.Action.Name, r.Action.Source, at, r.Action.Confidence, r.Action.Silent, r.Attributes))
	return hex.EncodeToString(digest[:])
}

// keptCategory is the category by which an expense is counted; empty of any other action.
func (a *Act) keptCategory() string {
	if !a.Expense() {
		return ""
	}
	return strings.ToLower(a.Category)
}

// showsUp returns what an action says of its person's state: as much as a message, while it is news.
func (s *Service) showsUp(v View, a rules.Action) ([]rules.Move, error) {
	now := s.Now()
	switch {
	case !s.rulesOf(v).News(v.Person, a, now):
		return nil, nil
	case !v.Known:
		m, err := rules.Begin(rules.Event{Trigger: rules.UserMessage, At: a.OccurredAt, Now: now})
		return []rules.Move{m}, err
	}
	moves, _, err := s.rulesOf(v).Answer(v.Person, v.Situation, rules.NoChoice, a.OccurredAt, now)
	return moves, err
}

// celebrations are the texts of the tiers.
var celebrations = map[int]string{1: catalog.Tier1, 2: catalog.Tier2, 3: catalog.Tier3}

// count adds an action to a change: what it completes, with the celebrations, and the magic moment.
func (s *Service) count(c *Change, a rules.Action, category string) {
	v := c.View
	r := s.rulesOf(v).Record(v.Progress, a, v.SignedUpAt, v.TipsOff, c.At)
	c.Act = &Act{Action: a, Category: strings.TrimSpace(category), Recorded: r, Answer: Answer{
		Tier: r.Tier, MagicMoment: s.rulesOf(v).MagicMoment(a, v.MagicAt),
	}}
	tell := func(kind string, data map[string]any) {
		c.Events = append(c.Events, Event{Type: kind, Time: a.OccurredAt, Data: data})
	}
	for _, done := range r.Completed {
		c.Act.Answer.Completed = append(c.Act.Answer.Completed, done.Tier)
		tell(EventTierCompleted, map[string]any{
			"tier": done.Tier, "action": a.Name, "time_to_complete_days": done.Days, "days_since_signup": done.DaysSinceSignup,
		})
	}
	for _, tier := range r.Celebrate {
		s.queue(c, rules.Outreach{Type: rules.TierUnlock, Tier: tier, At: a.OccurredAt}, celebrations[tier], catalog.Params{})
	}
	if c.Act.Answer.MagicMoment {
		const day = 24 * time.Hour
		tell(EventMagicMoment, map[string]any{"action": a.Name, "days_since_signup": max(0, int(a.OccurredAt.Sub(v.SignedUpAt)/day))})
	}
}

// hints are the texts of the hints.
var hints = map[rules.Hint]string{rules.HintCategory: catalog.HintCategories, rules.HintBudget: catalog.HintBudget}

// hint is the text that the host application may append to its reply to an action; empty for none.
func (s *Service) hint(ctx context.Context, c *Change) (string, error) {
	v, act := c.View, c.Act
	if !act.Expense() || act.Silenced(c.At) || v.TipsOff {
		return "", nil
	}
	shown := rules.Shown{Expenses: v.Expenses + 1, Tier: act.Recorded.Tier, TipsOff: v.TipsOff}
	params := catalog.Params{}
	if act.Category != "" {
		from, until := monthOf(act.OccurredAt, v.Zone)
		before, err := s.Store.ExpensesIn(ctx, v, act.Category, from, until)
		if err != nil {
			return "", err
		}
		shown.InCategory = before + 1
	}
	key := hints[rules.HintFor(act.Action, shown)]
	if key == catalog.HintBudget {
		params.Category = act.Category
	}
	unshowable := catalog.Check(key, params) // also a category of which nothing can be shown
	if unshowable != nil {
		return "", nil //nolint:nilerr // then there is no hint
	}
	return s.render(v, key, params)
}

// monthOf is the month of an instant, by the clock of a person.
func monthOf(at time.Time, zone *time.Location) (from, until time.Time) {
	year, month, _ := at.In(zone).Date()
	return time.Date(year, month, 1, 0, 0, 0, 0, zone), time.Date(year, month+1, 1, 0, 0, 0, 0, zone)
}
