package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"paceline.internal/platform/config"
)

// ErrUnwell is Findings.Err when something failed.
var ErrUnwell = errors.New("not everything is in order")

// Check is one thing that a doctor looks at.
type Check struct {
	Name string
	// Look returns its finding, or an error when something is wrong. A *Warning is worth telling, and no failure.
	Look func(ctx context.Context) (found string, err error)
	Mend string // what to do when something is wrong: a command, or a page
}

// Warning is a finding of a Look that may be meant.
type Warning struct{ Cause error }

// Warn makes a Warning.
func Warn(format string, args ...any) error { return &Warning{Cause: fmt.Errorf(format, args...)} }

func (w *Warning) Error() string { return w.Cause.Error() }

func (w *Warning) Unwrap() error { return w.Cause }

// mended is an error for which something else is to be done than for others of its check.
type mended struct {
	cause error
	mend  string
}

// Mend gives an error of a Look a remedy that replaces Check.Mend.
func Mend(mend string, cause error) error { return &mended{cause: cause, mend: mend} }

func (m *mended) Error() string { return m.cause.Error() }

func (m *mended) Unwrap() error { return m.cause }

// State of what was looked at.
type State string

// The states.
const (
	Well     State = "ok"
	Doubtful State = "warning"
	Unwell   State = "failed"
)

// Finding is the result of one check of a doctor. Why never quotes a secret.
type Finding struct {
	Service string `json:"service"`
	Name    string `json:"name"`
	State   State  `json:"state"`
	Why     string `json:"why"`
	Mend    string `json:"mend,omitempty"` // of what is not ok
}

// Findings are a doctor's report.
type Findings []Finding

// Examine makes the checks in their order.
func Examine(ctx context.Context, service string, checks ...Check) Findings {
	all := make(Findings, 0, len(checks))
	for _, c := range checks {
		found, err := c.Look(ctx)
		f := Finding{Service: service, Name: c.Name, State: Well, Why: found}
		if err != nil {
			f.State, f.Why, f.Mend = Unwell, oneLine(err.Error()), c.Mend
			if _, ok := errors.AsType[*Warning](err); ok {
				f.State = Doubtful
			}
			if m, ok := errors.AsType[*mended](err); ok {
				f.Mend = m.mend
			}
		}
		all = append(all, f)
	}
	return all
}

// Environment lists the faults of an environment that cannot be used: a failure for each variable.
func Environment(service string, err error) Findings {
	var all Findings
	for _, problem := range parts(err) {
		f := Finding{
			Service: service, Name: "configuration", State: Unwell, Why: problem.Error(),
			Mend: "set it as docs/configuration.md says; empty means absent",
		}
		if p, ok := errors.AsType[*config.Problem](problem); ok {
			f.Name, f.Why = p.Variable, strings.TrimPrefix(p.Error(), p.Variable+" ")
		}
		f.Why = oneLine(f.Why)
		all = append(all, f)
	}
	return all
}

// oneLine makes one line of an error, of which a driver's may have many.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// parts are the errors that were joined.
func parts(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, parts(e)...)
	}
	return all
}

// Err is ErrUnwell, naming what failed, or nil.
func (all Findings) Err() error {
	var failed []string
	for _, f := range all {
		if f.State == Unwell {
			failed = append(failed, f.Name)
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("%w: %s", ErrUnwell, strings.Join(failed, ", "))
	}
	return nil
}

// Print writes a line for each finding, with what mends it.
func (all Findings) Print(out io.Writer) error {
	for _, f := range all {
		line := fmt.Sprintf("%-8s%-14s %s\n", f.State, f.Name, f.Why)
		if f.Mend != "" {
			line += fmt.Sprintf("%-23sto mend: %s\n", "", f.Mend)
		}
		if _, err := io.WriteString(out, line); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	}
	return nil
}

// Report writes the findings, as lines or as one JSON array, and returns ErrUnwell if something failed.
func (all Findings) Report(out io.Writer, asJSON bool) error {
	if !asJSON {
		return errors.Join(all.Print(out), all.Err())
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return errors.Join(encoder.Encode(all), all.Err())
}
