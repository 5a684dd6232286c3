package consent_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/messaging/consent"
)

// Every body of a case must have the same effect.
func TestClassify(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		current consent.State
		bodies  []string
		want    consent.Effect
	}{
		{
			name: "TwilioDefaultWordsOptOut", current: consent.OptedIn, want: consent.OptOut,
			bodies: []string{"STOP", "UNSUBSCRIBE", "END", "QUIT", "STOPALL", "REVOKE", "OPTOUT", "CANCEL"},
		},
		{
			name: "FCCWordsOptOut", current: consent.OptedIn, want: consent.OptOut,
			bodies: []string{"stop", "quit", "end", "revoke", "opt out", "cancel", "unsubscribe"},
		},
		{
			name: "PortugueseWordsOptOut", current: consent.OptedIn, want: consent.OptOut,
			bodies: []string{"PARAR", "Pare", "sair", "cancelar", "descadastrar", "remover", "Cancelar inscrição", "encerrar"},
		},
		{
			name: "PlainSentencesOptOut", current: consent.OptedIn, want: consent.OptOut,
			bodies: []string{
				"Unsubscribe me", "Don't text me", "don’t text me!", "Do not text me", "stop texting me",
				"Me descadastre, por favor", "Não quero mais receber mensagens.", "Pare de me mandar mensagens",
			},
		},
		{
			name: "CaseSpacePunctuationAndEmojiAreSetAside", current: consent.OptedIn, want: consent.OptOut,
			bodies: []string{
				"Stop.", "STOP!!", "  stop\n", "\"Stop\"", "stop?", "sToP", "🛑 stop 🛑", "stop 👍🏽", "(stop)", "¡stop!", "st\u200bop",
				"opt out", "Opt-Out", "opt   out", "OPT_OUT", "\ufeffSTOP", "STÓP",
			},
		},
		{
			name: "FullWidthEnclosedAndInvisiblyPaddedOptOut", current: consent.OptedIn, want: consent.OptOut,
			bodies: []string{
				"ＳＴＯＰ", "ｓｔｏｐ！", "ＯＰＴ　ＯＵＴ", "STOP\u3164", "\u115fstop\uffa0", "S\u20e3T\u20e3O\u20e3P\u20e3", "\u202eSTOP\u202c",
				"ST\u00adOP", "ST\u2060OP", "STOP\ufe0f",
			},
		},
		{
			name: "ComposedAndDecomposedLettersAreEqual", current: consent.OptedIn, want: consent.OptOut,
			bodies: []string{"cancelar inscrição", "cancelar inscric\u0327a\u0303o"},
		},
		{
			name: "DiacriticsAreSetAside", current: consent.OptedIn, want: consent.OptOut,
			bodies: []string{"sàir", "Sâir", "sãir", "SÄIR", "såir", "énd", "ènd", "ênd", "ËND", "quít", "quìt", "quît", "quït", "stóp", "stòp", "stôp", "stõp", "stöp", "qúit", "qùit", "qûit", "qüit", "eñd"},
		},
		{
			name: "RepeatedOrPoliteOptOutIsStillOne", current: consent.OptedIn, want: consent.OptOut,
			bodies: []string{"STOP STOP STOP", "stop, please", "Please stop!", "parar, obrigada", "stop. unsubscribe.", "Yes, stop", "help stop", "STOP/START"},
		},
		{
			name: "OptOutOfAPersonWhoIsOut", current: consent.OptedOut, want: consent.OptOut,
			bodies: []string{"stop", "sair"},
		},
		{
			name: "OrdinaryTextWithAKeywordInside", current: consent.OptedIn, want: consent.None,
			bodies: []string{
				"stop it", "don't stop", "non-stop", "vou sair hoje", "I'll be there at the end", "the end", "can you cancel my order",
				"quitting", "stopped", "parar de fumar", "quero cancelar o pedido", "end of day works", "info@example.com", "helpful", "need help with this",
				"re: stop", "s t o p", "no", "not now", "later", "fim", "chega", "não",
			},
		},
		{
			name: "NothingToRead", current: consent.OptedIn, want: consent.None,
			bodies: []string{"", " ", "🛑", "!!!", "thanks", "please", "por favor, obrigado", "\xff\xfe", "\u0303"},
		},
		{
			name: "StartIsAlwaysConsent", current: consent.OptedIn, want: consent.OptIn,
			bodies: []string{"START", "start!", "Unstop", "UNSTOP."},
		},
		{
			name: "StartRestoresConsent", current: consent.OptedOut, want: consent.OptIn,
			bodies: []string{"START", "unstop", "YES", "Yes!", "começar", "Iniciar", "voltar", "reativar"},
		},
		{
			name: "YesAnswersTheConversationOfAPersonWhoIsIn", current: consent.OptedIn, want: consent.None,
			bodies: []string{"yes", "YES!", "começar", "iniciar", "voltar", "reativar"},
		},
		{
			name: "YesOfAnUnknownPersonIsNotConsent", want: consent.None,
			bodies: []string{"yes", "iniciar"},
		},
		{
			name: "ConsentIsNeverReadOutOfMoreThanTheBareWord", current: consent.OptedOut, want: consent.None,
			bodies: []string{"yes please", "start start", "start please", "start the car", "sim", "ok", "y", "sure", "help yes", "vamos", "quero voltar"},
		},
		{
			name: "HelpInAnyState", current: consent.OptedOut, want: consent.Help,
			bodies: []string{"HELP", "Help!", "info", "AJUDA", "ajuda, por favor", "help please", "help help", "help?"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, body := range tt.bodies {
				require.Equal(t, tt.want.String(), consent.Classify(body, tt.current).String(), "%q", body)
			}
		})
	}
}

func FuzzClassify(f *testing.F) {
	for _, seed := range []string{"STOP", "opt-out", "não quero mais receber mensagens", "Yes!", "START", "ajuda 🙏", "stop it", "st\u200bop"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		in, out := consent.Classify(body, consent.OptedIn), consent.Classify(body, consent.OptedOut)
		if in != out {
			require.Equal(t, consent.None, in, "the state may only turn an ordinary word into consent")
			require.Equal(t, consent.OptIn, out)
		}
		require.Equal(t, in, consent.Classify(body, ""))
		require.Equal(t, in, consent.Classify("\t🙂 "+body+" 👍!! ", consent.OptedIn), "decoration changes nothing")
		require.Equal(t, consent.None, consent.Classify(body+" banana", consent.OptedOut), "one ordinary word makes it ordinary")
		if in == consent.OptOut || in == consent.Help {
			require.Equal(t, in, consent.Classify(body+" "+body+", please", consent.OptedIn), "repetition and courtesy change nothing")
		}
	})
}
