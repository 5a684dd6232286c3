package console

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"time"

	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"paceline.internal/gateway/console/signin"
)

// reader has the language and the time zone of a person, who chooses both by links that set a cookie. At its first page
// a browser sets the cookie to the zone of its machine.
type reader struct {
	Lang    string // a tag, such as pt-BR
	Zone    string // IANA
	Unknown string // the zone that this request asked for, if there is none of this name
	Ask     string // the cookie in which the browser may keep its own zone; empty once a zone is known

	index   int // of the language
	place   *time.Location
	printer *message.Printer
}

var matcher = language.NewMatcher(languages)

const (
	fieldLang   = "lang"
	fieldZone   = "zone"
	purposeLang = "paceline-lang"
	purposeZone = "paceline-zone"
	choiceLife  = 365 * 24 * time.Hour
)

// readerOf reads the choice of a request, and keeps one that is made with it.
func readerOf(c signin.Cookies, w http.ResponseWriter, r *http.Request) reader {
	lang, _ := choice(c, w, r, fieldLang, purposeLang, func(tag string) bool {
		_, err := language.Parse(tag)
		return err == nil
	})
	tag, index := language.MatchStrings(matcher, lang, r.Header.Get("Accept-Language"))
	_ = tag // with other wishes of the reader, such as a region
	zone, unknown := choice(c, w, r, fieldZone, purposeZone, func(name string) bool { return zoneNamed(name) != nil })
	place, ask := zoneNamed(zone), ""
	if place == nil {
		place, ask = time.UTC, c.Cookie(purposeZone, "", 0).Name
	}
	return reader{
		Lang: languages[index].String(), Zone: place.String(), Unknown: unknown, Ask: ask, index: index, place: place,
		printer: message.NewPrinter(languages[index], message.Catalog(words)),
	}
}

// zoneOf is the zone in which a reader's days begin.
func (c *Console) zoneOf(r *http.Request) *time.Location {
	name := r.URL.Query().Get(fieldZone)
	if kept, err := r.Cookie(c.door.Cookie(purposeZone, "", 0).Name); err == nil && zoneNamed(name) == nil {
		name = kept.Value
	}
	return cmp.Or(zoneNamed(name), time.UTC)
}

// zoneNamed is the zone with an IANA name, or nil. "" and "Local" are names of Go alone: the second is the zone of this machine.
func zoneNamed(name string) *time.Location {
	place, err := time.LoadLocation(name)
	if err != nil || name == "" || name == "Local" {
		return nil
	}
	return place
}

// choice is a choice that the query makes, which is kept, or one that was kept. A choice that is not valid changes nothing.
func choice(
	c signin.Cookies, w http.ResponseWriter, r *http.Request, field, purpose string, valid func(string) bool,
) (value, refused string) {
	switch value := r.URL.Query().Get(field); {
	case value == "":
	case len(value) < 64 && valid(value):
		http.SetCookie(w, c.Cookie(purpose, value, choiceLife))
		return value, ""
	default:
		refused = value[:min(len(value), 64)]
	}
	cookie, err := r.Cookie(c.Cookie(purpose, "", 0).Name)
	if err != nil {
		return "", refused
	}
	return cookie.Value, refused
}

// field is one value of a query.
type field struct{ Name, Value string }

// kept is the query of a page without what says how it is read.
func kept(r *http.Request) (fields []field) {
	query := r.URL.Query()
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if name == fieldLang || name == fieldZone {
			continue
		}
		for _, value := range query[name] {
			fields = append(fields, field{name, value})
		}
	}
	return fields
}
