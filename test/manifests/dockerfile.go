package manifests

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// Dockerfile is what is wrong with a Dockerfile: what BuildKit's own linter finds while it parses, and what our images promise.
func Dockerfile(content []byte) ([]string, error) {
	parsed, err := parser.Parse(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	var problems []string
	lint := linter.New(&linter.Config{Warn: func(rule, description, _, message string, at []parser.Range) {
		problems = append(problems, fmt.Sprintf("%s: %s (%s)", rule, message, description))
	}})
	stages, _, err := instructions.Parse(parsed.AST, lint)
	if err != nil {
		return nil, err
	}
	for _, w := range parsed.Warnings {
		problems = append(problems, w.Short)
	}
	if len(stages) < 2 {
		return append(problems, "the image holds what it was built with"), nil
	}
	return append(problems, image(stages)...), nil
}

// image is what is wrong with the last stage, which is what is shipped.
func image(stages []instructions.Stage) []string {
	var problems []string
	last := stages[len(stages)-1]
	if last.BaseName != "scratch" && !strings.HasPrefix(last.BaseName, "gcr.io/distroless/static") {
		problems = append(problems, "the image stands on "+last.BaseName+", which has more than a static binary needs")
	}
	user := ""
	for _, command := range last.Commands {
		switch c := command.(type) {
		case *instructions.UserCommand:
			user = c.User
		case *instructions.EntrypointCommand:
			if c.PrependShell {
				problems = append(problems, "ENTRYPOINT needs a shell, which the image does not have")
			}
		case *instructions.RunCommand:
			problems = append(problems, "something runs in the image that is shipped")
		case *instructions.CopyCommand:
			if !slices.ContainsFunc(stages, func(s instructions.Stage) bool { return s.Name == c.From && c.From != "" }) {
				problems = append(problems, "the image takes a file from "+c.From+", which is no stage")
			}
		}
	}
	if uid, _, _ := strings.Cut(user, ":"); uid == "" || uid == "0" || strings.Trim(uid, "0123456789") != "" {
		problems = append(problems, "USER is no number above 0, so Kubernetes cannot tell that it is not root")
	}
	return problems
}
