package docs_test

import (
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCommands checks that the commands in the documents exist and are those that CI runs.
func TestCommands(t *testing.T) {
	t.Parallel()
	t.Run("ReadmeNamesOneTestCommandThatCIReads", func(t *testing.T) {
		t.Parallel()
		command := regexp.MustCompile(`(?m)^go test .*$`)
		require.Len(t, command.FindAllString(read(t, "README.md"), -1), 1)
		require.Contains(t, read(t, ".ci/run"), `grep -m1 '^go test ' README.md`)
	})
	t.Run("EveryProgramThatIsRunExists", func(t *testing.T) {
		t.Parallel()
		program := regexp.MustCompile(`go (?:run|build|install) (\./[\w/-]+)`)
		for _, name := range documents(t) {
			for _, match := range program.FindAllStringSubmatch(read(t, name), -1) {
				require.DirExists(t, filepath.Join(root, match[1]), "%s says %q", name, match[0])
			}
		}
	})
	t.Run("EveryMakeTargetExists", func(t *testing.T) {
		t.Parallel()
		makefile := read(t, "Makefile")
		target := regexp.MustCompile("`make ([a-z-]+)")
		for _, name := range documents(t) {
			for _, match := range target.FindAllStringSubmatch(read(t, name), -1) {
				require.Regexp(t, `(?m)^`+match[1]+`:`, makefile, "%s says make %s", name, match[1])
			}
		}
	})
}

// TestLinks follows every relative link of the documents to a file, and every fragment to a heading.
func TestLinks(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, name := range documents(t) {
		for _, match := range link.FindAllStringSubmatch(read(t, name), -1) {
			target, err := url.Parse(match[1])
			require.NoError(t, err, "%s links to %s", name, match[1])
			if target.IsAbs() {
				continue
			}
			file := name
			if target.Path != "" {
				file = path.Join(path.Dir(name), target.Path)
			}
			_, err = os.Stat(filepath.Join(root, file))
			require.NoError(t, err, "%s links to %s", name, match[1])
			if target.Fragment != "" {
				require.Contains(t, anchors(read(t, file)), target.Fragment, "%s links to %s", name, match[1])
			}
		}
	}
}

// TestDecisions checks the form and the size of docs/adr: each record has a number, is listed and has every part. Numbers
// may have gaps, because records that are merged keep one number.
func TestDecisions(t *testing.T) {
	t.Parallel()
	records, err := filepath.Glob(filepath.Join(root, "docs/adr/[0-9]*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, records)
	require.LessOrEqual(t, len(records), 22, "merge or drop a record")
	index := read(t, "docs/adr/README.md")
	words := len(strings.Fields(index))
	taken := map[string]string{}
	for _, record := range records {
		name := filepath.Base(record)
		require.Regexp(t, `^\d{4}-[a-z0-9-]+\.md$`, name)
		require.Empty(t, taken[name[:4]], "%s has the same number", name)
		taken[name[:4]] = name
		text := read(t, "docs/adr/"+name)
		title, _, _ := strings.Cut(strings.TrimPrefix(text, "# "), "\n")
		require.True(t, strings.HasPrefix(title, name[:4]+": "), name)
		require.Contains(t, index, "["+title+"]("+name+")", "docs/adr/README.md does not list it")
		require.Regexp(t, `(?m)^Status: \w+`, text, name)
		count := len(strings.Fields(text))
		require.LessOrEqual(t, count, 320, "%s is longer than a screen", name)
		words += count
		for _, heading := range []string{"## Context", "## Decision", "## Consequences", "## Rejected"} {
			require.Contains(t, text, "\n"+heading+"\n", name)
		}
	}
	require.LessOrEqual(t, words, 4450, "shorten a record")
}

// mostWords bounds the documents together. A fact stands once, in the page of its reader.
const mostWords = 38_000

// TestSize counts the words of all documents, code and tables included.
func TestSize(t *testing.T) {
	t.Parallel()
	words := 0
	for _, name := range documents(t) {
		words += len(strings.Fields(read(t, name)))
	}
	require.LessOrEqual(t, words, mostWords, "shorten or merge a page")
}

// TestChangelog checks that CHANGELOG.md has the form of Keep a Changelog.
func TestChangelog(t *testing.T) {
	t.Parallel()
	text := read(t, "CHANGELOG.md")
	require.Contains(t, text, "\n## [Unreleased]\n")
	release := regexp.MustCompile(`^## \[(Unreleased|\d+\.\d+\.\d+)\]( - \d{4}-\d{2}-\d{2})?$`)
	section := regexp.MustCompile(`^### (Added|Changed|Deprecated|Removed|Fixed|Security)$`)
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "### "):
			require.Regexp(t, section, line)
		case strings.HasPrefix(line, "## "):
			require.Regexp(t, release, line)
		}
	}
}

// TestModules compares the list of modules with the tree: what is not in go.work is not built, linted or tested.
func TestModules(t *testing.T) {
	t.Parallel()
	work := read(t, "go.work")
	for _, file := range files(t, "go.mod") {
		module := path.Dir(file)
		// Outside go.work on purpose: docs/adr/0001; and a client with code that is generated when it is judged.
		if module == "tools" || module == "test/compat/goclient" {
			require.NotContains(t, work, "./"+module+"\n")
			continue
		}
		require.Contains(t, work, "\t./"+module+"\n")
		require.Contains(t, read(t, file), "module paceline.internal/"+module+"\n")
	}
}

// root is the folder of go.work.
const root = "../.."

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	require.NoError(t, err)
	return string(text)
}

// documents are the Markdown files of the repository.
func documents(t *testing.T) []string {
	t.Helper()
	names := files(t, ".md")
	require.NotEmpty(t, names)
	return names
}

// files are the files of the repository with names that end so, relative to the root, with slashes.
func files(t *testing.T, suffix string) []string {
	t.Helper()
	var names []string
	tree := os.DirFS(root)
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || entry.Name() == "node_modules"):
			return fs.SkipDir
		case !entry.IsDir() && strings.HasSuffix(name, suffix):
			names = append(names, name)
		}
		return nil
	})
	require.NoError(t, err)
	return names
}

// anchors are the fragments that a Markdown text's headings can be linked by.
func anchors(text string) []string {
	var found []string
	drop := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for line := range strings.Lines(text) {
		if heading := strings.TrimLeft(line, "#"); heading != line && strings.HasPrefix(heading, " ") {
			heading = strings.ToLower(drop.ReplaceAllString(strings.TrimSpace(heading), ""))
			found = append(found, strings.ReplaceAll(heading, " ", "-"))
		}
	}
	return found
}
