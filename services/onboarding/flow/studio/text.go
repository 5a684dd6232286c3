package studio

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// liquid is one expression of Studio in a text.
var liquid = regexp.MustCompile(`(?s)\{\{-?(.*?)-?\}\}|\{%.*?%\}`)

// placeholder is a placeholder of a flow.
var placeholder = regexp.MustCompile(`\{[a-z_][a-z0-9_]*\|[^{}|]*\}`)

// expression returns the variable of an expression in small letters, without braces and filters.
func expression(source string) string {
	source = strings.TrimSpace(source)
	source = strings.TrimSuffix(strings.TrimPrefix(source, "{{"), "}}")
	source, _, _ = strings.Cut(source, "|")
	return strings.ToLower(strings.Trim(strings.TrimSpace(source), "-"))
}

// field returns the field that has the value of an expression.
func (c *converter) field(source string) (string, bool) {
	of := expression(source)
	if field, ok := c.fields[of]; ok {
		return field, true
	}
	for _, part := range []string{".parsed", ".body"} { // of a call, which keeps one value: the part that is used first
		call, _, found := strings.Cut(of, part)
		if field, ok := c.fields[call]; found && ok && strings.HasPrefix(call, "widgets.") {
			if c.parts[call] == "" {
				c.parts[call] = of
			}
			return field, c.parts[call] == of
		}
	}
	return "", false
}

// asks returns the question that an expression has the answer to; empty for anything else.
func (c *converter) asks(of string) string {
	for name, w := range c.widgets {
		if w.Type == sendAndWait && c.fields[of] != "" && c.fields[of] == c.fields["widgets."+strings.ToLower(name)+".inbound.body"] {
			return name
		}
	}
	return ""
}

// nameOf is the first name of a person, as hosts call it.
var nameOf = regexp.MustCompile(`(^|\.)first_?name$|^(flow\.data|contact)\.name$`)

// text returns the key of the text of a widget, which it writes once.
func (c *converter) text(w *widget) string {
	body := strings.TrimSpace(string(w.Properties.Body))
	if w.Properties.MediaURL != "" {
		c.leave(w, "its picture is not carried over")
	}
	parts := liquid.FindAllStringIndex(body, -1)
	if strings.ContainsAny(liquid.ReplaceAllString(body, ""), "{}") {
		c.leave(w, "its braces are round brackets here: a flow writes placeholders in braces")
	}
	var out strings.Builder
	last := 0
	for _, at := range parts {
		out.WriteString(plain(body[last:at[0]]))
		out.WriteString(c.value(w, body[at[0]:at[1]]))
		last = at[1]
	}
	out.WriteString(plain(body[last:]))
	words := strings.TrimSpace(out.String())
	if key, known := c.keys[words]; known && words != "" {
		return key
	}
	key := strings.ToUpper(c.texting(w.Name))
	if words == "" {
		c.leave(w, "it has no body, as with a content template: write the text "+key)
		return key
	}
	c.keys[words] = key
	c.texts = append(c.texts, pair{key, words})
	return key
}

// texting returns a name for a text that no other has.
func (c *converter) texting(name string) string {
	taken := names{}
	for _, p := range c.texts {
		taken[strings.ToLower(p.key)] = true
	}
	return taken.take(name, 60)
}

// value returns what stands in a text for an expression of Studio.
func (c *converter) value(w *widget, source string) string {
	if field, ok := c.field(source); ok {
		if strings.Contains(source, "|") {
			c.leave(w, strings.TrimSpace(source)+" stands without its filter")
		}
		return "{" + field + "|...}"
	}
	if nameOf.MatchString(expression(source)) {
		c.leave(w, strings.TrimSpace(source)+" is the first name of the person's profile here")
		return "{first_name|there}"
	}
	c.leave(w, strings.TrimSpace(source)+" stands as ... in the text")
	return "..."
}

// plain returns words that a flow takes: without braces, and without characters that nobody sees.
func plain(words string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '{':
			return '('
		case r == '}':
			return ')'
		case r == '\t':
			return ' '
		case unicode.IsControl(r) && r != '\n', r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
			return -1
		}
		return r
	}, words)
}

// negations are the conditions that hold where another does not.
var negations = map[string]string{
	"not_equal_to": "equal_to", "does_not_match_any_of": "matches_any_of", "does_not_contain": "contains",
	"does_not_start_with": "starts_with", "is_not_blank": "is_blank",
}

// cel returns the condition in CEL over a field; false where there is none for it.
func (c condition) cel(field string) (string, bool) {
	value, kind, not := strings.TrimSpace(string(c.Value)), c.Type, ""
	if of := negations[kind]; of != "" {
		kind, not = of, "!"
	}
	field = "string(person.fields." + field + ")"
	var pattern string
	switch quoted := regexp.QuoteMeta(value); kind {
	case "equal_to":
		pattern = `(?i)^\s*` + quoted + `\s*$`
	case "matches_any_of":
		var words []string
		for word := range strings.SplitSeq(value, ",") {
			words = append(words, regexp.QuoteMeta(strings.TrimSpace(word)))
		}
		pattern = `(?i)^\s*(` + strings.Join(words, "|") + `)\s*$`
	case "contains":
		pattern = `(?i)` + quoted
	case "starts_with":
		pattern = `(?i)^\s*` + quoted
	case "is_blank":
		pattern = `^\s*$`
	case "regex":
		if _, err := regexp.Compile(value); err != nil {
			return "", false
		}
		pattern = value
	case "less_than", "greater_than":
		n, err := strconv.ParseFloat(value, 64)
		if err != nil || math.IsNaN(n) || math.Abs(n) > maxNumber {
			return "", false
		}
		sign := map[string]string{"less_than": "<", "greater_than": ">"}[kind]
		return fmt.Sprintf("double(%s) %s %s", field, sign, decimal(n)), true
	default:
		return "", false
	}
	found := not + field + ".matches(" + strconv.Quote(pattern) + ")"
	return found, len(found) <= maxCondition
}

// maxNumber bounds the numbers of conditions, so that they are written without an exponent.
const maxNumber = 1e12

// decimal writes a number as CEL reads a double.
func decimal(n float64) string {
	text := strconv.FormatFloat(n, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// maxCondition limits the characters of a condition.
const maxCondition = 1000

// split turns a split into one condition after the other.
func (c *converter) split(id string, w *widget) {
	type test struct{ condition, then string }
	var tests []test
	for _, t := range w.matches() {
		var all []string
		for _, condition := range t.Conditions {
			field, known := c.field(w.tested(condition))
			found, ok := condition.cel(field)
			if !known || !ok {
				c.leave(w, fmt.Sprintf("the condition %s %q on %s; it never holds here", condition.Type, condition.Value, w.tested(condition)))
				all = nil
				break
			}
			if condition.Type == "is_blank" || negations[condition.Type] != "" {
				c.leave(w, fmt.Sprintf("the condition %s %q does not hold where there was no answer", condition.Type, condition.Value))
			}
			all = append(all, found)
		}
		joined := strings.Join(all, " && ")
		if len(joined) > maxCondition {
			c.leave(w, "its conditions are longer than one may be; they never hold here")
		} else if joined != "" {
			tests = append(tests, test{joined, c.lead(t.Next)})
		}
	}
	otherwise := c.lead(w.next("noMatch"))
	for i, t := range tests {
		next := otherwise
		if i+1 < len(tests) {
			next = c.names.take(w.Name, 60)
		}
		c.add(id, pair{"if", t.condition}, pair{"then", t.then}, pair{"else", next})
		id = next
	}
	if len(tests) == 0 {
		c.add(id, pair{"if", "false"}, pair{"then", otherwise}, pair{"else", otherwise})
	}
}
