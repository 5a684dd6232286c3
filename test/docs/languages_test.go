package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/letters"
	"paceline.internal/platform/reading/languages"
)

// mostFiles is the most files that a language may take.
const mostFiles = 12

// TestLanguages holds the list of files of CONTRIBUTING.md to the languages that we have, and the words of a language out of code.
func TestLanguages(t *testing.T) {
	t.Parallel()
	t.Run("CONTRIBUTINGListsTheFiles", func(t *testing.T) {
		t.Parallel()
		_, section, found := strings.Cut(read(t, "CONTRIBUTING.md"), "**A language**")
		require.True(t, found)
		section, _, _ = strings.Cut(section, "\n**")
		listed := regexp.MustCompile("`([a-z]+/[^`]*\\.[a-z]+)`").FindAllStringSubmatch(section, -1)
		require.NotEmpty(t, listed)
		require.LessOrEqual(t, len(listed), mostFiles)
		for _, file := range listed {
			for _, locale := range languages.Written() {
				// The corpora and the words of time are named by the language alone.
				pattern := strings.NewReplacer("LOCALE", locale, "LANGUAGE", languages.Base(locale), "VERSION", "*").Replace(file[1])
				names, err := filepath.Glob(filepath.Join(root, pattern))
				require.NoError(t, err)
				require.NotEmpty(t, names, pattern)
			}
		}
	})
	t.Run("CodeHasNoWordsOfOne", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{"pt-BR", "pt", "(?:please|por favor)", "s'il vous plaît"} {
			require.NotEmpty(t, wordOfLanguage(text), text)
		}
		var found []string
		for _, folder := range []string{"deploy", "gateway", "platform", "services"} {
			require.NoError(t, filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
				if err == nil && codeWithoutWords(path, entry) {
					found = append(found, wordsOfLanguages(t, path)...)
				}
				return err
			}))
		}
		require.Empty(t, found, "move them into the file of their language: CONTRIBUTING.md, How to add, A language")
	})
}

// codeWithoutWords reports whether a file is code that may have no words of one language.
func codeWithoutWords(path string, entry fs.DirEntry) bool {
	for _, exempt := range []string{
		"_test.go", "/gen/", "/onboardingtest/",
		"/roster/file.go", // spellings of columns, in as many languages as we have seen
	} {
		if strings.Contains(path, exempt) {
			return false
		}
	}
	return !entry.IsDir() && filepath.Ext(path) == ".go"
}

var tag = regexp.MustCompile(`\b[a-z]{2}-[A-Z]{2}\b`)

// wordsOfLanguages returns the literals of a file that name a language other than the first, or have words of one.
func wordsOfLanguages(t *testing.T, path string) (found []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	require.NoError(t, err)
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			return node.Tag == nil // the help of a setting may give an example
		case *ast.BasicLit:
			text, err := strconv.Unquote(node.Value)
			if node.Kind != token.STRING || err != nil {
				return true
			}
			if word := wordOfLanguage(text); word != "" {
				found = append(found, fmt.Sprintf("%s: %q has %q", path, text, word))
			}
		}
		return true
	})
	return found
}

// wordOfLanguage returns a word or a name in a text that only a language other than the first has.
func wordOfLanguage(text string) string {
	if found := tag.FindString(text); found != "" && !strings.Contains(text, "such as ") { // an example for a reader
		return found
	}
	said := " " + strings.Join(letters.Words(text), " ") + " "
	for _, l := range languages.All()[1:] {
		if base := languages.Base(l.Locale); text == base {
			return base
		}
		for _, key := range []string{"affirmation", "refusal", "courtesy", "stop", "help"} {
			for _, line := range l.Lines(key) {
				if len(line) > 3 && !languages.All()[0].Has(key, line) && strings.Contains(said, " "+line+" ") {
					return line
				}
			}
		}
	}
	return ""
}
