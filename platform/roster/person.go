// Package roster has the rules of what is said of a person who is enrolled, and reads people from CSV files. The service holds each profile
// to these rules; who imports a file knows by them which lines it refuses before it sends any.
package roster

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/text/language"

	"paceline.internal/platform/hours"
	"paceline.internal/platform/letters"
	"paceline.internal/platform/phone"
	"paceline.internal/platform/reading/languages"
)

// Person has the fields of a person to enrol, as an operator typed them.
type Person struct {
	Phone     string
	FirstName string
	Locale    string // empty means en
	TimeZone  string // empty means that it is guessed
}

// ErrInvalid is wrapped by every refusal of a person's fields; the text says what to change.
var ErrInvalid = errors.New("invalid profile")

const maxFirstName = 60

// The joiners stand within Persian and Indic names, and within emoji.
const nonJoiner, joiner = '\u200c', '\u200d'

// Normalise validates a person and brings every field into its stored form. All problems are reported at once.
func Normalise(p Person) (Person, error) {
	e164, phoneErr := Phone(p.Phone)
	name, nameErr := FirstName(p.FirstName)
	locale, localeErr := Locale(p.Locale)
	zone, zoneErr := Zone(p.TimeZone)
	if err := errors.Join(phoneErr, nameErr, localeErr, zoneErr); err != nil {
		return Person{}, fmt.Errorf("%w: %s", ErrInvalid, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return Person{Phone: e164, FirstName: name, Locale: locale, TimeZone: zone}, nil
}

// Phone returns the stored form of a number in international form.
func Phone(raw string) (string, error) {
	e164, err := phone.Parse(raw)
	if err != nil {
		return "", fmt.Errorf("phone: %w", err)
	}
	return e164, nil
}

// FirstName returns the stored form of a name.
func FirstName(raw string) (string, error) {
	name := strings.Join(strings.Fields(letters.Compose(raw)), " ")
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) && r != joiner && r != nonJoiner || r == '{' || r == '}' }
	if len([]rune(name)) > maxFirstName || strings.ContainsFunc(name, unprintable) || !strings.ContainsFunc(name, unicode.IsLetter) {
		return "", fmt.Errorf("first_name must be 1 to %d printable characters without braces, a letter among them", maxFirstName)
	}
	return name, nil
}

// Locale reads a language as callers and files spell it: en_US.UTF-8, PT-br, Portuguese.
func Locale(raw string) (string, error) {
	text, _, _ := strings.Cut(strings.TrimSpace(raw), ".")
	text = strings.ReplaceAll(text, "_", "-")
	locales := languages.Written()
	if text == "" {
		return locales[0], nil
	}
	for _, locale := range locales {
		if languages.Of(locale).Has("name", strings.ToLower(letters.Compose(text))) {
			return locale, nil
		}
	}
	tag, err := language.Parse(text)
	if base, sure := tag.Base(); err == nil && sure >= language.High {
		for _, known := range locales {
			if of, _ := language.MustParse(known).Base(); of == base {
				return known, nil
			}
		}
	}
	return "", fmt.Errorf("locale must be one of %s", strings.Join(locales, ", "))
}

// Zone returns the name of a time zone, or nothing where none is given.
func Zone(raw string) (string, error) {
	if raw == "" { // none was given
		return "", nil
	}
	name, _, err := hours.ParsePlace(raw)
	return name, err
}
