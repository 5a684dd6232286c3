package flow

import (
	"strconv"
	"strings"
	"time"

	"github.com/go-playground/locales"
	"github.com/go-playground/locales/en"
	"github.com/go-playground/locales/es"
	"github.com/go-playground/locales/fr"
	"github.com/go-playground/locales/pt"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
	decimal "golang.org/x/text/number"

	"paceline.internal/platform/letters"
	"paceline.internal/platform/reading/languages"
)

// calendars write days by the CLDR, as "Dec 4, 2026" or "4 de dez. de 2026". In other languages a day stays 2026-12-04.
var calendars = []locales.Translator{en.New(), es.New(), fr.New(), pt.New()}

// show returns a value as people read it.
func (f *Flow) show(in string, v Value) string {
	switch v.Type {
	case Choice, YesNo:
		if words := f.texts[in].Choices[v.Text]; len(words) > 0 {
			return words[0]
		}
		return strings.ReplaceAll(v.Text, "_", " ")
	case Number:
		return showNumber(in, v.Number)
	case Date:
		day, err := time.Parse(time.DateOnly, v.Text)
		for _, calendar := range calendars {
			if err == nil && strings.EqualFold(calendar.Locale(), languages.Base(in)) {
				return calendar.FmtDateMedium(day)
			}
		}
	case Text, Reply, Any:
	}
	return letters.Plain(strings.Join(strings.Fields(v.Text), " "))
}

// showNumber writes a number with the decimal separator of the language. Thousands stay together: a number may be that of an order. It is
// empty for one that Figures refuses.
func showNumber(in string, n float64) string {
	plain, _ := Figures(n)
	whole, fraction, _ := strings.Cut(plain, ".")
	if fraction == "" {
		return whole
	}
	n, _ = strconv.ParseFloat(plain, 64)
	digits := decimal.MaxFractionDigits(len(fraction))
	written := message.NewPrinter(language.Make(in)).Sprint(decimal.Decimal(n, decimal.NoSeparator(), digits))
	return letters.Plain(written) // some languages have a minus that GSM-7 does not have
}

// maxFigures bounds the characters of a number that a text shows, with its sign and its decimal separator.
const maxFigures = 12

// Figures writes a number in at most 12 characters, with fewer decimals where it has more. It reports false, and writes nothing, where the
// whole number is longer: a part of it is another number.
func Figures(n float64) (string, bool) {
	plain := figure(n)
	if len(plain) > maxFigures {
		whole, _, _ := strings.Cut(plain, ".")
		rounded, _ := strconv.ParseFloat(strconv.FormatFloat(n, 'f', max(maxFigures-len(whole)-1, 0), 64), 64)
		plain = figure(rounded)
	}
	if len(plain) > maxFigures {
		return "", false
	}
	return plain, true
}
