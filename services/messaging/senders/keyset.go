package senders

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"
)

// Keyset seals credentials with its primary key, and opens what any of its keys has sealed. Nil seals and opens nothing.
type Keyset struct{ aead tink.AEAD }

// ParseKeyset reads a cleartext Tink keyset for AEAD as JSON, or that in base64.
func ParseKeyset(text string) (*Keyset, error) {
	handle, err := handleOf(text)
	if err != nil {
		return nil, err
	}
	primitive, err := aead.New(handle)
	if err != nil {
		return nil, errUnreadable
	}
	return &Keyset{aead: primitive}, nil
}

// errUnreadable quotes nothing: Tink's own errors may.
var errUnreadable = errors.New("is no Tink keyset for AEAD in JSON, or in base64 of that; messaging keyset prints one")

func handleOf(text string) (*keyset.Handle, error) {
	raw := []byte(text)
	if !strings.HasPrefix(strings.TrimSpace(text), "{") {
		decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
		if err != nil {
			return nil, errUnreadable
		}
		raw = decoded
	}
	handle, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(bytes.NewReader(raw)))
	if err != nil {
		return nil, errUnreadable
	}
	return handle, nil
}

// NextKeyset returns a keyset in base64 that has the keys of another one and a new one, which seals nothing before it is promoted: a
// replica that has the other keyset could not open it. The first key of all, of an empty text, seals at once.
func NextKeyset(text string) (string, error) {
	manager := keyset.NewManager()
	if text != "" {
		handle, err := handleOf(text)
		if err != nil {
			return "", err
		}
		manager = keyset.NewManagerFromHandle(handle)
	}
	id, err := manager.Add(aead.AES256GCMKeyTemplate())
	if err == nil && text == "" {
		err = manager.SetPrimary(id)
	}
	if err != nil {
		return "", fmt.Errorf("make a key: %w", err)
	}
	return written(manager)
}

// ErrPromoted means that a keyset has no key that could be promoted.
var ErrPromoted = errors.New("has no key that is newer than the one that seals: messaging keyset adds one")

// PromoteKeyset returns a keyset in base64 with the same keys, of which the newest one seals; ErrPromoted.
func PromoteKeyset(text string) (string, error) {
	handle, err := handleOf(text)
	if err != nil {
		return "", err
	}
	newest, err := handle.Entry(handle.Len() - 1)
	if err != nil {
		return "", errUnreadable
	}
	if newest.IsPrimary() {
		return "", ErrPromoted
	}
	manager := keyset.NewManagerFromHandle(handle)
	if err := manager.SetPrimary(newest.KeyID()); err != nil {
		return "", fmt.Errorf("promote a key: %w", err)
	}
	return written(manager)
}

// written writes the keyset of a manager in base64.
func written(manager *keyset.Manager) (string, error) {
	handle, err := manager.Handle()
	if err != nil {
		return "", fmt.Errorf("make a keyset: %w", err)
	}
	var text bytes.Buffer
	if err := insecurecleartextkeyset.Write(handle, keyset.NewJSONWriter(&text)); err != nil {
		return "", fmt.Errorf("write the keyset: %w", err)
	}
	return base64.StdEncoding.EncodeToString(text.Bytes()), nil
}

// field names a sealed column.
type field string

const (
	apiKeySecret  field = "api_key_secret"
	authToken     field = "auth_token"
	nextAuthToken field = "next_auth_token" //nolint:gosec // a column
)

// place binds what is sealed to its row and column: moved to another one, it does not open.
func place(orgID, id uuid.UUID, f field) []byte {
	return []byte("paceline.senders\x00" + orgID.String() + "\x00" + id.String() + "\x00" + string(f))
}

// seal returns null for nothing.
func (k *Keyset) seal(orgID, id uuid.UUID, f field, text string) ([]byte, error) {
	switch {
	case text == "":
		return nil, nil
	case k == nil:
		return nil, ErrNoKeyset
	}
	sealed, err := k.aead.Encrypt([]byte(text), place(orgID, id, f))
	if err != nil {
		return nil, errors.New("senders: the credential cannot be sealed")
	}
	return sealed, nil
}

// errSealed is about a row that this keyset cannot open.
var errSealed = errors.New("SENDER_KEYSET has no key that opens the credentials of the stored senders: start with the keyset that they " +
	"were sealed with, next to newer keys if there are any; if it is lost, docs/organisations.md, A keyset that is lost")

func (k *Keyset) open(orgID, id uuid.UUID, f field, sealed []byte) (string, error) {
	switch {
	case len(sealed) == 0:
		return "", nil
	case k == nil:
		return "", fmt.Errorf("senders are stored: %w", errSealed)
	}
	text, err := k.aead.Decrypt(sealed, place(orgID, id, f))
	if err != nil {
		return "", fmt.Errorf("sender %s: %w", id, errSealed)
	}
	return string(text), nil
}

// Credentials holds the secrets of one sender in clear. They are never shown, logged or stored.
type Credentials struct{ APIKeySecret, AuthToken, NextAuthToken string }

// String keeps them out of what is printed.
func (Credentials) String() string { return "***" }

// GoString keeps them out of what is printed.
func (Credentials) GoString() string { return "***" }

// sealed are credentials as they are stored.
type sealed struct{ APIKeySecret, AuthToken, NextAuthToken []byte }

func (k *Keyset) sealAll(orgID, id uuid.UUID, c Credentials) (s sealed, err error) {
	var secretErr, tokenErr, nextErr error
	s.APIKeySecret, secretErr = k.seal(orgID, id, apiKeySecret, c.APIKeySecret)
	s.AuthToken, tokenErr = k.seal(orgID, id, authToken, c.AuthToken)
	s.NextAuthToken, nextErr = k.seal(orgID, id, nextAuthToken, c.NextAuthToken)
	return s, errors.Join(secretErr, tokenErr, nextErr)
}

func (k *Keyset) openAll(orgID, id uuid.UUID, s sealed) (c Credentials, err error) {
	var secretErr, tokenErr, nextErr error
	c.APIKeySecret, secretErr = k.open(orgID, id, apiKeySecret, s.APIKeySecret)
	c.AuthToken, tokenErr = k.open(orgID, id, authToken, s.AuthToken)
	c.NextAuthToken, nextErr = k.open(orgID, id, nextAuthToken, s.NextAuthToken)
	return c, errors.Join(secretErr, tokenErr, nextErr)
}

// Reseal opens the sealed columns of a sender with one keyset, and seals them with another: its row moves to another deployment. The
// columns are api_key_secret, auth_token and next_auth_token.
func Reseal(from, to *Keyset, orgID, id uuid.UUID, columns map[string][]byte) (map[string][]byte, error) {
	resealed := map[string][]byte{}
	for name, bytes := range columns {
		text, err := from.open(orgID, id, field(name), bytes)
		if err != nil {
			return nil, err
		}
		if resealed[name], err = to.seal(orgID, id, field(name), text); err != nil {
			return nil, err
		}
	}
	return resealed, nil
}
