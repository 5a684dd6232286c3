package console

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"mime/multipart"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"paceline.internal/gateway/console/signin"
	"paceline.internal/platform/config"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

const (
	org = "0190b2a4-0000-7000-8000-000000000001"
	key = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
)

var noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// site is a console that people sign in to, and a browser. The page behind the door answers with who they are.
type site struct {
	*httptest.Server

	t       *testing.T
	org     string // of who signs in
	now     time.Time
	tries   int
	refused error // of who has signed in
	browser *http.Client
}

// opens starts a console; change is called with its configuration.
func opens(t *testing.T, change func(*Config)) *site {
	t.Helper()
	s := &site{t: t, org: org, now: noon}
	mux := http.NewServeMux()
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	origin, err := config.ParseOrigin(s.URL)
	require.NoError(t, err)
	cfg := Config{
		Key: config.NewSecret(key), Origin: origin, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return s.now },
		Authenticate: func(_ context.Context, token string) (rpc.Principal, time.Time, error) {
			role, ok := strings.CutPrefix(token, "good ")
			if !ok {
				return rpc.Principal{}, time.Time{}, errors.New("the token is malformed")
			}
			return rpc.Principal{Subject: "ada", OrgID: s.org, Role: rpc.Role(role)}, s.now.Add(time.Hour), nil
		},
		Still: func(context.Context, rpc.Principal) error { return s.refused },
		Wait: func(context.Context) time.Duration {
			if s.tries++; s.tries > 5 {
				return time.Second
			}
			return 0
		},
		Client: func(context.Context) string { return "192.0.2.1" }, Named: func(*http.Request, string) {},
		Health: func(context.Context) []Health { return nil },
		Follow: func(context.Context) (<-chan *onboardingv1.Event, error) {
			return nil, errors.New("nothing is followed")
		},
	}
	if change != nil {
		change(&cfg)
	}
	c, err := New(cfg)
	require.NoError(t, err)
	mux.Handle(root, c)
	mux.Handle(root+"/", c)
	mux.Handle(root+"/whoami", c.door.Known(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, _ := rpc.PrincipalFrom(r.Context())
		_ = json.NewEncoder(w).Encode(who) // or the browser has gone
	})))
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	s.browser = &http.Client{Jar: jar}
	return s
}

// post sends a form as a page of the console does, and asks for whoami afterwards.
func (s *site) post(path string, form url.Values) *http.Response {
	s.t.Helper()
	form = maps.Clone(form) // tests that run at once share it
	form.Set("to", root+"/whoami")
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.URL+path, strings.NewReader(form.Encode()))
	require.NoError(s.t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return s.does(r)
}

func (s *site) get(path string) *http.Response {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, path, nil)
	require.NoError(s.t, err)
	return s.does(r)
}

func (s *site) does(r *http.Request) *http.Response {
	s.t.Helper()
	answer, err := s.browser.Do(r)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}

// inside reports whether the browser is signed in, and as whom.
func (s *site) inside() (who rpc.Principal, in bool) {
	s.t.Helper()
	answer := s.get(s.URL + root + "/whoami")
	if answer.Request.URL.Path != root+"/whoami" {
		return who, false
	}
	require.NoError(s.t, json.NewDecoder(answer.Body).Decode(&who))
	return who, true
}

func TestSignInByToken(t *testing.T) {
	t.Parallel()
	t.Run("LastsAsLongAsTheTokenAndNoLonger", func(t *testing.T) {
		t.Parallel()
		s := opens(t, nil)
		require.Equal(t, http.StatusOK, s.post(signin.PathSignIn, url.Values{"token": {" good operator\n"}}).StatusCode)
		who, in := s.inside()
		require.True(t, in)
		require.Equal(t, rpc.Principal{Subject: "ada", OrgID: org, Role: rpc.RoleOperator, Client: "192.0.2.1"}, who)
		s.now = noon.Add(time.Hour)
		_, in = s.inside()
		require.False(t, in)
	})
	t.Run("EndsWhenTheKeyIsRevoked", func(t *testing.T) {
		t.Parallel()
		s := opens(t, nil)
		s.post(signin.PathSignIn, url.Values{"token": {"good operator"}})
		s.refused = &rpc.Error{Code: codes.Unavailable, Message: "try again"}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+root+"/audit", http.NoBody)
		require.NoError(t, err)
		answer, err := s.browser.Do(request)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode, "an outage signs nobody out")
		s.refused = errors.New("it was revoked")
		_, in := s.inside()
		require.False(t, in)
	})
	t.Run("IsRefusedToAnAppAndToWhatIsNoToken", func(t *testing.T) {
		t.Parallel()
		s := opens(t, nil)
		for _, token := range []string{"", "bad", "good app", "good service"} {
			require.Equal(t, http.StatusForbidden, s.post(signin.PathSignIn, url.Values{"token": {token}}).StatusCode, token)
		}
		_, in := s.inside()
		require.False(t, in)
	})
	t.Run("IsTriedAFewTimesOnly", func(t *testing.T) {
		t.Parallel()
		s := opens(t, nil)
		for range 5 {
			s.post(signin.PathSignIn, url.Values{"token": {"bad"}})
		}
		answer := s.post(signin.PathSignIn, url.Values{"token": {"good operator"}})
		require.Equal(t, http.StatusTooManyRequests, answer.StatusCode)
		require.Equal(t, "1", answer.Header.Get("Retry-After"))
	})
	t.Run("EndsWithSignOut", func(t *testing.T) {
		t.Parallel()
		s := opens(t, nil)
		s.post(signin.PathSignIn, url.Values{"token": {"good user"}})
		s.post(root+"/sign-out", url.Values{})
		_, in := s.inside()
		require.False(t, in)
	})
	t.Run("IsNotTakenFromAnotherSite", func(t *testing.T) {
		t.Parallel()
		s := opens(t, nil)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+signin.PathSignIn, strings.NewReader("token=good+operator"))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		require.Equal(t, http.StatusForbidden, s.does(r).StatusCode)
	})
}

func TestSignInByLink(t *testing.T) {
	t.Parallel()
	s := opens(t, func(cfg *Config) { cfg.Links = signin.NewLinks(func() time.Time { return noon }) })
	link, err := signin.NewLink(config.NewSecret(key), org, noon)
	require.NoError(t, err)
	at, err := url.Parse(link)
	require.NoError(t, err)
	for range 3 { // as programs do that look at links
		require.Equal(t, http.StatusOK, s.get(s.URL+link).StatusCode)
	}
	_, in := s.inside()
	require.False(t, in, "a look at the link does not use it up, and signs no reader in")
	require.Equal(t, http.StatusOK, s.post(signin.PathSignIn+"/link", at.Query()).StatusCode)
	who, in := s.inside()
	require.True(t, in)
	require.Equal(t, rpc.RoleOperator, who.Role)
	require.Equal(t, http.StatusForbidden, s.post(signin.PathSignIn+"/link", at.Query()).StatusCode, "it was used")
	before, err := signin.NewLink(config.NewSecret(key), org, noon.Add(-time.Second))
	require.NoError(t, err)
	require.Equal(t, http.StatusForbidden, s.get(s.URL+before).StatusCode, "it is of the process before")
	now := noon
	late := opens(t, func(cfg *Config) { cfg.Links = signin.NewLinks(func() time.Time { return now }) })
	now = noon.Add(10 * time.Minute)
	require.Equal(t, http.StatusForbidden, late.post(signin.PathSignIn+"/link", at.Query()).StatusCode, "it is over")
	off := opens(t, nil)
	require.Equal(t, root+"/sign-in", off.get(off.URL+link).Request.URL.Path, "without links there is no such page")
}

// testProvider is a provider of OpenID Connect, in process. A test can bend what it does.
type testProvider struct {
	*httptest.Server

	key    *jose.SigningKey
	public jose.JSONWebKey
	flows  map[string]url.Values // by code: what the visit asked for
	bend   func(claims map[string]any)
}

func newTestProvider(t *testing.T) *testProvider {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	p := &testProvider{
		key:    &jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: private, KeyID: "1"}},
		public: jose.JSONWebKey{Key: private.Public(), KeyID: "1", Algorithm: "ES256", Use: "sig"}, flows: map[string]url.Values{}, bend: func(map[string]any) {},
	}
	mux := http.NewServeMux()
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v) // or the client has gone
	}
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
			"id_token_signing_alg_values_supported": []string{"ES256"},
		})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{p.public}})
	})
	mux.HandleFunc("/authorize", func(w http.ResponseWriter, r *http.Request) {
		code := "code-" + r.FormValue("nonce")
		p.flows[code] = r.URL.Query()
		http.Redirect(w, r, r.FormValue("redirect_uri")+"?"+url.Values{"code": {code}, "state": {r.FormValue("state")}}.Encode(), http.StatusSeeOther)
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		flow, known := p.flows[r.FormValue("code")]
		delete(p.flows, r.FormValue("code"))
		sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
		id, secret, _ := r.BasicAuth()
		if !known || flow.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) || id != "paceline" || secret != "secret" {
			w.WriteHeader(http.StatusBadRequest)
			answer(w, map[string]any{"error": "invalid_grant"})
			return
		}
		claims := map[string]any{
			"iss": p.URL, "aud": "paceline", "sub": "ada", "exp": noon.Add(20 * time.Minute).Unix(), "iat": noon.Unix(), "nonce": flow.Get("nonce"),
			"org": org, "roles": []string{"reader", "operator"},
		}
		p.bend(claims)
		body, _ := json.Marshal(claims)
		signer, _ := jose.NewSigner(*p.key, nil)
		signed, _ := signer.Sign(body)
		token, _ := signed.CompactSerialize()
		answer(w, map[string]any{"access_token": "x", "token_type": "Bearer", "id_token": token})
	})
	return p
}

func (p *testProvider) configured(cfg *Config) {
	cfg.OIDC = signin.OIDC{Issuer: p.URL, ClientID: "paceline", ClientSecret: config.NewSecret("secret"), OrgClaim: "org", RoleClaim: "roles"}
}

// visits goes to the provider, and stops where it sends the browser back to.
func (s *site) visits(visit string) (returned string, at *url.URL) {
	s.t.Helper()
	s.browser.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if r.URL.Path == signin.PathSignIn+"/callback" {
			returned, at = r.URL.String(), r.URL
		}
		if strings.HasPrefix(r.URL.Path, root) {
			return http.ErrUseLastResponse
		}
		return nil
	}
	s.get(s.URL + visit)
	require.NotNil(s.t, at)
	return returned, at
}

func TestSignInByOpenIDConnect(t *testing.T) {
	t.Parallel()
	visit := signin.PathSignIn + "/provider" + "?" + url.Values{"to": {root + "/whoami"}}.Encode()
	t.Run("LastsAsLongAsTheIDToken", func(t *testing.T) {
		t.Parallel()
		p := newTestProvider(t)
		s := opens(t, p.configured)
		require.Equal(t, root+"/whoami", s.get(s.URL+visit).Request.URL.Path)
		who, in := s.inside()
		require.True(t, in)
		require.Equal(t, rpc.Principal{Subject: "ada", OrgID: org, Role: rpc.RoleOperator, Client: "192.0.2.1"}, who)
		s.now = noon.Add(20 * time.Minute)
		_, in = s.inside()
		require.False(t, in)
	})
	for name, bend := range map[string]func(map[string]any){
		"AnotherAudience":     func(c map[string]any) { c["aud"] = "another" },
		"AnotherIssuer":       func(c map[string]any) { c["iss"] = "https://evil.example" },
		"AnExpiredToken":      func(c map[string]any) { c["exp"] = noon.Add(-time.Minute).Unix() },
		"AnotherNonce":        func(c map[string]any) { c["nonce"] = "another" },
		"NoOrganisation":      func(c map[string]any) { delete(c, "org") },
		"AnOrganisationOfOne": func(c map[string]any) { c["org"] = "acme" },
		"NoRole":              func(c map[string]any) { delete(c, "roles") },
		"AnotherRole":         func(c map[string]any) { c["roles"] = []string{"reader"} },
		"NoSubject":           func(c map[string]any) { c["sub"] = "" },
	} {
		t.Run("Refuses"+name, func(t *testing.T) {
			t.Parallel()
			p := newTestProvider(t)
			p.bend = bend
			s := opens(t, p.configured)
			require.Equal(t, http.StatusForbidden, s.get(s.URL+visit).StatusCode)
			_, in := s.inside()
			require.False(t, in)
		})
	}
	t.Run("RefusesAReturnThatDidNotBeginHere", func(t *testing.T) {
		t.Parallel()
		p := newTestProvider(t)
		s := opens(t, p.configured)
		require.Equal(t, http.StatusForbidden, s.get(s.URL+signin.PathSignIn+"/callback"+"?code=x&state=y").StatusCode, "no visit")
		returned, _ := s.visits(visit)
		require.Equal(t, http.StatusForbidden, s.get(strings.Replace(returned, "state=", "state=x", 1)).StatusCode, "another state")
		require.Equal(t, http.StatusForbidden, s.get(returned).StatusCode, "the visit was used up")
	})
	t.Run("RefusesACodeThatIsShownTwice", func(t *testing.T) {
		t.Parallel()
		p := newTestProvider(t)
		s := opens(t, p.configured)
		returned, at := s.visits(visit)
		kept := s.browser.Jar.Cookies(at)
		require.Equal(t, http.StatusSeeOther, s.get(returned).StatusCode)
		_, in := s.inside()
		require.True(t, in)
		s.browser.Jar.SetCookies(at, kept) // as who has copied them
		require.Equal(t, http.StatusForbidden, s.get(returned).StatusCode)
	})
	t.Run("RefusesACodeOfAnotherVisit", func(t *testing.T) {
		t.Parallel()
		p := newTestProvider(t)
		s, other := opens(t, p.configured), opens(t, p.configured)
		mine, at := s.visits(visit)
		theirs, _ := other.visits(visit)
		answer, err := url.Parse(theirs)
		require.NoError(t, err)
		query := url.Values{"code": {answer.Query().Get("code")}, "state": at.Query()["state"]}
		require.Equal(t, http.StatusForbidden, s.get(s.URL+signin.PathSignIn+"/callback"+"?"+query.Encode()).StatusCode, "PKCE: it is for another verifier")
		require.Equal(t, http.StatusForbidden, s.get(mine).StatusCode, "the visit was used up")
	})
	t.Run("IsNotWaitedForLongerThanItsTime", func(t *testing.T) {
		t.Parallel()
		p := newTestProvider(t)
		s := opens(t, p.configured)
		returned, _ := s.visits(visit)
		s.now = noon.Add(10 * time.Minute)
		require.Equal(t, http.StatusForbidden, s.get(returned).StatusCode)
	})
	t.Run("NamesTheClaimAndNotWhatItSays", func(t *testing.T) {
		t.Parallel()
		p := newTestProvider(t)
		p.bend = func(c map[string]any) { c["org"] = "acme" }
		s := opens(t, p.configured)
		page, err := io.ReadAll(s.get(s.URL + visit).Body)
		require.NoError(t, err)
		require.Contains(t, string(page), "in the claim org.")
		require.NotContains(t, string(page), "acme")
	})
	t.Run("SaysThatTheProviderIsAway", func(t *testing.T) {
		t.Parallel()
		p := newTestProvider(t)
		p.Close()
		s := opens(t, p.configured)
		require.Equal(t, http.StatusForbidden, s.get(s.URL+visit).StatusCode)
		require.Equal(t, http.StatusOK, s.post(signin.PathSignIn, url.Values{"token": {"good operator"}}).StatusCode, "a token still does")
	})
}

func TestAFormOfAnExpiredSessionLeadsBackToItsPage(t *testing.T) {
	t.Parallel()
	s := opens(t, nil)
	here := root + "/inbox/01900000-0000-7000-8000-0000000000f1?view=mine"
	for back, want := range map[string]string{here: here, "https://evil.example/console": root, "": root} {
		answer := s.post(root+"/inbox/x/answer", url.Values{"back": {back}, "body": {"We call you"}})
		require.Equal(t, signin.PathSignIn, answer.Request.URL.Path)
		require.Contains(t, readsAll(t, answer), `name="to" value="`+strings.ReplaceAll(want, "&", "&amp;")+`"`)
	}
	var form bytes.Buffer
	parts := multipart.NewWriter(&form)
	require.NoError(t, parts.WriteField("back", here))
	require.NoError(t, parts.Close())
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+root+"/flows/nps/texts", &form)
	require.NoError(t, err)
	r.Header.Set("Content-Type", parts.FormDataContentType())
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	require.Contains(t, readsAll(t, s.does(r)), `name="to" value="`+here+`"`)
}
