// Command compat has the vendors' own SDKs and others' tools judge what we serve:
//
//	go run ./test/compat           compares docs/compatibility.md with what the tools find, as CI does
//	go run ./test/compat -update   writes the page
//
// It needs Node, npm and, the first time, npm's registry; nothing else here does. Where one of them does not answer its exit status is 3:
// nothing was judged. A judge is one function in one file (judges below); its tool is pinned in package.json.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"
)

const (
	folder = "test/compat"
	page   = "docs/compatibility.md"
	// bound limits the time of everything. The clients' conversations take twenty seconds each.
	bound = 8 * time.Minute
	// notJudged is the exit status where there is no npm. `go run` makes a 1 of every status; CI runs the binary.
	notJudged = 3
)

// result is the outcome of one call that a tool made.
type result struct {
	Tool    string  `json:"tool"`
	Version string  `json:"version"`
	Call    string  `json:"call"`
	Outcome outcome `json:"outcome"`
	Note    string  `json:"note"`
}

type outcome string

const (
	passed  outcome = "passed"
	refused outcome = "refused" // on purpose, with an error that says what is not there
	failed  outcome = "failed"
)

// judge lets one tool loose on the site. Its error says that it could not judge; what it found wrong is a result that failed.
type judge func(ctx context.Context, s *site) ([]result, error)

// judges are run one after the other, and stand on the page in this order.
func judges() []judge {
	return []judge{judgeQStash, judgeTwilio, judgeRedocly, judgeSpectral, judgeTypeScript, judgeGo}
}

func main() {
	update := flag.Bool("update", false, "write "+page+" instead of comparing it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, *update)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "compat: %v\n", err)
		if _, unavailable := errors.AsType[*unavailableError](err); unavailable {
			os.Exit(notJudged)
		}
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, update bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, bound, errors.New("it took too long"))
	defer cancel()
	if err := install(ctx); err != nil {
		return err
	}
	results, err := judgeAll(ctx, out)
	if err != nil {
		return err
	}
	written := render(results)
	committed, err := os.ReadFile(page)
	switch {
	case update:
		err = os.WriteFile(page, written, 0o644) //nolint:gosec // a page of the repository is readable by all
	case err == nil && !bytes.Equal(committed, written):
		err = fmt.Errorf("%s is not what the tools found: run `go run ./%s -update` and read the difference", page, folder)
	}
	return errors.Join(faults(results), err)
}

// judgeAll prints a line for each call as soon as its judge is done, and a summary.
func judgeAll(ctx context.Context, out io.Writer) (results []result, err error) {
	s, err := openSite(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	for _, judge := range judges() {
		found, err := judge(ctx, s)
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			if _, err := fmt.Fprintf(out, "%-8s %s %s: %s\n", r.Outcome, r.Tool, r.Call, r.Note); err != nil {
				return nil, err
			}
		}
		results = append(results, found...)
	}
	for _, c := range count(results) {
		if _, err := fmt.Fprintf(out, "\n%s %s: %d calls, %d passed, %d refused on purpose, %d failed",
			c.tool, c.version, c.calls(), c.passed, c.refused, c.failed); err != nil {
			return nil, err
		}
	}
	_, err = fmt.Fprintln(out)
	return results, err
}

// faults is an error if any call failed. Each has its line above.
func faults(results []result) error {
	wrong := 0
	for _, r := range results {
		if r.Outcome != passed && r.Outcome != refused {
			wrong++
		}
	}
	if wrong > 0 {
		return fmt.Errorf("%d calls failed", wrong)
	}
	return nil
}
