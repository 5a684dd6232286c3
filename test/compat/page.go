package main

import (
	"bytes"
	"fmt"
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
	line("Official SDKs and others' tools, pinned in [package.json](../%s/package.json) and", folder)
	line("[go.mod](../%s/%s/go.mod),", folder, goClient)
	line("judge the emulators, the gateway and the list of what is in an image.")
	line("`go run ./%s -update` runs them and writes this page; `.ci/run` compares it with its", folder)
	line("own run, where npm answers. What is not played is refused with an error that says so, never ignored; those calls are listed")
	line("with what they are told. nginx is Debian's, with [our configuration](../deploy/proxy/nginx.conf) in front of a whole product.")
	line("Before there was this judge (2026-11-24), 93 of the 129 calls of @upstash/qstash and 40 of the 67 of twilio failed or were ignored.")
	line("")
	line("| tool | version | calls | passed | refused on purpose | failed |")
	line("|---|---|---:|---:|---:|---:|")
	tallies := count(results)
	for _, t := range tallies {
		line("| %s | %s | %d | %d | %d | %d |", t.tool, t.version, t.calls(), t.passed, t.refused, t.failed)
	}
	for _, t := range tallies {
		line("")
		line("## %s", t.tool)
		line("")
		line("| call | outcome | |")
		line("|---|---|---|")
		for _, r := range results {
			if r.Tool == t.tool {
				line("| %s | %s | %s |", cell(r.Call), r.Outcome, cell(r.Note))
			}
		}
	}
	return b.Bytes()
}

// cell is a text as a table holds it.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(text)
}
