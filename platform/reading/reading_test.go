package reading_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/reading"
)

func TestNormalise(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"STOPPPP": "stopp", "Não  QUERO\nmais": "nao quero mais", "𝗦𝗧𝗢𝗣": "stop", "ⓈⓉⓄⓅ": "stop", "🅢🅣🅞🅟": "stop", "🅂TOP": "stop", "ꜱᴛᴏᴘ": "stop",
		"STОP": "stop", "sτop": "stop", "$top": "stop", "s\u200bt\u00adop": "stop", "“a” ‘b’": "\"a\" 'b'", "555 1000": "555 1000",
	} {
		require.Equal(t, want, reading.Normalise(text), text)
	}
}

func TestTheirs(t *testing.T) {
	t.Parallel()
	const opening = "Hi Ana, it's the welcome team. Ready? Reply STOP to opt out."
	for _, tt := range []struct {
		name, text string
		kind       reading.Kind
		words      string
	}{
		{"TheirWords", "Yes, please!", reading.Own, "yes, please!"},
		{"ASignForAWord", "Wrong #", reading.Own, "wrong number"},
		{"ASignForAWordWithin", "take my # off your list", reading.Own, "take my number off your list"},
		{"ASignForAWordInPortuguese", "esquece meu # por favor", reading.Own, "esquece meu numero por favor"},
		{"ASignOfAFigure", "ticket # 44, option #2", reading.Own, "ticket # 44, option #2"},
		{"ALike", "Liked “" + opening + "”", reading.Liked, ""},
		{"ALikeInPortuguese", "Curtiu “Podemos começar? Envie PARAR para sair.”", reading.Liked, ""},
		{"ALikeInFrench", "A aimé « Prête ? Répondez STOP pour ne plus en recevoir. »", reading.Liked, ""},
		{"ALikeOfAPicture", "Loved an image", reading.Liked, ""},
		{"AQuestionMark", "Questioned “Ready?”", reading.Noted, ""},
		{"ALikeTakenBack", "Removed a like from “Ready?”", reading.Noted, ""},
		{"ADislike", "Disliked “Ready?”", reading.Disliked, ""},
		{"ADislikeInSpanish", "No le gustó “¿Lista?”", reading.Disliked, ""},
		{"AnEmojiThatIsANo", "Reacted 👎 to “Ready?”", reading.Disliked, ""},
		{"AnEmojiOfAndroid", "\u200a\u200b👍\u200b to “\u200aReady?\u200a”", reading.Noted, ""},
		{"AQuoteOfOurs", "“" + opening + "”", reading.Quoted, ""},
		{"AForward", "Fwd: " + opening, reading.Quoted, ""},
		{"AQuoteAndWords", "“" + opening + "” who is this?", reading.Own, "who is this?"},
		{"QuotedLines", "> " + opening + "\nyes", reading.Own, "yes"},
		{"AFooterOfOurs", "what is Reply STOP to opt out.", reading.Own, "what is"},
		{"WordsBetweenQuotationMarks", "\"stop texting me\"", reading.Own, "\"stop texting me\""},
		{"ASignature", "yes Sent from my iPhone", reading.Own, "yes"},
		{"AnAutomaticReply", "I'm driving with Focus turned on. I'll see your message when I get where I'm going.", reading.Automatic, ""},
		{"WordsThatBeginLikeAReaction", "loved a day off", reading.Own, "loved a day off"},
		{"AQuestion", "is this an automated message?", reading.Own, "is this an automated message?"},
		{"Nothing", " ", reading.Own, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			kind, words := reading.Theirs(tt.text)
			require.Equal(t, tt.kind, kind)
			require.Equal(t, tt.words, words)
		})
	}
}

// FuzzNormalise checks that what was normalised is normal, so that readers may normalise what others did.
func FuzzNormalise(f *testing.F) {
	for _, seed := range []string{"Não  QUERO\nmais", "𝗦𝗧𝗢𝗣", "🅂🅣🅾p", "s\u200bt\u00adop", "İI", "ß", "ﬃ", "ooo o", "“a” ‘b’", "\xff\xfe", "a\u0303\u0303"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		normal := reading.Normalise(text)
		require.True(t, utf8.ValidString(normal))
		require.Equal(t, normal, reading.Normalise(normal))
		require.Equal(t, strings.TrimSpace(normal), normal)
		require.NotContains(t, normal, "  ")
	})
}

func FuzzTheirs(f *testing.F) {
	for _, seed := range []string{"Liked “a”", "> a\nb", "“", "\"", "Fwd:", "\xff\xfe", "a 👎 to \"b\"", strings.Repeat(">", 99), "Sent from my "} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		kind, words := reading.Theirs(text)
		if kind != reading.Own {
			require.Empty(t, words)
		}
		again, _ := reading.Theirs(text)
		require.Equal(t, kind, again)
		require.Equal(t, reading.Normalise(words), reading.Normalise(reading.Normalise(words)))
		for _, m := range []reading.Model{reading.Revocation, reading.Refusal} {
			score := m.Score(text)
			require.False(t, score != score, "a number") //nolint:testifylint // NaN alone differs from itself
		}
	})
}

// BenchmarkScore measures the cost of a text of 40 words.
func BenchmarkScore(b *testing.B) {
	text := strings.Repeat("please would you kindly stop sending me these ", 5)
	for b.Loop() {
		_, words := reading.Theirs(text)
		reading.Revocation.Score(words)
	}
}
