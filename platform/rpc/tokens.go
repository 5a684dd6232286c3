package rpc

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"paceline.internal/platform/config"
)

const (
	// DefaultTokenTTL is how long the tokens of the client chain live.
	DefaultTokenTTL = 5 * time.Minute

	issuer = "paceline"
	// minSecret is the size of HS256's key; a shorter one would be the weakest part of the signature.
	minSecret = 32
	// leeway forgives clocks that differ a little between machines.
	leeway = 5 * time.Second
)

// ErrInvalidToken is what Verify returns for every token that it does not accept. The wrapped cause is for the log.
var ErrInvalidToken = errors.New("invalid service token")

// Tokens mints and verifies the tokens that services and operators call gRPC with: JWTs signed with HS256, iss paceline,
// and the claims sub, org_id, role, exp and iat.
type Tokens struct {
	secret []byte // signs
	keys   jwt.VerificationKeySet
	now    func() time.Time
	parser *jwt.Parser
}

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

// NewTokens signs with SERVICE_AUTH_SECRET, which must have at least 32 bytes; of several the first one signs, and all are
// believed. now is the machine's clock also where the
// product runs on a faster one: a token that is on its way while a clock jumps would expire.
func NewTokens(secret config.Secret, now func() time.Time) (*Tokens, error) {
	if err := CheckSecret("SERVICE_AUTH_SECRET", secret); err != nil {
		return nil, err
	}
	keys, err := secret.Keys()
	if err != nil {
		return nil, err
	}
	var believed jwt.VerificationKeySet
	for _, key := range keys {
		believed.Keys = append(believed.Keys, []byte(key))
	}
	return &Tokens{
		secret: []byte(keys[0]),
		keys:   believed,
		now:    now,
		parser: jwt.NewParser(
			jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}),
			jwt.WithIssuer(issuer),
			jwt.WithExpirationRequired(),
			jwt.WithIssuedAt(),
			jwt.WithLeeway(leeway),
			jwt.WithTimeFunc(now),
			jwt.WithStrictDecoding(),
		),
	}, nil
}

type claims struct {
	jwt.RegisteredClaims

	OrgID string `json:"org_id,omitempty"`
	Role  Role   `json:"role"`
}

// Mint makes a token for p that is valid for ttl from now.
func (t *Tokens) Mint(p Principal, ttl time.Duration) (string, error) {
	if err := p.Validate(); err != nil {
		return "", fmt.Errorf("mint a token: %w", err)
	}
	if ttl <= 0 {
		return "", fmt.Errorf("mint a token: %s is no lifetime", ttl)
	}
	now := t.now()
	token := jwt.NewWithClaims(jwt.SigningMethodHS256, claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: issuer, Subject: p.Subject, IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(ttl)),
		},
		OrgID: p.OrgID,
		Role:  p.Role,
	})
	return token.SignedString(t.secret)
}

// Verify returns whom a token speaks for, or an error that is ErrInvalidToken.
func (t *Tokens) Verify(token string) (Principal, error) {
	var c claims
	if _, err := t.parser.ParseWithClaims(token, &c, func(*jwt.Token) (any, error) { return t.keys, nil }); err != nil {
		return Principal{}, fmt.Errorf("%w: %w", ErrInvalidToken, err)
	}
	p := Principal{Subject: c.Subject, OrgID: c.OrgID, Role: c.Role}
	if err := p.Validate(); err != nil {
		return Principal{}, fmt.Errorf("%w: %w", ErrInvalidToken, err)
	}
	return p, nil
}
