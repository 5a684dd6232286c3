package console

import (
	"net/http"
	"time"

	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// reader is how a person reads: in a language, with times in a zone. Both are theirs to choose, by links that set a cookie.
type reader struct {
	Lang string // en or pt-BR
	Zone string // IANA

	index   int // of the language
	place   *time.Location
	printer *message.Printer
}

// languages are those that the console speaks; the first is the fallback.
var languages = []language.Tag{language.English, language.BrazilianPortuguese}

var matcher = language.NewMatcher(languages)

const (
	cookieLang = "paceline-lang"
	cookieZone = "paceline-zone"
	choiceLife = 365 * 24 * time.Hour
)

// readerOf reads the choice of a request, and keeps one that is made with it.
func readerOf(w http.ResponseWriter, r *http.Request) reader {
	lang := chosen(w, r, "lang", cookieLang)
	tag, index := language.MatchStrings(matcher, lang, r.Header.Get("Accept-Language"))
	_ = tag // with what the reader wants beside it, such as a region
	place, err := time.LoadLocation(chosen(w, r, "zone", cookieZone))
	if err != nil {
		place = time.UTC
	}
	return reader{
		Lang: languages[index].String(), Zone: place.String(), index: index, place: place,
		printer: message.NewPrinter(languages[index], message.Catalog(words)),
	}
}

// chosen is a choice that the query makes, which is kept, or one that was kept.
func chosen(w http.ResponseWriter, r *http.Request, field, name string) string {
	if value := r.URL.Query().Get(field); value != "" && len(value) < 64 {
		http.SetCookie(w, &http.Cookie{ //nolint:gosec // the same
			Name: name, Value: value, Path: root, MaxAge: int(choiceLife / time.Second), HttpOnly: true, SameSite: http.SameSiteLaxMode,
			Secure: r.TLS != nil,
		})
		return value
	}
	cookie, err := r.Cookie(name)
	if err != nil {
		return ""
	}
	return cookie.Value
}
