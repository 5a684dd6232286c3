package session

import (
	"strings"

	"paceline.internal/platform/letters"
	"paceline.internal/services/onboarding/words"
)

// later is one form of a not now, a wish to be reminded and nothing else: "remind me tomorrow", "me lembra semana que vem". The plain words
// are in reading.Refused.
var later = words.Together().Regexp(`^(?:{later-polite} )*{later-ask}(?: {later-when})*$`)

// putsOff reports whether a message asks for nothing but another time.
func putsOff(message string) bool {
	return later.MatchString(strings.Join(letters.Words(message), " "))
}
