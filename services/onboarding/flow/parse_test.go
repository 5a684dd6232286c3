package flow_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/onboarding/flow"
)

// sample is the flow of testdata/sample.
func sample(t *testing.T) flow.Flow {
	t.Helper()
	f, err := flow.Parse(os.DirFS("testdata/sample"))
	require.NoError(t, err)
	return f
}

func TestParse(t *testing.T) {
	t.Parallel()
	f := sample(t)
	require.Equal(t, "welcome", f.Name)
	require.Len(t, f.Version, 16)
	require.Equal(t, []flow.Type{flow.Choice, flow.Any}, []flow.Type{f.Fields["budget"].Type, f.Fields["score"].Type})
	require.Equal(t, "welcome:message_2", f.Steps["message_2"].State)

	text, err := f.Render("OFFER", "pt", "", map[string]flow.Value{"budget": {Type: flow.Choice, Text: "tight"}})
	require.NoError(t, err)
	require.Equal(t, "Seu orçamento está apertado.", text)
	text, err = f.Render("OPENING", "de", "", nil)
	require.NoError(t, err)
	require.Equal(t, "Hi there, it's the welcome team. Sound good?", text)
}

// TestProblems changes the sample so that one thing is wrong, and reads where that is said to be. What is new since a release is refused when
// a flow is published; a stored one still loads.
func TestProblems(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ file, from, to, want string }{
		"unknown step":                        {"flow.yaml", "after: 8s, then: budget}", "after: 8s, then: bugdet}", "flow.yaml:8: step message_2 leads to bugdet, which is no step"},
		"first sends nothing":                 {"flow.yaml", "start: opening", "start: done", "step done can be the first, and sends no text; begin with send or ask"},
		"first behind an if":                  {"flow.yaml", "start: opening\nentry: {keywords: [JOIN, ENTRAR]}\nsteps:\n", "start: gate\nsteps:\n  gate: {if: \"person.locale == 'en'\", then: opening, else: score}\n", "flow.yaml:16: step score can be the first, and sends no text; begin with send or ask"},
		"state of our own":                    {"flow.yaml", "send: OPENING,", "send: OPENING, state: \"onboarding:awaiting_burst\",", "flow.yaml:6: step opening: the state onboarding:awaiting_burst is one of the deployment's own"},
		"unreachable":                         {"flow.yaml", "then: {tight: score, else: done}", "then: done", "flow.yaml:16: step score cannot be reached from opening"},
		"circle":                              {"flow.yaml", "MESSAGE_2, after: 8s, then: budget", "MESSAGE_2, after: 8s, then: message_1", "flow.yaml:7: step message_1 leads back to itself without an answer"},
		"circle of silence":                   {"flow.yaml", "times: 1, then: done}", "times: 1, then: message_1}", "flow.yaml:7: step message_1 leads back to itself without an answer"},
		"no end":                              {"flow.yaml", "unclear_answer, then: done", "unclear_answer, then: human", "flow.yaml:19: no end can be reached from step human"},
		"unknown key":                         {"flow.yaml", "times: 2, then: human", "time: 2, then: human", "flow.yaml:13: step budget.unclear: time is no key here"},
		"two kinds":                           {"flow.yaml", "{send: OFFER, then: done}", "{send: OFFER, end: x, then: done}", "flow.yaml:18: step offered must have exactly one of send, ask"},
		"delay":                               {"flow.yaml", "after: 8s", "after: 8d", "flow.yaml:8: step message_2: after 8d must be at most 7d"},
		"CEL type":                            {"flow.yaml", "person.locale == 'en'", "person.locale == 3", "flow.yaml:17: step offer: the condition is not CEL over this flow: == cannot stand between a string and a int"},
		"CEL name":                            {"flow.yaml", "person.locale ==", "person.language ==", "flow.yaml:17: step offer: the condition is not CEL over this flow: it has a name that is unknown; the names are person.locale"},
		"CEL has":                             {"flow.yaml", "person.locale ==", "has(person.fields.score) && person.locale ==", "flow.yaml:17: step offer: the condition is not CEL over this flow: has is not known, and not needed"},
		"branch of no answer":                 {"flow.yaml", "{tight: score, else: done}", "{thigt: score, else: done}", "step budget: then has a branch for thigt; the answers are none, some, tight"},
		"no else":                             {"flow.yaml", "{tight: score, else: done}", "{tight: score, some: done}", "step budget: then has no branch for none, and no else"},
		"wait at no wait":                     {"flow.yaml", "stay: true", "wait_at: message_1", "flow.yaml:6: step opening: negative waits at message_1, which waits for no reply"},
		"saved as another type":               {"flow.yaml", "start: opening", "start: opening\nfields: {budget: number}", "saves budget as choice, but the field is number"},
		"a key twice":                         {"flow.yaml", "start: opening", "start: opening\nstart: done", `flow.yaml:4: "start" is on line 3 already`},
		"an alias":                            {"flow.yaml", "languages: [en, pt-BR]", "languages: &l [en, pt-BR]", "flow.yaml:2: anchors, aliases and merges are not read"},
		"no YAML":                             {"flow.yaml", "languages: [en, pt-BR]", "languages: [en, pt-BR", "flow.yaml:2: did not find expected"},
		"a tab":                               {"flow.yaml", "  opening:", "\topening:", "indent with spaces and not with tabs"},
		"missing language":                    {"flow.yaml", "[en, pt-BR]", "[en, pt-BR, es]", "es.yaml: the file is missing"},
		"file of no language":                 {"flow.yaml", "[en, pt-BR]", "[en]", "pt-BR.yaml: languages of flow.yaml does not name pt-BR; add it there, or remove the file"},
		"unquoted placeholder":                {"en.yaml", "  OFFER: ", "  OFFER2: {first_name|there}, hello\n  OFFER: ", "en.yaml:9: quote a text that begins with {"},
		"missing text":                        {"pt-BR.yaml", "  NUDGE:", "  NUGDE:", "pt-BR.yaml:1: text NUDGE is missing; step budget of flow.yaml sends it"},
		"unused text":                         {"pt-BR.yaml", "  NUDGE:", "  NUGDE:", "pt-BR.yaml:8: text NUGDE is sent by no step"},
		"placeholder":                         {"en.yaml", "{budget|open}", "{bugdet|open}", "en.yaml:9: text OFFER has the placeholder {bugdet}"},
		"no fallback":                         {"en.yaml", "{budget|open}", "{budget}", "en.yaml:9: text OFFER has no fallback in {budget}"},
		"brace":                               {"en.yaml", "{budget|open}", "{Budget}", "has a brace that is no placeholder"},
		"too long":                            {"en.yaml", "MESSAGE_1: We", "MESSAGE_1: " + strings.Repeat("so ", 110) + "We", "en.yaml:4: text MESSAGE_1 takes 3 segments"},
		"form of expect":                      {"flow.yaml", "{choice: [none, some, tight]}", "number", "flow.yaml:11: step budget.expect: write reply, yes_no or date; or {choice"},
		"form of negative":                    {"flow.yaml", "stay: true", "stay: true, then: done", "step opening.negative: write {send: TEXT} with exactly one of"},
		"duration":                            {"flow.yaml", "after: 8s", "after: 8 seconds", `step message_2.after: "8 seconds": write a duration such as`},
		"name of a step":                      {"flow.yaml", "human:     {", "Human:     {", `flow.yaml:19: "Human": write a step: 1 to 64 of a-z`},
		"no quotes":                           {"flow.yaml", "start: opening", "start: 1", "flow.yaml:3: start: write it in quotes"},
		"key of the file":                     {"flow.yaml", "start: opening", "start: opening\nbegin: opening", "flow.yaml:4: begin is no key here"},
		"missing key":                         {"flow.yaml", "failed: done, ", "", "flow.yaml:16: step score: failed is missing"},
		"two documents":                       {"flow.yaml", "start: opening", "start: opening\n---\nstart: done", "something follows the first document"},
		"limit of a number":                   {"flow.yaml", "start: opening", "start: opening\nfields: {score: {type: number, limit: 9}}", "flow.yaml:4: fields: score is no text, and has no limit"},
		"first_name":                          {"flow.yaml", "start: opening", "start: opening\nfields: {first_name: text}", "flow.yaml:4: fields: first_name is the person's name"},
		"saved name":                          {"flow.yaml", "save: budget", "save: first_name", "first_name is the person's name, and no field to save"},
		"choice called else":                  {"flow.yaml", "[none, some, tight]", "[none, some, tight, else]", "step budget: a choice cannot be called else"},
		"keyword STOP":                        {"flow.yaml", "[JOIN, ENTRAR]", "[JOIN, PARE]", `flow.yaml:4: entry: "PARE" is a word like STOP`},
		"keyword twice":                       {"flow.yaml", "[JOIN, ENTRAR]", "[JOIN, join]", `entry: "join" has no letters, or stands twice`},
		"a word of consent":                   {"en.yaml", "[very tight, short]", "[very tight, quit]", `en.yaml:12: choices: "quit" of tight is a word like STOP`},
		"a number as a word":                  {"en.yaml", "[very tight, short]", `[very tight, "3"]`, `"3" of tight is a number`},
		"a sign as a word":                    {"en.yaml", "[very tight, short]", `[very tight, "!!"]`, `"!!" of tight has no letters`},
		"unseen characters":                   {"en.yaml", "MESSAGE_1: We", `MESSAGE_1: "We\u202e`, "en.yaml:"},
		"no UTF-8":                            {"en.yaml", "MESSAGE_1: We", "MESSAGE_1: \xe9", "en.yaml: the file is not in UTF-8"},
		"a word for two":                      {"en.yaml", "[very tight, short]", "[very tight, nothing]", `"nothing" stands for none and for tight in step budget`},
		"error, keys for a typo":              {"flow.yaml", "times: 2, then: human", "time: 2, then: human", "step budget.unclear: time is no key here; the keys are send, then, times"},
		"error, keys of a step":               {"flow.yaml", "    save: budget", "    svae: budget", "flow.yaml:12: step budget: svae is no key here; the keys are after, after_delivery, ask, expect, "},
		"error, and a step":                   {"flow.yaml", "after: 8s, then: budget}\n  budget:\n    ask: QUESTION_BUDGET", "after: 8s, then: bugdet}\n  budget:\n    aks: QUESTION_BUDGET\n    ask: QUESTION_BUDGET", "step message_2 leads to bugdet, which is no step\nflow.yaml:10: step budget: aks is no key here"},
		"error, and a text":                   {"flow.yaml", "send: MESSAGE_1, then: message_2}\n  message_2: {send: ", "send: MESSAGE_3, then: message_2}\n  message_2: {sned: X, send: ", "en.yaml:1: text MESSAGE_3 is missing; step message_1 of flow.yaml sends it"},
		"error, keys of the flow":             {"flow.yaml", "start: opening", "start: opening\nbegin: opening", "begin is no key here; the keys are entry, fields, flow, "},
		"error, an indent":                    {"flow.yaml", "  offered: ", "   offered: ", "flow.yaml:18: "},
		"error, an apostrophe":                {"en.yaml", "LATER: No problem.", "LATER: 'It's no problem.'", "en.yaml:3: did not find expected key; indent the keys of a mapping alike; a text in '...' has ''"},
		"error, no closing brace":             {"flow.yaml", "unclear_answer, then: done}", "unclear_answer, then: done", "flow.yaml:19: did not find expected"},
		"error, a colon":                      {"en.yaml", "LATER: No problem.", "LATER: Sorry: no problem.", `en.yaml:3: mapping values are not allowed in this context; quote a text with ": " in it`},
		"error, a number for a duration":      {"flow.yaml", "after: 8s", "after: 8", "flow.yaml:8: step message_2.after: write a duration such as 400ms"},
		"error, no choices":                   {"flow.yaml", "[none, some, tight]", "[]", "step budget.expect.choice: has 0; at least 2 are needed"},
		"error, one choice":                   {"flow.yaml", "[none, some, tight]", "[none]", "step budget.expect.choice: has 1; at least 2 are needed"},
		"error, a choice twice":               {"flow.yaml", "[none, some, tight]", "[none, some, none]", "step budget.expect.choice: one of its values stands twice"},
		"error, numbers as choices":           {"flow.yaml", "[none, some, tight]", "[1, 2]", "step budget.expect.choice.0: write a name"},
		"error, no max":                       {"flow.yaml", "{choice: [none, some, tight]}", "{number: {min: 1}}", "step budget.expect.number: max is missing"},
		"error, indented choices":             {"en.yaml", "choices:\n  none: [none at all, nothing]\n  tight: [very tight, short]", "  choices:\n    none: [nothing]", "en.yaml:10: texts: choices is no text; quote a text that begins with a sign, and do not indent the keys choices and person"},
		"error, a choice without a list":      {"en.yaml", "tight: [very tight, short]", "tight: {a: b}", "en.yaml:12: choices: tight must be a list of words"},
		"error, a language":                   {"flow.yaml", "languages: [en, pt-BR]", "languages: [english]", `flow.yaml:2: languages.0: "english": write a language such as en or pt-BR`},
		"error, =":                            {"flow.yaml", "person.locale == 'en'", "person.locale = 'en'", "step offer: the condition is not CEL over this flow: it compares with =; write =="},
		"error, segments":                     {"en.yaml", "MESSAGE_1: We", "MESSAGE_1: so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so so We", "takes 3 segments with the longest values in it; at most 2 are allowed, unless segments allows more"},
		"published, numbers in another order": {"en.yaml", "1 none, 2 some, 3 tight", "1 some, 2 none, 3 tight", "en.yaml:6: text QUESTION_BUDGET says 1 for some, but 1 is none by the order of step budget, [none, some, tight]"},
		"published, numbers in another order, pt": {"pt-BR.yaml", "1 nenhum, 2 algum, 3 apertado", "3 nenhum, 2 algum, 1 apertado", "pt-BR.yaml:6: text QUESTION_BUDGET says 3 for none, but 3 is tight"},
		"published, numbers of a list":            {"en.yaml", "1 none, 2 some, 3 tight", "1. none 2. tight 3. some", "text QUESTION_BUDGET says 2 for tight, but 2 is some"},
		"published, numbers behind words":         {"en.yaml", "1 none, 2 some, 3 tight", "tight (1), some (2) or none (3)", "text QUESTION_BUDGET says 1 for tight"},
		"published, numbers of an unclear text":   {"en.yaml", "Please reply 1, 2 or 3.", "Reply 2 for none or 1 for some", "en.yaml:7: text CHOOSE_ONE says 2 for none"},
		"published, a comment":                    {"en.yaml", "We help you plan", "You are our # 1 customer, we plan", `en.yaml:4: text MESSAGE_1 ends before " #", where a comment begins; quote the text`},
		"published, CANCEL":                       {"en.yaml", "No problem. Reply", "Reply YES to keep the visit or CANCEL to cancel it.", "en.yaml:3: text LATER asks for the reply CANCEL"},
		"published, QUIT":                         {"en.yaml", "No problem. Reply", "Reply QUIT to finish. Reply", "text LATER asks for the reply QUIT"},
		"published, SAIR":                         {"pt-BR.yaml", "Sem problema. Responda", "Responda SAIR para deixar a fila. Responda", "pt-BR.yaml:3: text LATER asks for the reply SAIR"},
		"published, %x%":                          {"en.yaml", "We help you", "Dear %first_name%, we help you", "en.yaml:4: text MESSAGE_1 has %first_name%, which is sent as it stands; a placeholder is written {first_name|...}"},
		"published, [x]":                          {"en.yaml", "We help you", "Dear [First Name], we help you", "text MESSAGE_1 has [First Name], which"},
		"published, $x":                           {"en.yaml", "We help you", "Dear $first_name, we help you", "text MESSAGE_1 has $first_name, which"},
		"published, <x>":                          {"en.yaml", "We help you", "Dear <budget>, we help you", "text MESSAGE_1 has <budget>, which"},
		"published, a choice that is none":        {"flow.yaml", "person.fields.score > 3", "person.fields.budget == 'tigth'", "flow.yaml:17: step offer: the condition compares person.fields.budget with 'tigth', but it is one of none, some, tight"},
		"published, a choice of a list":           {"flow.yaml", "person.fields.score > 3", "person.fields.budget in ['some', 'many']", "compares person.fields.budget with 'many'"},
		"published, a choice, reversed":           {"flow.yaml", "person.fields.score > 3", "('many' != person.fields.budget)", "compares person.fields.budget with 'many'"},
		"published, a locale":                     {"flow.yaml", "person.locale == 'en'", "person.locale == 'pt'", "flow.yaml:17: step offer: the condition compares person.locale with 'pt', but it is one of en"},
		"published, a constant":                   {"flow.yaml", "person.fields.score > 3 && person.locale == 'en'", "false", "flow.yaml:17: step offer: the condition false asks for nothing of the person"},
		"published, times of no text":             {"flow.yaml", "stay: true}", "stay: true}, silence: {after: 24h, times: 3, then: done}", "flow.yaml:6: step opening: silence has times and sends nothing; add send: TEXT, or take times out"},
		"published, keyword YES":                  {"flow.yaml", "[JOIN, ENTRAR]", `["YES", ENTRAR]`, `flow.yaml:4: entry: "YES" is an everyday answer`},
		"published, keyword ok":                   {"flow.yaml", "[JOIN, ENTRAR]", "[JOIN, ok]", `entry: "ok" is an everyday answer`},
		"published, keyword thanks":               {"flow.yaml", "[JOIN, ENTRAR]", "[JOIN, Obrigado]", `entry: "Obrigado" is an everyday answer`},
		"published, keyword 10":                   {"flow.yaml", "[JOIN, ENTRAR]", `[JOIN, "10"]`, `entry: "10" is an everyday answer`},
		"published, a choice of goals":            {"en.yaml", "[very tight, short]", "[very tight, remind me later]", `en.yaml:12: choices: "remind me later" of tight is read as a goal`},
		"published, undo":                         {"en.yaml", "[very tight, short]", "[very tight, undo]", `"undo" of tight is read as a goal`},
		"fine, STOP":                              {"en.yaml", "No problem. Reply", "Reply STOP to end, HELP for help. Or reply", ""},
		"fine, a cancelled visit":                 {"en.yaml", "No problem. Reply", "Your visit was cancelled. To cancel, reply YES. The end. Reply", ""},
		"fine, a brand":                           {"en.yaml", "MESSAGE_1: We help you plan your money.", `MESSAGE_1: "[Acme] We save you $20 or 50% of it: https://x.example/?first_name=1"`, ""},
		"fine, a quoted #":                        {"en.yaml", "MESSAGE_1: We help you plan your money.", `MESSAGE_1: "Our # 1"`, ""},
		"fine, a comment above":                   {"en.yaml", "  MESSAGE_1:", "  # the first\n  MESSAGE_1:", ""},
		"fine, numbers alone":                     {"en.yaml", "1 none, 2 some, 3 tight", "1 for nothing, 2 or 3 for less. In some shops it takes 1 day", ""},
		"fine, numbers behind":                    {"en.yaml", "1 none, 2 some, 3 tight", "none (1), some (2), tight (3)", ""},
		"fine, a choice":                          {"flow.yaml", "person.fields.score > 3", "person.fields.budget != 'some'", ""},
		"fine, another locale":                    {"flow.yaml", "person.locale == 'en'", "person.locale == 'pt-BR'", ""},
		"fine, a keyword":                         {"flow.yaml", "[JOIN, ENTRAR]", "[GOLD, ok now we start]", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := fstest.MapFS{}
			for _, file := range []string{"flow.yaml", "en.yaml", "pt-BR.yaml"} {
				source, err := os.ReadFile("testdata/sample/" + file)
				require.NoError(t, err)
				if file == test.file {
					require.Contains(t, string(source), test.from)
					source = []byte(strings.Replace(string(source), test.from, test.to, 1))
				}
				folder[file] = &fstest.MapFile{Data: source}
			}
			_, err := flow.Check(folder)
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.want)
			if strings.HasPrefix(name, "published") {
				_, err = flow.Parse(folder)
				require.NoError(t, err)
			}
		})
	}
}

// TestSegments counts a text with the values that make it dearest, which are not always the longest.
func TestSegments(t *testing.T) {
	t.Parallel()
	steps := "flow: f\nlanguages: [en]\nfields: {link: {type: text, limit: 200}}\nstart: a\nsteps:\n" +
		"  a: {ask: Q, expect: {choice: [high, late]}, save: topic, unclear: {send: Q, then: c}, then: b}\n" +
		"  b: {ask: Q, expect: {choice: [no_signal_at_home_or_at_work, slow]}, save: topic, unclear: {send: Q, then: c}, then: c}\n" +
		"  c: {ask: Q, expect: {number: {min: 1, max: 9}}, save: guests, unclear: {send: Q, then: d}, then: d}\n" +
		"  d: {ask: T, expect: reply, save: why, then: done}\n  done: {end: done}\n"
	for _, test := range []struct {
		text string
		want int
	}{
		{strings.Repeat("a", 140) + "{guests|you}", 1},
		{strings.Repeat("a", 140) + "{guests|vocês}", 3},
		{strings.Repeat("a", 60) + "{guests|👥}", 1},
		{strings.Repeat("a", 67) + "{guests|👥👥}", 2},
		{strings.Repeat("a", 140) + "{topic|it}", 2},
		{strings.Repeat("a", 58) + "{guests|👥}{topic|it}", 2},
		{strings.Repeat("a", 155) + "{guests|[[[]]]}", 2},
		{"{why|it}", 1},
		{"{link|it}", 3},
	} {
		for range 10 {
			folder := fstest.MapFS{"flow.yaml": {Data: []byte(steps)}, "en.yaml": {Data: []byte("texts:\n  Q: Which?\n  T: \"" + test.text + "\"\n")}}
			for limit := 1; limit < 4; limit++ {
				folder["flow.yaml"].Data = []byte(fmt.Sprintf("%ssegments: %d\n", steps, limit))
				_, err := flow.Parse(folder)
				require.Equal(t, limit >= test.want, err == nil, "%s: %v", test.text, err)
			}
		}
	}
}

// FuzzParse reads files of any content: a problem or a flow, never a panic, and what is read ends.
func FuzzParse(f *testing.F) {
	for _, file := range []string{"flow.yaml", "en.yaml"} {
		source, err := os.ReadFile("testdata/sample/" + file)
		require.NoError(f, err)
		f.Add(source, source)
	}
	f.Fuzz(func(t *testing.T, steps, texts []byte) {
		folder := fstest.MapFS{"flow.yaml": {Data: steps}, "en.yaml": {Data: texts}, "pt-BR.yaml": {Data: texts}}
		read, err := flow.Parse(folder)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		require.NotEmpty(t, read.Version)
	})
}
