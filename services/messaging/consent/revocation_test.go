package consent_test

import (
	_ "embed"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/reading"
	"paceline.internal/services/messaging/consent"
)

//go:embed testdata/cases.tsv
var cases string

// TestRevocation reads cases.tsv, rows of what a text has to be read as, its language, and the text.
func TestRevocation(t *testing.T) {
	t.Parallel()
	wishes := map[string]consent.Wish{"clear": consent.Clear, "unclear": consent.Unclear, "nothing": consent.NoWish}
	total := 0
	for line := range strings.Lines(cases) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		total++
		row := strings.SplitN(strings.TrimRight(line, "\n"), "\t", 3)
		t.Run(row[1]+"/"+row[2], func(t *testing.T) {
			t.Parallel()
			want, known := wishes[row[0]]
			require.True(t, known, row[0])
			got, locale := consent.Revocation(row[2])
			require.Equal(t, want, got)
			if want != consent.NoWish {
				require.Equal(t, consent.Locale(row[1]), locale)
			}
		})
	}
	require.GreaterOrEqual(t, total, 700)
}

const portuguese consent.Locale = "pt-BR"

//go:embed testdata/languages.tsv
var inLanguages string

// TestLanguages reads languages.tsv, rows of what a text does, the language of the answer, and the text.
func TestLanguages(t *testing.T) {
	t.Parallel()
	for line := range strings.Lines(inLanguages) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		row := strings.SplitN(strings.TrimRight(line, "\n"), "\t", 3)
		t.Run(row[1]+"/"+row[2], func(t *testing.T) {
			t.Parallel()
			read := consent.Asked{}.Read(row[2], "", consent.OptedIn)
			require.Equal(t, row[0], read.Effect.String())
			require.Equal(t, consent.Locale(row[1]), read.Locale)
		})
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	off := consent.Preferences{Reminders: consent.Off, Locale: consent.English}
	tests := []struct {
		name       string
		body       string
		optOutType string
		current    consent.State
		want       consent.Reading
	}{
		{
			name: "S0_40_KeywordThatTwilioKnows", body: " Stop ", current: consent.OptedIn,
			want: consent.Reading{Effect: consent.OptOut, Locale: consent.English, Carrier: consent.Blocks},
		},
		{
			name: "S0_40_KeywordThatTwilioDoesNotKnow", body: "PARAR", current: consent.OptedIn,
			want: consent.Reading{Effect: consent.OptOut, Locale: portuguese},
		},
		{
			name: "TwilioReadsTheBareWordOnly", body: "Stop.", current: consent.OptedIn,
			want: consent.Reading{Effect: consent.OptOut, Locale: consent.English},
		},
		{
			name: "TwiliosReadingWinsOverTheWords", body: "please stop texting me", optOutType: "HELP", current: consent.OptedIn,
			want: consent.Reading{Effect: consent.Help, Locale: consent.English, Carrier: consent.Helps},
		},
		{
			name: "TwiliosSTOPInItsOwnWords", body: "arret", optOutType: "STOP", current: consent.OptedIn,
			want: consent.Reading{Effect: consent.OptOut, Locale: "fr", Carrier: consent.Blocks},
		},
		{
			name: "TwiliosSTARTInItsOwnWords", body: "allons", optOutType: "START", current: consent.OptedOut,
			want: consent.Reading{Effect: consent.OptIn, Locale: consent.English, Carrier: consent.Lifts},
		},
		{
			name: "KeywordBeforeRules", body: "stop texting me", current: consent.OptedIn,
			want: consent.Reading{Effect: consent.OptOut, Locale: consent.English},
		},
		{
			name: "ClearRevocation", body: "não quero mais receber", current: consent.OptedIn,
			want: consent.Reading{Effect: consent.OptOut, Rules: consent.RulesVersion, Locale: portuguese},
		},
		{
			name: "ClearRevocationOfAPersonWhoIsOut", body: "please stop texting me already", current: consent.OptedOut,
			want: consent.Reading{Effect: consent.OptOut, Rules: consent.RulesVersion, Locale: consent.English},
		},
		{
			name: "DoubtfulRevocation", body: "stop it", current: consent.OptedIn,
			want: consent.Reading{Effect: consent.Ambiguous, Rules: consent.RulesVersion, Locale: consent.English},
		},
		{
			name: "DoubtAboutAPersonWhoIsOutIsNone", body: "stop it", current: consent.OptedOut,
			want: consent.Reading{Locale: consent.English},
		},
		{
			name: "YESLiftsTwiliosBlockEvenWhereItIsAnAnswer", body: "Yes", current: consent.OptedIn,
			want: consent.Reading{Locale: consent.English, Carrier: consent.Lifts},
		},
		{
			name: "START", body: "start", current: consent.OptedOut,
			want: consent.Reading{Effect: consent.OptIn, Locale: consent.English, Carrier: consent.Lifts},
		},
		{
			name: "UNSTOP", body: "UNSTOP", current: consent.OptedOut,
			want: consent.Reading{Effect: consent.OptIn, Locale: consent.English, Carrier: consent.Lifts},
		},
		{
			name: "VoltarLiftsOursOnly", body: "voltar", current: consent.OptedOut,
			want: consent.Reading{Effect: consent.OptIn, Locale: portuguese},
		},
		{
			name: "HELPIsTwilios", body: "info", current: consent.OptedIn,
			want: consent.Reading{Effect: consent.Help, Locale: consent.English, Carrier: consent.Helps},
		},
		{
			name: "AJUDAIsOurs", body: "Ajuda!", current: consent.OptedIn,
			want: consent.Reading{Effect: consent.Help, Locale: portuguese},
		},
		{
			name: "OneLanguageForTheKeywordAndAnotherForTheCourtesy", body: "stop, por favor", current: consent.OptedIn,
			want: consent.Reading{Effect: consent.OptOut, Locale: portuguese},
		},
		{
			name: "PreferenceThatWasAnOrdinaryText", body: "stop reminders", current: consent.OptedIn,
			want: consent.Reading{Locale: consent.English, Preferences: off},
		},
		{
			name: "PreferenceThatWasAmbiguous", body: "Stop sending me reminders", current: consent.OptedIn,
			want: consent.Reading{Effect: consent.Ambiguous, Rules: consent.RulesVersion, Locale: consent.English, Preferences: off},
		},
		{
			name: "PreferenceOfAPersonWhoIsOut", body: "parar dicas", current: consent.OptedOut,
			want: consent.Reading{Locale: consent.English, Preferences: consent.Preferences{Tips: consent.Off, Locale: portuguese}},
		},
		{
			name: "TwiliosReadingBeforeAPreference", body: "stop reminders", optOutType: "STOP", current: consent.OptedIn,
			want: consent.Reading{Effect: consent.OptOut, Locale: consent.English, Carrier: consent.Blocks},
		},
		{
			name: "ClearRevocationBeforeAPreference", body: "Stop texting me. No more reminders.", current: consent.OptedIn,
			want: consent.Reading{Effect: consent.OptOut, Rules: consent.RulesVersion, Locale: consent.English},
		},
		{
			name: "WordsOfConsentAboutRemindersAreForAnOperator", body: "unsubscribe from reminders", current: consent.OptedIn,
			want: consent.Reading{Effect: consent.Ambiguous, Rules: consent.RulesVersion, Locale: consent.English},
		},
		{name: "OrdinaryText", body: "I can't stop smiling", current: consent.OptedIn, want: consent.Reading{Locale: consent.English}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, consent.Asked{}.Read(tt.body, tt.optOutType, tt.current))
		})
	}
}

// For every message: a keyword keeps its effect, decoration changes nothing, and the same words are read the same twice.
func FuzzRevocation(f *testing.F) {
	n := 0
	for line := range strings.Lines(cases) {
		if n++; n%20 == 1 {
			f.Add(strings.TrimSpace(line[strings.LastIndex(line, "\t")+1:]))
		}
	}
	for _, seed := range []string{"STOP", "ajuda", "don't don't", "n't", "t", "…—", "stop\x00texting\xffme", "s t\u0303o p 🛑", "I'm not Ana\u0303.", strings.Repeat("stop texting ", 200)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		wish, locale := consent.Revocation(body)
		again, _ := consent.Revocation("\t🙂 " + body + " 👍!! ")
		require.Equal(t, wish, again, "decoration changes nothing")
		for _, current := range []consent.State{"", consent.OptedIn, consent.OptedOut} {
			keyword, read := consent.Classify(body, current), consent.Asked{}.Read(body, "", current)
			if keyword != consent.None {
				require.Equal(t, keyword, read.Effect, "the keywords come first")
				require.Empty(t, read.Rules)
				continue
			}
			switch {
			case wish == consent.Clear:
				require.Equal(t, consent.OptOut, read.Effect)
			case wish == consent.Unclear && current != consent.OptedOut:
				require.Equal(t, consent.Ambiguous, read.Effect)
			default:
				require.Equal(t, consent.None, read.Effect)
			}
			require.Equal(t, read.Effect != consent.None, read.Rules != "")
			if wish != consent.NoWish {
				require.Equal(t, locale == portuguese, consent.Asked{}.Read(body, "", consent.OptedIn).Locale == portuguese)
			}
		}
		if wish == consent.Clear {
			softer, _ := consent.Revocation(body + " until tomorrow")
			require.Equal(t, consent.Unclear, softer, "a clear word with a time is doubtful, and never lost")
		}
	})
}

// TestAskingForAPersonIsNoRevocation is about words that the model finds like a revocation, and that the inbox takes.
func TestAskingForAPersonIsNoRevocation(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]consent.Wish{
		"I want to talk to a human please":                       consent.NoWish,
		"quero falar com um atendente":                           consent.NoWish,
		"Quiero hablar con una persona":                          consent.NoWish,
		"je veux parler à un conseiller":                         consent.NoWish,
		"stop texting me. I want to talk to a human":             consent.Clear,
		"leave me alone, I want to talk to a person not a robot": consent.Unclear,
	} {
		got, _ := consent.Revocation(text)
		require.Equal(t, want, got, text)
	}
}

// TestGoingOnIsNoRevocation is about words that the model finds like a revocation, and that ask for the opposite; and about stops that have
// the words of going on.
func TestGoingOnIsNoRevocation(t *testing.T) {
	t.Parallel()
	for held, texts := range map[bool][]string{
		false: {
			"yes please continue", "keep texting me", "No, keep sending me messages", "Don't stop", "please keep sending me texts", "não parem, por favor",
			"quiero seguir recibiendo mensajes", "Sigan enviándome mensajes", "Continuez à m'envoyer des messages", "Non, continuez s'il vous plaît",
		},
		true: {
			"don't, stop", "No, don't. Stop", "do not. stop texting me", "não, pare", "Não. Parem", "não não, pare", "não, parem de mandar",
			"No, dejen de escribirme", "keep texting me. STOP", "keep sending me texts and I sue you", "yes, stop",
		},
	} {
		for _, text := range texts {
			effect := consent.Asked{}.Read(text, "", consent.OptedIn).Effect
			require.Equal(t, held, effect != consent.None, text)
			if !held {
				require.True(t, reading.Affirmed(text), text)
			}
		}
	}
}

// TestAnswersAreNoRevocation is about short answers to the questions of flows: how many, how often, and what was wrong.
func TestAnswersAreNoRevocation(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"alone", "I'm all alone", "just me", "on my own", "3 including me", "3 of us", "5 times already", "twice already", "2 of your staff were rude",
		"4 of the rooms were dirty", "sozinho", "com a minha filha", "somos 4", "3 conmigo", "solo yo", "tout seul", "3 avec moi",
	} {
		got, _ := consent.Revocation(text)
		require.Equal(t, consent.NoWish, got, text)
	}
	for _, text := range []string{"leave me alone", "alone!! leave me alone", "5 times already, stop texting me", "2 of your staff were rude, take me off"} {
		got, _ := consent.Revocation(text)
		require.NotEqual(t, consent.NoWish, got, text)
	}
}
