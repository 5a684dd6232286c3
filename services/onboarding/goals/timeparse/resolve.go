package timeparse

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The window of a bare hour where people count to twelve, in minutes of the day.
const (
	earliest = 7 * 60
	latest   = 21*60 - 1
)

// parts are the first and the last hour of dawn, morning, afternoon, evening and night, by their values in the vocabulary.
var parts = [][2]int{{}, {0, 6}, {0, 11}, {12, 19}, {16, 23}, {18, 23}}

const night = 5

// evening is the hour from which tonight is as likely as tomorrow.
const evening = 18

// meaning collects what the elements of a text say together.
type meaning struct {
	days   []*element
	clock  *clock
	amount *Amount
	part   int // of parts
	about  bool
	lasts  bool // for days
	rising bool // the goal happens early in the day
}

// sum puts the elements together that name nothing, and reports whether they fit.
func (p *parser) sum() (m meaning, fits bool) {
	fits, m.rising = !p.doubtful, p.has("rising")
	for _, e := range p.elements {
		if e.named {
			continue
		}
		switch e.kind {
		case aDay:
			m.days = append(m.days, e)
		case aClock:
			fits, m.clock = fits && m.clock == nil, &e.clock
		case aRelative:
			fits, m.amount = fits && m.amount == nil, &e.amount
		case aPassed:
			fits = false
		case aDuration: // it stays in the goal
			m.lasts = m.lasts || e.amount.Days > 0 || e.amount.Months > 0
		case aPart:
		}
		late := min(e.part, m.part) == night-1 // evening and night
		fits = fits && (e.part == 0 || m.part == 0 || e.part == m.part || late)
		m.part, m.about = max(e.part, m.part), m.about || e.about
	}
	return m, fits && len(m.days) <= 2
}

// meant returns what the elements say, and reports whether that leaves no doubt.
func (p *parser) meant() (meaning, bool) {
	named := false
	for _, e := range p.elements {
		e.named = p.names(e)
		if named = named || e.named; !e.named && e.kind != aDuration && p.content(e) {
			return meaning{}, false
		}
	}
	m, fits := p.sum()
	fits = fits && !(m.lasts && m.clock != nil) // "at 8am for a month" is each day of it
	if m.amount != nil {
		onlyDays := m.amount.Exact == 0 && m.amount.Months == 0
		return m, fits && len(m.days) == 0 && (m.clock == nil && m.part == 0 || m.clock != nil && onlyDays)
	}
	return m, fits && m.clock != nil && (!named || len(m.days) > 0)
}

// dates returns the days that are possible, each midnight in UTC, the first to be taken if its time is still to come.
func (m *meaning) dates(today time.Time) (dates []time.Time) {
	switch {
	case m.amount != nil:
		return []time.Time{today.AddDate(0, m.amount.Months, m.amount.Days)}
	case len(m.days) == 0:
		return []time.Time{today, today.AddDate(0, 0, 1), today.AddDate(0, 0, 2)}
	case len(m.days) == 1:
		return m.days[0].on(today)
	}
	date, weekday := m.days[0], m.days[1]
	if date.weekday > 0 {
		date, weekday = weekday, date
	}
	for _, d := range date.on(today) { // a date and its weekday
		if date.weekday == 0 && !weekday.next && int(d.Weekday())+1 == weekday.weekday {
			dates = append(dates, d)
		}
	}
	return dates
}

// person has the language and the zone in which an instant is said to the writer of a text, and the time of the text.
type person struct {
	say  map[string]string
	zone *time.Location
	now  time.Time
}

func personOf(locale string, zone *time.Location, now time.Time) person {
	if zone == nil {
		zone = time.UTC
	}
	return person{say: languageOf(locale).say, zone: zone, now: now.Truncate(time.Second)}
}

// today is midnight of the person's day, in UTC.
func (p *person) today() time.Time { return midnight(p.now.In(p.zone)) }

func midnight(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
}

// resolve returns the instant that is meant, or Unclear.
func (m *meaning) resolve(p person) Reading {
	if m.clock == nil {
		return p.inAmount(*m.amount).noted(m.about, p.say["about"])
	}
	c := m.clock
	options, dates := m.minutes(), m.dates(p.today())
	if len(options) == 0 || len(dates) == 0 {
		return Reading{Kind: Unclear}
	}
	for _, d := range dates {
		for _, minute := range options {
			if r := p.onClock(d.Add(time.Duration(minute) * time.Minute)); r.Kind == At {
				if m.either(&p, minute, r) {
					return Reading{Kind: Unclear}
				}
				chosen := fmt.Sprintf(p.say["chosen"], c.said, clockText(minute), clockText(minute+12*60))
				return r.noted(m.part == 0 && !c.sure, chosen).noted(m.about, p.say["about"])
			}
		}
	}
	second := time.Duration((c.hour%12+12)*60+c.minute) * time.Minute // may be meant, and is still to come
	open := c.half && m.part == 0 && p.onClock(dates[len(dates)-1].Add(second)).Kind == At
	return Reading{Kind: Unclear, Past: !open}
}

// either reports whether a bare hour may as well be one of the other half of the day: the evening of "wake me at 6", and what is taken for
// tomorrow while that hour of tonight or of the early morning comes first.
func (m *meaning) either(p *person, minute int, taken Reading) bool {
	hour := m.clock.hour
	if !m.clock.half || m.clock.sure || m.part != 0 {
		return false
	}
	other := time.Duration((minute+12*60)%(24*60)) * time.Minute
	first := p.onClock(p.today().Add(other))
	if first.Kind != At {
		first = p.onClock(p.today().AddDate(0, 0, 1).Add(other))
	}
	sooner := len(m.days) == 0 && m.amount == nil && first.At.Before(taken.At)
	likely := hour >= 9 && p.now.In(p.zone).Hour() >= evening || hour == 5 || hour == 6
	return m.rising && minute >= 12*60 || sooner && likely
}

// noted puts a note before those that a reading has.
func (r Reading) noted(assumed bool, note string) Reading {
	if assumed && r.Kind == At {
		r.Note = strings.TrimSpace(note + " " + r.Note)
	}
	return r
}

// minutes returns the minutes of the day that the time of day can be, the more likely first.
func (m *meaning) minutes() (options []int) {
	c := m.clock
	if c.midnight || c.hour == 24 { // before that day, or after it?
		switch today := len(m.days) > 0 && m.days[0].today; {
		case m.part != 0 && m.part != night, len(m.days) > 0 && !today, m.amount != nil:
			return nil
		case today:
			return []int{24 * 60}
		}
		return []int{0}
	}
	hours := []int{c.hour}
	if c.half || m.part != 0 && !c.fixed && c.hour >= 1 && c.hour <= 12 {
		hours = []int{c.hour % 12, c.hour%12 + 12}
	}
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

// onClock returns the reading of a wall-clock time, given as if in UTC.
func (p *person) onClock(wall time.Time) Reading {
	instants, skipped := instants(wall, p.zone)
	for i, instant := range instants {
		if !instant.After(p.now) {
			continue
		}
		reading, said := Reading{Kind: At, At: instant.UTC(), Understood: p.understood(instant)}, wall.Format("15:04")
		switch {
		case skipped:
			reading.Note = fmt.Sprintf(p.say["skipped"], said, instant.In(p.zone).Format("15:04"))
		case len(instants) > 1:
			reading.Note = fmt.Sprintf(p.say[[]string{"first", "second"}[i]], said)
		}
		return reading
	}
	return Reading{Kind: Unclear, Past: true}
}

// inAmount returns the reading of an amount from now.
func (p *person) inAmount(amount Amount) Reading {
	reading := Reading{Kind: At, At: p.now.UTC()}
	if amount.Days != 0 || amount.Months != 0 {
		local := p.now.In(p.zone)
		wall := time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), local.Second(), 0, time.UTC)
		month := wall.AddDate(0, amount.Months, 0)
		if month.Day() != wall.Day() { // it does not have that day
			return Reading{Kind: Unclear}
		}
		reading = p.onClock(month.AddDate(0, 0, amount.Days))
	}
	reading.At = reading.At.Add(amount.Exact)
	if reading.Kind != At || !reading.At.After(p.now) {
		return Reading{Kind: Unclear, Past: reading.Past}
	}
	reading.Understood = p.understood(reading.At)
	return reading
}

// instants lists the instants at which clocks in the zone show a wall-clock time: one, two where a change repeats it. Where a change skips
// it, it is the first instant after the change. The wall-clock time is given as if in UTC.
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

// understood says an instant as the person does.
func (p *person) understood(instant time.Time) string {
	instant = instant.In(p.zone)
	form := "year"
	switch ahead := midnight(instant).Sub(p.today()); {
	case ahead == 0:
		form = "today"
	case ahead == 24*time.Hour && p.now.In(p.zone).Hour() >= 4: // before, their tomorrow may be today
		form = "tomorrow"
	case instant.Year() == p.today().Year():
		form = "other"
	}
	weekdays, months := strings.Split(p.say["weekdays"], ", "), strings.Split(p.say["months"], ", ")
	return strings.NewReplacer(
		"{weekday}", weekdays[instant.Weekday()], "{month}", months[instant.Month()-1],
		"{day}", strconv.Itoa(instant.Day()), "{year}", strconv.Itoa(instant.Year()), "{time}", instant.Format("15:04"),
	).Replace(p.say[form])
}

func clockText(minute int) string { return fmt.Sprintf("%02d:%02d", minute/60%24, minute%60) }
