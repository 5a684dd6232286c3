package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"paceline.internal/platform/letters"
	"paceline.internal/platform/reading/languages"
	"paceline.internal/services/onboarding/words"
)

// The texts of engagement. The goodbye asks for 1, 2 or 3 and GoodbyeConfused to GoodbyeAllGood answer the choice; a goodbye that
// gets no answer and a person who returns get no text.
const (
	Welcome               = "ENGAGEMENT_WELCOME"                // to a first text that is no expense: a greeting and one example
	WelcomeExpense        = "ENGAGEMENT_WELCOME_EXPENSE"        // to a first text that is one
	Tier1                 = "ENGAGEMENT_TIER_1"                 // celebrates, and speaks of budgets
	Tier2                 = "ENGAGEMENT_TIER_2"                 // celebrates, and speaks of reports
	Tier3                 = "ENGAGEMENT_TIER_3"                 // celebrates
	HintCategories        = "ENGAGEMENT_HINT_CATEGORIES"        // appended to the reply to the first expense
	HintBudget            = "ENGAGEMENT_HINT_BUDGET"            // appended when a category has three expenses in a month
	Goodbye               = "ENGAGEMENT_GOODBYE"                // after 14 days
	GoodbyeConfused       = "ENGAGEMENT_GOODBYE_CONFUSED"       // to 1; HelpRestart follows
	GoodbyeBusy           = "ENGAGEMENT_GOODBYE_BUSY"           // to 2; Reminder follows after a wait
	GoodbyeAllGood        = "ENGAGEMENT_GOODBYE_ALL_GOOD"       // to 3
	HelpRestart           = "ENGAGEMENT_HELP_RESTART"           // begins again: one example; tips are on
	Reminder              = "ENGAGEMENT_REMINDER"               // what GoodbyeBusy announced
	WeeklyReview          = "ENGAGEMENT_WEEKLY_REVIEW"          // when something was noted
	WeeklyReviewEmpty     = "ENGAGEMENT_WEEKLY_REVIEW_EMPTY"    // when nothing was: it neither congratulates nor counts
	RemindersOff          = "ENGAGEMENT_REMINDERS_OFF"          // says how to undo it, as the next three do
	RemindersOn           = "ENGAGEMENT_REMINDERS_ON"           //
	TipsOff               = "ENGAGEMENT_TIPS_OFF"               //
	TipsOn                = "ENGAGEMENT_TIPS_ON"                //
	DestinationHousehold  = "ENGAGEMENT_DESTINATION_HOUSEHOLD"  // to the switch to the household
	DestinationIndividual = "ENGAGEMENT_DESTINATION_INDIVIDUAL" // to the switch to the person's own phone
	DestinationNone       = "ENGAGEMENT_DESTINATION_NONE"       // to the switch of a person without a household
	Apology               = "ENGAGEMENT_APOLOGY"                // to a choice, preference or switch that failed for good
)

// The texts about goals that people say by text. None remembers what was said before: who is asked back sends the whole sentence again.
const (
	GoalScheduled = "GOAL_SCHEDULED"      // what was scheduled, and how to undo it
	GoalNoted     = "GOAL_SCHEDULED_NOTE" // the same, with what was chosen where the words leave a choice
	GoalAskWhat   = "GOAL_ASK_WHAT"       // to words that say nothing to be reminded of
	GoalAskWhen   = "GOAL_ASK_WHEN"       // to words without a time
	GoalUnclear   = "GOAL_UNCLEAR"        // to a time that was not understood for certain
	GoalPast      = "GOAL_PAST"           // to one that has passed
	GoalTooFar    = "GOAL_TOO_FAR"        // to one beyond what the scheduler takes
	GoalTooMany   = "GOAL_TOO_MANY"       // to more than a person may have
	GoalReminder  = "GOAL_REMINDER"       // the goal itself, at its time
	GoalCancelled = "GOAL_CANCELLED"      // to undo
	GoalBegun     = "GOAL_BEGUN"          // to undo of what was sent
	GoalNone      = "GOAL_NONE"           // to a reminder that is to be cancelled, where there is none
	GoalNothing   = "GOAL_NOTHING"        // to undo of nothing
	GoalUnmoved   = "GOAL_UNMOVED"        // to a new time that was not understood for certain, or cannot be
)

// shapes are the texts of engagement, and what each has to be.
func shapes() map[string]shape {
	return map[string]shape{
		Welcome:               {params: []string{"first_name"}, example: true},
		WelcomeExpense:        {params: []string{"first_name", "expense"}},
		Tier1:                 {},
		Tier2:                 {},
		Tier3:                 {},
		HintCategories:        {},
		HintBudget:            {params: []string{"category"}},
		Goodbye:               {choices: 3},
		GoodbyeConfused:       {},
		GoodbyeBusy:           {may: []string{"wait"}},
		GoodbyeAllGood:        {},
		HelpRestart:           {example: true},
		Reminder:              {may: []string{"wait"}},
		WeeklyReview:          {params: []string{"count"}},
		WeeklyReviewEmpty:     {},
		RemindersOff:          {undo: "reminders on"},
		RemindersOn:           {undo: "reminders off"},
		TipsOff:               {undo: "tips on"},
		TipsOn:                {undo: "tips off"},
		DestinationHousehold:  {undo: "individual"},
		DestinationIndividual: {undo: "household"},
		DestinationNone:       {},
		Apology:               {},
		GoalScheduled:         {params: []string{"when", "goal"}, undo: "undo", segments: 3},
		GoalNoted:             {params: []string{"when", "goal", "note"}, undo: "undo", segments: 4},
		GoalAskWhat:           {example: true},
		GoalAskWhen:           {example: true},
		GoalUnclear:           {example: true},
		GoalPast:              {},
		GoalTooFar:            {params: []string{"count"}},
		GoalTooMany:           {},
		GoalReminder:          {params: []string{"whole_goal"}, segments: 5},
		GoalCancelled:         {params: []string{"goal"}},
		GoalBegun:             {params: []string{"goal"}},
		GoalNone:              {},
		GoalNothing:           {undo: "cancel"},
		GoalUnmoved:           {example: true},
	}
}

// Offered are the words that the texts of engagement ask people to send, between double quotes, by language and by what they do.
// They have to be understood, and none of them may mean STOP.
func Offered() map[string]map[string]string {
	const offer = "offer-"
	all := map[string]map[string]string{}
	for _, l := range words.All() {
		offers := map[string]string{}
		for _, key := range l.Keys(offer) {
			offers[strings.ReplaceAll(strings.TrimPrefix(key, offer), "-", " ")] = l.Text(key)
		}
		all[languages.Base(l.Locale)] = offers
	}
	return all
}

// Engagement is the texts of engagement. It has no versions: a row of outreach keeps its text from the first try on. The zero value
// holds none; LoadEngagement and DefaultEngagement make one, and it never changes.
type Engagement struct{ texts edition }

// DefaultEngagement returns the texts that are built in.
func DefaultEngagement() Engagement { return defaultEngagement() }

var defaultEngagement = sync.OnceValue(func() Engagement {
	texts, err := Engagement{}.with(builtIn("engagement"))
	if err != nil {
		panic(err) // the embedded files are part of the program, and a test reads them
	}
	return texts
})

// LoadEngagement reads copy files as Load does. The newest version that has a text wins, and what the files lack is as built in. A
// language that is not built in must have every text. Every problem is reported at once, each wrapping ErrCopy.
func LoadEngagement(files fs.FS) (Engagement, error) { return DefaultEngagement().with(files) }

// with is the texts with those of the files laid over them.
func (e Engagement) with(files fs.FS) (Engagement, error) {
	catalog, problems := readFiles(files)
	merged := edition{}
	for locale, texts := range e.texts {
		merged[locale] = maps.Clone(texts)
	}
	for _, version := range catalog.Versions() {
		for locale, texts := range catalog.editions[version] {
			if merged[locale] == nil {
				merged[locale] = map[string]string{}
			}
			maps.Copy(merged[locale], texts)
		}
	}
	for _, problem := range merged.problems(engagementSet()) {
		problems = append(problems, fmt.Errorf("%w: %s", ErrCopy, problem))
	}
	if err := errors.Join(problems...); err != nil {
		return Engagement{}, err
	}
	return Engagement{merged}, nil
}

// Locales lists the languages.
func (e Engagement) Locales() []string { return slices.Sorted(maps.Keys(e.texts)) }

// EngagementKeys lists the texts.
func EngagementKeys() []string { return slices.Sorted(maps.Keys(shapes())) }

// ReviewOf is the weekly review of a person who noted count things.
func ReviewOf(count int) (key string, params Params) {
	if count <= 0 {
		return WeeklyReviewEmpty, Params{}
	}
	return WeeklyReview, Params{Count: min(count, maxCount)}
}

// Params are the parameters of a text, as a row of outreach stores them. Zero is absent. The name of the person is none of them: it
// is the profile's, when the text is rendered.
type Params struct {
	Count    int    `json:"count,omitempty"`     // of the things noted, from 1
	Category string `json:"category,omitempty"`  // of the expenses
	Expense  string `json:"expense,omitempty"`   // what was noted, in the person's words: coffee 5
	Wait     int    `json:"wait_days,omitempty"` // for Reminder, in days; 0 is two weeks

	Goal      string `json:"goal,omitempty"`       // what is to happen, in the person's words: call John
	WholeGoal string `json:"whole_goal,omitempty"` // the same where it is said
	When      string `json:"when,omitempty"`       // as it was understood
	Note      string `json:"note,omitempty"`       // what was chosen where the words leave a choice
}

// maxCount is the largest count, and the others bound the units that are used: maxWords of a category or an expense, maxGoal of a goal that
// is spoken of and maxWholeGoal of one that is said, maxWhen and maxNote of how its time was read.
const (
	maxCount     = 99_999
	maxWords     = 20
	maxGoal      = 40
	maxWholeGoal = 300
	maxWhen      = 48
	maxNote      = 100
)

// ParseParams reads stored parameters. One that no text has, or of the wrong type, is ErrParams.
func ParseParams(stored []byte) (Params, error) {
	var p Params
	decoder := json.NewDecoder(bytes.NewReader(stored))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p); err != nil {
		return Params{}, fmt.Errorf("%w: %w", ErrParams, err)
	}
	if decoder.More() {
		return Params{}, fmt.Errorf("%w: something follows them", ErrParams)
	}
	return p, nil
}

// Check refuses a key that engagement does not have (ErrUnknownText) and parameters that are not exactly those of the key
// (ErrParams). It is asked before a row is queued, so that whatever was queued can be rendered.
func Check(key string, params Params) error {
	known, found := shapes()[key]
	if !found {
		return fmt.Errorf("%w %.60q: engagement has %s", ErrUnknownText, key, strings.Join(EngagementKeys(), ", "))
	}
	var problems []error
	given := params.values(fallback)
	for _, name := range slices.Sorted(maps.Keys(given)) {
		wanted, value := slices.Contains(known.params, name), given[name]
		may := wanted || slices.Contains(known.may, name)
		switch {
		case params.absent(name) && wanted:
			problems = append(problems, fmt.Errorf("%w: %s needs %s", ErrParams, key, name))
		case !params.absent(name) && !may:
			problems = append(problems, fmt.Errorf("%w: %s has no %s", ErrParams, key, name))
		case may && value == "":
			problems = append(problems, fmt.Errorf("%w: nothing of the %s of %s can be shown", ErrParams, name, key))
		}
	}
	return errors.Join(problems...)
}

// Render is the text of a key for one person. An unknown locale falls back to its language and then to English, and a name of which
// nothing readable is left is left out. Errors are those of Check.
func (e Engagement) Render(locale, key, firstName string, params Params) (string, error) {
	if err := Check(key, params); err != nil {
		return "", err
	}
	locale = e.texts.closest(locale)
	text, found := e.texts[locale][key]
	if !found {
		return "", fmt.Errorf("%w %.60q in these texts", ErrUnknownText, key)
	}
	return fill(locale, text, ReadableName(firstName), params), nil
}

// fill puts the values in. A name that is missing takes the space and the comma before it along.
func fill(locale, text, name string, params Params) string {
	swaps := []string{placeholder, name}
	if name == "" {
		swaps = []string{", " + placeholder, "", " " + placeholder, ""}
	}
	for param, value := range params.values(locale) {
		swaps = append(swaps, "{"+param+"}", value)
	}
	return letters.Compose(strings.NewReplacer(swaps...).Replace(text))
}

// values are the parameters as texts in a language show them, empty for those of which nothing can be shown.
func (p Params) values(locale string) map[string]string {
	count := ""
	if p.Count >= 1 && p.Count <= maxCount {
		count = strconv.Itoa(p.Count)
	}
	return map[string]string{
		"count": count, "wait": waiting(locale, p.Wait), "category": ReadableName(p.Category), "expense": readableExpense(p.Expense),
		"goal": readableWords(p.Goal, maxGoal), "whole_goal": readableWords(p.WholeGoal, maxWholeGoal),
		"when": readableWords(p.When, maxWhen), "note": readableWords(p.Note, maxNote),
	}
}

func (p Params) absent(name string) bool {
	switch name {
	case "count":
		return p.Count == 0
	case "wait":
		return p.Wait == 0
	case "category":
		return p.Category == ""
	case "goal":
		return p.Goal == ""
	case "whole_goal":
		return p.WholeGoal == ""
	case "when":
		return p.When == ""
	case "note":
		return p.Note == ""
	}
	return p.Expense == ""
}

// readableExpense keeps what a name is made of, currency signs, and the points and commas within numbers.
func readableExpense(raw string) string {
	runes := []rune(raw)
	digit := func(i int) bool { return i >= 0 && i < len(runes) && unicode.IsDigit(runes[i]) }
	var kept []rune
	for i, r := range runes {
		if (r == '.' || r == ',') && digit(i-1) && digit(i+1) || unicode.Is(unicode.Sc, r) {
			kept = append(kept, r)
		} else if r = readableRune(r); r >= 0 {
			kept = append(kept, r)
		}
	}
	return wholeWords(string(kept), maxWords)
}

// cut marks words that go on, in three units.
const cut = "..."

// readableWords are words that a person has written, on one line and without what cannot be seen. Their end is cut, and marked, when they
// take more than limit units.
func readableWords(raw string, limit int) string {
	text := letters.Plain(letters.Compose(strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r), unicode.IsControl(r):
			return ' '
		case !unicode.IsGraphic(r), unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, raw)), " ")))
	if units(text) <= limit {
		return text
	}
	return wholeWords(text, limit-len(cut)) + cut
}

// Segments returns the most segments that a text of engagement takes, whatever fills it.
func Segments(key string) int { return shapes()[key].most() }

// Widest are the parameters of a key that make its text longest, and a name that does: lint and docs/flows.md count segments with
// them. No wait is longer than the usual one.
func Widest(key string) (firstName string, params Params) {
	words := strings.Repeat("ã", maxWords) // one letter outside GSM-7 is enough to make the whole text UCS-2
	for _, name := range shapes()[key].params {
		switch name {
		case "count":
			params.Count = maxCount
		case "category":
			params.Category = words
		case "expense":
			params.Expense = words
		case "goal":
			params.Goal = strings.Repeat("ã", maxGoal)
		case "whole_goal":
			params.WholeGoal = strings.Repeat("ã", maxWholeGoal)
		case "when":
			params.When = strings.Repeat("ã", maxWhen)
		case "note":
			params.Note = strings.Repeat("ã", maxNote)
		}
	}
	return strings.Repeat("ã", maxName), params
}
