package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// event is one line of `go test -json` (go doc test2json).
type event struct {
	Action  string `json:"Action"`
	Package string `json:"Package"`
	Test    string `json:"Test"`
	Output  string `json:"Output"`
}

// test is one test or subtest of the run.
type test struct {
	dir, name string // as `go test ./dir -run name` has them
	action    string // the last one: pass, fail or skip
	below     string // "skip" while all tests below it were skipped; "pass" as soon as one was not; "" without any
}

// tests holds the tests of a run, by folder and name.
type tests map[string]map[string]*test

// read reads a run to its end and prints what a person needs of it: a line per package, and all output of what failed.
func read(in io.Reader, out io.Writer) (tests, error) {
	found := tests{}
	output := map[string]*bytes.Buffer{} // of the tests and packages that have not ended
	failed := false
	for lines := bufio.NewReader(in); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		var e event
		if json.Unmarshal(line, &e) != nil { // output of go itself
			_, _ = out.Write(line)
			continue
		}
		at := e.Package + " " + e.Test
		switch e.Action {
		case "build-output":
			_, _ = io.WriteString(out, e.Output)
		case "output":
			if output[at] == nil {
				output[at] = &bytes.Buffer{}
			}
			output[at].WriteString(e.Output)
		case "pass", "skip", "fail":
			if e.Action == "fail" {
				failed = true
			}
			printEnd(out, e, output)
			found.add(e)
		}
	}
	if len(found) == 0 || failed {
		return nil, errors.New("the run failed")
	}
	return found, nil
}

// printEnd prints what a person needs of a test or a package that has ended.
func printEnd(out io.Writer, e event, output map[string]*bytes.Buffer) {
	at := e.Package + " " + e.Test
	said := output[at]
	delete(output, at)
	if e.Action != "fail" {
		if e.Test == "" && said != nil {
			lines := bytes.Split(bytes.TrimSpace(said.Bytes()), []byte("\n"))
			fmt.Fprintf(out, "%s\n", lines[len(lines)-1])
		}
		return
	}
	if said != nil {
		_, _ = said.WriteTo(out)
	}
	if e.Test == "" { // what was running when the package crashed
		for unfinished, said := range output {
			if strings.HasPrefix(unfinished, e.Package+" ") {
				_, _ = said.WriteTo(out)
				delete(output, unfinished)
			}
		}
	}
}

func (t tests) add(e event) {
	dir := strings.TrimPrefix(e.Package, "paceline.internal/")
	if t[dir] == nil {
		t[dir] = map[string]*test{}
	}
	if e.Test == "" {
		return
	}
	t.at(dir, e.Test).action = e.Action
	for name := e.Test; strings.Contains(name, "/"); {
		name = name[:strings.LastIndex(name, "/")]
		if parent := t.at(dir, name); parent.below != "pass" {
			parent.below = e.Action
		}
	}
}

func (t tests) at(dir, name string) *test {
	if t[dir][name] == nil {
		t[dir][name] = &test{dir: dir, name: name}
	}
	return t[dir][name]
}

// entries are the criteria that have passing tests, with what the map says of those: "folder TestName/Subtest", or the test
// around several and how many they are.
type entries map[string][]string

// byID finds the tests of every criterion: those that carry its id and have no test around them that does.
func (t tests) byID(also map[string][]string) (entries, []error) {
	var problems []error
	names := map[string]map[string][]string{} // id -> the test around -> tests
	for dir, inside := range t {
		for _, test := range inside {
			ids := introduces(dir, test.name, also)
			if test.action != "pass" || test.below == "skip" { // a skipped test proves nothing
				continue
			}
			for _, id := range ids {
				if names[id] == nil {
					names[id] = map[string][]string{}
				}
				around := dir + " " + parent(test.name)
				names[id][around] = append(names[id][around], dir+" "+test.name)
			}
		}
		for name := range also {
			if of, element, _ := strings.Cut(name, " "); of == dir && !t.ran(dir, element) {
				problems = append(problems, fmt.Errorf("%s: an Also names %s, which did not run", dir, element))
			}
		}
	}
	found := entries{}
	for id, groups := range names {
		for around, group := range groups {
			if len(group) > 2 {
				found[id] = append(found[id], fmt.Sprintf("%s ×%d", strings.TrimSpace(around), len(group)))
				continue
			}
			found[id] = append(found[id], group...)
		}
		slices.Sort(found[id])
	}
	return found, problems
}

// introduces are the ids that a test carries, and no test around it.
func introduces(dir, name string, also map[string][]string) []string {
	carried := func(element string) []string { return append(carries(element), also[dir+" "+element]...) }
	ids := carried(name[strings.LastIndex(name, "/")+1:])
	for around := range strings.SplitSeq(parent(name), "/") {
		ids = slices.DeleteFunc(ids, func(id string) bool { return slices.Contains(carried(around), id) })
	}
	return ids
}

func (t tests) ran(dir, element string) bool {
	for name := range t[dir] {
		if name == element || strings.HasSuffix(name, "/"+element) {
			return true
		}
	}
	return false
}

// skipped reports whether a test was skipped, or one around it or below it: what it needs is not on this machine.
func (t tests) skipped(dir, name string) bool {
	for other, test := range t[dir] {
		below := strings.HasPrefix(other, name+"/")
		around := other == name || strings.HasPrefix(name, other+"/")
		if test.action == "skip" && (below || around) {
			return true
		}
	}
	return false
}

func parent(name string) string { return name[:max(0, strings.LastIndex(name, "/"))] }
