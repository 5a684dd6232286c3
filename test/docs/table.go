package docs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// The states of a criterion. Anything else says what brings it: "issue 3", or "later" while no issue is open for it.
const (
	StateMet  = "met"  // its tests pass in every run of the README's test command
	StateOpen = "open" // it belongs to the work at hand and has no test yet
)

// Row is one line of a table of docs/acceptance.md.
type Row struct {
	ID        string
	Criterion string
	Tests     []string // "folder TestName/Subtest", sorted
	State     string
}

// id is "S0-07" of the acceptance criteria, "R-07" of the promises that were found broken, or "Item07" of the conformance list.
var id = regexp.MustCompile(`^(S\d-|R-|Item)\d\d$`)

// ParseRow reads one line. It reports false for anything but a row of criteria.
func ParseRow(line string) (Row, bool) {
	cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "| "), " |"), " | ")
	if !strings.HasPrefix(line, "| ") || len(cells) != 4 || !id.MatchString(cells[0]) {
		return Row{}, false
	}
	row := Row{ID: cells[0], Criterion: cells[1], State: cells[3]}
	for cell := range strings.SplitSeq(cells[2], "<br>") {
		if cell = strings.ReplaceAll(cell, "`", ""); cell != "" && cell != "–" {
			row.Tests = append(row.Tests, cell)
		}
	}
	return row, true
}

// String writes the line that ParseRow reads.
func (r Row) String() string {
	cell := "–"
	if len(r.Tests) > 0 {
		cell = "`" + strings.Join(r.Tests, "`<br>`") + "`"
	}
	return fmt.Sprintf("| %s | %s | %s | %s |", r.ID, r.Criterion, cell, r.State)
}

// TestsFor are the tests whose names carry the id ("S0_07", "Item07"): the outermost ones, for a subtest of a match adds nothing.
func TestsFor(criterion string, tests []Test) []Test {
	mark := strings.ReplaceAll(criterion, "-", "_")
	var found []Test
	for _, test := range tests {
		if parent, last := splitName(test.Name); carries(last, mark) && !carries(parent, mark) {
			found = append(found, test)
		}
	}
	slices.SortFunc(found, func(a, b Test) int { return strings.Compare(a.Dir+a.Name, b.Dir+b.Name) })
	return found
}

func splitName(name string) (parent, last string) {
	if i := strings.LastIndex(name, "/"); i >= 0 {
		return name[:i], name[i+1:]
	}
	return "", name
}

// several is the short form of several ids of one section: S2_07_08_09_.
var several = regexp.MustCompile(`\b(?:S\d|R)(?:_\d\d){2,}(?:_|$)`)

// SpelledOut writes each id of the short form as a whole.
func SpelledOut(name string) string {
	return several.ReplaceAllStringFunc(name, func(ids string) string {
		section, numbers, _ := strings.Cut(strings.TrimSuffix(ids, "_"), "_")
		return section + "_" + strings.ReplaceAll(numbers, "_", "_"+section+"_") + "_"
	})
}

// carries reports whether a test's name holds the mark as a whole: S0_07 neither in S0_071 nor in GS0_07.
func carries(name, mark string) bool {
	name = SpelledOut(strings.TrimPrefix(name, "Test"))
	for at := 0; ; {
		i := strings.Index(name[at:], mark)
		if i < 0 {
			return false
		}
		start, end := at+i, at+i+len(mark)
		if (start == 0 || !alphanumeric(name[start-1])) && (end == len(name) || !digit(name[end])) {
			return true
		}
		at = end
	}
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

func alphanumeric(c byte) bool { return digit(c) || 'a' <= c|0x20 && c|0x20 <= 'z' }

// Update fills the tests of a row from the index. An open row that has found a test is met, and a met one that has lost
// its last is open again; a row that a later issue brings stays with it.
func Update(row Row, tests []Test) Row {
	row.Tests = nil
	for _, test := range TestsFor(row.ID, tests) {
		row.Tests = append(row.Tests, test.Dir+" "+test.Name)
	}
	switch {
	case row.State == StateOpen && len(row.Tests) > 0:
		row.State = StateMet
	case row.State == StateMet && len(row.Tests) == 0:
		row.State = StateOpen
	}
	return row
}
