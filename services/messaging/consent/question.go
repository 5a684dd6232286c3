package consent

import (
	"slices"
	"strings"

	"paceline.internal/platform/letters"
)

// goesOn are the whole texts that answer with a yes whether our texts are to go on. "Yes please" is none: it may answer whether they are to
// stop.
var goesOn = []string{
	"yes", "y", "yes go on", "go on", "please go on", "continue", "please continue", "keep going", "keep texting", "keep texting me",
	"sim", "s", "sim continuar", "continuar", "continua", "continue", "pode continuar", "sim pode continuar", "quero continuar",
	"si", "sigue", "sigan", "siga", "seguir", "oui", "continuez", "continuer",
}

// GoesOn reports whether a text, as a whole, says that our texts are to go on, to a person who was asked.
func GoesOn(body string) bool { return slices.Contains(goesOn, strings.Join(letters.Words(body), " ")) }

// LocaleOf returns the language to ask a person in: that of their profile, or of their words where the profile is not known.
func LocaleOf(profile string, words Locale) Locale {
	language, _, _ := strings.Cut(strings.ToLower(profile), "-")
	switch language {
	case "en":
		return English
	case "pt":
		return Portuguese
	}
	return words
}
