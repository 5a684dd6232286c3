package signin

import (
	"errors"
	"net/http"
	"time"

	"paceline.internal/platform/rpc"
)

// longestSession ends a session, whatever its token says: a day's work, and no more.
const longestSession = 8 * time.Hour

// Session is the person who signed in. The cookie has nothing else: no token, so that a stolen cookie is worth nothing on /v1.
type Session struct {
	Subject string    `json:"sub"`
	OrgID   string    `json:"org"`
	Role    rpc.Role  `json:"role"`
	Expires time.Time `json:"exp"`
}

// principal is the caller of what the session asks for, from an address.
func (s Session) principal(client string) rpc.Principal {
	return rpc.Principal{Subject: s.Subject, OrgID: s.OrgID, Role: s.Role, Client: client}
}

// Cookies sets the cookies of the console. On https their names begin with __Host-, by which a browser takes them from this host alone, and
// only with Secure and the path /. On http, which is on the loopback alone, they are kept from the other programs of this machine by the
// path.
type Cookies struct {
	Secure bool // the console is on https
	Now    func() time.Time

	box *box
}

// The purposes, which are the names of the cookies too.
const (
	purposeSession = "paceline"      // who signed in
	purposeFlow    = "paceline-flow" // a visit to the provider of OpenID Connect
	purposeLink    = "paceline-link" // no cookie: what a link of Links has

	// PurposeNotice names the cookie with what the console has to tell its reader on the next page. Signing out deletes it.
	PurposeNotice = "paceline-notice"
)

// Cookie returns a cookie with a plain value.
func (c Cookies) Cookie(purpose, value string, life time.Duration) *http.Cookie {
	cookie := &http.Cookie{ //nolint:gosec // Secure is off on http, which is for the loopback alone
		Name: purpose, Value: value, Path: Root, MaxAge: int(life / time.Second), HttpOnly: true, SameSite: http.SameSiteLaxMode,
		Secure: c.Secure,
	}
	if c.Secure {
		cookie.Name, cookie.Path = "__Host-"+purpose, "/"
	}
	return cookie
}

// maxSealed bounds a sealed value in bytes: a browser drops a cookie that has more than 4096 with its name, and says nothing.
const maxSealed = 3800

// ErrTooLong is of a value that a browser would not keep.
var ErrTooLong = errors.New("it is too long for a cookie")

// Set gives the browser a sealed value until an instant. ErrTooLong.
func (c Cookies) Set(w http.ResponseWriter, purpose string, value any, until time.Time) error {
	sealed, err := c.box.seal(purpose, value)
	if err != nil {
		return err
	}
	if len(sealed) > maxSealed {
		return ErrTooLong
	}
	http.SetCookie(w, c.Cookie(purpose, sealed, until.Sub(c.Now())))
	return nil
}

// Clear takes a cookie back.
func (c Cookies) Clear(w http.ResponseWriter, purpose string) {
	http.SetCookie(w, c.Cookie(purpose, "", -time.Second))
}

// Get reads a cookie of a request.
func (c Cookies) Get(r *http.Request, purpose string, into any) error {
	cookie, err := r.Cookie(c.Cookie(purpose, "", 0).Name)
	if err != nil {
		return err
	}
	return c.box.open(purpose, cookie.Value, into)
}

// enter gives the browser the session of a principal: until its token ends, and for longestSession at the most.
func (c Cookies) enter(w http.ResponseWriter, who rpc.Principal, expires time.Time) error {
	if most := c.Now().Add(longestSession); expires.After(most) {
		expires = most
	}
	return c.Set(w, purposeSession, Session{Subject: who.Subject, OrgID: who.OrgID, Role: who.Role, Expires: expires}, expires)
}

// session returns the session of the cookie, unless it is too old.
func (c Cookies) session(r *http.Request) (s Session, ok bool) {
	err := c.Get(r, purposeSession, &s)
	return s, err == nil && c.Now().Before(s.Expires)
}
