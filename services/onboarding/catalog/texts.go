package catalog

import (
	"maps"
	"slices"

	"paceline.internal/platform/letters"
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
				texts = append(texts, Text{Key: key, Locale: locale, Text: text, Segments: letters.Segments(fill(locale, text, name, params))})
			}
		}
	}
	return texts
}
