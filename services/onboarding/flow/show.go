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

// showNumber writes a number with the decimal separator of the language. Thousands stay together: a number may be that of an order.
func showNumber(in string, n float64) string {
	plain := strconv.FormatFloat(n, 'f', -1, 64)
	whole, fraction, _ := strings.Cut(plain, ".")
	if fraction == "" {
		return whole
	}
	return message.NewPrinter(language.Make(in)).Sprint(decimal.Decimal(n, decimal.NoSeparator(), decimal.MaxFractionDigits(len(fraction))))
}
