package timeparse_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/onboarding/goals/timeparse"
)

// sentence is a row of a corpus.
type sentence struct {
	locale, want, text, goal string
	zone                     *time.Location
	now                      time.Time
}

// corpus reads the sentences of a file. Those that the grammar was made with have their language in the name of the file and the words of
// time in braces; those that measure it have the locale in each row.
func corpus(t testing.TB, name string) []sentence {
	t.Helper()
	file, err := os.ReadFile(name)
	require.NoError(t, err)
	var sentences []sentence
	at := sentence{}
	for line := range strings.Lines(string(file)) {
		line = strings.TrimSuffix(line, "\n")
		cells := strings.Split(line, "\t")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "="):
			block := strings.Fields(line)
			require.Len(t, block, 3, line)
			at.zone, err = time.LoadLocation(block[2])
			require.NoError(t, err)
			at.now, err = time.Parse(time.RFC3339, block[1])
			require.NoError(t, err)
		case len(cells) == 3:
			row := at
			row.locale, row.want, row.text = cells[0], strings.Replace(cells[1], "ask", "unclear", 1), cells[2]
			sentences = append(sentences, row)
		default:
			require.Len(t, cells, 2, line)
			row := at
			row.locale, row.want = strings.TrimSuffix(filepath.Base(name), ".tsv"), cells[0]
			row.text = strings.NewReplacer("{", "", "}", "").Replace(cells[1])
			row.goal = row.text
			if strings.HasPrefix(row.want, "2") {
				row.goal = left(cells[1])
			}
			sentences = append(sentences, row)
		}
	}
	return sentences
}

// left is a sentence without its words in braces.
func left(marked string) string {
	var b strings.Builder
	depth := 0
	for _, r := range marked {
		switch {
		case r == '{':
			depth++
		case r == '}':
			depth--
		case depth == 0:
			b.WriteRune(r)
		}
	}
	goal := strings.Join(strings.Fields(strings.NewReplacer(" ()", "", "()", "").Replace(b.String())), " ")
	return strings.NewReplacer(" ,", "", " .", "").Replace(goal)
}

// got is the reading of a sentence: none, unclear, past, or an instant.
func (s *sentence) got() (string, timeparse.Reading) {
	read := timeparse.Read(s.text, s.locale, s.zone, s.now)
	switch {
	case read.Kind == timeparse.At:
		return read.At.In(s.zone).Format(time.RFC3339), read
	case read.Past:
		return "past", read
	case read.Kind == timeparse.Unclear:
		return "unclear", read
	}
	return "none", read
}

func (s *sentence) instant() bool { return strings.HasPrefix(s.want, "2") }

func (s *sentence) is(got string) bool {
	return strings.Replace(s.want, "+00:00", "Z", 1) == strings.Replace(got, "+00:00", "Z", 1)
}

func TestEveryGoalOfTheCorpusIsReadAsItWasMeant(t *testing.T) {
	t.Parallel()
	for locale, least := range map[string]int{"en": 400, "pt-BR": 400, "es": 40, "fr": 40} {
		sentences := corpus(t, "testdata/"+locale+".tsv")
		for _, s := range sentences {
			if got, read := s.got(); !s.is(got) || s.goal != read.Goal {
				t.Errorf("%s at %s\n  want %-26s %q\n  got  %-26s %q", s.text, s.now.Format(time.RFC3339), s.want, s.goal, got, read.Goal)
			}
		}
		require.GreaterOrEqual(t, len(sentences), least, locale)
	}
}

// measured are the outcomes of the texts of a language.
type measured struct{ instants, read, askedBack, wrong, texts, atOnce int }

// TestTimes measures the files with a name that begins with "times": no text sets a wrong time and none with a time runs at once. What is
// asked back although it has an instant may be so much per thousand; the numbers may only fall.
func TestTimes(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.tsv")
	require.NoError(t, err)
	most := map[string]int{"times-work en": 15, "times-work pt-BR": 0, "times-unseen en": 150, "times-unseen pt-BR": 150}
	table := map[string]*measured{}
	for _, file := range files {
		for _, s := range corpus(t, file) {
			name := strings.TrimSuffix(filepath.Base(file), ".tsv")
			if s.locale != name {
				name += " " + s.locale
			}
			if table[name] == nil {
				table[name] = &measured{}
			}
			m := table[name]
			m.texts++
			got, _ := s.got()
			if s.instant() {
				m.instants++
			}
			switch {
			case got == "none" && s.want != "none":
				m.atOnce++
				t.Errorf("%s: runs at once, want %s: %s", name, s.want, s.text)
			case strings.HasPrefix(got, "2") && !s.is(got):
				m.wrong++
				t.Errorf("%s: %s, want %s: %s", name, got, s.want, s.text)
			case s.instant() && !s.is(got):
				m.askedBack++
				t.Logf("%s: asked back, want %s: %s", name, s.want, s.text)
			case s.instant():
				m.read++
			case !s.is(got):
				t.Logf("%s: %s, want %s: %s", name, got, s.want, s.text)
			}
		}
	}
	var out strings.Builder
	columns := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "\ncorpus\ttexts\twith an instant\tright\tasked back\twrong instant\tran at once")
	for _, name := range slices.Sorted(maps.Keys(table)) {
		m := table[name]
		fmt.Fprintf(columns, "%s\t%d\t%d\t%d\t%d\t%d\t%d\n", name, m.texts, m.instants, m.read, m.askedBack, m.wrong, m.atOnce)
		if limit, ok := most[name]; ok {
			require.LessOrEqual(t, 1000*m.askedBack, limit*m.instants, "%s: %d of %d asked back", name, m.askedBack, m.instants)
		}
	}
	require.NoError(t, columns.Flush())
	t.Log(out.String())
}

// Until four in the morning people may call the day that has begun tomorrow, so the answer names the day.
func TestTomorrowOfTheNightIsSaidByItsName(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, now, want string }{
		{name: "AfterMidnight", now: "2026-11-20T00:30:00Z", want: "Saturday, 21 November, at 09:00"},
		{name: "InTheMorning", now: "2026-11-20T08:30:00Z", want: "tomorrow at 09:00"},
	} {
		now, err := time.Parse(time.RFC3339, tt.now)
		require.NoError(t, err)
		require.Equal(t, tt.want, timeparse.Read("call mom tomorrow at 9am", "en", time.UTC, now).Understood, tt.name)
	}
}
