package timeparse

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// The window of a bare hour in English, in minutes of the day.
const (
	earliest = 7 * 60
	latest   = 21*60 - 1
)

// recently is how long ago a date without its year is one that has passed, and not one of next year.
const recently = 90 * 24 * time.Hour

// part is a part of the day, with the hours that it has.
type part struct {
	name        string
	first, last int
}

// The first part is none.
var parts = []part{{}, {"dawn", 0, 6}, {"morning", 0, 11}, {"afternoon", 12, 19}, {"evening", 16, 23}, {"night", 18, 23}}

const night = 5

// resolve is the instant that is meant, or Unclear.
func (m *meaning) resolve(lang *language, say map[string]string, zone *time.Location, now time.Time) Reading {
	now = now.Truncate(time.Second)
	if m.clock == nil {
		return noted(inAmount(say, *m.amount, zone, now), m.about, say["about"])
	}
	local := now.In(zone)
	options := m.minutes(lang, local)
	dates, certain := m.dates(local)
	if len(options) == 0 || !certain {
		return Reading{Kind: Unclear}
	}
	for _, d := range dates {
		for _, minute := range options {
			wall := d.Add(time.Duration(minute) * time.Minute)
			if m.clock.thisTime {
				wall = wall.Add(time.Duration(local.Second()) * time.Second)
			}
			if r := onClock(say, wall, zone, now); r.Kind == At {
				chosen := fmt.Sprintf(say["chosen"], m.clock.said, clockText(minute), clockText(minute+12*60))
				return noted(noted(r, m.part == 0 && !m.clock.sure, chosen), m.about, say["about"])
			}
		}
	}
	if m.clock.half && m.part == 0 { // 9 in the evening may be meant, and is still to come
		evening := time.Duration((m.clock.hour%12+12)*60+m.clock.minute) * time.Minute
		if onClock(say, dates[len(dates)-1].Add(evening), zone, now).Kind == At {
			return Reading{Kind: Unclear}
		}
	}
	return Reading{Kind: Unclear, Past: true}
}

// noted puts a note before those that an instant has.
func noted(r Reading, assumed bool, note string) Reading {
	if assumed && r.Kind == At {
		r.Note = strings.TrimSpace(note + " " + r.Note)
	}
	return r
}

// minutes are the minutes of the day that the time of day can be, the more likely first.
func (m *meaning) minutes(lang *language, local time.Time) []int {
	c := m.clock
	today := len(m.days) > 0 && m.days[0].kind == offset && m.days[0].offset == 0 && m.days[0].plus == 0
	dayless := len(m.days) == 0 && m.amount == nil
	minute := c.hour*60 + c.minute
	switch {
	case c.thisTime && m.part == 0:
		return []int{local.Hour()*60 + local.Minute()}
	case c.thisTime:
		return nil
	case c.noon && c.hour == 0 && c.minute == 0 || c.hour == 24: // midnight before that day, or after it?
		switch {
		case m.part != 0 && m.part != night || !dayless && !today:
			return nil
		case today:
			return []int{24 * 60}
		}
		return []int{0}
	case m.part == 0 && !c.half:
		return []int{(minute + 24*60) % (24 * 60)}
	}
	var options []int
	first, last := earliest, latest
	hours := []int{c.hour % 12, c.hour%12 + 12}
	if m.part != 0 {
		first, last = parts[m.part].first*60, parts[m.part].last*60+59
		if !c.half && (lang.english || c.hour == 0 || c.hour > 12 || c.noon) {
			hours = []int{c.hour}
		} else if c.hour == 12 {
			hours = hours[1:]
		}
	}
	for _, hour := range hours {
		// Ten to six is in the part of the day that six is in.
		if minute := hour*60 + c.minute; m.part == 0 && minute >= first && minute <= last || m.part != 0 && hour*60 >= first && hour*60 <= last {
			options = append(options, (minute+24*60)%(24*60))
		}
	}
	if m.part != 0 && len(options) > 1 {
		return options[:1]
	}
	return options
}

// dates are the days that are possible, the first to be taken if its time is still to come; each is midnight in UTC. It is not certain
// which day is meant where two ways to count give two days.
func (m *meaning) dates(local time.Time) ([]time.Time, bool) {
	today := time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, time.UTC)
	switch {
	case m.amount != nil:
		return []time.Time{today.AddDate(0, 0, m.amount.Days)}, true
	case len(m.days) == 0:
		return []time.Time{today, today.AddDate(0, 0, 1), today.AddDate(0, 0, 2)}, true
	}
	first := m.days[0]
	if len(m.days) == 2 { // a date and its weekday
		other := m.days[1]
		if first.kind == aWeekday {
			first, other = other, first
		}
		dates, ok := first.dates(today)
		if first.kind == aWeekday || other.kind != aWeekday || other.next || other.nextWeek || first.plus+other.plus != 0 || !ok {
			return nil, false
		}
		dates = slices.DeleteFunc(dates, func(d time.Time) bool { return d.Weekday() != other.weekday })
		return dates, len(dates) > 0
	}
	dates, ok := first.dates(today)
	for i := range dates {
		dates[i] = dates[i].AddDate(0, 0, first.plus)
	}
	return dates, ok && len(dates) > 0
}

// dates are the days that one can be.
func (d *day) dates(today time.Time) ([]time.Time, bool) {
	switch d.kind {
	case offset:
		return []time.Time{today.AddDate(0, 0, d.offset)}, true
	case aWeekday:
		return d.weekdays(today)
	case date:
		return d.years(today)
	}
	first := time.Date(today.Year(), today.Month(), 1, 0, 0, 0, 0, time.UTC)
	for month := range 3 {
		t := first.AddDate(0, month, d.day-1)
		if exists := t.Day() == d.day; d.nextMonth && month == 1 || !d.nextMonth && exists && !t.Before(today) {
			return []time.Time{t}, exists
		}
	}
	return nil, false
}

func (d *day) weekdays(today time.Time) ([]time.Time, bool) {
	iso := func(w time.Weekday) int { return (int(w) + 6) % 7 }
	ahead := (int(d.weekday) - int(today.Weekday()) + 7) % 7
	switch {
	case d.nextWeek: // a week begins on Sunday or on Monday
		certain := d.weekday != time.Sunday && today.Weekday() != time.Sunday
		return []time.Time{today.AddDate(0, 0, 7-iso(today.Weekday())+iso(d.weekday))}, certain
	case d.next && ahead == 0:
		return []time.Time{today.AddDate(0, 0, 7)}, true
	case d.next && (iso(d.weekday) > iso(today.Weekday()) || ahead == 1): // the next one, or that of next week?
		return nil, false
	case ahead == 0 && d.plus == 0:
		return []time.Time{today, today.AddDate(0, 0, 7)}, true
	}
	return []time.Time{today.AddDate(0, 0, ahead)}, true
}

// years are the days that a date can be: of its year, or of this one and the next.
func (d *day) years(today time.Time) ([]time.Time, bool) {
	in := func(year int) (time.Time, bool) {
		t := time.Date(year, d.month, d.day, 0, 0, 0, 0, time.UTC)
		return t, t.Day() == d.day
	}
	if d.year != 0 {
		t, exists := in(d.year)
		return []time.Time{t}, exists
	}
	t, exists := in(today.Year())
	next, later := in(today.Year() + 1)
	if exists && (!t.Before(today) || today.Sub(t) < recently) {
		return []time.Time{t}, true
	}
	return []time.Time{next}, later && (exists || t.Before(today))
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
	for at := wall.Add(-26 * time.Hour).In(zone); ; {
		_, shift := at.Zone()
		from, until := at.ZoneBounds()
		instant := wall.Add(-time.Duration(shift) * time.Second).In(zone)
		if (from.IsZero() || !instant.Before(from)) && (until.IsZero() || instant.Before(until)) {
			found = append(found, instant)
		}
		if until.IsZero() || until.After(wall.Add(26*time.Hour)) {
			break
		}
		if _, next := until.Zone(); next > shift && after.IsZero() &&
			!wall.Before(until.UTC().Add(time.Duration(shift)*time.Second)) && wall.Before(until.UTC().Add(time.Duration(next)*time.Second)) {
			after = until
		}
		at = until
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
		"{day}", fmt.Sprint(instant.Day()), "{year}", fmt.Sprint(instant.Year()), "{time}", instant.Format("15:04"),
	).Replace(say[form])
}

func clockText(minute int) string { return fmt.Sprintf("%02d:%02d", minute/60%24, minute%60) }
