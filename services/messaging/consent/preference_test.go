package consent_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/messaging/consent"
)

// saying is a line of a corpus.
type saying struct{ want, body string }

func corpus(t testing.TB, file string) (all []saying) {
	t.Helper()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "# ") {
			continue
		}
		want, body, found := strings.Cut(line, "\t")
		require.True(t, found, line)
		all = append(all, saying{want: want, body: strings.ReplaceAll(body, `\u0303`, "\u0303")})
	}
	return all
}

// asked is a preference as the corpus writes it.
func asked(p consent.Preferences) string {
	var all []string
	if p.Reminders != consent.Unsaid {
		all = append(all, "reminders_"+p.Reminders.String())
	}
	if p.Tips != consent.Unsaid {
		all = append(all, "tips_"+p.Tips.String())
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, " ")
}

// The same words ask the same in capitals, loudly and politely. With one more word they ask nothing.
func TestS4_85_S4_70_PreferencesAreWholeIntents(t *testing.T) {
	t.Parallel()
	counts := map[bool]int{}
	for _, s := range corpus(t, "testdata/preferences.tsv") {
		counts[s.want == "none"]++
		t.Run(s.want+"/"+s.body, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, s.want, asked(consent.PreferencesOf(s.body)))
			require.Equal(t, s.want, asked(consent.PreferencesOf(strings.ToUpper(s.body))))
			require.Equal(t, s.want, asked(consent.PreferencesOf("\t🙂 "+s.body+" 👍!! ")))
			if s.want == "none" {
				return
			}
			require.Equal(t, s.want, asked(consent.PreferencesOf("Please, "+s.body+" Thanks")))
			for _, longer := range []string{s.body + " banana", "banana " + s.body, s.body + " hoje no mercado", s.body + " (stop)", "STOP. " + s.body} {
				require.Equal(t, "none", asked(consent.PreferencesOf(longer)), longer)
			}
		})
	}
	require.GreaterOrEqual(t, counts[false], 80)
	require.GreaterOrEqual(t, counts[true], 120)
}

// The language of the answer is that of the words.
func TestPreferencesHaveALanguage(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]consent.Locale{
		"stop reminders": consent.English, "parar lembretes": portuguese, "ativar dicas": portuguese, "tips on": consent.English,
		"obrigada, parar dicas": portuguese, "banana": consent.English,
	} {
		require.Equal(t, want, consent.PreferencesOf(body).Locale, body)
	}
}

// A preference never takes a word that means STOP, START or HELP, nor a clear revocation: consent is read first.
func FuzzPreferencesOf(f *testing.F) {
	for _, s := range corpus(f, "testdata/preferences.tsv") {
		f.Add(s.body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		got := consent.PreferencesOf(body)
		require.Equal(t, got, consent.PreferencesOf("\t🙂 "+body+" 👍!! "), "decoration changes nothing")
		require.Equal(t, got, consent.PreferencesOf("please, "+body+", thanks"), "courtesy changes nothing")
		require.False(t, consent.PreferencesOf(body+" banana").Any(), "one ordinary word makes it ordinary")
		if !got.Any() {
			require.Equal(t, consent.English, got.Locale)
			return
		}
		for _, state := range []consent.State{"", consent.OptedIn, consent.OptedOut} {
			require.Equal(t, consent.None, consent.Classify(body, state))
		}
		wish, _ := consent.Revocation(body)
		require.NotEqual(t, consent.Clear, wish)
		require.Equal(t, got, consent.PreferencesOf(body+", "+body), "repetition changes nothing")
	})
}
