// Package human reads whether a text asks to speak to a person, in words of every language that is known.
package human

import (
	"bufio"
	"embed"
	"slices"
	"strings"
	"sync"

	"paceline.internal/platform/letters"
)

//go:embed words/*.txt
var files embed.FS

// askers has the words that ask for a person, of all languages together: people write in whichever they like.
type askers struct {
	within [][]string      // found anywhere in a text
	whole  map[string]bool // the whole text
}

// loaded reads the files once; they are part of the program, so that one that cannot be read is a fault of the build.
var loaded = sync.OnceValue(func() askers { //nolint:gochecknoglobals // constant data
	a := askers{whole: map[string]bool{}}
	entries, err := files.ReadDir("words")
	if err != nil {
		panic(err)
	}
	for _, entry := range entries {
		file, err := files.Open("words/" + entry.Name())
		if err != nil {
			panic(err)
		}
		for lines := bufio.NewScanner(file); lines.Scan(); {
			a.add(lines.Text())
		}
		if err := file.Close(); err != nil {
			panic(err)
		}
	}
	return a
})

func (a *askers) add(line string) {
	phrase, whole := strings.CutPrefix(strings.TrimSpace(line), "=")
	switch words := letters.Words(phrase); {
	case strings.HasPrefix(line, "#"), len(words) == 0:
	case whole:
		a.whole[strings.Join(words, " ")] = true
	default:
		a.within = append(a.within, words)
	}
}

// negations before a phrase turn it round: "I don't need to talk to someone". They are looked for so many words before it.
var negations = []string{
	"don", "dont", "not", "no", "never", "without", "nao", "nunca", "sem", "tampoco", "sin", "ne", "pas", "jamais", "sans", "n",
}

const negationReach = 4

// Asked reports whether a text asks for a person, by the words of every language and by more phrases, such as those of a flow.
func Asked(text string, more []string) bool {
	said, a := letters.Words(text), loaded()
	if a.whole[strings.Join(said, " ")] {
		return true
	}
	for _, phrase := range a.within {
		if affirms(said, phrase) {
			return true
		}
	}
	return slices.ContainsFunc(more, func(phrase string) bool { return affirms(said, letters.Words(phrase)) })
}

// affirms reports whether words have a phrase that nothing before it negates.
func affirms(said, phrase []string) bool {
	if len(phrase) == 0 {
		return false
	}
	for i := 0; i+len(phrase) <= len(said); i++ {
		if !slices.Equal(said[i:i+len(phrase)], phrase) {
			continue
		}
		if !slices.ContainsFunc(said[max(0, i-negationReach):i], func(word string) bool { return slices.Contains(negations, word) }) {
			return true
		}
	}
	return false
}
