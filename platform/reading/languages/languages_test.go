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
	form     string
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
		all[column[0]] = key{form: column[1], required: column[2] == "required"}
	}
	return all
}

// problems returns what is wrong with the files of some languages.
func problems(from fs.FS, locales []string, keys map[string]key) (found []string) {
	report := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	for _, locale := range locales {
		content, err := fs.ReadFile(from, locale+".tsv")
		if err != nil {
			return append(found, err.Error())
		}
		for line := range strings.Lines(string(content)) {
			name, value, split := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			switch {
			case strings.HasPrefix(line, "# "):
			case !split, value == "", value != strings.TrimSpace(value):
				report("%s: a line is not a key, a tab and a value: %q", locale, line)
			case keys[name].form == "":
				report("%s: unknown key %s", locale, name)
			case keys[name].form == "words" && value != strings.Join(letters.Words(value), " "):
				report("%s: not folded: %s", locale, value)
			}
		}
	}
	all := Read(from, locales)
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
				if keys[name].form != "pattern" {
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
	known := keys(t)
	require.Empty(t, problems(files, index("locale"), known))
	for name, k := range known {
		known[name] = key{form: k.form}
	}
	require.Empty(t, problems(files, []string{"others"}, known))
	names, err := fs.Glob(files, "*.tsv")
	require.NoError(t, err)
	require.Len(t, names, len(All())+len([]string{"index.tsv", "keys.tsv", "others.tsv"}), "index.tsv misses a language")
}

// TestVersion checks that the version was raised with every change: its hash is over what it names.
func TestVersion(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("../*.bin")
	require.NoError(t, err)
	for _, l := range All() {
		names = append(names, l.Locale+".tsv")
	}
	names = append(names, "others.tsv")
	hash := sha256.New()
	fmt.Fprintln(hash, Version())
	for _, name := range names {
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		fmt.Fprintf(hash, "%s %d\n%s", name, len(content), content)
	}
	want := fmt.Sprintf("%x", hash.Sum(nil))
	require.Equal(t, []string{want}, index("hash"), "raise the version in index.tsv, then write this hash there")
}

func TestProblems(t *testing.T) {
	t.Parallel()
	known := map[string]key{"stop": {form: "words", required: true}, "refusal": {form: "words"}, "clear": {form: "pattern"}}
	for _, tt := range []struct{ name, content, want string }{
		{"UnknownKey", "stop\tend\nstopp\tquit\n", "b: unknown key stopp"},
		{"MissingKey", "refusal\tno\n", "b: misses stop"},
		{"NotFolded", "stop\tArrêt\n", "b: not folded: Arrêt"},
		{"Twice", "stop\tend\nstop\tend\n", "b: stop twice: end"},
		{"ReadDifferently", "stop\tend\nrefusal\tstop\n", "stop is read differently"},
		{"NoKey", "stop\tend\nquit\n", "b: a line is not a key"},
		{"UnknownPart", "stop\tend\nclear\t{me}\n", "b: unknown part {me}"},
		{"NoPattern", "stop\tend\nclear\t(\n", "b: clear: error parsing regexp"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			of := func(content string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(content)} }
			from := fstest.MapFS{"a.tsv": of("stop\tstop\n"), "b.tsv": of("stop\tend\n")}
			require.Empty(t, problems(from, []string{"a", "b"}, known))
			from["b.tsv"] = of(tt.content)
			require.Contains(t, strings.Join(problems(from, []string{"a", "b"}, known), "\n"), tt.want)
		})
	}
}

// TestPlain holds that words which give up a thing, or call it wrong, are plain alone, and not with a number or a person.
func TestPlain(t *testing.T) {
	t.Parallel()
	plain := Together().Regexp(`^{plain}$`)
	for want, texts := range map[bool][]string{
		true: {
			"never mind", "forget it", "forget about it", "wrong", "that's wrong", "no, wrong", "incorrect", "wrong date", "esquece", "Esquece isso",
			"ah, esquece", "deixa", "deixa pra lá", "deixa quieto", "errado", "tá errado", "isso está errado", "olvídalo", "déjalo", "incorrecto",
			"está mal", "laisse tomber", "laissez", "oublie ça", "faux",
		},
		false: {
			"forget me", "forget my number", "wrong number", "wrong person", "wrong guy", "wrong, I never signed up", "esquece meu número", "esqueçam de mim",
			"me esquece", "esquece, para de mandar", "deixa de mandar", "me deixa em paz", "número errado", "errado, não sou a Ana", "olvídenme",
			"olvida mi número", "déjame en paz", "equivocado", "laisse-moi tranquille", "oubliez-moi", "oubliez mon numéro", "faux numéro",
		},
	} {
		for _, text := range texts {
			require.Equal(t, want, plain.MatchString(strings.Join(letters.Words(letters.Joined(text)), " ")), text)
		}
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
