package timeparse

import (
	"slices"
	"strings"
	"time"
)

// Naming has the time by which a text names one of several things, and the rest of the text: "5pm", "gym on Friday".
type Naming struct {
	Rest string

	zone    *time.Location
	dates   []time.Time // each midnight in UTC; none where the text names no day
	minutes []int       // of the day; none where the text names no time of day
	part    int         // of parts
}

// ReadNaming reads a text that names a thing by its time, by other words, or by both. It reports false where a word of time is not
// understood for certain, because the text may then name something else. Where two times are possible, it names a thing at either.
func ReadNaming(text, locale string, zone *time.Location, now time.Time) (Naming, bool) {
	writer := personOf(locale, zone, now)
	p, foreign := parse(text, locale)
	if foreign != nil {
		_, sure := p.proper(foreign.lang)
		_, foreignSure := foreign.proper(p.lang)
		if sure == foreignSure {
			return Naming{}, false
		}
		if foreignSure {
			p = foreign
		}
	}
	n := Naming{Rest: strings.TrimSpace(text), zone: writer.zone}
	if dates := p.onlyWeekday(writer.today()); dates != nil {
		n.dates, n.Rest = dates, ""
		return n, true
	}
	if len(p.elements) == 0 {
		number := len(p.items) == 1 && among(p.items[0].code, "n#") // "eight" may be the hour
		return n, !p.marked && !number
	}
	m, fits := p.sum()
	n.part, n.Rest = m.part, p.goal()
	if len(m.days) > 0 {
		n.dates = m.dates(writer.today())
		fits = fits && len(n.dates) > 0
	}
	if m.clock != nil {
		n.minutes = m.possibleMinutes()
		fits = fits && len(n.minutes) > 0
	}
	return n, fits && m.amount == nil && !m.lasts && n.Timed()
}

// possibleMinutes lists the minutes of the day that a time of day can mean. Where a text does not say which half of the day, both count.
func (m *meaning) possibleMinutes() []int {
	options := m.minutes()
	if m.clock.half && !m.clock.sure && m.part == 0 {
		minute := m.clock.hour%12*60 + m.clock.minute
		options = []int{(minute + 24*60) % (24 * 60), (minute + 36*60) % (24 * 60)}
	}
	return options
}

// Timed reports whether the text names a time.
func (n *Naming) Timed() bool { return len(n.dates)+len(n.minutes) > 0 }

// Fits reports whether a thing at an instant has the time that the text names.
func (n *Naming) Fits(at time.Time) bool {
	local := at.In(n.zone)
	day, minute := midnight(local), local.Hour()*60+local.Minute()
	inPart := n.part == 0 || len(n.minutes) > 0 || local.Hour() >= parts[n.part][0] && local.Hour() <= parts[n.part][1]
	dates, minutes := n.dates, n.minutes
	if len(dates) == 0 {
		dates = []time.Time{day}
	}
	if len(minutes) == 0 {
		minutes = []int{minute}
	}
	wall := day.Add(time.Duration(minute) * time.Minute)
	return inPart && slices.ContainsFunc(dates, func(date time.Time) bool {
		return slices.ContainsFunc(minutes, func(m int) bool { return date.Add(time.Duration(m) * time.Minute).Equal(wall) })
	})
}
