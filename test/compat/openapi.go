package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// generated lists what tools make of /openapi.yaml, and the description itself. It is not committed.
const generated = "generated"

// descriptionFile is /openapi.yaml as the running gateway serves it, in the folder of package.json.
var descriptionFile = filepath.Join(generated, "openapi.yaml")

// download keeps the description for the tools that read files.
func download(ctx context.Context, s *site) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.services.URL()+"/openapi.yaml", nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	description, err := io.ReadAll(io.LimitReader(response.Body, 16<<20))
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET /openapi.yaml: %s", response.Status)
	}
	if err := os.MkdirAll(filepath.Join(folder, generated), 0o750); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, descriptionFile), description, 0o600)
}

// remark is a line of a linter.
type remark struct {
	rule  string
	error bool
}

// judgeRedocly lints the description by the recommended rules of Redocly.
func judgeRedocly(ctx context.Context, s *site) ([]result, error) {
	if err := download(ctx, s); err != nil {
		return nil, err
	}
	cmd := command(ctx, "node_modules/.bin/redocly", "lint", descriptionFile, "--extends=recommended", "--format=json")
	cmd.Env = append(os.Environ(), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true")
	out, err := cmd.Output() // its status says whether there are errors
	var found struct {
		Problems []struct {
			Rule     string `json:"ruleId"`
			Severity string `json:"severity"`
		} `json:"problems"`
	}
	if start := bytes.IndexByte(out, '{'); start < 0 || json.Unmarshal(out[start:], &found) != nil {
		return nil, fmt.Errorf("redocly lint: %w\n%s", errors.Join(err, context.Cause(ctx)), out)
	}
	var remarks []remark
	for _, p := range found.Problems {
		remarks = append(remarks, remark{rule: p.Rule, error: p.Severity == "error"})
	}
	return lint("@redocly/cli", "lint, by its recommended rules", remarks)
}

// judgeSpectral lints the description by the ruleset spectral:oas.
func judgeSpectral(ctx context.Context, s *site) ([]result, error) {
	if err := download(ctx, s); err != nil {
		return nil, err
	}
	out, err := command(
		ctx, "node_modules/.bin/spectral", "lint", descriptionFile, "--ruleset=spectral.yaml", "--format=json", "--quiet").Output()
	var found []struct {
		Code     string `json:"code"`
		Severity int    `json:"severity"`
	}
	if json.Unmarshal(out, &found) != nil {
		return nil, fmt.Errorf("spectral lint: %w\n%s", errors.Join(err, context.Cause(ctx)), out)
	}
	var remarks []remark
	for _, p := range found {
		remarks = append(remarks, remark{rule: p.Code, error: p.Severity == 0})
	}
	return lint("@stoplight/spectral-cli", "lint, by spectral:oas", remarks)
}

// lint fails for an error; a warning is noted.
func lint(tool, call string, remarks []remark) ([]result, error) {
	installed, err := version(tool)
	if err != nil {
		return nil, err
	}
	r := result{Tool: tool, Version: installed, Call: call, Outcome: passed}
	rules, errorCount := map[string]int{}, 0
	for _, found := range remarks {
		rules[found.rule]++
		if found.error {
			errorCount++
			r.Outcome = failed
		}
	}
	r.Note = fmt.Sprintf("%d errors, %d warnings", errorCount, len(remarks)-errorCount)
	var said []string
	for _, rule := range slices.Sorted(maps.Keys(rules)) {
		said = append(said, fmt.Sprintf("%d of %s", rules[rule], rule))
	}
	if len(said) > 0 {
		r.Note += ": " + strings.Join(said, ", ")
	}
	return []result{r}, nil
}
