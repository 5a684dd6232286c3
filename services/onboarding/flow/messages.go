package flow

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"go.yaml.in/yaml/v3"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// forms has the ways to write a value of which the schema has several, by its key.
var forms = map[string]string{
	"expect":   "write reply, yes_no or date; or {choice: [a, b]}, {number: {min: 0, max: 10}} or {text: {limit: 300}}",
	"negative": "write {send: TEXT} with exactly one of stay: true, wait_at: STEP and then: STEP",
	"then":     "write a step; or the steps by the answer, such as {a: one_step, else: another}",
	"fields":   "write a type: text, number, yes_no, choice or date; or {type: text, private: true}",
}

// written has the way to write a value, by its definition in the schema.
var written = map[string]string{
	"duration": "write a duration such as 400ms, 8s, 15m, 24h or 2d",
	"text_key": "write the key of a text: capital letters, digits and _, such as OPENING",
	"step_id":  "write a step: 1 to 64 of a-z, 0-9 and _",
	"name":     "write a name: 1 to 40 of a-z, 0-9 and _, a letter first",
	"state":    "write a state such as flow:step",
	"call":     "write an address that begins with https://",

	"languages": "write a language such as en or pt-BR",
}

// kinds of YAML values by the names that JSON Schema has for them.
var kinds = map[string]string{
	"object": "a mapping", "array": "a list", "string": "text", "number": "a number", "integer": "a whole number", "boolean": "true or false",
}

// english prints the messages of the schema library.
var english = message.NewPrinter(language.English)

// conform holds a value to a schema. Problems name the place and the line of the node that they are about.
func conform(schema *jsonschema.Schema, value any, at string, node *yaml.Node, found *Problems) bool {
	err := schema.Validate(value)
	if err == nil {
		return true
	}
	invalid, ok := err.(*jsonschema.ValidationError) //nolint:errorlint // it is documented to be this type
	if !ok {
		found.addf(File, node.Line, "%s", err)
		return false
	}
	explain(invalid, at, node, found)
	return false
}

// explain adds a problem for each cause, and one for a value that fits none of several forms.
func explain(e *jsonschema.ValidationError, at string, node *yaml.Node, found *Problems) {
	place := strings.Join(append([]string{at}, e.InstanceLocation...), ".")
	place = strings.TrimPrefix(place, ".")
	if place != "" {
		place += ": "
	}
	here := locate(node, e.InstanceLocation)
	switch k := e.ErrorKind.(type) {
	case *kind.OneOf:
		if near := nearest(e); near != nil {
			explain(near, at, node, found)
			return
		}
		if form := forms[formAt(e.InstanceLocation)]; form != "" {
			found.addf(File, here.Line, "%s%s", place, form)
			return
		}
	case *kind.AdditionalProperties:
		for _, key := range k.Properties {
			found.addf(File, keyLine(here, key), "%s%s is no key here%s", place, key, keysAt(e.SchemaURL))
		}
		return
	case *kind.PropertyNames:
		line, _ := findKey(node, k.Property) // the library does not say where
		found.addf(File, line, "%q: %s", k.Property, hint(e))
		return
	}
	if len(e.Causes) == 0 {
		found.addf(File, here.Line, "%s%s", place, reason(e))
		return
	}
	for _, cause := range e.Causes {
		explain(cause, at, node, found)
	}
}

// nearest returns the one form of several that a value has the keys of; nil where none or two are near.
func nearest(e *jsonschema.ValidationError) *jsonschema.ValidationError {
	var near []*jsonschema.ValidationError
	for _, cause := range e.Causes {
		if deeper(cause, len(e.InstanceLocation)) {
			near = append(near, cause)
		}
	}
	if len(near) != 1 {
		return nil
	}
	return near[0]
}

// deeper reports whether all that is wrong lies below a depth of the file.
func deeper(e *jsonschema.ValidationError, depth int) bool {
	if len(e.Causes) == 0 {
		return len(e.InstanceLocation) > depth
	}
	return !slices.ContainsFunc(e.Causes, func(cause *jsonschema.ValidationError) bool { return !deeper(cause, depth) })
}

// keysAt lists the keys that an object of the schema may have, as the end of a sentence.
func keysAt(url string) string {
	_, pointer, _ := strings.Cut(url, "#/")
	var at any
	if json.Unmarshal(schemaJSON, &at) != nil {
		return ""
	}
	for part := range strings.SplitSeq(pointer, "/") {
		object, _ := at.(map[string]any)
		if next, has := object[part]; has {
			at = next
		}
	}
	object, _ := at.(map[string]any)
	keys, _ := object["properties"].(map[string]any)
	if len(keys) == 0 {
		return ""
	}
	return "; the keys are " + strings.Join(slices.Sorted(maps.Keys(keys)), ", ")
}

// formAt returns the key of a value that may have several forms.
func formAt(location []string) string {
	if n := len(location); n > 1 && location[n-2] == "fields" {
		return "fields"
	} else if n > 0 {
		return location[n-1]
	}
	return ""
}

// hint returns how to write a value, by the definition that it does not fit.
func hint(e *jsonschema.ValidationError) string {
	for ; ; e = e.Causes[0] {
		for dir := e.SchemaURL; len(dir) > 1; dir = path.Dir(dir) {
			if how := written[path.Base(dir)]; how != "" {
				return how
			}
			if !strings.Contains(dir, "#") {
				break
			}
		}
		if len(e.Causes) == 0 {
			return e.ErrorKind.LocalizedString(english)
		}
	}
}

// reason says in a few words what is wrong with a value.
func reason(e *jsonschema.ValidationError) string {
	switch k := e.ErrorKind.(type) {
	case *kind.Pattern:
		return fmt.Sprintf("%q: %s", k.Got, hint(e))
	case *kind.Required:
		return strings.Join(k.Missing, ", ") + " is missing"
	case *kind.Type:
		if quoted := hint(e); strings.Contains(quoted, "duration") || strings.Contains(quoted, "text:") || strings.Contains(quoted, "name:") {
			return quoted // in quotes it would be refused again
		}
		if k.Want[0] == "string" && k.Got != "object" && k.Got != "array" {
			return "write it in quotes, for YAML takes it for " + k.Got
		}
		return "must be " + kinds[k.Want[0]]
	case *kind.Minimum:
		return "must be at least " + k.Want.RatString()
	case *kind.Maximum:
		return "must be at most " + k.Want.RatString()
	case *kind.MinItems:
		return fmt.Sprintf("has %d; at least %d are needed", k.Got, k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("has %d; at most %d are allowed", k.Got, k.Want)
	case *kind.MaxProperties:
		return fmt.Sprintf("has %d; at most %d are allowed", k.Got, k.Want)
	case *kind.MinProperties:
		return fmt.Sprintf("has %d; at least %d are needed", k.Got, k.Want)
	case *kind.MinLength:
		return fmt.Sprintf("has %d characters; at least %d are needed", k.Got, k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("has %d characters; at most %d are allowed", k.Got, k.Want)
	case *kind.UniqueItems:
		return "one of its values stands twice"
	case *kind.Enum:
		return strings.TrimPrefix(e.ErrorKind.LocalizedString(english), "value ")
	}
	return e.ErrorKind.LocalizedString(english)
}

// keyLine returns the line of a key, or of its mapping.
func keyLine(node *yaml.Node, key string) int {
	if node.Kind == yaml.MappingNode {
		for i := 0; i < len(node.Content); i += 2 {
			if node.Content[i].Value == key {
				return node.Content[i].Line
			}
		}
	}
	return node.Line
}

// findKey returns the line of the first key with a name, however deep it is.
func findKey(node *yaml.Node, key string) (line int, found bool) {
	for i, child := range node.Content {
		if node.Kind == yaml.MappingNode && i%2 == 0 && child.Value == key {
			return child.Line, true
		}
		if line, found = findKey(child, key); found {
			return line, true
		}
	}
	return 0, false
}
