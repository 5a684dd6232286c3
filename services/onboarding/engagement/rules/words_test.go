package rules_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/onboarding/engagement/rules"
)

// saying is a line of a corpus.
type saying struct{ want, message string }

func corpus(t testing.TB, file string) (all []saying) {
	t.Helper()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "# ") {
			continue
		}
		want, message, found := strings.Cut(line, "\t")
		require.True(t, found, line)
		all = append(all, saying{want: want, message: message})
	}
	return all
}

// meant is the meaning of a message, as the corpus writes it.
func meant(message string) string {
	var all []string
	if choice := rules.ParseChoice(message); choice != rules.NoChoice {
		all = append(all, []string{"", "choice_1", "choice_2", "choice_3"}[choice])
	}
	if to, ok := rules.ParseDestination(message); ok {
		all = append(all, string(to))
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, " ")
}

func TestS4_51_ChoicesAndDestinationsAreWholeIntents(t *testing.T) {
	t.Parallel()
	counts := map[bool]int{}
	for _, s := range corpus(t, "testdata/commands.tsv") {
		counts[s.want == "none"]++
		t.Run(s.want+"/"+s.message, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, s.want, meant(s.message))
			require.Equal(t, s.want, meant(strings.ToUpper(s.message)))
			require.Equal(t, s.want, meant("\n\t"+s.message+"  "))
			for _, longer := range []string{s.message + " banana", "not " + s.message, "não " + s.message, s.message + " 50"} {
				require.Equal(t, "none", meant(longer), longer)
			}
		})
	}
	require.GreaterOrEqual(t, counts[false], 60)
	require.GreaterOrEqual(t, counts[true], 120)
}

func TestS4_64_WhereAPersonIsWrittenTo(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		preferred rules.Destination
		hasGroup  bool
		want      rules.Destination
		instead   bool
	}{
		{name: "TheirPhone", preferred: rules.Individual, hasGroup: true, want: rules.Individual},
		{name: "TheDefaultIsTheirPhone", want: rules.Individual},
		{name: "TheirGroup", preferred: rules.Group, hasGroup: true, want: rules.Group},
		{name: "TheirPhoneInsteadOfAGroupThatTheyDoNotHave", preferred: rules.Group, want: rules.Individual, instead: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, instead := rules.Resolve(tt.preferred, tt.hasGroup)
			require.Equal(t, tt.want, got)
			require.Equal(t, tt.instead, instead)
		})
	}
	require.Equal(t, rules.Group, rules.FirstDestination(rules.Individual, false, true))
	require.Equal(t, rules.Individual, rules.FirstDestination(rules.Individual, true, true), "a choice is kept")
	require.Equal(t, rules.Individual, rules.FirstDestination(rules.Individual, false, false))
	require.Equal(t, []rules.Destination{"individual", "group"}, rules.Destinations())
}

func FuzzParseChoice(f *testing.F) {
	for _, s := range corpus(f, "testdata/commands.tsv") {
		f.Add(s.message)
	}
	f.Fuzz(func(t *testing.T, message string) {
		choice := rules.ParseChoice(message)
		require.Equal(t, choice, rules.ParseChoice("\t "+message+" ! \n"), "spaces and emphasis change nothing")
		if choice == rules.NoChoice {
			return
		}
		require.Equal(t, choice, rules.ParseChoice("🙂 "+message+" 👍"))
		require.Equal(t, rules.NoChoice, rules.ParseChoice(message+"?"), "a question is none")
		require.Equal(t, rules.NoChoice, rules.ParseChoice(message+" banana"))
		require.Equal(t, rules.NoChoice, rules.ParseChoice(message+" "+message))
		require.Equal(t, rules.NoChoice, rules.ParseChoice("not "+message))
		_, switches := rules.ParseDestination(message)
		require.False(t, switches)
	})
}

func FuzzParseDestination(f *testing.F) {
	for _, s := range corpus(f, "testdata/commands.tsv") {
		f.Add(s.message)
	}
	f.Fuzz(func(t *testing.T, message string) {
		to, ok := rules.ParseDestination(message)
		require.Equal(t, ok, to != "")
		decorated, _ := rules.ParseDestination("\t🙂 " + message + " 👍!! ")
		require.Equal(t, to, decorated, "decoration changes nothing")
		polite, _ := rules.ParseDestination("please, " + message + " thanks")
		require.Equal(t, to, polite, "courtesy changes nothing")
		for _, longer := range []string{message + " banana", "banana " + message, "do not " + message, "não " + message, message + " " + message} {
			_, ok := rules.ParseDestination(longer)
			require.False(t, ok, "%q", longer)
		}
	})
}
