package main

import (
	"cmp"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"paceline.internal/deploy/stack"
	"paceline.internal/services/messaging/senders"
)

// newSecrets makes fresh ones.
func newSecrets() (stack.Secrets, error) { return completeSecrets(stack.Secrets{}) }

// completeSecrets makes those that are not there, such as what an older release did not have.
func completeSecrets(secrets stack.Secrets) (stack.Secrets, error) {
	for _, secret := range []*string{&secrets.ServiceAuth, &secrets.APIJWT, &secrets.Pseudonym} {
		var bytes [32]byte
		if _, err := rand.Read(bytes[:]); err != nil {
			return secrets, fmt.Errorf("make secrets: %w", err)
		}
		*secret = cmp.Or(*secret, hex.EncodeToString(bytes[:]))
	}
	_, ledger, err := ed25519.GenerateKey(nil)
	if err != nil {
		return secrets, fmt.Errorf("make the key of the ledgers: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(ledger)
	if err != nil {
		return secrets, fmt.Errorf("make the key of the ledgers: %w", err)
	}
	if secrets.Senders == "" {
		if secrets.Senders, err = senders.NextKeyset(""); err != nil {
			return secrets, err
		}
	}
	secrets.Ledger = cmp.Or(secrets.Ledger, base64.StdEncoding.EncodeToString(der))
	return secrets, nil
}

// secretsFile keeps the secrets of `paceline up` between runs, readable by their owner only.
const secretsFile = "secrets.json"

// errNoSecrets is a data folder in which `paceline up` has never run.
var errNoSecrets = errors.New("there are no secrets yet: set OPERATOR_SIGNING_KEY (or, for --api, API_JWT_SECRET), " +
	"name the folder of your `paceline up` with --data, or run `paceline up` once")

// loadSecrets reads what keepSecrets wrote. Secrets that another user could have read or planted are refused.
func loadSecrets(dir string) (_ stack.Secrets, err error) {
	file, err := os.Open(filepath.Join(dir, secretsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return stack.Secrets{}, errNoSecrets
	}
	if err != nil {
		return stack.Secrets{}, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	stat, err := file.Stat()
	if err != nil {
		return stack.Secrets{}, err
	}
	if owner, ok := stat.Sys().(*syscall.Stat_t); !ok || int(owner.Uid) != os.Geteuid() || stat.Mode().Perm()&0o077 != 0 {
		return stack.Secrets{}, fmt.Errorf("%s must belong to the user who runs this and be closed to all other users: remove it", file.Name())
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return stack.Secrets{}, err
	}
	var secrets stack.Secrets
	if err := json.Unmarshal(content, &secrets); err != nil {
		return stack.Secrets{}, fmt.Errorf("%s cannot be read, remove it: %w", filepath.Join(dir, secretsFile), err)
	}
	return secrets, nil
}

// keepSecrets returns the secrets of the folder, making those that it does not have. A kill at any moment leaves a whole file or
// none.
func keepSecrets(dir string) (stack.Secrets, error) {
	kept, err := loadSecrets(dir)
	if err != nil && !errors.Is(err, errNoSecrets) {
		return kept, err
	}
	secrets, err := completeSecrets(kept)
	if err != nil || secrets == kept {
		return secrets, err
	}
	content, err := json.Marshal(secrets)
	if err != nil {
		return secrets, err
	}
	draft, err := os.CreateTemp(dir, secretsFile+".*") // 0600
	if err != nil {
		return secrets, err
	}
	_, writeErr := draft.Write(content)
	if err := errors.Join(writeErr, draft.Sync(), draft.Close()); err != nil {
		return secrets, errors.Join(err, os.Remove(draft.Name()))
	}
	return secrets, os.Rename(draft.Name(), filepath.Join(dir, secretsFile))
}

// anchorsDir has the signed anchors of the consent ledgers of `paceline up`.
const anchorsDir = "anchors"

// defaultData returns the folder in which `paceline up` keeps what is not Postgres: a folder of the user's cache.
func defaultData() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%w; name a folder with --data", err)
	}
	return filepath.Join(cache, "paceline"), nil
}

// dataDir is the folder that was asked for, or the default one, and makes sure that it is there.
func dataDir(asked string) (string, error) {
	if asked == "" {
		var err error
		if asked, err = defaultData(); err != nil {
			return "", err
		}
	}
	mode := fs.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o711 // root's server runs as another user, who must pass; the files in it have their own modes
	}
	return asked, os.MkdirAll(asked, mode)
}
