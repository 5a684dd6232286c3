package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// eventTypes are the types of events that the code makes.
const eventTypes = "services/onboarding/events.types"

// eventRule describes the data of events, and which types have it.
type eventRule struct {
	Types  object `yaml:"types"`  // when an event of a type is told, by type
	Schema object `yaml:"schema"` // of the data; a property may have words and and, as a fieldRule has
}

// webhooks describes the request that each type of event is posted with. The rules must have the types of the code and no others.
func (d *describer) webhooks() (*object, error) {
	types, err := constants(eventTypes)
	if err != nil {
		return nil, err
	}
	all, problems := newObject(), []error{}
	for _, name := range types {
		i := slices.IndexFunc(d.rules.Events, func(rule eventRule) bool { return rule.Types.has(name) })
		if i < 0 {
			problems = append(problems, fmt.Errorf("proto/openapi.yaml: events do not say what the data of %s is", name))
			continue
		}
		rule := d.rules.Events[i]
		data, err := withWords(rule.Schema)
		problems = append(problems, err)
		all.set(name, newObject("post", d.webhook(name, rule.Types.text(name), data)))
	}
	for _, rule := range d.rules.Events {
		for _, name := range rule.Types.keys() {
			if !all.has(name) {
				problems = append(problems, fmt.Errorf("proto/openapi.yaml: event %s is not one of %s", name, eventTypes))
			}
		}
	}
	return all, errors.Join(problems...)
}

// webhook describes the request of one type.
func (d *describer) webhook(name, when string, data *object) *object {
	event := newObject("allOf", []*object{ref("schemas", "Event"), newObject(
		"type", "object",
		"properties", newObject("type", newObject("type", "string", "const", name), "data", data),
		"required", []string{"type", "data"},
	)})
	words := strings.FieldsFunc(name, func(c rune) bool { return c == '.' || c == '_' })
	for i, word := range words {
		words[i] = strings.ToUpper(word[:1]) + word[1:]
	}
	return newObject(
		"operationId", "on"+strings.Join(words, ""), "tags", []string{"Event"}, "summary", when,
		"description", "Posted to the subscriptions that want "+name+". Pass over fields of data that you do not know.",
		"security", []*object{},
		"requestBody", newObject("required", true, "content", newObject("application/cloudevents+json", newObject("schema", event))),
	).add(&d.rules.Webhook)
}

// withWords writes the values that the domain has into the properties that name its words.
func withWords(schema object) (*object, error) {
	given := schema.get("properties")
	properties := newObject()
	for _, name := range given.keys() {
		property := newObject().add(given.get(name))
		properties.set(name, property)
		if !property.has("words") {
			continue
		}
		values, err := constants(property.text("words"))
		if err != nil {
			return nil, err
		}
		for _, more := range property.get("and").Content {
			values = append(values, more.Value)
		}
		property.drop("words")
		property.drop("and")
		properties.set(name, property.set("type", "string").set("enum", values))
	}
	return newObject().add(&schema).set("properties", properties), nil
}
