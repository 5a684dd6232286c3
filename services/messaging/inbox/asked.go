package inbox

import (
	"strings"

	"paceline.internal/services/messaging/consent"
)

// SentText is a message of ours that a person may have had before them when they wrote.
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
