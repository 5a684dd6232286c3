// Package config reads the environment into a typed struct and reports every problem of it at once.
//
// A field is a variable when it has an env tag; its help tag says what the variable is for and is part of every
// report about it:
//
//	type Config struct {
//		Token  config.Secret `env:"QSTASH_TOKEN,required" help:"publishes alarms; console.upstash.com, QStash, Request Builder"`
//		Lease  time.Duration `env:"SEND_LEASE" envDefault:"30s" help:"how long a claim of a send lives"`
//		Common telemetry.Config // structs without an env tag are read field by field
//	}
package config

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
)

// Problem is one variable that keeps the process from starting. It never quotes the value, which may be a
// secret that was pasted into the wrong variable.
type Problem struct {
	Variable string // the name in the environment
	Reason   string // what is wrong, to be read after the name: "is missing"
	Help     string // what the variable is for
}

// Error is one line: the variable, what is wrong with it and what it is for.
func (p *Problem) Error() string {
	if p.Help == "" {
		return p.Variable + " " + p.Reason
	}
	return fmt.Sprintf("%s %s (%s)", p.Variable, p.Reason, p.Help)
}

// Variable describes one variable for generated documentation and for doctor.
type Variable struct {
	Name     string
	Default  string
	Required bool
	Secret   bool
	Help     string
}

// Environ turns the "NAME=value" lines of os.Environ into the map that Load reads; only main calls os.Environ.
func Environ(lines []string) map[string]string {
	environ := make(map[string]string, len(lines))
	for _, line := range lines {
		if name, value, ok := strings.Cut(line, "="); ok {
			environ[name] = value
		}
	}
	return environ
}

// Load fills into, a pointer to a struct, from environ. An empty or blank value is an absent one, and surrounding
// space is dropped: a key mounted from a file often ends with a newline. A variable that is absent and has no
// default leaves its field as it was.
//
// A Secret, or a type that embeds one, may also be given as the content of a file that NAME_FILE names, as Docker and
// Kubernetes mount them: an environment is shown by docker inspect and inherited by children, a file is not.
//
// When into, or a struct within it, has a method Validate() error, it is called too, after its fields were read
// and whether or not they could be. The error joins every problem, one per line.
func Load[T any](environ map[string]string, into *T) error {
	var problems []error
	for _, f := range fields(reflect.ValueOf(into).Elem(), "") {
		problems = append(problems, f.load(environ))
	}
	return errors.Join(append(problems, validate(reflect.ValueOf(into).Elem(), false)...)...)
}

// Describe lists the variables of T in the order of its fields.
func Describe[T any]() []Variable {
	found := fields(reflect.ValueOf(new(T)).Elem(), "")
	variables := make([]Variable, len(found))
	for i, f := range found {
		variables[i] = f.Variable
	}
	return variables
}

// Changed lists the variables of a loaded config that are not as by default, as NAME=value in the order of its fields. Secrets and
// variables without a default are left out: those each deployment has for itself. A switch that is on is listed.
func Changed[T any](loaded *T) (changed []string) {
	for _, f := range fields(reflect.ValueOf(loaded).Elem(), "") {
		on := f.value.Kind() == reflect.Bool && f.Default == "" && f.value.Bool()
		if on || f.Default != "" && !f.Secret && !f.isDefault() {
			changed = append(changed, fmt.Sprintf("%s=%v", f.Name, f.value.Interface()))
		}
	}
	return changed
}

// isDefault reads the default in the place of a copy, and compares.
func (f field) isDefault() bool {
	other := f
	other.value = reflect.New(f.value.Type()).Elem()
	return other.load(nil) == nil && reflect.DeepEqual(other.value.Interface(), f.value.Interface())
}

// field is a variable together with the place that it fills.
type field struct {
	Variable

	tag    reflect.StructField
	prefix string
	value  reflect.Value
}

// fields walks a struct and the structs within it that are no variables themselves.
func fields(structure reflect.Value, prefix string) []field {
	var found []field
	for tag, value := range structure.Fields() {
		name, options, _ := strings.Cut(tag.Tag.Get("env"), ",")
		switch {
		case name == "-" || !settable(tag):
		case name == "" && value.Kind() == reflect.Struct:
			found = append(found, fields(value, prefix+tag.Tag.Get("envPrefix"))...)
		case name != "":
			found = append(found, field{
				Variable: Variable{
					Name:     prefix + name,
					Default:  tag.Tag.Get("envDefault"),
					Required: strings.Contains(options, "required"),
					Secret:   tag.Type.Implements(reflect.TypeFor[revealer]()),
					Help:     tag.Tag.Get("help"),
				},
				tag: tag, prefix: prefix, value: value,
			})
		}
	}
	return found
}

// revealer is a Secret, or a type that embeds one to check it.
type revealer interface{ Reveal() string }

// settable includes an embedded struct of an unexported type: its exported fields are promoted.
func settable(tag reflect.StructField) bool { return tag.IsExported() || tag.Anonymous }

// load parses one variable. It is handed to the library in its own struct, because the library's errors name
// Go fields and not variables: alone, an error can only be about this one.
func (f field) load(environ map[string]string) error {
	if f.Help == "" {
		return &Problem{Variable: f.Name, Reason: "has no help tag that says what it is for"}
	}
	given, err := f.given(environ)
	switch {
	case err != nil:
		return err
	case given == "" && f.Default == "" && f.Required:
		return &Problem{Variable: f.Name, Reason: "is missing", Help: f.Help}
	case given == "" && f.Default == "":
		return nil
	}
	alone := reflect.New(reflect.StructOf([]reflect.StructField{{Name: f.tag.Name, Type: f.tag.Type, Tag: f.tag.Tag}}))
	options := env.Options{Environment: map[string]string{f.Name: given}, Prefix: f.prefix, FuncMap: parsers()}
	if err := env.ParseWithOptions(alone.Interface(), options); err != nil {
		return &Problem{Variable: f.Name, Reason: f.reason(err), Help: f.Help}
	}
	f.value.Set(alone.Elem().Field(0))
	return nil
}

// given returns the value in the environment, or in the file that the environment names for a secret. If the variable is absent and has the
// tag "was", its older name is read.
func (f field) given(environ map[string]string) (string, error) {
	if old := f.tag.Tag.Get("was"); old != "" && strings.TrimSpace(environ[f.Name]+environ[f.Name+FileSuffix]) == "" {
		f.Name = f.prefix + old
	}
	value, path := strings.TrimSpace(environ[f.Name]), strings.TrimSpace(environ[f.Name+FileSuffix])
	switch {
	case !f.Secret || path == "":
		return value, nil
	case value != "":
		return "", &Problem{Variable: f.Name + " and " + f.Name + FileSuffix, Reason: "are both set: keep one of them", Help: f.Help}
	}
	content, err := readSecret(path)
	if err != nil {
		return "", &Problem{Variable: f.Name + FileSuffix, Reason: "names a file that " + err.Error(), Help: f.Help}
	}
	return strings.TrimSpace(content), nil
}

// reason returns the fault of a field without the value. Our own types and parsers word their errors for this; the standard
// library's parsers quote the value, so their errors are replaced by the shape that was expected.
func (f field) reason(err error) string {
	cause := err
	if parse, ok := errors.AsType[env.ParseError](err); ok {
		cause = parse.Err // the library's error does not unwrap
	}
	if worded, ok := errors.AsType[malformed](cause); ok {
		return worded.Error()
	}
	if _, ok := reflect.TypeAssert[encoding.TextUnmarshaler](f.value.Addr()); ok {
		return "is malformed: " + cause.Error()
	}
	switch f.value.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "must be a whole number within range"
	case reflect.Float32, reflect.Float64:
		return "must be a number"
	default:
		return "is not a valid " + f.tag.Type.String()
	}
}

// parsers replaces the library's lenient readings of two standard types.
func parsers() map[reflect.Type]env.ParserFunc {
	return map[reflect.Type]env.ParserFunc{
		reflect.TypeFor[bool]():          func(v string) (any, error) { return parseBool(v) },
		reflect.TypeFor[time.Duration](): func(v string) (any, error) { return parseDuration(v) },
	}
}

// parseBool refuses everything that is not clearly one or the other: "yes" must not read as false.
func parseBool(v string) (bool, error) {
	switch v {
	case "1", "true":
		return true, nil
	case "0", "false":
		return false, nil
	default:
		return false, malformed("must be 1, true, 0 or false")
	}
}

func parseDuration(v string) (time.Duration, error) {
	d, err := time.ParseDuration(v)
	if err != nil || d <= 0 {
		return 0, malformed("must be a duration above zero such as 500ms, 30s or 5m")
	}
	return d, nil
}

// validate asks the structs within, then the struct itself. It asks an embedded struct only once when Validate is promoted or hidden by
// the outer one is not asked a second time, as a call in Go would not reach it either.
func validate(structure reflect.Value, hidden bool) []error {
	var validator interface{ Validate() error }
	if structure.Addr().CanInterface() {
		validator, _ = reflect.TypeAssert[interface{ Validate() error }](structure.Addr())
	}
	var problems []error
	for tag, value := range structure.Fields() {
		if settable(tag) && value.Kind() == reflect.Struct && tag.Tag.Get("env") == "" {
			problems = append(problems, validate(value, validator != nil && tag.Anonymous)...)
		}
	}
	if validator != nil && !hidden {
		problems = append(problems, validator.Validate())
	}
	return problems
}
