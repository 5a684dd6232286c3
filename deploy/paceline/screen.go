package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"paceline.internal/deploy/e2e"
	"paceline.internal/deploy/operator"
)

// screen prints the conversation for a human; muted for machines.
type screen struct {
	muted bool

	mu    sync.Mutex // the vendors' events are printed as they happen
	out   io.Writer
	began time.Time
	state string // printed last
}

func newScreen(out io.Writer, muted bool) *screen { return &screen{out: out, muted: muted} }

// textWidth is the width at which bodies are wrapped.
const textWidth = 58

func (s *screen) heading(line string) { s.printf("%s\n", line) }

func (s *screen) begin(title string, at time.Time) {
	s.mu.Lock()
	s.began, s.state = at, ""
	s.mu.Unlock()
	s.printf("\n%s\n\n", title)
}

// entry prints one entry of the timeline: when, which way, the message, and the state that it led to.
func (s *screen) entry(e operator.Entry, text string) {
	at := fmt.Sprintf("%7.2f s", max(0, e.At.Sub(s.began).Seconds()))
	switch e.Kind {
	case "sent":
		s.text(at, "-->", text)
	case "replied":
		s.text(at, "<--", text)
	case "held":
		s.text(at, "<-- (held)", text)
	case "advanced", "activated", "paused":
		s.moved(at, strings.TrimPrefix(e.ToStateToken, "onboarding:"))
	default:
		s.printf("%s  %s %s\n", at, e.Kind, e.Detail)
	}
}

// moved prints the state, once for as long as it stays the same.
func (s *screen) moved(at, state string) {
	s.mu.Lock()
	known := s.state == state
	s.state = state
	s.mu.Unlock()
	if !known {
		s.printf("%s  [%s]\n", at, state)
	}
}

// mishap prints a fault of the script when it happens.
func (s *screen) mishap(at time.Time, what string) {
	s.mu.Lock()
	began := s.began
	s.mu.Unlock()
	s.printf("%7.2f s   !! %s\n", max(0, at.Sub(began).Seconds()), what)
}

func (s *screen) text(at, arrow, text string) {
	var lines []string
	for part := range strings.SplitSeq(text, "\n") {
		lines = append(lines, wrap(part, textWidth)...)
	}
	for i, line := range lines {
		if i > 0 {
			at, arrow = strings.Repeat(" ", len(at)), strings.Repeat(" ", len(arrow))
		}
		s.printf("%s  %s %s\n", at, arrow, line)
	}
}

// summary prints what the phone got and which promises were kept.
func (s *screen) summary(r report) {
	s.printf("\n  %-22s %6s %9s %9s\n", "step", "copies", "at", "gap")
	for _, h := range r.Messages {
		s.printf("  %-22s %6d %7.2f s %7.2f s\n", h.Step, h.Copies, seconds(h.AtMS), seconds(h.GapMS))
	}
	s.printf("\n")
	s.promises(r)
	s.printf("\n  %d texts, %d duplicates, %.1f s in all\n", len(r.Messages), r.Duplicates, seconds(r.TotalMS))
}

func (s *screen) promises(r report) {
	for _, p := range r.Promises {
		mark := "kept  "
		if !p.Kept {
			mark = "BROKEN"
		}
		s.printf("  %s  %-32s %s\n", mark, p.Name, p.Saw)
	}
}

func (s *screen) verdict(reports []report, kept bool) {
	if !kept {
		s.printf("\nA promise was broken. Please report it, with the log.\n")
		return
	}
	if len(reports) > 1 {
		s.printf("\nThe person saw the same both times.\n")
	}
	next, us := "\nNext:\n", asCalled(os.Args[0])
	if len(reports) <= 1 {
		next += "      " + us + " demo --faults    the same while things break\n"
	}
	s.printf("%s", next+"      "+us+" demo --weeks 6   the weeks after it, in seconds\n"+
		"      "+us+" demo --goals     what people ask to happen later, on a device\n"+
		"      "+us+" up               keep it running, with URLs and a token\n"+
		"      docs/architecture.md  how it is built, and why it cannot send twice\n")
}

// check prints one check of the staging harness.
func (s *screen) check(c e2e.Check) {
	if c.OK {
		s.printf("  ok      %s\n", c.Name)
		return
	}
	s.printf("  FAILED  %s: %s\n", c.Name, c.Saw)
}

func (s *screen) printf(format string, args ...any) {
	if s.muted {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = fmt.Fprintf(s.out, format, args...) // a closed terminal is no error
}

func seconds(ms int64) float64 { return float64(ms) / 1000 }

// wrap breaks a text at spaces into lines of at most width runes, as far as its words allow.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case len([]rune(line))+1+len([]rune(word)) > width:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}
