package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// tally counts the calls of a tool by outcome.
type tally struct {
	tool, version           string
	passed, refused, failed int
}

func (t tally) calls() int { return t.passed + t.refused + t.failed }

// count adds the results up by tool, in the order of their judges.
func count(results []result) []*tally {
	var all []*tally
	of := map[string]*tally{}
	for _, r := range results {
		t := of[r.Tool]
		if t == nil {
			t = &tally{tool: r.Tool, version: r.Version}
			of[r.Tool] = t
			all = append(all, t)
		}
		switch r.Outcome {
		case passed:
			t.passed++
		case refused:
			t.refused++
		case failed:
			t.failed++
		default:
			t.failed++
		}
	}
	return all
}

// render is the page. Nothing on it changes from run to run: no time, no port, no id.
func render(results []result) []byte {
	var b bytes.Buffer
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Compatibility")
	line("")
	line("For contributors: the vendors' SDKs call the emulators. The other tools lint the description of the API, generate clients")
	line("from it and call the gateway with them. [package.json](../%s/package.json) and [go.mod](../%s/%s/go.mod) pin the",
		folder, folder, goClient)
	line("versions; `go run ./%s -update` prints every call and writes this page.", folder)
	line("")
	line("| tool | version | calls | passed | refused on purpose | failed |")
	line("|---|---|---:|---:|---:|---:|")
	for _, t := range count(results) {
		line("| %s | %s | %d | %d | %d | %d |", t.tool, t.version, t.calls(), t.passed, t.refused, t.failed)
	}
	line("")
	line("The emulators refuse what they do not play:")
	line("")
	for _, a := range refusals(results) {
		line("- %s: %s.", a.tool, strings.Join(a.notes, ", "))
	}
	line("")
	line("Remarks:")
	line("")
	for _, r := range results {
		if r.Outcome != refused && (r.Outcome != passed || r.Note != "") {
			line("- %s, %s, %s: %s", r.Tool, r.Call, r.Outcome, r.Note)
		}
	}
	return b.Bytes()
}

// refusal holds the notes on the refused calls of one tool.
type refusal struct {
	tool  string
	notes []string
}

// refusals groups the answers to calls that are refused by tool, each answer once, in the order of the results.
func refusals(results []result) []*refusal {
	var all []*refusal
	for _, r := range results {
		if r.Outcome != refused {
			continue
		}
		i := slices.IndexFunc(all, func(a *refusal) bool { return a.tool == r.Tool })
		if i < 0 {
			i, all = len(all), append(all, &refusal{tool: r.Tool})
		}
		note := strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(r.Note, "does not play "), "the "), "parameter ")
		if !slices.Contains(all[i].notes, note) {
			all[i].notes = append(all[i].notes, note)
		}
	}
	return all
}
