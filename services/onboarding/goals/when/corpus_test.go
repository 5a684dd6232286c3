package when_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/onboarding/goals/when"
)

// sentence is a row of a corpus.
type sentence struct {
	locale, want, text, goal string
	zone                     *time.Location
	now                      time.Time
}

// corpus reads the sentences of a language.
func corpus(t testing.TB, locale string) []sentence {
	t.Helper()
	file, err := os.ReadFile("testdata/" + locale + ".tsv")
	require.NoError(t, err)
	var sentences []sentence
	at := sentence{locale: locale}
	for line := range strings.Lines(string(file)) {
		line = strings.TrimSuffix(line, "\n")
		cells := strings.Split(line, "\t")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case cells[0] == "=":
			at.zone, err = time.LoadLocation(cells[2])
			require.NoError(t, err)
			at.now, err = time.Parse(time.RFC3339, cells[1])
			require.NoError(t, err)
		default:
			require.Len(t, cells, 2, line)
			row := at
			row.want = cells[0]
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

func TestEveryGoalOfTheCorpusIsReadAsItWasMeant(t *testing.T) {
	t.Parallel()
	for _, locale := range []string{"en", "pt-BR"} {
		counted := map[bool]int{}
		for _, s := range corpus(t, locale) {
			read := when.Read(s.text, s.locale, s.zone, s.now)
			got := map[when.Kind]string{when.None: "none", when.Unclear: "unclear"}[read.Kind]
			switch {
			case read.Kind == when.At:
				got = read.At.In(s.zone).Format(time.RFC3339)
			case read.Past:
				got = "past"
			}
			want := strings.Replace(s.want, "+00:00", "Z", 1)
			if want != strings.Replace(got, "+00:00", "Z", 1) || s.goal != read.Goal {
				t.Errorf("%s at %s\n  want %-26s %q\n  got  %-26s %q", s.text, s.now.Format(time.RFC3339), s.want, s.goal, got, read.Goal)
			}
			counted[strings.HasPrefix(s.want, "2")]++
		}
		require.GreaterOrEqual(t, counted[true]+counted[false], 400, locale)
	}
}
