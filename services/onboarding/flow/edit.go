package flow

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"paceline.internal/platform/letters"
)

// Written is one text of a flow in one language, as its file has it.
type Written struct{ Language, Key, Step, Text string }

// Written lists the texts, by language and then in the order of the steps.
func (f *Flow) Written() (all []Written) {
	for _, language := range f.Languages {
		listed := map[string]bool{}
		for _, id := range f.Order {
			for _, key := range f.Steps[id].sends() {
				if !listed[key] {
					listed[key] = true
					all = append(all, Written{language, key, id, f.texts[language].Texts[key]})
				}
			}
		}
	}
	return all
}

// Measured is a text as it would be sent.
type Measured struct {
	Shown            string // to a person of whom nothing is known
	Segments, Widest int    // of that, and with the longest values in it
	Problems         []string
}

// Measure returns a text as it would be sent in a language of the flow.
func (f *Flow) Measure(language, text string) Measured {
	shown := placeholder.ReplaceAllString(text, "$2")
	m := Measured{Shown: shown, Segments: letters.Segments(shown), Widest: letters.Segments(f.widest(language, text))}
	if text == "" {
		m.Problems = []string{"is empty"}
		return m
	}
	m.Problems = append(f.textProblems(language, text), f.senseProblems(text)...)
	return m
}

// Typed returns a text as a file of the flow would keep it.
func Typed(text string) string { return letters.Plain(letters.Compose(text)) }

// WithTexts returns a file of texts with other texts for some of its keys. Comments and everything else stay.
func WithTexts(file string, texts map[string]string) (string, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(file), &doc); err != nil || len(doc.Content) != 1 {
		return "", fmt.Errorf("%w: a file of texts cannot be read: %w", ErrUnreadable, err)
	}
	have := child(doc.Content[0], "texts")
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		node := child(have, key)
		if node == nil {
			return "", fmt.Errorf("%w: a file of texts has no %s", ErrUnreadable, key)
		}
		node.Kind, node.Tag, node.Style, node.Value = yaml.ScalarNode, "!!str", yaml.DoubleQuotedStyle, texts[key]
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(&doc); err != nil {
		return "", fmt.Errorf("write a file of texts: %w", err)
	}
	return out.String(), encoder.Close()
}
