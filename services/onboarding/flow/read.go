package flow

import (
	"bytes"
	_ "embed" // the schema
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

//go:embed flow.schema.json
var schemaJSON []byte

// Schema returns the JSON Schema of flow.yaml.
func Schema() []byte { return bytes.Clone(schemaJSON) }

const schemaURL = "https://paceline.dev/schemas/flow.json"

// schemas holds the schema of the whole file under "", and that of each kind of step.
var schemas = sync.OnceValue(func() map[Kind]*jsonschema.Schema {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemaJSON))
	if err != nil {
		panic(err) // the file is part of the program, and a test reads it
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(schemaURL, doc); err != nil {
		panic(err)
	}
	all := map[Kind]*jsonschema.Schema{"": compiler.MustCompile(schemaURL)}
	for _, kind := range Kinds() {
		all[kind] = compiler.MustCompile(schemaURL + "#/$defs/" + string(kind))
	}
	return all
})

// read fills the flow from the document of flow.yaml.
func (f *Flow) read(doc *yaml.Node, found *Problems) {
	steps := child(doc, "steps")
	if !conform(schemas()[""], withoutSteps(doc), "", doc, found) {
		return
	}
	var wire struct {
		Flow      string
		Languages []string
		Start     string
		Segments  *int
		Unknown   string `yaml:"unknown_sends"`
		Entry     struct{ Keywords []string }
		Fields    map[string]yaml.Node
	}
	if err := doc.Decode(&wire); err != nil {
		found.addf(File, 0, "%s", err)
		return
	}
	f.lines = map[string]int{}
	for i := 0; i < len(doc.Content); i += 2 {
		f.lines[doc.Content[i].Value] = doc.Content[i].Line
	}
	f.Name, f.Languages, f.Start, f.Keywords = wire.Flow, wire.Languages, wire.Start, wire.Entry.Keywords
	if wire.Segments != nil {
		f.Segments = *wire.Segments
	}
	if wire.Unknown != "" {
		f.UnknownSends = wire.Unknown
	}
	for name, node := range wire.Fields {
		var field Field
		if node.Kind == yaml.ScalarNode {
			field.Type = Type(node.Value)
		} else if err := node.Decode(&field); err != nil {
			found.addf(File, node.Line, "%s", err)
		}
		if field.Limit > 0 && field.Type != Text {
			found.addf(File, node.Line, "fields: %s is no text, and has no limit", name)
		}
		if name == FirstName {
			found.addf(File, keyLine(child(doc, "fields"), name), "fields: %s is the person's name, and no field", name)
		}
		f.Fields[name] = field
	}
	for i := 0; i < len(steps.Content); i += 2 {
		id, node := steps.Content[i].Value, steps.Content[i+1]
		f.ids = append(f.ids, id)
		if step, ok := f.readStep(id, steps.Content[i].Line, node, found); ok {
			f.Steps[id] = step
			f.Order = append(f.Order, id)
		}
	}
}

// wireStep has the keys of every kind of step.
type wireStep struct {
	Send, Ask, If, Call, Start, End string
	HandOver                        string `yaml:"hand_over"`
	State, After, Wait              string
	AfterDelivery                   string `yaml:"after_delivery"`
	Expect, Then                    yaml.Node
	Save, Timeout, Failed, Else     string
	Host                            bool
	Negative                        *struct {
		Send   string
		WaitAt string `yaml:"wait_at"`
		Then   string
		Stay   bool
	}
	Unclear *struct {
		Send, Then string
		Times      int
	}
	Silence *struct {
		After, Send, Then string
		Times             int
	}
}

// readStep reads one step by the schema of its kind.
func (f *Flow) readStep(id string, line int, node *yaml.Node, found *Problems) (Step, bool) {
	kind, ok := kindOf(id, line, node, found)
	if !ok || !conform(schemas()[kind], plain(node), "step "+id, node, found) {
		return Step{}, false
	}
	var wire wireStep
	if err := node.Decode(&wire); err != nil {
		found.addf(File, line, "step %s: %s", id, err)
		return Step{}, false
	}
	s := Step{
		ID: id, Kind: kind, Line: line, State: wire.State, Text: wire.Send + wire.Ask, Scheduled: wire.After != "",
		Waits: kind == Ask || wire.Wait != "", Save: wire.Save, Condition: wire.If, URL: wire.Call, Failed: wire.Failed,
		Name: wire.Start + wire.HandOver + wire.End, Host: wire.Host, Else: wire.Else,
	}
	if s.State == "" {
		s.State = f.Name + ":" + id
	}
	bounded := func(key, text string, limit time.Duration) time.Duration {
		if text == "" {
			return 0
		}
		d, err := duration(text)
		if err != nil || d > limit {
			found.addf(File, at(node, key), "step %s: %s %s must be at most %s", id, key, text, limited(limit))
		}
		return d
	}
	s.After = bounded("after", wire.After, MaxAfter)
	s.AfterDelivery = bounded("after_delivery", wire.AfterDelivery, MaxAfterDelivery)
	s.Timeout = bounded("timeout", wire.Timeout, MaxTimeout)
	if kind == Call && s.Timeout == 0 {
		s.Timeout = defaultTimeout
	}
	s.Expect = readExpect(&wire.Expect)
	if kind == Send && s.Waits {
		s.Expect.Type = Reply
	}
	if n := wire.Negative; n != nil {
		s.Negative = &Negative{Text: n.Send, WaitAt: n.WaitAt, Then: n.Then}
		if n.Stay {
			s.Negative.WaitAt = id
		}
	}
	if u := wire.Unclear; u != nil {
		s.Unclear = &Unclear{Text: u.Send, Times: max(u.Times, 1), Then: u.Then}
	}
	if q := wire.Silence; q != nil {
		s.Silence = &Silence{After: bounded("silence", q.After, MaxAfter), Text: q.Send, Times: max(q.Times, 1), Then: q.Then}
	}
	s.Then, s.Branches = readThen(&wire.Then)
	return s, true
}

// defaultTimeout bounds a call that says nothing of it.
const defaultTimeout = 10 * time.Second

// readThen returns the next step, and those by the answer.
func readThen(node *yaml.Node) (then string, branches map[string]string) {
	if node.Kind != yaml.MappingNode {
		return node.Value, nil
	}
	branches = map[string]string{}
	for i := 0; i < len(node.Content); i += 2 {
		if key, next := node.Content[i].Value, node.Content[i+1].Value; key == "else" {
			then = next
		} else {
			branches[key] = next
		}
	}
	return then, branches
}

// readExpect reads what the schema has let pass.
func readExpect(node *yaml.Node) Expect {
	if node.Kind != yaml.MappingNode {
		return Expect{Type: Type(node.Value)}
	}
	var wire struct {
		Choice []string
		Number *struct {
			Min, Max float64
			Whole    bool
		}
		Text *struct{ Limit int }
	}
	_ = node.Decode(&wire) // the schema has checked the types
	switch {
	case wire.Number != nil:
		return Expect{Type: Number, Min: wire.Number.Min, Max: wire.Number.Max, Whole: wire.Number.Whole}
	case wire.Text != nil:
		return Expect{Type: Text, Limit: wire.Text.Limit}
	default:
		return Expect{Type: Choice, Choices: wire.Choice}
	}
}

// kindOf finds the one key that says what a step does.
func kindOf(id string, line int, node *yaml.Node, found *Problems) (Kind, bool) {
	var has []Kind
	for _, kind := range Kinds() {
		if child(node, string(kind)) != nil {
			has = append(has, kind)
		}
	}
	if len(has) != 1 {
		found.addf(File, line, "step %s must have exactly one of send, ask, if, call, start, hand_over and end; it has %s", id, several(has))
		return "", false
	}
	return has[0], true
}

// several lists kinds in a sentence.
func several(kinds []Kind) string {
	if len(kinds) == 0 {
		return "none"
	}
	names := make([]string, len(kinds))
	for i, kind := range kinds {
		names[i] = string(kind)
	}
	return strings.Join(names, " and ")
}

// locate follows a path of keys and indexes as far as it goes.
func locate(node *yaml.Node, path []string) *yaml.Node {
	for _, name := range path {
		var next *yaml.Node
		switch node.Kind {
		case yaml.MappingNode:
			next = child(node, name)
		case yaml.SequenceNode:
			if i, err := strconv.Atoi(name); err == nil && i < len(node.Content) {
				next = node.Content[i]
			}
		case yaml.DocumentNode, yaml.ScalarNode, yaml.AliasNode: // they have no members
		}
		if next == nil {
			break
		}
		node = next
	}
	return node
}

// child returns the value of a key, or nil.
func child(node *yaml.Node, key string) *yaml.Node {
	if node == nil || node.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i < len(node.Content); i += 2 {
		if node.Content[i].Value == key {
			return node.Content[i+1]
		}
	}
	return nil
}

// at returns the line of a key, or that of the node.
func at(node *yaml.Node, key string) int {
	if value := child(node, key); value != nil {
		return value.Line
	}
	return node.Line
}

// plain turns a node into what the schema reads.
func plain(node *yaml.Node) any {
	switch node.Kind {
	case yaml.MappingNode:
		object := make(map[string]any, len(node.Content)/2)
		for i := 0; i < len(node.Content); i += 2 {
			object[node.Content[i].Value] = plain(node.Content[i+1])
		}
		return object
	case yaml.SequenceNode:
		list := make([]any, len(node.Content))
		for i, item := range node.Content {
			list[i] = plain(item)
		}
		return list
	default:
		var value any
		if node.Decode(&value) != nil {
			return node.Value
		}
		switch typed := value.(type) {
		case int:
			return float64(typed)
		case float64, bool, string, nil:
			return typed
		default:
			return fmt.Sprint(typed) // a date is written without quotation marks
		}
	}
}

// withoutSteps is the document with a stand-in for each step: the steps are held to the schemas of their kinds, which say more clearly what
// is wrong.
func withoutSteps(doc *yaml.Node) any {
	object, ok := plain(doc).(map[string]any)
	if !ok {
		return nil
	}
	if steps, ok := object["steps"].(map[string]any); ok {
		for id := range steps {
			steps[id] = map[string]any{"end": "stand_in"}
		}
	}
	return object
}

// holds reports whether the flow has a step.
func (f *Flow) holds(id string) bool { return slices.Contains(f.Order, id) }
