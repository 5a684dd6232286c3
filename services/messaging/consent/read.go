package consent

import (
	"strings"

	"paceline.internal/platform/reading"
	"paceline.internal/platform/reading/languages"
)

// Locale is the language that a person is answered in: that of the keyword or the revocation, and English of the rest.
type Locale string

// English is the first of the languages of package languages.
const English Locale = "en"

// Reading is the meaning of a text for consent, and the rules by which it was read so.
type Reading struct {
	Effect Effect
	// Rules is the version of the revocation rules, if it was they who decided; else the keywords did, or Twilio.
	Rules  string
	Locale Locale
	// Carrier is the action that Twilio takes on the text by itself.
	Carrier Carrier
	// Preferences tell what the text asks of reminders and tips; zero when it asks nothing. Effect is then what it is to a caller that reads
	// no preferences: Ambiguous, or None.
	Preferences Preferences
}

// Read returns the meaning of a text for the consent of a person who is in state current. Twilio's own reading under Advanced Opt-Out
// (STOP, START or HELP, else empty) comes first, because its block follows it; then the keywords; then a clear revocation in
// free words; then preferences, and last ambiguous revocations. A person who is out already is not asked: they get nothing either way.
// Only what is decided by Rules depends on a, the messages that we sent to the person last.
func (a Asked) Read(body, optOutType string, current State) Reading {
	_, locale := keywords(body)
	r := Reading{Locale: locale, Carrier: carrierOf(body, optOutType)}
	switch optOutType {
	case "STOP":
		r.Effect = OptOut
		return r
	case "START":
		r.Effect = OptIn
		return r
	case "HELP":
		r.Effect = Help
		return r
	}
	if r.Effect = Classify(body, current); r.Effect != None {
		return r
	}
	found, locale := a.wish(body)
	switch {
	case found == Clear:
		r.Effect, r.Rules, r.Locale = OptOut, RulesVersion, locale
		return r
	case found == Unclear && current != OptedOut:
		r.Effect, r.Rules, r.Locale = Ambiguous, RulesVersion, locale
	}
	if r.Preferences = PreferencesOf(body); !r.Preferences.Any() { // also without what it repeats of our messages, as wish reads it
		r.Preferences = PreferencesOf(reading.WithoutQuoted(body, a.Sent))
	}
	if !r.Preferences.Any() {
		r.Preferences = Preferences{}
	}
	return r
}

// Carrier is the action that Twilio takes on a text before we hear of it. Whatever it does something about, it answers, too.
type Carrier int

// What it does.
const (
	Passes Carrier = iota // nothing: the text means nothing to it
	Blocks                // it sends this person none of our messages any more, and says so
	Lifts                 // it lifts its block, and says so
	Helps                 // it sends its own help
)

// carrierOf is Twilio's list of words, https://support.twilio.com/hc/en-us/articles/223134027: the whole text, in any case.
// "Stop." is none of them. Under Advanced Opt-Out it says itself what it has understood.
func carrierOf(body, optOutType string) Carrier {
	switch optOutType {
	case "STOP":
		return Blocks
	case "START":
		return Lifts
	case "HELP":
		return Helps
	}
	switch strings.ToUpper(strings.TrimSpace(body)) {
	case "STOP", "STOPALL", "UNSUBSCRIBE", "CANCEL", "END", "QUIT", "REVOKE", "OPTOUT":
		return Blocks
	case "START", "YES", "UNSTOP":
		return Lifts
	case "HELP", "INFO":
		return Helps
	}
	return Passes
}

// LocaleOf returns the language to ask a person in: that of their profile, or of their words where we have no texts in it.
func LocaleOf(profile string, words Locale) Locale {
	if l, found := languages.All().Closest(profile); found {
		return Locale(l.Locale)
	}
	return words
}

// Asked has the last messages that we sent a person before they wrote. The zero value has none.
type Asked struct {
	Sent []string // the last messages, newest first
	Goal bool     // the newest confirms a goal, and says how to undo it
}

// wish is Revocation in the light of what was asked: words that we sent are not the person's, and what takes back a goal that we have just
// confirmed is about the goal. A keyword next to our words counts.
func (a Asked) wish(body string) (Wish, Locale) {
	own := reading.WithoutQuoted(body, a.Sent)
	switch {
	case a.Goal && reading.TakesBack(own) != reading.TakesNothing:
		return NoWish, English
	case own != body && own != "" && Classify(own, OptedIn) == OptOut:
		return Clear, English
	}
	return Revocation(own)
}
