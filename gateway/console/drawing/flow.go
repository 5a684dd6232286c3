// Package drawing makes the pictures of the console: a flow with its ways, and bars over time. It reads files and numbers, and knows
// nothing of pages, readers or RPCs.
package drawing

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Flow is a flow as a page shows it, read from its files. Onboarding has checked them; here they are only shown.
type Flow struct {
	Start string
	Langs []string
	Steps []Step
	Gone  []string // steps that only the version before has
}

// Step is a step of a flow.
type Step struct {
	ID, Kind string
	What     string // the key of its text, or what it calls, starts, or ends with
	Copies   []Copy
	Ways     []Way
	Change   string // new or changed, in a comparison
	source   string
}

// Texts returns the texts of the step itself, by language.
func (s Step) Texts() map[string]string {
	for _, c := range s.Copies {
		if c.When == "" {
			return c.Texts
		}
	}
	return nil
}

// Copy is a text that a step may send.
type Copy struct {
	When   string            // what it answers: negative, unclear, or silence with its time; empty for the text of the step itself
	Texts  map[string]string // by language
	Before map[string]string // those of the version that this one is compared with, where they differ
	key    string
}

// Way is one way to go on.
type Way struct{ When, To string }

// stepKinds are the keys of which a step has one.
var stepKinds = []string{"ask", "send", "if", "call", "start", "hand_over", "end"}

// ErrUnreadable refuses files that cannot be shown.
var ErrUnreadable = errors.New("the files of this flow cannot be shown")

// Read reads the files of a flow.
func Read(files map[string]string) (f Flow, err error) {
	var doc struct {
		Start     string    `yaml:"start"`
		Languages []string  `yaml:"languages"`
		Steps     yaml.Node `yaml:"steps"`
	}
	if yaml.Unmarshal([]byte(files["flow.yaml"]), &doc) != nil || doc.Steps.Kind != yaml.MappingNode {
		return f, ErrUnreadable
	}
	f.Start, f.Langs = doc.Start, doc.Languages
	texts := map[string]map[string]string{}
	for _, lang := range doc.Languages {
		var file struct {
			Texts map[string]string `yaml:"texts"`
		}
		if yaml.Unmarshal([]byte(files[lang+".yaml"]), &file) != nil {
			return f, ErrUnreadable
		}
		texts[lang] = file.Texts
	}
	for i := 0; i+1 < len(doc.Steps.Content); i += 2 {
		var fields map[string]any
		if doc.Steps.Content[i+1].Decode(&fields) != nil {
			return f, ErrUnreadable
		}
		step := readStep(doc.Steps.Content[i].Value, fields)
		source, err := yaml.Marshal(fields)
		if err != nil {
			return f, ErrUnreadable
		}
		step.source = string(source)
		for i := range step.Copies {
			for lang, of := range texts {
				if text := of[step.Copies[i].key]; text != "" {
					step.Copies[i].Texts[lang] = text
				}
			}
		}
		f.Steps = append(f.Steps, step)
	}
	return f, nil
}

func readStep(id string, fields map[string]any) Step {
	s := Step{ID: id}
	for _, kind := range stepKinds {
		if what, ok := fields[kind]; ok {
			s.Kind, s.What = kind, text(what)
		}
	}
	says := func(when, key string) {
		if key != "" {
			s.Copies = append(s.Copies, Copy{When: when, key: key, Texts: map[string]string{}, Before: map[string]string{}})
		}
	}
	if s.Kind == "ask" || s.Kind == "send" {
		says("", s.What)
	}
	add := func(when string, to any) {
		if to := text(to); to != "" {
			s.Ways = append(s.Ways, Way{when, to})
		}
	}
	switch then := fields["then"].(type) {
	case map[string]any:
		for _, answer := range slices.SortedFunc(maps.Keys(then), func(a, b string) int {
			return cmp.Or(cmp.Compare(fromElse(a), fromElse(b)), strings.Compare(a, b))
		}) {
			add(answer, then[answer])
		}
	default:
		add("", then)
	}
	add("else", fields["else"])
	add("failed", fields["failed"])
	for _, name := range []string{"negative", "unclear", "silence"} {
		if inner, ok := fields[name].(map[string]any); ok {
			when := name
			if after := text(inner["after"]); name == "silence" && after != "" {
				when += " " + after
			}
			says(when, text(inner["send"]))
			add(when, inner["then"])
			add(when, inner["wait_at"])
		}
	}
	return s
}

// fromElse sorts "else" behind the answers.
func fromElse(answer string) int {
	if answer == "else" {
		return 1
	}
	return 0
}

// text is a scalar of YAML; empty for another value.
func text(value any) string {
	switch value := value.(type) {
	case string:
		return value
	case bool: // yes and no, unquoted
		return map[bool]string{true: "yes", false: "no"}[value]
	}
	return ""
}
