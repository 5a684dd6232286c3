package flow_test

import (
	"math"
	"strconv"
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
		"flow.yaml": {Data: []byte("flow: table\nlanguages: [en]\nstart: plan\nsegments: 10\nfields: {told: {type: text, limit: 200}, free: number, owed: number, link: text, map: {type: text, limit: 100}, note: text}\nsteps:\n" +
			"  plan: {ask: T, expect: {choice: [gold, silver]}, save: plan, unclear: {send: T, then: guests}, then: guests}\n" +
			"  guests: {ask: T, expect: {number: {min: 1, max: 20, whole: true}}, save: guests, unclear: {send: T, then: story}, then: story}\n" +
			"  story: {ask: T, expect: {text: {limit: 200}}, save: story, unclear: {send: T, then: say}, then: say}\n" +
			"  say: {ask: T, expect: reply, save: say, then: told}\n" +
			"  told: {ask: T, expect: reply, save: told, then: wish}\n" +
			"  wish: {ask: T, expect: {text: {limit: 5}}, save: wish, unclear: {send: T, then: done}, then: weight}\n" +
			"  weight: {ask: T, expect: {number: {min: 0, max: 300}}, save: weight, unclear: {send: T, then: done}, then: any}\n" +
			"  any: {call: 'https://host.example', save: any, failed: done, then: done}\n" +
			"  done: {end: booked}\n")},
		"en.yaml": {Data: []byte("texts:\n  T: \"Which one? {link|here} {map|there} {wish|any} {story|none} {say|none} {told|none} {owed|none} {weight|none} {any|none}\"\nchoices:\n  gold: [gold]\n  silver: [silver]\n")},
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
		{name: "free", value: -(1<<53 - 1.0)},
		{name: "free", value: 1.0 / 3},
		{name: "free", value: 12345678901234567.0, want: "free must be a number from -9007199254740991 to 9007199254740991"},
		{name: "free", value: math.Inf(1), want: "free must be a number from"},
		{name: "free", value: math.NaN(), want: "free must be a number from"},
		{name: "owed", value: 999999999999.0},
		{name: "owed", value: -999999999.5},
		{name: "owed", value: 1e12, want: "owed must be a number of at most 12 characters, since texts show it"},
		{name: "owed", value: 1.0 / 3, want: "owed must be a number of at most 12 characters"},
		{name: "owed", value: 5e-324, want: "owed must be a number of at most 12 characters"},
		{name: "any", value: 1e12, want: "at most 60 characters long (its limit under fields) or a number of at most 12 characters"},
		{name: "any", value: 2.5},
		{name: "weight", value: 99.5},
		{name: "weight", value: 1.0 / 3, want: "weight must be a number from 0 to 300 of at most 12 characters, since texts show it"},
		{name: "weight", value: 301.0, want: "weight must be a number from 0 to 300"},
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
	require.Equal(t, "Which one? here "+long+" "+long[:60]+" "+long[:60]+" "+long[:60]+" "+long+" none none none", shown, "only the person's own words are cut")
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

// TestLongNumber shows numbers that fields keep from earlier releases within the room that the check of the texts counts.
func TestLongNumber(t *testing.T) {
	t.Parallel()
	folder := fstest.MapFS{"flow.yaml": {Data: []byte("flow: visit\nlanguages: [en, pt-BR, sv]\nfields: {dose: number}\n" +
		"start: ask\nsteps:\n  ask: {ask: T, expect: {number: {min: -1.0e+20, max: 1.0e+20}}, save: dose, unclear: {send: T, then: done}, then: done}\n" +
		"  done: {end: done}\n")}}
	for _, language := range []string{"en", "pt-BR", "sv"} {
		folder[language+".yaml"] = &fstest.MapFile{Data: []byte("texts:\n  T: \"{dose|none}\"\n")}
	}
	f, err := flow.Parse(folder)
	require.NoError(t, err)
	for _, tt := range []struct {
		number     float64
		en, pt, sv string
		given      bool
	}{
		{number: 999999999999, en: "999999999999", pt: "999999999999", sv: "999999999999", given: true},
		{number: -999999999.5, en: "-999999999.5", pt: "-999999999,5", sv: "-999999999,5", given: true},
		{number: 1e12, en: "none", pt: "none", sv: "none"},
		{number: 1e300, en: "none", pt: "none", sv: "none"},
		{number: -123456789012, en: "none", pt: "none", sv: "none"},
		{number: 999999999999.9, en: "none", pt: "none", sv: "none"},
		{number: 5e-324, en: "0", pt: "0", sv: "0"},
		{number: -1e-300, en: "0", pt: "0", sv: "0"},
		{number: 1.0 / 3, en: "0.3333333333", pt: "0,3333333333", sv: "0,3333333333"},
		{number: -2.0 / 3, en: "-0.666666667", pt: "-0,666666667", sv: "-0,666666667"},
		{number: 123456789.987654, en: "123456789.99", pt: "123456789,99", sv: "123456789,99"},
	} {
		for language, want := range map[string]string{"en": tt.en, "pt-BR": tt.pt, "sv": tt.sv} {
			shown, err := f.Render("T", language, "", map[string]flow.Value{"dose": {Type: flow.Number, Number: tt.number}})
			require.NoError(t, err)
			require.Equal(t, want, shown, "%v in %s", tt.number, language)
		}
		_, err := f.Declared().Read(map[string]any{"dose": tt.number})
		require.Equal(t, tt.given, err == nil, "%v: %v", tt.number, err)
		_, kept := f.Fields["dose"].ValueOf(tt.number)
		require.True(t, kept, "what is stored is read")
		written := strconv.FormatFloat(tt.number, 'f', -1, 64)
		d := f.Next(flow.State{Step: "ask", Phase: flow.Waiting}, flow.Person{}, flow.Said{Text: written, Locale: "en"})
		require.Equal(t, tt.given, len(d.Save) == 1, "an answer of %v", tt.number)
	}
	_, ok := f.Fields["dose"].Parse("1e300")
	require.False(t, ok)
}
