package rules

import (
	"regexp"
	"strconv"
	"strings"

	"paceline.internal/platform/letters"
	"paceline.internal/services/onboarding/words"
)

// Expense is an expense that a message tells of.
type Expense struct {
	Cents      int64
	Category   string  // as the categories below name it; empty when none is known
	Confidence float64 // 0 to 1; from Confident on it is one
}

// RecogniseExpense reads an expense out of a message by a few rules and no model: one amount, with
// a verb of spending ("gastei 50 no mercado") or a thing that is bought ("lunch 12.50"). It is nil when there is none, when money came
// in, and when the message asks, denies or plans. Off unless configured.
func RecogniseExpense(message string) *Expense {
	if strings.ContainsRune(message, '?') || len(message) > 400 {
		return nil
	}
	var found *Expense
	for _, clause := range clauses.Split(strings.ToLower(strings.Map(narrow, message)), -1) {
		var r reading
		read := true
		for token := range strings.FieldsSeq(clause) {
			read = r.take(token) && read
		}
		if r.numbers == 0 {
			continue // "I am going out, spent 50"
		}
		if !read || found != nil {
			return nil
		}
		if found = r.expense(); found == nil {
			return nil
		}
	}
	return found
}

// clauses are separated by a mark and a space, so that amounts stay whole.
var clauses = regexp.MustCompile(`[,;.!]\s+`)

// reading is the state of reading a clause.
type reading struct {
	numbers   int
	cents     int64
	currency  bool
	verb      bool
	category  string
	words     int
	wordAfter string // the first word after the amount
}

var (
	aSymbol = regexp.MustCompile(`^(?:r\$|us\$|\$|€|£)$`)
	amount  = regexp.MustCompile(`^(r\$|us\$|\$|€|£)?(\d[\d.,]*)(reais|usd|brl)?$`)
)

// take reads one token, and says whether the clause may still tell of an expense.
func (r *reading) take(token string) bool {
	token = strings.Trim(token, `.,;:!()"'“”…`)
	switch {
	case token == "":
		return true
	case aSymbol.MatchString(token):
		r.currency = true
		return r.cents == 0
	case strings.ContainsAny(token, "0123456789"):
		r.numbers++
		parts := amount.FindStringSubmatch(token)
		if parts == nil || r.numbers > 1 {
			return false // a time, a date, a share, or a second number
		}
		r.currency = r.currency || parts[1] != "" || parts[3] != ""
		r.cents = centsOf(parts[2])
		return r.cents > 0
	}
	for _, word := range letters.Words(token) {
		if !r.word(word) {
			return false
		}
	}
	return true
}

// word reads one word. A question, a denial, a plan and money received are no expenses.
func (r *reading) word(word string) bool {
	r.words++
	first := r.cents != 0 && r.wordAfter == ""
	if first {
		r.wordAfter = word
	}
	known := words.Together()
	switch {
	case known.Has("expense-none", word):
		return false
	case known.Has("expense-verb", word):
		r.verb = true
	case known.Has("expense-currency", word):
		r.currency = r.currency || first
	}
	if category := categories[word]; category != "" && r.category == "" {
		r.category = category
	}
	return true
}

// expense weighs what was read.
func (r *reading) expense() *Expense {
	confidence := 0.0
	switch {
	case r.cents == 0:
		return nil
	case !r.currency && !joins(r.wordAfter) && categories[r.wordAfter] == "":
		return nil // "bought 3 books", "spent 2 years": a number of something
	case r.verb:
		confidence = 0.9
	case r.category != "" && r.currency:
		confidence = 0.8
	case r.category != "" && r.words <= 4:
		confidence = 0.6
	case r.currency:
		confidence = 0.3
	}
	if confidence == 0 {
		return nil
	}
	return &Expense{Cents: r.cents, Category: r.category, Confidence: confidence}
}

// joins reports whether a word may stand between an amount and what was bought, or when; or whether there is none.
func joins(word string) bool { return word == "" || words.Together().Has("expense-joint", word) }

// categories has the category of each thing that is bought.
var categories = func() map[string]string {
	const in = "expense-in-"
	of := map[string]string{}
	for _, key := range words.Together().Keys(in) {
		for _, word := range words.Together().Lines(key) {
			of[word] = strings.TrimPrefix(key, in)
		}
	}
	return of
}()

// centsOf reads 50, 12.50, 12,5, 1.234,56 and 1,234.56. Three digits after a mark are thousands. 0 stands for what cannot be read, and more
// than a hundred million.
func centsOf(number string) int64 {
	whole, cents := number, "00"
	if i := strings.LastIndexAny(number, ".,"); i >= 0 {
		switch rest := number[i+1:]; len(rest) {
		case 1, 2:
			whole, cents = number[:i], (rest + "0")[:2]
			if strings.Contains(whole, number[i:i+1]) {
				return 0
			}
		case 3:
		default:
			return 0
		}
	}
	for i, group := range strings.FieldsFunc(whole, func(r rune) bool { return r == '.' || r == ',' }) {
		if i > 0 && len(group) != 3 {
			return 0
		}
	}
	digits := strings.NewReplacer(".", "", ",", "").Replace(whole)
	n, err := strconv.ParseInt(digits+cents, 10, 64)
	if err != nil || n > 100_000_000_00 {
		return 0
	}
	return n
}
