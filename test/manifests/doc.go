// Package manifests checks what a deployment is described by: the Dockerfile, the compose file and the manifests of Kubernetes. No
// engine runs where the tests do, so everything that can be known without one is held against the code: the files are read strictly,
// and each process is given the environment that they describe.
package manifests

import (
	"errors"
	"os"
	"path/filepath"
)

// Root is the repository that the working directory is in.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("go.work is in no folder above")
		}
	}
}
