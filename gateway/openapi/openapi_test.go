package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// TestWords compares the description with the code of the domain, which it is generated from: a constant that is added later is missing in it.
func TestWords(t *testing.T) {
	t.Chdir("../..") // where buf runs the plugin
	r, err := readRules("proto/openapi.yaml")
	require.NoError(t, err)
	text, err := os.ReadFile("gateway/gen/openapi.yaml")
	require.NoError(t, err)
	var description struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct {
					Enum []string `yaml:"enum"`
				} `yaml:"properties"`
			} `yaml:"schemas"`
		} `yaml:"components"`
	}
	require.NoError(t, yaml.Unmarshal(text, &description))
	for _, rule := range r.Fields {
		compared := rule.Words == ""
		for _, name := range rule.Of {
			message, field, _ := strings.Cut(name, ".")
			property, found := description.Components.Schemas[schemaOf(message)].Properties[field]
			if rule.Words == "" || !found { // of a list it is a parameter
				continue
			}
			require.Equal(t, rule.values, property.Enum, "%s is not what %s has: make gen", name, rule.Words)
			compared = true
		}
		require.True(t, compared, "nothing has the words of %s", rule.Words)
	}
}

func TestRules(t *testing.T) {
	t.Parallel()

	file := func(t *testing.T, text string) string {
		t.Helper()
		name := filepath.Join(t.TempDir(), "rules.yaml")
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}

	t.Run("AnUnknownKeyOfARouteIsRefused", func(t *testing.T) {
		t.Parallel()
		_, err := describe(nil, sources{routes: file(t, "http:\n  rules:\n    - selector: a.B.C\n      post: /v1/c\n      bdy: '*'\n")})
		require.ErrorContains(t, err, "field bdy not found")
	})

	t.Run("AnUnknownKeyIsRefused", func(t *testing.T) {
		t.Parallel()
		_, err := readRules(file(t, "evry: {}\n"))
		require.ErrorContains(t, err, "field evry not found")
	})

	t.Run("WordsThatTheDomainDoesNotHaveAreRefused", func(t *testing.T) {
		t.Parallel()
		_, err := readRules(file(t, "fields:\n  - of: [A.b]\n    words: ../../services/onboarding/session.Nothing\n"))
		require.ErrorContains(t, err, "session.Nothing has no constants")
	})

	t.Run("ARuleThatFitsNothingIsRefused", func(t *testing.T) {
		t.Parallel()
		r, err := readRules(file(t, "operations:\n  S_M: {}\nrequired:\n  Request: [name]\nfields:\n  - of: [Request.*_id]\n    schema: {format: uuid}\n"))
		require.NoError(t, err)
		require.EqualError(t, r.unused(), "proto/openapi.yaml: operation S_M fits nothing\n"+
			"proto/openapi.yaml: required Request.name fits nothing\nproto/openapi.yaml: field Request.*_id fits nothing")
		r.ofOperation("S_M", false, false, false)
		require.True(t, r.requires("Request", "name"))
		require.Len(t, r.ofField("Request.session_id"), 1)
		require.NoError(t, r.unused())
	})
}

func TestOperationIDs(t *testing.T) {
	t.Parallel()
	d := newDescriber(&rules{}, nil)
	d.claim("getGoal", "GoalService.GetGoal")
	require.Empty(t, d.problems)
	d.claim("getGoal", "OtherService.GetGoal")
	require.EqualError(t, errors.Join(d.problems...),
		"GoalService.GetGoal and OtherService.GetGoal would both be the operation getGoal: rename one of them")
}

// TestWebhooks compares the events of the rules with the types of the code.
func TestWebhooks(t *testing.T) {
	t.Chdir("../..") // where buf runs the plugin
	r, err := readRules("proto/openapi.yaml")
	require.NoError(t, err)
	d := newDescriber(r, nil)
	all, err := d.webhooks()
	require.NoError(t, err)
	types, err := constants(eventTypes)
	require.NoError(t, err)
	require.Equal(t, types, all.keys())

	goal := &r.Events[len(r.Events)-1]
	goal.Types.drop("goal.failed")
	goal.Types.set("goal.forgotten", "A goal was forgotten")
	_, err = d.webhooks()
	require.ErrorContains(t, err, "events do not say what the data of goal.failed is")
	require.ErrorContains(t, err, "event goal.forgotten is not one of services/onboarding/events.types")
}

func TestRoute(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		of   route
		want string
	}{
		{name: "ARouteOfEachMethod", of: route{Get: "/v1/a"}},
		{name: "APostTakesABody", of: route{Post: "/v1/a", Body: "*"}},
		{name: "APostWithoutABody", of: route{Post: "/v1/a"}, want: `takes body: "*"`},
		{name: "AGetWithABody", of: route{Get: "/v1/a", Body: "*"}, want: `takes body: "*"`},
		{name: "TwoMethods", of: route{Get: "/v1/a", Delete: "/v1/a"}, want: "has 2 routes"},
		{name: "NoMethod", of: route{}, want: "has 0 routes"},
		{name: "ABodyThatIsOneField", of: route{Put: "/v1/a", Body: "field"}, want: `takes body: "*"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, _, err := tc.of.where()
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
}
