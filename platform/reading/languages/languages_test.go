package languages

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/letters"
)

type key struct {
	file     string
	required bool
}

func keys(t *testing.T) map[string]key {
	t.Helper()
	content, err := os.ReadFile("keys.tsv")
	require.NoError(t, err)
	all := map[string]key{}
	for line := range strings.Lines(string(content)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		column := strings.Split(strings.TrimSpace(line), "\t")
		require.Len(t, column, 4, line)
		require.NotContains(t, all, column[0])
		all[column[0]] = key{file: column[1], required: column[2] == "required"}
	}
	return all
}

// problems returns what is wrong with the folders of languages.
func problems(from fs.FS, keys map[string]key) (found []string) {
	report := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	names, _ := fs.Glob(from, "*/*.tsv")
	for _, name := range names {
		locale, of, _ := strings.Cut(strings.TrimSuffix(name, ".tsv"), "/")
		if !slices.Contains(strings.Fields(file(from, "order.txt")), locale) {
			report("%s: not in order.txt", locale)
		}
		for line := range strings.Lines(file(from, name)) {
			name, value, split := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			switch {
			case strings.HasPrefix(line, "# "):
			case !split, value == "", value != strings.TrimSpace(value):
				report("%s: a line is not a key, a tab and a value: %q", locale, line)
			case keys[name].file != of:
				report("%s/%s: unknown key %s", locale, of, name)
			case of == "words" && value != strings.Join(letters.Words(value), " "):
				report("%s: not folded: %s", locale, value)
			}
		}
	}
	all := read(from)
	for _, l := range all {
		for name, k := range keys {
			if k.required && len(l.lines[name]) == 0 {
				report("%s: misses %s", l.Locale, name)
			}
		}
		for name, lines := range l.lines {
			for i, line := range lines {
				if slices.Contains(lines[:i], line) {
					report("%s: %s twice: %s", l.Locale, name, line)
				}
				if of := keys[name].file; of == "words" || of == "replies" || of == "phones" || of == "classes" {
					continue
				}
				for _, part := range reference.FindAllString(line, -1) {
					if len(l.lines[strings.Trim(part, "{}")]) == 0 {
						report("%s: unknown part %s", l.Locale, part)
					}
				}
				if _, err := syntax.Parse(l.filled(line, 0), syntax.Perl); err != nil {
					report("%s: %s: %v", l.Locale, name, err)
				}
			}
		}
	}
	return append(found, conflicts(all)...)
}

// conflicts are words that two languages read differently, or that both stop and do something else.
func conflicts(all []Language) (found []string) {
	wholes := []string{"stop", "start", "restore", "help", "courtesy", "affirmation", "refusal"}
	means := map[string]map[string][]string{}
	for _, l := range all {
		for _, name := range wholes {
			for _, word := range l.lines[name] {
				if means[word] == nil {
					means[word] = map[string][]string{}
				}
				means[word][l.Locale] = append(means[word][l.Locale], name)
			}
		}
	}
	for word, in := range means {
		var first []string
		for _, locale := range in {
			if first == nil {
				first = locale
			}
			if !slices.Equal(first, locale) || len(locale) > 1 && slices.Contains(locale, "stop") {
				found = append(found, fmt.Sprintf("%s is read differently: %v", word, in))
			}
		}
	}
	return found
}

func TestLanguages(t *testing.T) {
	t.Parallel()
	require.Empty(t, problems(files, keys(t)))
}

// TestVersion checks that version.txt was raised with every change: version.sum names it with the hash of what it stands for.
func TestVersion(t *testing.T) {
	t.Parallel()
	hash := sha256.New()
	for _, pattern := range []string{"order.txt", "*/*.tsv", "../*.bin"} {
		names, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, name := range names {
			content, err := os.ReadFile(name)
			require.NoError(t, err)
			fmt.Fprintf(hash, "%s %d\n%s", name, len(content), content)
		}
	}
	sum, err := os.ReadFile("version.sum")
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("%s %x\n", Version(), hash.Sum(nil)), string(sum), "raise version.txt, then write this into version.sum")
}

func TestProblems(t *testing.T) {
	t.Parallel()
	known := map[string]key{"stop": {file: "words", required: true}, "refusal": {file: "words"}, "clear": {file: "consent"}}
	for _, tt := range []struct{ name, path, content, want string }{
		{"UnknownKey", "b/words.tsv", "stop\tend\nstopp\tquit\n", "b/words: unknown key stopp"},
		{"KeyInAnotherFile", "b/words.tsv", "stop\tend\nclear\tquit\n", "b/words: unknown key clear"},
		{"MissingKey", "b/words.tsv", "refusal\tno\n", "b: misses stop"},
		{"MissingLanguage", "c/words.tsv", "stop\tend\n", "c: not in order.txt"},
		{"NotFolded", "b/words.tsv", "stop\tArrêt\n", "b: not folded: Arrêt"},
		{"Twice", "b/words.tsv", "stop\tend\nstop\tend\n", "b: stop twice: end"},
		{"ReadDifferently", "b/words.tsv", "stop\tend\nrefusal\tstop\n", "stop is read differently"},
		{"NoKey", "b/words.tsv", "stop\tend\nquit\n", "b: a line is not a key"},
		{"UnknownPart", "b/consent.tsv", "clear\t{me}\n", "b: unknown part {me}"},
		{"NoPattern", "b/consent.tsv", "clear\t(\n", "b: clear: error parsing regexp"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			of := func(content string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(content)} }
			from := fstest.MapFS{"order.txt": of("a\nb\n"), "a/words.tsv": of("stop\tstop\n"), "b/words.tsv": of("stop\tend\n")}
			require.Empty(t, problems(from, known))
			from[tt.path] = of(tt.content)
			require.Contains(t, strings.Join(problems(from, known), "\n"), tt.want)
		})
	}
}

func TestGuess(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"leave me be": "en", "chega de mensagem": "pt-BR", "ya no quiero nada": "es", "je ne veux plus": "fr", "": "en", "xyz": "en",
	} {
		require.Equal(t, want, Guess(letters.Words(text)), text)
	}
}
