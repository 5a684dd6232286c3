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

	zone   *time.Location
	layout string // of the time of day
	texts  int    // printed
	day    string
	last   time.Time
}

func newDiary(s *screen, zone *time.Location) *diary {
	return &diary{screen: s, zone: zone, layout: "15:04"}
}

// quietAfter is the number of days without a line that are worth a line.
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
	return fmt.Sprintf("%-10s  %s", day, local.Format(d.layout))
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

// diaryLine is one that is still to be printed, behind its margin.
type diaryLine struct {
	at    time.Time
	print func(margin string)
}

// told prints the messages that are new, and what else is, by when they happened.
func (d *diary) told(texts []twilio.Message, lines []diaryLine) {
	for _, m := range texts[d.texts:] {
		lines = append(lines, diaryLine{m.CreatedAt, func(margin string) { d.text(margin, "-->", m.Body) }})
	}
	d.texts = len(texts)
	slices.SortStableFunc(lines, func(a, b diaryLine) int { return a.at.Compare(b.at) })
	for _, l := range lines {
		l.print(d.at(l.at))
	}
}
