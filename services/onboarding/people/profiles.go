package people

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"
	"golang.org/x/text/language"

	"paceline.internal/platform/hours"
	"paceline.internal/platform/letters"
	"paceline.internal/platform/phone"
	"paceline.internal/platform/reading/languages"
	"paceline.internal/services/onboarding/session"
)

// Profile is a person in an organisation.
type Profile struct {
	ID        string
	OrgID     string
	Phone     string // E.164
	FirstName string
	Locale    string
	TimeZone  string // empty only to be stored: the organisation's
	Hold      bool
	CreatedAt time.Time

	TimeZoneGuessed bool // none was given

	HoldVersion   int64 // grows with every hold and every release
	HoldForwarded int64 // the version that messaging knows
}

// Person has the fields of a person to enrol, as an operator typed them.
type Person struct {
	Phone     string
	FirstName string
	Locale    string // empty means en
	TimeZone  string // empty means that it is guessed
}

// ErrNotTheirPhone is a text in the name of a profile that has another phone, or that the organisation does not have.
var ErrNotTheirPhone = errors.New("to must be the phone of profile_id")

// ErrInvalid is wrapped by every refusal of a person's fields; the text says what to change.
var ErrInvalid = errors.New("invalid profile")

const maxFirstName = 60

// Enrol creates a profile, or returns the one that the phone has in this organisation already, and reports which. ErrInvalid says what
// is wrong with the fields, phone.ErrRefused that the phone is not texted.
func (c *Service) Enrol(ctx context.Context, orgID string, p Person) (enrolled Profile, created bool, err error) {
	if p, err = Normalise(p); err != nil {
		return Profile{}, false, err
	}
	if _, err := c.Numbers.Check(p.Phone); err != nil {
		return Profile{}, false, err
	}
	if _, err := c.Catalog.Render(c.Catalog.Current(), p.Locale, string(session.TextOpening), p.FirstName); err != nil {
		return Profile{}, false, fmt.Errorf("%w: first_name: %w", ErrInvalid, err)
	}
	id := uuid.Must(uuid.NewV7()).String()
	enrolled, err = c.Store.CreateProfile(ctx, Profile{
		ID: id, OrgID: orgID, Phone: p.Phone, FirstName: p.FirstName, Locale: p.Locale, CreatedAt: c.Now(),
		TimeZone: cmp.Or(p.TimeZone, phone.Zone(p.Phone)), TimeZoneGuessed: p.TimeZone == "",
	})
	return enrolled, err == nil && enrolled.ID == id, err
}

// Normalise validates a person and brings every field into its stored form. All problems are reported at once.
func Normalise(p Person) (Person, error) {
	e164, phoneErr := normalisePhone(p.Phone)
	name, nameErr := normaliseName(p.FirstName)
	locale, localeErr := normaliseLocale(p.Locale)
	zone, zoneErr := normaliseZone(p.TimeZone)
	if err := errors.Join(phoneErr, nameErr, localeErr, zoneErr); err != nil {
		return Person{}, fmt.Errorf("%w: %s", ErrInvalid, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return Person{Phone: e164, FirstName: name, Locale: locale, TimeZone: zone}, nil
}

// ReadPhone returns the stored form of a phone that a person is looked up by, of any international spelling; ErrInvalid.
func ReadPhone(raw string) (string, error) {
	e164, err := phone.Read(raw)
	if err != nil {
		return "", fmt.Errorf("%w: phone: %w", ErrInvalid, err)
	}
	return e164, nil
}

// ParseLocale is one of the languages that the messages are written in, of any spelling; ErrInvalid.
func ParseLocale(raw string) (string, error) {
	locale, err := normaliseLocale(raw)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return locale, nil
}

func normalisePhone(raw string) (string, error) {
	e164, err := phone.Parse(raw)
	if err != nil {
		return "", fmt.Errorf("phone: %w", err)
	}
	return e164, nil
}

func normaliseName(raw string) (string, error) {
	name := strings.Join(strings.Fields(letters.Compose(raw)), " ")
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) || r == '{' || r == '}' }
	if len([]rune(name)) > maxFirstName || strings.ContainsFunc(name, unprintable) || !strings.ContainsFunc(name, unicode.IsLetter) {
		return "", fmt.Errorf("first_name must be 1 to %d printable characters without braces, a letter among them", maxFirstName)
	}
	return name, nil
}

// normaliseLocale reads a language as callers and files spell it: en_US.UTF-8, PT-br, Portuguese.
func normaliseLocale(raw string) (string, error) {
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

func normaliseZone(raw string) (string, error) {
	if raw == "" { // none was given
		return "", nil
	}
	name, _, err := hours.ParsePlace(raw)
	return name, err
}

// ParseZone returns the name of an organisation's time zone, which may be UTC; ErrInvalid.
func ParseZone(raw string) (string, error) {
	if raw == "UTC" {
		return raw, nil
	}
	zone, err := normaliseZone(raw)
	if err == nil && raw == "" {
		err = errors.New("time_zone must not be empty; leave it out to keep it")
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return zone, nil
}
