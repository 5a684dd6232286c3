package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestUnseen holds how the texts are read that the readers were not made from: per thousand, what may be read wrongly. As long as the texts
// are the same, the numbers may only fall.
func TestUnseen(t *testing.T) {
	t.Parallel()
	folder := "../../platform/reading/testdata/unseen"
	found, err := measureReading(folder)
	require.NoError(t, err)
	sentences, err := measureReading(folder + "/sentences")
	require.NoError(t, err)
	words, err := measureReading(folder + "/words")
	require.NoError(t, err)
	for _, tt := range []struct {
		name, prefix, wrong string
		most                int
		of                  table
	}{
		{"RevocationsAreHeard", "revocations", "passed", 10, found},
		{"FewRevocationsTurnRemindersOff", "revocations", "reminders off", 3, found},
		{"OrdinaryTextsHoldNobody", "ordinary", "held", 10, found},
		{"OrdinaryTextsOptNobodyOut", "ordinary", "opted out", 0, found},
		{"RefusalsAreANo", "answers: no", "goes on", 30, found},
		{"AnswersGoOn", "answers: yes", "a no", 35, found},
		{"OrdinaryTextsAreNoRefusals", "as an answer: ordinary", "a no", 72, found},
		{"AutomaticRepliesAreNoWords", "notwords: auto", "has words of theirs", 208, found},
		{"ReactionsAreNoWords", "notwords: reaction", "has words of theirs", 38, found},
		{"RevocationsAmongOtherSentencesAreHeard", "revocations", "passed", 6, sentences},
		{"OrdinarySentencesHoldFew", "ordinary", "held", 23, sentences},
		{"NamesAndThingsHoldFew", "ordinary", "held", 30, words},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			total, wrong := 0, 0
			for label, as := range tt.of {
				if strings.HasPrefix(label, tt.prefix) {
					for reading, n := range as {
						total += n
						if reading == tt.wrong {
							wrong += n
						}
					}
				}
			}
			require.Positive(t, total)
			require.LessOrEqual(t, 1000*wrong, tt.most*total, "%d of %d", wrong, total)
		})
	}
}

// TestTesters holds texts of people who tried it, which were once taken for a revocation.
func TestTesters(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"Delighted to hear from you", "Que alegria receber isso", "Glad you wrote", "Sounds good", "Stop & Shop 45.20", "unsubscribed from netflix",
	} {
		require.Equal(t, "passed", consented(text), text)
		require.Equal(t, "goes on", readers["answers"](text), text)
	}
}
