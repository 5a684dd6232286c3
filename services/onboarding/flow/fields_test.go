package flow_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/onboarding/flow"
)

// TestGivenValues holds what the host application sets to the form in which the flow asks for it.
func TestGivenValues(t *testing.T) {
	t.Parallel()
	f, err := flow.Parse(fstest.MapFS{
		"flow.yaml": {Data: []byte("flow: table\nlanguages: [en]\nstart: plan\nsegments: 10\nfields: {told: {type: text, limit: 200}, free: number, link: text, map: {type: text, limit: 100}, note: text}\nsteps:\n" +
			"  plan: {ask: T, expect: {choice: [gold, silver]}, save: plan, unclear: {send: T, then: guests}, then: guests}\n" +
			"  guests: {ask: T, expect: {number: {min: 1, max: 20, whole: true}}, save: guests, unclear: {send: T, then: story}, then: story}\n" +
			"  story: {ask: T, expect: {text: {limit: 200}}, save: story, unclear: {send: T, then: say}, then: say}\n" +
			"  say: {ask: T, expect: reply, save: say, then: told}\n" +
			"  told: {ask: T, expect: reply, save: told, then: wish}\n" +
			"  wish: {ask: T, expect: {text: {limit: 5}}, save: wish, unclear: {send: T, then: done}, then: done}\n" +
			"  done: {end: booked}\n")},
		"en.yaml": {Data: []byte("texts:\n  T: \"Which one? {link|here} {map|there} {wish|any} {story|none} {say|none} {told|none}\"\nchoices:\n  gold: [gold]\n  silver: [silver]\n")},
	})
	require.NoError(t, err)
	for _, tt := range []struct {
		name  string
		value any
		want  string // of the refusal; empty for none
	}{
		{name: "plan", value: "gold"},
		{name: "plan", value: "platinum", want: "plan must be one of gold, silver"},
		{name: "guests", value: 20.0},
		{name: "guests", value: 21.0, want: "guests must be a whole number from 1 to 20"},
		{name: "guests", value: 1.5, want: "guests must be a whole number from 1 to 20"},
		{name: "wish", value: "quiet"},
		{name: "wish", value: strings.Repeat("é", 6), want: "wish must be a text of at most 5 characters"},
		{name: "free", value: 1e9},
		{name: "link", value: strings.Repeat("a", 60)},
		{name: "link", value: strings.Repeat("a", 61), want: "link must be a text, at most 60 characters long (its limit under fields)"},
		{name: "map", value: strings.Repeat("a", 100)},
		{name: "story", value: strings.Repeat("é", 60)},
		{name: "story", value: strings.Repeat("é", 61), want: "story must be a text of at most 60 characters"},
		{name: "say", value: strings.Repeat("a", 60)},
		{name: "say", value: strings.Repeat("a", 61), want: "say must be a text, at most 60 characters long"},
		{name: "told", value: strings.Repeat("a", 200)},
		{name: "told", value: strings.Repeat("a", 201), want: "told must be a text, at most 200 characters long"},
		{name: "note", value: strings.Repeat("a", 1600)}, // no text shows it
	} {
		_, err := f.Declared().Read(map[string]any{tt.name: tt.value})
		if tt.want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, flow.ErrFields)
		require.ErrorContains(t, err, tt.want)
	}

	long := strings.Repeat("a", 100)
	shown, err := f.Render("T", "en", "", map[string]flow.Value{
		"map": {Type: flow.Text, Text: long}, "wish": {Type: flow.Text, Text: long},
		"story": {Type: flow.Text, Text: long + long}, "say": {Type: flow.Text, Text: long}, "told": {Type: flow.Text, Text: long},
	})
	require.NoError(t, err)
	require.Equal(t, "Which one? here "+long+" "+long[:60]+" "+long[:60]+" "+long[:60]+" "+long, shown, "only the person's own words are cut")
	require.NoError(t, f.WrongField(flow.Step{Save: "map"}, long))
	require.ErrorIs(t, f.WrongField(flow.Step{Save: "link"}, long), flow.ErrFields)
	require.ErrorIs(t, f.WrongField(flow.Step{Save: "plan"}, "cow"), flow.ErrFields)
	own, ok := f.Fields["say"].ValueOf(long)
	require.True(t, ok, "the words of a person are kept whole")
	require.Equal(t, long, own.Text)
}

// TestShow shows days and numbers as the people of each language write them.
func TestShow(t *testing.T) {
	t.Parallel()
	wanted := map[string]string{
		"en": "Dec 4, 2026 1234.5", "pt-BR": "4 de dez. de 2026 1234,5", "es": "4 dic. 2026 1234,5", "fr": "4 déc. 2026 1234,5", "de": "2026-12-04 1234,5",
	}
	folder := fstest.MapFS{"flow.yaml": {Data: []byte("flow: visit\nlanguages: [en, pt-BR, es, fr, de]\nfields: {day: date, dose: number}\n" +
		"start: tell\nsteps:\n  tell: {send: T, then: done}\n  done: {end: done}\n")}}
	for language := range wanted {
		folder[language+".yaml"] = &fstest.MapFile{Data: []byte("texts:\n  T: \"{day|-} {dose|0}\"\n")}
	}
	f, err := flow.Parse(folder)
	require.NoError(t, err)
	for language, want := range wanted {
		shown, err := f.Render("T", language, "", map[string]flow.Value{
			"day": {Type: flow.Date, Text: "2026-12-04"}, "dose": {Type: flow.Number, Number: 1234.5},
		})
		require.NoError(t, err)
		require.Equal(t, want, shown, language)
	}
	shown, err := f.Render("T", "en", "", map[string]flow.Value{"dose": {Type: flow.Number, Number: 48213}})
	require.NoError(t, err)
	require.Equal(t, "- 48213", shown, "it may be the number of an order")
}
