package studio

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"paceline.internal/platform/letters"
	"paceline.internal/services/onboarding/flow"
)

// Left is a part of a widget that is not carried over, or is carried over in another form.
type Left struct{ Widget, Type, Text string }

// String returns one line.
func (l Left) String() string { return fmt.Sprintf("%s (%s): %s", l.Widget, l.Type, l.Text) }

// Imported is a definition as a flow.
type Imported struct {
	Files map[string]string // flow.yaml and one file of texts
	Left  []Left
}

// done is the step of the end; every path of a definition that leads nowhere leads to it.
const done = "done"

// step is one entry of flow.yaml, with its keys in their order.
type step struct {
	id  string
	doc *yaml.Node
}

// converter turns the widgets into steps, from the first on.
type converter struct {
	widgets  map[string]*widget
	steps    []step
	texts    []pair
	choices  []pair
	ids      map[string]string // the step of a widget
	fields   map[string]string // the field of an answer, by its expression in small letters
	names    names             // of steps
	words    names             // of fields
	keys     map[string]string // the key of a text, by its words
	parts    map[string]string // the part of a call's answer that is kept
	left     []Left
	queue    []string
	asked    map[string]int // how many splits test the answer to a widget
	merged   map[string]bool
	language string
}

type pair struct {
	key   string
	value any
}

// Import turns a definition into the files of a flow with a name and with texts in a language. It fails for a file that is no
// definition; whether the flow is in order is for flow.Parse to say.
func Import(source []byte, name, language string) (Imported, error) {
	d, err := read(source)
	if err != nil {
		return Imported{}, err
	}
	c := &converter{
		widgets: map[string]*widget{}, ids: map[string]string{}, fields: map[string]string{}, names: names{done: true}, words: names{},
		keys: map[string]string{}, parts: map[string]string{}, asked: map[string]int{}, merged: map[string]bool{}, language: language,
	}
	for _, w := range d.States {
		c.widgets[w.Name] = w
	}
	c.readFields(d.States)
	start := c.convert(d)
	out := Imported{Files: map[string]string{}, Left: c.left}
	if out.Files[flow.File], err = c.flowYAML(name, start, c.segments()); err != nil {
		return Imported{}, err
	}
	out.Files[language+".yaml"], err = c.textsYAML()
	return out, err
}

// readFields gives each answer of a person, each variable that repeats one, and each answer of a call a field.
func (c *converter) readFields(states []*widget) {
	for _, w := range states {
		switch w.Type {
		case sendAndWait:
			field := c.words.take(w.Name, 40)
			for _, of := range []string{".inbound.body", ".inbound_message.body", ".inbound"} {
				c.fields["widgets."+strings.ToLower(w.Name)+of] = field
			}
		case httpRequest, runFunction:
			c.fields["widgets."+strings.ToLower(w.Name)] = c.words.take(w.Name, 40)
		case split:
			tested := map[string]bool{}
			for _, t := range w.matches() {
				for _, condition := range t.Conditions {
					tested[expression(w.tested(condition))] = true
				}
			}
			for of := range tested {
				c.asked[c.asks(of)]++
			}
		}
	}
	for range 2 { // a variable may repeat another
		for _, w := range states {
			for _, v := range w.Properties.Variables {
				if field, ok := c.field(string(v.Value)); ok && w.Type == setVariables {
					key := strings.ToLower(string(v.Key))
					c.fields["flow.variables."+key], c.fields["widgets."+strings.ToLower(w.Name)+"."+key] = field, field
				}
			}
		}
	}
}

// convert walks through the definition, and returns the first step.
func (c *converter) convert(d definition) string {
	first := c.trigger(d)
	start := c.lead(first)
	for len(c.queue) > 0 {
		w := c.widgets[c.queue[0]]
		c.queue = c.queue[1:]
		c.widget(w)
	}
	c.add(done, pair{"end", "completed"})
	for _, w := range d.States {
		if c.ids[w.Name] == "" && w.Type != trigger && !c.merged[w.Name] {
			c.leave(w, "nothing leads here by text; it is left out")
		}
	}
	return start
}

// trigger returns the widget that follows the trigger of a conversation by text.
func (c *converter) trigger(d definition) string {
	w := c.widgets[d.Initial]
	if w == nil {
		i := slices.IndexFunc(d.States, func(w *widget) bool { return w.Type == trigger })
		if i < 0 {
			return d.States[0].Name
		}
		w = d.States[i]
	}
	if w.Type != trigger {
		return w.Name
	}
	first := w.next("incomingRequest", "incomingMessage", "incomingConversationMessage", "incomingParent")
	for _, t := range w.Transitions {
		switch {
		case t.Next == "" || t.Next == first:
		case t.Event == "incomingCall":
			c.leave(w, "calls are not carried over; "+t.Next+" follows one")
		default:
			c.leave(w, fmt.Sprintf("a flow has one beginning; %s leads to %s, which is not used for that", t.Event, t.Next))
		}
	}
	if w.next("incomingMessage") != "" {
		c.leave(w, "a text of a person begins the flow only by a keyword; add entry: {keywords: [...]} to "+flow.File)
	}
	return first
}

// lead returns the step of a widget, and has it converted. Widgets that are not carried over lead to the next one.
func (c *converter) lead(name string) string {
	for range len(c.widgets) + 1 {
		w := c.widgets[name]
		if w == nil {
			return done
		}
		if id := c.ids[name]; id != "" {
			return id
		}
		if carried(w) {
			c.ids[name] = c.names.take(w.Name, 60)
			c.queue = append(c.queue, name)
			return c.ids[name]
		}
		if !c.merged[name] {
			c.merged[name] = true
			c.skip(w)
		}
		name = passes(w)
	}
	return done
}

func (c *converter) leave(w *widget, text string) {
	c.left = append(c.left, Left{w.Name, w.Type, text})
}

// add writes a step with its keys in their order.
func (c *converter) add(id string, keys ...pair) {
	c.steps = append(c.steps, step{id, mapping(keys...)})
}

// mapping is a YAML mapping in the order of its keys. A key without a value is left out.
func mapping(pairs ...pair) *yaml.Node {
	node := &yaml.Node{Kind: yaml.MappingNode}
	for _, p := range pairs {
		value, ok := p.value.(*yaml.Node)
		if !ok {
			if p.value == nil || p.value == "" || p.value == 0 {
				continue
			}
			value = &yaml.Node{}
			_ = value.Encode(p.value) // scalars and lists of texts can be encoded
		}
		key := &yaml.Node{}
		_ = key.Encode(p.key)
		node.Content = append(node.Content, key, value)
	}
	return node
}

// flowYAML writes flow.yaml.
func (c *converter) flowYAML(name, start string, segments int) (string, error) {
	var steps []pair
	for _, s := range c.steps {
		steps = append(steps, pair{s.id, s.doc})
	}
	return written(mapping(
		pair{"flow", name}, pair{"languages", list(c.language)}, pair{"segments", segments}, pair{"start", start},
		pair{"steps", mapping(steps...)},
	))
}

// list is a YAML list on one line.
func list(values ...string) *yaml.Node {
	node := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	for _, value := range values {
		node.Content = append(node.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value})
	}
	return node
}

func (c *converter) textsYAML() (string, error) {
	all := []pair{{"texts", mapping(c.texts...)}}
	if len(c.choices) > 0 {
		all = append(all, pair{"choices", mapping(c.choices...)})
	}
	return written(mapping(all...))
}

func written(doc *yaml.Node) (string, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(doc); err != nil {
		return "", fmt.Errorf("write the flow: %w", err)
	}
	return out.String(), encoder.Close()
}

// mostSegments is the most that a flow may allow a text.
const mostSegments = 10

// segments returns how many segments the longest text takes, if that is more than a flow allows by itself; else 0.
func (c *converter) segments() int {
	most := 0
	for _, p := range c.texts {
		if body, ok := p.value.(string); ok {
			most = max(most, letters.Segments(placeholder.ReplaceAllString(letters.Plain(body), strings.Repeat("ã", shown))))
		}
	}
	if most <= allowed {
		return 0
	}
	return min(most, mostSegments)
}

// allowed counts the segments that a text may take without a word of the flow, and shown the characters of a value in a text.
const allowed, shown = 2, 60

// timeout returns how long a widget waits for a reply.
func (w *widget) timeout() time.Duration {
	seconds, err := strconv.ParseFloat(string(w.Properties.Timeout), 64)
	if err != nil || !(seconds >= 1) { // none, or no number
		return usualTimeout
	}
	return time.Duration(min(seconds, flow.MaxAfter.Seconds())) * time.Second
}

// usualTimeout is Studio's where a widget says nothing.
const usualTimeout = time.Hour
