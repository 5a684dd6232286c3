package consent

import (
	"strings"

	"paceline.internal/platform/reading/languages"
)

// LocaleOf returns the language to ask a person in: that of their profile, or of their words where we have no texts in it.
func LocaleOf(profile string, words Locale) Locale {
	wanted, _, _ := strings.Cut(profile, "-")
	for _, l := range languages.All() {
		if has, _, _ := strings.Cut(l.Locale, "-"); strings.EqualFold(has, wanted) {
			return Locale(l.Locale)
		}
	}
	return words
}
