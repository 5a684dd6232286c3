package guardrails_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/test/guardrails"
)

var (
	folderOfService = regexp.MustCompile(`^(services/\w+)/$`)
	pureFolder      = regexp.MustCompile(`^  (\w+)/ +pure: `)
)

func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), "docs", name))
	require.NoError(t, err)
	return string(text)
}

// TestDocuments holds docs/architecture.md and docs/testing.md to the rules.
func TestDocuments(t *testing.T) {
	t.Parallel()
	dependOnTree(t)

	t.Run("WhatTheArchitectureCallsPureIsHeldPure", func(t *testing.T) {
		t.Parallel()
		var service string
		var pure []string
		for line := range strings.Lines(document(t, "architecture.md")) {
			if folder := folderOfService.FindStringSubmatch(strings.TrimSuffix(line, "\n")); folder != nil {
				service = folder[1]
			}
			if folder := pureFolder.FindStringSubmatch(line); folder != nil {
				pure = append(pure, "paceline.internal/"+service+"/"+folder[1])
			}
		}
		require.ElementsMatch(t, guardrails.Pure(), pure)
	})

	t.Run("EveryGuardrailIsDescribed", func(t *testing.T) {
		t.Parallel()
		rows := regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(document(t, "testing.md"), -1)
		var described, all []string
		for _, row := range rows {
			described = append(described, strings.ToLower(row[1]))
		}
		for _, guardrail := range guardrails.All() {
			all = append(all, guardrail.Name)
		}
		require.Equal(t, all, described)
	})
}
