package studio

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"paceline.internal/services/onboarding/flow"
)

// The kinds of widgets that are known here.
const (
	trigger      = "trigger"
	sendMessage  = "send-message"
	sendAndWait  = "send-and-wait-for-reply"
	split        = "split-based-on"
	setVariables = "set-variables"
	httpRequest  = "make-http-request"
	runFunction  = "run-function"
	sendToFlex   = "send-to-flex"
	runSubflow   = "run-subflow"
	redirect     = "add-twiml-redirect"
)

// carried reports whether a widget becomes a step.
func carried(w *widget) bool {
	switch w.Type {
	case sendMessage, sendAndWait, sendToFlex:
		return true
	case split:
		return len(w.matches()) > 0
	case httpRequest, runFunction:
		return callable(string(w.Properties.URL))
	}
	return false
}

// callable reports whether a flow may call an address.
func callable(address string) bool {
	if len(address) > maxURL || strings.Contains(address, "{{") || strings.Contains(address, "{%") {
		return false
	}
	parsed, err := url.Parse(address)
	return err == nil && parsed.Scheme == "https" && parsed.Host != "" && parsed.User == nil && strings.HasPrefix(address, "https://")
}

// query lists the keys of the query of an address: their values may be secrets.
func query(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return strings.Join(slices.Sorted(maps.Keys(parsed.Query())), ", ")
}

const maxURL = 2000

// passes returns the widget that follows one that is not carried over.
func passes(w *widget) string {
	if next := w.next("next", "success", "completed", "return", "noMatch", "sent"); next != "" {
		return next
	}
	return w.anywhere()
}

// skip lists why a widget is not carried over.
func (c *converter) skip(w *widget) {
	after := "the flow goes on with " + passes(w)
	if passes(w) == "" {
		after = "the flow ends there"
	}
	switch w.Type {
	case setVariables:
		c.skipVariables(w)
	case split:
		c.leave(w, "it has no condition; "+after)
	case httpRequest, runFunction:
		c.leave(w, "a flow calls a fixed address that begins with https://; "+after)
	case runSubflow:
		c.leave(w, "another flow is started only at the end, with start: NAME; "+after)
	case redirect:
		c.leave(w, "TwiML is not carried over; "+after)
	case trigger:
	default:
		c.leave(w, "there is no step for it; "+after)
	}
}

// skipVariables lists the variables that repeat no answer: a flow keeps answers, and computes nothing.
func (c *converter) skipVariables(w *widget) {
	for _, v := range w.Properties.Variables {
		if _, repeats := c.field(string(v.Value)); !repeats {
			c.leave(w, fmt.Sprintf("the variable %s is not set: a flow keeps the answers of a person and of a call, and computes nothing", v.Key))
		}
	}
}

// widget turns a widget into steps.
func (c *converter) widget(w *widget) {
	id := c.ids[w.Name]
	switch w.Type {
	case sendMessage:
		if failed := w.next("failed"); failed != "" && failed != w.next("sent") {
			c.leave(w, "what follows a failure ("+failed+"): Paceline itself settles a text that fails")
		}
		c.add(id, pair{"send", c.text(w)}, pair{"then", c.lead(w.next("sent"))})
	case sendAndWait:
		c.question(id, w)
	case split:
		c.split(id, w)
	case httpRequest, runFunction:
		c.leave(w, `the call has Paceline's form, a signed POST: let the host answer {"field": ..., "branch": ""}; `+
			"method, headers and body are not carried over")
		if keys := query(string(w.Properties.URL)); keys != "" {
			c.leave(w, "the address has a query ("+keys+"), which stands in flow.yaml with its values: let no secret be in it")
		}
		c.add(id, pair{"call", string(w.Properties.URL)}, pair{"save", c.fields["widgets."+strings.ToLower(w.Name)]},
			pair{"failed", c.lead(w.next("failed", "fail"))}, pair{"then", c.lead(w.next("success"))})
	case sendToFlex:
		c.add(id, pair{"hand_over", "flex"}, pair{"then", c.lead(w.next("callComplete"))})
	}
}

// question turns a question into a step that reads the answer: as one of the choices of the split behind it where that asks again for
// any other, else as any text.
func (c *converter) question(id string, w *widget) {
	if failed := w.next("deliveryFailure"); failed != "" {
		c.leave(w, "what follows a failed delivery ("+failed+"): Paceline itself settles a text that fails")
	}
	field := c.fields["widgets."+strings.ToLower(w.Name)+".inbound.body"]
	keys := []pair{{"ask", c.text(w)}}
	if options, ok := c.choice(w); ok {
		keys = append(keys, options...)
		keys = slices.Insert(keys, 2, pair{"save", field})
	} else {
		keys = append(keys, pair{"expect", "reply"}, pair{"save", field}, pair{"then", c.lead(w.next("incomingMessage"))})
	}
	c.add(id, append(keys, pair{"silence", c.silence(w)})...)
}

// silence returns what follows no reply.
func (c *converter) silence(w *widget) *yaml.Node {
	after := pair{"after", w.timeout().String()}
	next := c.widgets[w.next("timeout")]
	again := next != nil && next.Type == sendMessage && next.next("sent") == w.Name
	if next != w && !again {
		return mapping(after, pair{"then", c.lead(w.next("timeout"))})
	}
	c.leave(w, "it waits again without end; here it is sent once more, and then the flow ends")
	c.merge(next, w)
	return mapping(after, pair{"send", c.text(next)}, pair{"times", 1}, pair{"then", done})
}

// merge notes that a widget is a part of another's step.
func (c *converter) merge(part, whole *widget) {
	if part != whole {
		c.merged[part.Name] = true
	}
}

// option is one choice of a question.
type option struct {
	name, next string
	words      []string
}

// choice returns the keys of a question with choices, if the split behind it reads nothing else, and asks again for every other answer.
func (c *converter) choice(w *widget) ([]pair, bool) {
	s := c.widgets[w.next("incomingMessage")]
	if s == nil || s.Type != split || c.ids[s.Name] != "" || c.asked[w.Name] != 1 {
		return nil, false
	}
	again := c.widgets[s.next("noMatch")]
	if again == nil || again != w && (again.Type != sendMessage || again.next("sent") != w.Name) {
		return nil, false
	}
	options, ok := c.options(w, s)
	if !ok {
		return nil, false
	}
	c.merged[s.Name] = true
	c.merge(again, w)
	c.leave(s, "it asks again without end; here it asks twice more, and then the flow ends")
	var named []string
	var then []pair
	for _, o := range options {
		named = append(named, o.name)
		then = append(then, pair{o.name, c.lead(o.next)})
		c.word(o)
	}
	return []pair{
		{"expect", mapping(pair{"choice", list(named...)})},
		{"unclear", mapping(pair{"send", c.text(again)}, pair{"times", 2}, pair{"then", done})},
		{"then", mapping(then...)},
	}, true
}

// options reads the choices of a split. It reports false for a split that compares otherwise than with words and their numbers.
func (c *converter) options(w, s *widget) (all []option, ok bool) {
	taken := names{"else": true}
	for _, t := range s.matches() {
		if len(t.Conditions) != 1 || c.asks(expression(s.tested(t.Conditions[0]))) != w.Name {
			return nil, false
		}
		o := option{next: t.Next}
		values := []string{string(t.Conditions[0].Value)}
		switch t.Conditions[0].Type {
		case "matches_any_of":
			values = strings.Split(values[0], ",")
		case "equal_to":
		default:
			return nil, false
		}
		for _, value := range values {
			value = strings.TrimSpace(value)
			n, err := strconv.Atoi(value)
			switch {
			case err == nil && n != len(all)+1: // choices are numbered from 1
				return nil, false
			case flow.IsConsent(value):
				c.leave(s, value+" is answered before any flow, and chooses nothing")
			case err != nil && value != "":
				o.words = append(o.words, value)
			}
		}
		o.name = "option_" + strconv.Itoa(len(all)+1)
		if len(o.words) > 0 {
			o.name = taken.take(o.words[0], maxField)
		}
		all = append(all, o)
	}
	return all, len(all) >= leastChoices && len(all) <= mostChoices
}

// The bounds of a flow.
const (
	maxField                  = 40
	leastChoices, mostChoices = 2, 20
)

// word writes the words of a choice that differ from its name.
func (c *converter) word(o option) {
	if len(o.words) == 0 {
		return
	}
	if i := slices.IndexFunc(c.choices, func(p pair) bool { return p.key == o.name }); i >= 0 {
		before, _ := c.choices[i].value.([]string) // only lists of words are written here
		for _, word := range o.words {
			if !slices.ContainsFunc(before, func(known string) bool { return strings.EqualFold(known, word) }) {
				before = append(before, word)
			}
		}
		c.choices[i].value = before
		return
	}
	c.choices = append(c.choices, pair{o.name, o.words})
}
