package main

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// example has the fields of a golden case of the gateway.
type example struct {
	method, path    string
	lengths         []int // of both
	request, answer *object
}

// readExamples reads the golden cases that were answered 200 or 201.
func readExamples(folder string) ([]example, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var found []example
	for _, file := range files {
		var cases []struct {
			Request struct {
				Method string `yaml:"method"`
				Path   string `yaml:"path"`
				Body   string `yaml:"body"`
				// Lenient is a request that the description does not have, though the gateway takes it.
				Lenient bool `yaml:"lenient"`
				Rest    rest `yaml:",inline"`
			} `yaml:"request"`
			Want struct {
				Status int    `yaml:"status"`
				Body   string `yaml:"body"`
				Rest   rest   `yaml:",inline"`
			} `yaml:"want"`
			Rest rest `yaml:",inline"`
		}
		if err := readStrictly(file, &cases); err != nil {
			return nil, err
		}
		for _, c := range cases {
			path, _, _ := strings.Cut(c.Request.Path, "?")
			if (c.Want.Status == 200 || c.Want.Status == 201) && !c.Request.Lenient {
				found = append(found, example{
					strings.ToLower(c.Request.Method), path, []int{len(c.Request.Body), len(c.Want.Body)}, fromJSON(c.Request.Body), fromJSON(c.Want.Body),
				})
			}
		}
	}
	return found, nil
}

// rest has the fields of a case that examples do not need.
type rest map[string]any

// fromJSON is an object of JSON in the style of the description; nil for anything else.
func fromJSON(text string) *object {
	var o object
	if text == "" || yaml.Unmarshal([]byte(text), &o) != nil {
		return nil
	}
	plain(&o.Node)
	return &o
}

// plain puts each key on its line. Texts stay quoted: some readers take on and off for booleans.
func plain(node *yaml.Node) {
	if node.Kind != yaml.ScalarNode {
		node.Style = 0
	}
	for i, child := range node.Content {
		if node.Kind == yaml.MappingNode && i%2 == 0 {
			child.Style = 0
		}
		plain(child)
	}
}

// exampleOf is the case of a route that asks the most, and of those the one that is answered the most.
func exampleOf(all []example, method, path string) (found example) {
	matches := regexp.MustCompile("^" + quotedParameter.ReplaceAllString(regexp.QuoteMeta(path), "[^/:]+") + "$")
	for _, e := range all {
		if e.method == method && matches.MatchString(e.path) && slices.Compare(e.lengths, found.lengths) > 0 {
			found = e
		}
	}
	return found
}

var quotedParameter = regexp.MustCompile(`\\\{\w+\\\}`)
