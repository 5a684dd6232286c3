package flow

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"paceline.internal/platform/letters"
	"paceline.internal/platform/reading"
	"paceline.internal/services/onboarding/goals/timeparse"
)

// Said is a text of the person, and whether the readers of refusals take it for one.
type Said struct {
	Text    string
	Refused bool // it is a no, or a not now
	Locale  string
	Zone    *time.Location
	At      time.Time
}

// answer reads a text in the form that a step expects. It reports false for one of another form.
func (f *Flow) answer(s Step, said Said) (Value, bool) {
	text := strings.TrimSpace(letters.Compose(said.Text))
	switch s.Expect.Type {
	case Reply:
		return Value{Type: Text, Text: cut(text, maxText)}, true
	case Text:
		return Value{Type: Text, Text: text}, text != "" && len([]rune(text)) <= s.Expect.Limit
	case YesNo:
		switch {
		case said.Refused, f.says(said.Locale, no, text):
			return Value{Type: YesNo, Text: no}, true
		case reading.Agreed(text), f.says(said.Locale, yes, text):
			return Value{Type: YesNo, Text: yes}, true
		}
	case Choice:
		if choice, ok := f.choice(s, said.Locale, text); ok {
			return Value{Type: Choice, Text: choice}, true
		}
	case Number:
		if n, ok := number(text, said.Locale); ok && n >= s.Expect.Min && n <= s.Expect.Max && (!s.Expect.Whole || n == float64(int64(n))) {
			return Value{Type: Number, Number: n}, true
		}
	case Any: // no answer has it
	case Date:
		if day, ok := date(text, said); ok {
			return Value{Type: Date, Text: day}, true
		}
	}
	return Value{}, false
}

// says reports whether the whole text is a word for a choice.
func (f *Flow) says(locale, choice, text string) bool {
	return slices.ContainsFunc(f.texts[f.Language(locale)].Choices[choice], func(word string) bool { return fold(word) == fold(text) })
}

// ordinal is a number of a list as people write it: 2, 2., 2), #2 or (2).
var ordinal = regexp.MustCompile(`^[#(]?(\d{1,2})[.):]?$`)

// choice finds the one choice that a text names: by its number, or by a word of it. A text that names two is unclear.
func (f *Flow) choice(s Step, locale, text string) (string, bool) {
	if match := ordinal.FindStringSubmatch(text); match != nil {
		n, err := strconv.Atoi(match[1])
		if err == nil && n >= 1 && n <= len(s.Expect.Choices) {
			return s.Expect.Choices[n-1], true
		}
		return "", false
	}
	padded := " " + fold(text) + " "
	var named []string
	longest := 0 // "not often" names not_often, although it has the word of often in it
	for _, choice := range s.Expect.Choices {
		for _, word := range f.texts[f.Language(locale)].words(choice) {
			word = fold(word)
			if word == "" || !strings.Contains(padded, " "+word+" ") {
				continue
			}
			switch {
			case len(word) > longest:
				named, longest = []string{choice}, len(word)
			case !slices.Contains(named, choice):
				named = append(named, choice)
			}
		}
	}
	if len(named) != 1 || f.namesAnother(s, locale, padded, named[0]) {
		return "", false
	}
	return named[0], true
}

// namesAnother reports whether a text, without the words of one choice, names another.
func (f *Flow) namesAnother(s Step, locale, padded, choice string) bool {
	e := f.texts[f.Language(locale)]
	words := e.words(choice)
	slices.SortFunc(words, func(a, b string) int { return len(b) - len(a) })
	for _, word := range words {
		padded = strings.ReplaceAll(padded, " "+fold(word)+" ", "  ")
	}
	return slices.ContainsFunc(s.Expect.Choices, func(other string) bool {
		return other != choice && slices.ContainsFunc(e.words(other), func(word string) bool {
			return fold(word) != "" && strings.Contains(padded, " "+fold(word)+" ")
		})
	})
}

// fold brings a text to small letters without accents and signs, with single spaces.
func fold(text string) string { return strings.Join(letters.Words(text), " ") }

// numeral is a number with its separators.
var numeral = regexp.MustCompile(`[-−]?\d[\d.,' ]*\d|[-−]?\d`)

// number finds the one number of a text. A separator before exactly three digits, or one that stands twice, separates thousands, unless the
// language writes its decimals so.
func number(text, locale string) (float64, bool) {
	found := numeral.FindAllString(text, 2)
	if len(found) != 1 {
		return 0, false
	}
	digits := strings.ReplaceAll(strings.NewReplacer("'", "", " ", "").Replace(found[0]), "−", "-")
	decimal := ","
	if language, _, _ := strings.Cut(locale, "-"); language == "en" {
		decimal = "."
	}
	if last := strings.LastIndexAny(digits, ".,"); last >= 0 {
		sign := digits[last : last+1]
		thousands := strings.Count(digits, sign) > 1 || len(digits)-last-1 == 3 && sign != decimal
		if strings.Count(digits, ".") > 0 && strings.Count(digits, ",") > 0 {
			thousands = false
		}
		whole := strings.NewReplacer(".", "", ",", "").Replace(digits[:last])
		if thousands {
			digits = whole + digits[last+1:]
		} else {
			digits = whole + "." + digits[last+1:]
		}
	}
	n, err := strconv.ParseFloat(digits, 64)
	return n, err == nil
}

// date finds the day of a text, as 2006-01-02.
func date(text string, said Said) (string, bool) {
	if isDate(text) {
		return text, true
	}
	zone := said.Zone
	if zone == nil {
		zone = time.UTC
	}
	read := timeparse.Read(text, said.Locale, zone, said.At)
	if read.Kind != timeparse.At {
		return "", false
	}
	return read.At.In(zone).Format(time.DateOnly), true
}

func isDate(text string) bool {
	_, err := time.Parse(time.DateOnly, text)
	return err == nil
}

func cut(text string, limit int) string {
	runes := []rune(text)
	return string(runes[:min(len(runes), limit)])
}
