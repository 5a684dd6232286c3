package consent

import (
	"fmt"
	"slices"
	"strings"

	"paceline.internal/platform/letters"
	"paceline.internal/platform/reading/languages"
)

// PreferencesVersion names the words of preferences. It is stored with a preference, as Version is with a keyword in the ledger.
var PreferencesVersion = languages.Version()

// Switch is the request that a message makes about one kind of messages.
type Switch int

// The switches.
const (
	Unsaid Switch = iota
	Off
	On
)

// String is the switch as logs and the store write it.
func (s Switch) String() string { return [...]string{"unsaid", "off", "on"}[s] }

// ParseSwitch reads a switch as it is stored; nothing is Unsaid.
func ParseSwitch(stored string) (Switch, error) {
	switch stored {
	case "":
		return Unsaid, nil
	case "off":
		return Off, nil
	case "on":
		return On, nil
	}
	return Unsaid, fmt.Errorf("unknown switch %q", stored)
}

// Preferences tell what a message asks about reminders and tips: narrower than consent, and apart from each other. The zero value asks
// nothing.
type Preferences struct {
	Reminders, Tips Switch
	Locale          Locale // of the words; English when nothing is asked
}

// Any reports whether something is asked.
func (p Preferences) Any() bool { return p.Reminders != Unsaid || p.Tips != Unsaid }

// PreferencesOf reads a wish to get no more reminders or tips, or to get them again. The whole
// message must be the wish, after case, diacritics, punctuation and emoji are set aside; courtesies may stand around it. Only the words
// reminder, tip, lembrete and dica are read: text, message, notification, unsubscribe, opt out and sair speak of consent, and
// whatever revokes consent is none of these. "Don't stop the reminders", "stop reminders until Monday" and "stop reminding me of my
// ex" ask nothing here. Neither do the words by which a person takes back one own reminder, which onboarding reads.
func PreferencesOf(body string) Preferences {
	nothing := Preferences{Locale: English}
	asked := nothing
	for _, part := range strings.FieldsFunc(strings.ReplaceAll(body, ":", " "), punctuates) { // "reminders: off"
		clause := strings.Join(contracted(letters.Words(part)), " ")
		if clause == "" || alone.MatchString(clause) {
			continue
		}
		clause = courtesies.ReplaceAllString(clause, "")
		things, to, locale := phraseOf(clause)
		if to == Unsaid || specific.MatchString(clause) || ofOne.MatchString(clause) {
			return nothing
		}
		asked.Locale = locale
		for thing := range strings.FieldsSeq(things) {
			target := &asked.Reminders
			switch {
			case slices.Contains(together.Lines("tip"), thing):
				target = &asked.Tips
			case !slices.Contains(together.Lines("reminder"), thing):
				continue // and, or, e, ou
			}
			if *target != Unsaid && *target != to {
				return nothing
			}
			*target = to
		}
	}
	if !asked.Any() {
		return nothing
	}
	// STOP in any of its forms is never narrowed: "stop sending me. tips", "stop, no more tips".
	if wish, _ := byRules(partsOf(body)); wish == Clear || Classify(body, OptedIn) == OptOut {
		return nothing
	}
	return asked
}

// wishes are the patterns of one language. The things that are asked about are the last group in them.
type wishes struct {
	locale  Locale
	off, on languages.Pattern
}

var allWishes = func() (all []wishes) {
	for _, l := range languages.All() {
		only := func(key string) languages.Pattern { return l.Regexp(`^(?:(?:{courteous}|{ask}) )*{` + key + `}$`) }
		all = append(all, wishes{locale: Locale(l.Locale), off: only("off"), on: only("on")})
	}
	return all
}()

// phraseOf returns what a clause asks for, and of which things.
func phraseOf(clause string) (things string, to Switch, locale Locale) {
	for _, w := range allWishes {
		for _, rule := range [...]struct {
			to    Switch
			words languages.Pattern
		}{{Off, w.off}, {On, w.on}} {
			if groups := rule.words.FindStringSubmatch(clause); groups != nil {
				return strings.Join(groups[1:], ""), rule.to, w.locale
			}
		}
	}
	return "", Unsaid, English
}

var (
	// alone is a clause that only goes with another. Yes and no are courtesies when punctuation cuts them off, and only then: "no, stop
	// reminders" and "não parar lembretes" are two things.
	alone = together.Regexp(`^(?:{aside}|{courteous})(?: {courteous})*$`)
	// courtesies may stand around a wish in any language.
	courtesies = together.Regexp(`^(?:{courteous} )+|(?: {courtesy})+$`)
	// specific is one of them and not their kind: "cancel my reminder" is about an appointment.
	specific = together.Regexp(` {specific}(?: |$)`)
	// ofOne are the words that cancel a goal which was said by text: one reminder, not reminders.
	ofOne = together.Regexp(`^{one-reminder}(?: {courteous})*$`)
)
