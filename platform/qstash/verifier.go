package qstash

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
)

// What Verify finds wrong. Both mean: answer 401 and read nothing.
var (
	// ErrSignatureMissing is returned when the signature header is absent or empty.
	ErrSignatureMissing = errors.New("qstash: the signature is missing")
	// ErrSignatureInvalid is wrapped, with the reason, by every other refusal.
	ErrSignatureInvalid = errors.New("qstash: the signature is invalid")
)

const (
	issuer = "Upstash"
	// lifetime is the longest life of a signature of QStash.
	lifetime = 5 * time.Minute
	// defaultLeeway bounds the difference of our clock and QStash's.
	defaultLeeway = 5 * time.Second
	// maxSignature bounds the work that an unauthenticated caller can ask for. A real signature has about 500 bytes
	// plus four thirds of the URL.
	maxSignature = 8 << 10
)

// The signing keys that QStash publishes for its local development server: every reader of its documentation can sign with them.
// https://upstash.com/docs/qstash/howto/local-development
const (
	PublishedCurrentKey = "sig_7kYjw48mhY7kAjqNGcy6cr29RJ6r"
	PublishedNextKey    = "sig_5ZB6DVzB1wjE8S6rZ7eenA8Pdnhs"
)

// VerifierConfig holds the two signing keys of the account. Both are required, so that a missing setting stops the
// process instead of opening the door.
type VerifierConfig struct {
	CurrentKey, NextKey string
	// Leeway is the difference of clocks that is forgiven; zero means 5 s.
	Leeway time.Duration
	// Now is the clock that expiry is measured on. It is required.
	Now func() time.Time
}

// Verifier decides whether a request comes from QStash. It is safe for concurrent use.
type Verifier struct {
	parser *jwt.Parser
	keys   jwt.VerificationKeySet
}

// NewVerifier fails when a key or the clock is missing.
func NewVerifier(cfg VerifierConfig) (*Verifier, error) {
	switch {
	case strings.TrimSpace(cfg.CurrentKey) == "", strings.TrimSpace(cfg.NextKey) == "":
		return nil, errors.New("qstash: both the current and the next signing key are required")
	case cfg.Now == nil:
		return nil, errors.New("qstash: the verifier needs a clock")
	case cfg.Leeway < 0:
		return nil, errors.New("qstash: the leeway is negative")
	case cfg.Leeway == 0:
		cfg.Leeway = defaultLeeway
	}
	return &Verifier{
		parser: jwt.NewParser(
			jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}),
			jwt.WithIssuer(issuer),
			jwt.WithExpirationRequired(),
			jwt.WithLeeway(cfg.Leeway),
			jwt.WithTimeFunc(cfg.Now),
			jwt.WithStrictDecoding(), // else the last character has four spellings
		),
		// The keys are the bytes of the strings themselves; they are not base64.
		keys: jwt.VerificationKeySet{Keys: []jwt.VerificationKey{[]byte(cfg.CurrentKey), []byte(cfg.NextKey)}},
	}, nil
}

// Verify checks that signature, the value of HeaderSignature, was made by QStash for exactly this body and URL. The
// URL is the one that was published: the configured public origin and the request URI, never the Host header.
// It returns nil, ErrSignatureMissing, or an error that wraps ErrSignatureInvalid with a reason that holds no secret.
func (v *Verifier) Verify(signature string, body []byte, url string) error {
	if signature == "" {
		return ErrSignatureMissing
	}
	if len(signature) > maxSignature {
		return fmt.Errorf("%w: it is too long", ErrSignatureInvalid)
	}
	var got claims
	if _, err := v.parser.ParseWithClaims(signature, &got, func(*jwt.Token) (any, error) { return v.keys, nil }); err != nil {
		return fmt.Errorf("%w: %w", ErrSignatureInvalid, err)
	}
	// An empty URL is a wiring mistake; it must not match a token without a subject.
	if url == "" || got.Subject != url {
		return fmt.Errorf("%w: it was made for another URL", ErrSignatureInvalid)
	}
	if !sameHash(got.Body, bodyHash(body)) {
		return fmt.Errorf("%w: it was made for another body", ErrSignatureInvalid)
	}
	return nil
}

// Sign does what QStash does for every attempt: an HS256 token for this URL and body, valid for five minutes from
// now, with its own id. The emulator and tests use it.
func Sign(key, url string, body []byte, now time.Time) (string, error) {
	id, err := uuid.NewRandom()
	if err != nil {
		return "", fmt.Errorf("qstash: token id: %w", err)
	}
	return jwt.NewWithClaims(jwt.SigningMethodHS256, claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer:    issuer,
			Subject:   url,
			ExpiresAt: jwt.NewNumericDate(now.Add(lifetime)),
			NotBefore: jwt.NewNumericDate(now),
			IssuedAt:  jwt.NewNumericDate(now),
			ID:        "jwt_" + strings.ReplaceAll(id.String(), "-", ""),
		},
		Body: bodyHash(body),
	}).SignedString([]byte(key))
}

// claims has the claims of QStash's token. Body is the base64url SHA-256 of the raw body: documented with padding, and
// compared without it by the SDKs.
type claims struct {
	jwt.RegisteredClaims

	Body string `json:"body"`
}

func bodyHash(body []byte) string {
	sum := sha256.Sum256(body)
	return base64.URLEncoding.EncodeToString(sum[:])
}

func sameHash(a, b string) bool {
	a, b = strings.TrimRight(a, "="), strings.TrimRight(b, "=")
	return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}
