package timeparse

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The window of a bare hour in English, in minutes of the day.
const (
	earliest = 7 * 60
	latest   = 21*60 - 1
)

// recently bounds how long ago a date without a year may be to count as past, and not as a date of next year.
const recently = 90 * 24 * time.Hour

// parts are the first and the last hour of dawn, morning, afternoon, evening and night, by their values in the vocabulary.
var parts = [][2]int{{}, {0, 6}, {0, 11}, {12, 19}, {16, 23}, {18, 23}}

const night = 5

// resolve is the instant that is meant, or Unclear.
func (m *meaning) resolve(lang *language, say map[string]string, zone *time.Location, now time.Time) Reading {
	if m.clock == nil {
		return inAmount(say, *m.amount, zone, now).noted(m.about, say["about"])
	}
	c := m.clock
	options := m.minutes(lang.english)
	dates := m.dates(now.In(zone))
	if len(options) == 0 || len(dates) == 0 {
		return Reading{Kind: Unclear}
	}
	for _, d := range dates {
		for _, minute := range options {
			if r := onClock(say, d.Add(time.Duration(minute)*time.Minute), zone, now); r.Kind == At {
				chosen := fmt.Sprintf(say["chosen"], c.said, clockText(minute), clockText(minute+12*60))
				return r.noted(m.part == 0 && !c.sure, chosen).noted(m.about, say["about"])
			}
		}
	}
	evening := time.Duration((c.hour%12+12)*60+c.minute) * time.Minute // may be meant, and is still to come
	open := c.half && m.part == 0 && onClock(say, dates[len(dates)-1].Add(evening), zone, now).Kind == At
	return Reading{Kind: Unclear, Past: !open}
}

// noted puts a note before those that a reading has.
func (r Reading) noted(assumed bool, note string) Reading {
	if assumed && r.Kind == At {
		r.Note = strings.TrimSpace(note + " " + r.Note)
	}
	return r
}

// minutes are the minutes of the day that the time of day can be, the more likely first.
func (m *meaning) minutes(english bool) []int {
	c := m.clock
	today := len(m.days) > 0 && m.days[0].kind == offset && m.days[0].offset == 0 && m.days[0].plus == 0
	dayless := len(m.days) == 0 && m.amount == nil
	if c.noon && c.hour == 0 && c.minute == 0 || c.hour == 24 { // midnight before that day, or after it?
		switch {
		case m.part != 0 && m.part != night, !dayless && !today:
			return nil
		case today:
			return []int{24 * 60}
		}
		return []int{0}
	}
	hours := []int{c.hour}
	if c.half || m.part != 0 && !english && c.hour >= 1 && c.hour <= 12 && !c.noon {
		hours = []int{c.hour % 12, c.hour%12 + 12}
	}
	var options []int
	for _, hour := range hours {
		minute := hour*60 + c.minute
		fits := m.part == 0 && (!c.half || minute >= earliest && minute <= latest)
		if m.part != 0 { // ten to six is in the part that six is in
			fits = hour >= parts[m.part][0] && hour <= parts[m.part][1] && (c.hour != 12 || hour == 12)
		}
		if fits {
			options = append(options, (minute+24*60)%(24*60))
		}
	}
	return options
}

// dates are the days that are possible, each midnight in UTC, the first to be taken if its time is still to come. There is none where two
// ways to count give two days.
func (m *meaning) dates(local time.Time) []time.Time {
	today := time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, time.UTC)
	switch {
	case m.amount != nil:
		return []time.Time{today.AddDate(0, 0, m.amount.Days)}
	case len(m.days) == 0:
		return []time.Time{today, today.AddDate(0, 0, 1), today.AddDate(0, 0, 2)}
	}
	first, dates := m.days[0], []time.Time(nil)
	if len(m.days) == 2 && first.kind == aWeekday {
		first, m.days[1] = m.days[1], first
	}
	for _, d := range first.dates(today) {
		if len(m.days) == 1 {
			dates = append(dates, d.AddDate(0, 0, first.plus))
		} else if w := m.days[1]; w.kind == aWeekday && first.kind != aWeekday && d.Weekday() == w.weekday && !w.next && !w.nextWeek {
			dates = append(dates, d) // a date and its weekday
		}
	}
	return dates
}

// dates are the days that one can be.
func (d *day) dates(today time.Time) []time.Time {
	switch d.kind {
	case offset:
		return []time.Time{today.AddDate(0, 0, d.offset)}
	case aWeekday:
		return d.weekdays(today)
	case date:
		for _, year := range []int{today.Year(), today.Year() + 1} {
			if d.year != 0 {
				year = d.year
			}
			t := time.Date(year, d.month, d.day, 0, 0, 0, 0, time.UTC)
			if t.Day() == d.day && (d.year != 0 || today.Sub(t) < recently) {
				return []time.Time{t}
			}
		}
		return nil
	case ofMonth:
	}
	for month := range 3 {
		t := time.Date(today.Year(), today.Month()+time.Month(month), d.day, 0, 0, 0, 0, time.UTC)
		if t.Day() == d.day && (d.nextMonth && month == 1 || !d.nextMonth && !t.Before(today)) {
			return []time.Time{t}
		}
	}
	return nil
}

func (d *day) weekdays(today time.Time) []time.Time {
	iso := func(w time.Weekday) int { return (int(w) + 6) % 7 }
	ahead := (int(d.weekday) - int(today.Weekday()) + 7) % 7
	switch {
	case d.nextWeek && (d.weekday == time.Sunday || today.Weekday() == time.Sunday): // a week begins on Sunday or on Monday
		return nil
	case d.nextWeek:
		ahead = 7 - iso(today.Weekday()) + iso(d.weekday)
	case d.next && ahead == 0:
		ahead = 7
	case d.next && (iso(d.weekday) > iso(today.Weekday()) || ahead == 1): // the next one, or that of next week?
		return nil
	case ahead == 0 && d.plus == 0:
		return []time.Time{today, today.AddDate(0, 0, 7)}
	}
	return []time.Time{today.AddDate(0, 0, ahead)}
}

// onClock is the reading of a wall-clock time, given as if in UTC.
func onClock(say map[string]string, wall time.Time, zone *time.Location, now time.Time) Reading {
	instants, skipped := instants(wall, zone)
	for i, instant := range instants {
		if !instant.After(now) {
			continue
		}
		reading := Reading{Kind: At, At: instant.UTC(), Understood: understood(say, instant.In(zone), now.In(zone))}
		said := wall.Format("15:04")
		switch {
		case skipped:
			reading.Note = fmt.Sprintf(say["skipped"], said, instant.In(zone).Format("15:04"))
		case len(instants) > 1:
			reading.Note = fmt.Sprintf(say[[]string{"first", "second"}[i]], said)
		}
		return reading
	}
	return Reading{Kind: Unclear, Past: true}
}

func inAmount(say map[string]string, amount Amount, zone *time.Location, now time.Time) Reading {
	local := now.In(zone)
	reading := Reading{Kind: At, At: now.UTC()}
	if amount.Days != 0 || amount.Months != 0 {
		wall := time.Date(local.Year(), local.Month()+time.Month(amount.Months), 1, local.Hour(), local.Minute(), local.Second(), 0, time.UTC)
		day := wall.AddDate(0, 0, local.Day()-1)
		if day.Month() != wall.Month() { // a month without that day
			return Reading{Kind: Unclear}
		}
		reading = onClock(say, day.AddDate(0, 0, amount.Days), zone, now)
	}
	reading.At = reading.At.Add(amount.Exact)
	if reading.Kind != At || !reading.At.After(now) {
		return Reading{Kind: Unclear, Past: reading.Past}
	}
	reading.Understood = understood(say, reading.At.In(zone), local)
	return reading
}

// instants are those at which clocks in the zone show a wall-clock time: one, two where a change repeats it. Where a change skips it, it
// is the first instant after the change. The wall-clock time is given as if in UTC.
func instants(wall time.Time, zone *time.Location) (found []time.Time, skipped bool) {
	var after time.Time
	for _, near := range []time.Duration{-26 * time.Hour, 26 * time.Hour} {
		_, shift := wall.Add(near).In(zone).Zone()
		instant := wall.Add(-time.Duration(shift) * time.Second).In(zone)
		if _, shown := instant.Zone(); shown == shift && (len(found) == 0 || !found[0].Equal(instant)) {
			found = append(found, instant)
		} else if after.IsZero() {
			after, _ = instant.ZoneBounds()
		}
	}
	if len(found) == 0 {
		return []time.Time{after}, true
	}
	return found, false
}

// understood says an instant; both are in the zone of the person.
func understood(say map[string]string, instant, now time.Time) string {
	day := func(t time.Time) time.Time { return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC) }
	form := "year"
	switch ahead := day(instant).Sub(day(now)); {
	case ahead == 0:
		form = "today"
	case ahead == 24*time.Hour:
		form = "tomorrow"
	case instant.Year() == now.Year():
		form = "other"
	}
	return strings.NewReplacer(
		"{weekday}", strings.Split(say["weekdays"], ", ")[instant.Weekday()], "{month}", strings.Split(say["months"], ", ")[instant.Month()-1],
		"{day}", strconv.Itoa(instant.Day()), "{year}", strconv.Itoa(instant.Year()), "{time}", instant.Format("15:04"),
	).Replace(say[form])
}

func clockText(minute int) string { return fmt.Sprintf("%02d:%02d", minute/60%24, minute%60) }
