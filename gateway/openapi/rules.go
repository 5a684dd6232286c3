package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// rules is proto/openapi.yaml.
type rules struct {
	// Document is the description without what is generated, taken as it is.
	Document object `yaml:"document"`
	// The parts of operations besides their fields: of all of them, those with a body, those with a parameter in the path, those with an
	// idempotency_key in their request, and each by its operation id.
	Every      extras            `yaml:"every"`
	WithBody   extras            `yaml:"with_body"`
	WithPath   extras            `yaml:"with_path_parameter"`
	WithKey    extras            `yaml:"with_idempotency_key"`
	Operations map[string]extras `yaml:"operations"`
	// Required are the fields of a request, by message, without which it is refused. Those in the path always are.
	Required map[string][]string `yaml:"required"`
	Fields   []*fieldRule        `yaml:"fields"`
	// Webhook holds the parts of all webhooks, taken as they are.
	Webhook object `yaml:"webhook"`
	// Events lists the events that are posted to subscribers.
	Events []eventRule `yaml:"events"`

	used map[string]bool // what of the rules a field or an operation had
}

// extras are the parts that some operations have, by the name of the component in the document.
type extras struct {
	Parameters []string          `yaml:"parameters"`
	Responses  map[string]string `yaml:"responses"` // by status
	Headers    []string          `yaml:"headers"`   // of successful answers
	Success    map[string]string `yaml:"success"`   // the description of each status, in place of 200
}

// fieldRule adds to the schema of fields.
type fieldRule struct {
	Of     []string `yaml:"of"`     // Message.field; * stands for any part of it
	Words  string   `yaml:"words"`  // the constants of the domain that are all values there are
	And    []string `yaml:"and"`    // more values
	Schema object   `yaml:"schema"` // taken as it is

	values []string
}

func readStrictly(file string, into any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

func readRules(file string) (*rules, error) {
	r := &rules{used: map[string]bool{}}
	if err := readStrictly(file, r); err != nil {
		return nil, err
	}
	for _, rule := range r.Fields {
		if rule.Words == "" {
			continue
		}
		var err error
		if rule.values, err = constants(rule.Words); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		rule.values = append(rule.values, rule.And...)
	}
	return r, nil
}

// constants are the values of all constants of a string type, named as services/onboarding/session.Status, of those with names that begin
// alike, as services/onboarding/goals.Reason*, or of one list, as services/onboarding/events.types; in the order of the code.
func constants(name string) ([]string, error) {
	i := strings.LastIndex(name, ".")
	if i < 0 {
		return nil, fmt.Errorf("%q is not a folder, a dot and a type", name)
	}
	folder, typeName := name[:i], name[i+1:]
	files, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var values []string
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), ".go") || strings.HasSuffix(file.Name(), "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path.Join(folder, file.Name()), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			of, typed := spec.Type.(*ast.Ident)
			prefix, named := strings.CutSuffix(typeName, "*")
			isList := spec.Names[0].Name == typeName
			if typed && of.Name == typeName || named && strings.HasPrefix(spec.Names[0].Name, prefix) || isList {
				values = append(values, literals(spec)...)
			}
			return false
		})
	}
	if len(values) == 0 {
		return nil, fmt.Errorf("%s has no constants", name)
	}
	return values, nil
}

// literals are the strings that a declaration gives its names.
func literals(spec *ast.ValueSpec) (values []string) {
	given := spec.Values
	if list, ok := given[0].(*ast.CompositeLit); ok && len(given) == 1 {
		given = list.Elts
	}
	for _, value := range given {
		if literal, ok := value.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if text, err := strconv.Unquote(literal.Value); err == nil {
				values = append(values, text)
			}
		}
	}
	return values
}

// ofField are the rules of a field, which is named as Message.field.
func (r *rules) ofField(field string) (found []*fieldRule) {
	for _, rule := range r.Fields {
		for _, pattern := range rule.Of {
			if ok, err := path.Match(pattern, field); ok && err == nil {
				r.used[pattern] = true
				found = append(found, rule)
			}
		}
	}
	return found
}

// requires reports whether a request is refused without a field.
func (r *rules) requires(message, field string) bool {
	if !slices.Contains(r.Required[message], field) {
		return false
	}
	r.used[message+"."+field] = true
	return true
}

// ofOperation returns the parts of an operation besides its fields.
func (r *rules) ofOperation(id string, hasPath, hasBody, hasKey bool) extras {
	all := extras{Responses: map[string]string{}, Success: map[string]string{}}
	add := func(applies bool, more extras) {
		if applies {
			all.Parameters = append(all.Parameters, more.Parameters...)
			all.Headers = append(all.Headers, more.Headers...)
			maps.Copy(all.Responses, more.Responses)
			maps.Copy(all.Success, more.Success)
		}
	}
	add(true, r.Every)
	add(hasPath, r.WithPath)
	add(hasBody, r.WithBody)
	add(hasKey, r.WithKey)
	add(true, r.Operations[id])
	r.used[id] = true
	return all
}

// unused names what is in the rules and in no message or operation: a field that was renamed would silently lose its rule.
func (r *rules) unused() error {
	var problems []error
	missing := func(what, name string) {
		if !r.used[name] {
			problems = append(problems, fmt.Errorf("proto/openapi.yaml: %s %s fits nothing", what, name))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(r.Operations)) {
		missing("operation", id)
	}
	for _, message := range slices.Sorted(maps.Keys(r.Required)) {
		for _, field := range r.Required[message] {
			missing("required", message+"."+field)
		}
	}
	for _, rule := range r.Fields {
		for _, pattern := range rule.Of {
			missing("field", pattern)
		}
	}
	return errors.Join(problems...)
}
