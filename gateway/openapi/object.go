package main

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// object is a mapping of YAML that keeps its keys in the order in which they were set.
type object struct{ yaml.Node }

func newObject(pairs ...any) *object {
	o := &object{yaml.Node{Kind: yaml.MappingNode}}
	for i := 0; i+1 < len(pairs); i += 2 {
		o.set(fmt.Sprint(pairs[i]), pairs[i+1])
	}
	return o
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (o *object) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: not a mapping", node.Line)
	}
	o.Node = *node
	unalias(&o.Node)
	return nil
}

// unalias writes out what the rules name once and use often: not every reader of YAML knows aliases.
func unalias(node *yaml.Node) {
	node.Anchor = ""
	for i, child := range node.Content {
		if child.Kind == yaml.AliasNode {
			node.Content[i] = child.Alias
		}
		unalias(node.Content[i])
	}
}

// MarshalYAML implements yaml.Marshaler.
func (o *object) MarshalYAML() (any, error) { return &o.Node, nil } //nolint:unparam // the interface has an error

// set puts a value at the end, or in the place of the one that the key has.
func (o *object) set(key string, value any) *object {
	var node yaml.Node
	if err := node.Encode(value); err != nil {
		panic(err) // only strings, numbers, lists and objects are set
	}
	for i := 0; i < len(o.Content); i += 2 {
		if o.Content[i].Value == key {
			o.Content[i+1] = &node
			return o
		}
	}
	var name yaml.Node
	name.SetString(key)
	if numeric(key) { // a status
		name.Style = yaml.DoubleQuotedStyle
	}
	o.Content = append(o.Content, &name, &node)
	return o
}

func numeric(key string) bool {
	for _, c := range key {
		if c < '0' || c > '9' {
			return false
		}
	}
	return key != ""
}

// add sets all that the other has.
func (o *object) add(other *object) *object {
	for i := 0; i < len(other.Content); i += 2 {
		o.set(other.Content[i].Value, other.Content[i+1])
	}
	return o
}

// get is the object at a key, which it becomes if there is none.
func (o *object) get(key string) *object {
	for i := 0; i < len(o.Content); i += 2 {
		if o.Content[i].Value == key {
			return &object{*o.Content[i+1]}
		}
	}
	return newObject()
}

// text is the string at a key.
func (o *object) text(key string) string { return o.get(key).Value }

func (o *object) drop(key string) {
	for i := 0; i < len(o.Content); i += 2 {
		if o.Content[i].Value == key {
			o.Content = slices.Delete(o.Content, i, i+2)
			return
		}
	}
}

// keys returns the keys in their order.
func (o *object) keys() (all []string) {
	for i := 0; i < len(o.Content); i += 2 {
		all = append(all, o.Content[i].Value)
	}
	return all
}

func (o *object) has(key string) bool {
	return slices.Contains(o.keys(), key)
}

func ref(kind, name string) *object { return newObject("$ref", "#/components/"+kind+"/"+name) }
