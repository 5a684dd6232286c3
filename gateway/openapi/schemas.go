package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// describer writes the operations and the schemas that they refer to.
type describer struct {
	rules    *rules
	examples []example
	paths    *object
	tags     []*object
	schemas  map[string]*object
	// A message of a request is another schema than the same message of an answer: an answer has every field, a request need not.
	requested, answered map[protoreflect.FullName]bool
	names               map[string]protoreflect.FullName // the message of each schema
	ids                 map[string]string                // of operations, and their methods
	problems            []error
}

func newDescriber(r *rules, examples []example) *describer {
	return &describer{
		rules: r, examples: examples, paths: newObject(), schemas: map[string]*object{}, names: map[string]protoreflect.FullName{},
		ids: map[string]string{}, requested: map[protoreflect.FullName]bool{}, answered: map[protoreflect.FullName]bool{},
	}
}

// document is the description: what is written out in the rules, and what was generated.
func (d *describer) document(webhooks *object) *object {
	document := d.rules.Document
	components := document.get("components")
	schemas := components.get("schemas")
	for _, name := range slices.Sorted(maps.Keys(d.schemas)) {
		schemas.set(name, d.schemas[name])
	}
	tags := d.tags
	for _, tag := range document.get("tags").Content {
		tags = append(tags, &object{*tag})
	}
	return document.
		set("tags", tags).
		set("paths", d.paths.add(document.get("paths"))).
		set("webhooks", webhooks).
		set("components", components.set("schemas", schemas))
}

// reach marks the messages in a field of a message, all the way down.
func reach(m *protogen.Message, into map[protoreflect.FullName]bool) {
	for _, f := range m.Fields {
		if f.Message != nil && !into[f.Message.Desc.FullName()] && wellKnown(f.Message.Desc.FullName()) == nil {
			into[f.Message.Desc.FullName()] = true
			reach(f.Message, into)
		}
	}
}

// refer is a reference to the schema of a message, which is written with it.
func (d *describer) refer(m *protogen.Message, request bool) *object {
	name := schemaOf(string(m.Desc.Name()))
	if request && d.answered[m.Desc.FullName()] {
		name += "Input"
	}
	if d.mine(name, m.Desc.FullName()) {
		d.schemas[name] = d.message(m, request, nil)
	}
	return ref("schemas", name)
}

// schemaOf names the schema of a message. Generators of clients call all answers of createProfile CreateProfileResponse.
func schemaOf(message string) string {
	if name, answer := strings.CutSuffix(message, "Response"); answer {
		return name + "Result"
	}
	return message
}

// mine reports whether a schema is still to be written, and notes it as written, so that a message may hold itself.
func (d *describer) mine(name string, of protoreflect.FullName) bool {
	owner, taken := d.names[name]
	if taken && owner != of {
		d.problems = append(d.problems, fmt.Errorf("%s and %s would both be the schema %s", owner, of, name))
	}
	d.names[name] = of
	return !taken
}

// message is the schema of a message, without the fields that are in the path.
func (d *describer) message(m *protogen.Message, request bool, inPath []string) *object {
	properties, required := newObject(), []string{}
	for _, f := range m.Fields {
		name := string(f.Desc.Name())
		if slices.Contains(inPath, name) {
			continue
		}
		properties.set(name, d.field(f, request))
		if request && d.rules.requires(string(m.Desc.Name()), name) || !request && written(f) {
			required = append(required, name)
		}
	}
	schema := newObject("type", "object", "description", comment(m.Comments))
	if len(properties.Content) > 0 {
		schema.set("properties", properties)
	}
	if len(required) > 0 {
		schema.set("required", required)
	}
	if request { // an answer may get more fields with time
		schema.set("additionalProperties", false)
	}
	return schema
}

// written reports whether protojson always writes a field: a message that is not set as null, what is optional or of a oneof not at all.
func written(f *protogen.Field) bool {
	return f.Oneof == nil && (f.Message != nil || !f.Desc.HasPresence())
}

// field is the schema of a field. In an answer a message that is not set is null.
func (d *describer) field(f *protogen.Field, request bool) *object {
	schema := newObject("description", comment(f.Comments))
	one := d.one(f, request)
	switch {
	case f.Desc.IsMap():
		return schema.set("type", "object").set("additionalProperties", d.one(f.Message.Fields[1], request))
	case f.Desc.IsList():
		return schema.set("type", "array").set("items", one)
	case f.Message == nil || request:
		return schema.add(one)
	case one.has("$ref"):
		return schema.set("anyOf", []*object{one, newObject("type", "null")})
	default:
		schema.add(one)
		return schema.set("type", []string{one.text("type"), "null"})
	}
}

// one is the schema of one value of a field, with what the rules add.
func (d *describer) one(f *protogen.Field, request bool) *object {
	schema := newObject()
	switch {
	case f.Enum != nil:
		schema.add(d.enum(f.Enum))
	case f.Message == nil:
		schema.add(scalar(f.Desc.Kind()))
	case f.Desc.IsMap():
	case wellKnown(f.Message.Desc.FullName()) != nil:
		schema.add(wellKnown(f.Message.Desc.FullName()))
	default:
		schema.add(d.refer(f.Message, request))
	}
	for _, rule := range d.rules.ofField(string(f.Parent.Desc.Name()) + "." + string(f.Desc.Name())) {
		schema.add(&rule.Schema)
		if rule.values != nil {
			schema.set("enum", rule.values)
		}
	}
	return schema
}

// scalar returns the schema of a value as protojson writes it.
func scalar(kind protoreflect.Kind) *object {
	switch kind {
	case protoreflect.BoolKind:
		return newObject("type", "boolean")
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return newObject("type", "integer", "format", "int32")
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind: // a number of JavaScript would lose digits
		return newObject("type", "string", "pattern", `^-?[0-9]+$`)
	case protoreflect.DoubleKind:
		return newObject("type", "number", "format", "double")
	case protoreflect.BytesKind:
		return newObject("type", "string", "format", "byte")
	case protoreflect.StringKind:
		return newObject("type", "string")
	default:
		panic("no schema for " + kind.String() + ", which no proto has had yet")
	}
}

// wellKnown returns the schema of a message of Google's as protojson writes it; nil for any other.
func wellKnown(name protoreflect.FullName) *object {
	switch name {
	case "google.protobuf.Timestamp":
		return newObject("type", "string", "format", "date-time")
	case "google.protobuf.Duration":
		return newObject("type", "string", "pattern", `^-?[0-9]+(\.[0-9]{1,9})?s$`)
	case "google.protobuf.Struct":
		return newObject("type", "object", "additionalProperties", true)
	default:
		return nil
	}
}

func (d *describer) enum(e *protogen.Enum) *object {
	name := string(e.Desc.Name())
	if d.mine(name, e.Desc.FullName()) {
		lines, values := []string{comment(e.Comments)}, []string{}
		for _, value := range e.Values {
			values = append(values, string(value.Desc.Name()))
			lines = append(lines, "- `"+string(value.Desc.Name())+"`: "+comment(value.Comments))
		}
		d.schemas[name] = newObject("type", "string", "description", strings.Join(lines, "\n"), "enum", values)
	}
	return ref("schemas", name)
}

// comment returns the comment of a proto, without its line breaks.
func comment(c protogen.CommentSet) string {
	return strings.Join(strings.Fields(string(c.Leading)), " ")
}
