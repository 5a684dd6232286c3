// Package docs holds the repository's documents to its code: every test that they name exists and runs, their diagrams are
// the code's, their links lead somewhere, and the commands that they print are the ones that CI runs.
//
// Go's test cache does not know of the files outside this module that the tests read: use -count=1 after changing one.
package docs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Root is the folder of go.work, found by walking up from the current folder.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		_, err := os.Stat(filepath.Join(dir, "go.work"))
		if err == nil {
			return dir, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if parent := filepath.Dir(dir); parent != dir {
			dir = parent
			continue
		}
		return "", fmt.Errorf("no go.work above the current folder: %w", fs.ErrNotExist)
	}
}
