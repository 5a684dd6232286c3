package timeparse_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"paceline.internal/platform/letters"
	"paceline.internal/services/onboarding/goals/timeparse"
)

// zones lists zones with clocks that change in an unusual way: by half an hour, at midnight, over the date line, never.
var zones = []string{
	"UTC", "America/New_York", "America/Sao_Paulo", "Europe/London", "Europe/Lisbon", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kathmandu",
	"America/Asuncion", "Africa/Cairo", "Africa/Casablanca", "America/Havana", "Antarctica/Troll", "America/St_Johns",
}

var locales = []string{"en", "es", "fr", "pt-BR"}

func zone(t require.TestingT, name string) *time.Location {
	loaded, err := time.LoadLocation(name)
	require.NoError(t, err)
	return loaded
}

// A date and a time of day come back as they were said, or the note names why not: that time is skipped on that day, or comes twice.
func TestS3_03_AWallTimeIsTheSameInItsZoneOrTheNoteSaysWhy(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		zone := zone(rt, rapid.SampledFrom(zones).Draw(rt, "zone"))
		day := time.Date(rapid.IntRange(2001, 2036).Draw(rt, "year"), 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, rapid.IntRange(0, 365).Draw(rt, "day"))
		wall := day.Add(time.Duration(rapid.IntRange(0, 24*60-1).Draw(rt, "minute")) * time.Minute)
		if change := change(rt, zone, day.Year()); !change.IsZero() && rapid.Bool().Draw(rt, "near a change") {
			_, before := change.Add(-time.Second).Zone()
			wall = change.UTC().Add(time.Duration(before)*time.Second + time.Duration(rapid.IntRange(-150, 150).Draw(rt, "off"))*time.Minute)
		}
		now := wall.Add(-time.Duration(rapid.IntRange(30, 24*89).Draw(rt, "hours")) * time.Hour)
		locale := rapid.SampledFrom([]string{"en", "pt-BR"}).Draw(rt, "locale")
		text := wall.Format("call John on 2006-01-02 at 15:04")
		if locale != "en" {
			text = wall.Format("liga pro João 02/01/2006 às 15h04")
		}
		read := timeparse.Read(text, locale, zone, now)
		require.Equal(rt, timeparse.At, read.Kind, text)
		shown := read.At.In(zone)
		got := time.Date(shown.Year(), shown.Month(), shown.Day(), shown.Hour(), shown.Minute(), shown.Second(), 0, time.UTC)
		skipped := strings.Contains(read.Note, "does not exist") || strings.Contains(read.Note, "não existe")
		twice := strings.Contains(read.Note, "twice") || strings.Contains(read.Note, "duas vezes")
		switch {
		case skipped: // the first instant after the change: a second before it the clocks showed less than what was said
			require.True(rt, got.After(wall), "%s: %s", text, shown)
			before := read.At.Add(-time.Second).In(zone)
			require.True(rt, time.Date(before.Year(), before.Month(), before.Day(), before.Hour(), before.Minute(), before.Second(), 0, time.UTC).Before(wall))
		case twice:
			require.Equal(rt, wall, got)
			require.False(rt, shows(zone, wall, read.At.Add(-3*time.Hour), read.At), "an earlier instant shows it too")
			require.True(rt, shows(zone, wall, read.At.Add(time.Second), read.At.Add(3*time.Hour)), "no later instant shows it")
		default:
			require.Equal(rt, wall, got, "%s: %s", text, read.Note)
		}
	})
}

// change is an instant of the year at which the zone's clocks change.
func change(t require.TestingT, zone *time.Location, year int) time.Time {
	_, end := time.Date(year, 1, 1, 0, 0, 0, 0, zone).ZoneBounds()
	if end.Year() != year {
		return time.Time{}
	}
	return end
}

// shows reports whether clocks in the zone show a wall-clock time at an instant from one to before another.
func shows(zone *time.Location, wall, from, to time.Time) bool {
	for at := from.Truncate(time.Minute); at.Before(to); at = at.Add(time.Minute) {
		if !at.Before(from) && at.In(zone).Format(time.DateTime) == wall.Format(time.DateTime) {
			return true
		}
	}
	return false
}

// Whatever is said, in whatever order: the goal has no word that was not said, an instant is to come and in whole seconds, and only an
// instant loses words.
func TestS3_02_AGoalHasOnlyWordsThatWereSaid(t *testing.T) {
	t.Parallel()
	var texts []string
	for _, locale := range locales {
		for _, s := range corpus(t, "testdata/"+locale+".tsv") {
			texts = append(texts, s.text)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		var words []string
		for range rapid.IntRange(1, 3).Draw(rt, "sentences") {
			said := strings.Fields(rapid.SampledFrom(texts).Draw(rt, "text"))
			from := rapid.IntRange(0, len(said)-1).Draw(rt, "from")
			words = append(words, said[from:]...)
		}
		sound(rt, strings.Join(words, " "), rapid.SampledFrom(locales).Draw(rt, "locale"), zone(rt, rapid.SampledFrom(zones).Draw(rt, "zone")))
	})
}

func sound(t require.TestingT, text, locale string, zone *time.Location) {
	now := time.Date(2026, 10, 31, 22, 17, 4, 123, time.UTC)
	read := timeparse.Read(text, locale, zone, now)
	rest := letters.Words(text)
	for _, word := range letters.Words(read.Goal) {
		at := slices.Index(rest, word)
		require.GreaterOrEqual(t, at, 0, "%q of %q", read.Goal, text)
		rest = rest[at+1:]
	}
	if read.Kind == timeparse.At {
		require.True(t, read.At.After(now.Truncate(time.Second)), text)
		require.Zero(t, read.At.Nanosecond())
		require.NotEmpty(t, read.Understood)
		require.False(t, read.Past)
		return
	}
	require.Zero(t, read.At)
	require.Equal(t, strings.TrimSpace(text), read.Goal)
}

func TestS3_01_AnAmountIsExactInHoursAndKeepsTheTimeOfDayInDays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		zone := zone(rt, rapid.SampledFrom(zones).Draw(rt, "zone"))
		now := time.Unix(rapid.Int64Range(1_000_000_000, 2_000_000_000).Draw(rt, "now"), 0).In(zone)
		n := rapid.IntRange(1, 99).Draw(rt, "n")
		minutes := timeparse.Read(fmt.Sprintf("call John in %d minutes", n), "en", zone, now)
		require.Equal(rt, now.Add(time.Duration(n)*time.Minute).UTC(), minutes.At)
		require.Equal(rt, minutes.At, timeparse.Read(fmt.Sprintf("daqui a %d minutos liga pro João", n), "pt-BR", zone, now).At)
		hours := timeparse.Read(fmt.Sprintf("call John %d hours from now", n), "en", zone, now)
		require.Equal(rt, now.Add(time.Duration(n)*time.Hour).UTC(), hours.At)
		days := timeparse.Read(fmt.Sprintf("call John in %d days", n), "en", zone, now)
		if shown := days.At.In(zone); !strings.Contains(days.Note, "does not exist") {
			require.Equal(rt, now.Format(time.TimeOnly), shown.Format(time.TimeOnly))
			year, month, day := now.Date()
			require.Equal(rt, time.Date(year, month, day+n, 12, 0, 0, 0, time.UTC).Format(time.DateOnly), shown.Format(time.DateOnly))
		}
	})
}

func FuzzRead(f *testing.F) {
	for _, locale := range locales {
		for i, s := range corpus(f, "testdata/"+locale+".tsv") {
			if i%20 == 0 {
				f.Add(s.text, locale)
			}
		}
	}
	zone := zone(f, "America/New_York")
	f.Fuzz(func(t *testing.T, text, locale string) {
		if len(text) > 4<<10 {
			return
		}
		sound(t, text, locale, zone)
	})
}

func BenchmarkRead(b *testing.B) {
	zone := zone(b, "America/New_York")
	sentences := append(corpus(b, "testdata/en.tsv"), corpus(b, "testdata/pt-BR.tsv")...)
	var long strings.Builder
	for long.Len() < 1000 {
		long.WriteString(sentences[long.Len()%len(sentences)].text + " ")
	}
	b.Run("ASentence", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			s := &sentences[i%len(sentences)]
			timeparse.Read(s.text, s.locale, s.zone, s.now)
		}
	})
	b.Run("AThousandCharacters", func(b *testing.B) {
		for b.Loop() {
			timeparse.Read(long.String(), "en", zone, sentences[0].now)
		}
	})
}
