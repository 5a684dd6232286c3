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

// environFile has, while `paceline up` runs, the environment of its services, for a shell: ". FILE" makes the doctor, psql and the
// runbooks use this deployment.
const environFile = "environ.sh"

// writeEnviron writes it, readable by its owner only, because it has every secret in it.
func writeEnviron(dir string, environ map[string]string) (path string, err error) {
	path = filepath.Join(dir, environFile)
	if err := removeEnviron(path); err != nil { // one that another user may read
		return "", err
	}
	return path, os.WriteFile(path, []byte(exports(environ)), 0o600)
}

// exports sets variables in a shell.
func exports(environ map[string]string) string {
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(environ)) {
		lines.WriteString("export " + name + "='" + strings.ReplaceAll(environ[name], "'", `'\''`) + "'\n")
	}
	return lines.String()
}

// readEnviron reads what writeEnviron wrote.
func readEnviron(dir string) (map[string]string, error) {
	content, err := os.ReadFile(filepath.Join(dir, environFile))
	if err != nil {
		return nil, err
	}
	return parseEnviron(string(content)), nil
}

// parseEnviron reads lines that set variables, as writeEnviron and paceline init write them.
func parseEnviron(content string) map[string]string {
	environ := map[string]string{}
	for line := range strings.Lines(content) {
		name, value, set := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		if !set || strings.HasPrefix(name, "#") {
			continue
		}
		if len(value) > 1 && strings.HasPrefix(value, `"`) && strings.HasSuffix(value, `"`) {
			environ[name] = value[1 : len(value)-1]
			continue
		}
		environ[name] = strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(value, "'"), "'"), `'\''`, "'")
	}
	return environ
}

func removeEnviron(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
