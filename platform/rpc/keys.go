package rpc

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"paceline.internal/platform/config"
)

// The processes that make calls, as SERVICE_PUBLIC_KEYS names them. Messaging calls no other process and has no key.
const (
	Gateway    = "gateway"
	Onboarding = "onboarding"
	Operator   = "operator" // a person with the command line
)

// Keys holds the key that a process signs its calls with, and those that it believes.
type Keys struct {
	Process string        // the owner of the key Signing; empty for a process that makes no calls
	Signing config.Secret // its private key; with none, Shared signs
	Public  config.Secret // the public keys of those that may call it
	// Shared is the secret of the releases before, which all processes have: its holder can speak as any of them. With none, no token
	// that it signed is believed.
	Shared config.Secret
}

// CheckSigning reports why a process cannot sign its calls.
func (k Keys) CheckSigning() error {
	variable := strings.ToUpper(k.Process) + "_SIGNING_KEY"
	const help = "make one with: openssl genpkey -algorithm ed25519 -outform DER | openssl base64 -A"
	if k.Signing.IsZero() {
		return k.checkShared(variable, "signs the calls to other processes; "+help)
	}
	if _, err := privateKey(k.Signing); err != nil {
		return &config.Problem{Variable: variable, Reason: err.Error(), Help: help}
	}
	return nil
}

// CheckPublic reports why a process cannot tell who calls it.
func (k Keys) CheckPublic() error {
	const help = "the keys of those that call, such as gateway=MCow...,onboarding=MCow...,operator=MCow...; docs/deploy.md, Keys"
	if k.Public.IsZero() {
		return k.checkShared("SERVICE_PUBLIC_KEYS", help)
	}
	if _, err := publicKeys(k.Public); err != nil {
		return &config.Problem{Variable: "SERVICE_PUBLIC_KEYS", Reason: err.Error(), Help: help}
	}
	return nil
}

// checkShared reports a missing key, unless the secret of the releases before takes its place.
func (k Keys) checkShared(missing, help string) error {
	if k.Shared.IsZero() {
		return &config.Problem{Variable: missing + " or SERVICE_AUTH_SECRET", Reason: "is missing", Help: help}
	}
	return CheckSecret("SERVICE_AUTH_SECRET", k.Shared)
}

// Root is the start of keys for other purposes than tokens, which differ with each purpose that is hashed with it.
func (k Keys) Root() []byte {
	if k.Signing.IsZero() {
		return []byte(k.Shared.First())
	}
	return []byte(k.Signing.Reveal())
}

// mayClaim reports whether the key of a process may sign for a caller: each process for itself, and the gateway and an operator also for
// people, whom onboarding never speaks for.
func mayClaim(process string, p Principal) error {
	if p.Role == RoleService && (p.Subject != process || process == Operator) || p.Role != RoleService && process == Onboarding {
		return fmt.Errorf("the key of %s may not speak for role %q, subject %q", process, p.Role, p.Subject)
	}
	return nil
}

// privateKey reads a private key of Ed25519 as openssl writes it: PEM, or the one line that is in it.
func privateKey(secret config.Secret) (ed25519.PrivateKey, error) {
	der, err := body(secret.Reveal())
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	key, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, errors.New("must be one private key of Ed25519, in PKCS #8") // the parser's error might show some of it
	}
	return key, nil
}

// publicKeys reads NAME=KEY, separated by commas. A process has several while its key is changed.
func publicKeys(list config.Secret) (map[string][]ed25519.PublicKey, error) {
	entries, err := list.Keys()
	if err != nil {
		return nil, err
	}
	keys := map[string][]ed25519.PublicKey{}
	for _, entry := range entries {
		process, text, _ := strings.Cut(entry, "=")
		if process != Gateway && process != Onboarding && process != Operator {
			return nil, errors.New("must name each key's process: gateway=KEY, onboarding=KEY or operator=KEY")
		}
		der, err := body(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", process, err)
		}
		parsed, err := x509.ParsePKIXPublicKey(der)
		key, ok := parsed.(ed25519.PublicKey)
		if err != nil || !ok {
			return nil, fmt.Errorf("%s: must be a public key of Ed25519", process)
		}
		for other, theirs := range keys {
			for _, known := range theirs {
				if other != process && known.Equal(key) {
					return nil, fmt.Errorf("%s and %s have the same key: either could speak as the other", other, process)
				}
			}
		}
		keys[process] = append(keys[process], key)
	}
	return keys, nil
}

// body returns the bytes that PEM, or the one line of it, holds.
func body(text string) ([]byte, error) {
	if block, _ := pem.Decode([]byte(text)); block != nil {
		return block.Bytes, nil
	}
	der, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil {
		return nil, errors.New("is neither PEM nor base64")
	}
	return der, nil
}
