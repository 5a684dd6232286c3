package flow_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"paceline.internal/services/onboarding/flow"
)

// play drives one session by hand.
type play struct {
	flow   flow.Flow
	state  flow.State
	person flow.Person
}

func (p *play) happens(e flow.Event) flow.Action {
	d := p.flow.Next(p.state, p.person, e)
	p.state = d.State
	for name, value := range d.Save {
		if p.person.Fields == nil {
			p.person.Fields = map[string]flow.Value{}
		}
		p.person.Fields[name] = value
	}
	return d.Do
}

func says(text string) flow.Said {
	return flow.Said{Text: text, Locale: "en", At: time.Date(2026, time.November, 20, 12, 0, 0, 0, time.UTC), Refused: text == "no" || text == "later" || text == "tomorrow"}
}

func TestNext(t *testing.T) {
	t.Parallel()
	p := &play{flow: sample(t), person: flow.Person{FirstName: "Ana", Locale: "en"}}
	day := 24 * time.Hour
	for i, move := range []struct {
		happens flow.Event
		want    flow.Action
	}{
		{flow.Began{}, flow.SendText{Step: "opening", Text: "OPENING", Key: "opening", Direct: true}},
		{says("hello"), flow.Defer{}},
		{flow.Taken{}, flow.Await{}},
		{says("later"), flow.SendText{Step: "opening", Text: "LATER", Key: "opening:negative:1", Direct: true}},
		{flow.Taken{}, flow.Await{}},
		{says("no"), flow.SendText{Step: "opening", Text: "LATER", Key: "opening:negative:2", Direct: true}},
		{flow.Taken{}, flow.Await{}},
		{flow.Silent{}, flow.Ignore{}},
		{says("ok then"), flow.SendText{Step: "message_1", Text: "MESSAGE_1", Key: "message_1", Direct: true}},
		{flow.Taken{}, flow.SendText{Step: "message_2", Text: "MESSAGE_2", Key: "message_2", After: 8 * time.Second}},
		{flow.Taken{}, flow.SendText{Step: "budget", Text: "QUESTION_BUDGET", Key: "budget"}},
		{flow.Taken{}, flow.Await{Silence: day}},
		{says("what?"), flow.SendText{Step: "budget", Text: "CHOOSE_ONE", Key: "budget:unclear:1", Direct: true}},
		{flow.Taken{}, flow.Await{Silence: day}},
		{flow.Silent{}, flow.SendText{Step: "budget", Text: "NUDGE", Key: "budget:silence:1"}},
		{flow.Taken{}, flow.Await{Silence: day}},
		{flow.Called{OK: true}, flow.Ignore{}},
		{says("it is Very tight!"), flow.CallHost{Step: "score", URL: "https://host.example/score", Key: "score", Timeout: 10 * time.Second}},
		{flow.Called{OK: true, Field: 4.0}, flow.SendText{Step: "offered", Text: "OFFER", Key: "offered"}},
		{flow.Taken{}, flow.Finished{Outcome: "completed"}},
		{flow.Taken{}, flow.Ignore{}},
		{says("hello?"), flow.Ignore{}},
	} {
		require.Equal(t, move.want, p.happens(move.happens), "move %d", i)
	}
	require.Equal(t, map[string]flow.Value{"budget": {Type: flow.Choice, Text: "tight"}, "score": {Type: flow.Number, Number: 4}}, p.person.Fields)
}

// TestWaitAt: a wait at another step is another visit of it, so that nothing there has a key that was used.
func TestWaitAt(t *testing.T) {
	t.Parallel()
	f, err := flow.Parse(fstest.MapFS{
		"flow.yaml": {Data: []byte(`
flow: back
languages: [en]
start: day
steps:
  day: {ask: DAY, expect: {choice: [monday, friday]}, unclear: {send: CHOOSE, times: 1, then: done}, then: sure}
  sure: {send: SURE, wait: reply, negative: {send: WHICH, wait_at: day}, then: done}
  done: {end: over}
`)},
		"en.yaml": {Data: []byte("texts:\n  DAY: Which day?\n  CHOOSE: Monday or Friday?\n  SURE: Sure?\n  WHICH: Which then?\n")},
	})
	require.NoError(t, err)
	p := &play{flow: f, person: flow.Person{Locale: "en"}}
	seen := map[string]bool{}
	for _, happens := range []flow.Event{
		flow.Began{},
		flow.Taken{},
		says("hm"),
		flow.Taken{},
		says("Monday"),
		flow.Taken{},
		says("no"),
		flow.Taken{},
		says("hm"),
		flow.Taken{},
		says("Friday"),
		flow.Taken{},
		says("no"),
		flow.Taken{},
		says("hm"),
		flow.Taken{},
	} {
		if text, sends := p.happens(happens).(flow.SendText); sends {
			require.False(t, seen[text.Key], text.Key)
			seen[text.Key] = true
		}
	}
	require.Len(t, seen, 8)
	require.Equal(t, flow.Waiting, p.state.Phase)
}

// TestWrongBranch names a branch that a call does not have.
func TestWrongBranch(t *testing.T) {
	t.Parallel()
	f := sample(t)
	require.Equal(t, `step score has no branch "bookd", so it goes on with offer; its branches: none`, f.WrongBranch("score", "bookd"))
	require.Empty(t, f.WrongBranch("score", ""))
}

// TestElsewhere begins at the question.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	asked := flow.State{Step: "budget", Phase: flow.Waiting, Visits: map[string]int{"budget": 1}}
	for name, test := range map[string]struct {
		happens []flow.Event
		want    flow.Action
	}{
		"a branch not met":      {[]flow.Event{says("3"), flow.Called{OK: true, Field: 2.0}}, flow.Finished{Outcome: "completed"}},
		"no value":              {[]flow.Event{says("3"), flow.Called{OK: true}}, flow.Finished{Outcome: "completed"}},
		"the host fails":        {[]flow.Event{says("3"), flow.Called{}}, flow.Finished{Outcome: "completed"}},
		"a refusal is unclear":  {[]flow.Event{says("no")}, flow.SendText{Step: "budget", Text: "CHOOSE_ONE", Key: "budget:unclear:1", Direct: true}},
		"unclear to the end":    {[]flow.Event{says("a"), flow.Taken{}, says("b"), flow.Taken{}, says("c")}, flow.OpenTicket{Reason: "unclear_answer", Unclear: true}},
		"silent to the end":     {[]flow.Event{flow.Silent{}, flow.Taken{}, flow.Silent{}}, flow.Finished{Outcome: "completed"}},
		"a ticket closed":       {[]flow.Event{says("a"), flow.Taken{}, says("b"), flow.Taken{}, says("c"), flow.Closed{How: flow.Resume}}, flow.Finished{Outcome: "completed"}},
		"a question once again": {[]flow.Event{says("a"), flow.Taken{}, says("b"), flow.Taken{}, says("c"), flow.Closed{How: flow.Restart}}, flow.SendText{Step: "budget", Text: "QUESTION_BUDGET", Key: "budget#2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &play{flow: sample(t), person: flow.Person{Locale: "en"}, state: asked}
			var last flow.Action
			for _, e := range test.happens {
				last = p.happens(e)
			}
			require.Equal(t, test.want, last)
		})
	}
}

// TestAnswers reads answers of every form.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		expect, text, locale string
		want                 *flow.Value
	}{
		{"yes_no", "yes!", "en", &flow.Value{Type: flow.YesNo, Text: "yes"}},
		{"yes_no", "sim", "pt-BR", &flow.Value{Type: flow.YesNo, Text: "yes"}},
		{"yes_no", "no", "en", &flow.Value{Type: flow.YesNo, Text: "no"}},
		{"yes_no", "what is this", "en", nil},
		{"{number: {min: 0, max: 5000}}", "about 1,250.50 I think", "en", &flow.Value{Type: flow.Number, Number: 1250.5}},
		{"{number: {min: 0, max: 5000}}", "R$ 1.250,50", "pt-BR", &flow.Value{Type: flow.Number, Number: 1250.5}},
		{"{number: {min: 0, max: 5000}}", "1.250", "pt-BR", &flow.Value{Type: flow.Number, Number: 1250}},
		{"{number: {min: 0, max: 5000}}", "1,250", "en", &flow.Value{Type: flow.Number, Number: 1250}},
		{"{number: {min: 0, max: 5000}}", "2,5", "pt-BR", &flow.Value{Type: flow.Number, Number: 2.5}},
		{"{number: {min: 0, max: 5000}}", "5001", "en", nil},
		{"{number: {min: 0, max: 5000}}", "2 or 3", "en", nil},
		{"{number: {min: 0, max: 5, whole: true}}", "2.5", "en", nil},
		{"{number: {min: -5, max: 5}}", "-3", "en", &flow.Value{Type: flow.Number, Number: -3}},
		{"{text: {limit: 10}}", " a word ", "en", &flow.Value{Type: flow.Text, Text: "a word"}},
		{"{text: {limit: 10}}", "more than ten letters", "en", nil},
		{"date", "2026-12-24", "en", &flow.Value{Type: flow.Date, Text: "2026-12-24"}},
		{"date", "tomorrow at 9am", "en", &flow.Value{Type: flow.Date, Text: "2026-11-21"}},
		{"date", "soon", "en", nil},
		{"date", "tomorrow", "en", &flow.Value{Type: flow.Date, Text: "2026-11-21"}},
		{"date", "maybe next Friday?", "en", nil}, // the one in a week, or today
		{"date", "Monday please", "en", &flow.Value{Type: flow.Date, Text: "2026-11-23"}},
		{"date", "12 March", "en", &flow.Value{Type: flow.Date, Text: "2027-03-12"}},
		{"date", "March 12, 2027", "en", &flow.Value{Type: flow.Date, Text: "2027-03-12"}},
		{"date", "in 3 days", "en", &flow.Value{Type: flow.Date, Text: "2026-11-23"}},
		{"date", "in a month", "en", &flow.Value{Type: flow.Date, Text: "2026-12-20"}},
		{"date", "2026-12-1", "en", &flow.Value{Type: flow.Date, Text: "2026-12-01"}},
		{"date", "at 8pm", "en", nil},
		{"date", "Monday or Tuesday", "en", nil},
		{"date", "amanhã", "pt-BR", &flow.Value{Type: flow.Date, Text: "2026-11-21"}},
		{"date", "segunda-feira", "pt-BR", &flow.Value{Type: flow.Date, Text: "2026-11-23"}},
		{"date", "12 de março", "pt-BR", &flow.Value{Type: flow.Date, Text: "2027-03-12"}},
		{"date", "31/12", "pt-BR", &flow.Value{Type: flow.Date, Text: "2026-12-31"}},
		{"date", "sexta", "pt-BR", nil}, // today, or in a week
		{"date", "fri", "en", nil},
		{"date", "segunda", "pt-BR", &flow.Value{Type: flow.Date, Text: "2026-11-23"}},
		{"date", "Na quarta, por favor", "pt-BR", &flow.Value{Type: flow.Date, Text: "2026-11-25"}},
		{"date", "qui.", "pt-BR", &flow.Value{Type: flow.Date, Text: "2026-11-26"}},
		{"date", "terça ou quarta", "pt-BR", nil},
		{"date", "a segunda opção", "pt-BR", nil},
		{"date", "Mon", "en", &flow.Value{Type: flow.Date, Text: "2026-11-23"}},
		{"date", "on sun please", "en", &flow.Value{Type: flow.Date, Text: "2026-11-22"}},
		{"date", "sat or sun", "en", nil},
		{"date", "not mon", "en", nil},
		{"date", "every tue", "en", nil},
		{"date", "second", "en", nil},
		{"yes_no", "yes, tomorrow", "en", nil},
		{"yes_no", "later", "en", nil},
		{"yes_no", "talvez amanhã", "pt-BR", nil},
		{"yes_no", "Ok, thanks", "en", &flow.Value{Type: flow.YesNo, Text: "yes"}},
		{"yes_no", "👍🏽", "en", &flow.Value{Type: flow.YesNo, Text: "yes"}},
		{"yes_no", "não, obrigado", "pt-BR", &flow.Value{Type: flow.YesNo, Text: "no"}},
		{"yes_no", "👎", "en", &flow.Value{Type: flow.YesNo, Text: "no"}},
		{"{number: {min: 0, max: 5000}}", "1 2", "en", nil},
		{"{number: {min: 0, max: 5000}}", "1 250", "pt-BR", &flow.Value{Type: flow.Number, Number: 1250}},
		{"{number: {min: 0, max: 5000}}", "1.2.3", "en", nil},
		{"{number: {min: 0, max: 5000}}", ".5", "en", nil},
		{"{number: {min: 0, max: 5000}}", "2k", "en", nil},
		{"{number: {min: 0, max: 5000}}", "2 mil", "pt-BR", nil},
		{"{number: {min: 0, max: 5000}}", "not 2", "en", nil},
		{"{number: {min: 0, max: 5000}}", "２", "en", &flow.Value{Type: flow.Number, Number: 2}},
		{"yes_no", "of course", "en", &flow.Value{Type: flow.YesNo, Text: "yes"}},
		{"yes_no", "Yes, of course!", "en", &flow.Value{Type: flow.YesNo, Text: "yes"}},
		{"yes_no", "I think so", "en", &flow.Value{Type: flow.YesNo, Text: "yes"}},
		{"yes_no", "sure, why not", "en", &flow.Value{Type: flow.YesNo, Text: "yes"}},
		{"yes_no", "of course not", "en", &flow.Value{Type: flow.YesNo, Text: "no"}},
		{"yes_no", "absolutely not", "en", &flow.Value{Type: flow.YesNo, Text: "no"}},
		{"yes_no", "not really", "en", &flow.Value{Type: flow.YesNo, Text: "no"}},
		{"{number: {min: 1, max: 8}}", "it isn't 5", "en", nil},
		{"{number: {min: 1, max: 8}}", "I donʼt have 5", "en", nil},
		{"{number: {min: 1, max: 8}}", "it wasn't 5", "en", nil},
		{"{number: {min: 1, max: 8}}", "anything but 5", "en", nil},
		{"{number: {min: 1, max: 8}}", "qualquer um menos 5", "pt-BR", nil},
		{"yes_no", "I donʼt think so", "en", &flow.Value{Type: flow.YesNo, Text: "no"}},
		{"yes_no", "I don't think so", "en", &flow.Value{Type: flow.YesNo, Text: "no"}},
		{"yes_no", "No, sorry", "en", &flow.Value{Type: flow.YesNo, Text: "no"}},
		{"yes_no", "sorry, no", "en", &flow.Value{Type: flow.YesNo, Text: "no"}},
		{"yes_no", "Unfortunately not", "en", &flow.Value{Type: flow.YesNo, Text: "no"}},
		{"yes_no", "well", "en", nil},
		{"yes_no", "not now", "en", nil},
		{"yes_no", "of course not Monday", "en", nil},
		{"yes_no", "yes but not Tuesday", "en", nil},
		{"yes_no", "claro que sim", "pt-BR", &flow.Value{Type: flow.YesNo, Text: "yes"}},
		{"yes_no", "com certeza", "pt-BR", &flow.Value{Type: flow.YesNo, Text: "yes"}},
		{"yes_no", "claro que não", "pt-BR", &flow.Value{Type: flow.YesNo, Text: "no"}},
		{"yes_no", "acho que não", "pt-BR", &flow.Value{Type: flow.YesNo, Text: "no"}},
		{"yes_no", "não, desculpe", "pt-BR", &flow.Value{Type: flow.YesNo, Text: "no"}},
		{"yes_no", "não vou", "pt-BR", nil},
		{"yes_no", "confirmo", "pt-BR", nil},
		{"{number: {min: 1, max: 5}}", "I waited 5 minutes", "en", nil},
		{"{number: {min: 1, max: 5}}", "I was there at 4", "en", nil},
		{"{number: {min: 1, max: 5}}", "2 people were rude", "en", nil},
		{"{number: {min: 1, max: 5}}", "at 4", "en", nil},
		{"{number: {min: 1, max: 5}}", "after 3", "en", nil},
		{"{number: {min: 1, max: 5}}", "4 o'clock", "en", nil},
		{"{number: {min: 1, max: 5}}", "esperei 5 minutos", "en", nil},
		{"{number: {min: 1, max: 5}}", "cheguei às 4", "pt-BR", nil},
		{"{number: {min: 1, max: 5}}", "esperei 5 minutos", "pt-BR", nil},
		{"{number: {min: 1, max: 5}}", "4", "en", &flow.Value{Type: flow.Number, Number: 4}},
		{"{number: {min: 1, max: 5}}", "4.5", "en", &flow.Value{Type: flow.Number, Number: 4.5}},
		{"{number: {min: 1, max: 5}}", "maybe 4.5 stars", "en", &flow.Value{Type: flow.Number, Number: 4.5}},
		{"{number: {min: 1, max: 5}}", "1.5 hours", "en", nil},
		{"{number: {min: 1, max: 5}}", "a 4", "en", &flow.Value{Type: flow.Number, Number: 4}},
		{"{number: {min: 1, max: 5}}", "4 stars", "en", &flow.Value{Type: flow.Number, Number: 4}},
		{"{number: {min: 1, max: 5}}", "I'd give it a 4", "en", &flow.Value{Type: flow.Number, Number: 4}},
		{"{number: {min: 1, max: 5}}", "5 out of 5", "en", &flow.Value{Type: flow.Number, Number: 5}},
		{"{number: {min: 1, max: 5}}", "4/5", "en", &flow.Value{Type: flow.Number, Number: 4}},
		{"{number: {min: 1, max: 5}}", "5!", "en", &flow.Value{Type: flow.Number, Number: 5}},
		{"{number: {min: 1, max: 5}}", "4, but I waited", "en", &flow.Value{Type: flow.Number, Number: 4}},
		{"{number: {min: 1, max: 5}}", "3 because it was cold", "en", &flow.Value{Type: flow.Number, Number: 3}},
		{"{number: {min: 1, max: 5}}", "It was great, 5", "en", &flow.Value{Type: flow.Number, Number: 5}},
		{"{number: {min: 1, max: 5}}", "Maybe a 3 please", "en", &flow.Value{Type: flow.Number, Number: 3}},
		{"{number: {min: 1, max: 5}}", "nota 4", "pt-BR", &flow.Value{Type: flow.Number, Number: 4}},
		{"{number: {min: 1, max: 5}}", "dou 5", "pt-BR", &flow.Value{Type: flow.Number, Number: 5}},
		{"{number: {min: 1, max: 5}}", "2, porque demorou", "pt-BR", &flow.Value{Type: flow.Number, Number: 2}},
		{"{number: {min: 1, max: 60}}", "5 days I think", "en", &flow.Value{Type: flow.Number, Number: 5}},
		{"date", "I can't do Monday", "en", nil},
		{"date", "Monday doesn't work", "en", nil},
		{"date", "Monday isn't good", "en", nil},
		{"date", "Monday is bad", "en", nil},
		{"date", "busy on Monday", "en", nil},
		{"date", "unable to do Monday", "en", nil},
		{"date", "Anything but monday", "en", nil},
		{"date", "I won't be home Monday", "en", nil},
		{"date", "no puedo el lunes", "es", nil},
		{"date", "não posso na segunda", "pt-BR", nil},
		{"date", "segunda é ruim", "pt-BR", nil},
		{"date", "segunda é impossível", "pt-BR", nil},
		{"date", "Monday is good", "en", &flow.Value{Type: flow.Date, Text: "2026-11-23"}},
		{"date", "Monday works for me", "en", &flow.Value{Type: flow.Date, Text: "2026-11-23"}},
		{"date", "segunda-feira está ótimo", "pt-BR", &flow.Value{Type: flow.Date, Text: "2026-11-23"}},
		{"{number: {min: 0, max: 5000}}", "Sorry I lost my job 3 months ago", "en", nil},
		{"{number: {min: 0, max: 5000}}", "ask me in 2 weeks", "en", nil},
		{"{number: {min: 0, max: 5000}}", "5pm", "en", nil},
		{"{number: {min: 0, max: 5000}}", "at 5", "en", nil},
		{"{number: {min: 0, max: 5000}}", "on the 5th", "en", nil},
		{"{number: {min: 0, max: 5000}}", "minus 5", "en", nil},
		{"{number: {min: 0, max: 5000}}", "less than 5", "en", nil},
		{"{number: {min: 0, max: 5000}}", "6 and a half", "en", nil},
		{"{number: {min: 0, max: 5000}}", "went to bed at 11", "en", nil},
		{"{number: {min: 0, max: 5000}}", "sorry I meant 5", "en", nil},
		{"{number: {min: 0, max: 5000}}", "há 3 meses", "pt-BR", nil},
		{"{number: {min: 0, max: 5000}}", "às 5", "pt-BR", nil},
		{"{number: {min: 0, max: 5000}}", "5 da tarde", "pt-BR", nil},
		{"{number: {min: 0, max: 5000}}", "daqui a 2 semanas", "pt-BR", nil},
		{"{number: {min: 0, max: 5000}}", "mais de 5", "pt-BR", nil},
		{"{number: {min: 0, max: 5000}}", "5 e meia", "pt-BR", nil},
		{"{number: {min: 0, max: 5000}}", "quis dizer 5", "pt-BR", nil},
		{"{number: {min: 0, max: 5000}}", "1,250", "pt-BR", nil},
		{"{number: {min: 0, max: 5000}}", "1.250", "en", nil},
		{"{number: {min: 0, max: 5000}}", "R$ 1,500", "pt-BR", nil},
		{"{number: {min: 0, max: 5000}}", "about 5", "en", &flow.Value{Type: flow.Number, Number: 5}},
		{"{number: {min: 0, max: 5000}}", "around 5 hours", "en", &flow.Value{Type: flow.Number, Number: 5}},
		{"{number: {min: 0, max: 5000}}", "5 days", "en", &flow.Value{Type: flow.Number, Number: 5}},
		{"{number: {min: 0, max: 5000}}", "I'm 82", "en", &flow.Value{Type: flow.Number, Number: 82}},
		{"{number: {min: 0, max: 5000}}", "0.125", "en", &flow.Value{Type: flow.Number, Number: 0.125}},
		{"{number: {min: 0, max: 5000}}", "0,125", "pt-BR", &flow.Value{Type: flow.Number, Number: 0.125}},
		{"{number: {min: 0, max: 5000}}", "1234.567", "en", &flow.Value{Type: flow.Number, Number: 1234.567}},
		{"{number: {min: 0, max: 5000}}", "1.250,125", "pt-BR", &flow.Value{Type: flow.Number, Number: 1250.125}},
		{"{choice: [often, not_often, never]}", "2️⃣", "en", &flow.Value{Type: flow.Choice, Text: "not_often"}},
		{"{choice: [often, not_often, never]}", "option 2", "en", &flow.Value{Type: flow.Choice, Text: "not_often"}},
		{"{choice: [often, not_often, never]}", "I do not go out that often", "en", nil},
		{"{choice: [often, not_often, never]}", "not 2", "en", nil},
		{"{choice: [often, not_often, never]}", "2)", "en", &flow.Value{Type: flow.Choice, Text: "not_often"}},
		{"{choice: [often, not_often, never]}", "Not often.", "en", &flow.Value{Type: flow.Choice, Text: "not_often"}},
		{"{choice: [often, not_often, never]}", "quite often", "en", &flow.Value{Type: flow.Choice, Text: "often"}},
		{"{choice: [often, not_often, never]}", "often or never", "en", nil},
		{"{choice: [often, not_often, never]}", "7", "en", nil},
	} {
		t.Run(test.expect+" "+test.text, func(t *testing.T) {
			t.Parallel()
			f, err := flow.Parse(fstest.MapFS{
				"flow.yaml": {Data: []byte("flow: f\nlanguages: [en, pt-BR]\nstart: q\nsteps:\n" +
					"  q: {ask: Q, expect: " + test.expect + ", save: answer, unclear: {send: U, then: bad}, then: good}\n" +
					"  good: {end: good}\n  bad: {end: bad}\n")},
				// Both name a scale.
				"en.yaml":    {Data: []byte("texts: {Q: 'Can you come, from 1 to 5?', U: Again}")},
				"pt-BR.yaml": {Data: []byte("texts: {Q: 'Quer cancelar, de 1 a 5?', U: De novo}")},
			})
			require.NoError(t, err)
			p := &play{flow: f, state: flow.State{Step: "q", Phase: flow.Waiting}}
			said := says(test.text)
			said.Locale = test.locale
			p.happens(said)
			if test.want == nil {
				require.Empty(t, p.person.Fields)
				return
			}
			require.Equal(t, map[string]flow.Value{"answer": *test.want}, p.person.Fields)
		})
	}
}

// TestCountsAreNoRatings holds that a question for a count takes one among any words, although it names its bounds.
func TestCountsAreNoRatings(t *testing.T) {
	t.Parallel()
	f, err := flow.Parse(fstest.MapFS{
		"flow.yaml": {Data: []byte("flow: f\nlanguages: [en]\nstart: q\nsteps:\n" +
			"  q: {ask: Q, expect: {number: {min: 1, max: 8}}, save: answer, unclear: {send: U, then: end}, then: end}\n  end: {end: done}\n")},
		"en.yaml": {Data: []byte("texts: {Q: 'How many of you come, 1 to 8?', U: Again}")},
	})
	require.NoError(t, err)
	p := &play{flow: f, state: flow.State{Step: "q", Phase: flow.Waiting}}
	p.happens(says("we'll be 4 people"))
	require.Equal(t, map[string]flow.Value{"answer": {Type: flow.Number, Number: 4}}, p.person.Fields)
}

// TestChoices reads answers to a choice. Only an answer by place depends on the order of the choices.
func TestChoices(t *testing.T) {
	t.Parallel()
	type words map[string][]string
	taste := words{"good": {"good"}, "very_good": {"very good"}, "not_good": {"not good"}}
	gosto := words{"good": {"bom"}, "very_good": {"muito bom"}, "not_good": {"nada bom"}}
	sure := words{"sure": nil, "not_sure": nil}
	slots := words{"a_noon": {"2 pm", "14h"}, "b_morning": {"9am"}, "c_next_day": {"24h", "within 24h"}}
	horas := words{"a_noon": {"14h", "2 de la tarde"}, "b_morning": {"9 h", "9 horas"}, "c_next_day": {"em 24h"}}
	bags := words{"a_small": {"2 kg"}, "b_large": {"5kg"}, "c_box": {"caja"}}
	visit := words{"come": {"yes"}, "stay": {"no", "cannot come"}}
	visita := words{"come": {"sim"}, "stay": {"não", "no"}}
	fine := words{"fine": {"ok"}, "can": nil, "cannot": {"can't"}, "unknown": {"don't know"}}
	pets := words{"cat": nil, "dog": nil, "don": {"Don"}}
	parts := words{"a_morning": {"morning"}, "b_noon": {"noon"}, "c_night": {"night"}}
	for _, test := range []struct {
		locale  string
		choices words
		text    string
		place   bool
		want    string
	}{
		{"en", taste, "very good", false, "very_good"},
		{"en", taste, "Very good, thanks", false, "very_good"},
		{"en", taste, "it was good", false, "good"},
		{"en", taste, "not good", false, "not_good"},
		{"en", taste, "not very good", false, ""},
		{"en", taste, "very good, or just good", false, ""},
		{"en", taste, "very good, very good!", false, "very_good"},
		{"pt-BR", gosto, "muito bom", false, "very_good"},
		{"pt-BR", gosto, "nada bom", false, "not_good"},
		{"en", sure, "I'm not sure", false, "not_sure"},
		{"en", sure, "sure", false, "sure"},
		{"en", slots, "2pm", false, "a_noon"},
		{"en", slots, "2 pm please", false, "a_noon"},
		{"en", slots, "ok, see you at 2 PM then", false, "a_noon"},
		{"en", slots, "9 am", false, "b_morning"},
		{"en", slots, "14 h", false, "a_noon"},
		{"en", slots, "24h", false, "c_next_day"},
		{"en", slots, "within 24 h", false, "c_next_day"},
		{"en", slots, "3pm", false, ""},
		{"en", slots, "12 pm", false, ""},
		{"en", slots, "2:30 pm", false, ""},
		{"en", slots, "2 pm or 9 am", false, ""},
		{"en", slots, "2 pm or 3", true, ""},
		{"en", slots, "1) 2 pm", true, "a_noon"},
		{"en", slots, "2", true, "b_morning"},
		{"pt-BR", horas, "14h", false, "a_noon"},
		{"pt-BR", horas, "às 9h por favor", false, "b_morning"},
		{"pt-BR", horas, "14h30", false, ""},
		{"pt-BR", horas, "2h", false, ""},
		{"es", horas, "a las 2 de la tarde", false, "a_noon"},
		{"es", horas, "9 horas", false, "b_morning"},
		{"es", horas, "3 horas", false, ""},
		{"es", bags, "2kg", false, "a_small"},
		{"es", bags, "3 kg", false, ""},
		{"es", bags, "3", true, "c_box"},
		{"en", parts, "2pm", false, ""},
		{"en", parts, "2 o'clock", false, ""},
		{"pt-BR", parts, "2h", false, ""},
		{"pt-BR", parts, "a 2", true, "b_noon"},
		{"pt-BR", parts, "2ª opção", true, "b_noon"},
		{"en", parts, "the 2nd", true, "b_noon"},
		{"fr", parts, "la 2", true, "b_noon"},
		{"en", parts, "night 3", true, "c_night"},
		{"en", parts, "night 2", true, ""},
		{"en", parts, "after 4", false, ""},
		{"en", parts, "home at 4", false, ""},
		{"en", parts, "back at 4", false, ""},
		{"en", parts, "by 4", false, ""},
		{"en", parts, "before 3", false, ""},
		{"en", parts, "at 3", false, ""},
		{"en", parts, "half past 3", false, ""},
		{"en", parts, "until 2", false, ""},
		{"en", parts, "3 people", false, ""},
		{"en", parts, "we are 2", false, ""},
		{"en", parts, "in 2 days", false, ""},
		{"en", parts, "2 minutes", false, ""},
		{"en", parts, "for 2", false, ""},
		{"en", parts, "I waited 3", false, ""},
		{"en", parts, "one second", false, ""},
		{"en", parts, "a second", false, ""},
		{"en", parts, "not the first", false, ""},
		{"en", parts, "-2", false, ""},
		{"en", parts, "$2", false, ""},
		{"en", parts, "2 or 3", false, ""},
		{"pt-BR", parts, "depois das 3", false, ""},
		{"pt-BR", parts, "às 3", false, ""},
		{"pt-BR", parts, "até 2", false, ""},
		{"pt-BR", parts, "2 pessoas", false, ""},
		{"pt-BR", parts, "3 dias", false, ""},
		{"pt-BR", parts, "segunda", false, ""},
		{"es", parts, "a las 3", false, ""},
		{"fr", parts, "à 3", false, ""},
		{"en", parts, "two", true, "b_noon"},
		{"en", parts, "number two", true, "b_noon"},
		{"en", parts, "ok, 2", true, "b_noon"},
		{"en", parts, "2, please", true, "b_noon"},
		{"en", parts, "I choose 2", true, "b_noon"},
		{"en", parts, "my answer is 3", true, "c_night"},
		{"en", parts, "#2", true, "b_noon"},
		{"en", parts, "2.", true, "b_noon"},
		{"en", parts, "four", true, ""},
		{"pt-BR", parts, "dois", true, "b_noon"},
		{"pt-BR", parts, "opção três", true, "c_night"},
		{"pt-BR", parts, "número 2", true, "b_noon"},
		{"en", visit, "of course", false, "come"},
		{"en", visit, "not really", false, "stay"},
		{"en", visit, "No, sorry", false, "stay"},
		{"en", visit, "I don't know", false, ""},
		{"en", fine, "that time isn't ok", false, ""},
		{"en", fine, "that time isn’t ok", false, ""},
		{"en", fine, "it won't be ok for me", false, ""},
		{"en", fine, "it wasn't ok", false, ""},
		{"en", fine, "that's ok", false, "fine"},
		{"en", fine, "I can't", false, "cannot"},
		{"en", fine, "I dont know", false, "unknown"},
		{"en", fine, "I don't know", false, "unknown"},
		{"en", pets, "I don't want a dog", false, ""},
		{"en", pets, "I donʼt want a dog", false, ""},
		{"en", pets, "I don`t want a dog", false, ""},
		{"en", pets, "I don´t want a dog", false, ""},
		{"en", pets, "I can't have a dog", false, ""},
		{"en", pets, "I haven't a dog", false, ""},
		{"en", pets, "I don't mind", false, ""},
		{"en", pets, "anything but a cat", false, ""},
		{"en", pets, "everything except the cat", false, ""},
		{"en", pets, "all but dog", false, ""},
		{"en", pets, "it's the neighbour's dog", false, "dog"},
		{"pt-BR", pets, "qualquer um menos dog", false, ""},
		{"pt-BR", pets, "tudo, menos o dog", false, ""},
		{"pt-BR", pets, "todos os dias o dog", false, "dog"},
		{"es", pets, "cualquiera menos el dog", false, ""},
		{"fr", pets, "je n'ai pas de dog", false, ""},
		{"en", pets, "je n’ai pas de dog", false, ""},
		{"fr", pets, "l'dog", false, "dog"},
		{"en", visit, "No idea", false, ""},
		{"en", visit, "no clue", false, ""},
		{"en", visit, "No doubt!", false, ""},
		{"en", visit, "No way I'd miss it", false, ""},
		{"en", visit, "Yep", false, "come"},
		{"en", visit, "sure", false, "come"},
		{"en", visit, "👍", false, "come"},
		{"en", visit, "yeah", false, "come"},
		{"en", visit, "okay", false, "come"},
		{"en", visit, "Yup", false, "come"},
		{"en", visit, "👎", false, "stay"},
		{"en", visit, "nope", false, "stay"},
		{"en", visit, "no thanks", false, "stay"},
		{"en", visit, "No, my son is ill", false, "stay"},
		{"en", parts, "Good morning! 2 please", true, "b_noon"},
		{"en", parts, "Good morning", false, ""},
		{"en", parts, "good evening, in the morning please", false, "a_morning"},
		{"en", pets, "I'm allergic to dog hair", false, ""},
		{"en", pets, "I hate dogs, a dog is too loud", false, ""},
		{"en", parts, "I'm out in the morning", false, ""},
		{"pt-BR", visita, "não sei", false, ""},
		{"pt-BR", visita, "não tem problema", false, ""},
		{"pt-BR", visita, "não, obrigado", false, "stay"},
		{"es", visita, "no sé", false, ""},
		{"es", visita, "no hay problema", false, ""},
	} {
		t.Run(test.locale+" "+test.text, func(t *testing.T) {
			t.Parallel()
			names := slices.Sorted(maps.Keys(test.choices))
			for turn := range names {
				if turn > 0 && test.place {
					return
				}
				order := slices.Concat(names[turn:], names[:turn])
				texts, err := yaml.Marshal(map[string]any{"texts": map[string]string{"Q": "How", "U": "Again"}, "choices": test.choices})
				require.NoError(t, err)
				f, err := flow.Parse(fstest.MapFS{
					"flow.yaml": {Data: []byte("flow: f\nlanguages: [" + test.locale + "]\nstart: q\nsteps:\n  q: {ask: Q, expect: {choice: [" +
						strings.Join(order, ", ") + "]}, save: answer, unclear: {send: U, then: done}, then: done}\n  done: {end: done}\n")},
					test.locale + ".yaml": {Data: texts},
				})
				require.NoError(t, err)
				p := &play{flow: f, state: flow.State{Step: "q", Phase: flow.Waiting}}
				said := says(test.text)
				said.Locale = test.locale
				p.happens(said)
				require.Equal(t, test.want, p.person.Fields["answer"].Text, order)
			}
		})
	}
}

// TestEveryFlowEnds plays random flows: with a person who answers at random and then falls silent, every one that the checks let pass comes
// to an end, no key is sent twice, and what the flow does when nothing is due is nothing.
func TestEveryFlowEnds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f, err := flow.Parse(drawn(t))
		if err != nil {
			t.Skip("the checks refuse it")
		}
		p := &play{flow: f}
		keys := map[string]bool{}
		do := p.happens(flow.Began{})
		tickets := 0
		answers := rapid.IntRange(0, 12).Draw(t, "answers")
		for moves := 0; ; moves++ {
			require.Less(t, moves, 400, "it never ends: %+v", p.state)
			var next flow.Event
			switch a := do.(type) {
			case flow.SendText:
				require.False(t, keys[a.Key], "%s is sent twice", a.Key)
				keys[a.Key] = true
				require.IsType(t, flow.Defer{}, p.happens(says("in between")))
				next = flow.Taken{}
			case flow.Await:
				if answers == 0 && a.Silence == 0 {
					return // it waits for the person as long as they like
				}
				next = flow.Silent{}
				if answers > 0 {
					answers--
					next = says(rapid.SampledFrom([]string{"yes", "no", "1", "7", "what"}).Draw(t, "says"))
				}
			case flow.CallHost:
				next = flow.Called{OK: rapid.Bool().Draw(t, "ok"), Field: 1.0}
			case flow.OpenTicket:
				next = flow.Closed{How: flow.Resume}
				if tickets++; tickets > 3 { // whoever closes tickets can keep a circle alive
					next = flow.Closed{How: flow.Finish}
				}
			case flow.Finished, flow.StartFlow:
				require.Equal(t, flow.Ended, p.state.Phase)
				require.IsType(t, flow.Ignore{}, p.happens(says("hello")))
				return
			default:
				require.Fail(t, "nothing is done", "%T at %+v", do, p.state)
			}
			do = p.happens(next)
		}
	})
}

// drawn is a random flow, of which many are refused.
func drawn(t *rapid.T) fstest.MapFS {
	n := rapid.IntRange(1, 8).Draw(t, "steps")
	to := func() string { return fmt.Sprintf("s%d", rapid.IntRange(0, n).Draw(t, "to")) }
	var steps strings.Builder
	for i := range n {
		var body string
		next := fmt.Sprintf("s%d", i+1) // so that every step can be reached
		switch rapid.IntRange(0, 7).Draw(t, "kind") {
		case 0, 1:
			body = fmt.Sprintf("{send: T, then: %s}", next)
		case 2:
			body = fmt.Sprintf("{send: T, wait: reply, negative: {send: T, then: %s}, silence: {after: 1h, send: T, times: 2, then: %s}, then: %s}", to(), to(), next)
		case 3:
			body = fmt.Sprintf("{send: T, wait: reply, negative: {send: T, stay: true}, then: %s}", next)
		case 4:
			body = fmt.Sprintf("{ask: T, expect: {choice: [a, b]}, save: c, unclear: {send: T, then: %s}, silence: {after: 1h, then: %s}, then: {a: %s, else: %s}}", to(), to(), to(), next)
		case 5:
			body = fmt.Sprintf("{if: \"person.locale == 'en'\", then: %s, else: %s}", to(), next)
		case 6:
			body = fmt.Sprintf("{call: 'https://h.example', failed: %s, then: %s}", to(), next)
		default:
			body = fmt.Sprintf("{hand_over: r, then: %s}", next)
		}
		fmt.Fprintf(&steps, "  s%d: %s\n", i, body)
	}
	return fstest.MapFS{
		"flow.yaml": {Data: []byte(fmt.Sprintf("flow: f\nlanguages: [en]\nstart: s0\nsteps:\n%s  s%d: {end: done}\n", steps.String(), n))},
		"en.yaml":   {Data: []byte("texts: {T: Text}")},
	}
}
