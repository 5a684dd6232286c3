package flow

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a flow, and where.
type Problem struct {
	File string
	Line int // from 1; 0 for the whole file
	Text string
}

// String returns file:line: text.
func (p Problem) String() string {
	if p.Line == 0 {
		return p.File + ": " + p.Text
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text)
}

// Problems are all that is wrong with a flow, by file and line.
type Problems []Problem //nolint:recvcheck // an error is a value, and it is filled through a pointer

// Error returns a line for each problem.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, problem := range p {
		lines[i] = problem.String()
	}
	return strings.Join(lines, "\n")
}

func (p *Problems) addf(file string, line int, format string, args ...any) {
	*p = append(*p, Problem{File: file, Line: line, Text: fmt.Sprintf(format, args...)})
}

// err returns the problems in their order, or nil when there are none.
func (p Problems) err() error {
	if len(p) == 0 {
		return nil
	}
	slices.SortStableFunc(p, func(a, b Problem) int { return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line)) })
	return slices.CompactFunc(p, func(a, b Problem) bool { return a == b })
}
