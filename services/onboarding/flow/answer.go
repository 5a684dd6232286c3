package flow

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/unicode/norm"

	"paceline.internal/platform/letters"
	"paceline.internal/services/onboarding/goals/timeparse"
)

// Said is a text of the person, and whether the readers of refusals take it for one.
type Said struct {
	Text    string
	Refused bool // it is a no, or a not now
	GoesOn  bool // it answers our question whether the texts are to go on
	Locale  string
	Zone    *time.Location
	At      time.Time
}

func (s Said) zone() *time.Location {
	if s.Zone == nil {
		return time.UTC
	}
	return s.Zone
}

// answer reads a text in the form that a step expects. It reports false for one of another form.
func (f *Flow) answer(s Step, said Said) (Value, bool) {
	text := strings.TrimSpace(letters.Compose(said.Text))
	switch s.Expect.Type {
	case Reply:
		return Value{Type: Text, Text: cut(text, maxText)}, true
	case Text:
		return Value{Type: Text, Text: text}, text != "" && len([]rune(text)) <= s.Expect.Limit
	case YesNo: // "later" and "tomorrow" are neither
		plain := plainly(text)
		switch {
		case f.says(said.Locale, no, text), plain == no:
			return Value{Type: YesNo, Text: no}, true
		case f.says(said.Locale, yes, text), plain == yes:
			return Value{Type: YesNo, Text: yes}, true
		}
		said.Text = text
		answer := restated(f.question(s, said.Locale), said)
		return Value{Type: YesNo, Text: answer}, answer != ""
	case Choice:
		if choice, ok := f.choice(s, said, text); ok {
			return Value{Type: Choice, Text: choice}, true
		}
	case Number:
		n, ok := f.number(s, text, said.Locale)
		v := Value{Type: Number, Number: n}
		return v, ok && s.Expect.takes(v) && f.Fields[s.Save].fits(v)
	case Any: // no answer has it
	case Date:
		if day, ok := date(text, f.question(s, said.Locale), said); ok {
			return Value{Type: Date, Text: day}, true
		}
	}
	return Value{}, false
}

// question returns the text of a step in the language of a locale.
func (f *Flow) question(s Step, locale string) string {
	return f.texts[f.Language(locale)].Texts[s.Text]
}

// IsChoice reports whether a text is one of the words for a choice of the flow, in any of its languages.
func (f *Flow) IsChoice(text string) bool {
	for _, language := range f.Languages {
		for choice := range f.texts[language].Choices {
			if f.says(language, choice, text) {
				return true
			}
		}
	}
	return false
}

// says reports whether the whole text is a word for a choice.
func (f *Flow) says(locale, choice, text string) bool {
	return slices.ContainsFunc(f.texts[f.Language(locale)].Choices[choice], func(word string) bool { return fold(word) == fold(text) })
}

// mostWords is the most words of an answer in which a number may contradict the choice that it names: "bill 2".
const mostWords = 3

// choice finds the one choice that a text names: by a word of it, else by its place, else by a phrase like "of course". A text that names
// two is unclear, and so is a denial, and a promise to answer later.
func (f *Flow) choice(s Step, said Said, text string) (string, bool) {
	text = norm.NFKC.String(letters.Straight(text)) // a digit of another form is a digit
	e, choices := f.texts[f.Language(said.Locale)], s.Expect.Choices
	named, counted, rest := e.named(choices, text)
	numbers, denied := digits.FindAllString(rest, 2), denies(rest, said.Locale) || puttingOff.MatchString(rest) && leadOf(text) == ""
	switch {
	case len(named) == 0:
		choice := e.affirms(choices, plainly(text))
		if at := placeOf(text); choice == "" && at > 0 && at <= len(choices) && !denied {
			choice = choices[at-1]
		}
		return choice, choice != ""
	case len(named) > 1, denied:
		return "", false
	}
	n, err := strconv.Atoi(strings.Join(numbers, " "))
	placed := err == nil && n > 0 && n <= len(choices) // by the one number that no word of a choice has
	if placed && n == 1+slices.Index(choices, named[0]) {
		return named[0], true
	}
	another := placed && len(letters.Words(text)) <= mostWords || counted && len(numbers) > 0 // "bill 2", "2 pm or 3"
	return named[0], !another
}

// named lists the choices that a text names, reports whether a word by which it does has a figure, and returns the text without those
// words. Long words come first: "not often" names not_often, although it has the word of often in it, and phrases like "no problem" and
// "good morning" name none. Of "yesterday morning" the day stays, and names what it is a word of.
func (e edition) named(choices []string, text string) (named []string, counted bool, rest string) {
	type word struct{ text, choice, stays string }
	var words []word
	for _, choice := range choices {
		for _, w := range e.words(choice) {
			words = append(words, word{text: apart(w), choice: choice})
		}
	}
	rest = " " + apart(text) + " "
	for _, phrase := range idioms.FindAllString(rest) {
		words = append(words, word{text: strings.TrimSpace(phrase)})
	}
	for _, phrase := range pastParts.FindAllString(rest) {
		day, _, _ := strings.Cut(strings.TrimSpace(phrase), " ")
		words = append(words, word{text: strings.TrimSpace(phrase), stays: day})
	}
	slices.SortStableFunc(words, func(a, b word) int { return len(b.text) - len(a.text) })
	for _, w := range words {
		for w.text != "" && strings.Contains(rest, " "+w.text+" ") {
			rest = strings.Replace(rest, " "+w.text+" ", " "+w.stays+" ", 1) // without w.stays two spaces: what stood around it is no row of words
			counted = counted || w.choice != "" && digits.MatchString(w.text)
			if w.choice != "" && !slices.Contains(named, w.choice) {
				named = append(named, w.choice)
			}
		}
	}
	return named, counted, rest
}

var (
	// digits finds a row of digits, and runs one of digits or of letters.
	digits = regexp.MustCompile(`\d+`)
	runs   = regexp.MustCompile(`\d+|[^\d ]+`)
)

// apart folds a text and separates its figures from its letters: people write "2pm" and "2 pm". A denial stays one word: don't has no Don.
func apart(text string) string { return strings.Join(runs.FindAllString(fold(denials(text)), -1), " ") }

// fold brings a text to small letters without accents and signs, with single spaces.
func fold(text string) string { return strings.Join(letters.Words(text), " ") }

// numeral is a number with its separators. A space separates thousands, and nothing else.
var numeral = regexp.MustCompile(`[-−]?\d{1,3}(?:[ '’]\d{3})+(?:[.,]\d+)?\b|[-−]?\d[\d.,]*\d|[-−]?\d`)

// number finds the one number of a text. A separator before exactly three digits, or one that stands twice, separates thousands; where the
// language writes its decimals so, "1,500" may be either and is unclear. So is a text with words of another size, such as "2 thousand" or
// "2k", and one of which the figure is a clock, a day, a time ago or a bound.
func number(text, locale string) (float64, bool) {
	text = norm.NFKC.String(text)
	found := numeral.FindAllStringIndex(text, 2)
	row := " " + apart(text) + " "
	if len(found) != 1 || denies(row, locale) || otherwise.MatchString(row) || puttingOff.MatchString(row) || open.MatchString(text) {
		return 0, false
	}
	before, digits, behind := text[:found[0][0]], text[found[0][0]:found[0][1]], text[found[0][1]:]
	if strings.HasSuffix(before, ".") || strings.HasSuffix(before, ",") || scaled.MatchString(behind) {
		return 0, false
	}
	digits = strings.ReplaceAll(strings.NewReplacer("'", "", "’", "", " ", "").Replace(digits), "−", "-")
	decimal := ","
	if language, _, _ := strings.Cut(locale, "-"); language == "en" {
		decimal = "."
	}
	if !grouped.MatchString(digits) {
		return 0, false
	}
	if last := strings.LastIndexAny(digits, ".,"); last >= 0 {
		sign := digits[last : last+1]
		thousands := strings.Count(digits, sign) > 1 || len(digits)-last-1 == 3 && sign != decimal
		if strings.Count(digits, ".") > 0 && strings.Count(digits, ",") > 0 {
			thousands = false
		}
		whole := strings.NewReplacer(".", "", ",", "").Replace(digits[:last])
		if n := strings.TrimPrefix(digits[:last], "-"); sign == decimal && len(digits)-last-1 == 3 && len(n) <= 3 && n != "0" && !thousands {
			return 0, false // "1,500"
		}
		if thousands {
			digits = whole + digits[last+1:]
		} else {
			digits = whole + "." + digits[last+1:]
		}
	}
	n, err := strconv.ParseFloat(digits, 64)
	return n + 0, err == nil // -0 is 0
}

var (
	// scaled begins with a word or a sign that changes the size of the number before it.
	scaled = regexp.MustCompile(`(?i)^\s?(?:k|m|mi|mil|mio|bn|thousand|million|hundred|milh[aãoõ]\w*|cem|dozens?|d[uú]zias?)\b`)
	// open has a sign of more, or of fewer, than its number: "50+", "me + 3".
	open = regexp.MustCompile(`[<>≤≥]|\S ?\+`)
	// grouped is a number with at most one decimal sign, and groups of three before it.
	grouped = regexp.MustCompile(`^-?(?:\d+(?:[.,]\d+)?|\d{1,3}(?:\.\d{3})+(?:,\d+)?|\d{1,3}(?:,\d{3})+(?:\.\d+)?)$`)
)

// longAgo bounds the age of a day with its year, as timeparse does for one without. Where the question asks about the past, any
// day may be.
const longAgo = 90 * 24 * time.Hour

// date finds the day of a text, as 2006-01-02. Words of what was, as in "it was on Friday", speak of a day that is over.
func date(text, question string, said Said) (string, bool) {
	day, ok := dayOf(text, said)
	row, past := " "+apart(letters.Joined(text))+" ", asksPast.MatchString(" "+fold(question)+" ")
	if pastDay.MatchString(dayWish.ReplaceAllString(row, " ")) && !(past && day.Before(said.At)) {
		return "", false
	}
	return day.Format(time.DateOnly), ok && (past || said.At.Sub(day) < longAgo)
}

// dayOf reads the words of a day. Where they are not all known, those that leave a day the same are left out: "back wednesday, early".
func dayOf(text string, said Said) (time.Time, bool) {
	if day, err := time.Parse("2006-1-2", text); err == nil {
		return day, true
	}
	row := " " + apart(letters.Joined(text)) + " "
	if denies(row, said.Locale) || noDay.MatchString(row) || puttingOff.MatchString(row) {
		return time.Time{}, false
	}
	if day, ok := timeparse.Day(text, said.Locale, said.zone(), said.At); ok || digits.MatchString(row) || strings.Contains(text, "?") {
		return day, ok
	}
	less := strings.TrimSpace(dayAside.ReplaceAllString(dayAside.ReplaceAllString(row, " "), " ")) // twice, since two may share a space
	return timeparse.Day(less, said.Locale, said.zone(), said.At)
}

func isDate(text string) bool {
	_, err := time.Parse(time.DateOnly, text)
	return err == nil
}

func cut(text string, limit int) string {
	runes := []rune(text)
	return string(runes[:min(len(runes), limit)])
}
