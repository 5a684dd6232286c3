// Package apikey makes and reads API keys: pl_live_, 32 random letters and digits, and six more that check them. A key that was mistyped
// or cut off is refused without a look-up, and scanners of leaked secrets find a key by its form.
package apikey

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"math/big"
	"strings"
)

// Prefix begins every key.
const Prefix = "pl_live_"

const (
	letters  = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	random   = 32 // 190 bits
	checksum = 6  // 62 to the sixth is more than a CRC-32
	length   = len(Prefix) + random + checksum
)

// ErrMalformed means that a text is no key.
var ErrMalformed = errors.New("the API key is malformed: it is mistyped or cut off")

// Hash is the SHA-256 of a key, which is all that is kept of it. A key is random, so that no slower hash is needed.
type Hash [sha256.Size]byte

// New makes a key.
func New() (key string, err error) {
	var text strings.Builder
	text.WriteString(Prefix)
	for range random {
		n, err := rand.Int(rand.Reader, big.NewInt(int64(len(letters))))
		if err != nil {
			return "", fmt.Errorf("apikey: %w", err)
		}
		text.WriteByte(letters[n.Int64()])
	}
	return text.String() + check(text.String()), nil
}

// Is reports whether a bearer token is meant to be a key, whether or not it is well formed.
func Is(token string) bool { return strings.HasPrefix(token, Prefix) }

// Parse returns the hash of a key; ErrMalformed.
func Parse(key string) (Hash, error) {
	if len(key) != length || !Is(key) || strings.Trim(key[len(Prefix):], letters) != "" ||
		check(key[:length-checksum]) != key[length-checksum:] {
		return Hash{}, ErrMalformed
	}
	return sha256.Sum256([]byte(key)), nil
}

// End returns the last characters of a key, by which its owner knows it.
func End(key string) string { return key[len(key)-4:] }

// check returns the CRC-32 of a text in six letters and digits.
func check(text string) string {
	sum := crc32.ChecksumIEEE([]byte(text))
	var digits [checksum]byte
	for i := range digits {
		digits[checksum-1-i] = letters[sum%uint32(len(letters))]
		sum /= uint32(len(letters))
	}
	return string(digits[:])
}
