package timeparse

import (
	"embed"
	"slices"
	"strconv"
	"strings"
)

//go:embed words/*.tsv
var files embed.FS

// class is a set of what a word can be besides its code.
type class uint32

// What is about times, but in no form, and what tells whether a number or an hour is a time.
const (
	known    class = 1 << iota
	core           // a word of time that is written in full
	vague          // temporal, and never an instant: "later", "weekends"
	doubt          // with a time anywhere in the text, makes it unclear: "maybe", "UTC"
	limit          // before a time, makes it another: "until", "around"
	soft           // next to a time, makes it another: "or so", "not"
	every          // before a word of time, makes it a recurrence
	often          // a recurrence, except where it describes: "the daily report"
	named          // a day that we do not know: "Christmas"
	meal           // a time of day that we do not know: "lunch", "sunset"
	with           // before a meal, makes it one that is shared: "with breakfast"
	numbered       // what has a number: "page 9"
	settable       // what is set to a number, or is for so many: "volume", "a table"
	measure        // what is counted, without a plural's s: "9 km"
	money          // before an amount of money
	verb           // what is asked for
	report         // "tell", "avisa": what follows may be content
	clause         // begins a sentence in the goal: "that", "I'll"
	book           // has a time itself: "book", "reschedule"
	meeting        // happens at another time: "show", "reunião"
	remind         // "remind me", "an alarm"
	verse          // has figures like times: "read John 3:16", "sleep 8h"
	polite         // says nothing: "please", "can you"
)

// grammar has the classes that forms are made of, with the byte that stands for each in their patterns.
var grammar = map[string]byte{
	"number": 'n', "zero": '0', "ordinal": '#', "th": 'e', "article": 'a', "the": 'd', "at": '@', "as": 'x', "on": 'o', "of": 'v', "for": 'p',
	"lasting": 'l', "in": 'i', "after": 'f', "about": 'b', "this": 't', "next": 'N', "coming": 'V', "last": 'L', "unit": 'u', "hour": 'H',
	"h": 'h', "short": 's', "half": 'q', "quarter": 'k', "fixed": 'F', "and": '&', "day": 'D', "tonight": 'T', "weekday": 'w',
	"wd": 'y', "month": 'm', "mon": 'j', "part": 'M', "noon": 'X', "ampm": 'A', "oclock": 'O', "from": '<', "past": '>', "to": 'c',
	"fromnow": 'Z', "passed": 'P', "ago": 'G', "time": 'E',
}

// properties are the names of the other classes in the files, in the order of the constants. Those with a letter make a time doubtful where
// no form has used them (marks.go).
var properties = strings.Fields("plain core vague doubt limit soft every often named meal with numbered settable measure money verb " +
	"report clause book meeting remind verse word")

const letters = "  BQRSWIzJU"

// entry has the classes and the value of a phrase.
type entry struct {
	code    byte // of the class that forms are made of, '_' for a word of none
	value   int
	classes class
}

func (e *entry) is(c class) bool { return e.classes&c != 0 }

// language is a vocabulary and what the forms ask of the language besides.
type language struct {
	words         map[string]entry
	begins        map[string]bool   // what longer phrases begin with
	core          map[byte][]string // words that a slip of the finger may have been meant for, by their first letter
	longestPhrase int
	english       bool // a bare hour is one of two, and 9/25 a month and a day
	forms         []form
	say           map[string]string // what answers are made of
}

var (
	english    = load(&language{english: true}, "words/en.tsv")
	portuguese = load(&language{}, "words/pt.tsv")
)

// languages are the one of a locale and the other one.
func languages(locale string) (own, other *language) {
	if strings.HasPrefix(strings.ToLower(locale), "pt") {
		return portuguese, english
	}
	return english, portuguese
}

// load reads the words of a language. The files are part of the program, and a test reads them: what is wrong there panics.
func load(l *language, name string) *language {
	l.words, l.begins, l.core, l.say = map[string]entry{}, map[string]bool{}, map[byte][]string{}, map[string]string{}
	file, err := files.ReadFile(name)
	if err != nil {
		panic(err)
	}
	for line := range strings.Lines(string(file)) {
		cells := strings.Split(strings.TrimSpace(line), "\t")
		switch {
		case len(cells) != 3 || line[0] == '#':
		case cells[0] == "form":
			l.forms = append(l.forms, newForm(cells[1], cells[2]))
		case cells[0] == "say":
			l.say[cells[1]] = cells[2]
		default:
			for phrase := range strings.SplitSeq(cells[2], ", ") {
				l.add(cells[0], cells[1], phrase)
			}
		}
	}
	return l
}

func (l *language) add(class, value, phrase string) {
	key := ""
	words := cut(phrase)
	for _, w := range words {
		if w.kind != '-' || key == "" {
			l.begins[key] = true
			key = strings.TrimPrefix(key+" "+w.text, " ")
		}
	}
	l.longestPhrase = max(l.longestPhrase, 2*len(words)) // with its hyphens
	e := l.words[key]
	e.classes |= known
	property := slices.Index(properties, class)
	if property >= 0 {
		e.classes |= 1 << property
	}
	switch code := grammar[class]; {
	case code == 0 && property < 0:
		panic("timeparse: no such class: " + class)
	case code != 0:
		e.code = code
		e.value, _ = strconv.Atoi(value) // a class without values has none
		if among(code, "uHDTwymMX") && len(key) > 3 {
			e.classes |= core
		}
	case e.code == 0 || class == "plain":
		e.code = '_'
	}
	if l.words[key] = e; e.is(core) && len(key) >= 5 {
		l.core[key[0]] = append(l.core[key[0]], key)
	}
}

func among(c byte, set string) bool { return c != 0 && strings.IndexByte(set, c) >= 0 }
