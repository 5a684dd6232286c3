package when

import "strings"

// class says what words can be; most are one thing, some several.
type class uint64

const (
	nothing    class = 1 << iota // known, and nothing temporal: hides what it would be otherwise ("good morning")
	number                       // num
	once                         // the article that counts: "an hour", "uma hora"
	unit                         // value is a unitKind
	short                        // a unit of one or two letters, believed only after a word like "in"
	fixed                        // an amount of its own: "half an hour", num minutes
	in                           // before an amount: "in", "daqui a"
	after                        // before an amount like in; before anything else not understood
	fromNow                      // after an amount
	at                           // before a time of day
	on                           // before a day
	purpose                      // before either: "for", "para"
	dayWord                      // value days from today
	nowClock                     // "this time", "nesse horário": the time of day that it is
	weekday                      // value is a time.Weekday
	month                        // value is a time.Month
	weak                         // a weekday or month that is also another word, believed only beside a number or a time
	part                         // value is a partKind
	tonight                      // today, in the night
	noon                         // value is the hour: 12 or 0
	meridiem                     // value is 0 of am, 12 of pm
	hourMark                     // "h", "horas", "o'clock"
	sharp                        // "sharp", "em ponto"
	coming                       // "next", "próxima"; after the word too: "que vem"
	this                         // "this", "esta"
	last                         // "last", "passada"
	half                         // "half", "meia"
	quarter                      // "quarter"
	pastHour                     // "half past nine"
	toHour                       // "ten to nine", "dez para as nove"
	and                          // "and", "e"
	or                           // "or", "ou"
	bound                        // before a time, and not the time: "until", "before", "around", "between"
	vague                        // temporal and never an instant: "later", "every day"
	passed                       // "yesterday"
	ago                          // after an amount
	every                        // makes what follows a recurrence
	event                        // a time of day or a day that we do not know: "lunch", "sunset", "Christmas"
	lasting                      // makes an amount a duration: "for", "por", "durante"
	determiner                   // makes a time the name of something: "the 9am meeting"
	ordinal                      // num: "first"; a day beside a month
	suffix                       // "th" after digits
	counted                      // what ordinals count: "floor", "opção"; never a day
	measure                      // a unit that is no time: "dollars", "km"; also a street
	function                     // what may follow a bare hour
	verb                         // what a person asks for
	report                       // "tell", "avisa": what follows may be content
	clause                       // begins content with a verb of its own: "I'll", "starts"
	that                         // begins content after a report: "that", "que"
	infinitive                   // begins content after a report: "to", "para"
	question                     // at the beginning: asks for something at a time
	remind                       // "remind me"
	booking                      // has a time of its own: "table", "flight"
	moving                       // moves something to a time: "reschedule"
	reading                      // what follows may be a verse: "read John 3:16"
	enduring                     // takes hours: "sleep 8h"
	heading                      // before a colon: "reminder:"
	foreign                      // a form of two languages: says nothing of which it is
	soft                         // beside a time, makes it unclear: "always"
	ish                          // after a time: "ish", "e pouco"
	place                        // after a time: "UTC", "London time"
	decade                       // "noughts" between: "oh"
	possessive                   // "yesterday's"
)

type unitKind int

const (
	seconds unitKind = iota + 1
	minutes
	hours
	days
	weeks
	fortnights
	months
	years
)

type partKind int

const (
	dawn partKind = iota + 1
	morning
	afternoon
	evening
	night
)

// entry is what a vocabulary says of a word or of several.
type entry struct {
	class class
	num   int
	value int
}

// language is a vocabulary and what the grammar asks of the language besides.
type language struct {
	words     *node
	halfClock bool // a bare hour is one of two
	monthDay  bool // 9/25 is a month and a day, where it can be
	say       phrases
}

type node struct {
	next  map[string]*node
	entry entry
}

// row gives words their entry. Words are parted by commas, those of an entry by spaces; a class is added to what an earlier row said.
type row struct {
	class class
	value int // of a number and of an ordinal the number
	words string
}

func lexicon(rows []row) *node {
	root := &node{}
	for _, r := range rows {
		for phrase := range strings.SplitSeq(r.words, ",") {
			at := root
			for w := range strings.FieldsSeq(phrase) {
				if at.next == nil {
					at.next = map[string]*node{}
				}
				if at.next[w] == nil {
					at.next[w] = &node{}
				}
				at = at.next[w]
			}
			at.entry.class |= r.class
			switch {
			case r.class&(number|ordinal|fixed) != 0:
				at.entry.num = r.value
			case r.value != 0:
				at.entry.value = r.value
			}
		}
	}
	return root
}

// counting gives the words of a list the numbers from first on.
func counting(c class, first int, list string) []row {
	var rows []row
	for i, w := range strings.Split(list, ",") {
		rows = append(rows, row{c, first + i, w})
	}
	return rows
}
