package stack

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"paceline.internal/platform/config"
	"paceline.internal/platform/rpc"
)

// What PKCS #8 and SubjectPublicKeyInfo put before a key of Ed25519 (RFC 8410).
const (
	beforePrivate = "\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20"
	beforePublic  = "\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00"
)

// Keys are the variables of those that make calls: the signing key of each, and the public keys that they are believed by. They are derived
// from one secret, for all three run on one machine.
func (s Secrets) Keys() map[string]string {
	environ := map[string]string{}
	var public []string
	for _, process := range []string{rpc.Gateway, rpc.Onboarding, rpc.Operator} {
		seed := hmac.New(sha256.New, []byte(s.ServiceAuth))
		seed.Write([]byte("signing key of " + process))
		key := ed25519.NewKeyFromSeed(seed.Sum(nil))
		environ[strings.ToUpper(process)+"_SIGNING_KEY"] = base64.StdEncoding.EncodeToString([]byte(beforePrivate + string(key.Seed())))
		known, _ := key.Public().(ed25519.PublicKey) // always
		public = append(public, process+"="+base64.StdEncoding.EncodeToString([]byte(beforePublic+string(known))))
	}
	environ["SERVICE_PUBLIC_KEYS"] = strings.Join(public, ",")
	return environ
}

// keysOf returns the keys that a process signs with.
func (s Secrets) keysOf(process string) rpc.Keys {
	return rpc.Keys{Process: process, Signing: config.NewSecret(s.Keys()[strings.ToUpper(process)+"_SIGNING_KEY"])}
}
