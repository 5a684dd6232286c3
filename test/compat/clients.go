package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Persons of the clients. The numbers are of the range reserved for fiction.
const (
	typeScriptPhone = "+12025550131"
	goPhone         = "+12025550132"
)

// judgeTypeScript has openapi-typescript make a client, compiles client.mts with it, and plays it.
func judgeTypeScript(ctx context.Context, s *site) ([]result, error) {
	const tool = "openapi-typescript"
	installed, err := version(tool)
	if err != nil {
		return nil, err
	}
	if err := download(ctx, s); err != nil {
		return nil, err
	}
	common := result{Tool: tool, Version: installed}
	results := []result{
		built(common, "generate", command(
			ctx, "node_modules/.bin/openapi-typescript", descriptionFile, "--output", filepath.Join(generated, "openapi.d.ts"))),
		built(common, "compile with tsc --strict", command(ctx, "node_modules/.bin/tsc", "--project", ".")),
	}
	if slices.ContainsFunc(results, func(r result) bool { return r.Outcome == failed }) {
		return results, nil
	}
	played, err := node(ctx, tool, "client.mjs", playing(s, typeScriptPhone)...)
	return append(results, played...), err
}

// judgeGo has oapi-codegen make a client, compiles goclient with it, and plays it.
func judgeGo(ctx context.Context, s *site) ([]result, error) {
	const tool = "oapi-codegen"
	if out, err := goCommand(ctx, "mod", "download").CombinedOutput(); err != nil {
		if bytes.Contains(out, []byte("checksum mismatch")) {
			return nil, fmt.Errorf("go mod download: %w\n%s", err, out)
		}
		return nil, &unavailableError{fmt.Sprintf("go mod download: %v\n%s", err, out)}
	}
	installed, err := goCommand(ctx, "list", "-m", "-f", "{{.Version}}", "github.com/oapi-codegen/oapi-codegen/v2").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(folder, goClient, generated), 0o750), download(ctx, s)); err != nil {
		return nil, err
	}
	common := result{Tool: tool, Version: strings.TrimSpace(string(installed))}
	client := filepath.Join(generated, "client") // of the folder that goCommand is in
	results := []result{
		built(common, "generate", goCommand(ctx, "tool", tool, "-config", "oapi-codegen.yaml", filepath.Join("..", descriptionFile))),
		built(common, "compile", goCommand(ctx, "build", "-o", client, ".")),
	}
	if slices.ContainsFunc(results, func(r result) bool { return r.Outcome == failed }) {
		return results, nil
	}
	cmd := command(ctx, filepath.Join(".", goClient, client))
	cmd.Env = append(os.Environ(), playing(s, goPhone)...)
	played, err := printed(ctx, cmd, common)
	return append(results, played...), err
}

// goClient is the module of the client, in the folder of package.json. It is outside go.work, as most of it is generated here.
const goClient = "goclient"

func goCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := command(ctx, "go", append([]string{"-C", goClient}, args...)...)
	cmd.Env = append(os.Environ(), "GOWORK=off")
	return cmd
}

// playing returns what a client has to know.
func playing(s *site, phone string) []string {
	return []string{
		"GATEWAY_URL=" + s.services.URL(), "OPERATOR_TOKEN=" + s.operator, "PHONE_URL=" + s.vendors.TwilioURL, "PHONE=" + phone,
	}
}

// built returns what came of a program that makes something: what it said is the note of one that failed.
func built(r result, call string, cmd *exec.Cmd) result {
	r.Call, r.Outcome = call, passed
	if out, err := cmd.CombinedOutput(); err != nil {
		r.Outcome, r.Note = failed, fmt.Sprintf("%v: %.2000s", err, out)
	}
	return r
}
