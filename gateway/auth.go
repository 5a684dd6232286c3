package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"

	"paceline.internal/gateway/route"
	"paceline.internal/platform/apikey"
	"paceline.internal/platform/config"
	"paceline.internal/platform/rpc"
)

// longestLife bounds a token of /v1, whatever its exp is: a lost one expires by then.
const longestLife = 31 * 24 * time.Hour

// maxToken bounds the work that an unauthenticated caller can ask for.
const maxToken = 8 << 10

// authConfig has the keys of the tokens that are accepted on /v1. At least one of secret and jwks is set.
type authConfig struct {
	secret   config.Secret // signs HS256; several are separated by commas
	jwks     *jwks         // holds public keys; nil when there is none
	issuer   string        // required of every token when set
	audience string        // required of every token when set
	keys     *keyring
	tenants  *tenants
	// jwksPlatform lets tokens that jwks verifies have the role platform, too.
	jwksPlatform bool
	now          func() time.Time
}

// authenticator turns a bearer token into the principal that it speaks for.
type authenticator struct {
	parser  *jwt.Parser
	secrets jwt.VerificationKeySet
	jwks    *jwks
	keys    *keyring
	tenants *tenants
	// jwksPlatform is authConfig's.
	jwksPlatform bool
	now          func() time.Time
}

func newAuthenticator(cfg authConfig) (*authenticator, error) {
	var methods []string
	secrets, err := cfg.secret.Keys()
	if err != nil {
		return nil, fmt.Errorf("auth: the secret %w", err)
	}
	if len(secrets) > 0 {
		methods = append(methods, jwt.SigningMethodHS256.Alg())
	}
	if cfg.jwks != nil {
		methods = append(methods, "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
	}
	if len(methods) == 0 {
		return nil, errors.New("auth: neither a secret nor a JWKS is configured")
	}
	options := []jwt.ParserOption{
		jwt.WithValidMethods(methods), jwt.WithExpirationRequired(), jwt.WithTimeFunc(cfg.now), jwt.WithLeeway(5 * time.Second),
	}
	if cfg.issuer != "" {
		options = append(options, jwt.WithIssuer(cfg.issuer))
	}
	if cfg.audience != "" {
		options = append(options, jwt.WithAudience(cfg.audience))
	}
	a := &authenticator{
		parser: jwt.NewParser(options...), jwks: cfg.jwks, keys: cfg.keys, tenants: cfg.tenants, jwksPlatform: cfg.jwksPlatform, now: cfg.now,
	}
	for _, secret := range secrets {
		a.secrets.Keys = append(a.secrets.Keys, []byte(secret))
	}
	return a, nil
}

// claims are the claims that a token of /v1 must have.
type claims struct {
	jwt.RegisteredClaims

	OrgID string `json:"org_id"`
	Role  string `json:"role"`
}

// caller reads the Authorization header, and refuses the callers of an organisation that has ended.
func (a *authenticator) caller(ctx context.Context, header string) (caller, error) {
	who, err := a.bearer(ctx, header)
	if err == nil {
		err = a.tenants.check(ctx, who.Principal)
	}
	if err != nil {
		return caller{}, err
	}
	return who, nil
}

// bearer reads an API key or a JWT. Its errors never repeat the token.
func (a *authenticator) bearer(ctx context.Context, header string) (caller, error) {
	scheme, token, _ := strings.Cut(header, " ")
	switch {
	case header == "":
		return caller{}, errors.New("send the header Authorization: Bearer <API key or JWT>")
	case !strings.EqualFold(scheme, "Bearer") || token == "":
		return caller{}, errors.New("the Authorization header must be Bearer <API key or JWT>")
	case len(token) > maxToken:
		return caller{}, errors.New("the token is too long")
	case apikey.Is(token):
		return a.keys.caller(ctx, token)
	}
	got, err := a.claims(ctx, token)
	if err != nil {
		return caller{}, err
	}
	who, err := got.principal()
	return caller{Principal: who, expires: got.ExpiresAt.Time}, err
}

// claims reads a JWT.
func (a *authenticator) claims(ctx context.Context, token string) (got claims, err error) {
	read, err := a.parser.ParseWithClaims(token, &got, a.key(ctx))
	if err != nil {
		return got, explain(err)
	}
	if rpc.Role(got.Role) == rpc.RolePlatform && read.Method != jwt.SigningMethodHS256 && !a.jwksPlatform {
		return got, errors.New("a token with the role platform must be signed with API_JWT_SECRET, unless API_JWKS_PLATFORM is on")
	}
	if err := rpc.CheckLife(token, got.RegisteredClaims, a.now(), longestLife); err != nil {
		return got, fmt.Errorf("the token is not accepted: %w", err)
	}
	return got, nil
}

// key chooses the source by the method, which the parser has already pinned: a secret verifies HS256 and nothing else,
// and a JWKS never does, or its public keys would be HMAC secrets that any client can read.
func (a *authenticator) key(ctx context.Context) jwt.Keyfunc {
	return func(token *jwt.Token) (any, error) {
		if token.Method == jwt.SigningMethodHS256 {
			return a.secrets, nil
		}
		return a.jwks.keys.KeyfuncCtx(ctx)(token)
	}
}

func (c claims) principal() (rpc.Principal, error) {
	org, err := uuid.Parse(c.OrgID)
	platform := rpc.Role(c.Role) == rpc.RolePlatform
	switch {
	case c.Subject == "":
		return rpc.Principal{}, errors.New("the token has no sub")
	case strings.HasPrefix(c.Subject, subjectOfKeys):
		return rpc.Principal{}, errors.New("the token's sub must not begin with key:, as those of API keys do")
	case rpc.CheckSubject(c.Subject) != nil: // it is kept and logged
		return rpc.Principal{}, errors.New("the token's sub must have at most 200 bytes and no control characters")
	case platform && c.OrgID != "":
		return rpc.Principal{}, errors.New("a token with the role platform must have no org_id: it belongs to no organisation")
	case platform:
		return rpc.Principal{Subject: c.Subject, Role: rpc.RolePlatform}, nil
	case err != nil || org == uuid.Nil:
		return rpc.Principal{}, errors.New("the token's org_id must be a UUID")
	case !slices.Contains([]rpc.Role{rpc.RoleOperator, rpc.RoleApp, rpc.RoleUser}, rpc.Role(c.Role)):
		return rpc.Principal{}, errors.New("the token's role must be operator, app, user or platform")
	}
	return rpc.Principal{Subject: c.Subject, OrgID: org.String(), Role: rpc.Role(c.Role)}, nil
}

// explain names what is wrong with a token in fixed words: the library's errors may quote parts of it.
func explain(err error) error {
	for _, known := range []struct {
		is   error
		text string
	}{
		{jwt.ErrTokenMalformed, "the token is malformed"},
		{jwt.ErrTokenSignatureInvalid, "the token's signature or its method is not accepted"},
		{jwt.ErrTokenUnverifiable, "the token's key is not known"},
		{jwt.ErrTokenRequiredClaimMissing, "the token lacks exp, or a configured iss or aud"},
		{jwt.ErrTokenExpired, "the token has expired"},
		{jwt.ErrTokenNotValidYet, "the token is not valid yet"},
		{jwt.ErrTokenInvalidIssuer, "the token's iss is not accepted"},
		{jwt.ErrTokenInvalidAudience, "the token's aud is not accepted"},
	} {
		if errors.Is(err, known.is) {
			return errors.New(known.text)
		}
	}
	return errors.New("the token is not accepted")
}

// tokenLifeKey holds the time that the token of a request has left, for a stream.
type tokenLifeKey struct{}

// watchEvery is the interval at which the caller of a stream is looked up again. Most times the answer is known already: with trust it
// bounds how long a stream goes on for somebody who was refused just after another call asked about them.
const watchEvery = time.Second

// whileValid ends the context of a request when its token expires, or its API key is revoked.
func (a *authenticator) whileValid(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		life, _ := r.Context().Value(tokenLifeKey{}).(time.Duration)
		ctx, cancel := context.WithTimeout(r.Context(), life)
		var watch sync.WaitGroup
		defer watch.Wait()
		defer cancel()
		watch.Go(func() {
			defer cancel()
			a.awaitRefusal(ctx)
		})
		next(w, r.WithContext(ctx))
	})
}

// awaitRefusal returns when the caller of a context is not accepted any more, or the context ends. An outage ends nothing.
func (a *authenticator) awaitRefusal(ctx context.Context) {
	who, _ := rpc.PrincipalFrom(ctx)
	again := time.NewTicker(watchEvery)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
		if err := a.still(ctx, who); err != nil && !outage(err) && ctx.Err() == nil {
			return
		}
	}
}

// still reports why a caller who was accepted before is not accepted any more, or that it is not known now; see outage.
func (a *authenticator) still(ctx context.Context, who rpc.Principal) error {
	if err := a.keys.still(ctx, who); err != nil {
		return err
	}
	return a.tenants.check(ctx, who)
}

// outage reports whether an error about a caller only says that it is not known now whether they are accepted.
func outage(err error) bool {
	refused, ok := errors.AsType[*rpc.Error](err)
	return ok && route.Transient(refused.Code)
}

// require lets a request on only with a valid token, as the principal that the token names.
func (a *authenticator) require(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := a.caller(r.Context(), r.Header.Get("Authorization"))
		if err != nil {
			route.EventFrom(r.Context()).At(r, "/v1")
			refuse(w, r, err)
			return
		}
		who.Client = route.ClientFrom(r.Context())
		route.EventFrom(r.Context()).Add(slog.String("org_id", who.OrgID), slog.String("role", string(who.Role)), who.LogSubject())
		ctx := context.WithValue(r.Context(), tokenLifeKey{}, who.expires.Sub(a.now()))
		next.ServeHTTP(w, r.WithContext(rpc.WithPrincipal(ctx, who.Principal)))
	})
}

// refuse answers a caller who is not let on.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	if later, ok := errors.AsType[*rpc.Error](err); ok {
		route.WriteError(r.Context(), w, runtime.HTTPStatusFromCode(later.Code), later)
		return
	}
	w.Header().Set("WWW-Authenticate", "Bearer")
	route.WriteError(r.Context(), w, http.StatusUnauthorized, route.Refuse(codes.Unauthenticated, route.ReasonUnauthenticated, err.Error()))
}

// jwks are the public keys behind a URL, fetched in the background for as long as their context lives.
type jwks struct{ keys keyfunc.Keyfunc }

// newJWKS does not fail when the URL cannot be reached now: until it can, its tokens are refused. An unknown key
// id makes it fetch again, at most twice a minute, so that unknown ids cannot be used to flood the issuer.
func newJWKS(ctx context.Context, log *slog.Logger, url string) (*jwks, error) {
	keys, err := keyfunc.NewDefaultOverrideCtx(ctx, []string{url}, keyfunc.Override{
		Client:            &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{Proxy: http.ProxyFromEnvironment}},
		HTTPTimeout:       5 * time.Second,
		RateLimitWaitMax:  3 * time.Second,
		RefreshInterval:   15 * time.Minute,
		RefreshUnknownKID: rate.NewLimiter(rate.Every(30*time.Second), 1),
		RefreshErrorHandlerFunc: func(string) func(context.Context, error) {
			return func(ctx context.Context, err error) {
				log.WarnContext(ctx, "gateway.jwks_unreachable", "error", err)
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("auth: JWKS: %w", err)
	}
	return &jwks{keys: keys}, nil
}
