package studio_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/flow/studio"
)

// parsed checks the files of an import as paceline flow check does.
func parsed(files map[string]string) (flow.Flow, error) {
	folder := fstest.MapFS{}
	for name, text := range files {
		folder[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return flow.Parse(folder)
}

func imported(t *testing.T, file string) (flow.Flow, studio.Imported) {
	t.Helper()
	source, err := os.ReadFile("testdata/" + file)
	require.NoError(t, err)
	out, err := studio.Import(source, "imported", "en")
	require.NoError(t, err)
	f, err := parsed(out.Files)
	require.NoError(t, err, "%s", out.Files["flow.yaml"])
	return f, out
}

// play has a person answer, and returns the texts and what the flow does at the end.
func play(t *testing.T, f flow.Flow, answers ...string) (texts []string, last flow.Action) {
	t.Helper()
	person := flow.Person{FirstName: "Ana", Locale: "en", Fields: map[string]flow.Value{}}
	d := f.Next(flow.State{}, person, flow.Began{})
	for {
		maps.Copy(person.Fields, d.Save)
		switch do := d.Do.(type) {
		case flow.SendText:
			body, err := f.Render(do.Text, "en", person.FirstName, person.Fields)
			require.NoError(t, err)
			texts = append(texts, body)
			d = f.Next(d.State, person, flow.Taken{})
		case flow.Await:
			if len(answers) == 0 {
				return texts, do
			}
			d = f.Next(d.State, person, flow.Said{Text: answers[0], Locale: "en"})
			answers = answers[1:]
		case flow.CallHost:
			d = f.Next(d.State, person, flow.Called{OK: true})
		default:
			return texts, do
		}
	}
}

func TestImport(t *testing.T) {
	t.Parallel()

	t.Run("AMenuBecomesChoices", func(t *testing.T) {
		t.Parallel()
		f, out := imported(t, "menu.json")
		texts, end := play(t, f, "what?", "order", "chocolate, on Friday")
		require.Equal(t, []string{
			"Hi Ana! Reply 1 for hours, 2 to order a cake.", "Please reply 1 or 2.", "Which cake, and for when?",
			"Got it: chocolate, on Friday. A baker confirms it. Ref ...",
		}, texts)
		require.Equal(t, flow.OpenTicket{Reason: "flex"}, end)
		texts, _ = play(t, f, "1")
		require.Equal(t, "We are open from 7 to 18, Tuesday to Sunday.", texts[1])
		var left []string
		for _, l := range out.Left {
			left = append(left, l.Widget)
		}
		require.Equal(t, []string{"Trigger", "Trigger", "welcome", "menu", "keep", "confirm", "say_closed"}, left)
		require.Contains(t, out.Left[0].String(), "Trigger (trigger): calls are not carried over")
	})

	t.Run("OtherConditionsBecomeCEL", func(t *testing.T) {
		t.Parallel()
		f, out := imported(t, "survey.json")
		for name, test := range map[string]struct{ answers, want []string }{
			"refuses": {[]string{"No"}, []string{"Thank you. Goodbye!"}},
			"is low":  {[]string{"Yes", "3", "the wait"}, []string{"From 1 to 10, how was it?", "We are sorry. What went wrong?", "Thank you. Goodbye!"}},
			"is high": {[]string{" y", "9"}, []string{"From 1 to 10, how was it?", "Thank you. Goodbye!"}},
			"no word": {[]string{"yes", "good"}, []string{"From 1 to 10, how was it?", "Thank you. Goodbye!"}},
		} {
			texts, end := play(t, f, test.answers...)
			require.Equal(t, test.want, texts[1:], name)
			require.Equal(t, flow.Finished{Outcome: "completed"}, end, name)
		}
		var left strings.Builder
		for _, l := range out.Left {
			left.WriteString(l.String() + "\n")
		}
		for _, want := range []string{
			"SetContext (set-variables): the variable patient_id is not set", "Other (add-twiml-redirect): TwiML is not carried over; the flow ends there",
			`ByScore (split-based-on): the condition is_after_time "18:00"`, "Why (send-and-wait-for-reply): its picture",
			"Save (make-http-request): the call has Paceline's form", "MarkFailed (run-function): nothing leads here",
		} {
			require.Contains(t, left.String(), want)
		}
	})

	t.Run("WhatIsNoFlowYetIsSaid", func(t *testing.T) {
		t.Parallel()
		source, err := os.ReadFile("testdata/template.json")
		require.NoError(t, err)
		out, err := studio.Import(source, "imported", "en")
		require.NoError(t, err)
		require.Equal(t, "ping (send-message): it has no body, as with a content template: write the text PING", out.Left[0].String())
		_, err = parsed(out.Files)
		require.ErrorContains(t, err, "en.yaml:1: text PING is missing")
		require.ErrorContains(t, err, "leads back to itself without an answer")
	})

	t.Run("WhatIsNoDefinitionIsRefused", func(t *testing.T) {
		t.Parallel()
		for name, test := range map[string]struct{ source, want string }{
			"no JSON":       {"flow: x\n", "line 1: invalid character"},
			"broken":        {"{\n\"states\": [\n}", "line 3: invalid character '}'"},
			"a list":        {"[]", "the file must be another kind of value than array"},
			"kind":          {`{"states": {"a": 1}}`, "line 1: states must be another kind of value than object"},
			"kind of body":  {`{"states": [{"name": "a", "type": "send-message", "properties": {"body": ["x"]}}]}`, "is no text"},
			"none":          {`{"description": "x"}`, "it has no states; export it in Studio with Show Flow JSON"},
			"no name":       {`{"states": [{"type": "trigger"}]}`, "state 1 has no name or no type"},
			"null":          {`{"states": [null]}`, "state 1 has no name or no type"},
			"twice":         {`{"states": [{"name": "a", "type": "trigger"}, {"name": "a", "type": "trigger"}]}`, `two states are called "a"`},
			"leads nowhere": {`{"states": [{"name": "a", "type": "trigger", "transitions": [{"event": "x", "next": "b"}]}]}`, `"a" leads to "b", which is no state`},
			"begins":        {`{"states": [{"name": "a", "type": "trigger"}], "initial_state": "b"}`, `initial_state "b" is no state`},
			"UTF-8":         {"{\"states\": \"\xff\"}", "not in UTF-8"},
		} {
			_, err := studio.Import([]byte(test.source), "imported", "en")
			require.ErrorIs(t, err, studio.ErrDefinition, name)
			require.ErrorContains(t, err, test.want, name)
		}
	})
}

// FuzzImport reads files of any content: an error about the file, or a flow of the right form, which can have problems only in its words
// and steps.
func FuzzImport(f *testing.F) {
	names, err := filepath.Glob("testdata/*.json")
	require.NoError(f, err)
	for _, name := range names {
		source, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(source)
	}
	f.Fuzz(func(t *testing.T, source []byte) {
		out, err := studio.Import(source, "imported", "en")
		if err != nil {
			require.ErrorIs(t, err, studio.ErrDefinition)
			return
		}
		_, err = parsed(out.Files)
		problems, _ := errors.AsType[flow.Problems](err)
		for _, p := range problems {
			for _, form := range []string{"is no key here", "write a ", "did not find", "is missing: ", "which is no step"} {
				require.NotContains(t, p.Text, form, "%s\n%s", out.Files["flow.yaml"], out.Files["en.yaml"])
			}
		}
	})
}
