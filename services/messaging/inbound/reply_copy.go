package inbound

import (
	"strings"

	"paceline.internal/platform/reading/languages"
	"paceline.internal/services/messaging/consent"
)

// ReplyCopy holds the words of our replies about consent. They are short, promote nothing, and name the organisation if it is known.
type ReplyCopy struct {
	Brand   string // the organisation, in a few words; may be empty
	Contact string // where people get help: an address or a number; may be empty
}

// Stopped tells a person that they get nothing more, and how to take that back. START in every language: it is the one word that lifts
// Twilio's block as well as ours.
func (c ReplyCopy) Stopped(l consent.Locale) string {
	return c.signed(languages.Of(string(l)).Text("stopped"))
}

// Asks asks a person who is held whether the texts are to stop.
func (c ReplyCopy) Asks(l consent.Locale) string {
	return c.signed(languages.Of(string(l)).Text("question"))
}

// Help tells a person why they get messages and how to get no more, and what carriers (CTIA) ask of it: how often and at what cost.
func (c ReplyCopy) Help(l consent.Locale) string {
	words := languages.Of(string(l))
	text := words.Text("help-why") + " "
	if c.Contact != "" {
		text += words.Text("help-contact") + " " + strings.TrimSuffix(c.Contact, ".") + ". "
	}
	return c.signed(text + words.Text("help-end"))
}

func (c ReplyCopy) signed(text string) string {
	if c.Brand == "" {
		return text
	}
	return c.Brand + ": " + text
}

// SentText is a message from us that a person may have had before them when they wrote.
type SentText struct{ Body, Key string }

// AskedOf returns what the last messages to a person asked, the newest first.
func AskedOf(sent []SentText) (asked consent.Asked) {
	for _, s := range sent {
		asked.Sent = append(asked.Sent, s.Body)
	}
	asked.Goal = len(sent) > 0 && confirmsGoal(sent[0].Key)
	return asked
}

// confirmsGoal tells the keys of the answers that confirm a goal, which onboarding makes: goal-answer:{message}:{text}.
func confirmsGoal(key string) bool {
	return strings.HasPrefix(key, "goal-answer:") && strings.Contains(key, ":GOAL_SCHEDULED")
}
