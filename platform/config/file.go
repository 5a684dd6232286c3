package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// FileSuffix makes the name of the variable that names a secret's file of the name of the secret.
const FileSuffix = "_FILE"

// maxSecretFile is far beyond any key; it keeps a path that leads elsewhere from filling the memory.
const maxSecretFile = 64 << 10

// readSecret reads a mounted secret. Its error is to be read after "names a file that", and never shows the path, which may be
// the secret itself.
func readSecret(path string) (_ string, err error) {
	about, err := os.Stat(path)
	if err != nil {
		return "", unread(err)
	}
	if !about.Mode().IsRegular() { // a pipe would block
		return "", errors.New("is not a regular file")
	}
	file, err := os.Open(path)
	if err != nil {
		return "", unread(err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	content, err := io.ReadAll(io.LimitReader(file, maxSecretFile+1))
	if err != nil {
		return "", unread(err)
	}
	if len(content) > maxSecretFile {
		return "", fmt.Errorf("is larger than %d KiB", maxSecretFile>>10)
	}
	return string(content), nil
}

// unread is why a file cannot be read, without its path.
func unread(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	return fmt.Errorf("cannot be read: %w", err)
}
