package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/letters"
)

// TestPartsAreApart checks that the texts by which the readers are measured are no texts that they were made from, in any case, accents or
// punctuation: else the tables flatter.
func TestPartsAreApart(t *testing.T) {
	t.Chdir("..")
	made := map[string]bool{}
	for _, pattern := range slices.Concat(revocationTexts, answerTexts, []string{"testdata/notwords.tsv"}) {
		for _, text := range lines(t, pattern) {
			made[folded(strings.NewReplacer("{", "", "}", "").Replace(text))] = true
		}
	}
	for _, pattern := range []string{"testdata/unseen/*.t*", "testdata/unseen/sentences/*", "testdata/unseen/words/*.counts.*"} {
		for _, text := range lines(t, pattern) {
			require.False(t, made[folded(text)], "the readers are made from an unseen text, too: %q", text)
		}
	}
}

// TestWeights checks that the training program makes the weights that are in the repository, byte for byte.
func TestWeights(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains both models")
	}
	t.Chdir("..")
	folder := t.TempDir()
	require.NoError(t, run(io.Discard, folder))
	for _, name := range []string{"revocation.bin", "refusal.bin"} {
		want, err := os.ReadFile(filepath.Join(folder, name))
		require.NoError(t, err)
		got, err := os.ReadFile(name)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got), "%s is not made from these texts: go generate ./platform/reading", name)
	}
}

func folded(text string) string {
	if words := letters.Words(strings.NewReplacer("'", "", "’", "").Replace(text)); len(words) > 0 {
		return strings.Join(words, " ")
	}
	return text
}

// lines returns the texts of files without their labels.
func lines(t *testing.T, pattern string) (all []string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, files, pattern)
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		for line := range bytes.Lines(content) {
			if text := strings.TrimSpace(string(line)); text != "" && text[0] != '#' && text[0] != '=' {
				all = append(all, text[strings.LastIndexByte(text, '\t')+1:])
			}
		}
	}
	return all
}
