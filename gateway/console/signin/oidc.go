package signin

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/google/uuid"
	"golang.org/x/oauth2"

	"paceline.internal/platform/config"
	"paceline.internal/platform/rpc"
)

// OIDC is the provider of OpenID Connect that people sign in with. The zero value is none; else every field is needed.
type OIDC struct {
	Issuer       string
	ClientID     string
	ClientSecret config.Secret
	OrgClaim     string // the claim of an ID token that has the UUID of the organisation
	RoleClaim    string // the claim that is operator, or a list with it
}

const (
	flowLife        = 10 * time.Minute // what a person has at the provider
	providerTimeout = 5 * time.Second  // one answer of the provider
	maxProvided     = 1 << 20          // bytes of one answer
)

// flow is a visit to the provider, as the browser keeps it until it comes back.
type flow struct {
	State    string    `json:"state"`
	Nonce    string    `json:"nonce"`
	Verifier string    `json:"verifier"` // of PKCE
	To       string    `json:"to"`       // the page that was asked for
	Expires  time.Time `json:"exp"`
}

// provider is the one that operators sign in with. It is asked for its endpoints when the first operator signs in: a gateway starts without
// it, and until it answers, no operator can sign in this way.
type provider struct {
	OIDC

	callback string
	client   *http.Client
	now      func() time.Time

	asking chan struct{} // has one element while found is read, or the provider is asked for it
	found  *oidc.Provider
}

func newProvider(cfg OIDC, callback string, now func() time.Time) *provider {
	return &provider{
		OIDC: cfg, callback: callback, now: now, asking: make(chan struct{}, 1),
		client: &http.Client{Timeout: providerTimeout, Transport: brief{&http.Transport{
			Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, // it is asked a few times a day
		}}},
	}
}

// brief bounds the body of an answer.
type brief struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b brief) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	answer.Body = http.MaxBytesReader(nil, answer.Body, maxProvided)
	return answer, nil
}

// ask reads the endpoints of the provider. It asks again each time until it has answered.
func (p *provider) ask(ctx context.Context) (*oidc.Provider, error) {
	select {
	case p.asking <- struct{}{}:
		defer func() { <-p.asking }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if p.found != nil {
		return p.found, nil
	}
	found, err := oidc.NewProvider(ctx, p.Issuer)
	if err != nil {
		return nil, err
	}
	p.found = found
	return found, nil
}

// Look asks the provider for its endpoints, as signing in does first.
func (cfg OIDC) Look(ctx context.Context) error {
	p := newProvider(cfg, "", nil)
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	_, err := p.ask(ctx)
	return err
}

// bounded is the context of what is asked of the provider for one request.
func (p *provider) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(oidc.ClientContext(ctx, p.client), 2*providerTimeout)
}

func (p *provider) oauth(found *oidc.Provider) *oauth2.Config {
	return &oauth2.Config{
		ClientID: p.ClientID, ClientSecret: p.ClientSecret.Reveal(), Endpoint: found.Endpoint(), RedirectURL: p.callback,
		Scopes: []string{oidc.ScopeOpenID, "profile", "email"},
	}
}

// begin is a visit to the provider, and the URL where it begins.
func (p *provider) begin(ctx context.Context, to string) (f flow, url string, err error) {
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	found, err := p.ask(ctx)
	if err != nil {
		return f, "", refused{key: "signin.provider.away", cause: err}
	}
	f = flow{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), To: to, Expires: p.now().Add(flowLife)}
	return f, p.oauth(found).AuthCodeURL(f.State, oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier)), nil
}

// end returns the person who comes back from the provider, and the expiry of its token.
func (p *provider) end(ctx context.Context, f flow, answer url.Values) (who rpc.Principal, expires time.Time, err error) {
	switch {
	case !p.now().Before(f.Expires) || subtle.ConstantTimeCompare([]byte(answer.Get("state")), []byte(f.State)) != 1:
		return who, expires, refused{key: "signin.flow.lost"}
	case answer.Get("error") != "" || answer.Get("code") == "":
		return who, expires, refused{key: "signin.provider.refused"}
	}
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	found, err := p.ask(ctx)
	if err != nil {
		return who, expires, refused{key: "signin.provider.away", cause: err}
	}
	tokens, err := p.oauth(found).Exchange(ctx, answer.Get("code"), oauth2.VerifierOption(f.Verifier))
	if err != nil {
		return who, expires, refused{key: "signin.provider.refused", cause: exchangeError(err)}
	}
	raw, _ := tokens.Extra("id_token").(string)
	token, err := found.Verifier(&oidc.Config{ClientID: p.ClientID, Now: p.now}).Verify(ctx, raw)
	if err != nil {
		return who, expires, refused{key: "signin.provider.token", cause: tokenError(err)}
	}
	if subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(f.Nonce)) != 1 {
		return who, expires, refused{key: "signin.provider.token", cause: errors.New("the nonce is another")}
	}
	who, err = p.principal(token)
	return who, token.Expiry, err
}

// principal reads the claims. What it refuses it names by the claim, never by its value.
func (p *provider) principal(token *oidc.IDToken) (rpc.Principal, error) {
	var claims map[string]any
	if err := token.Claims(&claims); err != nil {
		return rpc.Principal{}, refused{key: "signin.provider.token", cause: errors.New("the claims are no object")}
	}
	text, _ := claims[p.OrgClaim].(string)
	org, err := uuid.Parse(text)
	switch {
	case rpc.CheckSubject(token.Subject) != nil:
		return rpc.Principal{}, refused{key: "signin.claim.missing", claim: "sub"}
	case err != nil || org == uuid.Nil:
		return rpc.Principal{}, refused{key: "signin.claim.missing", claim: p.OrgClaim}
	case claims[p.RoleClaim] == nil:
		return rpc.Principal{}, refused{key: "signin.claim.missing", claim: p.RoleClaim}
	case !names(claims[p.RoleClaim], rpc.RoleOperator):
		return rpc.Principal{}, refused{key: "signin.claim.role", claim: p.RoleClaim}
	}
	return rpc.Principal{Subject: token.Subject, OrgID: org.String(), Role: rpc.RoleOperator}, nil
}

// names reports whether a claim is a role, or a list with it.
func names(claim any, role rpc.Role) bool {
	if list, ok := claim.([]any); ok {
		return slices.ContainsFunc(list, func(one any) bool { return one == string(role) })
	}
	return claim == string(role)
}

// exchangeError explains why the provider gave no tokens, without its answer, which may quote the code.
func exchangeError(err error) error {
	if answer, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return fmt.Errorf("the provider refused the code with status %d", answer.Response.StatusCode)
	}
	return errors.New("the provider did not exchange the code")
}

// tokenError names the fault of an ID token, without its content.
func tokenError(err error) error {
	if _, ok := errors.AsType[*oidc.TokenExpiredError](err); ok {
		return errors.New("the ID token has expired")
	}
	return errors.New("the ID token is malformed, or its signature, issuer or audience is not accepted")
}

// refused explains why a person is not signed in: the text of the page, and for the log its cause, in which there is no secret.
type refused struct {
	key   string // in the catalog
	claim string // which it is about
	cause error
}

// Error implements error.
func (r refused) Error() string {
	text := r.key
	if r.claim != "" {
		text += ": " + r.claim
	}
	if r.cause != nil {
		text += ": " + r.cause.Error()
	}
	return text
}
