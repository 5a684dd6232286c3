// Command mutations takes the guards of Paceline away, one at a time, and runs the tests that have to notice: a guard whose
// removal nothing notices is either dead or untested.
//
//	go run ./test/mutations            every guard, some minutes
//	go run ./test/mutations -run STOP  those whose name contains the word
//
// The files stay as they are: the changed copy is laid over them for the compiler alone (go test -overlay).
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	only := flag.String("run", "", "only guards whose name contains this")
	flag.Parse()
	if err := run(ctx, *only); err != nil {
		fmt.Fprintln(os.Stderr, "mutations:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop has been called
	}
}

func run(ctx context.Context, only string) error {
	root, err := workspace(ctx)
	if err != nil {
		return err
	}
	var survived []string
	for _, m := range mutations() {
		if !strings.Contains(strings.ToLower(m.guard), strings.ToLower(only)) {
			continue
		}
		began := time.Now()
		noticed, err := m.try(ctx, root)
		if err != nil {
			return fmt.Errorf("%s: %w", m.guard, err)
		}
		fmt.Printf("%-68s %5.0f s  %s\n", m.guard, time.Since(began).Seconds(), verdict(noticed))
		if len(noticed) == 0 {
			survived = append(survived, m.guard)
		}
	}
	if len(survived) > 0 {
		return fmt.Errorf("nothing noticed the removal of: %s", strings.Join(survived, "; "))
	}
	return nil
}

func verdict(noticed []string) string {
	const shown = 2
	switch {
	case len(noticed) == 0:
		return "SURVIVED"
	case len(noticed) > shown:
		return fmt.Sprintf("noticed by %s and %d more", strings.Join(noticed[:shown], ", "), len(noticed)-shown)
	default:
		return "noticed by " + strings.Join(noticed, ", ")
	}
}

// workspace is the folder of go.work.
func workspace(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOWORK").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOWORK: %w", err)
	}
	file := strings.TrimSpace(string(out))
	if file == "" || file == "off" {
		return "", errors.New("run this inside Paceline's checkout")
	}
	return filepath.Dir(file), nil
}

// try runs the tests on the mutated file and returns the names of those that failed.
func (m mutation) try(ctx context.Context, root string) (noticed []string, err error) {
	mutated, err := m.apply(root)
	if err != nil {
		return nil, err
	}
	scratch, err := os.MkdirTemp("", "paceline-mutation-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	copied, overlay := filepath.Join(scratch, filepath.Base(m.file)), filepath.Join(scratch, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(root, m.file): copied}})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.WriteFile(copied, mutated, 0o600), os.WriteFile(overlay, replace, 0o600)); err != nil {
		return nil, err
	}
	args := append([]string{"test", "-overlay", overlay}, m.tests...) // not -failfast: it fails what has only been cut short, too
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = root
	out, err := command.CombinedOutput()
	if bytes.Contains(out, []byte("[build failed]")) || bytes.Contains(out, []byte("[setup failed]")) {
		return nil, fmt.Errorf("the mutation does not compile:\n%s", out)
	}
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		return nil, err
	}
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return failures(out), nil
}

var failure = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// failures are the innermost tests that failed; a run that failed without naming one is a failure all the same.
func failures(out []byte) []string {
	var names []string
	for _, found := range failure.FindAllSubmatch(out, -1) {
		if name := string(found[1]); strings.Contains(name, "/") {
			names = append(names, name[strings.LastIndex(name, "/")+1:])
		} else if len(names) == 0 {
			names = append(names, name)
		}
	}
	if len(names) > 1 && !strings.Contains(names[0], "_") { // the parent of what follows says nothing new
		names = names[1:]
	}
	if names == nil && bytes.Contains(out, []byte("FAIL")) {
		names = []string{"a crash of the test binary"}
	}
	return names
}

// apply returns the file with the guard taken away. The text of the guard must stand there exactly once.
func (m mutation) apply(root string) ([]byte, error) {
	source, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return nil, err
	}
	if n := bytes.Count(source, []byte(m.old)); n != 1 {
		return nil, fmt.Errorf("%s has the guard %d times, and not once; say in test/mutations/table.go how it stands there now:\n%s",
			m.file, n, m.old)
	}
	return bytes.Replace(source, []byte(m.old), []byte(m.without), 1), nil
}
