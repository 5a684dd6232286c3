package console

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"paceline.internal/platform/rpc"
)

// Where people sign in and out.
const (
	pathSignIn   = root + "/sign-in"
	pathLink     = pathSignIn + "/link"
	pathProvider = pathSignIn + "/provider"
	pathCallback = pathSignIn + "/callback"
	pathSignOut  = root + "/sign-out"
)

// The fields of their forms and links.
const (
	fieldKey   = "key"
	fieldTo    = "to"
	fieldToken = "token"
)

// signInPage is the data of pages/signin.html.
type signInPage struct {
	Why      string // in the catalog: why the person is here, or was refused; empty at first
	Claim    string // which it is about
	To       string // the page to come back to
	Provider string // where OpenID Connect begins; empty without it
	Links    bool   // `paceline console` prints a link for this console
	Link     string // the sealed text of a link that waits for its button
}

// signIn signs people in and out, by three ways: a provider of OpenID Connect, an operator's token, and in `paceline up` a link.
type signIn struct {
	cookies

	authenticate func(ctx context.Context, token string) (rpc.Principal, time.Time, error)
	// wait counts an attempt, and says how long its client has to wait first; zero when it may be made.
	wait     func(ctx context.Context) time.Duration
	client   func(ctx context.Context) string
	provider *provider // nil for none
	links    *Links    // nil for none
	log      *slog.Logger
	show     func(w http.ResponseWriter, r *http.Request, status int, page signInPage)
}

// routes are the pages that need no session.
func (s *signIn) routes(mux *http.ServeMux) {
	mux.HandleFunc("GET "+pathSignIn, func(w http.ResponseWriter, r *http.Request) { s.ask(w, r, http.StatusOK, signInPage{}) })
	mux.HandleFunc("POST "+pathSignIn, s.counted(s.token))
	mux.HandleFunc("POST "+pathSignOut, s.out)
	if s.links != nil {
		mux.HandleFunc("GET "+pathLink, s.lookAtLink)
		mux.HandleFunc("POST "+pathLink, s.counted(s.takeLink))
	}
	if s.provider != nil {
		mux.HandleFunc("GET "+pathProvider, s.counted(s.visit))
		mux.HandleFunc("GET "+pathCallback, s.counted(s.returned))
	}
}

// known lets a request on as the person who signed in; all others are sent to sign in.
func (s *signIn) known(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, ok := s.session(r)
		if !ok {
			s.toSignIn(w, r)
			return
		}
		ctx := context.WithValue(r.Context(), sessionKey{}, who)
		next.ServeHTTP(w, r.WithContext(rpc.WithPrincipal(ctx, who.principal(s.client(ctx)))))
	})
}

type sessionKey struct{}

// sessionFrom returns the session of a request that known has let on.
func sessionFrom(ctx context.Context) session {
	who, _ := ctx.Value(sessionKey{}).(session)
	return who
}

// toSignIn sends a reader to sign in, and back afterwards to the page that was asked for. What htmx asks for is a part of a page, which
// tells the whole page.
func (s *signIn) toSignIn(w http.ResponseWriter, r *http.Request) {
	to := r.URL
	if page, err := url.Parse(r.Header.Get("HX-Current-URL")); r.Header.Get("HX-Request") != "" && err == nil {
		to = page
	}
	query := url.Values{}
	if page := to.RequestURI(); r.Method == http.MethodGet && within(page) && page != root {
		query.Set(fieldTo, page)
	}
	where := pathSignIn
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
	return path.Clean(u.Path) == u.Path && (u.Path == root || strings.HasPrefix(u.Path, root+"/")) &&
		u.Path != pathSignIn && !strings.HasPrefix(u.Path, pathSignIn+"/") && u.Path != pathSignOut
}

// back returns the page to which a reader goes after signing in.
func back(to string) string {
	if !within(to) {
		return root
	}
	return to
}

// ask shows the ways to sign in.
func (s *signIn) ask(w http.ResponseWriter, r *http.Request, status int, page signInPage) {
	if page.To == "" {
		page.To = r.FormValue(fieldTo)
	}
	page.To, page.Links = back(page.To), s.links != nil
	if s.provider != nil {
		page.Provider = pathProvider + "?" + url.Values{fieldTo: {page.To}}.Encode()
	}
	s.show(w, r, status, page)
}

// refuse shows why a person is not signed in.
func (s *signIn) refuse(w http.ResponseWriter, r *http.Request, err error, page signInPage) {
	page.Why = "signin.refused"
	if why, ok := errors.AsType[refused](err); ok {
		page.Why, page.Claim = why.key, why.claim
	}
	s.log.WarnContext(r.Context(), "console.sign_in_refused", "client", s.client(r.Context()), "error", err)
	s.ask(w, r, http.StatusForbidden, page)
}

// enter ends an attempt well.
func (s *signIn) enter(w http.ResponseWriter, r *http.Request, who rpc.Principal, expires time.Time, to string) {
	if err := s.cookies.enter(w, who, expires); err != nil {
		s.refuse(w, r, err, signInPage{To: to})
		return
	}
	s.log.LogAttrs(r.Context(), slog.LevelInfo, "console.signed_in", slog.String("client", s.client(r.Context())),
		slog.String("org_id", who.OrgID), slog.String("role", string(who.Role)), who.LogSubject())
	http.Redirect(w, r, back(to), http.StatusSeeOther)
}

// counted bounds the attempts of a client.
func (s *signIn) counted(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if wait := s.wait(r.Context()); wait > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
			s.ask(w, r, http.StatusTooManyRequests, signInPage{Why: "signin.too_many"})
			return
		}
		next(w, r)
	}
}

// token signs in with a token of /v1, as the gateway's own authenticator judges it. A host application is a program: its token is for /v1.
func (s *signIn) token(w http.ResponseWriter, r *http.Request) {
	to, text := r.PostFormValue(fieldTo), strings.TrimSpace(r.PostFormValue(fieldToken))
	if text == "" {
		s.refuse(w, r, refused{key: "signin.token.none"}, signInPage{To: to})
		return
	}
	who, expires, err := s.authenticate(r.Context(), text)
	switch {
	case err != nil:
		s.refuse(w, r, refused{key: "signin.token.refused", cause: err}, signInPage{To: to})
	case who.Role != rpc.RoleOperator && who.Role != rpc.RoleUser:
		s.refuse(w, r, refused{key: "signin.token.role"}, signInPage{To: to})
	default:
		s.enter(w, r, who, expires, to)
	}
}

// lookAtLink shows a link's button. It uses nothing up, for mail readers and terminals open links before people do.
func (s *signIn) lookAtLink(w http.ResponseWriter, r *http.Request) {
	sealed := r.URL.Query().Get(fieldKey)
	if err := s.links.look(s.box, sealed); err != nil {
		s.refuse(w, r, refused{key: "signin.link.over", cause: err}, signInPage{})
		return
	}
	s.ask(w, r, http.StatusOK, signInPage{Link: sealed})
}

// takeLink signs in by a link.
func (s *signIn) takeLink(w http.ResponseWriter, r *http.Request) {
	who, err := s.links.take(s.box, r.PostFormValue(fieldKey))
	if err != nil {
		s.refuse(w, r, refused{key: "signin.link.over", cause: err}, signInPage{})
		return
	}
	s.enter(w, r, who, s.now().Add(longestSession), r.PostFormValue(fieldTo))
}

// visit sends a person to the provider.
func (s *signIn) visit(w http.ResponseWriter, r *http.Request) {
	f, url, err := s.provider.begin(r.Context(), back(r.FormValue(fieldTo)))
	if err == nil {
		err = s.set(w, purposeFlow, f, f.Expires)
	}
	if err != nil {
		s.refuse(w, r, err, signInPage{})
		return
	}
	http.Redirect(w, r, url, http.StatusSeeOther)
}

// returned takes a person back from the provider.
func (s *signIn) returned(w http.ResponseWriter, r *http.Request) {
	var f flow
	err := s.get(r, purposeFlow, &f)
	s.clear(w, purposeFlow)
	if err != nil {
		s.refuse(w, r, refused{key: "signin.flow.lost", cause: err}, signInPage{})
		return
	}
	who, expires, err := s.provider.end(r.Context(), f, r.URL.Query())
	if err != nil {
		s.refuse(w, r, err, signInPage{To: f.To})
		return
	}
	s.enter(w, r, who, expires, f.To)
}

// out signs a person out of this browser.
func (s *signIn) out(w http.ResponseWriter, r *http.Request) {
	s.clear(w, purposeSession)
	s.clear(w, purposeNotice) // the next reader of this browser is another one
	s.ask(w, r, http.StatusOK, signInPage{Why: "signin.out"})
}
