package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// tally is what a tool came to.
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
	line("For contributors. Official SDKs and others' tools, pinned in [package.json](../%s/package.json) and", folder)
	line("[go.mod](../%s/%s/go.mod), call the emulators and the gateway. `go run ./%s -update` runs them, prints every call and",
		folder, goClient, folder)
	line("writes this page; `.ci/run` compares it with its own run, where npm answers. What an emulator does not play it refuses")
	line("with an error that says so.")
	line("")
	line("| tool | version | calls | passed | refused on purpose | failed |")
	line("|---|---|---:|---:|---:|---:|")
	tallies := count(results)
	for _, t := range tallies {
		line("| %s | %s | %d | %d | %d | %d |", t.tool, t.version, t.calls(), t.passed, t.refused, t.failed)
	}
	line("")
	line("## What is refused on purpose")
	line("")
	line("| tool | answer | calls |")
	line("|---|---|---|")
	for _, a := range refusals(results) {
		line("| %s | %s | %s |", a.tool, cell(a.note), cell(strings.Join(a.calls, "; ")))
	}
	line("")
	line("## What the tools remark")
	line("")
	line("| tool | call | outcome | remark |")
	line("|---|---|---|---|")
	for _, r := range results {
		if r.Outcome != refused && (r.Outcome != passed || r.Note != "") {
			line("| %s | %s | %s | %s |", r.Tool, cell(r.Call), r.Outcome, cell(r.Note))
		}
	}
	return b.Bytes()
}

// refusal is the answer that some calls of a tool get.
type refusal struct {
	tool, note string
	calls      []string
}

// refusals groups the calls that are refused by their answers, in the order of the results.
func refusals(results []result) []*refusal {
	var all []*refusal
	for _, r := range results {
		if r.Outcome != refused {
			continue
		}
		i := slices.IndexFunc(all, func(a *refusal) bool { return a.tool == r.Tool && a.note == r.Note })
		if i < 0 {
			i, all = len(all), append(all, &refusal{tool: r.Tool, note: r.Note})
		}
		all[i].calls = append(all[i].calls, r.Call)
	}
	return all
}

// cell is a text as a table holds it.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(text)
}
