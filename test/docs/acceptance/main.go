// Command acceptance maps the criteria of docs/acceptance.md to the tests that ran and passed:
//
//	go test -json work | go run ./test/docs/acceptance           compares the map with the run, as CI does
//	go test -json work | go run ./test/docs/acceptance -update   writes the map
//
// It prints what `go test` prints without -json. With -update the run may be of some packages only: the entries of the others
// stay as they are in the map.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
)

const (
	page = "docs/acceptance.md"             // the criteria
	held = "test/docs/acceptance/tests.tsv" // their tests
)

// counted matches the number of subtests of a test. A crash matrix has one for each call, and may have one more on another machine.
var counted = regexp.MustCompile(`×\d+`)

func main() {
	update := flag.Bool("update", false, "write "+held+" instead of comparing it")
	flag.Parse()
	if err := run(os.Stdin, os.Stdout, ".", *update); err != nil {
		fmt.Fprintf(os.Stderr, "acceptance: %v\n", err)
		os.Exit(1)
	}
}

// run examines what `go test -json` writes, in the checkout at root.
func run(in io.Reader, out io.Writer, root string, update bool) error {
	tests, err := read(in, out)
	if err != nil {
		return err
	}
	path := filepath.Join(root, held)
	source, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	also, err := readAlso(os.DirFS(root))
	if err != nil {
		return err
	}
	found, problems := tests.byID(also)
	if update {
		found.keep(string(source), tests, root)
	}
	filled, missing := fill(string(source), found)
	problems = append(problems, missing...)
	if !update {
		found.keepSkipped(string(source), tests)
		filled, _ = fill(string(source), found)
	}
	switch {
	case update:
		if err := os.WriteFile(path, []byte(filled), 0o644); err != nil { //nolint:gosec // a file of the repository is readable by all
			return err
		}
	case counted.ReplaceAllString(filled, "×") != counted.ReplaceAllString(string(source), "×"):
		problems = append(problems, fmt.Errorf("%s is not what ran: run `make acceptance` and commit it", held))
	}
	return errors.Join(problems...)
}
