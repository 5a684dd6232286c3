package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ErrUnwell is what Examine returns when a check failed.
var ErrUnwell = errors.New("not everything is in order")

// Check is one line of a doctor's report.
type Check struct {
	Name string
	// Look says what it found, or what is wrong.
	Look func(ctx context.Context) (found string, err error)
	Mend string // what to do when something is wrong
}

// Examine makes the checks in their order and writes a line for each, with what is wrong and how to mend it. Its error is
// ErrUnwell, naming the checks that failed.
func Examine(ctx context.Context, out io.Writer, checks ...Check) error {
	var failed []string
	for _, c := range checks {
		found, err := c.Look(ctx)
		line := fmt.Sprintf("ok      %-14s %s\n", c.Name, found)
		if err != nil {
			what := strings.Join(strings.Fields(err.Error()), " ") // a driver's error may have many lines
			line = fmt.Sprintf("failed  %-14s %s\n        %-14s to mend: %s\n", c.Name, what, "", c.Mend)
			failed = append(failed, c.Name)
		}
		if _, err := io.WriteString(out, line); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("%w: %s", ErrUnwell, strings.Join(failed, ", "))
	}
	return nil
}
