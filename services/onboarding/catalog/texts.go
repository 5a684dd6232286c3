package catalog

import (
	"maps"
	"slices"
	"unicode/utf16"
)

// Text is one text in one language, as it is written.
type Text struct {
	Key, Locale, Text string
	Segments          int // at most: with the widest name and parameters
}

// Texts lists the texts of a version, by key and language.
func (c Catalog) Texts(version string) []Text { return c.editions[version].list() }

// Texts lists the texts, by key and language.
func (e Engagement) Texts() []Text { return e.texts.list() }

func (e edition) list() (texts []Text) {
	for _, key := range slices.Sorted(maps.Keys(e[fallback])) {
		name, params := Widest(key)
		for _, locale := range slices.Sorted(maps.Keys(e)) {
			if text, found := e[locale][key]; found {
				texts = append(texts, Text{Key: key, Locale: locale, Text: text, Segments: segments(fill(text, name, params))})
			}
		}
	}
	return texts
}

// segments counts the segments of a text, by the alphabet that lint holds it to; a test compares it with what messaging counts.
func segments(text string) (count int) {
	single, multi := 160, 153
	width := func(rune) int { return 1 }
	if slices.ContainsFunc([]rune(text), outsideGSM7) {
		single, multi, width = 70, 67, utf16.RuneLen
	}
	total, used := 0, multi // as if a full segment came before the first
	for _, r := range text {
		if used+width(r) > multi {
			count, used = count+1, 0
		}
		total, used = total+width(r), used+width(r)
	}
	if total > 0 && total <= single {
		return 1
	}
	return count
}
