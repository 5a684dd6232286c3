package signin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"paceline.internal/platform/config"
	"paceline.internal/platform/rpc"
)

// Root is the path of the console.
const Root = "/console"

// Where people sign in and out.
const (
	PathSignIn   = Root + "/sign-in"
	pathLink     = PathSignIn + "/link"
	pathProvider = PathSignIn + "/provider"
	pathCallback = PathSignIn + "/callback"
	pathSignOut  = Root + "/sign-out"
)

// The fields of their forms and links.
const (
	fieldKey   = "key"
	fieldBack  = "back" // of the forms of all pages
	fieldTo    = "to"
	fieldToken = "token"
)

// Page is the data of pages/signin.html.
type Page struct {
	Why      string // in the catalog: why the person is here, or was refused; empty at first
	Claim    string // which it is about
	To       string // the page to come back to
	Provider string // where OpenID Connect begins; empty without it
	Links    bool   // `paceline console` prints a link for this console
	Link     string // the sealed text of a link that waits for its button
}

// Door signs people in and out, by three ways: a provider of OpenID Connect, an operator's token, and in `paceline up` a link.
type Door struct {
	Cookies

	cfg      Config
	provider *provider // nil for none
}

// Config has the settings of a Door.
type Config struct {
	// Authenticate reads a bearer token as /v1 does.
	Authenticate func(ctx context.Context, token string) (who rpc.Principal, expires time.Time, err error)
	// Still refuses somebody who has signed in and is not accepted any more. An *rpc.Error is shown; any other leads to the sign-in.
	Still func(ctx context.Context, who rpc.Principal) error
	Fail  func(w http.ResponseWriter, r *http.Request, err error) // shows an error as a page
	// Wait counts an attempt, and returns how long its client has to wait first; zero when it may be made.
	Wait   func(ctx context.Context) time.Duration
	Client func(ctx context.Context) string // the address that a request comes from
	Show   func(w http.ResponseWriter, r *http.Request, status int, page Page)

	Key    config.Secret // CONSOLE_KEY
	OIDC   OIDC          // the zero value for none
	Origin config.Origin // PUBLIC_BASE_URL: where the provider sends people back to
	Links  *Links        // nil for none
	Log    *slog.Logger
	Now    func() time.Time
}

// New returns a Door.
func New(cfg Config) (*Door, error) {
	sealed, err := newBox(cfg.Key)
	if err != nil {
		return nil, fmt.Errorf("CONSOLE_KEY %w", err)
	}
	s := &Door{Cookies: Cookies{box: sealed, Secure: strings.HasPrefix(cfg.Origin.String(), "https:"), Now: cfg.Now}, cfg: cfg}
	if cfg.OIDC != (OIDC{}) {
		s.provider = newProvider(cfg.OIDC, cfg.Origin.String()+pathCallback, cfg.Now)
	}
	return s, nil
}

// Routes adds the pages that need no session.
func (s *Door) Routes(mux *http.ServeMux) {
	mux.HandleFunc("GET "+PathSignIn, func(w http.ResponseWriter, r *http.Request) { s.ask(w, r, http.StatusOK, Page{}) })
	mux.HandleFunc("POST "+PathSignIn, s.counted(s.token))
	mux.HandleFunc("POST "+pathSignOut, s.out)
	if s.cfg.Links != nil {
		mux.HandleFunc("GET "+pathLink, s.lookAtLink)
		mux.HandleFunc("POST "+pathLink, s.counted(s.takeLink))
	}
	if s.provider != nil {
		mux.HandleFunc("GET "+pathProvider, s.counted(s.visit))
		mux.HandleFunc("GET "+pathCallback, s.counted(s.returned))
	}
}

// Known lets a request on as the person who signed in; all others are sent to sign in.
func (s *Door) Known(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, ok := s.session(r)
		if !ok {
			s.toSignIn(w, r)
			return
		}
		principal := who.principal(s.cfg.Client(r.Context()))
		ctx := rpc.WithPrincipal(WithSession(r.Context(), who), principal)
		err := s.cfg.Still(ctx, principal)
		refusal, _ := errors.AsType[*rpc.Error](err)
		switch {
		case refusal != nil: // it is not known, or their organisation has ended
			s.cfg.Fail(w, r.WithContext(ctx), err)
		case err != nil:
			s.toSignIn(w, r)
		default:
			next.ServeHTTP(w, r.WithContext(ctx))
		}
	})
}

// maxForm bounds what is read of the form of a reader who has to sign in: it is 1 MB at most, as the pages have it.
const maxForm = 1 << 20

type sessionKey struct{}

// WithSession returns a context for what is asked for in a session.
func WithSession(ctx context.Context, who Session) context.Context {
	return context.WithValue(ctx, sessionKey{}, who)
}

// SessionFrom returns the session that WithSession has added.
func SessionFrom(ctx context.Context) Session {
	who, _ := ctx.Value(sessionKey{}).(Session)
	return who
}

// toSignIn sends a reader to sign in, and back afterwards to the page that was asked for. What htmx asks for is a part of a page, which
// tells the whole page.
func (s *Door) toSignIn(w http.ResponseWriter, r *http.Request) {
	to := r.URL
	if page, err := url.Parse(r.Header.Get("HX-Current-URL")); r.Header.Get("HX-Request") != "" && err == nil {
		to = page
	}
	query, page := url.Values{}, to.RequestURI()
	if r.Method != http.MethodGet { // the page that the form came from
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		page = r.PostFormValue(fieldBack)
	}
	if within(page) && page != Root {
		query.Set(fieldTo, page)
	}
	where := PathSignIn
	if len(query) > 0 {
		where += "?" + query.Encode()
	}
	if r.Header.Get("HX-Request") != "" {
		w.Header().Set("HX-Redirect", where)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	http.Redirect(w, r, where, http.StatusSeeOther)
}

// within reports whether a place is a page of the console, to which a reader may be sent: no other host, and no path that a browser reads
// as one outside.
func within(to string) bool {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" || u.Opaque != "" || u.User != nil || strings.ContainsAny(to, "\\\x00\r\n\t") {
		return false
	}
	return path.Clean(u.Path) == u.Path && (u.Path == Root || strings.HasPrefix(u.Path, Root+"/")) &&
		u.Path != PathSignIn && !strings.HasPrefix(u.Path, PathSignIn+"/") && u.Path != pathSignOut
}

// Back returns the page to which a reader goes after signing in.
func Back(to string) string {
	if !within(to) {
		return Root
	}
	return to
}

// ask shows the ways to sign in.
func (s *Door) ask(w http.ResponseWriter, r *http.Request, status int, page Page) {
	if page.To == "" {
		page.To = r.FormValue(fieldTo)
	}
	page.To, page.Links = Back(page.To), s.cfg.Links != nil
	if s.provider != nil {
		page.Provider = pathProvider + "?" + url.Values{fieldTo: {page.To}}.Encode()
	}
	s.cfg.Show(w, r, status, page)
}

// refuse shows why a person is not signed in.
func (s *Door) refuse(w http.ResponseWriter, r *http.Request, err error, page Page) {
	page.Why = "signin.refused"
	if why, ok := errors.AsType[refused](err); ok {
		page.Why, page.Claim = why.key, why.claim
	}
	s.cfg.Log.WarnContext(r.Context(), "console.sign_in_refused", "client", s.cfg.Client(r.Context()), "error", err)
	s.ask(w, r, http.StatusForbidden, page)
}

// enter ends an attempt well.
func (s *Door) enter(w http.ResponseWriter, r *http.Request, who rpc.Principal, expires time.Time, to string) {
	if err := s.Cookies.enter(w, who, expires); err != nil {
		s.refuse(w, r, err, Page{To: to})
		return
	}
	s.cfg.Log.LogAttrs(r.Context(), slog.LevelInfo, "console.signed_in", slog.String("client", s.cfg.Client(r.Context())),
		slog.String("org_id", who.OrgID), slog.String("role", string(who.Role)), who.LogSubject())
	http.Redirect(w, r, Back(to), http.StatusSeeOther)
}

// counted bounds the attempts of a client.
func (s *Door) counted(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if wait := s.cfg.Wait(r.Context()); wait > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
			s.ask(w, r, http.StatusTooManyRequests, Page{Why: "signin.too_many"})
			return
		}
		next(w, r)
	}
}

// token signs in with a token of /v1, as the gateway's own authenticator judges it. A host application is a program: its token is for /v1.
func (s *Door) token(w http.ResponseWriter, r *http.Request) {
	to, text := r.PostFormValue(fieldTo), strings.TrimSpace(r.PostFormValue(fieldToken))
	if text == "" {
		s.refuse(w, r, refused{key: "signin.token.none"}, Page{To: to})
		return
	}
	who, expires, err := s.cfg.Authenticate(r.Context(), text)
	switch {
	case err != nil:
		s.refuse(w, r, refused{key: "signin.token.refused", cause: err}, Page{To: to})
	case who.Role != rpc.RoleOperator && who.Role != rpc.RoleUser && who.Role != rpc.RolePlatform:
		s.refuse(w, r, refused{key: "signin.token.role"}, Page{To: to})
	default:
		s.enter(w, r, who, expires, to)
	}
}

// lookAtLink shows a link's button. It uses nothing up, for mail readers and terminals open links before people do.
func (s *Door) lookAtLink(w http.ResponseWriter, r *http.Request) {
	sealed := r.URL.Query().Get(fieldKey)
	if err := s.cfg.Links.look(s.box, sealed); err != nil {
		s.refuse(w, r, refused{key: "signin.link.over", cause: err}, Page{})
		return
	}
	s.ask(w, r, http.StatusOK, Page{Link: sealed})
}

// takeLink signs in by a link.
func (s *Door) takeLink(w http.ResponseWriter, r *http.Request) {
	who, err := s.cfg.Links.take(s.box, r.PostFormValue(fieldKey))
	if err != nil {
		s.refuse(w, r, refused{key: "signin.link.over", cause: err}, Page{})
		return
	}
	s.enter(w, r, who, s.Now().Add(longestSession), r.PostFormValue(fieldTo))
}

// visit sends a person to the provider.
func (s *Door) visit(w http.ResponseWriter, r *http.Request) {
	f, url, err := s.provider.begin(r.Context(), Back(r.FormValue(fieldTo)))
	if err == nil {
		err = s.Set(w, purposeFlow, f, f.Expires)
	}
	if err != nil {
		s.refuse(w, r, err, Page{})
		return
	}
	http.Redirect(w, r, url, http.StatusSeeOther)
}

// returned takes a person back from the provider.
func (s *Door) returned(w http.ResponseWriter, r *http.Request) {
	var f flow
	err := s.Get(r, purposeFlow, &f)
	s.Clear(w, purposeFlow)
	if err != nil {
		s.refuse(w, r, refused{key: "signin.flow.lost", cause: err}, Page{})
		return
	}
	who, expires, err := s.provider.end(r.Context(), f, r.URL.Query())
	if err != nil {
		s.refuse(w, r, err, Page{To: f.To})
		return
	}
	s.enter(w, r, who, expires, f.To)
}

// out signs a person out of this browser.
func (s *Door) out(w http.ResponseWriter, r *http.Request) {
	s.Clear(w, purposeSession)
	s.Clear(w, PurposeNotice) // the next reader of this browser is another one
	s.ask(w, r, http.StatusOK, Page{Why: "signin.out"})
}
