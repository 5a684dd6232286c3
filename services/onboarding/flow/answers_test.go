package flow_test

import (
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"paceline.internal/services/onboarding/flow"
)

// answered returns the answer that a step keeps of a text, and nothing for one that it asks back.
func answered(t *testing.T, expect, question, locale string, choices map[string][]string, text string) string {
	t.Helper()
	texts, err := yaml.Marshal(map[string]any{"texts": map[string]string{"Q": question, "U": "Again"}, "choices": choices})
	require.NoError(t, err)
	f, err := flow.Parse(fstest.MapFS{
		"flow.yaml": {Data: []byte("flow: f\nlanguages: [" + locale + "]\nstart: q\nsteps:\n" +
			"  q: {ask: Q, expect: " + expect + ", save: answer, unclear: {send: U, then: end}, then: end}\n  end: {end: done}\n")},
		locale + ".yaml": {Data: texts},
	})
	require.NoError(t, err)
	p := &play{flow: f, state: flow.State{Step: "q", Phase: flow.Waiting}}
	said := says(text)
	said.Locale = locale
	p.happens(said)
	answer := p.person.Fields["answer"]
	if answer.Type == flow.Number {
		return strconv.FormatFloat(answer.Number, 'f', -1, 64)
	}
	return answer.Text
}

// TestYesOrNo reads a yes or a no with a clause that says it again, and a clause that is one. What contradicts itself, or leaves something
// open, is asked back.
func TestYesOrNo(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		locale, question, want string
		texts                  []string
	}{
		{"en", "Does it work?", "yes", []string{
			"yes it does", "Yes, it is.", "yes we do", "yes that's right", "yep it works", "it works", "it does", "yeah I have one", "sure, I can do that",
			"yes they did", "yes I'm coming with my wife", "yes my mother will drive me there", "I can", "I'll be there", "uh huh", "correct", "y", "yes I will",
		}},
		{"en", "Does it work?", "no", []string{
			"no it doesn't", "no, it's broken", "no I can't come", "nope, it never came", "no I haven't", "no we didn't get it", "no, my son is ill",
			"no I'm sick", "no I have to work", "No it isn't working", "it doesn't work", "I can't make it", "I won't",
		}},
		{"en", "Does it work?", "", []string{
			"yes but not Friday", "no problem", "no idea", "yes it doesn't", "yes I can't", "yes I want to cancel", "yes if it rains", "yes, maybe",
			"yes I have a question", "yes it is tomorrow", "yes at 5", "yes, what time", "yes it works?", "yes or no", "yes and no", "yes I need to think",
			"yes I'll let you know", "yes I need help", "yes I'd like to talk to someone", "yes it's getting worse", "yes, only the small one",
			"no wait yes", "no I mean yes", "no I can come", "no it works", "no it's fine", "no I'm coming", "no, later", "no, not now", "no not yet",
			"no worries, I'll be there", "no doubt I will", "no way I'd miss it", "no I'm not sure", "no I don't want to talk to a bot",
			"I don't know", "I do not know if I can", "I don't want to miss it", "I won't cancel", "I can't wait", "I'm not sure", "s",
		}},
		{"en", "Do you want to cancel?", "yes", []string{"yes I want to cancel", "yes I do", "yes please cancel it all", "yes it is broken"}},
		{"en", "Do you want to cancel?", "no", []string{"no I don't", "no I'm coming", "no I will be there"}},
		{"en", "Do you want to cancel?", "", []string{"I can", "I can't make it", "it works", "no I can't come", "yes I'm coming", "I'll be there", "no, it's broken", "no cancel it"}},
		{"en", "Can you come? Reply STOP to opt out.", "no", []string{"I can't make it", "no, my son is ill"}},
		{"pt-BR", "Você vem? Funciona?", "yes", []string{
			"sim, funciona", "vou sim", "confirmo", "s", "aham", "uhum", "isso mesmo", "exato", "sim, eu vou", "sim, está funcionando", "sim recebi",
			"sim, posso ir", "posso sim", "quero sim, obrigado", "é sim", "posso", "funciona", "sim, a gente vai",
		}},
		{"pt-BR", "Você vem? Funciona?", "no", []string{
			"não funciona", "não posso", "não consigo ir", "não vou poder", "não, não recebi", "não, está quebrado", "não, estou doente", "não quero",
			"não recebi", "não, obrigado, não posso", "eu não vou",
		}},
		{"pt-BR", "Você vem? Funciona?", "", []string{
			"não sei", "não sei se posso", "não tenho certeza", "não tem problema", "não posso agora", "não posso hoje", "não vou faltar",
			"não vou cancelar", "sim, mas não na sexta", "sim, se der", "sim, não posso", "não, posso sim", "não, posso", "não, eu vou", "sim, amanhã",
			"mais tarde te respondo", "depois confirmo", "não, com certeza vou",
		}},
		{"pt-BR", "Quer cancelar?", "", []string{"não vou", "não posso", "confirmo", "vou sim", "não funciona"}},
		{"es", "¿Viene?", "yes", []string{"sí, funciona", "sí, voy", "puedo"}},
		{"es", "¿Viene?", "no", []string{"no puedo", "no funciona"}},
		{"es", "¿Viene?", "", []string{"no sé", "no hay problema", "sí, pero no el viernes"}},
		{"fr", "Vous venez ?", "yes", []string{"oui, ça marche", "je viens"}},
		{"fr", "Vous venez ?", "no", []string{"non, c'est cassé", "je ne peux pas"}},
		{"fr", "Vous venez ?", "", []string{"oui mais pas vendredi", "je ne sais pas"}},
	} {
		for _, text := range tt.texts {
			t.Run(tt.locale+" "+tt.question+" "+text, func(t *testing.T) {
				t.Parallel()
				require.Equal(t, tt.want, answered(t, "yes_no", tt.question, tt.locale, nil, text))
			})
		}
	}
}

// TestPartsOfADay reads "evening" or "tarde" as an answer. It does not in "last night", "too late" and "I will answer later".
func TestPartsOfADay(t *testing.T) {
	t.Parallel()
	choices := map[string][]string{
		"morning": {"morning", "manhã", "mañana", "matin"},
		"noon":    {"afternoon", "fim da tarde", "tarde", "après-midi"},
		"evening": {"evening", "night", "noite", "noche", "soir"},
	}
	for _, tt := range []struct {
		locale, want string
		texts        []string
	}{
		{"pt-BR", "", []string{
			"mais tarde te respondo", "respondo mais tarde", "tarde demais", "muito tarde", "já é tarde", "mais tarde", "boa tarde", "te respondo amanhã de manhã",
			"ontem à noite foi horrível", "a noite passada foi péssima", "vejo isso à noite e te aviso", "vou ver e te falo à noite", "amanhã te digo de manhã",
			"manhã e tarde",
		}},
		{"pt-BR", "noon", []string{"à tarde", "fim da tarde", "mais para o fim da tarde", "de tarde, por favor", "posso de tarde", "confirmo à tarde"}},
		{"pt-BR", "evening", []string{"pode ser à noite", "me liga à noite", "prefiro mais tarde, à noite"}},
		{"pt-BR", "morning", []string{"vou de manhã", "pode me chamar de manhã"}},
		{"en", "", []string{
			"last night was awful", "I slept badly last night", "last evening I was ill", "yesterday morning was fine", "I'll answer in the morning",
			"I'll get back to you this evening", "let me check in the evening", "ask me in the morning", "I need to think, in the evening",
		}},
		{"en", "evening", []string{
			"evening please", "any evening", "in the evening works", "I'll take the evening", "I'll be free in the evening", "call me in the evening",
			"evening, last time it was too late",
		}},
		{"en", "morning", []string{"text me in the morning please", "I will see you in the morning"}},
		{"es", "", []string{"más tarde te respondo", "demasiado tarde", "mañana te contesto", "ayer por la noche", "la noche pasada fatal"}},
		{"es", "evening", []string{"por la noche"}},
		{"es", "noon", []string{"esta tarde"}},
		{"fr", "", []string{"je réponds ce soir", "hier soir c'était affreux"}},
		{"fr", "evening", []string{"le soir"}},
	} {
		for _, text := range tt.texts {
			t.Run(tt.locale+" "+text, func(t *testing.T) {
				t.Parallel()
				require.Equal(t, tt.want, answered(t, "{choice: [morning, noon, evening]}", "When?", tt.locale, choices, text))
			})
		}
	}
	when := map[string][]string{"today": nil, "yesterday": {"yesterday"}, "last_night": {"last night"}}
	require.Equal(t, "yesterday", answered(t, "{choice: [today, yesterday, last_night]}", "Since when?", "en", when, "yesterday morning"))
	require.Equal(t, "last_night", answered(t, "{choice: [today, yesterday, last_night]}", "Since when?", "en", when, "last night"))
	come := map[string][]string{"come": {"yes"}, "stay": {"no"}}
	require.Equal(t, "stay", answered(t, "{choice: [come, stay]}", "Will you?", "en", come, "No, I'll call you later"))
}

// TestCounts reads a count. It asks back after "over 50", which is a bound, and after "me + 3", which leaves somebody out.
func TestCounts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		locale, want string
		texts        []string
	}{
		{"en", "", []string{
			"me + 3 others", "me and 3 others", "3 plus me", "my wife and 2 kids", "us and 4 friends", "myself + 2", "just me and 1 guest", "3 others", "me, plus 3",
			"over 50", "under 50", "more than 3", "at least 2", "at most 10", "up to 5", "50+", "> 50", "below 40", "above 30", "minimum 3", "max 4", "5 or more",
			"50 plus", "no more than 4", "I'm over 18", "I'll tell you in 5",
		}},
		{"pt-BR", "", []string{
			"eu e mais 3", "eu + 3", "eu e 2 amigos", "mais 2 além de mim", "meu marido e 2 filhos", "3 e eu", "mais de 50", "no mínimo 2", "pelo menos 2",
			"acima de 50", "abaixo de 10", "até 5", "5 ou mais", "50 pra cima",
		}},
		{"es", "", []string{"yo y 3 más", "al menos 2", "más de 50", "hasta 5"}},
		{"fr", "", []string{"moi et 3 autres", "au moins 2", "plus de 50"}},
		{"en", "5", []string{"about 5", "around 5 hours", "there will be 5", "5 of us", "the past 5 days", "a total of 5", "I have 5 kids", "5 people"}},
		{"pt-BR", "5", []string{"somos 5", "5 pessoas", "uns 5", "minha nota é 5", "5 pessoas comigo", "tenho 5 anos"}},
	} {
		for _, text := range tt.texts {
			t.Run(tt.locale+" "+text, func(t *testing.T) {
				t.Parallel()
				require.Equal(t, tt.want, answered(t, "{number: {min: 0, max: 5000}}", "How many?", tt.locale, nil, text))
			})
		}
	}
}

// TestDays reads days among other words on Friday, 20 November 2026. Days that are over are asked back, unless the question is about one.
func TestDays(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		locale, question, want string
		texts                  []string
	}{
		{"en", "Which day?", "", []string{
			"was on Friday", "it was on Tuesday", "it was Monday", "I went on Wednesday", "we met tuesday", "happened on Sunday", "I fell on Thursday",
			"on Monday I had it done", "did it on Monday", "last Friday", "march 1 2026", "1 March 2026", "2026-03-01", "3/15/2026", "May 5 1980",
			"I'll let you know Monday", "let me check on Monday", "maybe Monday", "early next week", "back Monday or Tuesday", "back?",
		}},
		{"en", "Which day?", "2026-11-24", []string{"I was thinking Tuesday", "Tuesday would be good", "I said Tuesday", "back tuesday", "I think tue", "tue hopefully", "back tue, early"}},
		{"en", "Which day?", "2026-11-21", []string{"tomorrow early", "tomorrow after lunch"}},
		{"en", "Which day?", "2026-10-01", []string{"October 1 2026", "2026-10-01"}},
		{"en", "When were you born?", "1980-05-05", []string{"May 5 1980", "1980-05-05", "I was born on May 5 1980"}},
		{"en", "When were you born?", "", []string{"it was on Tuesday", "I fell on Thursday"}},
		{"pt-BR", "Que dia?", "", []string{
			"foi na quarta", "era segunda", "fui na terça", "aconteceu no domingo", "quarta passada", "caiu na segunda", "1 de março de 2026", "01/03/2026",
			"talvez quarta", "quarta ou quinta", "acho que não quarta", "toda quarta", "a quarta opção", "quarta vez", "te respondo segunda",
			"vou ver na segunda", "mais tarde", "cedo", "acho que sim",
		}},
		{"pt-BR", "Que dia?", "2026-11-25", []string{
			"acho que quarta", "volta quarta", "quarta eu acho", "quarta, se Deus quiser", "quarta que vem", "quarta de manhã", "quarta cedo", "quarta à tarde",
			"eu volto na quarta", "provavelmente quarta", "pode ser quarta", "espero que quarta", "eu prefiro quarta", "estava pensando na quarta",
			"quarta-feira, bem cedo", "na quarta depois do trabalho",
		}},
		{"pt-BR", "Que dia?", "2026-11-21", []string{"amanhã cedo", "amanhã mais tarde", "amanhã depois do almoço"}},
		{"pt-BR", "Qual a sua data de nascimento?", "1980-05-05", []string{"5 de maio de 1980", "05/05/1980"}},
		{"es", "¿Qué día?", "2026-11-24", []string{"creo que el martes", "martes", "el martes temprano"}},
		{"es", "¿Qué día?", "", []string{"fue el martes", "te aviso el martes"}},
		{"fr", "Quel jour ?", "2026-11-24", []string{"je pense mardi", "mardi tôt"}},
		{"fr", "Quel jour ?", "", []string{"c'était mardi"}},
	} {
		for _, text := range tt.texts {
			t.Run(strings.Join([]string{tt.locale, tt.question, text}, " "), func(t *testing.T) {
				t.Parallel()
				require.Equal(t, tt.want, answered(t, "date", tt.question, tt.locale, nil, text))
			})
		}
	}
}
