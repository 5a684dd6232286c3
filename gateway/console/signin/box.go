// Package signin signs people in to the console and out of it, and seals what their browsers keep for it.
package signin

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"paceline.internal/platform/config"
)

// keySize is the size of a key of AES-256.
const keySize = 32

// box seals what a browser keeps for the console, so that no replica keeps anything: AES-256-GCM, with a random nonce of 96 bits each time.
// A key is good for 2^32 of them, which is one for every person on earth.
type box struct{ keys []cipher.AEAD }

// newBox takes CONSOLE_KEY: of several keys the first seals, and all open.
func newBox(secret config.Secret) (*box, error) {
	keys, err := secret.Keys()
	if err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		return nil, errors.New("is missing")
	}
	b := &box{}
	for _, text := range keys {
		key, ok := readKey(text)
		if !ok {
			return nil, fmt.Errorf("must be %d bytes in base64 or hexadecimal, or several such keys separated by commas", keySize)
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, err
		}
		sealing, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, err
		}
		b.keys = append(b.keys, sealing)
	}
	return b, nil
}

// CheckKey returns an error that names the fault of CONSOLE_KEY, without its value; nil when there is none.
func CheckKey(secret config.Secret) error {
	_, err := newBox(secret)
	return err
}

// readKey tells the two by their length: 64 hexadecimal digits are base64 as well, of 48 bytes.
func readKey(text string) (key []byte, ok bool) {
	key, err := hex.DecodeString(text)
	if err != nil || len(key) != keySize {
		key, err = base64.StdEncoding.DecodeString(text)
	}
	return key, err == nil && len(key) == keySize
}

// seal makes a text of a value that only open reads, and only for the same purpose.
func (b *box) seal(purpose string, value any) (string, error) {
	plain, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	sealed := b.keys[0].Seal(nil, nil, plain, []byte(purpose)) //nolint:gosec // the cipher makes its own nonce, and takes none
	return base64.RawURLEncoding.EncodeToString(sealed), nil
}

// errSealed is of a text that was not sealed here, for this purpose, with a key that still counts. The caller is not told which of
// these it is.
var errSealed = errors.New("it was not sealed here, or with a key that does not count any more")

// open reads what seal made. It does not look at the time: a value has its own end.
func (b *box) open(purpose, text string, into any) error {
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return errSealed
	}
	for _, key := range b.keys {
		if plain, err := key.Open(nil, nil, sealed, []byte(purpose)); err == nil {
			return json.Unmarshal(plain, into)
		}
	}
	return errSealed
}
