package console

import (
	"encoding/json"
	"fmt"
	"html/template"
	"regexp"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	day = 24 * time.Hour
	// recent is the age up to which an instant is shown as a span. An older one is shown as its day.
	recent = 7 * day
	stamp  = "2006-01-02 15:04:05 MST"
)

// spans are the units of a duration, the largest first, and how much of a unit is worth showing next to the one before it.
var spans = []struct {
	key  string
	unit time.Duration
	last time.Duration // a span of this many units or more shows no smaller unit; zero for one that always does
}{
	{"span.day", day, 10 * day}, {"span.hour", time.Hour, 0}, {"span.minute", time.Minute, 0}, {"span.second", time.Second, 0},
}

// Span shows how long something takes, as people say it: its two largest units.
func (f frame) Span(d time.Duration) string {
	d = max(d, 0).Round(time.Second)
	for i, s := range spans {
		n := d / s.unit
		if n == 0 && s.unit > time.Second {
			continue
		}
		shown := f.T(s.key, int64(n))
		if i+1 == len(spans) || s.last != 0 && d >= s.last {
			return shown
		}
		if next := d % s.unit / spans[i+1].unit; next > 0 {
			shown += " " + f.T(spans[i+1].key, int64(next))
		}
		return shown
	}
	return ""
}

// rough is a span to its largest unit.
func (f frame) rough(d time.Duration) string {
	for _, s := range spans {
		if d >= s.unit {
			return f.T(s.key, int64(d/s.unit))
		}
	}
	return f.T("span.second", int64(0))
}

// Ago returns the time since an instant.
func (f frame) Ago(at any) string {
	t := instant(at)
	if t.IsZero() {
		return ""
	}
	return f.Span(f.Now.Sub(t))
}

// relative words an instant as its distance from now.
func (f frame) relative(t time.Time) string {
	since := f.Now.Sub(t)
	switch {
	case since.Abs() < time.Minute:
		return f.T("time.now")
	case since >= recent || since <= -recent:
		return f.day(t)
	case since < 0:
		return f.T("time.in", f.rough(-since))
	}
	return f.T("time.ago", f.rough(since))
}

// day is the date of an instant in the reader's zone, with its year where that is another one.
func (f frame) day(t time.Time) string {
	t = t.In(f.place)
	month := f.T("month." + strings.ToLower(t.Format("Jan")))
	if t.Year() == f.Now.In(f.place).Year() {
		return f.T("date.day", t.Day(), month)
	}
	return f.T("date.year", t.Day(), month, t.Format("2006"))
}

// shown is an instant in these words, with the exact one where the reader points at it. The browser goes on with a class that it knows.
func (f frame) shown(t time.Time, class, words, exact string) template.HTML {
	return template.HTML(fmt.Sprintf(`<time class="%s" datetime="%s" title="%s">%s</time>`, //nolint:gosec // all is escaped, or made of digits
		class, t.UTC().Format(time.RFC3339), template.HTMLEscapeString(exact), template.HTMLEscapeString(words)))
}

// Time shows an instant as people say it: how long ago, or its day. Nothing for none.
func (f frame) Time(at any) template.HTML {
	t := instant(at)
	if t.IsZero() {
		return ""
	}
	class := "ago"
	if f.Now.Sub(t).Abs() >= recent {
		class = "day"
	}
	return f.shown(t, class, f.relative(t), t.In(f.place).Format(stamp))
}

// Moment shows an instant within a sentence: its day and its time of the day.
func (f frame) Moment(at any) template.HTML {
	t := instant(at)
	return f.shown(t, "day", f.day(t)+" "+t.In(f.place).Format("15:04"), t.In(f.place).Format(stamp))
}

// Stamp shows an instant to the second in the reader's zone: what is evidence is compared.
func (f frame) Stamp(at any) template.HTML {
	t := instant(at)
	if t.IsZero() {
		return ""
	}
	return template.HTML(fmt.Sprintf(`<time datetime="%s">%s</time>`, //nolint:gosec // both are made of digits, and the zone's letters
		t.UTC().Format(time.RFC3339), template.HTMLEscapeString(t.In(f.place).Format(stamp))))
}

// Clock shows the time of the day of an instant in the reader's zone, with its milliseconds where the reader points at it.
func (f frame) Clock(at any) template.HTML {
	t := instant(at)
	if t.IsZero() {
		return ""
	}
	return f.shown(t, "clock", t.In(f.place).Format("15:04"), t.In(f.place).Format("2006-01-02 15:04:05.000 MST"))
}

// Day names the day of an instant in the reader's zone: today, yesterday, or its date.
func (f frame) Day(at any) string {
	t, now := instant(at).In(f.place), f.Now.In(f.place)
	begin := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, f.place)
	switch {
	case !t.Before(begin) && t.Before(begin.AddDate(0, 0, 1)):
		return f.T("date.today")
	case !t.Before(begin.AddDate(0, 0, -1)) && t.Before(begin):
		return f.T("date.yesterday")
	}
	return f.day(t)
}

// Zoned shows a person's time zone and the time of the day there.
func (f frame) Zoned(zone string) string {
	place := zoneNamed(zone)
	if place == nil {
		return zone
	}
	return zone + " " + f.Now.In(place).Format("15:04")
}

// Due shows a time to come as a countdown, which the browser goes on with.
func (f frame) Due(at any) template.HTML {
	t := instant(at)
	if t.IsZero() {
		return ""
	}
	return f.shown(t, "due", f.Span(t.Sub(f.Now)), t.In(f.place).Format(stamp))
}

// Spans are the words for times, for the browser: # stands for a number, and {} for a span.
func (f frame) Spans() (string, error) {
	said := map[string]any{"now": f.T("time.now"), "ago": f.T("time.ago", "{}"), "in": f.T("time.in", "{}")}
	for _, s := range spans {
		said[strings.TrimPrefix(s.key, "span.")] = []string{
			strings.Replace(f.T(s.key, int64(1)), "1", "#", 1), strings.Replace(f.T(s.key, int64(2)), "2", "#", 1),
		}
	}
	out, err := json.Marshal(said)
	return string(out), err
}

// goSpan matches a duration as Go writes it, in a text of a service.
var goSpan = regexp.MustCompile(`\b(?:\d+h)?(?:\d+m)?\d+(?:\.\d+)?s\b`)

// spoken turns the durations of a service's text into spans.
func (f frame) spoken(text string) string {
	return goSpan.ReplaceAllStringFunc(text, func(found string) string {
		if d, err := time.ParseDuration(found); err == nil && d >= time.Second {
			return f.Span(d)
		}
		return found
	})
}

func instant(at any) time.Time {
	switch at := at.(type) {
	case time.Time:
		return at
	case *timestamppb.Timestamp:
		if at != nil {
			return at.AsTime()
		}
	}
	return time.Time{}
}
