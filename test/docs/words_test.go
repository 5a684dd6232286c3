package docs_test

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// private are the phrases of a private English. Most readers are not native speakers: name the verb that the phrase hides.
var private = regexp.MustCompile(`(?i)\b(?:(?:is|are) (?:what|who|how|when|whose|whether)|of (?:its|their|our|his|her|your) own|of (?:theirs|ours)|` +
	`^\w+ (?:says|tells) (?:what|who|how|when|whose|whether)|be(?:comes|came|come) of|comes? of it|beside|parted by|save that|be it)\b`)

// whose is a word that most sentences do better without.
var whose = regexp.MustCompile(`(?i)\bwhose\b`)

// mostWhose bounds the comments that have it.
const mostWhose = 10

// TestWords reads every comment of our Go code.
func TestWords(t *testing.T) {
	t.Parallel()
	count := 0
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "gen" || entry.Name() == "generated" || entry.Name() == "testdata" || entry.Name() == ".git"):
			return filepath.SkipDir
		case entry.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		for _, comment := range comments(t, path) {
			for _, at := range private.FindAllStringIndex(comment, -1) {
				t.Errorf("%s: %q", path, comment[max(0, at[0]-60):min(len(comment), at[1]+40)])
			}
			count += len(whose.FindAllString(comment, -1))
		}
		return nil
	}))
	require.LessOrEqual(t, count, mostWhose, "so many comments say whose")
}

// comments lists the comments of a file; the lines of one are joined, so that no phrase hides in a line break.
func comments(t *testing.T, path string) (all []string) {
	t.Helper()
	source, err := os.ReadFile(path)
	require.NoError(t, err)
	var scan scanner.Scanner
	files := token.NewFileSet()
	file := files.AddFile(path, -1, len(source))
	scan.Init(file, source, nil, scanner.ScanComments)
	last := 0
	for {
		pos, tok, text := scan.Scan()
		if tok == token.EOF {
			return all
		}
		if tok != token.COMMENT || strings.HasPrefix(text, "//go:") {
			continue
		}
		text = strings.TrimSpace(strings.TrimPrefix(text, "//"))
		line := file.Line(pos)
		if len(all) > 0 && line == last+1 {
			all[len(all)-1] += " " + text
		} else {
			all = append(all, text)
		}
		last = line
	}
}
