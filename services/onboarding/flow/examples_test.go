package flow_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/session"
)

// TestExamples plays every play of examples/flows in every language of its flow.
func TestExamples(t *testing.T) {
	t.Parallel()
	plays, err := filepath.Glob("../../../examples/flows/*/plays/*.txt")
	require.NoError(t, err)
	require.Greater(t, len(plays), 12)
	for _, name := range plays {
		folder := filepath.Dir(filepath.Dir(name))
		f, err := flow.Check(os.DirFS(folder))
		require.NoError(t, err)
		require.Equal(t, filepath.Base(folder), f.Name)
		script, err := os.ReadFile(name)
		require.NoError(t, err)
		for i, language := range f.Languages {
			t.Run(f.Name+"/"+filepath.Base(name)+"/"+language, func(t *testing.T) {
				t.Parallel()
				a := actor{play: play{flow: f, person: flow.Person{FirstName: "Ana", Locale: language}}, column: i}
				a.does = a.happens(flow.Began{})
				for line := range strings.Lines(strings.TrimSpace(string(script))) {
					a.perform(t, strings.TrimSpace(line))
				}
			})
		}
	}
}

// actor plays the part of the person, the host application and the operator.
type actor struct {
	play

	column int // of what the person says, by language
	does   flow.Action
}

// perform holds what the flow does to a line of the play, or has the next thing happen.
func (a *actor) perform(t *testing.T, line string) {
	t.Helper()
	what, rest, _ := strings.Cut(line, ":")
	rest = strings.TrimSpace(rest)
	switch what {
	case "us":
		sent, ok := a.does.(flow.SendText)
		require.True(t, ok, "%s: the flow does %T", line, a.does)
		require.Equal(t, rest, sent.Text)
		text, err := a.flow.Render(sent.Text, a.person.Locale, a.person.FirstName, a.person.Fields)
		require.NoError(t, err)
		require.NotContains(t, text, "|")
		a.does = a.happens(flow.Taken{})
	case "person":
		require.IsType(t, flow.Await{}, a.does, line)
		texts := strings.Split(rest, "|")
		text := strings.TrimSpace(texts[min(a.column, len(texts)-1)])
		a.does = a.happens(flow.Said{
			Text: text, Refused: session.IntentOf(text) == session.Pause, Locale: a.person.Locale,
			At: time.Date(2026, time.November, 20, 12, 0, 0, 0, time.UTC),
		})
	case "silence":
		await, ok := a.does.(flow.Await)
		require.True(t, ok && await.Silence > 0, "%s: the flow does %+v", line, a.does)
		a.does = a.happens(flow.Silent{})
	case "host":
		require.IsType(t, flow.CallHost{}, a.does, line)
		var answer struct {
			Field  any    `json:"field"`
			Branch string `json:"branch"`
		}
		ok := rest != "fails"
		if ok {
			require.NoError(t, json.Unmarshal([]byte(rest), &answer), line)
		}
		a.does = a.happens(flow.Called{OK: ok, Branch: answer.Branch, Field: answer.Field})
	case "ticket":
		opened, is := a.does.(flow.OpenTicket)
		require.True(t, is, line)
		require.Equal(t, rest, opened.Reason)
	case "closed":
		a.does = a.happens(flow.Closed{How: flow.Resumption(rest)})
	case "end":
		require.Equal(t, flow.Finished{Outcome: rest}, a.does)
	case "saved":
		field, value, _ := strings.Cut(rest, " ")
		stored, err := json.Marshal(a.person.Fields[field])
		require.NoError(t, err)
		require.Equal(t, value, strings.Trim(string(stored), `"`), field)
	default:
		require.Fail(t, "a line that is not known: "+line)
	}
}
