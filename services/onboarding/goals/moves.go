package goals

import (
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"paceline.internal/platform/letters"
	"paceline.internal/services/onboarding/goals/timeparse"
	"paceline.internal/services/onboarding/words"
)

// The words before a new time for a goal that was just confirmed: of moves in any case, of instead only where nothing but a time follows.
var (
	moves    = begins(words.Together().Lines("goal-move"))
	instead  = begins(words.Together().Lines("goal-instead"))
	trailing = words.Together().Regexp(`(?i)[\s,.!]*(?:\b{goal-move-end})?[\s.!?]*$`)
	number   = regexp.MustCompile(`^\d{1,2}$`)
	alone    = words.Together().Regexp(`(?i)\s{goal-move-alone}[\s.!?]*$`) // is as good as words before the time: "10am instead"
	thisDay  = words.Together().Regexp(`\b{goal-this-day}\b`)
)

// Moves reports whether a message of this instant gives a goal another time, if there is one.
func Moves(message string, at time.Time) bool { return movedTo(message, "", at) != "" }

// movedTo returns the words of time of a message that moves a goal: "10am" of "actually 10am". It is empty where a message moves none.
func movedTo(message, locale string, at time.Time) string {
	rest, certain, begun := message, false, alone.MatchString(message)
	for {
		after, moved := moves.after(rest)
		if !moved {
			var other, led bool
			if after, other = instead.after(rest); !other {
				if after, led = leads().after(rest); !led { // "can you move it to"
					break
				}
				rest = after
				continue
			}
		}
		rest, certain, begun = after, certain || moved, true
	}
	rest = trailing.ReplaceAllString(rest, "")
	if !begun || rest == "" {
		return ""
	}
	if number.MatchString(rest) {
		language, found := words.All().Closest(locale)
		if !found {
			language = words.All()[0]
		}
		rest = language.Text("goal-at") + " " + rest
	}
	read := timeparse.Read(rest, locale, time.UTC, at)
	same := func(a, b string) bool { return slices.Equal(letters.Words(a), letters.Words(b)) }
	switch whole := read.Kind == timeparse.At && read.Goal == "" || read.Kind == timeparse.Unclear && same(read.Understood, rest); {
	case whole, certain && strings.ContainsFunc(rest, unicode.IsDigit), certain && read.Kind == timeparse.Unclear:
		return rest
	}
	return ""
}

// onItsDay reads words that name an hour and no day as an hour of the day that a goal is on: "make it 9" of a goal of tomorrow is tomorrow.
// Words that leave open which half of the day they mean, and would move the goal to the other one, are unclear.
func onItsDay(read timeparse.Reading, said, locale string, zone *time.Location, near, now time.Time) timeparse.Reading {
	if read.Kind == timeparse.Unclear && !read.Past || thisDay.MatchString(strings.Join(letters.Words(said), " ")) {
		return read
	}
	if read.Goal != "" {
		return timeparse.Reading{Kind: timeparse.Unclear, Understood: said}
	}
	if zone == nil {
		zone = time.UTC
	}
	local := near.In(zone)
	day := time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, zone)
	hour := func(from time.Time) (clock time.Time, note string) {
		r := timeparse.Read(said, locale, zone, from)
		if clock = r.At.In(zone); r.Kind != timeparse.At || clock.YearDay() != from.YearDay() {
			return time.Time{}, ""
		}
		return time.Date(day.Year(), day.Month(), day.Day(), clock.Hour(), clock.Minute(), 0, 0, time.UTC), r.Note
	}
	wall, note := hour(day)
	other, _ := hour(day.AddDate(0, 0, 3).Add(time.Minute)) // of another day, and a minute later: neither a day nor an amount was named
	if wall.IsZero() || !wall.Equal(other) {
		return read
	}
	if note != "" && (wall.Hour() < 12) != (local.Hour() < 12) {
		return timeparse.Reading{Kind: timeparse.Unclear, Understood: said}
	}
	kept := timeparse.OnClock(wall, "", locale, zone, now)
	if kept.Note == "" {
		kept.Note = note
	}
	return kept
}
