// Package studio turns a flow definition of Twilio Studio into the files of a flow, and lists what cannot be carried over.
package studio

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// The bounds of a definition. Studio itself takes 1,000 widgets; a flow has at most 500 steps.
const (
	MaxBytes   = 4 << 20
	maxWidgets = 1000
)

// ErrDefinition is wrapped by every error about a file that is no definition of a flow.
var ErrDefinition = errors.New("not a flow definition of Twilio Studio")

// definition is the part of a flow definition that is read.
type definition struct {
	Description string    `json:"description"`
	Initial     string    `json:"initial_state"`
	States      []*widget `json:"states"`
}

// widget is one state of a definition.
type widget struct {
	Name        string       `json:"name"`
	Type        string       `json:"type"`
	Transitions []transition `json:"transitions"`
	Properties  properties   `json:"properties"`
}

// transition leads to another widget. One without a next ends the flow.
type transition struct {
	Event      string      `json:"event"`
	Next       string      `json:"next"`
	Conditions []condition `json:"conditions"`
}

// condition is one comparison of a split.
type condition struct {
	Type      string   `json:"type"`
	Arguments []string `json:"arguments"`
	Value     text     `json:"value"`
}

// properties has those of every kind of widget that are read.
type properties struct {
	Body      text       `json:"body"`
	Timeout   text       `json:"timeout"`
	Input     text       `json:"input"`
	URL       text       `json:"url"`
	Variables []variable `json:"variables"`
	MediaURL  text       `json:"media_url"`
}

type variable struct {
	Key   text `json:"key"`
	Value text `json:"value"`
}

// text is a string that some editors write as a number or as a truth value.
type text string

// UnmarshalJSON takes every scalar as it is written.
func (t *text) UnmarshalJSON(source []byte) error {
	switch {
	case bytes.Equal(source, []byte("null")):
		return nil
	case source[0] == '"':
		return json.Unmarshal(source, (*string)(t))
	case source[0] == '{', source[0] == '[':
		return fmt.Errorf("%.40s is no text", source)
	}
	*t = text(source)
	return nil
}

// read reads a definition: the object itself, or one that has it under definition, as Twilio's API answers.
func read(source []byte) (definition, error) {
	if len(source) > MaxBytes {
		return definition{}, fmt.Errorf("%w: it has more than %d bytes", ErrDefinition, MaxBytes)
	}
	if !utf8.Valid(source) {
		return definition{}, fmt.Errorf("%w: it is not in UTF-8", ErrDefinition)
	}
	var file struct {
		definition

		Wrapped *definition `json:"definition"`
	}
	if err := json.Unmarshal(source, &file); err != nil {
		return definition{}, fmt.Errorf("%w: %s", ErrDefinition, explain(source, err))
	}
	d := file.definition
	if len(d.States) == 0 && file.Wrapped != nil {
		d = *file.Wrapped
	}
	return d, d.check()
}

// explain says where JSON is wrong.
func explain(source []byte, err error) string {
	line := func(offset int64) int {
		return 1 + bytes.Count(source[:min(max(offset, 0), int64(len(source)))], []byte("\n"))
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Sprintf("line %d: %s", line(syntax.Offset), syntax)
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		where := cmp.Or(strings.TrimPrefix(wrong.Field, "definition."), "the file")
		return fmt.Sprintf("line %d: %s must be another kind of value than %s", line(wrong.Offset), where, wrong.Value)
	}
	return err.Error()
}

// check refuses what has no widgets, or leads nowhere.
func (d definition) check() error {
	if len(d.States) == 0 {
		return fmt.Errorf("%w: it has no states; export it in Studio with Show Flow JSON", ErrDefinition)
	}
	if len(d.States) > maxWidgets {
		return fmt.Errorf("%w: it has %d states, more than Studio allows", ErrDefinition, len(d.States))
	}
	known := map[string]bool{}
	for i, w := range d.States {
		switch {
		case w == nil || w.Name == "" || w.Type == "":
			return fmt.Errorf("%w: state %d has no name or no type", ErrDefinition, i+1)
		case known[w.Name]:
			return fmt.Errorf("%w: two states are called %q", ErrDefinition, w.Name)
		}
		known[w.Name] = true
	}
	for _, w := range d.States {
		for _, t := range w.Transitions {
			if t.Next != "" && !known[t.Next] {
				return fmt.Errorf("%w: %q leads to %q, which is no state", ErrDefinition, w.Name, t.Next)
			}
		}
	}
	if d.Initial != "" && !known[d.Initial] {
		return fmt.Errorf("%w: initial_state %q is no state", ErrDefinition, d.Initial)
	}
	return nil
}

// next returns the widget that follows an event; the first of several events that leads anywhere.
func (w *widget) next(events ...string) string {
	for _, event := range events {
		for _, t := range w.Transitions {
			if t.Event == event && t.Next != "" {
				return t.Next
			}
		}
	}
	return ""
}

// anywhere returns the first widget that follows.
func (w *widget) anywhere() string {
	for _, t := range w.Transitions {
		if t.Next != "" {
			return t.Next
		}
	}
	return ""
}

// matches lists the transitions of a split that have conditions.
func (w *widget) matches() (all []transition) {
	for _, t := range w.Transitions {
		if len(t.Conditions) > 0 {
			all = append(all, t)
		}
	}
	return all
}

// tested returns the expression that a condition of a split compares.
func (w *widget) tested(c condition) string {
	if len(c.Arguments) > 0 && strings.TrimSpace(c.Arguments[0]) != "" {
		return c.Arguments[0]
	}
	return string(w.Properties.Input)
}
