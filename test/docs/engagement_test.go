package docs_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/onboarding/engagement/rules"
)

// TestEngagement holds the diagram of docs/engagement.md to the transitions of a person, and its words to what is understood.
func TestEngagement(t *testing.T) {
	t.Parallel()
	text := read(t, "docs/engagement.md")
	t.Run("S4_37_DiagramHasTheTransitionsOfTheCode", func(t *testing.T) {
		t.Parallel()
		_, diagram, found := strings.Cut(text, "```mermaid\nstateDiagram-v2\n")
		require.True(t, found, "there is no state diagram")
		diagram, _, _ = strings.Cut(diagram, "```")
		want := append(rules.Transitions(), rules.Edge{From: "[*]", Trigger: rules.UserMessage, To: rules.Active})
		var drawn []rules.Edge
		for line := range strings.Lines(diagram) {
			edge := mermaidEdge.FindStringSubmatch(strings.TrimSpace(line))
			require.NotNil(t, edge, line)
			drawn = append(drawn, rules.Edge{From: rules.State(edge[1]), Trigger: rules.Trigger(edge[3]), To: rules.State(edge[2])})
		}
		require.ElementsMatch(t, want, drawn)
	})
	t.Run("ListsTheEventsOfTheCode", func(t *testing.T) {
		t.Parallel()
		var written, listed []string
		for _, found := range regexp.MustCompile(`= "(engagement\.\w+)"`).FindAllStringSubmatch(read(t, "services/onboarding/engagement/engagement.go"), -1) {
			written = append(written, found[1])
		}
		for _, found := range regexp.MustCompile("(?m)^\\| `(engagement\\.\\w+)` \\|").FindAllStringSubmatch(text, -1) {
			listed = append(listed, found[1])
		}
		require.NotEmpty(t, written)
		require.ElementsMatch(t, written, slices.Compact(listed)) // what differs in its data has its own row
	})
	t.Run("EveryWordIsUnderstoodAsItSays", func(t *testing.T) {
		t.Parallel()
		quoted := regexp.MustCompile("`([^`]+)`")
		rows := regexp.MustCompile(`(?m)^\| (.+) \| ((?:choice|destination|reminders|tips) \w+) \|$`).FindAllStringSubmatch(text, -1)
		require.Len(t, rows, 9)
		for _, row := range rows {
			for _, word := range quoted.FindAllStringSubmatch(row[1], -1) {
				require.Equal(t, []string{row[2]}, understood(word[1]), "%q", word[1])
			}
		}
		for _, none := range []string{"1?", "+1", "11", "not busy", "vou sair hoje, gastei 50", "unsubscribe", "opt out", "sair", "stop notifications"} {
			require.Contains(t, text, strings.Fields(none)[0])
			require.Empty(t, understood(none), "%q", none)
		}
	})
}

// TestCommandsAreNoOptOuts: consent is read first, and no command of the corpora means anything to it but what preferences override.
func TestCommandsAreNoOptOuts(t *testing.T) {
	t.Parallel()
	for file, wishes := range map[string][]consent.Wish{
		"services/onboarding/engagement/rules/testdata/commands.tsv": {consent.NoWish},
		"services/messaging/consent/testdata/preferences.tsv":        {consent.NoWish, consent.Unclear},
	} {
		for line := range strings.Lines(read(t, file)) {
			want, message, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			if want == "none" || strings.HasPrefix(want, "#") {
				continue
			}
			wish, _ := consent.Revocation(message)
			require.Contains(t, wishes, wish, "%q", message)
			for _, state := range []consent.State{"", consent.OptedIn, consent.OptedOut} {
				require.Equal(t, consent.None, consent.Classify(message, state), "%q", message)
			}
		}
	}
}

// understood is everything that a message is read as.
func understood(message string) (all []string) {
	if choice := rules.ParseChoice(message); choice != rules.NoChoice {
		all = append(all, []string{"", "choice 1", "choice 2", "choice 3"}[choice])
	}
	if to, ok := rules.ParseDestination(message); ok {
		all = append(all, "destination "+string(to))
	}
	asked := consent.PreferencesOf(message)
	if asked.Reminders != consent.Unsaid {
		all = append(all, "reminders "+asked.Reminders.String())
	}
	if asked.Tips != consent.Unsaid {
		all = append(all, "tips "+asked.Tips.String())
	}
	return all
}
