package events

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// secretBytes is the length of a new secret; Standard Webhooks wants 24 to 64.
	secretBytes = 32
	// OldSecretLife is the time that events are signed with the secret before as well.
	OldSecretLife = 24 * time.Hour
)

// NewSecret makes a secret to sign with.
func NewSecret() []byte {
	secret := make([]byte, secretBytes)
	_, _ = rand.Read(secret) // never fails: see crypto/rand
	return secret
}

// ShowSecret is a secret as Standard Webhooks writes it.
func ShowSecret(secret []byte) string { return "whsec_" + base64.StdEncoding.EncodeToString(secret) }

// ReadSecret reads what ShowSecret writes.
func ReadSecret(shown string) ([]byte, error) {
	secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(shown, "whsec_"))
	if err != nil || len(secret) < 24 || len(secret) > 64 {
		return nil, errors.New("a secret is whsec_ and 24 to 64 bytes in base64")
	}
	return secret, nil
}

// Sign sets the headers of Standard Webhooks (github.com/standard-webhooks/standard-webhooks, spec 1.0): a signature by each secret over
// the id, the second and the body. During a rotation there are two.
func Sign(header http.Header, id string, at time.Time, body []byte, secrets ...[]byte) {
	second := strconv.FormatInt(at.Unix(), 10)
	signatures := make([]string, len(secrets))
	for i, secret := range secrets {
		mac := hmac.New(sha256.New, secret)
		_, _ = mac.Write([]byte(id + "." + second + ".")) // a hash never fails
		_, _ = mac.Write(body)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	header.Set("webhook-id", id)
	header.Set("webhook-timestamp", second)
	header.Set("webhook-signature", strings.Join(signatures, " "))
}

// secretsAt are those to sign with at an instant, the newest first.
func (s Subscription) secretsAt(now time.Time) [][]byte {
	if len(s.OldSecret) > 0 && now.Before(s.OldSecretUntil) {
		return [][]byte{s.Secret, s.OldSecret}
	}
	return [][]byte{s.Secret}
}
