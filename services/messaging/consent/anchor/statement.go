// Package anchor writes what the consent ledgers say to files outside the database, signed by a key that is not in the database, and
// finds a ledger that was rewritten or deleted since.
package anchor

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"paceline.internal/services/messaging/consent"
)

// version is the first field of what is signed, and names the encoding.
const version = "paceline-anchor-1"

// Entry is the witness of a ledger after so many lines. Its name says nothing about the phone.
type Entry struct {
	Ledger  uuid.UUID `json:"ledger"`
	Lines   int       `json:"lines"`
	Witness string    `json:"witness"` // see consent.Witnesses
}

// Statement is one line of a file of anchors. What is signed are netstrings of the version, Number, At in microseconds since 1970 UTC,
// Previous, and of each entry its ledger, lines and witness.
type Statement struct {
	Version   string    `json:"version"`
	Number    int64     `json:"number"` // from 1
	At        time.Time `json:"at"`
	Previous  string    `json:"previous"` // the Hash of the statement before; empty in the first
	Ledgers   []Entry   `json:"ledgers"`
	Signature string    `json:"signature"` // Ed25519, in base64
}

func (s *Statement) encoded() []byte {
	fields := []string{s.Version, strconv.FormatInt(s.Number, 10), strconv.FormatInt(s.At.UnixMicro(), 10), s.Previous}
	for _, e := range s.Ledgers {
		fields = append(fields, e.Ledger.String(), strconv.Itoa(e.Lines), e.Witness)
	}
	return []byte(consent.Netstrings(fields...))
}

// Hash returns what the next statement and the database know this one by.
func (s *Statement) Hash() string {
	sum := sha256.Sum256(s.encoded())
	return hex.EncodeToString(sum[:])
}

// signedBy reports whether one of the keys has signed it.
func (s *Statement) signedBy(keys []ed25519.PublicKey) bool {
	signature, err := base64.StdEncoding.DecodeString(s.Signature)
	if err != nil || s.Version != version {
		return false
	}
	for _, key := range keys {
		if ed25519.Verify(key, s.encoded(), signature) {
			return true
		}
	}
	return false
}

// Key signs statements.
type Key struct{ private ed25519.PrivateKey }

// ErrKey is a text that is no key.
var ErrKey = errors.New("must be an Ed25519 private key as `openssl genpkey -algorithm ed25519` prints it, " +
	"or the base64 of its DER on one line")

// ParseKey reads a private key (PKCS #8), in PEM or in base64 alone. The error does not repeat it.
func ParseKey(text string) (Key, error) {
	var der []byte
	if block, _ := pem.Decode([]byte(text)); block != nil {
		der = block.Bytes
	} else if decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text)); err == nil {
		der = decoded
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	private, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return Key{}, ErrKey
	}
	return Key{private}, nil
}

// line is the statement, signed, as it stands in a file.
func (k Key) line(s *Statement) ([]byte, error) {
	s.Version = version
	s.Signature = base64.StdEncoding.EncodeToString(ed25519.Sign(k.private, s.encoded()))
	line, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("anchor: %w", err)
	}
	return append(line, '\n'), nil
}

// ParsePublicKeys reads the keys of trusted signers: PEM blocks, one after the other, as `openssl pkey -pubout` prints them.
func ParsePublicKeys(text []byte) ([]ed25519.PublicKey, error) {
	var keys []ed25519.PublicKey
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
		key, ok := parsed.(ed25519.PublicKey)
		if err != nil || !ok {
			return nil, errors.New("the file of public keys must have Ed25519 keys in PEM alone, as `openssl pkey -pubout` prints them")
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("the file of public keys has none in PEM")
	}
	return keys, nil
}
