// Package apikeys has the keys with which programs of an organisation call /v1.
package apikeys

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Role is the role that a key gives its holder.
type Role string

// The roles of keys. Tokens of users stay JWTs, and no key belongs to the platform.
const (
	Operator Role = "operator"
	App      Role = "app"
)

const (
	// MaxKeys bounds the keys of an organisation that are neither revoked nor expired, and maxRows all that are kept.
	MaxKeys = 100
	maxRows = 1000
	// KeptFor bounds the time for which a key is listed after it was revoked or has expired.
	KeptFor = 30 * 24 * time.Hour
	// usedEvery bounds how often the last use of a key is written.
	usedEvery = time.Minute
	// maxName bounds the name of a key, in characters, as the table has it.
	maxName = 60
)

var (
	// ErrInvalid means that a key may not be as it is described.
	ErrInvalid = errors.New("the API key cannot be made")
	// ErrNotFound means that there is no such key, or that it was revoked or has expired.
	ErrNotFound = errors.New("there is no such API key, or it was revoked or has expired")
	// ErrNotFirst means that an organisation has a key of an operator already.
	ErrNotFirst = errors.New("the organisation has an API key of an operator")
	// ErrTooMany means that an organisation has as many keys as it may.
	ErrTooMany = errors.New("the organisation has as many API keys as it may: revoke those that are not used (GET /v1/api_keys)")
)

// Key is a key, without its secret.
type Key struct {
	ID         string
	OrgID      string
	Name       string
	Role       Role
	EndsWith   string
	CreatedAt  time.Time
	CreatedBy  *string // the actor, see audit.Read
	ExpiresAt  *time.Time
	LastUsedAt *time.Time
	RevokedAt  *time.Time
	RevokedBy  *string
}

// Validate refuses what a new key may not be; ErrInvalid.
func (k Key) Validate() error {
	n := utf8.RuneCountInString(k.Name)
	switch {
	case n == 0 || n > maxName || !utf8.ValidString(k.Name) || strings.ContainsFunc(k.Name, unicode.IsControl):
		return fmt.Errorf("%w: name must be 1 to %d characters: what the key is for", ErrInvalid, maxName)
	case k.Role != Operator && k.Role != App:
		return fmt.Errorf("%w: role must be operator or app; a user's token is a JWT", ErrInvalid)
	case k.ExpiresAt != nil && !k.ExpiresAt.After(k.CreatedAt):
		return fmt.Errorf("%w: expires_at is over; leave it out for a key that does not expire", ErrInvalid)
	}
	return nil
}
