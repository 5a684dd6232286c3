package session_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	script "paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/session"
)

// Every message of a case must have the same intent.
func TestIntentOf(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		messages []string
		want     session.Intent
	}{
		{
			name: "ListedNegativesPause", want: session.Pause,
			messages: []string{"later", "no", "not now", "nope", "nah", "not yet"},
		},
		{
			name: "PortugueseNegativesPause", want: session.Pause,
			messages: []string{"depois", "mais tarde", "outra hora", "não", "nao", "naum", "n", "agora não", "não agora", "por enquanto não", "ainda não"},
		},
		{
			name: "AReminderOfNothingIsALater", want: session.Pause,
			messages: []string{
				"remind me tomorrow", "text me tomorrow", "me chama amanhã", "Remind me later!", "please remind me tomorrow at 9am", "can you remind me in an hour", "remind me next week",
				"me lembra amanhã", "Me lembra semana que vem", "lembre-me mais tarde, por favor", "me lembra amanhã às 8h", "me lembra depois do almoço",
			},
		},
		{
			name: "AReminderOfSomethingIsNone", want: session.Advance,
			messages: []string{"remind me to call John tomorrow at 9am", "remind me what this is", "me lembra amanhã às 8h de tomar remédio", "remind me lunch at noon"},
		},
		{
			name: "CaseSpacePunctuationAndEmojiAreSetAside", want: session.Pause,
			messages: []string{
				"NO", "No.", "no!!", " no ", "no…", "🙅 no 🙅", "Not   now", "not-now", "\"later\"", "later :)", "NÃO", "Na\u0303o", "não 😅", "No 👍🏽",
				"ÁGORA não", "depois\n", "n\u200bo", "ainda na\u0303o?",
			},
		},
		{
			name: "ThanksAndPleaseAroundANegativePause", want: session.Pause,
			messages: []string{
				"no thanks", "No, thanks!", "no thank you!", "no thank you so much", "Later please", "later, pls", "thanks, not now", "Please, later. Thanks!",
				"não, obrigada", "nao obrigado 🙏", "não, muito obrigada!", "agora não, por favor", "Depois, valeu", "obg, mais tarde", "no thx", "not yet ty",
			},
		},
		{
			name: "RepeatedNegativesPause", want: session.Pause,
			messages: []string{"no no no", "no, not now", "Nah. Later.", "não, agora não", "não, depois"},
		},
		{
			name: "PositiveAdvances", want: session.Advance,
			messages: []string{"yes", "y", "sure", "ok", "Sim", "claro", "bora!", "👍", "yes please", "sim, por favor", "ready"},
		},
		{
			name: "NeutralAndAmbiguousAdvance", want: session.Advance,
			messages: []string{
				"who is this?", "quem é?", "hmm", "maybe", "talvez", "thanks", "obrigada", "please", "stop it", "what now", "1",
				"see you later",
			},
		},
		{
			name: "NegativeInsideOrdinaryMessageAdvances", want: session.Advance,
			messages: []string{
				"no problem", "No worries, go ahead", "not sure", "no idea", "not bad", "não sei", "não tem problema", "know", "nothing",
				"why not", "no1", "pode mandar, não tem pressa", "now", "note", "agora", "ainda", "mais",
			},
		},
		{
			name: "RefusalsInOtherWordsPause", want: session.Pause,
			messages: []string{
				"Não quero", "not right now", "not today", "maybe later", "no im good thanks", "nah im good", "no sir", "absolutely not",
				"I don't think so", "can't right now", "I'm busy", "in a meeting", "nao quero agora", "não posso agora", "agora não dá",
				"hoje não", "outro dia", "depois eu vejo", "tô ocupada", "👎", "Disliked “Ready?”", "noooope", "naaah",
			},
		},
		{
			name: "ReactionsQuotesAndAutomaticRepliesAnswerNothing", want: session.Remark,
			messages: []string{
				"Liked “Ready? Reply STOP to opt out.”", "Curtiu “Podemos começar?”", "Loved an image", "Reacted 👍 to “Ready?”",
				"“Hi Ana, it's the welcome team. Ready? Reply STOP to opt out.”", "I'm driving with Focus turned on. I'll see your message later.",
			},
		},
		{
			name: "LettersThatStandTwiceAreSpelling", want: session.Advance,
			messages: []string{"noon", "latter", "the latter"},
		},
		{
			name: "WordsThatPhonesWriteTooAdvance", want: session.Advance,
			messages: []string{
				"is this an automated message?", "thank you for reaching out to me, I'm ready", "5 to \"mom\"", "Fwd: yes",
			},
		},
		{
			name: "NothingReadableAdvances", want: session.Advance,
			messages: []string{"", " ", " \n ", "\u200b\u200d", "!!!", "😀", "\xff\xfe", "\u0303", "asdf"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, message := range tt.messages {
				require.Equal(t, tt.want, session.IntentOf(message), "%q", message)
			}
		})
	}
}

// Where something else than an opening was asked for, a text with a no in it may be the answer.
func TestIntentAt(t *testing.T) {
	t.Parallel()
	f, err := script.Parse(fstest.MapFS{
		"flow.yaml": {Data: []byte(`
flow: night
languages: [en]
start: opening
steps:
  opening: {send: OPENING, wait: reply, negative: {send: LATER, stay: true}, then: slept}
  slept: {ask: SLEPT, expect: {text: {limit: 300}}, negative: {send: LATER, stay: true}, unclear: {send: SHORTER, times: 1, then: done}, then: done}
  done: {end: over}
`)},
		"en.yaml": {Data: []byte("texts:\n  OPENING: Ready?\n  LATER: Later then.\n  SLEPT: How did you sleep?\n  SHORTER: Shorter, please.\n")},
	})
	require.NoError(t, err)
	for _, tt := range []struct {
		step, message string
		want          session.Intent
	}{
		{"opening", "I can't right now, I'm at work", session.Pause},
		{"slept", "I can't right now, I'm at work", session.Advance},
		{"slept", "no", session.Pause},
		{"slept", "not now, thanks", session.Pause},
		{"slept", "remind me tomorrow", session.Pause},
		{"slept", "👎", session.Pause},
		{"slept", "Disliked “How did you sleep?”", session.Pause},
		{"slept", "Liked “How did you sleep?”", session.Remark},
	} {
		r := session.Record{Flow: "night", At: script.State{Step: tt.step, Phase: script.Waiting}}
		require.Equal(t, tt.want, session.IntentAt(&f, r, tt.message), "%s: %s", tt.step, tt.message)
	}
}

// Each listed negative pauses, alone and with what may go with it.
func TestListedNegatives(t *testing.T) {
	t.Parallel()
	for _, negative := range []string{
		"later", "no", "not now", "nope", "nah", "not yet", // those of the decision itself
		"depois", "mais tarde", "outra hora", "não", "nao", "naum", "n", "agora não", "não agora", "por enquanto não", "ainda não",
	} {
		t.Run("S0_43_"+strings.ReplaceAll(negative, " ", "_"), func(t *testing.T) {
			t.Parallel()
			for _, message := range []string{
				negative, strings.ToUpper(negative), negative + "!", "  " + negative + " … ", negative + ", thanks", negative + " thank you.",
				"please, " + negative, negative + " por favor", negative + ", obrigada!", negative + " 🙏", strings.ReplaceAll(negative, " ", "-"),
			} {
				require.Equal(t, session.Pause, session.IntentOf(message), "%q", message)
			}
		})
	}
}

func TestTriggerOf(t *testing.T) {
	t.Parallel()
	require.Equal(t, session.TriggerReplyAdvance, session.TriggerOf(session.Advance))
	require.Equal(t, session.TriggerReplyPause, session.TriggerOf(session.Pause))
	require.Equal(t, session.TriggerReplyAdvance, session.TriggerOf(session.Remark))
}

func FuzzIntentOf(f *testing.F) {
	for _, seed := range []string{"no", "No, thanks!", "não, obrigada", "Na\u0303o", "no problem", "ok", "", "n\u200bo", "Liked “no”", "> no"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, message string) {
		intent := session.IntentOf(message)
		require.Contains(t, []session.Intent{session.Advance, session.Pause, session.Remark}, intent)
		require.Equal(t, intent, session.IntentOf("\t "+message+" \u200b"), "what shows nothing changes nothing")
	})
}
