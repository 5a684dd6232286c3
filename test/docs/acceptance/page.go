package main

import (
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// row is one line of the map: a criterion and its tests.
var row = regexp.MustCompile(`^((?:S\d-|R-|Item)\d\d)\t(.*)$`)

// between separates the tests of a criterion.
const between = "; "

// fill writes the tests of every criterion into the map, and says which criterion lacks one.
func fill(source string, found entries) (string, []error) {
	var problems []error
	known := map[string]bool{}
	lines := strings.Split(source, "\n")
	for i, line := range lines {
		cells := row.FindStringSubmatch(line)
		if cells == nil {
			continue
		}
		id := cells[1]
		known[id] = true
		if len(found[id]) == 0 {
			problems = append(problems, fmt.Errorf("%s is met by no test that ran and passed", id))
		}
		lines[i] = id + "\t" + strings.Join(found[id], between)
	}
	for id := range found {
		if !known[id] {
			problems = append(problems, fmt.Errorf("%s carries %s, which is no criterion", found[id][0], id))
		}
	}
	return strings.Join(lines, "\n"), problems
}

// keep adds what the map says of packages that have tests and did not run.
func (e entries) keep(source string, ran tests, root string) {
	for line := range strings.Lines(source) {
		cells := row.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if cells == nil {
			continue
		}
		for entry := range strings.SplitSeq(cells[2], between) {
			dir, _, ok := strings.Cut(entry, " ")
			if _, again := ran[dir]; !ok || again {
				continue
			}
			if files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go")); err == nil && len(files) > 0 {
				e[cells[1]] = append(e[cells[1]], entry)
			}
		}
		slices.Sort(e[cells[1]])
	}
}

// keepSkipped leaves what the map says of tests that were skipped here: they need what this machine has not, such as PgBouncer. A
// criterion needs another test besides them.
func (e entries) keepSkipped(source string, ran tests) {
	for line := range strings.Lines(source) {
		cells := row.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if cells == nil {
			continue
		}
		id := cells[1]
		for entry := range strings.SplitSeq(cells[2], between) {
			dir, name, _ := strings.Cut(entry, " ")
			name, _, _ = strings.Cut(name, " ") // without the number of subtests
			if !ran.skipped(dir, name) {
				continue
			}
			e[id] = slices.DeleteFunc(e[id], func(found string) bool { return strings.HasPrefix(found, dir+" "+name) })
			e[id] = append(e[id], entry)
		}
		slices.Sort(e[id])
	}
}

var (
	section = regexp.MustCompile(`^(S\d|R)$`)
	number  = regexp.MustCompile(`^\d\d$`)
	item    = regexp.MustCompile(`^Item\d\d`)
	anID    = regexp.MustCompile(`(?:S\d-|R-|Item)\d\d\b`)
)

// carries are the ids in one element of a test's name: S0_02_S0_03_Both, or S2_07_08_Both, or TestItem17Deduplication.
func carries(element string) []string {
	var ids []string
	in := ""
	for word := range strings.SplitSeq(strings.TrimPrefix(element, "Test"), "_") {
		switch {
		case section.MatchString(word):
			in = word
		case in != "" && number.MatchString(word):
			ids = append(ids, in+"-"+word)
		default:
			in = ""
			if mark := item.FindString(word); mark != "" {
				ids = append(ids, mark)
			}
		}
	}
	return ids
}

// alsoAbove is a comment above a test, a row of a table or the t.Run that says which other criteria it holds:
//
//	// Also: S0-23, S0-24
//	t.Run("S0_21_WholeConversation", …
var (
	anAlso    = regexp.MustCompile(`(?m)^\s*// Also: `)
	alsoAbove = regexp.MustCompile(`(?m)^\s*// Also: (.+)\n(?:\s*(?://.*|\{)\n)*(?:func (\w+)|[^"\n]*"([^"\n]+)")`)
)

// readAlso finds these comments: the ids by "folder Element", where an element is the last part of a test's name.
func readAlso(root fs.FS) (map[string][]string, error) {
	also := map[string][]string{}
	err := eachTestFile(root, func(name, source string) error {
		found := alsoAbove.FindAllStringSubmatch(source, -1)
		if len(found) != len(anAlso.FindAllString(source, -1)) {
			return fmt.Errorf("%s: an Also stands above no test", name)
		}
		for _, match := range found {
			at := path.Dir(name) + " " + match[2] + match[3]
			also[at] = append(also[at], anID.FindAllString(match[1], -1)...)
		}
		return nil
	})
	return also, err
}

func eachTestFile(root fs.FS, visit func(name, source string) error) error {
	return fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "testdata" || entry.Name() == "node_modules"),
			entry.IsDir() && name != "." && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case !entry.IsDir() && strings.HasSuffix(name, "_test.go"):
			source, err := fs.ReadFile(root, name)
			if err != nil {
				return err
			}
			return visit(name, string(source))
		}
		return nil
	})
}
