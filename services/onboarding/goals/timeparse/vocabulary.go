package timeparse

import (
	"cmp"
	"embed"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"paceline.internal/platform/reading"
	"paceline.internal/platform/reading/languages"
)

// files has one file for each language, and common.tsv with the rows that all of them share. Its head explains the rows.
//
//go:embed words/*.tsv
var files embed.FS

// entry has the classes of a phrase, by their names, and its value.
type entry struct {
	classes []string
	code    byte // of the class that forms are made of, '_' for a word of none
	sign    byte // of the class that marks are made of
	value   int
	month   int  // of a number that is the short name of a month too: "dez"
	core    bool // a word of time that is written in full
}

func (e *entry) is(classes ...string) bool {
	return slices.ContainsFunc(e.classes, func(c string) bool { return slices.Contains(classes, c) })
}

// language is a vocabulary, the forms of its times, and its habits.
type language struct {
	name          string
	written       bool            // we write in it
	codes         map[string]byte // of the classes that forms are made of, and '_' for others
	signs         []string        // the classes that marks are made of, each with its letter before it
	words         map[string]entry
	begins        map[string]bool   // what longer phrases begin with
	core          map[byte][]string // words that a slip of the finger may have been meant for, by their first letter
	forms         []form
	marks         map[string][]string
	alone, beside *regexp.Regexp    // of marks.go
	verbs         *regexp.Regexp    // how verbs end, where there are more than a list could have
	say           map[string]string // the habits, and what answers are made of
}

// twelve reports whether a bare hour is one of two, because people count to twelve.
func (l *language) twelve() bool { return l.say["hours"] == "12" }

var all = load()

// languageOf returns the language of a locale, English for a locale of none.
func languageOf(locale string) *language {
	return all[max(0, slices.IndexFunc(all, func(l *language) bool { return strings.EqualFold(l.name, languages.Base(locale)) }))]
}

// load reads the languages. The files are part of the program, and a test reads them: what is wrong there panics.
func load() (all []*language) {
	names, _ := fs.Glob(files, "words/??.tsv") // its only error is of the pattern
	for _, name := range names {
		l := &language{
			name: strings.TrimSuffix(path.Base(name), ".tsv"), codes: map[string]byte{}, words: map[string]entry{}, begins: map[string]bool{},
			core: map[byte][]string{}, marks: map[string][]string{}, say: map[string]string{},
		}
		l.written = slices.ContainsFunc(languages.Written(), func(locale string) bool { return languages.Base(locale) == l.name })
		l.read("words/common.tsv")
		l.read(name)
		l.alone, l.beside = regexp.MustCompile(strings.Join(l.marks["alone"], "|")), regexp.MustCompile(strings.Join(l.marks["beside"], "|"))
		l.verbs = regexp.MustCompile(cmp.Or(l.say["verbs"], `$^`))
		all = append(all, l)
	}
	return all
}

func (l *language) read(name string) {
	file, err := fs.ReadFile(files, name)
	if err != nil {
		panic(err)
	}
	for line := range strings.Lines(string(file)) {
		cells := strings.Split(strings.TrimSpace(line), "\t")
		if len(cells) != 3 || line[0] == '#' {
			continue
		}
		switch kind, key, value := cells[0], cells[1], cells[2]; kind {
		case "class":
			l.codes[key] = value[0]
		case "sign":
			l.codes[key], l.signs = '_', append(l.signs, value+key)
		case "form":
			l.forms = append(l.forms, newForm(key, value))
		case "mark":
			l.marks[key] = append(l.marks[key], markNames.Replace(value))
		case "say":
			l.say[key] = value
		default:
			for phrase := range strings.SplitSeq(value, ", ") {
				l.add(kind, key, phrase)
			}
		}
	}
}

func (l *language) add(class, value, phrase string) {
	key, words := "", cut(phrase)
	for _, w := range words {
		if w.kind != '-' || key == "" {
			l.begins[key] = true
			key = strings.TrimPrefix(key+" "+w.text, " ")
		}
	}
	if len(words) == 1 {
		key = words[0].exact
	}
	e := l.words[key]
	e.classes = append(e.classes, class)
	number, _ := strconv.Atoi(value) // a class without values has none
	switch code := l.codes[class]; {
	case class == "short month":
		e.month = number
	case code == 0:
		panic("timeparse: no such class: " + class)
	case code != '_':
		e.code, e.value = code, number
		e.core = e.core || among(code, "uHDTwymMX") && len(key) > 3
	case e.code == 0 || class == "plain":
		e.code = '_'
	}
	e.core = e.core || e.is("repeat", "often")
	for _, sign := range slices.Backward(l.signs) { // the first one counts
		if e.is(sign[1:]) {
			e.sign = sign[0]
		}
	}
	if l.words[key] = e; e.core && len(key) >= 5 {
		l.core[key[0]] = append(l.core[key[0]], key)
	}
}

// word is a word, a row of digits or a mark of a text.
type word struct {
	text       string // as reading.Normalise has it
	exact      string // in lower case, with its accents
	start, end int    // bytes of the original
	glued      bool   // nothing stands between it and the word before
	kind       rune   // 'a' for letters, '0' for digits, else the mark itself
	capital    bool
}

// token finds a word with the apostrophes inside it, a row of digits, or a mark.
var token = regexp.MustCompile(`[^\PLªº](?:['’]?[^\PLªº]|\p{Mn})*|\p{Nd}+|[^\pZ\pC]`)

// cut cuts a text into words.
func cut(text string) (words []word) {
	end := -1
	for _, span := range token.FindAllStringIndex(text, -1) {
		said := text[span[0]:span[1]]
		r, _ := utf8.DecodeRuneInString(said)
		w := word{start: span[0], end: span[1], glued: span[0] == end, kind: r, text: said, capital: unicode.IsUpper(r)}
		switch {
		case unicode.IsDigit(r):
			w.kind, w.text = '0', reading.Normalise(said)
		case unicode.IsLetter(r) && r != 'ª' && r != 'º':
			w.kind, w.text = 'a', reading.Normalise(said)
		case strings.ContainsRune("–—−", r):
			w.kind, w.text = '-', "-"
		}
		if w.exact = w.text; w.kind == 'a' {
			w.exact = strings.ToLower(norm.NFC.String(said))
		}
		words, end = append(words, w), span[1]
	}
	return words
}

// item has one word, or several that the vocabulary knows together.
type item struct {
	entry
	word

	digits int      // how many, where it is a number in figures
	in     *element // that a form found
	time   bool     // in an element, or may belong to a time besides
}

// items finds the longest entries of the vocabulary in a row of words. A hyphen inside of an entry is as good as a space. A word alone may
// have an entry with its accents: "às" is not "as".
func (l *language) items(words []word) (items []item) {
	for at := 0; at < len(words); {
		it, to, phrase := item{word: words[at]}, at+1, ""
		for i := at; i < len(words); i++ {
			if words[i].kind == '-' && words[i].glued && i > at {
				continue
			}
			phrase = strings.TrimPrefix(phrase+" "+words[i].text, " ")
			if found, ok := l.words[phrase]; ok {
				it.entry, it.text, to = found, phrase, i+1
			} else if !l.begins[phrase] {
				break
			}
		}
		if found, ok := l.words[it.exact]; ok && to == at+1 {
			it.entry, it.text = found, it.exact
		}
		it.end, at = words[to-1].end, to
		it.complete(l)
		items = append(items, it)
	}
	return items
}

// complete gives a code to an item that has no entry.
func (it *item) complete(l *language) {
	switch {
	case it.code == 'H' && it.capital && len(it.text) == 2: // "call HR"
		it.code = '_'
	case it.code != 0:
	case it.kind == '0': // its value, -1 for one that no time has, and a code by its length
		it.digits = len(it.text)
		it.code = "12349"[min(it.digits, 5)-1]
		var err error
		if it.value, err = strconv.Atoi(it.text); err != nil || it.digits > 5 {
			it.value, it.code = -1, '9'
		}
	case it.kind != 'a':
		it.code = min(it.text[0], '~')
	case !it.capital && l.verbs.MatchString(it.text):
		it.code, it.classes = '_', []string{"verb"}
	default:
		it.code = '_'
	}
}

func (it *item) unknown() bool      { return it.code == '_' && len(it.classes) == 0 }
func (w *word) alphanumeric() bool  { return w.kind == 'a' || w.kind == '0' }
func among(c byte, set string) bool { return c != 0 && strings.IndexByte(set, c) >= 0 }
