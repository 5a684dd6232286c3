package main

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// environFile is, while `paceline up` runs, what its services were given, for a shell: ". FILE" makes the doctor, psql and the runbooks
// speak to this very deployment.
const environFile = "environ.sh"

// writeEnviron writes it, closed to everybody but its owner, for it has every secret in it.
func writeEnviron(dir string, environ map[string]string) (path string, err error) {
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(environ)) {
		lines.WriteString("export " + name + "='" + strings.ReplaceAll(environ[name], "'", `'\''`) + "'\n")
	}
	path = filepath.Join(dir, environFile)
	if err := removeEnviron(path); err != nil { // one that somebody else may read
		return "", err
	}
	return path, os.WriteFile(path, []byte(lines.String()), 0o600)
}

func removeEnviron(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
