// Package catalog holds the texts that onboarding and engagement send: in every language, checked before anything runs.
package catalog

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"paceline.internal/platform/letters"
)

// What a catalog is refused with, and what Render and Check may answer.
var (
	ErrCopy           = errors.New("copy refused")
	ErrUnknownVersion = errors.New("unknown copy version")
	ErrUnknownText    = errors.New("unknown text")
	ErrParams         = errors.New("parameters refused")
	ErrBlankName      = errors.New("the text greets by first name and the profile has none: set first_name")
)

// fallback is the language that every version has and that an unknown one falls back to.
const fallback = "en"

// Catalog is the texts of onboarding in every version. The zero value holds none; Load and Default make one, and it never changes.
type Catalog struct {
	editions map[string]edition // by version
}

// edition is one version: locale, key, text.
type edition map[string]map[string]string

//go:embed copy/*.json engagement/*.json
var embedded embed.FS

// builtIn is a folder of the embedded copy.
func builtIn(folder string) fs.FS {
	files, err := fs.Sub(embedded, folder)
	if err != nil {
		panic(err) // the embedded files are part of the program, and a test reads them
	}
	return files
}

// Default returns the catalog that is built in.
func Default() Catalog { return defaultCatalog() }

var defaultCatalog = sync.OnceValue(func() Catalog {
	catalog, err := Load(builtIn("copy"))
	if err != nil {
		panic(err)
	}
	return catalog
})

// Load reads the files <version>.<locale>.json at the root of files, each an object of texts by key. A version is a
// date, 2026-11 or 2026-11-20. Every problem of every file is reported at once, each wrapping ErrCopy: a missing text or
// language, an unknown placeholder, a text that is too long or that says what we do not say.
func Load(files fs.FS) (Catalog, error) {
	catalog, problems := readFiles(files)
	for _, version := range catalog.Versions() {
		for _, problem := range catalog.editions[version].problems(onboardingSet()) {
			problems = append(problems, fmt.Errorf("%w: version %s: %s", ErrCopy, version, problem))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return Catalog{}, err
	}
	return catalog, nil
}

// readFiles reads every copy file at the root of files, and tells what is wrong with their names and their form.
func readFiles(files fs.FS) (Catalog, []error) {
	catalog := Catalog{editions: map[string]edition{}}
	names, err := fs.Glob(files, "*.json")
	if err != nil {
		return catalog, []error{fmt.Errorf("%w: %w", ErrCopy, err)}
	}
	var problems []error
	for _, name := range names {
		if err := catalog.add(files, name); err != nil {
			problems = append(problems, fmt.Errorf("%w: %s: %w", ErrCopy, name, err))
		}
	}
	if len(names) == 0 {
		problems = append(problems, fmt.Errorf("%w: there are no files such as 2026-11.en.json", ErrCopy))
	}
	return catalog, problems
}

// add reads one file into its edition.
func (c Catalog) add(files fs.FS, name string) error {
	version, locale, _ := strings.Cut(strings.TrimSuffix(name, ".json"), ".")
	if !validVersion(version) || !validLocale(locale) {
		return errors.New("a file is named <version>.<locale>.json, such as 2026-11.pt-BR.json")
	}
	content, err := fs.ReadFile(files, name)
	if err != nil {
		return err
	}
	var texts map[string]string
	if err := json.Unmarshal(content, &texts); err != nil {
		return err
	}
	for key, text := range texts {
		texts[key] = letters.Plain(letters.Compose(text)) // as editors write it, one quotation mark may double the price of a text
	}
	if c.editions[version] == nil {
		c.editions[version] = edition{}
	}
	c.editions[version][locale] = texts
	return nil
}

// Current is the newest version, which new sessions begin with. A session keeps the version it began with, so that new
// copy never changes a text between a crash and its retry.
func (c Catalog) Current() string { return slices.Max(append(c.Versions(), "")) }

// Versions lists the versions, oldest first.
func (c Catalog) Versions() []string { return slices.Sorted(maps.Keys(c.editions)) }

// Locales lists the languages of a version.
func (c Catalog) Locales(version string) []string {
	return slices.Sorted(maps.Keys(c.editions[version]))
}

// Has reports whether a version has a text.
func (c Catalog) Has(version, key string) bool {
	_, found := c.editions[version][fallback][key]
	return found
}

// Render is the text of a key for one person. An unknown locale falls back to its language and then to English. Errors:
// ErrUnknownVersion, ErrUnknownText, and ErrBlankName when the text needs a name and nothing readable is left of it.
func (c Catalog) Render(version, locale, key, firstName string) (string, error) {
	texts, found := c.editions[version]
	if !found {
		return "", fmt.Errorf("%w %.40q: this build has %s", ErrUnknownVersion, version, strings.Join(c.Versions(), ", "))
	}
	text, found := texts[texts.closest(locale)][key]
	if !found {
		return "", fmt.Errorf("%w %.60q in version %s", ErrUnknownText, key, version)
	}
	if !strings.Contains(text, placeholder) {
		return text, nil
	}
	name := ReadableName(firstName)
	if name == "" {
		return "", fmt.Errorf("%w (%s)", ErrBlankName, key)
	}
	return letters.Compose(strings.ReplaceAll(text, placeholder, name)), nil
}

// closest is the edition's locale for a wanted one: the same, else one of the same language, else English.
func (e edition) closest(wanted string) string {
	wanted = strings.ToLower(strings.ReplaceAll(wanted, "_", "-"))
	language, _, _ := strings.Cut(wanted, "-")
	best := fallback
	for _, locale := range slices.Backward(slices.Sorted(maps.Keys(e))) {
		switch has, _, _ := strings.Cut(strings.ToLower(locale), "-"); {
		case strings.ToLower(locale) == wanted:
			return locale
		case has == language:
			best = locale
		}
	}
	return best
}

// maxName is the most UTF-16 code units of a name that are used. Every text is checked with a name of this length.
const maxName = 20

// ReadableName returns the name for a greeting: letters, marks, digits, hyphens and apostrophes, single spaces. Everything else,
// such as line breaks, braces, emoji, and what would make a link, is left out, and whole words are left out at the end
// of a long name. It is empty when nothing is left.
func ReadableName(raw string) string {
	name := wholeWords(strings.Map(readableRune, raw), maxName)
	if strings.ContainsFunc(name, unicode.IsLetter) {
		return name
	}
	return ""
}

// readableRune keeps what a name is made of, and gives -1 for the rest.
func readableRune(r rune) rune {
	switch {
	case strings.ContainsRune("’‘ʼ", r):
		return '\'' // a typographic one would cost the text its GSM-7 alphabet
	case r == '‐' || r == '‑':
		return '-'
	case unicode.IsLetter(r), unicode.IsMark(r), unicode.IsDigit(r), r == '-', r == '\'':
		return r
	case unicode.IsSpace(r), unicode.IsControl(r):
		return ' '
	}
	return -1
}

// wholeWords is the words that fit limit units, with single spaces. Only a first word that is too long is cut.
func wholeWords(text string, limit int) string {
	kept := ""
	for i, word := range strings.Fields(text) {
		if i == 0 {
			kept = firstUnits(word, limit)
			continue
		}
		if units(kept)+1+units(word) > limit {
			break
		}
		kept += " " + word
	}
	return kept
}

func validVersion(version string) bool {
	for _, layout := range []string{"2006-01", time.DateOnly} {
		if _, err := time.Parse(layout, version); err == nil {
			return true
		}
	}
	return false
}

func validLocale(locale string) bool {
	return locale != "" && strings.Trim(locale, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-") == ""
}
