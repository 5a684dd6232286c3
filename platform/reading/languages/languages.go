// Package languages has what people write and what we answer, as data: one folder for each language, named by its locale. keys.tsv says
// what a language consists of, and order.txt which of two languages answers a word that both have.
package languages

import (
	"embed"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"paceline.internal/platform/letters"
)

//go:embed *.txt */*.tsv
var files embed.FS

// Language has the lines of one folder, by their key.
type Language struct {
	Locale string
	lines  map[string][]string
}

// All returns the languages in their order.
var All = sync.OnceValue(func() []Language { return read(files) })

// Together returns the lines of all languages as if they were one, for what a text may have in any of them.
var Together = sync.OnceValue(func() Language {
	all := Language{lines: map[string][]string{}}
	for _, l := range All() {
		for key, lines := range l.lines {
			all.lines[key] = append(all.lines[key], lines...)
		}
	}
	return all
})

// Of returns the language of a locale, and the first one for a locale that there is none of.
func Of(locale string) Language {
	for _, l := range All() {
		if l.Locale == locale {
			return l
		}
	}
	return All()[0]
}

// Version returns the name of these files. What was read by them is stored with it. It changes with every change to them.
func Version() string { return strings.TrimSpace(file(files, "version.txt")) }

func read(from fs.FS) (all []Language) {
	for locale := range strings.FieldsSeq(file(from, "order.txt")) {
		l := Language{Locale: locale, lines: map[string][]string{}}
		names, err := fs.Glob(from, path.Join(locale, "*.tsv"))
		if err != nil {
			panic(err) // the pattern is ours
		}
		for _, name := range names {
			for line := range strings.Lines(file(from, name)) {
				if key, value, found := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); found {
					l.lines[key] = append(l.lines[key], value)
				}
			}
		}
		all = append(all, l)
	}
	return all
}

func file(from fs.FS, name string) string {
	content, err := fs.ReadFile(from, name)
	if err != nil {
		panic(err) // it is part of the program
	}
	return string(content)
}

// Keys returns the keys that begin so, in their order.
func Keys(prefix string) (keys []string) {
	for key := range Together().lines {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Lines returns what a language has under a key.
func (l Language) Lines(key string) []string { return l.lines[key] }

// Text returns the one line that a language has under a key.
func (l Language) Text(key string) string { return strings.Join(l.lines[key], " ") }

// nothing is a pattern that no text matches.
const nothing = `[^\x00-\x{10FFFF}]`

var reference = regexp.MustCompile(`\{[a-z][a-z-]*\}`)

// Regexp compiles a pattern in which {key} stands for any line of that key.
func (l Language) Regexp(pattern string) *regexp.Regexp {
	return regexp.MustCompile(l.filled(pattern, 0))
}

// deepest bounds how deep parts may lie within parts.
const deepest = 8

func (l Language) filled(pattern string, depth int) string {
	if depth > deepest {
		panic("languages: a part within itself in " + l.Locale) // a test compiles every pattern
	}
	return reference.ReplaceAllStringFunc(pattern, func(key string) string {
		lines := l.lines[strings.Trim(key, "{}")]
		if len(lines) == 0 {
			return nothing
		}
		return `(?:` + l.filled(strings.Join(lines, "|"), depth+1) + `)`
	})
}

// Phrases knows the words of some keys in every language at once.
type Phrases struct {
	of      map[string][]Phrase
	longest int
}

// Phrase is the meaning of a run of words in a language.
type Phrase struct{ Key, Locale string }

// PhrasesOf returns a reader of the words of some keys.
func PhrasesOf(keys ...string) Phrases {
	p := Phrases{of: map[string][]Phrase{}}
	for _, l := range All() {
		for _, key := range keys {
			for _, words := range l.lines[key] {
				p.of[words] = append(p.of[words], Phrase{key, l.Locale})
				p.longest = max(p.longest, len(strings.Fields(words)))
			}
		}
	}
	return p
}

// Read reads a text as a row of phrases, the longest first, and returns what each means in the languages that have it. It is nil when a
// single word of the text belongs to none.
func (p Phrases) Read(text string) (row [][]Phrase) {
	for rest := letters.Words(text); len(rest) > 0; {
		phrase, length := letters.Leading(rest, p.longest, func(phrase string) bool { return p.of[phrase] != nil })
		if length == 0 {
			return nil
		}
		row, rest = append(row, p.of[phrase]), rest[length:]
	}
	return row
}

// Locale returns the language of a text from what its phrases mean: the one that has most of them, and the first language only where no
// other has any. "stop, por favor" is Portuguese.
func Locale(row [][]Phrase) string {
	counts := map[string]int{}
	for _, meanings := range row {
		for _, m := range meanings {
			counts[m.Locale]++
		}
	}
	return most(counts, All()[1:])
}

// Guess returns the language that has most of some words among its common ones, and the first one where none has any.
func Guess(words []string) string {
	counts := map[string]int{}
	for _, l := range All() {
		for _, word := range words {
			if slices.Contains(l.lines["tell"], word) {
				counts[l.Locale]++
			}
		}
	}
	return most(counts, All())
}

func most(counts map[string]int, among []Language) string {
	found := All()[0].Locale
	best := 0
	for _, l := range among {
		if counts[l.Locale] > best {
			found, best = l.Locale, counts[l.Locale]
		}
	}
	return found
}
