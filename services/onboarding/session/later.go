package session

import (
	"strings"

	"paceline.internal/platform/letters"
	"paceline.internal/services/onboarding/words"
)

// later asks to be reminded at another time, of nothing else: "remind me tomorrow", "me lembra semana que vem". It is a not now.
var later = words.Together().Regexp(`^(?:{later-polite} )*{later-ask}(?: {later-when})*$`)

// putsOff reports whether a message asks for nothing but another time.
func putsOff(message string) bool {
	return later.MatchString(strings.Join(letters.Words(message), " "))
}
