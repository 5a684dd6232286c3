package rpc

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"paceline.internal/platform/config"
)

const (
	// DefaultTokenTTL is the life of the tokens of the client chain.
	DefaultTokenTTL = 5 * time.Minute

	issuer = "paceline"
	// audience keeps a token of another program that shares the secret by mistake from being a service token.
	audience = "paceline.grpc"
	// longestLife bounds exp - iat of a service token, whatever it says: an operator's is for one piece of work.
	longestLife = 24 * time.Hour
	// minSecret is the size of HS256's key; a shorter one would be the weakest part of the signature.
	minSecret = 32
	// leeway forgives clocks that differ a little between machines.
	leeway = 5 * time.Second
)

// ErrInvalidToken is returned by Verify for every token that it does not accept. The wrapped cause is for the log.
var ErrInvalidToken = errors.New("invalid service token")

// Tokens mints and verifies the tokens that services and operators call gRPC with: JWTs signed with Ed25519; their header kid names the
// signing process; iss paceline, aud paceline.grpc, and the claims sub, org_id, role, exp and iat, and client where the call of a
// person is passed on. A secret that all processes share signs with HS256 instead, and names no process.
type Tokens struct {
	process string             // the owner of the key signing
	signing ed25519.PrivateKey // nil: the first of shared signs
	public  map[string][]ed25519.PublicKey
	shared  []string
	now     func() time.Time
	parser  *jwt.Parser

	mu       sync.Mutex
	verified map[string]verification // by the token
}

// verification is the result of checking a token.
type verification struct {
	caller Principal
	expiry time.Time
	at     time.Time
}

const (
	// believedFor is the time for which a token that was found valid is not looked at again: callers send one token with each of their
	// calls.
	believedFor = time.Second
	// maxVerified bounds what is kept; it is emptied when it is full.
	maxVerified = 1024
)

// CheckSecret reports a secret that is too short to sign with, or one of several, under the name of its variable.
func CheckSecret(variable string, secret config.Secret) error {
	const help = "make one with: openssl rand -hex 32; several are parted by commas, and the first one signs"
	keys, err := secret.Keys()
	if err != nil {
		return &config.Problem{Variable: variable, Reason: err.Error(), Help: help}
	}
	if len(keys) == 0 || slices.ContainsFunc(keys, func(key string) bool { return len(key) < minSecret }) {
		return &config.Problem{Variable: variable, Reason: fmt.Sprintf("must have at least %d bytes", minSecret), Help: help}
	}
	return nil
}

// NewTokens makes the tokens of a process. now is the machine's clock also where the product runs on a faster one: a token that is on its
// way while a clock jumps would expire.
func NewTokens(keys Keys, now func() time.Time) (*Tokens, error) {
	t := &Tokens{process: keys.Process, verified: map[string]verification{}, now: now}
	var err error
	if !keys.Signing.IsZero() {
		if t.signing, err = privateKey(keys.Signing); err != nil {
			return nil, fmt.Errorf("the signing key of %s %w", keys.Process, err)
		}
	}
	if t.public, err = publicKeys(keys.Public); err != nil {
		return nil, fmt.Errorf("SERVICE_PUBLIC_KEYS %w", err)
	}
	methods := []string{jwt.SigningMethodEdDSA.Alg()}
	if !keys.Shared.IsZero() {
		if err := CheckSecret("SERVICE_AUTH_SECRET", keys.Shared); err != nil {
			return nil, err
		}
		if t.shared, err = keys.Shared.Keys(); err != nil {
			return nil, err
		}
		methods = append(methods, jwt.SigningMethodHS256.Alg())
	}
	if t.signing == nil && t.shared == nil && len(t.public) == 0 {
		return nil, errors.New("service tokens: there is no key to sign with, and none to believe")
	}
	t.parser = jwt.NewParser(
		jwt.WithValidMethods(methods),
		jwt.WithIssuer(issuer),
		jwt.WithExpirationRequired(),
		jwt.WithIssuedAt(),
		jwt.WithLeeway(leeway),
		jwt.WithTimeFunc(now),
		jwt.WithStrictDecoding(),
	)
	return t, nil
}

type claims struct {
	jwt.RegisteredClaims

	OrgID  string `json:"org_id,omitempty"`
	Role   Role   `json:"role"`
	Client string `json:"client,omitempty"`
}

// Mint makes a token for p that is valid for ttl from now.
func (t *Tokens) Mint(p Principal, ttl time.Duration) (string, error) {
	if err := p.Validate(); err != nil {
		return "", fmt.Errorf("mint a token: %w", err)
	}
	if ttl <= 0 || ttl > longestLife {
		return "", fmt.Errorf("mint a token: %s is no lifetime, want one up to %s", ttl, longestLife)
	}
	now := t.now()
	signed := claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: issuer, Subject: p.Subject, Audience: jwt.ClaimStrings{audience},
			IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(ttl)),
		},
		OrgID:  p.OrgID,
		Role:   p.Role,
		Client: p.Client,
	}
	if t.signing == nil {
		if len(t.shared) == 0 {
			return "", errors.New("mint a token: this process has no signing key")
		}
		return jwt.NewWithClaims(jwt.SigningMethodHS256, signed).SignedString([]byte(t.shared[0]))
	}
	if err := mayClaim(t.process, p); err != nil { // better known here than from a refusal
		return "", fmt.Errorf("mint a token: %w", err)
	}
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, signed)
	token.Header["kid"] = t.process
	return token.SignedString(t.signing)
}

// Verify returns whom a token speaks for, or an error that is ErrInvalidToken.
func (t *Tokens) Verify(token string) (Principal, error) {
	p, _, err := t.verify(token)
	return p, err
}

// verify is Verify, with the end of the token. A token is read again once a second, and at its end.
func (t *Tokens) verify(token string) (p Principal, expiry time.Time, err error) {
	now := t.now()
	t.mu.Lock()
	known, ok := t.verified[token]
	t.mu.Unlock()
	if age := now.Sub(known.at); ok && age >= 0 && age < believedFor && now.Before(known.expiry) {
		return known.caller, known.expiry, nil
	}
	p, expiry, err = t.read(token)
	if err != nil {
		return p, expiry, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.verified) >= maxVerified {
		clear(t.verified)
	}
	t.verified[token] = verification{caller: p, expiry: expiry, at: now}
	return p, expiry, nil
}

// read verifies a token.
func (t *Tokens) read(token string) (p Principal, expiry time.Time, err error) {
	var c claims
	parsed, err := t.parser.ParseWithClaims(token, &c, t.believed)
	if err != nil {
		return Principal{}, expiry, fmt.Errorf("%w: %w", ErrInvalidToken, err)
	}
	if !slices.Contains(c.Audience, audience) {
		return Principal{}, expiry, fmt.Errorf("%w: its aud is not %s", ErrInvalidToken, audience)
	}
	if err := CheckLife(token, c.RegisteredClaims, t.now(), longestLife); err != nil {
		return Principal{}, expiry, fmt.Errorf("%w: %w", ErrInvalidToken, err)
	}
	p = Principal{Subject: c.Subject, OrgID: c.OrgID, Role: c.Role, Client: c.Client}
	if err := p.Validate(); err != nil {
		return Principal{}, expiry, fmt.Errorf("%w: %w", ErrInvalidToken, err)
	}
	if parsed.Method == jwt.SigningMethodEdDSA {
		process, _ := parsed.Header["kid"].(string) // one that believed has keys of
		if err := mayClaim(process, p); err != nil {
			return Principal{}, expiry, fmt.Errorf("%w: %w", ErrInvalidToken, err)
		}
	}
	return p, c.ExpiresAt.Time, nil
}

// believed are the keys that may have signed a token: never a public key for HS256, because any caller may know it.
func (t *Tokens) believed(token *jwt.Token) (any, error) {
	var keys jwt.VerificationKeySet
	if token.Method == jwt.SigningMethodEdDSA {
		process, _ := token.Header["kid"].(string)
		for _, key := range t.public[process] {
			keys.Keys = append(keys.Keys, key)
		}
	} else {
		for _, secret := range t.shared {
			keys.Keys = append(keys.Keys, []byte(secret))
		}
	}
	if len(keys.Keys) == 0 {
		return nil, errors.New("no key of its process is known")
	}
	return keys, nil
}

// CheckLife refuses a verified token with a time that is not a number, which the library reads all the same, and one that lives longer than
// longest: from its iat, or from now when it has none or one in the future. Its errors repeat nothing of the token.
func CheckLife(token string, c jwt.RegisteredClaims, now time.Time, longest time.Duration) error {
	_, rest, _ := strings.Cut(token, ".")
	payload, _, _ := strings.Cut(rest, ".")
	decoded, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		return errors.New("its claims are not base64")
	}
	var times struct {
		ExpiresAt json.RawMessage `json:"exp"`
		IssuedAt  json.RawMessage `json:"iat"`
		NotBefore json.RawMessage `json:"nbf"`
	}
	if err := json.Unmarshal(decoded, &times); err != nil {
		return errors.New("its claims are not one JSON object")
	}
	for _, at := range []json.RawMessage{times.ExpiresAt, times.IssuedAt, times.NotBefore} {
		if bytes.HasPrefix(at, []byte(`"`)) {
			return errors.New("exp, iat and nbf must be numbers")
		}
	}
	begins := now
	if c.IssuedAt != nil && c.IssuedAt.Before(now) {
		begins = c.IssuedAt.Time
	}
	if c.ExpiresAt == nil || c.ExpiresAt.Sub(begins) > longest+leeway {
		return fmt.Errorf("it lives longer than %s", longest)
	}
	return nil
}
