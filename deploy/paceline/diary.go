package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"paceline.internal/emulators/twilio"
)

// diary prints weeks by the person's own clock: what they wrote and got, where they stand, and how long nothing happened.
type diary struct {
	*screen

	zone          *time.Location
	texts, states int // printed
	day           string
	last          time.Time
}

func newDiary(s *screen, zone *time.Location) *diary { return &diary{screen: s, zone: zone} }

// quietAfter is how many days without a line are worth a line.
const quietAfter = 3

// at is the margin of a line: the day, once, and the time.
func (d *diary) at(when time.Time) string {
	local := when.In(d.zone)
	if quiet := int(when.Sub(d.last).Hours() / 24); !d.last.IsZero() && quiet >= quietAfter {
		d.printf("%19s· · ·  %d quiet days\n", "", quiet)
	}
	d.last = when
	day := local.Format("Mon 2 Jan")
	if day == d.day {
		day = ""
	} else {
		d.printf("\n")
	}
	d.day = local.Format("Mon 2 Jan")
	return fmt.Sprintf("%-10s  %s", day, local.Format("15:04"))
}

func (d *diary) wrote(when time.Time, text string) { d.text(d.at(when), "<--", text) }

// did prints what the person did in the host application, and the hint that it may add to its own reply.
func (d *diary) did(when time.Time, action, hint string) {
	at := d.at(when)
	d.printf("%s  (app) %s\n", at, strings.ReplaceAll(action, "_", " "))
	if hint != "" {
		d.text(strings.Repeat(" ", len(at)), "      hint:", hint)
	}
}

// meanings say in words what a trigger is.
var meanings = map[string]string{
	"user_message": "wrote", "inactivity_14d": "14 days without a word", "goodbye_response_1": "answered 1",
	"goodbye_response_2": "answered 2", "goodbye_response_3": "answered 3", "goodbye_timeout": "48 hours without an answer",
	"reminder_due": "the promised reminder is due",
}

// told prints the messages and the changes of state that are new, by when they happened.
func (d *diary) told(texts []twilio.Message, moved []transition) {
	type line struct {
		at    time.Time
		print func()
	}
	var lines []line
	for _, m := range texts[d.texts:] {
		lines = append(lines, line{m.CreatedAt, func() { d.text(d.at(m.CreatedAt), "-->", m.Body) }})
	}
	for _, m := range moved[d.states:] {
		lines = append(lines, line{m.At, func() { d.printf("%s  [%s] %s\n", d.at(m.At), m.To, meanings[m.Trigger]) }})
	}
	d.texts, d.states = len(texts), len(moved)
	slices.SortStableFunc(lines, func(a, b line) int { return a.at.Compare(b.at) })
	for _, l := range lines {
		l.print()
	}
}

// weeks prints the summary of weeks.
func (s *screen) weeks(r report, weeks int, took time.Duration) {
	s.printf("\n")
	s.promises(r)
	s.printf("\n  %d texts in %d weeks, played in %.1f s\n", len(r.Messages), weeks, took.Seconds())
}
