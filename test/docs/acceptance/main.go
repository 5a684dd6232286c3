// Command acceptance maps the criteria of docs/acceptance.md to the tests that ran and passed:
//
//	go test -json work | go run ./test/docs/acceptance           compares the page with the run, as CI does
//	go test -json work | go run ./test/docs/acceptance -update   writes the page
//
// It prints what `go test` prints without -json. With -update the run may be of some packages only: the entries of the others
// stay as they are on the page. A criterion that was for later, and that tests hold now, becomes met.
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

const page = "docs/acceptance.md"

// counted is how many subtests a test has. A crash matrix has one for each call, and may have one more on another machine.
var counted = regexp.MustCompile(`×\d+`)

func main() {
	update := flag.Bool("update", false, "write "+page+" instead of comparing it")
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
	path := filepath.Join(root, page)
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
	filled, missing := fill(string(source), found, update)
	problems = append(problems, missing...)
	if !update {
		found.keepSkipped(string(source), tests)
		filled, _ = fill(string(source), found, false)
	}
	switch {
	case update:
		if err := os.WriteFile(path, []byte(filled), 0o644); err != nil { //nolint:gosec // a page of the repository is readable by all
			return err
		}
	case counted.ReplaceAllString(filled, "×") != counted.ReplaceAllString(string(source), "×"):
		problems = append(problems, fmt.Errorf("%s is not what ran: run `make acceptance` and commit it", page))
	}
	return errors.Join(problems...)
}
