// Package languages has what people write and what we answer, as data: one file for each language, named by its locale. keys.tsv says
// what a language consists of, and index.tsv lists the languages.
package languages

import (
	"embed"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"sync"

	"paceline.internal/platform/letters"
)

//go:embed *.tsv
var files embed.FS

// Language has the lines of one file, by their key.
type Language struct {
	Locale string
	lines  map[string][]string
}

// Set has languages in their order.
type Set []Language

// All returns the languages of the index. Where two of them have the same words, the first one answers.
var All = sync.OnceValue(func() Set { return Read(files, index("locale")) })

// Together returns the lines of all languages as if they were one, for what a text may have in any of them.
var Together = sync.OnceValue(func() Language { return All().Together() })

// Of returns the language of a locale, and the first one for a locale that there is none of.
func Of(locale string) Language { return All().Of(locale) }

// Others returns what is known of languages without a file, as part of the first one, in which they are answered.
var Others = sync.OnceValue(func() Language { return Language{Locale: All()[0].Locale, lines: parsed(files, "others.tsv")} })

// Written returns the locales in which we write to people: a person can have the languages that have a name.
func Written() (locales []string) {
	for _, l := range All() {
		if len(l.Lines("name")) > 0 {
			locales = append(locales, l.Locale)
		}
	}
	return locales
}

// Version returns the name of these files. What was read by them is stored with it. It changes with every change to them.
func Version() string { return index("version")[0] }

// index returns the values of a key in index.tsv.
func index(key string) []string { return parsed(files, "index.tsv")[key] }

// Read reads the files of some languages. They are part of the program, and a test reads them: what is wrong there panics.
func Read(from fs.FS, locales []string) (all Set) {
	for _, locale := range locales {
		all = append(all, Language{Locale: locale, lines: parsed(from, locale+".tsv")})
	}
	return all
}

// parsed returns the values of a file of keys and values, by their key.
func parsed(from fs.FS, name string) map[string][]string {
	content, err := fs.ReadFile(from, name)
	if err != nil {
		panic(err)
	}
	values := map[string][]string{}
	for line := range strings.Lines(string(content)) {
		if key, value, found := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); found {
			values[key] = append(values[key], value)
		}
	}
	return values
}

// Together returns the lines of all languages as if they were one.
func (s Set) Together() Language {
	all := Language{lines: map[string][]string{}}
	for _, l := range s {
		for key, lines := range l.lines {
			all.lines[key] = append(all.lines[key], lines...)
		}
	}
	return all
}

// Of returns the language of a locale, and the first one for a locale that there is none of.
func (s Set) Of(locale string) Language {
	return s[max(0, slices.IndexFunc(s, func(l Language) bool { return l.Locale == locale }))]
}

// Closest returns the language that a locale has in common with one of the set: pt-BR for pt-PT.
func (s Set) Closest(locale string) (closest Language, found bool) {
	for _, l := range s {
		if strings.EqualFold(Base(l.Locale), Base(locale)) {
			return l, true
		}
	}
	return Language{}, false
}

// Base returns the language of a locale: pt of pt-BR.
func Base(locale string) string {
	base, _, _ := strings.Cut(locale, "-")
	return base
}

// Alternatives returns a pattern of what any language has under a key, each with its own parts.
func (s Set) Alternatives(key string) string {
	var all []string
	for _, l := range s {
		if len(l.lines[key]) > 0 {
			all = append(all, l.filled("{"+key+"}", 0))
		}
	}
	return `(?:` + strings.Join(all, "|") + `)`
}

// Keys returns the keys that begin so, in their order.
func (l Language) Keys(prefix string) (keys []string) {
	for key := range l.lines {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Lines returns what a language has under a key.
func (l Language) Lines(key string) []string { return l.lines[key] }

// Has reports whether a language has a line under a key.
func (l Language) Has(key, line string) bool { return slices.Contains(l.lines[key], line) }

// Text returns the one line that a language has under a key.
func (l Language) Text(key string) string { return strings.Join(l.lines[key], " ") }

// nothing is a pattern that no text matches.
const nothing = `[^\x00-\x{10FFFF}]`

var reference = regexp.MustCompile(`\{[a-z][a-z-]*\}`)

// deepest bounds how deep parts may lie within parts.
const deepest = 8

func (l Language) filled(pattern string, depth int) string {
	if depth > deepest {
		panic("languages: a part within itself in " + l.Locale) // the first text that is read finds it
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
			if l.Has("tell", word) {
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
