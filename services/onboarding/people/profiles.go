package people

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"paceline.internal/platform/phone"
	"paceline.internal/platform/reading/languages"
	"paceline.internal/platform/roster"
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

// ErrNotTheirPhone is a text in the name of a profile that has another phone, or that the organisation does not have.
var ErrNotTheirPhone = errors.New("to must be the phone of profile_id")

// Enrol creates a profile, or returns the one that the phone has in this organisation already, and reports which. roster.ErrInvalid says
// what is wrong with the fields, phone.ErrRefused that the phone is not texted.
func (c *Service) Enrol(ctx context.Context, orgID string, p roster.Person) (enrolled Profile, created bool, err error) {
	if p, err = roster.Normalise(p); err != nil {
		return Profile{}, false, err
	}
	if err := c.texted(ctx, orgID, p.Phone); err != nil {
		return Profile{}, false, err
	}
	if _, err := c.Catalog.Render(c.Catalog.Current(), p.Locale, string(session.TextOpening), p.FirstName); err != nil {
		return Profile{}, false, fmt.Errorf("%w: first_name: %w", roster.ErrInvalid, err)
	}
	id := uuid.Must(uuid.NewV7()).String()
	enrolled, err = c.Store.CreateProfile(ctx, Profile{
		ID: id, OrgID: orgID, Phone: p.Phone, FirstName: p.FirstName, Locale: p.Locale, CreatedAt: c.Now(),
		TimeZone: cmp.Or(p.TimeZone, phone.Zone(p.Phone)), TimeZoneGuessed: p.TimeZone == "",
	})
	return enrolled, err == nil && enrolled.ID == id, err
}

// Nameless is the name of a person who has told none: nothing of it is readable, so that a flow's text has its fallback in its place.
const Nameless = "-"

// EnrolStranger creates the profile of a phone that has written to the organisation, in the language of its country, or else in the first
// of some. phone.ErrRefused, roster.ErrInvalid for what is no phone, erasure.ErrBegun, and those of CheckSender: who may not be answered is
// not enrolled.
func (c *Service) EnrolStranger(ctx context.Context, orgID, from string, speaks []string) (Profile, error) {
	number, err := ReadPhone(from)
	if err != nil {
		return Profile{}, err
	}
	if err := c.texted(ctx, orgID, number); err != nil {
		return Profile{}, err
	}
	if _, err := c.Carrier.CheckSender(ctx, orgID, number); err != nil {
		return Profile{}, err
	}
	return c.Store.CreateProfile(ctx, Profile{
		ID: uuid.Must(uuid.NewV7()).String(), OrgID: orgID, Phone: number, FirstName: Nameless, Locale: localeOf(number, speaks),
		TimeZone: phone.Zone(number), TimeZoneGuessed: true, CreatedAt: c.Now(),
	})
}

// localeOf returns the language of a phone's country if a flow speaks it, or else the first that the flow speaks; of the languages that
// messages are written in.
func localeOf(number string, speaks []string) string {
	locale, err := roster.Locale(phone.Language(number))
	if err == nil && slices.Contains(speaks, locale) {
		return locale
	}
	for _, spoken := range speaks {
		if locale, err := roster.Locale(spoken); err == nil {
			return locale
		}
	}
	return languages.Written()[0]
}

// ReadPhone returns the stored form of a phone that a person is looked up by, of any international spelling; roster.ErrInvalid.
func ReadPhone(raw string) (string, error) {
	e164, err := phone.Read(raw)
	if err != nil {
		return "", fmt.Errorf("%w: phone: %w", roster.ErrInvalid, err)
	}
	return e164, nil
}

// ParseLocale is one of the languages that the messages are written in, of any spelling; roster.ErrInvalid.
func ParseLocale(raw string) (string, error) {
	locale, err := roster.Locale(raw)
	if err != nil {
		return "", fmt.Errorf("%w: %w", roster.ErrInvalid, err)
	}
	return locale, nil
}

// ParseZone returns the name of an organisation's time zone, which may be UTC. The error tells the caller what to change.
func ParseZone(raw string) (string, error) {
	if raw == "UTC" {
		return raw, nil
	}
	zone, err := roster.Zone(raw)
	if err == nil && raw == "" {
		err = errors.New("time_zone must not be empty; leave it out to keep it")
	}
	return zone, err
}
