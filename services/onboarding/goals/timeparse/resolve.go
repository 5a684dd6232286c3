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

// resolve is the instant that is meant, or Unclear.
func (m *meaning) resolve(lang *language, say *phrases, zone *time.Location, now time.Time) Reading {
	now = now.Truncate(time.Second)
	if m.clock == nil {
		reading := say.in(*m.amount, zone, now)
		if m.about && reading.Kind == At {
			reading.Note = strings.TrimSpace(say.about + " " + reading.Note)
		}
		return reading
	}
	local := now.In(zone)
	options := m.minutes(lang, local)
	if len(options) == 0 {
		return Reading{Kind: Unclear}
	}
	dates, certain := m.dates(local)
	if !certain {
		return Reading{Kind: Unclear}
	}
	second := 0
	if m.clock.thisTime {
		second = local.Second()
	}
	for _, d := range dates {
		for _, minute := range options {
			wall := d.Add(time.Duration(minute)*time.Minute + time.Duration(second)*time.Second)
			reading := say.at(wall, zone, now)
			if reading.Kind != At {
				continue
			}
			if note := m.chosen(say, minute); note != "" {
				reading.Note = strings.TrimSpace(note + " " + reading.Note)
			}
			return reading
		}
	}
	if m.clock.half && m.part == 0 { // 9 in the evening may be meant, and is still to come
		hour := m.clock.hour%12 + 12
		if r := say.at(dates[len(dates)-1].Add(time.Duration(hour*60+m.clock.minute)*time.Minute), zone, now); r.Kind == At {
			return Reading{Kind: Unclear}
		}
	}
	return Reading{Kind: Unclear, Past: true}
}

// chosen says which half of the day an hour was taken for.
func (m *meaning) chosen(say *phrases, minute int) string {
	c := m.clock
	if m.part != 0 || c.sure || c.thisTime {
		return ""
	}
	return fmt.Sprintf(say.chosen, c.said, clockText(minute), clockText(minute+12*60))
}

// minutes are the minutes of the day that the time of day can be, the more likely first.
func (m *meaning) minutes(lang *language, local time.Time) []int {
	c := m.clock
	if c.thisTime {
		if m.part != 0 {
			return nil
		}
		return []int{local.Hour()*60 + local.Minute()}
	}
	today := len(m.days) > 0 && m.days[0].kind == offset && m.days[0].offset == 0 && m.days[0].plus == 0
	dayless := len(m.days) == 0 && m.amount == nil
	switch {
	case c.noon && c.hour == 0 && c.minute == 0 && dayless && (m.part == 0 || m.part == night):
		return []int{0}
	case c.noon && c.hour == 0 && c.minute == 0 && today && (m.part == 0 || m.part == night):
		return []int{24 * 60}
	case c.noon && c.hour == 0 && c.minute == 0, c.hour == 24 && !dayless: // midnight before that day, or after it?
		return nil
	case m.part != 0:
		return m.partMinutes(lang, today, dayless)
	case !c.half:
		return []int{(c.hour*60 + c.minute + 24*60) % (24 * 60)}
	}
	var options []int
	for _, hour := range []int{c.hour % 12, c.hour%12 + 12} {
		if minute := hour*60 + c.minute; minute >= earliest && minute <= latest {
			options = append(options, minute)
		}
	}
	return options
}

// partMinutes are the minutes of an hour in a part of the day.
func (m *meaning) partMinutes(lang *language, today, dayless bool) []int {
	c := m.clock
	hour := c.hour
	open := c.half || !lang.english && hour > 0 && hour <= 12 && !c.noon // may be the hour of either half
	if hour == 12 && open && m.part == night && (today || dayless) && c.minute == 0 {
		if today {
			return []int{24 * 60}
		}
		return []int{0}
	}
	first, final := 0, 0
	switch m.part {
	case dawn:
		first, final = 0, 6
	case morning:
		first, final = 0, 11
	case afternoon:
		first, final = 12, 18
		if !lang.english {
			final = 19
		}
	case evening:
		first, final = 16, 23
	case night:
		first, final = 18, 23
	}
	if lang.english && m.part == night && !open && hour < 5 && dayless { // "2am at night"
		first = 0
	}
	hours := []int{hour}
	if open {
		hours = []int{hour % 12, hour%12 + 12}
		if !lang.english && m.part == morning && hour == 12 {
			return nil
		}
	}
	for _, h := range hours {
		if h >= first && h <= final && !(open && hour == 12 && h == 0) {
			return []int{(h*60 + c.minute + 24*60) % (24 * 60)}
		}
	}
	return nil
}

// dates are the days that are possible, the first to be taken if its time is still to come; each is midnight in UTC. It is not certain
// which
// day is meant where two ways to count give two days.
func (m *meaning) dates(local time.Time) ([]time.Time, bool) {
	today := time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, time.UTC)
	switch {
	case m.amount != nil:
		return []time.Time{today.AddDate(0, 0, m.amount.Days)}, true
	case len(m.days) == 0:
		return []time.Time{today, today.AddDate(0, 0, 1), today.AddDate(0, 0, 2)}, true
	case len(m.days) == 2:
		a, b := m.days[0], m.days[1]
		if a.kind == aWeekday {
			a, b = b, a
		}
		if a.kind == aWeekday || b.kind != aWeekday || b.next || b.nextWeek || b.plus+a.plus != 0 {
			return nil, false
		}
		dates, ok := a.dates(today)
		if ok && a.kind == date && a.year == 0 || a.kind == ofMonth { // the weekday may say which year or month
			dates = slices.DeleteFunc(dates, func(d time.Time) bool { return d.Weekday() != b.weekday })
		}
		return dates, ok && len(dates) > 0 && dates[0].Weekday() == b.weekday
	}
	dates, ok := m.days[0].dates(today)
	for i := range dates {
		dates[i] = dates[i].AddDate(0, 0, m.days[0].plus)
	}
	return dates, ok && len(dates) > 0
}

// dates are the days that one can be.
func (d *day) dates(today time.Time) ([]time.Time, bool) {
	iso := func(w time.Weekday) int { return (int(w) + 6) % 7 }
	switch d.kind {
	case offset:
		return []time.Time{today.AddDate(0, 0, d.offset)}, true
	case aWeekday:
		ahead := (int(d.weekday) - int(today.Weekday()) + 7) % 7
		switch {
		case d.nextWeek:
			if d.weekday == time.Sunday || today.Weekday() == time.Sunday { // a week begins on Sunday or on Monday
				return nil, false
			}
			return []time.Time{today.AddDate(0, 0, 7-iso(today.Weekday())+iso(d.weekday))}, true
		case d.next && ahead == 0:
			return []time.Time{today.AddDate(0, 0, 7)}, true
		case d.next && (iso(d.weekday) > iso(today.Weekday()) || ahead == 1): // the next one, or that of next week?
			return nil, false
		case ahead == 0 && d.plus == 0:
			return []time.Time{today, today.AddDate(0, 0, 7)}, true
		}
		return []time.Time{today.AddDate(0, 0, ahead)}, true
	case date:
		return d.years(today)
	case ofMonth:
		return d.months(today)
	default:
		return nil, false
	}
}

// years are the days that a date can be: of its year, or of this one and the next.
func (d *day) years(today time.Time) ([]time.Time, bool) {
	if d.year != 0 {
		t := time.Date(d.year, d.month, d.day, 0, 0, 0, 0, time.UTC)
		return []time.Time{t}, t.Day() == d.day
	}
	t := time.Date(today.Year(), d.month, d.day, 0, 0, 0, 0, time.UTC)
	next := time.Date(today.Year()+1, d.month, d.day, 0, 0, 0, 0, time.UTC)
	switch {
	case t.Day() == d.day && !t.Before(today), t.Day() == d.day && today.Sub(t) < recently:
		return []time.Time{t}, true
	case next.Day() == d.day && (t.Day() == d.day || t.Before(today)):
		return []time.Time{next}, true
	default:
		return nil, false
	}
}

// months are the days that a day of the month can be.
func (d *day) months(today time.Time) ([]time.Time, bool) {
	first := time.Date(today.Year(), today.Month(), 1, 0, 0, 0, 0, time.UTC)
	if d.nextMonth {
		t := first.AddDate(0, 1, d.day-1)
		return []time.Time{t}, t.Day() == d.day
	}
	for month := range 3 {
		t := first.AddDate(0, month, d.day-1)
		if t.Day() == d.day && !t.Before(today) {
			return []time.Time{t}, true
		}
	}
	return nil, false
}

func (s *phrases) at(wall time.Time, zone *time.Location, now time.Time) Reading {
	instants, skipped := instants(wall, zone)
	for i, instant := range instants {
		if !instant.After(now) {
			continue
		}
		reading := Reading{Kind: At, At: instant.UTC(), Understood: s.understood(instant.In(zone), now.In(zone))}
		switch {
		case skipped:
			reading.Note = fmt.Sprintf(s.skipped, wall.Format("15:04"), instant.In(zone).Format("15:04"))
		case len(instants) > 1 && i == 0:
			reading.Note = fmt.Sprintf(s.first, wall.Format("15:04"))
		case len(instants) > 1:
			reading.Note = fmt.Sprintf(s.second, wall.Format("15:04"))
		}
		return reading
	}
	return Reading{Kind: Unclear, Past: true}
}

func (s *phrases) in(amount Amount, zone *time.Location, now time.Time) Reading {
	local := now.In(zone)
	if amount.Days == 0 && amount.Months == 0 {
		instant := now.Add(amount.Exact)
		if !instant.After(now) {
			return Reading{Kind: Unclear}
		}
		return Reading{Kind: At, At: instant.UTC(), Understood: s.understood(instant.In(zone), local)}
	}
	wall := time.Date(local.Year(), local.Month()+time.Month(amount.Months), 1, local.Hour(), local.Minute(), local.Second(), 0, time.UTC)
	if target := wall.AddDate(0, 0, local.Day()-1); target.Month() != wall.Month() { // a month without that day
		return Reading{Kind: Unclear}
	}
	reading := s.at(wall.AddDate(0, 0, local.Day()-1+amount.Days), zone, now)
	if reading.Kind == At && amount.Exact > 0 {
		reading.At = reading.At.Add(amount.Exact)
		reading.Understood = s.understood(reading.At.In(zone), local)
	}
	return reading
}

// instants are those at which clocks in the zone show a wall-clock time: one, two where a change repeats it. Where a change skips it, it
// is the
// first instant after the change. The wall-clock time is given as if in UTC.
func instants(wall time.Time, zone *time.Location) (found []time.Time, skipped bool) {
	var after time.Time
	for at := wall.Add(-26 * time.Hour).In(zone); ; {
		_, shift := at.Zone()
		_, until := at.ZoneBounds()
		instant := wall.Add(-time.Duration(shift) * time.Second).In(zone)
		from, _ := at.ZoneBounds()
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

// phrases are the words that answers are made of.
type phrases struct {
	chosen, about          string
	skipped, first, second string
	today, tomorrow, other string
	weekdays, months       [12]string
}

var englishPhrases = phrases{
	chosen:   "I took %s as %s, not %s.",
	about:    "I took it as exact.",
	skipped:  "The clocks change: %s does not exist on that day, so it is %s.",
	first:    "The clocks change: %s comes twice on that day, and it is the first.",
	second:   "The clocks change: %s comes twice on that day, and it is the second.",
	today:    "today at %s",
	tomorrow: "tomorrow at %s",
	other:    "%s, %d %s%s, at %s",
	weekdays: [12]string{"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"},
	months: [12]string{
		"January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
	},
}

var portuguesePhrases = phrases{
	chosen:   "Entendi %s como %s, e não %s.",
	about:    "Entendi como exato.",
	skipped:  "O relógio muda: %s não existe nesse dia, então fica %s.",
	first:    "O relógio muda: %s acontece duas vezes nesse dia, e vale a primeira.",
	second:   "O relógio muda: %s acontece duas vezes nesse dia, e vale a segunda.",
	today:    "hoje às %s",
	tomorrow: "amanhã às %s",
	other:    "%s, %d de %s%s, às %s",
	weekdays: [12]string{"domingo", "segunda-feira", "terça-feira", "quarta-feira", "quinta-feira", "sexta-feira", "sábado"},
	months: [12]string{
		"janeiro", "fevereiro", "março", "abril", "maio", "junho", "julho", "agosto", "setembro", "outubro", "novembro", "dezembro",
	},
}

// understood says an instant; both are in the zone of the person.
func (s *phrases) understood(instant, now time.Time) string {
	clock := instant.Format("15:04")
	date := func(t time.Time) time.Time { return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC) }
	if ahead := date(instant).Sub(date(now)); ahead == 0 {
		return fmt.Sprintf(s.today, clock)
	} else if ahead == 24*time.Hour {
		return fmt.Sprintf(s.tomorrow, clock)
	}
	year := ""
	if instant.Year() != now.Year() {
		year = fmt.Sprintf(" %d", instant.Year())
		if s.today == portuguesePhrases.today {
			year = " de" + year
		}
	}
	return fmt.Sprintf(s.other, s.weekdays[instant.Weekday()], instant.Day(), s.months[instant.Month()-1], year, clock)
}

func clockText(minute int) string { return fmt.Sprintf("%02d:%02d", minute/60%24, minute%60) }
