package flow

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf16"

	"go.yaml.in/yaml/v3"

	"paceline.internal/platform/letters"
	"paceline.internal/platform/reading/languages"
)

// edition holds the texts of one language.
type edition struct {
	Texts   map[string]string   // by key
	Choices map[string][]string // the words for a choice, the first as it is shown
	Person  []string            // words that ask for a person, with those that always do
	cut     []string            // the texts that a comment follows
	lines   map[string]int      // where each text stands, each choice by choiceKey, and the keys of the file with a colon
}

// choiceKey is the key of a choice among the lines of an edition.
func choiceKey(choice string) string { return "choices: " + choice }

// placeholder is a value in a text with its fallback, for a person who has none: {first_name|friend}.
var placeholder = regexp.MustCompile(`\{([a-z_][a-z0-9_]*)(?:\|([^{}|]*))?\}`)

// FirstName is the placeholder of the person's name.
const FirstName = "first_name"

// maxName limits the characters of a name that are used.
const maxName = 20

// readTexts reads the file of each language.
func (f *Flow) readTexts(folder fs.FS, files map[string][]byte, found *Problems) {
	f.texts = map[string]edition{}
	for _, language := range f.Languages {
		name := language + ".yaml"
		source, err := readFile(folder, name)
		if err != nil {
			if _, other := fs.Stat(folder, language+".yml"); other == nil {
				err = fmt.Errorf("%w; rename %s.yml", err, language)
			}
			found.addf(name, 0, "%s", err)
			continue
		}
		files[name] = source
		if doc := parseYAML(name, source, found); doc != nil {
			f.texts[language] = readEdition(name, doc, found)
		}
	}
}

// readEdition reads one file of texts.
func readEdition(file string, doc *yaml.Node, found *Problems) edition {
	e := edition{Texts: map[string]string{}, Choices: map[string][]string{}, lines: map[string]int{}}
	for i := 0; i < len(doc.Content); i += 2 {
		key, value := doc.Content[i], doc.Content[i+1]
		var err error
		switch key.Value {
		case "texts":
			err = value.Decode(&e.Texts)
		case "choices":
			err = value.Decode(&e.Choices)
		case "person":
			err = value.Decode(&e.Person)
		default:
			found.addf(file, key.Line, "%q is not known; a file of texts has texts, choices and person", key.Value)
		}
		if err != nil && !misplaced(file, key.Value, value, found) {
			found.addYAML(file, value.Line, err)
		}
		e.lines[key.Value+":"] = key.Line
		for j := 0; value.Kind == yaml.MappingNode && j < len(value.Content); j += 2 {
			name := value.Content[j].Value
			if key.Value == "choices" {
				name = choiceKey(name)
			}
			e.lines[name] = value.Content[j].Line
			if text := value.Content[j+1]; key.Value == "texts" && text.Style == 0 && text.LineComment != "" {
				e.cut = append(e.cut, name)
			}
		}
	}
	for key, text := range e.Texts {
		e.Texts[key] = Typed(text) // as editors write it, one quotation mark may double the price of a text
	}
	return e
}

// misplaced names the values of a file of texts that have another form than their key asks for.
func misplaced(file, key string, value *yaml.Node, found *Problems) bool {
	before := len(*found)
	for i := 0; value.Kind == yaml.MappingNode && i+1 < len(value.Content); i += 2 {
		name, given := value.Content[i], value.Content[i+1]
		switch {
		case key == "texts" && given.Kind != yaml.ScalarNode:
			found.addf(file, name.Line,
				"texts: %s is no text; quote a text that begins with a sign, and do not indent the keys choices and person", name.Value)
		case key == "choices" && given.Kind != yaml.SequenceNode:
			found.addf(file, name.Line, "choices: %s must be a list of words, such as [late, too late]", name.Value)
		}
	}
	return len(*found) > before
}

// checkTexts holds the texts of every language to what the steps use.
func (f *Flow) checkTexts(found *Problems) {
	used := f.used()
	for _, language := range f.Languages {
		e, file := f.texts[language], language+".yaml"
		for _, key := range slices.Sorted(maps.Keys(used)) {
			if text, has := e.Texts[key]; !has || strings.TrimSpace(text) == "" {
				found.addf(file, cmp.Or(e.lines[key], e.lines["texts:"]), "text %s is missing; step %s of %s sends it", key, used[key], File)
			}
		}
		for _, key := range slices.Sorted(maps.Keys(e.Texts)) {
			if used[key] == "" {
				found.addf(file, e.lines[key], "text %s is sent by no step", key)
				continue
			}
			for _, problem := range f.textProblems(language, e.Texts[key]) {
				found.addf(file, e.lines[key], "text %s %s", key, problem)
			}
		}
		f.checkChoices(file, e, found)
		f.checkPerson(file, e, found)
	}
}

// used lists the texts that steps send, each with a step.
func (f *Flow) used() map[string]string {
	used := map[string]string{}
	for _, id := range slices.Backward(f.Order) {
		for _, text := range f.Steps[id].sends() {
			used[text] = id
		}
	}
	return used
}

// sends lists the texts of a step.
func (s Step) sends() []string {
	texts := []string{s.Text}
	if s.Negative != nil {
		texts = append(texts, s.Negative.Text)
	}
	if s.Unclear != nil {
		texts = append(texts, s.Unclear.Text)
	}
	if s.Silence != nil {
		texts = append(texts, s.Silence.Text)
	}
	return slices.DeleteFunc(texts, func(text string) bool { return text == "" })
}

// textProblems lists what is wrong with one text, each as the end of a sentence.
func (f *Flow) textProblems(language, text string) (problems []string) {
	if strings.TrimSpace(text) != text {
		problems = append(problems, "has a space or a line break around it")
	}
	if strings.ContainsFunc(text, unseen) {
		problems = append(problems, "has a character that nobody sees; write it anew")
	}
	for _, match := range placeholder.FindAllStringSubmatch(text, -1) {
		_, declared := f.Fields[match[1]]
		switch {
		case match[1] != FirstName && !declared:
			problems = append(problems, fmt.Sprintf("has the placeholder {%s}, which is neither %s nor a field", match[1], FirstName))
		case strings.TrimSpace(match[2]) == "":
			problems = append(problems, fmt.Sprintf("has no fallback in %s; write it as {%s|...}", match[0], match[1]))
		}
	}
	if strings.ContainsAny(placeholder.ReplaceAllString(text, ""), "{}") {
		problems = append(problems, "has a brace that is no placeholder such as {first_name|friend}")
	}
	if n := letters.Segments(f.widest(language, text)); n > f.Segments {
		problems = append(problems, fmt.Sprintf(
			"takes %d segments with the longest values in it; at most %d are allowed, unless segments allows more", n, f.Segments))
	}
	return problems
}

// unseen reports whether a character is a control, or changes the direction of the text.
func unseen(r rune) bool {
	return unicode.IsControl(r) && r != '\n' || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// widest is a text with the values that make it take the most segments. One letter outside GSM-7 makes the whole text dearer, so names and
// texts that people write have some.
func (f *Flow) widest(language, text string) string {
	matches := placeholder.FindAllStringSubmatchIndex(text, -1)
	values := make([][]string, len(matches))
	longest, plain := make([]string, len(matches)), make([]string, len(matches)) // of all, and of those in GSM-7
	for i, at := range matches {
		fallback := ""
		if at[4] >= 0 {
			fallback = text[at[4]:at[5]]
		}
		values[i] = append(f.longest(language, text[at[2]:at[3]]), fallback)
		longest[i] = slices.MaxFunc(values[i], func(a, b string) int { return units(a) - units(b) })
		plain[i] = slices.MaxFunc(values[i], func(a, b string) int { return septets(a) - septets(b) })
	}
	with := func(chosen []string) string {
		var b strings.Builder
		from := 0
		for i, at := range matches {
			b.WriteString(text[from:at[0]] + chosen[i])
			from = at[1]
		}
		return b.String() + text[from:]
	}
	widest := with(plain)
	most := letters.Segments(widest)
	for i := range values {
		for _, value := range values[i] { // with each value once: one may be short, and make the text dearer
			chosen := slices.Clone(longest)
			chosen[i] = value
			if all := with(chosen); letters.Segments(all) > most {
				widest, most = all, letters.Segments(all)
			}
		}
	}
	return widest
}

// units counts the room that a value takes in UCS-2.
func units(value string) int { return len(utf16.Encode([]rune(value))) }

// septets counts the room that a value takes in GSM-7, -1 where it is not in it.
func septets(value string) (n int) {
	if len(letters.Dearer(value)) > 0 {
		return -1
	}
	for _, r := range value {
		n += letters.Septets(r)
	}
	return n
}

// longest lists long values of a placeholder.
func (f *Flow) longest(language, name string) (all []string) {
	if name == FirstName {
		return []string{strings.Repeat("ã", maxName)}
	}
	switch f.Fields[name].Type {
	case Number:
		for _, n := range []float64{1e12 - 1, -1e9 + 0.5} { // the longest, without and with a sign and decimals
			all = append(all, showNumber(language, n))
		}
		return all
	case Date:
		for month := time.January; month <= time.December; month++ {
			day := time.Date(2026, month, 20, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
			all = append(all, f.show(language, Value{Type: Date, Text: day}))
		}
		return all
	case YesNo:
		return []string{f.show(language, Value{Type: YesNo, Text: yes}), f.show(language, Value{Type: YesNo, Text: no})}
	case Text, Choice, Reply, Any:
	}
	for _, id := range f.Order {
		if s := f.Steps[id]; s.Save == name && s.Expect.Type == Choice {
			for _, choice := range s.Expect.Choices {
				all = append(all, f.show(language, Value{Type: Choice, Text: choice}))
			}
		}
	}
	if all == nil {
		return []string{strings.Repeat("ã", f.shown(name))}
	}
	return all
}

// shownText limits the characters of a text field that a text shows, where its limit says nothing.
const shownText = 60

// shown returns how many characters of a text field a text shows.
func (f *Flow) shown(name string) int { return cmp.Or(f.Fields[name].Limit, shownText) }

// asks reports whether the field keeps words of the person: they may be longer, and are cut where a text shows them.
func (f *Flow) asks(name string) bool {
	return slices.ContainsFunc(f.Order, func(id string) bool {
		s := f.Steps[id]
		return s.Kind == Ask && s.Save == name && (s.Expect.Type == Text || s.Expect.Type == Reply)
	})
}

// placeholders are the names that the texts show, in any language.
func (f *Flow) placeholders() map[string]bool {
	shown := map[string]bool{}
	for _, e := range f.texts {
		for _, text := range e.Texts {
			for _, match := range placeholder.FindAllStringSubmatch(text, -1) {
				shown[match[1]] = true
			}
		}
	}
	return shown
}

// bound limits the fields that the host application alone sets, and all numbers, to what the texts show. Declared limits the others.
func (f *Flow) bound() {
	shown := f.placeholders()
	for name, field := range f.Fields {
		if shown[name] && field.Type == Number {
			field.most = maxFigures
			f.Fields[name] = field
		}
		if (shown[name] || field.Limit > 0) && !f.asks(name) && (field.Type == Text || field.Type == Choice || field.Type == Any) {
			field.most = f.shown(name)
			f.Fields[name] = field
		}
	}
}

// Language returns the flow's language for a wanted one: the same, else one of the same language, else the first.
func (f *Flow) Language(wanted string) string {
	wanted = strings.ReplaceAll(wanted, "_", "-")
	base, _, _ := strings.Cut(wanted, "-")
	best := f.Languages[0]
	for _, language := range slices.Backward(f.Languages) {
		if strings.EqualFold(language, wanted) {
			return language
		}
		if has, _, _ := strings.Cut(language, "-"); strings.EqualFold(has, base) {
			best = language
		}
	}
	return best
}

// Render returns a text as one person gets it. name is the readable part of their name, and may be empty.
func (f *Flow) Render(key, language, name string, fields map[string]Value) (string, error) {
	language = f.Language(language)
	text, has := f.texts[language].Texts[key]
	if !has {
		return "", fmt.Errorf("flow %s has no text %.60q", f.Name, key)
	}
	return letters.Compose(placeholder.ReplaceAllStringFunc(text, func(match string) string {
		parts := placeholder.FindStringSubmatch(match)
		value := name
		if parts[1] != FirstName {
			value = ""
			if v, known := fields[parts[1]]; known {
				value = f.show(language, v)
			}
			if f.asks(parts[1]) {
				value = cut(value, f.shown(parts[1]))
			}
		}
		if value == "" {
			return parts[2]
		}
		return value
	})), nil
}

// Segmented returns the segments of a text as one person gets it, and with the longest values in it.
func (f *Flow) Segmented(key string, p Person) (is, longest int, err error) {
	body, err := f.Render(key, p.Locale, p.FirstName, p.Fields)
	if err != nil {
		return 0, 0, err
	}
	language := f.Language(p.Locale)
	return letters.Segments(body), letters.Segments(f.widest(language, f.texts[language].Texts[key])), nil
}

// checkChoices holds the words for choices to the choices that there are. Two choices of one step may not share a word.
func (f *Flow) checkChoices(file string, e edition, found *Problems) {
	known := map[string]bool{yes: true, no: true}
	for _, id := range f.Order {
		owner := map[string]string{}
		for _, choice := range f.Steps[id].Expect.Choices {
			known[choice] = true
			for _, word := range e.words(choice) {
				folded := apart(word)
				f.checkWord(file, e.lines[choiceKey(choice)], choice, word, found)
				if other := owner[folded]; other != "" && other != choice {
					found.addf(file, e.lines[choiceKey(choice)], "choices: %q stands for %s and for %s in step %s", word, other, choice, id)
				}
				owner[folded] = choice
			}
		}
	}
	for _, choice := range slices.Sorted(maps.Keys(e.Choices)) {
		if !known[choice] {
			found.addf(file, e.lines[choiceKey(choice)], "choices: %s is a choice of no step", choice)
		}
	}
}

// PersonWords lists the words of the flow's own that ask for a person, in every language of it.
func (f *Flow) PersonWords() (all []string) {
	for _, language := range f.Languages {
		all = append(all, f.texts[language].Person...)
	}
	return all
}

// maxPersonWords bounds the words of a language that ask for a person.
const maxPersonWords = 50

// checkPerson refuses words that cannot ask for a person.
func (f *Flow) checkPerson(file string, e edition, found *Problems) {
	if len(e.Person) > maxPersonWords {
		found.addf(file, e.lines["person:"], "person has %d lines; at most %d are allowed", len(e.Person), maxPersonWords)
	}
	for _, word := range e.Person {
		switch folded := fold(word); {
		case folded == "":
			found.addf(file, e.lines["person:"], "person: %q has no letters", word)
		case IsConsent(word):
			found.addf(file, e.lines["person:"], "person: %q is a word like STOP, START or HELP, which no flow gets", word)
		}
	}
}

// checkWord refuses a word that cannot stand for a choice.
func (f *Flow) checkWord(file string, line int, choice, word string, found *Problems) {
	switch folded := fold(word); {
	case folded == "":
		found.addf(file, line, "choices: %q of %s has no letters", word, choice)
	case digits.FindString(folded) == folded:
		found.addf(file, line, "choices: %q of %s is a number; a number stands for the place of a choice", word, choice)
	case IsConsent(word):
		found.addf(file, line, "choices: %q of %s is a word like STOP, START or HELP, which no flow gets", word, choice)
	}
}

// IsConsent reports whether a text is a word that opts out, opts in or asks for help, in any language.
func IsConsent(text string) bool { return consentWords()[fold(text)] }

// consentWords holds those words as texts are compared.
var consentWords = sync.OnceValue(func() map[string]bool {
	words := map[string]bool{}
	for _, key := range []string{"stop", "start", "help"} {
		for _, line := range languages.Together().Lines(key) {
			words[fold(line)] = true
		}
	}
	return words
})

// words lists what a person may write for a choice.
func (e edition) words(choice string) []string {
	return append([]string{strings.ReplaceAll(choice, "_", " ")}, e.Choices[choice]...)
}
