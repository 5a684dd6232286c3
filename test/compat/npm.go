package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// unavailableError says that nothing can be judged here, for want of Node, npm or the registry.
type unavailableError struct{ cause string }

func (e *unavailableError) Error() string { return "nothing was judged: " + e.cause }

const (
	// installBound is several times what an installation takes; a registry that does not answer must not hold CI up.
	installBound = 100 * time.Second
	// installed is a copy of the lock that node_modules was installed by.
	installed = "node_modules/.installed-lock.json"
)

// ours are the errors of npm that a registry has no part in: package.json and its lock disagree, or a package is not what the lock says.
var ours = []string{"EUSAGE", "EINTEGRITY", "EJSONPARSE"}

// install brings node_modules to what package-lock.json says. No script of a package is run.
func install(ctx context.Context) error {
	for _, program := range []string{"node", "npm"} {
		if out, err := command(ctx, program, "--version").CombinedOutput(); err != nil {
			return &unavailableError{fmt.Sprintf("%s does not answer: %v %s", program, err, out)}
		}
	}
	lock, err := os.ReadFile(filepath.Join(folder, "package-lock.json"))
	if err != nil {
		return fmt.Errorf("%w (run it from the root of the repository)", err)
	}
	if last, err := os.ReadFile(filepath.Join(folder, installed)); err == nil && bytes.Equal(last, lock) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, installBound)
	defer cancel()
	ci := command(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1", "--fetch-timeout=30000")
	out, err := ci.CombinedOutput()
	if err != nil {
		for _, code := range ours {
			if bytes.Contains(out, []byte(code)) {
				return fmt.Errorf("npm ci: %w\n%s", err, out)
			}
		}
		return &unavailableError{fmt.Sprintf("npm ci: %v\n%s", err, out)}
	}
	return os.WriteFile(filepath.Join(folder, installed), lock, 0o600) //nolint:gosec // both parts of the path are constants
}

// command is a program in the folder of package.json. It ends with ctx, and so does what it has started.
func command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = folder
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// version returns the version of an installed package.
func version(name string) (string, error) {
	manifest, err := os.ReadFile(filepath.Join(folder, "node_modules", name, "package.json"))
	if err != nil {
		return "", err
	}
	var found struct {
		Version string `json:"version"`
	}
	err = json.Unmarshal(manifest, &found)
	return found.Version, err
}

// node runs a script of this folder, which judges with the named package and prints a result a line, as JSON, without its tool and version.
func node(ctx context.Context, tool, script string, environ ...string) ([]result, error) {
	installed, err := version(tool)
	if err != nil {
		return nil, err
	}
	cmd := command(ctx, "node", script)
	cmd.Env = append(os.Environ(), environ...)
	return printed(ctx, cmd, result{Tool: tool, Version: installed})
}

// printed are the results that a program prints, one a line, filled in with what they have in common.
func printed(ctx context.Context, cmd *exec.Cmd, common result) ([]result, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s%s", cmd, errors.Join(err, context.Cause(ctx)), out, stderr.String())
	}
	var results []result
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		r := common
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s printed %q: %w", cmd, lines.Text(), err)
		}
		r.Note = strings.ReplaceAll(r.Note, "\n", " ")
		results = append(results, r)
	}
	if len(results) == 0 {
		return nil, fmt.Errorf("%s judged nothing", cmd)
	}
	return results, nil
}
