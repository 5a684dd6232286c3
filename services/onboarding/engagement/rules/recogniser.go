package rules

import (
	"regexp"
	"strconv"
	"strings"

	"paceline.internal/platform/letters"
)

// Expense is an expense that a message tells of.
type Expense struct {
	Cents      int64
	Category   string  // as the categories below name it; empty when none is known
	Confidence float64 // 0 to 1; from Confident on it is one
}

// RecogniseExpense reads an expense out of a message in English or Brazilian Portuguese, by a few rules and no model: one amount, with
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
	switch word {
	case "not", "don", "dont", "didn", "didnt", "never", "received", "earned", "got", "salary", "will", "ll", "going", "gonna", "want",
		"wanna", "should", "could", "would", "can", "if", "owe", "owes", "need", "budget", "how", "what", "when", "me", "sold", "lent",
		"borrowed", "saved", "nao", "nunca", "recebi", "ganhei", "salario", "vou", "vamos", "vai", "quero", "queria", "preciso", "posso", "devo",
		"deve", "se", "quanto", "quando", "qual", "pretendo", "vendi", "emprestei", "guardei", "economizei", "orcamento", "meta", "limite",
		"pagou", "pagaram", "pagar", "gastar":
		return false
	case "spent", "paid", "bought", "cost", "gastei", "gastamos", "paguei", "pagamos", "comprei", "compramos", "custou":
		r.verb = true
	case "real", "reais", "conto", "contos", "dollar", "dollars", "bucks", "dolares", "euros", "usd", "brl":
		r.currency = r.currency || first
	}
	if category := categoryOf(word); category != "" && r.category == "" {
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
	case !r.currency && !joins(r.wordAfter) && categoryOf(r.wordAfter) == "":
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
func joins(word string) bool {
	switch word {
	case "", "on", "for", "in", "at", "today", "yesterday", "this", "no", "na", "nos", "nas", "em", "com", "de", "do", "da",
		"pra", "pro", "para", "hoje", "ontem":
		return true
	}
	return false
}

func categoryOf(word string) string {
	switch word {
	case "groceries", "grocery", "supermarket", "mercado", "supermercado", "feira", "hortifruti", "acougue":
		return "groceries"
	case "lunch", "dinner", "breakfast", "coffee", "snack", "restaurant", "pizza", "burger", "almoco", "jantar", "lanche", "cafe", "padaria",
		"restaurante", "ifood":
		return "food"
	case "uber", "taxi", "bus", "train", "gas", "fuel", "parking", "onibus", "metro", "gasolina", "combustivel", "estacionamento", "pedagio":
		return "transport"
	case "rent", "electricity", "internet", "aluguel", "luz", "condominio":
		return "home"
	case "pharmacy", "medicine", "doctor", "dentist", "farmacia", "remedio", "remedios", "medico", "dentista":
		return "health"
	case "movies", "movie", "cinema", "concert", "netflix", "spotify", "show":
		return "leisure"
	case "clothes", "shoes", "shirt", "roupa", "roupas", "sapato", "tenis", "camisa":
		return "shopping"
	}
	return ""
}

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
